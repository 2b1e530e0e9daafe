"""Where the time and the memory of one submission go.

    python benchmarks/submission.py [ASSIGNMENT] [--count N] [--workers N]

Grades a solved notebook N times in one warm examiner, one at a time and several at a time. Prints the median of each
part in milliseconds of the wall clock, the CPU time of each kind of process, and the memory of all processes together
(PSS: shared pages count by their share), which tells what a worker more takes.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

import psutil
from _common import ROOT, held_by

from autograder.course import load_course
from autograder.grading import Graded, Grader
from autograder.notebook import read_notebook

SEED = 1
PARTS = ("total", "spawn", "cells", "channel", "checks", "search", "diagnosis")
KINDS = {"-m autograder.examiner": "lanes", "from autograder.worker import zygote": "zygote"}
"""What tells processes apart, and what they are called here."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assignment", nargs="?", default="attention", help="which lesson (default: attention)")
    parser.add_argument("--count", type=int, default=60, help="submissions (default: 60)")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time, beside one (default: 2)")
    options = parser.parse_args()
    more = memory_of_one_more(options.assignment, options.count, options.workers)
    print(f"\nmemory of a worker more        {more / 2**20:8.0f} MiB")
    return 0


def memory_of_one_more(assignment: str, count: int, workers: int) -> float:
    """Bytes that a worker takes beyond the first one; all that is measured is printed."""
    held = {some: _measure(assignment, count, some) for some in (1, max(workers, 2))}
    return (held[max(workers, 2)] - held[1]) / (max(workers, 2) - 1)


def _measure(assignment: str, count: int, workers: int) -> float:
    """Print what this many workers take; the bytes of all processes."""
    course = load_course(ROOT)
    notebook = read_notebook(course.source_notebook(assignment))
    started = time.perf_counter()
    with Grader(course, "B", workers, assignments=[assignment]) as grader:
        print(f"\n{assignment}, {workers} at a time")
        print(f"start of examiner and zygote   {time.perf_counter() - started:8.2f} s")
        list(grader.grade_many([(notebook, assignment)] * 8 * workers, SEED))  # some of it comes later than the start
        before, started = _processor_time(), time.perf_counter()
        graded = list(grader.grade_many([(notebook, assignment)] * count, SEED))
        wall = time.perf_counter() - started
        used = {kind: seconds - before[kind] for kind, seconds in _processor_time().items()}
        with _watched() as held:  # looking costs time
            list(grader.grade_many([(notebook, assignment)] * count, SEED))
    if not all(one.report.complete for one in graded):
        raise SystemExit("a submission did not earn full marks; the figures would mean nothing")
    print(f"wall clock per submission      {wall / count * 1e3:8.1f} ms")
    for part in PARTS:
        print(f"  {part:<28} {_median(graded, part) * 1e3:8.1f} ms")
    calls = statistics.median(one.examined.calls for one in graded if one.examined)
    print(f"calls of the student's code    {calls:8.0f}")
    print(f"  channel per call             {_median(graded, 'channel') / calls * 1e3:8.2f} ms")
    print(f"processor time                 {sum(used.values()) / count * 1e3:8.1f} ms")
    for kind, seconds in used.items():
        print(f"  {kind:<28} {seconds / count * 1e3:8.1f} ms")
    print(f"memory of all processes        {statistics.median(held) / 2**20:8.0f} MiB")
    return statistics.median(held)


def _median(graded: list[Graded], part: str) -> float:
    return statistics.median(one.examined.seconds[part] for one in graded if one.examined)


def _processor_time() -> Counter[str]:
    """Seconds so far, user and system: of this process, the lanes, the zygote, and workers that have ended."""
    me = psutil.Process()
    used = Counter({"this process": sum(me.cpu_times()[:2])})
    for process in me.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            kind = next((name for mark, name in KINDS.items() if mark in command), None)
            # A worker has the zygote's command line, and ends soon: the zygote is told what it has used.
            if kind == "zygote" and "zygote" in " ".join(process.parent().cmdline()):  # type: ignore[union-attr]
                continue
            if kind:
                times = process.cpu_times()
                used[kind] += times.user + times.system
                if kind == "zygote":
                    used["workers"] += times.children_user + times.children_system
    return used


@contextlib.contextmanager
def _watched() -> Iterator[list[int]]:
    """Bytes of this process and all its children, looked at now and then."""
    over, held = threading.Event(), list[int]()

    def look() -> None:
        while not over.wait(0.5):
            held.append(held_by(psutil.Process()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield held
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
