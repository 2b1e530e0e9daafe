"""The kill matrix, which check caught which known mistake: for a terminal, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autograder.report import LOST
from autograder.verify import ExerciseProof, Line, Proof
from autograder.wording import points

if TYPE_CHECKING:
    from rich.console import Console

DUE, ALSO, WAITS, PASSES, TROUBLE = "X", "x", "-", ".", "!"
"""The check that must catch the mistake did; another one did; it waited for one that was lost; it saw nothing wrong; it
came to something that it may not come to.
"""

PREFACE = """\
# What the hidden suites catch

Written by `autograder verify --table`; the numbers are those of seed {seed}. Each known mistake was examined as a
student's answer: {due} is the check that must catch it, {also} another one that did, {waits} one that waited for a
check that was lost, {passes} one that saw nothing wrong, {trouble} one that came to anything else, which a proof that
holds does not have. *Left* is what the mistake leaves of the points. *Named* tells whether the feedback says which
mistake it is; *can't be* stands where the suite declares, with its reason, that this one is beyond naming.
"""


def show(proofs: Sequence[Proof], seed: int, console: Console) -> None:
    """Print the kill matrix of each exercise, how mistakes were named, and what does not hold."""
    for proof in proofs:
        for exercise in proof.exercises:
            _show_matrix(exercise, console)
    _show_naming(proofs, console)
    for line in _summary(proofs, seed):
        console.print(line, markup=False, highlight=False)


def page(proofs: Sequence[Proof], seed: int) -> str:
    """The page of the documentation, in Markdown."""
    parts = [PREFACE.format(seed=seed, due=DUE, also=ALSO, waits=WAITS, passes=PASSES, trouble=TROUBLE)]
    parts.append(_markdown_counts(proofs))
    for proof in proofs:
        parts.append(f"## {proof.assignment}\n")
        parts += [_markdown(exercise) for exercise in proof.exercises]
    return "\n".join(parts)


def _mark(line: Line, check: str) -> str:
    outcome = line.outcomes.get(check, "ungraded")
    if outcome in LOST:
        return DUE if check == line.mistake.caught_by else ALSO
    return {"skipped": WAITS, "passed": PASSES}.get(outcome, TROUBLE)


def _named(line: Line) -> str:
    if line.named == line.mistake.id:
        return "yes"
    return line.named or ("no" if line.mistake.named else "can't be")


def _legend(exercise: ExerciseProof) -> str:
    return ", ".join(f"{number} {check}" for number, check in enumerate(exercise.checks, 1))


def _show_matrix(exercise: ExerciseProof, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), title=exercise.exercise, title_justify="left")
    table.add_column("mistake", overflow="fold")
    for number in range(1, len(exercise.checks) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    table.add_column("left", justify="right")
    table.add_column("named", overflow="fold")
    for line in exercise.lines:
        style = "red" if line.problems else ""
        marks = [_mark(line, check) for check in exercise.checks]
        left = points(line.score) if line.score is not None else "?"
        table.add_row(Text(line.mistake.id), *marks, left, Text(_named(line)), style=style)
    console.print(table)
    console.print(Text(_legend(exercise), style="dim"))
    console.print()


def _show_naming(proofs: Sequence[Proof], console: Console) -> None:
    """The confusion table, with all names of an exercise in one column: where it is clean, they are the diagonal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title="made, and named in the feedback", title_justify="left")
    for heading in ("exercise", "mistakes", "as itself", "as another", "not", "can't be", "correct", "named"):
        table.add_column(heading, justify="left" if heading == "exercise" else "right", overflow="fold")
    for proof in proofs:
        for exercise in proof.exercises:
            table.add_row(Text(exercise.exercise), *map(str, _naming(exercise)))
    console.print(table)
    console.print()


def _naming(exercise: ExerciseProof) -> tuple[int, ...]:
    """Mistakes; those named as themselves, as another, not though they should be, not since they can't; and of the
    correct answers, how many there are, and how many were named.
    """
    lines = exercise.lines
    itself = sum(line.named == line.mistake.id for line in lines)
    another = sum(line.named not in (None, line.mistake.id) for line in lines)
    silent = [line for line in lines if line.named is None]
    missed = sum(line.mistake.named for line in silent)
    return len(lines), itself, another, missed, len(silent) - missed, exercise.correct, len(exercise.misnamed)


def _summary(proofs: Sequence[Proof], seed: int) -> Iterator[str]:
    exercises = [exercise for proof in proofs for exercise in proof.exercises]
    lines = [line for exercise in exercises for line in exercise.lines]
    yield (
        f"{', '.join(proof.assignment for proof in proofs)}, seed {seed}: {len(lines)} known mistakes, "
        f"{sum(not line.problems for line in lines)} caught and named as they must be; "
        f"{sum(exercise.correct for exercise in exercises)} correct answers beside the solutions"
    )
    once = [mistake for exercise in exercises for mistake in exercise.caught_once]
    if once:
        yield f"caught by one check alone: {len(once)} ({', '.join(once)})"
    for proof in proofs:
        for problem in proof.problems:
            yield f"{proof.assignment}: {problem}"
    for exercise in exercises:
        for line in exercise.lines:
            yield from (f"{exercise.exercise}: {line.mistake.id} was {problem}" for problem in line.problems)
        yield from (f"{exercise.exercise}: the check {check} caught no mistake" for check in exercise.idle_checks)
        yield from (f"{exercise.exercise}: {problem}" for problem in [*exercise.problems, *exercise.misnamed])
    yield "all of it holds" if all(proof.holds for proof in proofs) else "this does not hold"


def _markdown_counts(proofs: Sequence[Proof]) -> str:
    rows = ["| assignment | exercise | points | checks | known mistakes | by one check alone | correct answers |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for proof in proofs:
        for exercise in proof.exercises:
            cells = (proof.assignment, f"`{exercise.exercise}`", points(exercise.max_score), len(exercise.checks),
                     len(exercise.lines), len(exercise.caught_once), exercise.correct)  # fmt: skip
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows) + "\n"


def _markdown(exercise: ExerciseProof) -> str:
    numbers = [str(number) for number in range(1, len(exercise.checks) + 1)]
    rows = [f"| mistake | {' | '.join(numbers)} | left | named |", f"|---|{'---|' * len(numbers)}---|---|"]
    for line in exercise.lines:
        marks = [_mark(line, check) for check in exercise.checks]
        left = points(line.score) if line.score is not None else "?"
        rows.append(f"| {line.mistake.id} | {' | '.join(marks)} | {left} | {_named(line)} |")
    return f"### `{exercise.exercise}`\n\nChecks: {_legend(exercise)}.\n\n" + "\n".join(rows) + "\n"
