"""Proves that an answer takes the padding out of the targets: a copy, ``ignore_index`` where no word stands.

The padded places and the words are looked at apart: an answer that is off by one loses what it is off by. Labels at
padded places are drawn like all others, since nothing says what a batch holds there.

An answer that keeps hardly any label has not told words from padding, and is stopped by the first check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autograder.suite import (
    N_,
    Draws,
    Student,
    ask,
    check,
    expect_inputs_unchanged,
    fail,
    results,
    with_last,
)

IGNORED = -100
SQUARE, LENGTHS, T, CLASSES = (1, 2, 3, 4), (2, 6, 3), 6, 5
WIDER = T + 1
"""Positions of a batch that is wider than its longest sentence."""

TARGETS = N_("targets")


def padded(targets: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """(B, T), True where no word stands."""
    return torch.tensor([[position >= n for position in range(targets.shape[1])] for n in lengths.tolist()])


def reference(targets: torch.Tensor, lengths: torch.Tensor, ignore_index: int = IGNORED) -> torch.Tensor:
    """The targets, row by row, in plain Python."""
    rows = zip(targets.tolist(), lengths.tolist(), strict=True)
    return torch.tensor([row[:n] + [ignore_index] * (len(row) - n) for row, n in rows])


def draw(rng: Draws, lengths: Sequence[int] = LENGTHS, t: int = T) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets and lengths: each class occurs about as often as the others, the lengths come in no order.

    Where lengths differ, the first sentence is neither the shortest nor the longest.
    """
    count = len(lengths) * t
    labels = torch.arange(count)[rng.normal(count).argsort()] % CLASSES
    while True:
        drawn = rng.shuffled(lengths)
        if len(set(lengths)) == 1 or int(drawn[0]) not in (min(lengths), max(lengths)):
            return labels.view(len(lengths), t), drawn


def draw_square(rng: Draws) -> tuple[torch.Tensor, torch.Tensor]:
    """As many sentences as positions: lengths along the wrong axis run there."""
    return draw(rng, SQUARE, len(SQUARE))


def targets_of(
    student: Student, targets: torch.Tensor, lengths: torch.Tensor, ignore_index: int = IGNORED
) -> torch.Tensor:
    """The student's targets, of the right shape. Copies are passed: a change does not pile up."""
    if ignore_index == IGNORED:
        return _unpack(with_last(ask, student, targets, lengths, last=IGNORED), targets)
    return _unpack(ask(student, targets, lengths, ignore_index), targets)


def _unpack(value: Any, targets: torch.Tensor) -> torch.Tensor:
    (found,) = results(value if value is None else (value,), targets=tuple(targets.shape))
    return found


def expect_ignored(
    found: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, ignore_index: int = IGNORED
) -> None:
    """`ignore_index` stands at every padded place."""
    where = padded(targets, lengths)
    wrong = (where & (found != ignore_index)).nonzero()
    if len(wrong):
        b, position = wrong[0].tolist()
        fail(
            N_(
                "your targets at sentence {b} (length {length} of {t}), position {position}: {seen}, expected "
                "{expected}, since no word stands there ({count} of {total} padded places differ)"
            ),
            b=b, length=int(lengths[b]), t=where.shape[1], position=position, seen=_label(found[b, position]),
            expected=ignore_index, count=len(wrong), total=int(where.sum()),
        )  # fmt: skip


def expect_words_kept(found: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor) -> None:
    """The labels of all words are as they were."""
    where = ~padded(targets, lengths)
    wrong = (where & (found != targets)).nonzero()
    if len(wrong):
        b, position = wrong[0].tolist()
        fail(
            N_(
                "your targets at sentence {b} (length {length} of {t}), position {position}: {seen}, expected "
                "{expected}, the label of the word there ({count} of {total} words have lost their labels)"
            ),
            b=b, length=int(lengths[b]), t=where.shape[1], position=position, seen=_label(found[b, position]),
            expected=int(targets[b, position]), count=len(wrong), total=int(where.sum()),
        )  # fmt: skip


def _label(entry: torch.Tensor) -> str:
    return f"{float(entry):g}"


@check(
    points=0.5,
    title=N_("Targets come back, as many as came in, and labels are left among them"),
    hint=N_(
        "A batch of 2 sentences and 5 positions goes in, some of them empty. How many numbers should come out, and how "
        "many of them should be as they were?"
    ),
)
def test_shape(student: Student, rng: Draws) -> None:
    # Equal sizes first: there nearly every slip runs, and shows which one it is.
    targets_of(student, *draw_square(rng))
    targets, lengths = draw(rng)
    kept = int((targets_of(student, targets, lengths) == targets).sum())
    # No number fills a quarter of the targets, nor do the first words of the sentences.
    if 4 * kept < targets.numel():
        fail(
            N_("{count} of your {total} targets are as they were, and {words} words stand in the batch"),
            count=kept,
            total=targets.numel(),
            words=int(lengths.sum()),
        )


@check(
    points=1,
    title=N_("Every padded place holds ignore_index"),
    hint=N_(
        "Take one sentence of 2 words and T = 5, and write its row by hand. At which positions stands no word? Then "
        "think of a batch that is wider than its longest sentence: where does T stand?"
    ),
    needs="shape",
)
def test_padding(student: Student, rng: Draws) -> None:
    for targets, lengths in (draw(rng, t=WIDER), draw_square(rng), draw(rng)):
        expect_ignored(targets_of(student, targets, lengths), targets, lengths)


