"""Proves that an answer keeps the padding out at both ends: of attention by a mask, of the loss by ``ignore_index``.

Each end is asked by itself. Where the padding's *numbers* are changed, its labels are ignored by whoever knows the
default; where its *labels* are changed, its numbers stay. Then what is left is how words are averaged.

Answers are compared with themselves where that says enough: a forgotten scale is no matter of padding, and is paid for
once. Padding that has no say has none to 1e-10; an answer that computes in float32 can't be asked to be as fine.

A loss that is no number is told once, by `a_number`, and so is one without attention: it changes with nothing that has
no say either. The checks that could only repeat it are skipped; labels at the padding are asked all the same.

Sentences are never empty, and some word of the batch always has a real label: nothing is promised for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from autograder.suite import (
    N_,
    Draws,
    Student,
    StudentRaised,
    ask,
    ask_exactly,
    check,
    expect_gradients,
    expect_inputs_unchanged,
    expect_same_number,
    fail,
    largest_change,
    number_text,
    one_number,
    results,
    same_number,
    with_last,
)

B, T, D, DK, DV, V = 3, 6, 5, 4, 7, 8
IGNORED = -100
MORE = 10
"""Pads that are added."""

NAMES = ("x", "targets", "lengths", "W_q", "W_k", "W_v", "W_out")

Inputs = tuple[torch.Tensor, ...]
"""The first seven arguments."""


def reference(
    x: torch.Tensor,
    targets: torch.Tensor,
    lengths: torch.Tensor,
    W_q: torch.Tensor,
    W_k: torch.Tensor,
    W_v: torch.Tensor,
    W_out: torch.Tensor,
    ignore_index: int = IGNORED,
) -> torch.Tensor:
    """Sentence by sentence, each cut to its length: nothing is left that could be masked."""
    losses = []
    for words, labels, n in zip(x, targets, lengths.tolist(), strict=True):
        words, labels = words[:n], labels[:n]
        logits = F.scaled_dot_product_attention(words @ W_q, words @ W_k, words @ W_v) @ W_out
        real = labels != ignore_index
        losses.append(F.nll_loss(logits[real].log_softmax(-1), labels[real], reduction="none"))
    return torch.cat(losses).mean()


def padded(lengths: torch.Tensor, t: int) -> torch.Tensor:
    """(B, t), True where no word stands."""
    return torch.arange(t) >= lengths.unsqueeze(1)


def draw(rng: Draws, lengths: Sequence[int], t: int = T, v: int = V) -> Inputs:
    """Inputs whose scores are not saturated; every class occurs, as often as the others; padding is ignored."""
    b, sizes = len(lengths), (D, DK, DV) if v == V else (v, v, v)
    return _inputs(rng, rng.shuffled(lengths), b, t, *sizes, v)


def _inputs(rng: Draws, lengths: torch.Tensor, b: int, t: int, d: int, dk: int, dv: int, v: int) -> Inputs:
    targets = (torch.arange(b * t)[rng.normal(b * t).argsort()] % v).view(b, t)
    targets = targets.masked_fill(padded(lengths, t), IGNORED)
    W_q, W_k, W_v = rng.normal(d, dk), rng.normal(d, dk), rng.normal(d, dv)
    return rng.normal(b, t, d) * 0.7, targets, lengths, W_q * 0.7, W_k * 0.7, W_v * 0.7, rng.normal(dv, v) * 0.5


def full(rng: Draws) -> Inputs:
    """Sizes that all differ, no padding."""
    return draw(rng, [T] * B)


def square(rng: Draws) -> Inputs:
    """All sizes are 4, no padding: nearly every slip runs there."""
    return draw(rng, [4] * 4, 4, 4)


def ragged(rng: Draws) -> Inputs:
    """Sizes that all differ, and another length for each sentence; one fills the batch."""
    return draw(rng, (2, 4, T))


def with_x(inputs: Inputs, x: torch.Tensor) -> Inputs:
    """The same, with other words."""
    return x, *inputs[1:]


def with_targets(inputs: Inputs, targets: torch.Tensor) -> Inputs:
    """The same, with other labels."""
    return inputs[0], targets, *inputs[2:]


def sentence(inputs: Inputs, b: int) -> Inputs:
    """One sentence alone, cut to its length."""
    x, targets, lengths, *weights = inputs
    n = int(lengths[b])
    return x[b : b + 1, :n], targets[b : b + 1, :n], lengths[b : b + 1], *weights


def loss_of(student: Student, inputs: Inputs, ignore_index: int = IGNORED) -> torch.Tensor:
    """The student's loss as a tensor without axes. Copies are passed: a change does not pile up.

    A plain number, or a tensor with one entry, will do: the check on any batch is stricter.
    """
    if ignore_index == IGNORED:
        return one_number(with_last(ask_exactly, student, *inputs, last=IGNORED))
    return one_number(ask_exactly(student, *inputs, ignore_index))


def expect_no_say(seen: torch.Tensor, before: torch.Tensor, exact: torch.Tensor, says: str, **args: Any) -> None:
    """Something changed that has no say: the loss is the same to 1e-10, or as finely as the answer computes.

    Args:
        seen: the student's loss after the change.
        before: the student's loss before.
        exact: the reference's.
        says: a sentence with ``{seen}`` and ``{expected}``.
        args: what else it takes.
    """
    if not seen.isfinite():
        fail(says, seen=number_text(seen), expected=number_text(before), **args)
    a, b = float(seen.detach()), float(before.detach())
    if abs(a - b) > largest_change(before, exact):
        digits = next((n for n in (6, 9, 12) if f"{a:.{n}g}" != f"{b:.{n}g}"), 17)
        fail(says, seen=f"{a:.{digits}g}", expected=f"{b:.{digits}g}", **args)


@check(
    points=0.5,
    title=N_("One number comes back for the whole batch, and it depends on the labels"),
    hint=N_("Follow the shapes: x is (B, T, D), the logits are (B, T, V). What is averaged in the end, and over what?"),
)
def test_one_number(student: Student, rng: Draws) -> None:
    # Equal sizes first: there nearly every slip runs, and shows which one it is.
    loss_of(student, square(rng))
    inputs = ragged(rng)
    # Each place has a class here, the padding too.
    loss = loss_of(student, with_targets(inputs, inputs[1] % V))
    others = (with_targets(inputs, (inputs[1] + more) % V) for more in range(1, V))
    if all(same_number(loss_of(student, other), loss) for other in others):  # one of them may be so by accident
        fail(N_("your loss is {seen}, whatever the labels are"), says_all=True, seen=number_text(loss))


@check(
    points=0.5,
    title=N_("The loss is a number, with padding and without, never NaN, and depends on what looks at what"),
    hint=N_(
        "Give it one sentence without padding, and print the scores, the weights and the logits. Where does the first "
        "nan stand? It comes from 0 times infinity, or from a softmax over a row of minus infinities: then, are words "
        "forbidden where padding should be? And where there is none: do other numbers in W_q make other weights, "
        "each word its own, and does the loss move with them?"
    ),
    needs="one_number",
)
def test_a_number(student: Student, rng: Draws) -> None:
    # Both are asked before either is judged: who takes words for padding has nothing left without any.
    inputs = draw(rng, (2, 3, 4))
    without, within = loss_of(student, full(rng)), loss_of(student, inputs)
    if not (without.isfinite() and within.isfinite()):
        says = N_("your loss of a batch without padding: {seen}; of a batch with padding in each sentence: {other}")
        fail(says, seen=number_text(without), other=number_text(within))
    _expect_attention(student, rng, inputs, within)


def _expect_attention(student: Student, rng: Draws, inputs: Inputs, loss: torch.Tensor) -> None:
    """Scores have a say, and words of one sentence differ. Two pads at least: who masks words instead has them left."""
    x, targets, lengths, W_q, W_k, W_v, W_out = inputs
    others = ((rng.normal(*W_q.shape), rng.normal(*W_k.shape)) for _ in range(2))
    if all(same_number(loss_of(student, (x, targets, lengths, *other, W_v, W_out)), loss) for other in others):
        says = N_("your loss stays {seen} whatever numbers are in W_q and W_k: it does not depend on attention")
        fail(says, seen=number_text(loss))
    moved = (with_targets(inputs, _moved(targets, lengths, places)) for places in (1, -1))
    if all(same_number(loss_of(student, one), loss) for one in moved):
        says = N_("your loss stays {seen} where the words of each sentence exchange their labels")
        fail(says, seen=number_text(loss))


def _moved(targets: torch.Tensor, lengths: torch.Tensor, places: int) -> torch.Tensor:
    """Labels moved on within their sentences."""
    rows = zip(targets, lengths.tolist(), strict=True)
    return torch.stack([torch.cat([labels[:n].roll(places), labels[n:]]) for labels, n in rows])


@check(
    points=0.5,
    title=N_("Without padding it is attention, then W_out, then the mean cross-entropy"),
    hint=N_(
        "Go through it step by step: Q, K and V, the scores and what they are divided by, the softmax, @ W_out. Where "
        "does F.cross_entropy look for the classes of a tensor with three axes?"
    ),
    needs="a_number",
)
def test_unpadded(student: Student, rng: Draws) -> None:
    for inputs in (square(rng), full(rng)):
        x, targets = inputs[:2]
        expect_same_number(
            loss_of(student, inputs),
            reference(*inputs),
            N_("your loss of {b} sentences of {t} words and no padding, {v} classes: {seen}, expected {expected}"),
            b=len(x),
            t=x.shape[1],
            v=1 + int(targets.max()),
        )


@check(
    points=1,
    title=N_("Other numbers at the padding of x change nothing"),
    hint=N_(
        "Write other numbers into x where the padding is, and watch the loss. Who still looks there? Which columns of "
        "the weights belong to padding, and does True in your mask mean what the function that gets it thinks? Would a "
        "word's score ever be below what you give to padding?"
    ),
    needs="a_number",
)
def test_padded_words(student: Student, rng: Draws) -> None:
    # A size of 100000 outweighs a penalty that is too small.
    for inputs, sizes in ((draw(rng, (1, 2, 3, 4), 4, 4), (1,)), (ragged(rng), (1, 1e5))):
        x, pads = inputs[0], padded(inputs[2], inputs[0].shape[1]).unsqueeze(-1)
        loss, exact = loss_of(student, inputs), reference(*inputs)
        for size in sizes:
            other = torch.where(pads, size * rng.normal(*x.shape), x)
            expect_no_say(
                loss_of(student, with_x(inputs, other)),
                loss,
                exact,
                N_("other numbers at the padding of x turn your loss from {expected} into {seen}, expected no change"),
            )
    _expect_low_scores_to_be_masked(student, rng)


def _expect_low_scores_to_be_masked(student: Student, rng: Draws) -> None:
    """A word alone, whose score with itself is far below 0: padding must lie lower still."""
    inputs, low = low_scores(rng)
    x = inputs[0]
    pads = padded(inputs[2], x.shape[1]).unsqueeze(-1)
    before = loss_of(student, inputs)
    expect_no_say(
        loss_of(student, with_x(inputs, torch.where(pads, 1000 * rng.normal(*x.shape), x))),
        before,
        reference(*inputs),
        N_(
            "where the score of a word is {low}, other numbers at the padding of x turn your loss from {expected} into "
            "{seen}, expected no change"
        ),
        low=f"{low:.0f}",
    )


def low_scores(rng: Draws) -> tuple[Inputs, float]:
    """One sentence of one word and three pads, and the word's score, below -20000; values and logits are moderate."""
    while True:
        x, targets, lengths, W_q, _, W_v, W_out = draw(rng, (1,), 4, 4)
        query = 1000 * x[0, 0] @ W_q
        low = -float(query @ query) / len(query) ** 0.5
        if low < -20_000:
            return (1000 * x, targets, lengths, W_q, -W_q, W_v / 1000, W_out), low


