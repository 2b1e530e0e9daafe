"""Proves that an answer pads a list of sentences to one batch, and tells how long each of them is.

Rows, padding and lengths are looked at apart, in a batch whose axes and results are put in order first, by their
sizes, which all differ: a batch with the positions first, or results that have changed places, are paid for once,
by the check that asks for any batch.

Sentences are words with D numbers each, or single numbers where the answer can't take those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from autograder.messages import Message
from autograder.suite import (
    N_,
    Draws,
    Student,
    StudentRaised,
    check,
    expect_close,
    expect_gradients,
    expect_inputs_unchanged,
    expect_shape,
    fail,
    results,
)

LENGTHS, D, WORDS = (2, 7, 3, 5), 6, 50
BATCH = N_("batch")

Sentences = Sequence[torch.Tensor]


class Asked(NamedTuple):
    """A list of sentences, and what the answer returned for it."""

    sentences: Sentences
    value: Any

    @property
    def batch(self) -> torch.Tensor:
        """The batch with its axes in order, wherever it stands among the results."""
        return batch_in(self.value, self.sentences)


def reference(sentences: Sentences, padding_value: float = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Batch and lengths; each row is a sentence with single pads joined to it."""
    longest = max(len(sentence) for sentence in sentences)
    rows = []
    for sentence in sentences:
        pad = torch.full_like(sentence[:1], padding_value)
        rows.append(torch.cat([sentence, *[pad] * (longest - len(sentence))]))
    return torch.stack(rows), torch.tensor([len(sentence) for sentence in sentences])


def draw(
    rng: Draws, *width: int, lengths: Sequence[int] = LENGTHS, dtype: torch.dtype = torch.float64
) -> list[torch.Tensor]:
    """Sentences of these lengths, in an order that neither rises nor falls, the longest neither first nor last.

    No number is one that padding is made of.
    """
    ordered: list[int] = rng.shuffled(lengths).tolist()
    while len(set(lengths)) > 2 and max(lengths) in (ordered[0], ordered[-1]):
        ordered = rng.shuffled(lengths).tolist()
    if dtype.is_floating_point:
        return [rng.normal(n, *width, dtype=dtype) for n in ordered]
    return [10 + rng.integers(WORDS, n, *width).to(dtype) for n in ordered]


def copies(sentences: Sentences) -> list[torch.Tensor]:
    """What the student's function may change without our seeing it later."""
    return [sentence.clone() for sentence in sentences]


def ask(
    student: Student, rng: Draws, *padding_value: float, dtype: torch.dtype = torch.float64, **named: float
) -> Asked:
    """The student's results for words with D numbers; for single numbers where the function can't take those.

    What it can't take is paid for once, by the check that asks for any batch.
    """
    vectors, numbers = draw(rng, D, dtype=dtype), draw(rng, dtype=dtype)
    try:
        return Asked(vectors, student(copies(vectors), *padding_value, **named))
    except StudentRaised as raised:
        try:
            return Asked(numbers, student(copies(numbers), *padding_value, **named))
        except StudentRaised:
            raise raised from None


def due(sentences: Sentences) -> tuple[int, ...]:
    """The shape of the batch."""
    return len(sentences), max(map(len, sentences)), *sentences[0].shape[1:]


def batch_in(value: Any, sentences: Sentences) -> torch.Tensor:
    """The batch among the results, or alone, with its axes put in order: no two sizes are equal."""
    shape = due(sentences)
    if isinstance(value, torch.Tensor):
        return _in_order(value, shape)
    if isinstance(value, list | tuple) and len(value) in (2, 3):
        for item in map(_stacked, value):
            if isinstance(item, torch.Tensor) and sorted(item.shape) == sorted(shape):
                return _in_order(item, shape)
        if isinstance(value[0], torch.Tensor):
            return _in_order(value[0], shape)
    batch, _ = results(value, batch=shape, lengths=None)
    return batch


def _stacked(item: Any) -> Any:
    """Rows that were left in a list are a batch nearly: that they should be one is asked elsewhere."""
    if not isinstance(item, list | tuple) or not all(isinstance(row, torch.Tensor) for row in item):
        return item
    same = item and all((row.shape, row.dtype) == (item[0].shape, item[0].dtype) for row in item)
    return torch.stack(tuple(item)) if same else item


