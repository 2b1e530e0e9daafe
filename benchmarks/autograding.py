"""A class into the gradebook: stock nbgrader, nbgrader with our preprocessors, and ``autograder grade``.

    python benchmarks/autograding.py [--students N] [--rounds N] [--workers N] [--ours]

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
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _common import ASSIGNMENT, FULL_MARKS, OURS, STOCK, Contender, run, solved, write_course, write_submissions


@dataclass
class Autograding(Contender):
    """One way to grade a class; `figures`: whether the notebook has its figures and long experiments."""

    figures: bool = True


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=40, help="submissions in the class (default: 40)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender grades it (default: 3)")
    parser.add_argument("--workers", type=int, default=2, help="of `autograder grade` (default: 2)")
    parser.add_argument("--ours", action="store_true", help="`autograder grade` alone: what does a worker more bring?")
    options = parser.parse_args()
    contenders = measured(options.students, options.rounds, options.workers, ours=options.ours)
    print(
        f"{options.students} submissions, {os.cpu_count()} cores, medians of {options.rounds} rounds; s is seconds a "
        "submission, start-up included\n"
    )
    _print(contenders, options.students, contenders[:1] if options.ours else contenders[:2])
    return 0


def measured(students: int, rounds: int, workers: int, *, ours: bool = False) -> list[Autograding]:
    """The contenders, in turns: two of stock nbgrader, ours by nbgrader, ours with one worker and with several."""
    contenders = [
        Autograding("stock nbgrader autograde", ["nbgrader", "autograde", ASSIGNMENT], STOCK),
        Autograding("the same, without the figures", ["nbgrader", "autograde", ASSIGNMENT], STOCK, figures=False),
        Autograding("nbgrader autograde, our preprocessors", ["nbgrader", "autograde", ASSIGNMENT], OURS),
        *(
            Autograding(
                f"autograder grade, {count} worker{'s' * (count > 1)}",
                ["autograder", "grade", ASSIGNMENT, "--workers", str(count)],
                OURS,
            )
            for count in dict.fromkeys((1, workers))
        ),
    ]
    if ours:
        contenders = contenders[3:]
    for number in range(1, rounds + 1):
        for contender in contenders:
            with tempfile.TemporaryDirectory() as folder:
                _measure(contender, Path(folder), students)
            print(f"round {number}: {contender.name}: {contender.wall[-1]:.1f} s", file=sys.stderr)
    return contenders


def _measure(contender: Autograding, course: Path, students: int) -> None:
    """Grade a fresh class once."""
    write_course(course, contender.parts)
    document = solved()
    if not contender.figures:
        _drop_figures(document)
        source = course / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        original = json.loads(source.read_bytes())
        _drop_figures(original)
        source.write_text(json.dumps(original))
    write_submissions(course, document, students)
    run(["nbgrader", "generate_assignment", ASSIGNMENT], course, contender.parts)
    contender.measure(course)
    _expect_full_marks(course, contender.parts, students)


def _drop_figures(notebook: dict[str, Any]) -> None:
    notebook["cells"] = [cell for cell in notebook["cells"] if "illustration" not in cell["metadata"].get("tags", ())]


def _expect_full_marks(course: Path, parts: tuple[str, ...], students: int) -> None:
    """A contender that graded nothing would be very fast."""
    run(["nbgrader", "export", "--ExportApp.plugin_class=nbgrader.plugins.export.CsvExportPlugin"], course, parts)
    header, *lines = (course / "grades.csv").read_text().splitlines()
    score = header.split(",").index("score")
    scores = [float(line.split(",")[score]) for line in lines]
    if scores != [FULL_MARKS] * students:
        raise SystemExit(f"these scores are not full marks, and the figures would mean nothing: {json.dumps(scores)}")


def _print(contenders: list[Autograding], students: int, against: list[Autograding]) -> None:
    measures = [contender.medians for contender in against]
    heads = "".join(f"{head:>10}" for head in ("wall s", "a minute", "CPU s", *("wall ×", "CPU ×") * len(against)))
    named = "".join(f"{contender.name.rpartition(', ')[2][:18]:>20}" for contender in against)
    print(f"{'':<40}{'':>30}{named}\n{'':<40}{heads}")
    for contender in contenders:
        wall, cpu = contender.medians
        figures = f"{wall / students:>10.2f}{60 * students / wall:>10.0f}{cpu / students:>10.2f}"
        ratios = "".join(f"{its_wall / wall:>10.1f}{its_cpu / cpu:>10.1f}" for its_wall, its_cpu in measures)
        print(f"{contender.name:<40}{figures}{ratios}")


if __name__ == "__main__":
    sys.exit(main())