@check(
    points=0.5,
    title=N_("Other labels at the padding change nothing, not even labels that are no classes"),
    hint=N_(
        "Nobody promises that the padding's labels are ignore_index already. Which numbers tell you where the words "
        "end, and what has to be done with the labels before the loss sees them?"
    ),
    needs="one_number",
)
def test_padded_labels(student: Student, rng: Draws) -> None:
    inputs = ragged(rng)
    targets, pads = inputs[1], padded(inputs[2], T)
    loss, exact = loss_of(student, inputs), reference(*inputs)
    if not loss.isfinite():
        fail(N_("your loss of sentences with padding: {seen}"), seen=number_text(loss))
    for others in (rng.integers(V, B, T), V + rng.integers(1000, B, T), -1 - rng.integers(7, B, T)):
        other = torch.where(pads, others, targets)
        expect_no_say(
            loss_of(student, with_targets(inputs, other)),
            loss,
            exact,
            N_(
                "labels from {least} to {most} at the padding turn your loss from {expected} into {seen}, expected no "
                "change"
            ),
            least=int(others[pads].min()),
            most=int(others[pads].max()),
        )


@check(
    points=0.5,
    title=N_("The mean runs over the words of the batch, however many pads stand behind them"),
    hint=N_(
        "Put ten more pads behind every sentence. By what number do you divide before, and by what afterwards? And how "
        "much does a sentence of two words weigh beside one of six?"
    ),
    needs=("padded_words", "padded_labels"),
)
def test_more_padding(student: Student, rng: Draws) -> None:
    x, targets, lengths, *weights = inputs = ragged(rng)
    loss, wanted, says = loss_of(student, inputs), reference(*inputs), EXPECTED
    if not same_number(loss, wanted):
        # What a sentence costs was paid for elsewhere: what counts here is what the batch makes of it.
        own = [loss_of(student, sentence(inputs, b)) * n / lengths.sum() for b, n in enumerate(lengths)]
        wanted, says = torch.stack(own).sum(), TOGETHER
    expect_same_number(loss, wanted, says, lengths=", ".join(map(str, lengths.tolist())))
    longer = (
        torch.cat([x, rng.normal(B, MORE, D)], dim=1),
        torch.cat([targets, rng.integers(V, B, MORE)], dim=1),
        lengths,
        *weights,
    )
    expect_no_say(
        loss_of(student, longer),
        loss,
        reference(*inputs),
        N_("ten more pads turn your loss from {expected} into {seen}, expected no change"),
    )


