"""The CPU time of one submission, everything included, against the floor (see floor.py).

    python benchmarks/cost.py [ASSIGNMENT ...] [--students N] [--rounds N] [--workers N]

``autograder grade`` grades a small and a larger class of correct submissions; the difference is what the submissions
cost in all processes together: mending, fork, cells, channel, checks, report, rows, files. The floor is measured before
each of them. Prints medians and their ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _common import OURS, ROOT, Contender, solved, write_course, write_submissions

FEW = 10
"""Submissions of the small class."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", default=["attention"])
    parser.add_argument("--students", type=int, default=70, help="submissions of the larger class (default: 70)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--workers", type=int, default=2, help="of `autograder grade` (default: 2)")
    options = parser.parse_args()
    if options.students <= FEW:
        parser.error(f"--students must be more than {FEW}")
    print("CPU ms of a submission, medians of", options.rounds, "rounds")
    for assignment in options.assignments:
        floor, cost = measured(assignment, options.students, options.rounds, options.workers)
        print(f"{assignment:<12} floor {floor:6.1f}, autograder grade {cost:6.1f}: {cost / floor:.2f} times the floor")
    return 0


def measured(assignment: str, students: int, rounds: int, workers: int) -> tuple[float, float]:
    """CPU milliseconds of a submission: the floor, and all of ours; medians of rounds in which they take turns."""
    floors, costs = [], []
    for number in range(1, rounds + 1):
        floors.append(_floor(assignment))
        costs.append(_cost(assignment, students, workers))
        print(f"round {number}: {assignment}: {floors[-1]:.0f}, {costs[-1]:.0f} ms", file=sys.stderr)
    return statistics.median(floors), statistics.median(costs)


def _floor(assignment: str) -> float:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "floor.py", "--json", assignment],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return float(json.loads(done.stdout)[assignment])


def _cost(assignment: str, students: int, workers: int) -> float:
    """CPU milliseconds for each submission more."""
    few, many = (_seconds(assignment, count, workers) for count in (FEW, students))
    return (many - few) / (students - FEW) * 1e3


def _seconds(assignment: str, students: int, workers: int) -> float:
    grading = Contender("", ["autograder", "grade", assignment, "--workers", str(workers)], OURS)
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder)
        write_course(course, OURS)
        write_submissions(course, solved(assignment), students, assignment)
        grading.measure(course)
        recorded = list((course / "autograded").glob(f"*/{assignment}/{assignment}.ipynb"))
        if len(recorded) != students:
            raise SystemExit(f"{len(recorded)} of {students} were graded, and the figures would mean nothing")
    return grading.cpu[-1]


if __name__ == "__main__":
    sys.exit(main())