@check(
    points=0.5,
    title=N_("Every word keeps its label, class 0 as well"),
    hint=N_("Compare the first lengths[b] labels of each row before and after. Which of them are different now?"),
    needs="shape",
)
def test_words(student: Student, rng: Draws) -> None:
    for targets, lengths in (draw_square(rng), draw(rng)):
        expect_words_kept(targets_of(student, targets, lengths), targets, lengths)


@check(
    points=0.5,
    title=N_("Any ignore_index will do: -100 by default, -1, 0, a number that is a class as well"),
    hint=N_("Call it with ignore_index = -1, and then with ignore_index = 3. What stands at the padding each time?"),
    needs="shape",
)
def test_ignore_index(student: Student, rng: Draws) -> None:
    targets, lengths = draw(rng)
    by_default = _unpack(ask(student, targets, lengths), targets)
    _expect_as_with_the_default(student, by_default, targets, lengths)
    by_name = _unpack(ask(student, targets, lengths, ignore_index=-1), targets)
    _expect_as_with_the_default(student, by_name, targets, lengths, -1)
    for ignore_index in (CLASSES - 2, 0):
        targets, lengths = draw(rng)
        found = targets_of(student, targets, lengths, ignore_index)
        _expect_as_with_the_default(student, found, targets, lengths, ignore_index)


def _expect_as_with_the_default(
    student: Student, found: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, ignore_index: int = IGNORED
) -> None:
    """Right, or at least right wherever the answer puts -100 when told to: which places these are was paid for."""
    if torch.equal(found, reference(targets, lengths, ignore_index)):
        return
    with_default = targets_of(student, targets, lengths)
    where = with_default == IGNORED
    if not where.any():
        fail(N_("with ignore_index = -100, the default, no place of your targets holds -100"))
    wrong = (found != torch.where(where, ignore_index, with_default)).nonzero()
    if len(wrong):
        b, position = wrong[0].tolist()
        fail(
            N_(
                "your targets at sentence {b}, position {position}: {seen} where ignore_index should be "
                "{ignore_index}, {default} where it is -100"
            ),
            ignore_index=ignore_index,
            b=b,
            position=position,
            seen=_label(found[b, position]),
            default=_label(with_default[b, position]),
        )


@check(
    points=0.5,
    title=N_("The labels come back in the integer dtype in which they came"),
    hint=N_(
        "Print the dtype of your result, and of the targets, for targets in int64 and in int32. Which of your steps "
        "brings another one in?"
    ),
    needs="shape",
)
def test_dtype(student: Student, rng: Draws) -> None:
    targets, lengths = draw(rng)
    for dtype in (torch.int64, torch.int32):
        found = targets_of(student, targets.to(dtype), lengths)
        if found.dtype != dtype:
            fail(
                N_("the dtype of your targets is {seen}, expected {expected}, as they came"),
                seen=str(found.dtype).removeprefix("torch."),
                expected=str(dtype).removeprefix("torch."),
            )


@check(
    points=0.5,
    title=N_("A copy comes back, and what was given stays as it was"),
    hint=N_(
        "Print targets before and after the call. Then change the result: do the targets change with it? Try it with "
        "a batch without padding, too."
    ),
    needs="shape",
)
def test_copy(student: Student, rng: Draws) -> None:
    targets, lengths = draw(rng)
    first = _unpack(with_last(student, targets, lengths, last=IGNORED), targets)
    _expect_unchanged(student)
    full = torch.full_like(lengths, T)
    _expect_own_memory(_unpack(with_last(student, targets, full, last=IGNORED), targets), targets)
    again = _unpack(with_last(student, targets, lengths, last=IGNORED), targets)
    _expect_own_memory(again, targets)
    _expect_unchanged(student)
    if not torch.equal(again, first):
        fail(N_("the second call with the same inputs gives other targets than the first"))


def _expect_own_memory(found: torch.Tensor, targets: torch.Tensor) -> None:
    if found.untyped_storage().data_ptr() == targets.untyped_storage().data_ptr():
        fail(
            N_(
                "your result is the caller's own tensor, or a view of it, and no copy: who changes one changes the "
                "other"
            )
        )


def _expect_unchanged(student: Student) -> None:
    """Over all calls of the exercise so far."""
    expect_inputs_unchanged(student.changed_inputs)


@check(
    points=0.5,
    title=N_("Any batch will do: one sentence, one word, no padding at all"),
    hint=N_("Try a batch of one sentence, one of single words, and one in which all sentences fill all positions."),
    needs=("padding", "words"),
)
def test_any_batch(student: Student, rng: Draws) -> None:
    by_column = draw(rng)[0].T.contiguous().T
    for targets, lengths in (
        draw(rng, (3,), 5),
        draw(rng, (1, 1, 1), 1),
        draw(rng, (4, 4), 4),
        (by_column, rng.shuffled(LENGTHS)),
    ):
        found = targets_of(student, targets, lengths)
        expect_ignored(found, targets, lengths)
        expect_words_kept(found, targets, lengths)
