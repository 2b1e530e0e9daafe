"""What the benchmarks of whole classes share: a class of correct submissions, commands that take turns, medians."""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
COMMANDS = Path(sys.executable).parent
ASSIGNMENT = "attention"
FULL_MARKS = 20
OURS = ("course.yml", "nbgrader_config.py", "source", "tests/hidden")
"""What a course's folder holds."""
STOCK = ("source",)
"""What it holds for an nbgrader that knows nothing of us."""


@dataclass
class Contender:
    """One way to do what is measured.

    Attributes:
        command: what does it, in the course's folder.
        parts: what the course's folder holds, `OURS` or `STOCK`.
        wall: seconds of each round, and `cpu`, user and system, of all processes.
    """

    name: str
    command: list[str]
    parts: tuple[str, ...]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def medians(self) -> tuple[float, float]:
        """Of the wall clock and the CPU time, in seconds."""
        return statistics.median(self.wall), statistics.median(self.cpu)

    def measure(self, course: Path) -> None:
        """Run the command once."""
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        run(self.command, course, self.parts)
        self.wall.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def solved(assignment: str = ASSIGNMENT) -> dict[str, Any]:
    """A notebook that earns full marks."""
    notebook: dict[str, Any] = json.loads(
        (ROOT / "examples" / "submissions" / "amara" / assignment / f"{assignment}.ipynb").read_bytes()
    )
    return notebook


def write_course(course: Path, parts: tuple[str, ...]) -> None:
    """Copy these parts of the course into a folder."""
    for part in parts:
        original, copy = ROOT / part, course / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(original, copy) if original.is_dir() else shutil.copy(original, copy)


def write_submissions(course: Path, notebook: dict[str, Any], students: int, assignment: str = ASSIGNMENT) -> None:
    """Hand in the same answers for each student, in its own letters, so that no cache takes one for another's."""
    for number in range(students):
        place = course / "submitted" / f"student{number:05}" / assignment
        place.mkdir(parents=True)
        (place / f"{assignment}.ipynb").write_text(json.dumps(_by(notebook, number)))


def _by(notebook: dict[str, Any], student: int) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(notebook))
    for cell in copy["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"].append(f"\n# student {student}\n")
    return copy


def run(command: list[str], course: Path, parts: tuple[str, ...]) -> None:
    """Run a command of this environment in the course's folder; stock nbgrader without the environment's settings."""
    environment = os.environ | {"PATH": f"{COMMANDS}:{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"}
    if parts == STOCK:
        environment["JUPYTER_NO_CONFIG"] = "1"
    done = subprocess.run(
        [COMMANDS / command[0], *command[1:]], cwd=course, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")


def held_by(process: psutil.Process) -> int:
    """Bytes of a process and all its children (PSS: shared pages count by their share)."""
    return sum(map(_pss, [process, *process.children(recursive=True)]))


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:  # a worker that has just ended
        return 0
