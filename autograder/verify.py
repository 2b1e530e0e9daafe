"""The proof of a course: its solution passes, its stub scores nothing, and its suites catch what they must.

Every correct answer is run and examined as a student's would be, in a cell of its own; known mistakes, which are many,
meet the same checks and the same diagnosis in the examiner's own process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder.catalogue import Answer, correct_answers, known_mistakes
from autograder.course import Course, Exercise
from autograder.grading import AloneAnswer, Graded, Grader, KnownMistake
from autograder.notebook import TEST_PREFIX, Notebook, read_notebook
from autograder.report import LOST, CheckReport, ExerciseReport, Outcome

SEEN: tuple[Outcome, ...] = ("passed", "skipped", *LOST)
"""What a check of a known mistake may come to."""


@dataclass(frozen=True)
class Line:
    """What came of one known mistake.

    Attributes:
        outcomes: of each check, by id, in the order of the suite.
        named: the mistake that the feedback named, or None.
        score: what it leaves of the exercise's points.
    """

    mistake: Answer
    outcomes: dict[str, Outcome]
    named: str | None
    score: float | None

    @property
    def caught(self) -> tuple[str, ...]:
        """The checks that it did not pass."""
        return tuple(check for check, outcome in self.outcomes.items() if outcome in LOST)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with that."""
        found = []
        due = self.mistake.caught_by
        if due not in self.caught:
            found.append(f"not caught by {due}, which was {self.outcomes.get(due)}")
        found += [f"{check} was {outcome}" for check, outcome in self.outcomes.items() if outcome not in SEEN]
        if self.named != self.mistake.id and (self.mistake.named or self.named):
            found.append(f"named {self.named}" if self.named else "not named")
        return tuple(found)


@dataclass
class ExerciseProof:
    """What was found about one exercise.

    Attributes:
        checks: the ids of the suite's checks, in its order.
        lines: one for each known mistake.
        correct: how many correct answers there are, beside the solution.
        misnamed: correct answers whose feedback names a mistake.
        problems: what else is wrong.
    """

    exercise: str
    max_score: float
    checks: tuple[str, ...] = ()
    lines: list[Line] = field(default_factory=list)
    correct: int = 0
    misnamed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def idle_checks(self) -> list[str]:
        """Checks that caught no mistake."""
        return [check for check in self.checks if not any(check in line.caught for line in self.lines)]

    @property
    def caught_once(self) -> list[str]:
        """Mistakes that one check of several caught alone."""
        if len(self.checks) == 1:
            return []
        return [line.mistake.id for line in self.lines if len(line.caught) == 1]

    @property
    def holds(self) -> bool:
        """Whether everything is as it must be."""
        return not (self.problems or self.misnamed or self.idle_checks or any(line.problems for line in self.lines))


