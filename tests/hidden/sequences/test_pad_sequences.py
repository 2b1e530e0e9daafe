"""Proves that an answer pads a list of sentences to one batch, and tells how long each of them is.

Rows, padding and lengths are looked at apart, in a batch whose axes and results are put in order first, by their
sizes, which all differ: a batch with the places first, or results that have changed places, are paid for once, by the
check that asks for any batch. Only one check insists that the longest sentence may stand anywhere: the others look at
lists that the answer can take.

Sentences are words with D numbers each, or single numbers where the answer can't take those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from autograder.messages import Message
from autograder.suite import (
    N_,
    CheckFailed,
    Draws,
    Student,
    StudentRaised,
    check,
    expect_close,
    expect_gradients,
    expect_shape,
    fail,
    is_refusal,
    results,
    with_hint,
)

D, FIRST = 6, 10
BATCH = N_("batch")

Sentences = Sequence[torch.Tensor]
Order = tuple[int, ...]
"""The lengths of a list of sentences, as they follow one another."""

LENGTHS: Order = (2, 7, 3, 5)
"""They neither rise nor fall, and the longest stands neither first nor last."""
LONGEST_FIRST: Order = (7, 2, 5, 3)
"""For an answer that makes room for the first sentence."""
EQUAL: Order = (7,) * len(LENGTHS)
"""For an answer that can't pad: then nothing is to be padded."""
RAGGED: tuple[Order, ...] = (LENGTHS, LONGEST_FIRST)
ANY: tuple[Order, ...] = (*RAGGED, EQUAL)


class Asked(NamedTuple):
    """A list of sentences, the order of their lengths, and what the answer returned for it."""

    sentences: Sentences
    order: Order
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


