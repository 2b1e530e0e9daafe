"""A class of which half handed in damaged files, graded by the class command: each gets what is due, with its repairs.

A dozen students are graded with the other tests; `python -m tests.damaged.test_class` grades sixty.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import courses
from tests.damaged import cells, code, files, metadata, text
from tests.damaged.bank import FULL, Case, edited
from tests.engine import SEED

FAMILIES = (cells.CASES, metadata.CASES, text.CASES, code.CASES, files.CASES)


def damaged(count: int) -> list[Case]:
    """So many of the bank's cases, spread evenly over each family."""
    share = -(-count // len(FAMILIES))
    chosen = [family[(2 * place + 1) * len(family) // (2 * share)] for place in range(share) for family in FAMILIES]
    return chosen[:count]


def hand_in(root: Path, count: int) -> dict[str, Case | None]:
    """A class of `count` in ``submitted/``, every other one damaged: the case of each student, None of the others."""
    made: dict[str, Case | None] = {}
    for number, case in enumerate(damaged(count // 2)):
        made[f"s{2 * number:02}-whole"] = None
        made[f"s{2 * number + 1:02}-{case.family}-{case.id}"] = case
    for student, one in made.items():
        folder = root / "submitted" / student / "attention"
        folder.mkdir(parents=True)
        (one.hand_in if one else edited(lambda document: None))(folder)
    return made


def grade_a_class(root: Path, count: int) -> str:
    """Grade it; returns how it went, in one line. Raises AssertionError where it did not go as it must."""
    courses.copy_course(root)
    made = hand_in(root, count)
    started = time.monotonic()
    done = courses.run("autograder", "grade", "attention", "--workers", "2", "--seed", str(SEED), "--json",
                       folder=root, home=root.with_name("home"))  # fmt: skip
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stdout[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [report["student"] for report in reports] == list(made)
    wrong = [said for report in reports for said in differences(made[report["student"]], report)]
    assert not wrong, "\n".join(wrong)
    waiting = sum(report["score"] is None for report in reports)
    repaired = sum(bool(report["repairs"]) for report in reports)
    return (
        f"a class of {count}, {count // 2} of them damaged: graded in {seconds:.0f} s, {repaired} repaired, "
        f"{waiting} for a human, all as required"
    )


def differences(case: Case | None, report: dict[str, Any]) -> Iterator[str]:
    """What came of a student, and should not have."""
    score, repairs = (case.score, case.repairs) if case else (FULL, ())
    if report["score"] != score:
        yield f"{report['student']}: {report['score']}, not {score}: {report.get('error')}"
    told = report["repairs"]
    if len(told) != len(repairs) or not all(piece in said for piece, said in zip(repairs, told, strict=True)):
        yield f"{report['student']}: repairs {told}, not {repairs}"


def test_a_class_with_damaged_files_gets_what_is_due(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = grade_a_class(tmp_path / "course", 12)
    with capsys.disabled():
        print(f"\n{said}")


def test_a_class_of_sixty_has_thirty_different_cases_of_every_family() -> None:
    chosen = damaged(30)
    assert len({(case.family, case.id) for case in chosen}) == 30
    assert {case.family for case in chosen} == {"cells", "metadata", "text", "code", "files"}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(grade_a_class(Path(folder) / "course", int(sys.argv[1]) if sys.argv[1:] else 60))
