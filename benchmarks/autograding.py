"""A class into the gradebook: stock nbgrader, nbgrader with our preprocessors, and ``autograder grade``.

    python benchmarks/autograding.py [--students N] [--rounds N] [--workers N]

Each contender grades the same correct submissions, from the command to the last row in its gradebook, in turn with the
others. Stock nbgrader runs the notebook, with its examples as asserts, in a stock kernel. Ours run the notebook but for
its unchanged figures, and the hidden suites, 19 checks; so stock nbgrader also gets a notebook without the figures, as
the stricter measure. Start-up is counted. Prints the medians, and ratios within this run: only these mean something on
a machine that others use too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COMMANDS = Path(sys.executable).parent
ASSIGNMENT = "attention"


@dataclass
class Contender:
    """One way to grade a class.

    Attributes:
        command: what grades it, in the course's folder.
        parts: what the course's folder holds.
        figures: whether the notebook has its figures and long experiments.
        wall: seconds of each round, and `cpu`, user and system, of all processes.
    """

    name: str
    command: list[str]
    parts: tuple[str, ...]
    figures: bool = True
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=40, help="submissions in the class (default: 40)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender grades it (default: 3)")
    parser.add_argument("--workers", type=int, default=2, help="of `autograder grade` (default: 2)")
    options = parser.parse_args()
    ours = ("course.yml", "nbgrader_config.py", "source", "tests/hidden")
    contenders = [
        Contender("stock nbgrader autograde", ["nbgrader", "autograde", ASSIGNMENT], ("source",)),
        Contender("the same, without the figures", ["nbgrader", "autograde", ASSIGNMENT], ("source",), figures=False),
        Contender("nbgrader autograde, our preprocessors", ["nbgrader", "autograde", ASSIGNMENT], ours),
        *(
            Contender(
                f"autograder grade, {workers} worker{'s' * (workers > 1)}",
                ["autograder", "grade", ASSIGNMENT, "--workers", str(workers)],
                ours,
            )
            for workers in dict.fromkeys((1, options.workers))
        ),
    ]
    for number in range(1, options.rounds + 1):
        for contender in contenders:
            with tempfile.TemporaryDirectory() as folder:
                _measure(contender, Path(folder), options.students)
            print(f"round {number}: {contender.name}: {contender.wall[-1]:.1f} s", file=sys.stderr)
    _print(contenders, options.students, options.rounds)
    return 0


def _measure(contender: Contender, course: Path, students: int) -> None:
    """Grade a fresh class once."""
    for part in contender.parts:
        original, copy = ROOT / part, course / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(original, copy) if original.is_dir() else shutil.copy(original, copy)
    solved = ROOT / "examples" / "submissions" / "amara" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    document = json.loads(solved.read_bytes())
    if not contender.figures:
        _drop_figures(document)
        source = course / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        original = json.loads(source.read_bytes())
        _drop_figures(original)
        source.write_text(json.dumps(original))
    for number in range(students):
        place = course / "submitted" / f"student{number:05}" / ASSIGNMENT
        place.mkdir(parents=True)
        (place / f"{ASSIGNMENT}.ipynb").write_text(json.dumps(_by(document, number)))
    _run(["nbgrader", "generate_assignment", ASSIGNMENT], course)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    _run(contender.command, course)
    contender.wall.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    contender.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    _expect_full_marks(course, students)


def _drop_figures(notebook: dict[str, Any]) -> None:
    notebook["cells"] = [cell for cell in notebook["cells"] if "illustration" not in cell["metadata"].get("tags", ())]


def _by(notebook: dict[str, Any], student: int) -> dict[str, Any]:
    """The same answers in a student's own letters, so that no cache takes one for another's."""
    copy: dict[str, Any] = json.loads(json.dumps(notebook))
    for cell in copy["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"].append(f"\n# student {student}\n")
    return copy


def _run(command: list[str], course: Path) -> None:
    environment = os.environ | {"PATH": f"{COMMANDS}:{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [COMMANDS / command[0], *command[1:]], cwd=course, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")


def _expect_full_marks(course: Path, students: int) -> None:
    """A contender that graded nothing would be very fast."""
    _run(["nbgrader", "export", "--ExportApp.plugin_class=nbgrader.plugins.export.CsvExportPlugin"], course)
    header, *lines = (course / "grades.csv").read_text().splitlines()
    score = header.split(",").index("score")
    scores = [float(line.split(",")[score]) for line in lines]
    if scores != [20.0] * students:
        raise SystemExit(f"these scores are not full marks, and the figures would mean nothing: {json.dumps(scores)}")


def _print(contenders: list[Contender], students: int, rounds: int) -> None:
    print(
        f"{students} submissions, {os.cpu_count()} cores, medians of {rounds} rounds; s is seconds a submission, "
        "start-up included\n"
    )
    stocks = [(statistics.median(stock.wall), statistics.median(stock.cpu)) for stock in contenders[:2]]
    heads = "".join(f"{head:>10}" for head in ("wall s", "a minute", "CPU s", "wall ×", "CPU ×", "wall ×", "CPU ×"))
    print(f"{'':<40}{'':>30}{'of stock':>20}{'without figures':>20}\n{'':<40}{heads}")
    for contender in contenders:
        wall, cpu = statistics.median(contender.wall), statistics.median(contender.cpu)
        figures = f"{wall / students:>10.2f}{60 * students / wall:>10.0f}{cpu / students:>10.2f}"
        ratios = "".join(f"{stock_wall / wall:>10.1f}{stock_cpu / cpu:>10.1f}" for stock_wall, stock_cpu in stocks)
        print(f"{contender.name:<40}{figures}{ratios}")


if __name__ == "__main__":
    sys.exit(main())
