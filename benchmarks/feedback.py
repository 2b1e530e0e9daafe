"""The feedback pages of a class: stock ``nbgrader generate_feedback`` and ``autograder feedback``.

    python benchmarks/feedback.py [--students N] [--rounds N] [--workers N]

Each contender writes the pages about the same graded notebooks of correct submissions, in turn with the others.
Start-up is counted; ``autograder feedback`` is also measured as a class's first run, which asks nbgrader where
everything is and keeps the answer for the later ones. Prints the medians, and ratios within this run: only these mean
something on a machine that others use too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from _common import ASSIGNMENT, FULL_MARKS, OURS, STOCK, Contender, run, solved, write_course, write_submissions

SCORES = {STOCK: f"(Score: {FULL_MARKS}.0 / {FULL_MARKS}.0)", OURS: f"{FULL_MARKS} of {FULL_MARKS} points"}
"""What stands in a page about full marks."""
FIRST = "autograder feedback, a first run"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=40, help="submissions in the class (default: 40)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender writes it (default: 3)")
    parser.add_argument("--workers", type=int, default=2, help="of `autograder feedback` (default: 2)")
    options = parser.parse_args()
    _print(measured(options.students, options.rounds, options.workers), options.students, options.rounds)
    return 0


def measured(students: int, rounds: int, workers: int) -> list[Contender]:
    """The contenders, in turns: stock nbgrader, ours as a class's first run, ours with one worker and with several."""
    ours = ["autograder", "feedback", ASSIGNMENT, "--workers"]
    contenders = [
        Contender("stock nbgrader generate_feedback", ["nbgrader", "generate_feedback", ASSIGNMENT], STOCK),
        Contender(FIRST, [*ours, "1"], OURS),
        *(
            Contender(f"autograder feedback, {count} worker{'s' * (count > 1)}", [*ours, str(count)], OURS)
            for count in dict.fromkeys((1, workers))
        ),
    ]
    with tempfile.TemporaryDirectory() as folder:
        courses = _graded(Path(folder), students)
        for number in range(1, rounds + 1):
            for contender in contenders:
                _measure(contender, courses[contender.parts], students)
                print(f"round {number}: {contender.name}: {contender.wall[-1]:.1f} s", file=sys.stderr)
    return contenders


def _graded(folder: Path, students: int) -> dict[tuple[str, ...], Path]:
    """A graded class, with and without what makes it a course of ours."""
    ours, stock = folder / "ours", folder / "stock"
    write_course(ours, OURS)
    write_course(stock, STOCK)
    write_submissions(ours, solved(), students)
    run(["autograder", "grade", ASSIGNMENT], ours, OURS)
    shutil.copytree(ours / "autograded", stock / "autograded")
    shutil.copy(ours / "gradebook.db", stock)
    return {OURS: ours, STOCK: stock}


def _measure(contender: Contender, course: Path, students: int) -> None:
    """Write all pages once, where there are none."""
    shutil.rmtree(course / "feedback", ignore_errors=True)
    if contender.name == FIRST:
        for kept in course.glob(".autograder/ledgers/*-pages"):
            kept.unlink()
    contender.measure(course)
    _expect_pages(course / "feedback", students, SCORES[contender.parts])


def _expect_pages(feedback: Path, students: int, score: str) -> None:
    """A contender that wrote nothing would be very fast."""
    for number in range(students):
        page = feedback / f"student{number:05}" / ASSIGNMENT / f"{ASSIGNMENT}.html"
        if not page.is_file() or score not in page.read_text(encoding="utf-8"):
            raise SystemExit(f"{page} does not hold {score!r}, and the figures would mean nothing")


def _print(contenders: list[Contender], students: int, rounds: int) -> None:
    print(
        f"{students} pages, {os.cpu_count()} cores, medians of {rounds} rounds; s is seconds of the whole class, "
        "start-up included\n"
    )
    stock_wall, stock_cpu = contenders[0].medians
    print(f"{'':<36}" + "".join(f"{head:>10}" for head in ("wall s", "CPU s", "wall ×", "CPU ×")))
    for contender in contenders:
        wall, cpu = contender.medians
        print(f"{contender.name:<36}{wall:>10.2f}{cpu:>10.2f}{stock_wall / wall:>10.1f}{stock_cpu / cpu:>10.1f}")


if __name__ == "__main__":
    sys.exit(main())