EXPECTED = N_("your loss of sentences of {lengths} words: {seen}, expected {expected}")
TOGETHER = N_(
    "your loss of sentences of {lengths} words: {seen}, while your own losses of these sentences alone, each counted "
    "as often as it has words, have the mean {expected}"
)


@check(
    points=1,
    title=N_("A word whose label is ignore_index does not count, be it -100, -1 or a number that is a class as well"),
    hint=N_(
        "Mark some words with -1 instead of -100, and say so in the call. Does everything that has to know of "
        "ignore_index get to know of it?"
    ),
    needs="a_number",
)
def test_ignore_index(student: Student, rng: Draws) -> None:
    inputs = draw(rng, [T - 1] * B)
    targets = torch.where(inputs[1] == 2, 3, inputs[1])  # no label is 2, so that 2 may be the mark
    order = rng.normal(B, T - 1).argsort(-1).argsort(-1)
    marked = torch.cat([order < 2, torch.zeros(B, 1, dtype=torch.bool)], dim=1)
    by_default = with_targets(inputs, targets.masked_fill(marked, IGNORED))
    loss, wanted = loss_of(student, by_default), reference(*by_default)
    if not same_number(loss, wanted):
        # All words count as much as those that are marked and those that are not, together.
        every = loss_of(student, with_targets(inputs, targets))
        others = loss_of(student, with_targets(inputs, targets.masked_fill(~marked, IGNORED)))
        wanted = (every * (T - 1) - others * 2) / (T - 3)
    says = N_("your loss where 2 words of each sentence have the label -100: {seen}, expected {expected}")
    expect_same_number(loss, wanted, says)
    says = N_("your loss without ignore_index: {seen}; with ignore_index = -100, which is the default: {expected}")
    expect_same_number(one_number(ask_exactly(student, *by_default)), loss, says)
    of_class_2, negative = (
        with_targets(inputs, targets.masked_fill(marked | (targets == IGNORED), mark)) for mark in (2, -1)
    )
    expect_same_number(loss_of(student, of_class_2, 2), loss, OTHER_MARK, ignore_index=2)
    by_name = one_number(ask_exactly(student, *negative, ignore_index=-1))
    expect_same_number(by_name, loss, OTHER_MARK, ignore_index=-1)


