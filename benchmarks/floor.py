"""The floor: the same cells and checks in one warm process, with nothing between the student's code and pytest.

    python benchmarks/floor.py [ASSIGNMENT ...] [--count N] [--json]

No fork, no confinement, no channel, no report, no row: the student's own arithmetic, that of the checks, and pytest.
Each submission's cells run as in a worker, the figures that the student has not changed left out, and then each check
calls the function itself. Prints CPU milliseconds a submission, medians.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from autograder.channel.proxy import _raised as raised
from autograder.course import load_course
from autograder.errors import CourseError
from autograder.examiner.__main__ import OPTIONS
from autograder.examiner.plugin import SuitePlugin
from autograder.mend import mend
from autograder.notebook import read_notebook
from autograder.worker.calls import describe_exception
from autograder.worker.cells import Cells
from autograder.worker.serve import WARM_UP

ROOT = Path(__file__).resolve().parents[1]
SEED = 1


class Floor(NamedTuple):
    """CPU milliseconds of each submission."""

    cells: list[float]
    checks: list[float]


class Bare:
    """What a suite sees of a student, and no more: the function, in this process.

    A check that asks what a call has changed is told nothing, since nobody looks.
    """

    changed_inputs = ()
    backward_passes = sys.maxsize

    def __init__(self, name: str, answer: Any) -> None:
        self.name, self._answer = name, answer
        self.calls: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not callable(self._answer):
            return self._answer
        try:
            return self._answer(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a refusal is an answer too
            raise raised(describe_exception(error, lambda filename: False), "") from None


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", default=["attention"])
    parser.add_argument("--count", type=int, default=20, help="submissions to each (default: 20)")
    parser.add_argument("--json", action="store_true", help="print milliseconds by assignment, as JSON")
    options = parser.parse_args()
    # Notebooks write where they are.
    with tempfile.TemporaryDirectory(prefix="floor-") as folder, contextlib.chdir(folder):
        found = {}
        for name in options.assignments:
            floor = measure(name, options.count)
            cells, checks = statistics.median(floor.cells), statistics.median(floor.checks)
            found[name] = cells + checks
            if not options.json:
                print(f"{name:<12} cells {cells:6.1f} ms, checks {checks:6.1f} ms, together {cells + checks:6.1f} ms")
    if options.json:
        print(json.dumps(found))
    return 0


def measure(assignment: str, count: int) -> Floor:
    """Grade the solved notebook `count` times; one time before it warms up."""
    floor = Floor([], [])

    def serve(plugin: SuitePlugin) -> None:
        cells = Cells()
        cells.attach()
        cells.shell.enable_matplotlib()
        for number, source in enumerate(WARM_UP):
            cells.run(source, number)
        for place in range(count + 1):
            ran, checked = _once(plugin, cells, assignment)
            if place:
                floor.cells.append(ran)
                floor.checks.append(checked)

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    torch.set_num_threads(1)
    hidden = ROOT / "tests" / "hidden"
    plugin, streams = SuitePlugin(serve), (sys.stdout, sys.stderr)
    pytest.main([*OPTIONS, f"--rootdir={hidden}", str(hidden / assignment)], plugins=[plugin])
    sys.stdout, sys.stderr = streams  # cells write into the notebook
    if plugin.problem is not None or len(floor.cells) != count:
        raise SystemExit(f"the floor of {assignment} can't be measured: {plugin.problem}")
    return floor


def _once(plugin: SuitePlugin, cells: Cells, assignment: str) -> tuple[float, float]:
    course = load_course(ROOT)
    mended = mend(read_notebook(course.source_notebook(assignment)), course, assignment)
    cells.shell.reset(new_session=True)
    ran = _milliseconds(lambda: [cells.run(cell.source, cell.number) for cell in mended.cells])
    answers = {one.id: cells.shell.user_ns[one.answer] for one in mended.exercises}
    return ran, _milliseconds(lambda: _check(plugin, assignment, answers))


def _check(plugin: SuitePlugin, assignment: str, answers: dict[str, Any]) -> None:
    for name, answer in answers.items():
        student: Any = Bare(name, answer)
        for item in plugin.suites[assignment, name].items:
            raised = plugin.run(item, student, SEED)
            if raised is not None:
                raise CourseError(f"{item.name} does not pass, and the figures would mean nothing: {raised!r}")


def _milliseconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e3


if __name__ == "__main__":
    sys.exit(main())