@dataclass
class Proof:
    """What was found about one assignment."""

    assignment: str
    exercises: list[ExerciseProof] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether everything is as it must be."""
        return not self.problems and all(exercise.holds for exercise in self.exercises)


Progress = Callable[[Iterator[ExerciseReport], int], Iterator[ExerciseReport]]


def prove(
    course: Course,
    assignments: Sequence[str],
    grader: Grader,
    seed: int,
    progress: Progress = lambda reports, total: reports,
) -> list[Proof]:
    """Prove assignments.

    Args:
        course: their course.
        assignments: their names.
        grader: examines the answers.
        seed: of the checks' random draws.
        progress: shows how far it has got: takes the reports as they come, and their number, and hands them on.

    Raises:
        CourseError: their notebooks or catalogues can't be read.
        GraderFault: an answer could not be examined.
    """
    exercises = [(name, exercise) for name in assignments for exercise in course.suites(name)]
    mistakes = {key: known_mistakes(*_catalogue(course, *key)) for key in exercises}
    correct = {key: correct_answers(*_catalogue(course, *key)) for key in exercises}
    # All in one go: at the end of each part, workers would wait for its slowest answer.
    known = [KnownMistake(*key, one.id) for key, each in mistakes.items() for one in each]
    alone = [AloneAnswer(*key, one.source) for key, each in correct.items() for one in each]
    reports = progress(grader.examine([*alone, *known], seed), len(alone) + len(known))
    proofs = {name: Proof(name, [ExerciseProof(e, grader.points[name][e]) for n, e in exercises if n == name])
              for name in assignments}  # fmt: skip
    found = {(name, exercise.exercise): exercise for name, proof in proofs.items() for exercise in proof.exercises}
    for key, answers in correct.items():
        _judge_correct(found[key], answers, reports)
    for key, answers in mistakes.items():
        found[key].lines = [_line(answer, next(reports)) for answer in answers]
    _prove_notebooks(course, grader, seed, proofs)
    return list(proofs.values())


def _catalogue(course: Course, assignment: str, exercise: str) -> tuple[Path, Exercise]:
    return course.hidden_folder(assignment), course.assignment(assignment).exercises[exercise]


def _line(mistake: Answer, report: ExerciseReport) -> Line:
    return Line(mistake, {check.id: check.outcome for check in report.checks}, report.mistake, report.score)


def _judge_correct(proof: ExerciseProof, answers: Sequence[Answer], reports: Iterator[ExerciseReport]) -> None:
    """Take the next reports, one for each correct answer."""
    for answer in answers:
        report = next(reports)
        proof.checks = tuple(check.id for check in report.checks)
        proof.correct += 1
        if report.mistake is not None:
            proof.misnamed.append(f"the correct answer {answer.id!r} to {proof.exercise} was named {report.mistake}")
        if report.score != proof.max_score:
            proof.problems += _losses([report], f"the correct answer {answer.id!r}")


def _prove_notebooks(course: Course, grader: Grader, seed: int, proofs: Mapping[str, Proof]) -> None:
    """Each solved notebook earns everything, the released one nothing, and the points are those of the suites."""
    sources = [read_notebook(course.source_notebook(name)) for name in proofs]
    releases = [read_notebook(course.release_notebook(name)) for name in proofs]
    graded = list(grader.grade_many([(notebook, None) for notebook in (*sources, *releases)], seed))
    for (name, proof), source, solved, stub in zip(
        proofs.items(), sources, graded[: len(proofs)], graded[len(proofs) :], strict=True
    ):
        _expect_full(solved, proof.problems)
        if stub.report.score != 0:
            proof.problems.append(f"the release notebook scores {stub.report.score}, expected 0")
        for exercise, marked in _points_in(source).items():
            declared = grader.points[name].get(exercise)
            if declared != marked:
                said = f"test_{exercise} is worth {marked:g} in the notebook and {declared} in its suite"
                proof.problems.append(said)


def _expect_full(graded: Graded, problems: list[str]) -> None:
    report = graded.report
    if report.complete:
        return
    if report.error is not None:
        problems.append(f"the solution: {report.error.render()}")
    problems += _losses(report.exercises, "the solution")


def _losses(exercises: Sequence[ExerciseReport], whose: str) -> list[str]:
    return [
        f"{whose} does not pass {exercise.id}.{check.id}: {check.message.render() if check.message else check.outcome}"
        for exercise, check in _lost(exercises)
    ]


def _lost(exercises: Sequence[ExerciseReport]) -> Iterator[tuple[ExerciseReport, CheckReport]]:
    for exercise in exercises:
        for check in exercise.checks:
            if check.outcome not in ("passed", "skipped"):
                yield exercise, check


def _points_in(notebook: Notebook) -> dict[str, float]:
    return {
        cell.grade_id.removeprefix(TEST_PREFIX): cell.points
        for cell in notebook.cells
        if cell.is_grade and cell.grade_id and cell.grade_id.startswith(TEST_PREFIX)
    }
