"""The course that the bank attacks, one warm grader of it, and how what comes of a case is judged."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from autograder import grading
from autograder.course import STATE_FOLDER, load_course
from autograder.errors import ConfinementUnavailable
from autograder.grading import Grader
from autograder.report import ExerciseReport, GradeReport
from tests.engine import SEED
from tests.redteam.bank import Case
from tests.redteam.ground import LOG, Ground, Memory, prepared, processes, settled, surroundings

TIER = os.environ.get("AUTOGRADER_TIER", "")
"""The tier to run the bank in; the best that there is when it is not set."""
LIMITS: dict[str, Any] = {"call_seconds": 2.0, "cell_seconds": 4.0, "submission_seconds": 20.0}


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    """The course that is attacked."""
    with prepared() as ground:
        yield ground


@pytest.fixture(scope="session")
def bank_grader(ground: Ground) -> Iterator[Grader]:
    """A warm grader, with one lane, of the course that is attacked."""
    course = load_course(ground.root)
    course = msgspec.structs.replace(course, limits=msgspec.structs.replace(course.limits, **LIMITS))
    with pytest.MonkeyPatch.context() as patch:
        # No worse tier than the one that is named, and no better one either.
        patch.setattr(grading, "TIERS", (TIER,) if TIER else ("A", "B"))
        patch.setenv("TMPDIR", str(ground.temporary))
        try:
            grader = Grader(course, TIER or "B").__enter__()
        except ConfinementUnavailable as reason:
            if TIER:  # it was asked for by name: that nothing ran must not look like success
                pytest.fail(str(reason))
            pytest.skip(str(reason))
    with grader:
        yield grader


@pytest.fixture(scope="session")
def warm(bank_grader: Grader, ground: Ground) -> str:
    """The tier, found out by the submission of an honest student, whose points nobody doubts."""
    honest = ground.root / "submitted" / "honest" / "attention" / "attention.ipynb"
    report = bank_grader.grade(honest, "attention", SEED).report
    assert report.complete, report
    return "A" if report.confinement.startswith("namespaces") else "B"


@pytest.fixture(scope="session")
def attempt(bank_grader: Grader, ground: Ground, warm: str) -> Callable[[Case], GradeReport]:
    """Grades a case, and looks at everything around it before and after; after one is before the next."""
    log = ground.root / STATE_FOLDER / LOG
    before = [(surroundings(ground), processes(ground))]

    def grade(case: Case) -> GradeReport:
        path = ground.root.parent / f"{case.family}-{case.id}" / f"{case.assignment}.ipynb"
        path.parent.mkdir()
        path.write_bytes(case.submission(ground.root))
        (around, running), said = before[0], log.read_bytes()
        lane = getattr(bank_grader._lanes, "lane", None)  # none after a fault
        memory = Memory(os.getpid(), bank_grader._examiner._process.pid, *([lane._pid] if lane else []))
        started = time.monotonic()
        report = bank_grader.grade(path, case.assignment, SEED).report
        took, grown = time.monotonic() - started, memory.growth_mb()
        # Of those before, the last one's worker may only now be buried.
        left_running = settled(lambda: processes(ground) - running, set())
        left_around = settled(lambda: surroundings(ground), around)
        before[0] = (left_around, processes(ground))
        shutil.rmtree(path.parent)
        assert log.read_bytes()[len(said) :].decode(errors="replace") == "", "a fault of the examiner"
        assert left_running == set()
        assert left_around == around
        assert took < case.seconds
        assert grown < case.memory_mb
        return report

    return grade


@pytest.fixture
def as_required(
    attempt: Callable[[Case], GradeReport], warm: str, record_property: Callable[[str, object], None]
) -> Callable[[Case], None]:
    """Asserts that a case comes to what it must come to, and to nothing else."""

    def judge(case: Case) -> None:
        if warm not in case.tiers:
            pytest.skip(f"not promised in tier {warm}")
        record_property("tier", warm)
        report = attempt(case)
        assert report.status == case.status, report.error
        assert report.status != "graded" or case.exercise in [one.id for one in report.exercises]
        for one in report.exercises:
            if one.id == case.exercise:
                assert one.score == case.score or (case.at_most and one.score < case.score), _told(one)
                assert {check.outcome for check in one.checks} - {"passed"} <= _allowed(case), _told(one)
            elif case.others_full:
                assert one.score == one.max_score, _told(one)
        said = str(report.public())
        assert case.says in said
        assert not case.unsaid or case.unsaid not in said

    return judge


def _allowed(case: Case) -> set[str]:
    lost = {"not_attempted", "failed", "error", "timeout", "crashed", "out_of_memory", "forbidden", "skipped"}
    return {*case.outcomes} or lost


def _told(exercise: ExerciseReport) -> str:
    return "\n".join(
        f"{check.id}: {check.outcome}, {check.score:g} points, {check.message and check.message.render()}"
        for check in exercise.checks
    )