def _in_order(batch: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    if sorted(batch.shape) != sorted(shape):
        expect_shape(batch, shape, BATCH)
    return batch.permute([batch.shape.index(size) for size in shape])


def lengths_in(value: Any, sentences: Sentences) -> torch.Tensor:
    """The lengths among two results: what the batch is not."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        results(value, batch=None, lengths=None)
    first, second = value
    swapped = isinstance(second, torch.Tensor) and sorted(second.shape) == sorted(due(sentences))
    (lengths,) = results((first if swapped else second,), lengths=(len(sentences),))
    return lengths


def expect_words(batch: torch.Tensor, sentences: Sentences) -> None:
    """Row b begins with sentence b."""
    for b, sentence in enumerate(sentences):
        row = batch[b].detach()
        if _begins_with(row, sentence):
            continue
        place = {"b": b, "length": len(sentence), "t": len(row)}
        if _same(row[len(row) - len(sentence) :], sentence):
            fail(N_("row {b} of your batch ends with its sentence ({length} words, {t} positions), expected it at the "
                    "beginning, and the padding behind it"), **place)  # fmt: skip
        for other, words in enumerate(sentences):
            if _begins_with(row, words):
                fail(N_("row {b} of your batch begins with sentence {other}, expected sentence {b}: sentences stay in "
                        "the order in which they came"), b=b, other=other)  # fmt: skip
        expect_close(row[: len(sentence)], sentence.detach(),
                     Message(N_("words of sentence {b} ({length} words, {t} positions)"), place))  # fmt: skip


def _begins_with(row: torch.Tensor, sentence: torch.Tensor) -> bool:
    return _same(row[: len(sentence)], sentence)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a.double(), b.detach().double(), rtol=1e-6, atol=1e-6)


def expect_padding(batch: torch.Tensor, sentences: Sentences, padding_value: float) -> None:
    """Behind each sentence stands `padding_value`, and nothing else, in whichever row the sentence is."""
    for b, sentence in enumerate(sentences):
        row = next((row for row in batch if _begins_with(row.detach(), sentence)), batch[b])
        for position in range(len(sentence), len(row)):
            numbers = row[position].detach().double().flatten()
            wrong = ~((numbers - padding_value).abs() <= 1e-6)
            if wrong.any():
                fail(N_("your batch at sentence {b} ({length} words), position {position}: {seen}, expected "
                        "{expected}, the padding_value"), b=b, length=len(sentence), position=position,
                     seen=f"{float(numbers[wrong][0]):.4g}", expected=f"{padding_value:g}")  # fmt: skip


@check(
    points=0.5,
    title=N_("One batch comes back: a row for each sentence, as long as the longest of them"),
    hint=N_("Sentences of 1, 3 and 2 words with 4 numbers each: which sizes has the batch that holds them all?"),
)
def test_sizes(student: Student, rng: Draws) -> None:
    ask(student, rng).batch  # noqa: B018 - it looks at the sizes


@check(
    points=0.5,
    title=N_("Each row begins with the words of its sentence"),
    hint=N_("Pad two sentences whose words are all different, and print the batch. Where does each word stand?"),
    needs="sizes",
)
def test_words(student: Student, rng: Draws) -> None:
    asked = ask(student, rng)
    expect_words(asked.batch, asked.sentences)


@check(
    points=0.5,
    title=N_("Behind the words stands padding_value, which is 0 when nobody says otherwise"),
    hint=N_("Pad the same sentences twice, the second time with padding_value=-1. Which entries should differ?"),
    needs="sizes",
)
def test_padding(student: Student, rng: Draws) -> None:
    by_default, by_place, by_name = ask(student, rng), ask(student, rng, -1), ask(student, rng, padding_value=2.5)
    for asked, padding_value in ((by_default, 0), (by_place, -1), (by_name, 2.5)):
        expect_padding(asked.batch, asked.sentences, padding_value)


@check(
    points=0.5,
    title=N_("The lengths come back as well: whole numbers in int64, one for each sentence"),
    hint=N_("Take a sentence whose last word is all zeros. How long is it, and how does your answer find that out?"),
    needs="sizes",
)
def test_lengths(student: Student, rng: Draws) -> None:
    asked = ask(student, rng)
    # A word may look like padding: a length is known from the sentence, and not from the batch.
    zeros_at_the_end = copies(asked.sentences)
    for sentence in zeros_at_the_end:
        sentence[-1] = 0
    for sentences, value in (asked.sentences, asked.value), (zeros_at_the_end, student(copies(zeros_at_the_end))):
        found, expected = lengths_in(value, sentences), [len(sentence) for sentence in sentences]
        if found.dtype != torch.int64:
            dtype = str(found.dtype).removeprefix("torch.")
            fail(N_("the dtype of your lengths is {seen}, expected int64"), seen=dtype)
        for b, (seen, wanted) in enumerate(zip(found.tolist(), expected, strict=True)):
            if seen != wanted:
                last = N_(", the last of them all zeros") if sentences is zeros_at_the_end else ""
                fail(N_("your length of sentence {b} is {seen}, and it has {expected} words{last}"),
                     b=b, seen=seen, expected=wanted, last=Message(last))  # fmt: skip


@check(
    points=0.5,
    title=N_("The batch has the dtype of the sentences: word ids stay whole numbers"),
    hint=N_("Print the dtype of your batch, for sentences in int64 and in float64. Where does your answer choose one?"),
    needs="sizes",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    for dtype in (torch.int64, torch.int32, torch.float32, torch.float64, torch.bfloat16):
        found = ask(student, rng, dtype=dtype).batch.dtype
        if found != dtype:
            fail(N_("the dtype of your batch is {seen}, while the sentences are {expected}"),
                 seen=str(found).removeprefix("torch."), expected=str(dtype).removeprefix("torch."))  # fmt: skip


@check(
    points=0.5,
    title=N_("Gradients flow back into each sentence, and sentences and list stay as they were"),
    hint=N_(
        "Give sentences that require gradients, call backward() on the sum of the batch, and print each one's grad. "
        "And print the list before the call and after it."
    ),
    needs="sizes",
)
def test_sources(student: Student, rng: Draws) -> None:
    first = ask(student, rng)
    sentences = [sentence.requires_grad_() for sentence in copies(first.sentences)]
    batch = batch_in(student(sentences), sentences)
    _expect_unchanged(student)
    inputs = {f"sentences[{b}]": sentence for b, sentence in enumerate(sentences)}
    # The same everywhere: where a word stands was asked before.
    everywhere = torch.full(due(sentences), 2.0, dtype=torch.float64)
    expect_gradients(batch, reference(sentences)[0], inputs, everywhere, BATCH)
    again = batch_in(student(copies(first.sentences)), first.sentences)
    expect_close(again, first.batch, N_("batch of the second call with the same sentences"))
    _expect_own_memory(student, first.sentences[0])


def _expect_own_memory(student: Student, sentence: torch.Tensor) -> None:
    value = student([sentence])
    batch = value[0] if isinstance(value, list | tuple) and value else value
    if isinstance(batch, torch.Tensor) and _memory(batch) == _memory(sentence):
        fail(N_("your batch of a single sentence is that sentence itself, or a view of it, and no copy: who changes "
                "one changes the other"))  # fmt: skip


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _expect_unchanged(student: Student) -> None:
    """Over all calls of the exercise so far."""
    if "the shape of an argument" in student.changed_inputs:
        fail(N_("your function changes the list that it is given, or the shape of a sentence in it: print the list "
                "before the call and after"))  # fmt: skip
    expect_inputs_unchanged(student.changed_inputs)


@check(
    points=0.5,
    title=N_("(batch, lengths) comes back for any batch: word ids, words with numbers, one sentence, one word"),
    hint=N_("Try a list of one sentence, one of single words, one of word ids, and print the shape of the batch."),
    needs="sizes",
)
def test_any_batch(student: Student, rng: Draws) -> None:
    by_column = [sentence.T.contiguous().T for sentence in draw(rng, D)]
    for sentences in (
        draw(rng, D),
        draw(rng, dtype=torch.int64),
        draw(rng, D, lengths=(3,)),
        draw(rng, lengths=(1, 1, 1)),
        draw(rng, 1, lengths=(4, 4)),
        by_column,
    ):
        batch = _strictly(student(copies(sentences)), sentences)
        what = Message(N_("batch for sentences of {shapes}, each row sorted,"),
                       {"shapes": ", ".join(str(tuple(sentence.shape)) for sentence in sentences)})  # fmt: skip
        # Where in its row a word stands was asked before.
        expect_close(batch.sort(1).values, reference(sentences)[0].sort(1).values, what)


def _strictly(value: Any, sentences: Sentences) -> torch.Tensor:
    """The first of two results, of the right shape; what the other should be is asked elsewhere."""
    shape = due(sentences)
    both = isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(x, torch.Tensor) for x in value)
    if isinstance(value, torch.Tensor):
        batch = value  # that there are no lengths was told with them
    elif both and tuple(value[0].shape) != shape == tuple(value[1].shape):
        batch, _ = results(value, batch=shape, lengths=(len(sentences),))
    elif isinstance(value, list | tuple) and len(value) == 2:
        batch = value[0]
    else:
        batch, _ = results(value, batch=shape, lengths=None)
    (batch,) = results((batch,), batch=shape)
    return batch


@check(
    points=0.5,
    title=N_("An empty list is refused with a ValueError of your own"),
    hint=N_("Call it with []. There is no longest sentence then: say so, before anything else is computed."),
)
def test_empty_list(student: Student, rng: Draws) -> None:
    ask(student, rng)  # who refuses everything refuses nothing
    try:
        value = student([])
    except StudentRaised as raised:
        if not is_refusal(raised):
            fail(N_("for an empty list your function raises {seen}, expected ValueError"), seen=raised.type_name)
        return
    if value is None:
        fail(N_("for an empty list your function returns None, expected ValueError"))
    fail(N_("for an empty list your function returns a result, expected ValueError"))


def is_refusal(raised: StudentRaised) -> bool:
    """A ValueError or AssertionError, also where TorchScript has wrapped it into an error of its own."""
    refusals = {"ValueError", "AssertionError"}
    wrapped = raised.type_name == "Error" and any(name in raised.message for name in refusals)
    return wrapped or not refusals.isdisjoint(raised.bases)
