"""The proof of a course: its solution passes, its stub scores nothing, and its suites catch what they must.

Every known mistake and every correct answer goes through the whole engine, as a student's notebook would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autograder.catalogue import Answer, correct_answers, known_mistakes
from autograder.course import Course
from autograder.errors import CourseError
from autograder.grading import Graded, Grader
from autograder.notebook import TEST_PREFIX, Notebook, read_notebook
from autograder.report import CheckReport, ExerciseReport

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Line:
    """What came of one known mistake.

    Attributes:
        caught: the checks that it did not pass.
        named: the mistake that the feedback named, or None.
        problems: what is wrong with that.
    """

    exercise: str
    mistake: Answer
    caught: tuple[str, ...]
    named: str | None
    problems: tuple[str, ...]


@dataclass
class Proof:
    """What was found about one assignment."""

    assignment: str
    lines: list[Line] = field(default_factory=list)
    correct: int = 0
    idle_checks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether everything is as it must be."""
        return not self.problems and not any(line.problems for line in self.lines)


def verify(course: Course, assignments: Sequence[str], seed: int, workers: int, console: Console) -> bool:
    """Prove assignments and print the tables; whether all of it holds."""
    proofs = []
    with Grader(course, course.confinement.grade, workers) as grader:
        for assignment in assignments:
            proof = prove(course, assignment, grader, seed)
            proofs.append(proof)
            show(proof, seed, console)
    return all(proof.holds for proof in proofs)


def prove(course: Course, assignment: str, grader: Grader, seed: int) -> Proof:
    """Prove one assignment.

    Raises:
        CourseError: its notebooks or catalogues can't be read.
    """
    proof = Proof(assignment)
    source = read_notebook(course.source_notebook(assignment))
    release = read_notebook(course.release_notebook(assignment))
    solved, stub = grader.grade_many([source, release], assignment, seed)
    _expect_full(solved, "the solution", proof.problems)
    if stub.report.score != 0:
        proof.problems.append(f"the release notebook scores {stub.report.score}, expected 0")
    for exercise, marked in _points_in(source).items():
        declared = grader.points[assignment].get(exercise)
        if declared != marked:
            proof.problems.append(f"test_{exercise} is worth {marked:g} in the notebook and {declared} in its suite")
    for exercise in course.suites(assignment):
        _prove_exercise(course, assignment, exercise, grader, seed, source, proof)
    return proof


def _prove_exercise(
    course: Course, assignment: str, exercise: str, grader: Grader, seed: int, source: Notebook, proof: Proof
) -> None:
    hidden = course.hidden_folder(assignment)
    mistakes, correct = known_mistakes(hidden, exercise), correct_answers(hidden, exercise)
    answers = [*mistakes, *correct]
    notebooks = [_with_answer(source, exercise, answer.source) for answer in answers]
    results = list(zip(answers, grader.grade_many(notebooks, assignment, seed, exercise), strict=True))
    for answer, graded in results[: len(mistakes)]:
        proof.lines.append(_judge(exercise, answer, _exercise(graded, exercise)))
    for answer, graded in results[len(mistakes) :]:
        proof.correct += 1
        _expect_full(graded, f"the correct answer {answer.id!r} to {exercise}", proof.problems)
    kills = {check for line in proof.lines if line.exercise == exercise for check in line.caught}
    checks = _exercise(results[-1][1], exercise).checks
    proof.idle_checks += [f"{exercise}.{check.id}" for check in checks if check.id not in kills]


def _judge(exercise: str, mistake: Answer, report: ExerciseReport) -> Line:
    outcomes = {check.id: check.outcome for check in report.checks}
    caught = tuple(check for check, outcome in outcomes.items() if outcome in ("failed", "error"))
    problems = []
    if mistake.caught_by not in caught:
        problems.append(f"not caught by {mistake.caught_by}, which was {outcomes.get(mistake.caught_by)}")
    if report.mistake != mistake.id and (mistake.named or report.mistake):
        problems.append(f"named {report.mistake}" if report.mistake else "not named")
    return Line(exercise, mistake, caught, report.mistake, tuple(problems))


def _expect_full(graded: Graded, what: str, problems: list[str]) -> None:
    report = graded.report
    if report.complete:
        return
    if report.error is not None:
        problems.append(f"{what}: {report.error.render()}")
    for exercise, check in _lost(report.exercises):
        why = check.message.render() if check.message else check.outcome
        problems.append(f"{what} does not pass {exercise.id}.{check.id}: {why}")


def _lost(exercises: Sequence[ExerciseReport]) -> Iterator[tuple[ExerciseReport, CheckReport]]:
    for exercise in exercises:
        for check in exercise.checks:
            if check.outcome not in ("passed", "skipped"):
                yield exercise, check


def _exercise(graded: Graded, name: str) -> ExerciseReport:
    for exercise in graded.report.exercises:
        if exercise.id == name:
            return exercise
    error = graded.report.error
    raise CourseError(f"{name} could not be examined: {error.render() if error else 'no report'}")


def _with_answer(notebook: Notebook, exercise: str, source: str) -> Notebook:
    cells = tuple(
        replace(cell, source=source) if cell.grade_id == exercise and cell.is_solution else cell
        for cell in notebook.cells
    )
    return replace(notebook, cells=cells)


def _points_in(notebook: Notebook) -> dict[str, float]:
    return {
        cell.grade_id.removeprefix(TEST_PREFIX): cell.points
        for cell in notebook.cells
        if cell.is_grade and cell.grade_id and cell.grade_id.startswith(TEST_PREFIX)
    }


def show(proof: Proof, seed: int, console: Console) -> None:
    """Print what was found about one assignment: the known mistakes with the checks that caught them, and a summary."""
    from rich.table import Table
    from rich.text import Text

    for exercise in dict.fromkeys(line.exercise for line in proof.lines):
        table = Table(box=None, pad_edge=False, title=f"{exercise}: known mistakes", title_justify="left")
        table.add_column("mistake", overflow="fold")
        table.add_column("caught by", overflow="fold")
        table.add_column("named")
        table.add_column("", overflow="fold")
        for line in proof.lines:
            if line.exercise == exercise:
                also = [check for check in line.caught if check != line.mistake.caught_by]
                caught = Text(line.mistake.caught_by if line.mistake.caught_by in line.caught else "-")
                caught.append(f" +{len(also)}" if also else "", style="dim")
                named = "yes" if line.named == line.mistake.id else "no"
                table.add_row(line.mistake.id, caught, named, Text("; ".join(line.problems), style="red"))
        console.print(table)
        console.print()
    count = sum(line.named == line.mistake.id for line in proof.lines)
    facts = (
        f"{proof.assignment}, seed {seed}: {len(proof.lines)} known mistakes, "
        f"{sum(not line.problems for line in proof.lines)} caught as they must be, {count} named; "
        f"{proof.correct} correct answers besides the solution"
    )
    console.print(Text(facts))
    if proof.idle_checks:
        console.print(Text(f"checks that caught no mistake: {', '.join(proof.idle_checks)}", style="yellow"))
    for problem in proof.problems:
        console.print(Text(problem, style="red"))
    console.print(
        Text(
            "all of it holds" if proof.holds else "this does not hold",
            style="green" if proof.holds else "red",
        )
    )
    console.print()
