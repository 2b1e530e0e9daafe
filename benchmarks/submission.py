"""Where the time and the memory of one submission go.

    python benchmarks/submission.py [--count N] [--workers N]

Grades a solved notebook N times in one warm examiner and prints the median of each part in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from autograder.course import load_course
from autograder.grading import Graded, Grader
from autograder.notebook import read_notebook

ROOT = Path(__file__).parents[1]
SEED = 1


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="submissions (default: 30)")
    parser.add_argument("--workers", type=int, default=1, help="how many at a time (default: 1)")
    options = parser.parse_args()
    course = load_course(ROOT)
    notebook = read_notebook(course.source_notebook("attention"))
    started = time.perf_counter()
    with Grader(course, "B", options.workers) as grader:
        print(f"start of examiner and zygote   {time.perf_counter() - started:8.2f} s")
        warm = list(grader.grade_many([(notebook, "attention")] * options.workers, SEED))
        started = time.perf_counter()
        graded = list(grader.grade_many([(notebook, "attention")] * options.count, SEED))
        wall = time.perf_counter() - started
    if not all(one.report.complete for one in [*warm, *graded]):
        print("a submission did not earn full marks; the figures would mean nothing", file=sys.stderr)
        return 1
    print(f"wall clock per submission      {wall / options.count * 1e3:8.1f} ms ({options.workers} at a time)")
    for part in ("total", "spawn", "cells", "channel", "checks", "diagnosis"):
        print(f"  {part:<28} {_median(graded, part) * 1e3:8.1f} ms")
    calls = statistics.median(one.examined.calls for one in graded if one.examined)
    print(f"calls of the student's code    {calls:8.0f}")
    print(f"  channel per call             {_median(graded, 'channel') / calls * 1e3:8.2f} ms")
    private = [one.examined.memory["private"] for one in graded if one.examined and "private" in one.examined.memory]
    if private:  # only root may look into a worker
        print(f"memory of a worker's own       {statistics.median(private) / 2**20:8.1f} MiB")
    return 0


def _median(graded: list[Graded], part: str) -> float:
    return statistics.median(one.examined.seconds[part] for one in graded if one.examined)


if __name__ == "__main__":
    sys.exit(main())
