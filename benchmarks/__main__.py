"""All figures of docs/performance.md but those of a class of thousands (scale.py): one table, from one run.

    python benchmarks [--students N] [--rounds N] [--class N]

Takes about half an hour with the defaults, most of it stock nbgrader. Prints each figure with its target.
"""

from __future__ import annotations

import argparse
import os
import sys

import autograding
import cost
import feedback
import submission

LESSONS = ("attention", "masking", "loss", "multihead")
WORKERS = 2
MANY = 5
"""Workers whose memory is held against that of one."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=60, help="of a class that stock nbgrader grades (default: 60)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each contender takes its turn (default: 1)")
    parser.add_argument("--class", type=int, default=600, dest="many", help="of a class for ours alone (default: 600)")
    options = parser.parse_args()
    rows = [
        *_autograding(options.students, options.rounds),
        *_pages(options.students, options.rounds),
        *_second_worker(options.many),
        *_costs(options.rounds),
        *_memory(),
    ]
    print(f"\n{options.students} submissions, {os.cpu_count()} cores, rounds: {options.rounds}\n")
    print("| figure | target | measured |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return 0


Row = tuple[str, str, str]


def _autograding(students: int, rounds: int) -> list[Row]:
    stock, stricter, nbgrader, one, two = autograding.measured(students, rounds, WORKERS)

    def against(ours: autograding.Autograding) -> str:
        ratios = [its.medians[0] / ours.medians[0] for its in (stock, stricter)]
        return (
            f"{ratios[0]:.1f} × (stock without the figures: {ratios[1]:.1f} ×), {ours.medians[0] / students:.2f} s each"
        )

    return [
        ("stock `nbgrader autograde`", "", f"{stock.medians[0] / students:.2f} s each"),
        ("autograding a class into the gradebook, against it; 2 workers, wall clock", "≥ 25 ×", against(two)),
        ("the same with 1 worker", "", against(one)),
        ("the same through plain `nbgrader autograde` with our preprocessors", "≥ 8 ×", against(nbgrader)),
    ]


def _pages(students: int, rounds: int) -> list[Row]:
    stock, first, one, two = (contender.medians[0] for contender in feedback.measured(students, rounds, WORKERS))
    said = f"{stock / two:.1f} × (1 worker: {stock / one:.1f} ×, a class's first run: {stock / first:.1f} ×)"
    return [("feedback pages, against `nbgrader generate_feedback`; wall clock", "≥ 8 ×", said)]


def _second_worker(students: int) -> list[Row]:
    one, two = (contender.medians[0] for contender in autograding.measured(students, 1, WORKERS, ours=True))
    said = f"{one / two:.2f} × ({students} submissions: {one:.0f} s, {two:.0f} s)"
    return [("two workers against one, start-up and recording included", "≥ 1.7 ×", said)]


def _costs(rounds: int) -> list[Row]:
    found = {lesson: cost.measured(lesson, 70, max(rounds, 3), WORKERS) for lesson in LESSONS}
    floors, costs = (sum(pair[place] for pair in found.values()) for place in (0, 1))
    each = ", ".join(f"{lesson} {ours / floor:.2f}" for lesson, (floor, ours) in found.items())
    return [("processor time of a submission, against the floor", "≤ 3 ×", f"{costs / floors:.2f} × ({each})")]


def _memory() -> list[Row]:
    more = submission.memory_of_one_more("attention", 100, MANY)
    return [("memory of a worker more (PSS)", "≤ 120 MB", f"{more / 1e6:.0f} MB")]


if __name__ == "__main__":
    sys.exit(main())