OTHER_MARK = N_(
    "your loss with ignore_index = {ignore_index}: {seen}; the same words ignored by -100, the default: {expected}"
)


@check(
    points=0.5,
    title=N_("Gradients reach x and all four matrices"),
    hint=N_(
        "Call backward() on the loss and print the gradients. If one is None, which of your steps leaves the graph? If "
        "one is nan, is there a row of weights, be it a pad's, in which nothing is allowed?"
    ),
    needs=("unpadded", "more_padding"),
)
def test_gradients(student: Student, rng: Draws) -> None:
    inputs = ragged(rng)  # one sentence has no padding
    leaves = {name: each for name, each in zip(NAMES, inputs, strict=True) if each.is_floating_point()}
    for leaf in leaves.values():
        leaf.requires_grad_()
    loss = loss_of(student, inputs)
    expect_gradients(loss, reference(*inputs), leaves, torch.tensor(1.0, dtype=torch.float64), N_("loss"))


@check(
    points=0.5,
    title=N_("Any batch and any floating dtype will do, and sentences know nothing of one another"),
    hint=N_(
        "Try one word alone, inputs in bfloat16, words that are 50 times as large, and a batch in another order. A "
        "floating tensor without axes should come back each time."
    ),
    needs="a_number",
)
def test_any_batch(student: Student, rng: Draws) -> None:
    _expect_words_alone(student, rng)
    _expect_other_sentences_to_have_no_say(student, rng)
    x, targets, lengths, *weights = inputs = ragged(rng)
    loss = loss_of(student, inputs)
    moved = loss_of(student, (*(each.roll(1, 0) for each in inputs[:3]), *weights))
    expect_same_number(moved, loss, N_("your loss of the batch in another order: {seen}, before: {expected}"))
    by_column = [each.T.contiguous().T for each in (targets, *weights)]
    strided = loss_of(student, (x.mT.contiguous().mT, by_column[0], lengths, *by_column[1:]))
    expect_same_number(
        strided, loss, N_("your loss of inputs that are stored column by column: {seen}, else: {expected}")
    )
    for dtype, size in ((torch.float32, 1), (torch.bfloat16, 1), (torch.float32, 50), (torch.float64, 50)):
        _expect_finite(student, with_x(inputs, size * x), dtype)