def draw(rng: Draws, *width: int, lengths: Order = LENGTHS, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Sentences of these lengths. No number stands there twice, and none is one that padding is made of.

    All are whole, of whatever dtype: a batch that cuts fractions off is told by its dtype.
    """
    numbers = FIRST + rng.shuffled(range(sum(lengths) * math.prod(width)))
    return [part.clone() for part in numbers.to(dtype).view(-1, *width).split(lengths)]


def copies(sentences: Sentences) -> list[torch.Tensor]:
    """What the student's function may change without our seeing it later."""
    return [sentence.clone() for sentence in sentences]


def call(student: Student, sentences: Sentences, *padding_value: float, **named: float) -> Any:
    """What the student's function returns for copies of the sentences.

    Where it has no default for padding_value it gets one: that is paid for by the check of the padding.
    """
    try:
        return student(copies(sentences), *padding_value, **named)
    except StudentRaised as raised:
        if "resize" in raised.message:  # torch's words would send the reader astray
            fail(N_("your function gives a sentence another size in place, and the sentence belongs to the caller: "
                    "make a longer tensor of your own"), says_all=True)  # fmt: skip
        if padding_value or named or not _lacks_an_argument(raised):
            raise
    return student(copies(sentences), 0)


def _lacks_an_argument(raised: StudentRaised) -> bool:
    return "TypeError" in raised.bases and "missing" in raised.message


def ask(
    student: Student,
    rng: Draws,
    *padding_value: float,
    orders: Sequence[Order] = RAGGED,
    dtype: torch.dtype = torch.float64,
    **named: float,
) -> Asked:
    """The student's results for words with D numbers, the longest sentence anywhere; else for what the answer takes.

    What it can't take is paid for once: word ids or numbers, by the check that asks for any batch; that the longest
    sentence need not be the first, by the one that asks for its length.
    """
    first: Exception | None = None
    for order, width in ((order, width) for order in orders for width in ((D,), ())):
        sentences = draw(rng, *width, lengths=order, dtype=dtype)
        try:
            asked = Asked(sentences, order, call(student, sentences, *padding_value, **named))
            asked.batch  # noqa: B018 - it looks at the sizes
        except (CheckFailed, StudentRaised) as no:
            first = first or no
        else:
            return asked
    assert first is not None
    raise first


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
    batch = cut(batch, shape)
    if sorted(batch.shape) != sorted(shape):
        expect_shape(batch, shape, BATCH)
    return batch.permute([batch.shape.index(size) for size in shape])


def cut(batch: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """A batch with too many places, without those: that there are too many is told where the padding is asked for."""
    too_long = batch.dim() == len(shape) and batch.shape[1] > shape[1]
    sizes = batch.shape[:1] + batch.shape[2:]
    return batch[:, : shape[1]] if too_long and tuple(sizes) == (shape[0], *shape[2:]) else batch


def lengths_in(value: Any, sentences: Sentences) -> torch.Tensor:
    """The lengths among two results: what the batch is not."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        with_hint(RETURNED, results, value, batch=None, lengths=None)
    first, second = value
    swapped = isinstance(second, torch.Tensor) and sorted(second.shape) == sorted(due(sentences))
    (lengths,) = results((first if swapped else second,), lengths=None)
    if tuple(lengths.shape) != (len(sentences),):
        fail(N_("the shape of your lengths is {seen}, expected {expected}: one number for each sentence, side by side"),
             says_all=True, seen=str(tuple(lengths.shape)), expected=str((len(sentences),)))  # fmt: skip
    return lengths


RETURNED = N_("Two things go out together, the batch and the lengths: what stands behind your `return`?")


def expect_words(batch: torch.Tensor, sentences: Sentences) -> None:
    """Row b begins with sentence b."""
    for b, sentence in enumerate(sentences):
        row = batch[b].detach()
        if _begins_with(row, sentence):
            continue
        sizes = {"b": b, "length": len(sentence), "t": len(row)}
        if _same(row[len(row) - len(sentence) :], sentence):
            fail(N_("row {b} of your batch ends with its sentence ({length} words, {t} places), expected it at the "
                    "beginning, and the padding behind it"), **sizes)  # fmt: skip
        for other, words in enumerate(sentences):
            if _begins_with(row, words):
                fail(N_("row {b} of your batch begins with sentence {other}, expected sentence {b}: sentences stay in "
                        "the order in which they came"), b=b, other=other)  # fmt: skip
        expect_close(row[: len(sentence)], sentence.detach(),
                     Message(N_("words of sentence {b} ({length} words, {t} places)"), sizes))  # fmt: skip


def _begins_with(row: torch.Tensor, sentence: torch.Tensor) -> bool:
    return _same(row[: len(sentence)], sentence)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a.double(), b.detach().double(), rtol=1e-6, atol=1e-6)


def expect_padding(batch: torch.Tensor, sentences: Sentences, padding_value: float) -> None:
    """Behind each sentence stands `padding_value`, and nothing else, in whichever row the sentence is."""
    for b, sentence in enumerate(sentences):
        row = next((row for row in batch if _begins_with(row.detach(), sentence)), batch[b])
        for place in range(len(sentence), len(row)):
            numbers = row[place].detach().double().flatten()
            wrong = ~((numbers - padding_value).abs() <= 1e-6)
            if wrong.any():
                fail(N_("your batch at sentence {b} ({length} words), place {place}: {seen}, expected "
                        "{expected}, the padding_value"), b=b, length=len(sentence), place=place,
                     seen=f"{float(numbers[wrong][0]):.4g}", expected=f"{padding_value:g}")  # fmt: skip


@check(
    points=0.5,
    title=N_("One batch comes back: a row for each sentence"),
    hint=N_("Sentences of 1, 3 and 2 words with 4 numbers each: which sizes has the batch that holds them all?"),
)
def test_rows(student: Student, rng: Draws) -> None:
    ask(student, rng, orders=ANY)


@check(
    points=0.5,
    title=N_("Each row begins with the words of its sentence"),
    hint=N_("Pad two sentences whose words are all different, and print the batch. Where does each word stand?"),
    needs="rows",
)
def test_words(student: Student, rng: Draws) -> None:
    asked = ask(student, rng)
    expect_words(asked.batch, asked.sentences)


@check(
    points=0.5,
    title=N_("The short rows are filled up to the longest sentence with padding_value, which is 0 unless it is given"),
    hint=N_("Pad the same sentences twice, the second time with padding_value=-1. Which entries should differ?"),
    needs="rows",
)
def test_padding(student: Student, rng: Draws) -> None:
    _expect_room_for_the_longest(student, rng)
    _expect_default(student, rng)
    by_default, by_place, by_name = ask(student, rng), ask(student, rng, -1), ask(student, rng, padding_value=2.5)
    for asked, padding_value in ((by_default, 0), (by_place, -1), (by_name, 2.5)):
        expect_padding(asked.batch, asked.sentences, padding_value)


def _expect_room_for_the_longest(student: Student, rng: Draws) -> None:
    """The batch is as long as the longest sentence, wherever that one stands."""
    said = {"lengths": ", ".join(map(str, LENGTHS))}
    try:
        asked = ask(student, rng, orders=[LENGTHS])
    except (CheckFailed, StudentRaised) as no:
        _fail_where_the_longest_has_to_be_first(student, rng, no, said)
        raise
    returned = asked.value[0] if isinstance(asked.value, list | tuple) else asked.value
    if isinstance(returned, torch.Tensor) and returned.shape != cut(returned, due(asked.sentences)).shape:
        fail(N_("your batch for sentences of {lengths} words has {seen} places, expected {expected}, as many as the "
                "longest of them has words"),
             says_all=True, seen=returned.shape[1], expected=max(LENGTHS), **said)  # fmt: skip


def _fail_where_the_longest_has_to_be_first(student: Student, rng: Draws, no: Exception, said: dict[str, str]) -> None:
    try:
        ask(student, rng, orders=[LONGEST_FIRST])
    except (CheckFailed, StudentRaised):
        return
    hint = N_("Where does your answer look up how long the rows have to be?")
    if isinstance(no, CheckFailed):
        fail(N_("sentences of {lengths} words: {seen}; with the longest of them in front it is right"),
             hint=hint, **said, seen=no.message)  # fmt: skip
    assert isinstance(no, StudentRaised)
    fail(N_("sentences of {lengths} words end in {error}{where}, and with the longest of them in front all goes well"),
         hint=hint, **said, error=no.type_name, where=_line(no))  # fmt: skip


def _expect_default(student: Student, rng: Draws) -> None:
    try:
        student(draw(rng, D))
    except StudentRaised as raised:
        if _lacks_an_argument(raised):
            fail(N_("your function can't be called without a padding_value: it should take 0 then"), says_all=True)


def _line(raised: StudentRaised) -> Message | str:
    return "" if raised.line is None else Message(N_(" (line {line} of the cell)"), {"line": raised.line})


@check(
    points=0.5,
    title=N_("The lengths come back as well: whole numbers in int64, one for each sentence"),
    hint=N_("Print your lengths beside the shapes of the sentences: which number of a shape counts words?"),
    needs="rows",
)
def test_lengths(student: Student, rng: Draws) -> None:
    asked = ask(student, rng, orders=ANY)
    _expect_lengths(lengths_in(asked.value, asked.sentences), asked.sentences)
    # A word may look like padding: a length is known from the sentence, and not from the batch.
    zeros_at_the_end = copies(asked.sentences)
    for sentence in zeros_at_the_end:
        sentence[-1] = 0
    found = lengths_in(call(student, zeros_at_the_end), zeros_at_the_end)
    for b, (seen, sentence) in enumerate(zip(found.tolist(), zeros_at_the_end, strict=True)):
        if seen != len(sentence):
            fail(N_("your length of sentence {b} is {seen}, and it has {expected} words, the last of them all zeros"),
                 hint=N_("How does your answer find out how long a sentence is?"),
                 b=b, seen=seen, expected=len(sentence))  # fmt: skip


def _expect_lengths(found: torch.Tensor, sentences: Sentences) -> None:
    expected = [len(sentence) for sentence in sentences]
    if found.dtype != torch.int64:
        dtype = str(found.dtype).removeprefix("torch.")
        fail(N_("the dtype of your lengths is {seen}, expected int64, which torch gives to whole numbers unless it is "
                "told otherwise"), says_all=True, seen=dtype)  # fmt: skip
    seen = found.tolist()
    if seen != expected and sorted(seen) == sorted(expected):
        fail(N_("your lengths are {seen}, expected {expected}: the right numbers, but not in the order of "
                "the sentences"), says_all=True, seen=str(seen), expected=str(expected))  # fmt: skip
    for b, (one, wanted) in enumerate(zip(seen, expected, strict=True)):
        if one != wanted:
            fail(N_("your length of sentence {b} is {seen}, and it has {expected} words"),
                 b=b, seen=one, expected=wanted)  # fmt: skip


@check(
    points=0.5,
    title=N_("The batch has the dtype of the sentences: word ids stay whole numbers"),
    hint=N_("Print the dtype of your batch, for sentences in int64 and in float64. Where does your answer choose one?"),
    needs="rows",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    for dtype in (torch.int64, torch.int32, torch.float32, torch.float64, torch.bfloat16):
        found = ask(student, rng, orders=ANY, dtype=dtype).batch.dtype
        if found != dtype:
            fail(N_("the dtype of your batch is {seen}, while the sentences are {expected}"),
                 seen=str(found).removeprefix("torch."), expected=str(dtype).removeprefix("torch."))  # fmt: skip


@check(
    points=0.5,
    title=N_("Gradients flow back into each sentence, and sentences and list stay as they were"),
    hint=N_(
        "Give sentences that require gradients, call backward() on the sum of the batch, and print each one's grad. "
        "Where does your answer leave the sentences, and go on with other numbers?"
    ),
    needs="rows",
)
def test_sources(student: Student, rng: Draws) -> None:
    # A number with a fraction: so that even a batch in the dtype of padding_value can carry gradients.
    filling = 0.5
    first = ask(student, rng, filling, orders=ANY)
    _expect_unchanged(student)
    sentences = [sentence.requires_grad_() for sentence in copies(first.sentences)]
    batch = batch_in(student(sentences, filling), sentences)
    _expect_unchanged(student)
    inputs = {f"sentences[{b}]": sentence for b, sentence in enumerate(sentences)}
    # The same everywhere: where a word stands was asked before.
    everywhere = torch.full(due(sentences), 2.0, dtype=torch.float64)
    expect_gradients(batch, reference(sentences)[0], inputs, everywhere, BATCH)
    again = batch_in(call(student, first.sentences, filling), first.sentences)
    expect_close(again, first.batch, N_("batch of the second call with the same sentences"))
    _expect_own_memory(student, first.sentences[0])


def _expect_own_memory(student: Student, sentence: torch.Tensor) -> None:
    value = student([sentence], 0)
    batch = value[0] if isinstance(value, list | tuple) and value else value
    if isinstance(batch, torch.Tensor) and _memory(batch) == _memory(sentence):
        fail(N_("your batch of a single sentence is that sentence itself, or a view of it, and no copy: who changes "
                "one changes the other"), says_all=True)  # fmt: skip


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _expect_unchanged(student: Student) -> None:
    """Over all calls of the exercise so far."""
    if "the shape of an argument" in student.changed_inputs:
        fail(N_("your function changes the list that it is given, or the shape of a sentence in it: print the list "
                "before the call and after"), says_all=True)  # fmt: skip
    if student.changed_inputs:
        fail(N_("your function writes into the sentences that it is given: print one before the call and after"),
             says_all=True)  # fmt: skip


@check(
    points=0.5,
    title=N_("(batch, lengths) comes back for any batch: word ids, words with numbers, one sentence, one word"),
    hint=N_("Try a list of one sentence, one of single words, one of word ids, and print the shape of the batch."),
    needs="rows",
)
def test_any_batch(student: Student, rng: Draws) -> None:
    order = ask(student, rng).order
    by_column = [sentence.T.contiguous().T for sentence in draw(rng, D, lengths=order)]
    for sentences in (
        draw(rng, D, lengths=order),
        draw(rng, lengths=order, dtype=torch.int64),
        draw(rng, D, lengths=(3,)),
        draw(rng, lengths=(1, 1, 1)),
        draw(rng, 1, lengths=(4, 4)),
        by_column,
    ):
        _expect_all_numbers(_strictly(call(student, sentences), sentences), sentences)


def _expect_all_numbers(batch: torch.Tensor, sentences: Sentences) -> None:
    """No number of a sentence is missing. Where each stands was asked before."""
    seen = set(batch.detach().double().flatten().tolist())
    for b, sentence in enumerate(sentences):
        missing = [number for number in sentence.flatten().tolist() if float(number) not in seen]
        if missing:
            fail(N_("your batch for sentences of {shapes}: the number {number} of sentence {b} is nowhere in it"),
                 b=b, number=f"{missing[0]:g}", shapes=_shapes(sentences))  # fmt: skip


def _shapes(sentences: Sentences) -> str:
    return ", ".join(str(tuple(sentence.shape)) for sentence in sentences)


def _strictly(value: Any, sentences: Sentences) -> torch.Tensor:
    """The first of the results, of the right shape; what the others should be is asked elsewhere."""
    shape = due(sentences)
    both = isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(x, torch.Tensor) for x in value)
    if both and tuple(value[0].shape) != shape == tuple(value[1].shape):
        results(value, batch=shape, lengths=(len(sentences),))
    batch = value[0] if isinstance(value, list | tuple) and value else value
    if isinstance(batch, torch.Tensor):
        batch = cut(batch, shape)
    (batch,) = results((batch,), batch=shape)
    return batch


@check(
    points=0.5,
    title=N_("An empty list raises a ValueError"),
    hint=N_("Call it with []. There is no longest sentence then: say so, before anything else is computed."),
)
def test_empty_list(student: Student, rng: Draws) -> None:
    try:
        value = call(student, [])
    except StudentRaised as raised:
        _expect_sentences_end_otherwise(student, rng, raised)
        if not is_refusal(raised):
            fail(N_("for an empty list your function raises {seen}, expected ValueError"), seen=raised.type_name)
        return
    if value is None:
        fail(N_("for an empty list your function returns None, expected ValueError"))
    fail(N_("for an empty list your function returns a result, expected ValueError"))


def _expect_sentences_end_otherwise(student: Student, rng: Draws, refused: StudentRaised) -> None:
    """Who refuses everything refuses nothing."""
    try:
        call(student, draw(rng, D))
    except CheckFailed:
        return
    except StudentRaised as raised:
        if (raised.type_name, raised.message, raised.line) == (refused.type_name, refused.message, refused.line):
            raise
