"""A class of which half is hostile, graded by the class command: the honest get what they earned, twice alike.

A dozen students are graded with the other tests; `python -m tests.redteam.test_class` grades sixty.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder.course import STATE_FOLDER
from tests.engine import ATTENTION, ROOT, attention
from tests.nbgrader.rows import rows
from tests.redteam.bank import FAMILIES, Case, cases, document, file_of
from tests.redteam.ground import Ground, prepared, processes, settled, surroundings

LIMITS = {"call_seconds": 1, "cell_seconds": 2, "submission_seconds": 10}
SEED = "20261129"

# What the honest hand in, and what that is worth.
HONEST: tuple[tuple[dict[str, str], float], ...] = (
    ({}, 20),
    ({ATTENTION: attention("return V * 0, V * 0")}, 4),
    ({"project_qkv": "def project_qkv(x, W_q, W_k, W_v):\n    return None"}, 16),
)

# These need more time than a class has for each.
SLOW = {"large-notebook", "large-output", "many-small-values", "many-endless-cells", "ten-thousand-cells", "many-cells"}


@dataclass(frozen=True)
class Student:
    """One of the class: its name, its file, and what must come of it."""

    name: str
    content: bytes
    score: float | None
    case: Case | None = None


@dataclass(frozen=True)
class Run:
    """What one run of the command has said of each student, what it recorded, and how long it took."""

    reports: dict[str, dict[str, Any]]
    rows: dict[str, list[tuple[Any, ...]]]
    seconds: float


def hostile(count: int) -> list[Case]:
    """So many of the bank's cases, the same number of each family as far as there are."""
    families = [
        [
            case
            for case in cases()
            if case.family == family and case.assignment == "attention" and case.id not in SLOW and case.seconds <= 20
        ]
        for family in FAMILIES
    ]
    longest = max(map(len, families))
    ordered = [family[place] for place in range(longest) for family in families if place < len(family)]
    return ordered[:count]


def students(count: int, ground: Ground) -> list[Student]:
    """A class of `count`, every other one hostile."""
    made = []
    for number, case in enumerate(hostile(count // 2)):
        answers, score = HONEST[number % len(HONEST)]
        made.append(Student(f"s{2 * number:02}-honest", file_of(document(answers=answers)), score))
        made.append(Student(f"s{2 * number + 1:02}-{case.id}", case.submission(ground.root), case.score, case))
    return made


def grade(ground: Ground, into: Path) -> Run:
    """Run the class command, with two submissions at a time."""
    command = [sys.executable, "-m", "autograder", "grade", "attention", "--course", str(ground.root)]
    command += ["--submissions", str(ground.root.parent / "class"), "--into", str(into)]
    command += ["--workers", "2", "--seed", SEED, "--force", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    done = subprocess.run(command, cwd=ground.root, env=environment, capture_output=True, text=True, timeout=1800)
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    return Run({report.pop("student"): report for report in reports}, rows(into / "gradebook.db"), seconds)


@contextmanager
def class_of(count: int) -> Iterator[tuple[Ground, list[Student]]]:
    """A class on disk, in a course of its own with short limits."""
    with prepared() as ground:
        rules = ground.root / "course.yml"
        text = rules.read_text()
        for name, seconds in LIMITS.items():
            text, changed = re.subn(rf"{name}: \d+", f"{name}: {seconds}", text)
            assert changed == 1
        rules.write_text(text)
        made = students(count, ground)
        for student in made:
            path = ground.root.parent / "class" / student.name / "attention" / "attention.ipynb"
            path.parent.mkdir(parents=True)
            path.write_bytes(student.content)
        yield ground, made


def outside(ground: Ground) -> dict[str, object]:
    """All that no submission may change; the class command keeps its lock and its log in the state folder."""
    return {path: state for path, state in surroundings(ground).items() if STATE_FOLDER not in Path(path).parts}


def hold_a_class(count: int, within: float) -> str:
    """Grade a class twice; returns how it went, in one line. Raises AssertionError where it did not go as it must."""
    with class_of(count) as (ground, made):
        handed_in = {path: path.read_bytes() for path in (ground.root.parent / "class").rglob("*.ipynb")}
        around, running = outside(ground), processes(ground)
        first = grade(ground, ground.root.parent / "first")
        assert settled(lambda: processes(ground), running) == running
        assert settled(lambda: outside(ground), around) == around
        second = grade(ground, ground.root.parent / "second")
        assert settled(lambda: processes(ground), running) == running
        assert {path: path.read_bytes() for path in (ground.root.parent / "class").rglob("*.ipynb")} == handed_in
        assert list(first.reports) == list(second.reports) == [student.name for student in made]
        wrong = [said for student in made for said in differences(student, first)]
        assert not wrong, "\n".join(wrong)
        unlike = [name for name, report in first.reports.items() if second.reports[name] != report]
        assert not unlike, "\n".join(f"{name}\n{first.reports[name]}\n{second.reports[name]}" for name in unlike)
        assert first.rows == second.rows
        assert max(first.seconds, second.seconds) < within
    return (
        f"a class of {count}, {count // 2} of them hostile: graded in {first.seconds:.0f} s, "
        f"again in {second.seconds:.0f} s, with the same reports"
    )


def differences(student: Student, run: Run) -> Iterator[str]:
    """What came of a student, in the report and in the gradebook, and should not have."""
    report = run.reports[student.name]
    recorded = [row[3] for row in run.rows["grade"] if row[0] == student.name]
    if report["score"] is not None and sum(filter(None, recorded)) != report["score"]:
        yield f"{student.name}: the report says {report['score']}, the gradebook {recorded}"
    case = student.case
    if case is None:
        if (report["status"], report["score"]) != ("graded", student.score):
            yield f"{student.name}: {report['status']}, {report['score']}, not {student.score}: {report}"
        return
    if report["status"] != case.status:
        yield f"{student.name}: {report['status']}, not {case.status}: {report.get('error')}"
    for exercise in report["exercises"]:
        score = exercise["score"]
        if exercise["id"] != case.exercise:
            is_right = score == exercise["max_score"] or not case.others_full
        else:
            is_right = score == case.score or (case.at_most and score is not None and score < (case.score or 0))
        if not is_right:
            told = [check["message"] for check in exercise["checks"] if check["outcome"] != "passed"]
            yield f"{student.name}: {exercise['id']} has {score}, {case.score} is due: {told[:2]}"


def test_the_honest_in_a_class_with_hostile_ones_get_what_they_earned(capsys: pytest.CaptureFixture[str]) -> None:
    if sys.platform != "linux":
        pytest.skip("confinement needs Linux")
    said = hold_a_class(12, within=180)
    with capsys.disabled():
        print(f"\n{said}")


def test_a_class_of_sixty_has_thirty_hostile_students_of_every_family() -> None:
    chosen = hostile(30)
    assert len({case.id for case in chosen}) == 30
    assert {case.family for case in chosen} == set(FAMILIES)


if __name__ == "__main__":
    print(hold_a_class(int(sys.argv[1]) if sys.argv[1:] else 60, within=600))