def _expect_words_alone(student: Student, rng: Draws) -> None:
    """Sentences of one word each, and one such sentence."""
    inputs = draw(rng, [1, 1], 1)
    own = torch.stack([loss_of(student, sentence(inputs, b)) for b in (0, 1)])
    loss = loss_of(student, inputs)
    if not same_number(loss, own.sum()):
        says = N_("your loss of two sentences of one word: {seen}, the mean of your losses of each alone: {expected}")
        expect_same_number(loss, own.mean(), says)


def _expect_other_sentences_to_have_no_say(student: Student, rng: Draws) -> None:
    """Other words in one sentence change the loss by what they change that sentence's own loss, and no more."""
    inputs = full(rng)
    x, which = inputs[0], int(rng.integers(B))
    others = with_x(inputs, torch.where((torch.arange(B) == which).view(B, 1, 1), rng.normal(*x.shape), x))
    own_before, own_after = (loss_of(student, sentence(each, which)) for each in (inputs, others))
    loss = loss_of(student, inputs)
    expect_no_say(
        loss_of(student, others) - (own_after - own_before) / B,
        loss,
        reference(*inputs),
        N_(
            "other words in sentence {b} turn the part of the other sentences in your loss from {expected} into "
            "{seen}, expected no change"
        ),
        b=which,
    )


def _expect_finite(student: Student, inputs: Inputs, dtype: torch.dtype) -> None:
    x, targets, lengths, *weights = inputs
    value = with_last(ask, student, x.to(dtype), targets, lengths, *(each.to(dtype) for each in weights), last=IGNORED)
    (loss,) = results((value,), loss=None)
    if loss.dim():
        fail(N_("the shape of your loss is {seen}, expected no axes at all: ()"), seen=str(tuple(loss.shape)))
    if not loss.is_floating_point():
        fail(N_("the dtype of your loss is {seen}, expected a floating one"), seen=str(loss.dtype)[6:])
    if not loss.isfinite():
        fail(
            N_("your loss in {dtype}: {seen} (the largest number in x is {largest})"),
            dtype=str(dtype)[6:],
            seen=number_text(loss),
            largest=f"{float(x.abs().max()):.3g}",
        )


@check(
    points=0.5,
    title=N_("The inputs stay as they were, and the same call gives the same again"),
    hint=N_(
        "Print x, targets and lengths before and after the call. Which of your steps writes into a tensor that it was "
        "given?"
    ),
    needs="one_number",
)
def test_hygiene(student: Student, rng: Draws) -> None:
    x, targets, lengths, *weights = ragged(rng)
    targets = torch.where(targets == IGNORED, 0, targets)
    inputs = (x.float(), targets, lengths, *(each.float() for each in weights))
    try:
        first = one_number(with_last(student, *inputs, last=IGNORED))
        _expect_unchanged(student)
        loss_of(student, sentence(inputs, 0))
        again = one_number(with_last(student, *inputs, last=IGNORED))
    except StudentRaised:
        _expect_unchanged(student)
        raise
    if first.isfinite() or again.isfinite():
        says = N_("your loss at the second call with the same inputs: {seen}, at the first: {expected}")
        expect_same_number(again, first, says)
    _expect_unchanged(student)


def _expect_unchanged(student: Student) -> None:
    """Over all calls of the exercise so far."""
    expect_inputs_unchanged(student.changed_inputs)
