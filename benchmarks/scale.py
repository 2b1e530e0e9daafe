"""A class of thousands from start to end: does it stay as fast, does memory grow, and what does a kill cost?

    python benchmarks/scale.py [--students N] [--assignment NAME] [--workers N] [--undisturbed-only]

Grades the same class twice, into two gradebooks: once undisturbed, and once killed (SIGKILL, the whole process group)
when half of it is recorded, and then run again to its end. The submissions are those of ``examples/``, but for endless
ones, each in its own letters. Prints the rate over the run, the time of the last tenth against the first one's, the
memory of all processes (PSS), and what differs between the two gradebooks and their folders, which is to be nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from _common import COMMANDS, OURS, ROOT, held_by, write_course

SEED = 1
SAMPLES = 40
"""How often memory is looked at in a run."""
ENDLESS = {"attention": {"ines"}}
"""Whose answers take their whole time."""
_ID = re.compile(r"\b[0-9a-f]{32}\b")
"""What nbgrader calls a row: random."""


@dataclass
class Run:
    """One run of the command.

    Attributes:
        at: seconds from its start to each recorded submission.
        memory: bytes of all processes, with the number of submissions that were recorded then.
    """

    at: list[float] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)

    def seconds_of(self, first: int, last: int) -> float:
        """From one submission to another."""
        return self.at[last] - self.at[first]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=10_000, help="submissions in the class (default: 10000)")
    parser.add_argument("--assignment", default="attention", help="which one they hand in (default: attention)")
    parser.add_argument("--workers", type=int, default=2, help="of `autograder grade` (default: 2)")
    parser.add_argument("--undisturbed-only", action="store_true", help="kill nothing, and compare nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        course, count = Path(folder) / "course", options.students
        write_course(course, OURS)
        _hand_in(course, options.assignment, count)
        whole = _grade(course, "undisturbed", options)
        if len(whole.at) != count:
            raise SystemExit(f"only {len(whole.at)} of {count} were recorded")
        print_growth(whole, count)
        if options.undisturbed_only:
            return 0
        half = _grade(course, "killed", options, until=count // 2)
        print(f"killed when {len(half.at)} were recorded, after {half.at[-1]:.0f} s", flush=True)
        rest = _grade(course, "killed", options)
        print(f"run again: {rest.at[-1]:.0f} s, of which {rest.at[0]:.0f} s to the first line, {len(rest.at)} recorded")
        differing = list(_differences(course / "undisturbed", course / "killed"))
    print("what differs: " + (", ".join(differing[:10]) or f"nothing, in {count} submissions"))
    return 1 if differing else 0


def _hand_in(course: Path, assignment: str, count: int) -> None:
    """Hand in the example submissions again and again."""
    found = sorted((ROOT / "examples" / "submissions").glob(f"*/{assignment}/{assignment}.ipynb"))
    texts = [path.read_text() for path in found if path.parents[1].name not in ENDLESS.get(assignment, ())]
    for number, text in zip(range(count), itertools.cycle(texts), strict=False):
        document = json.loads(text)
        for cell in document["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("solution") and cell["cell_type"] == "code":
                cell["source"].append(f"\n# student {number}\n")
        place = course / "submitted" / f"student{number:05}" / assignment
        place.mkdir(parents=True)
        (place / f"{assignment}.ipynb").write_text(json.dumps(document))


def _grade(course: Path, into: str, options: argparse.Namespace, until: int | None = None) -> Run:
    """Run the command, to its end or until so many are recorded."""
    command = [str(COMMANDS / "autograder"), "grade", options.assignment, "--into", into, "--json", "--seed", str(SEED)]
    command += ["--workers", str(options.workers)]
    if (course / ".autograder").exists() and until is not None:
        _forget(course)
    process = subprocess.Popen(command, cwd=course, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    done, started = Run(), time.monotonic()
    with _watched(process, done, max(1, options.students // SAMPLES)):
        for _ in process.stdout:
            done.at.append(time.monotonic() - started)
            if until is not None and len(done.at) >= until:
                os.killpg(process.pid, signal.SIGKILL)
                break
    process.stdout.close()
    code = process.wait()
    if until is None and code not in (0, 3):
        raise SystemExit(f"`autograder grade` ended with {code}")
    return done


def _forget(course: Path) -> None:
    """Empty the store, which knows the results of the undisturbed run: the killed one is to find its own alone."""
    for path in (course / ".autograder" / "results").rglob("*"):
        if path.is_file():
            path.unlink()


@contextlib.contextmanager
def _watched(process: subprocess.Popen[str], run: Run, step: int) -> Iterator[None]:
    """Look at the memory of the command and all its children after each `step` submissions."""
    over = threading.Event()

    def look() -> None:
        seen = 0
        while not over.wait(0.5):
            if len(run.at) >= seen + step:
                seen = len(run.at)
                with contextlib.suppress(psutil.Error):
                    run.memory.append((seen, held_by(psutil.Process(process.pid))))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def print_growth(run: Run, count: int) -> None:
    """Print how fast a run was, in its beginning and at its end, and what memory it took."""
    tenth = max(1, count // 10)
    # The first lines come late, with the start of the examiner; the last ones have no successors that fill the lanes.
    first, last = run.seconds_of(tenth // 10, tenth), run.seconds_of(count - tenth, count - tenth // 10 - 1)
    print(f"{count} submissions in {run.at[-1]:.0f} s, {run.at[0]:.1f} s of them to the first line: "
          f"{60 * (count - 1) / (run.at[-1] - run.at[0]):.0f} a minute")  # fmt: skip
    print(f"the last {tenth} against the first {tenth}: {last / first:.2f} × the time")
    early = statistics.median(held for _, held in run.memory[: max(1, len(run.memory) // 10)])
    late = statistics.median(held for _, held in run.memory[-max(1, len(run.memory) // 10) :])
    print(f"memory of all processes: {early / 2**20:.0f} MiB in the first tenth, {late / 2**20:.0f} in the last, "
          f"{max(held for _, held in run.memory) / 2**20:.0f} at most", flush=True)  # fmt: skip


def _differences(one: Path, other: Path) -> Iterator[str]:
    """Names of tables and files that are not alike."""
    for table, rows in _rows(one / "gradebook.db").items():
        if rows != _rows(other / "gradebook.db").get(table):
            yield f"table {table}"
    kept, found = _files(one / "autograded"), _files(other / "autograded")
    for name in sorted(kept.keys() | found.keys()):
        if kept.get(name) != found.get(name):
            yield name


def _rows(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, without the names that nbgrader draws for them."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: sorted(
                (tuple(None if isinstance(x, str) and _ID.fullmatch(x) else x for x in row) for row in
                 connection.execute(f"SELECT * FROM {table}")), key=repr
            )
            for table in tables
        }  # fmt: skip


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


if __name__ == "__main__":
    sys.exit(main())
