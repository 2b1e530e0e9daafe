"""Kills a class run at random moments, runs it again, and compares all with what an undisturbed run leaves.

python -m tests.interrupted.kills --times 30 --seed 1
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.interrupted.classes import SmallClass, State, differences
from tests.interrupted.processes import BELOW, TARGETS, Struck, survivors

STARTS = {"first": (), "again": (), "fresh": ("--fresh",)}
"""In what a run is killed: the first one of a class, one after a few have handed in anew, one that grades all anew."""
PATIENCE = 120.0
"""Seconds that are waited for a process that is to be killed, while the command runs."""
HEAD = f"{'':>3} {'run':<6} {'killed':<11} {'after':>7} {'ended':>6} {'recorded':>9}  then"


class Before(NamedTuple):
    """Where a run begins, and where it ends if nothing disturbs it."""

    copy: Path
    old: State
    right: State
    seconds: float


class Trial(NamedTuple):
    """One kill.

    Attributes:
        after: seconds from the start of the command.
        code: how the killed run ended, and in how many submissions the rows were the new ones then.
        wrong: what was wrong after the kill, and after the next run.
        said: what the killed run has printed.
    """

    start: str
    kind: str
    after: float
    struck: bool
    code: int
    recorded: int
    wrong: tuple[str, ...]
    said: str


class Kills:
    """A class that is killed again and again; undisturbed runs come first.

    Args:
        small: the class.
        starts: in what it is killed; keys of `STARTS`.
    """

    def __init__(self, small: SmallClass, starts: Sequence[str] = tuple(STARTS)) -> None:
        self.small, self._starts = small, tuple(starts)
        self._marker = str(small.root)
        blank = self.small.keep()
        found = {"first": self._undisturbed(blank, ())} if "first" in starts else {}
        if {"again", "fresh"} & set(starts):
            self.small.restore(blank)
            self.small.grade_earlier()
            graded = self.small.keep()
            found["again"] = found["fresh"] = self._undisturbed(graded, STARTS["fresh"])
        self.before = found

    def _undisturbed(self, copy: Path, options: Sequence[str]) -> Before:
        old, began = self.small.state(), time.monotonic()
        code, said = self.small.grade(*options)
        seconds = time.monotonic() - began
        wrong = [*survivors(self._marker, self.small.standing), *self.small.leftovers(), *self.small.half_written()]
        assert code == 0 and not wrong, (said, wrong)
        return Before(copy, old, self.small.state(), seconds)

    def trials(self, times: int, rng: random.Random, targets: Sequence[str] = TARGETS) -> Iterator[Trial]:
        """So many kills, at moments that cover the whole of a run."""
        moments = [(number + rng.random()) / times for number in range(times)]
        rng.shuffle(moments)
        for number, moment in enumerate(moments):
            yield self.trial(self._starts[number % len(self._starts)], targets[number % len(targets)], moment, rng)

    def trial(
        self,
        start: str,
        kind: str,
        moment: float | None,
        rng: random.Random,
        run: Callable[..., Any] | None = None,
    ) -> Trial:
        """One kill, and the next run.

        Args:
            start: a key of `STARTS`.
            kind: what is killed; see `Struck.strike`.
            moment: of a run that takes from 0 to 1; None as soon as a submission is being examined.
            rng: chooses among several processes.
            run: starts the run, if not as all others of the class.
        """
        before = self.before[start]
        self.small.restore(before.copy)
        began = time.monotonic()
        with (run or self.small.start)(*STARTS[start]) as running:
            time.sleep((moment or 0.0) * before.seconds)
            target = Struck(running.pid, self.small.examiners_of(running), self._marker, self.small.standing)
            struck = running.poll() is None and target.strike(kind, rng, began + PATIENCE, moment is None)
            after = time.monotonic() - began
            said, _ = running.communicate(timeout=240)
        wrong = [f"after the kill: {what}" for what in self.after(kind, before)]
        recorded = sum(before.right.grades.get(key) == one for key, one in self._grades().items())
        if kind == "everything":  # nobody is left who could tidy up
            self._clear()
        wrong += [f"after the next run: {what}" for what in self.completed(before)]
        return Trial(start, kind, after, struck, running.returncode, recorded, tuple(wrong), said)

    def after(self, kind: str, before: Before) -> Iterator[str]:
        """What is wrong while nobody has mended it."""
        yield from survivors(self._marker, self.small.standing)
        yield from self.small.half_written()
        try:
            found = self.small.state()
        except sqlite3.Error as error:
            yield f"the gradebook can't be read ({error})"
            return
        old, right = before.old, before.right
        for key, grades in found.grades.items():
            known = [old.grades.get(key), right.grades.get(key)]
            if grades not in known and not (kind in BELOW and all(_waits(grade) for grade in grades)):
                yield f"rows of {key} are neither the old nor the right ones: {grades}"
        for key in old.grades.keys() - found.grades.keys():
            yield f"rows of {key} are gone"
        for name, content in found.files.items():
            known_files = [old.files.get(name), right.files.get(name)]
            if not name.split("/")[1].startswith(".") and kind not in BELOW and content not in known_files:
                yield f"{name} is neither the old nor the right one"
        for name in old.files:
            student, assignment, rest = name.split("/", 2)
            if not {name, f"{student}/.{assignment}.old/{rest}"} & found.files.keys():
                yield f"{name} is gone"
        for name in old.store.keys() - found.store.keys():
            yield f"the result {name} is gone from the store"

    def completed(self, before: Before, *options: str) -> Iterator[str]:
        """What is wrong after the next run."""
        code, said = self.small.grade(*options)
        if code != 0:
            yield f"exit code {code}: {said[-500:]}"
        yield from survivors(self._marker, self.small.standing)
        yield from self.small.leftovers()
        yield from self.small.half_written()
        yield from differences(before.right, self.small.state())

    def _grades(self) -> dict[tuple[str, str], list[tuple[object, ...]]]:
        try:
            return self.small.state().grades
        except sqlite3.Error:
            return {}

    def _clear(self) -> None:
        for path in self.small.temporary.iterdir():
            if path.name in self.small.stays:
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _waits(grade: tuple[object, ...]) -> bool:
    return grade[1] is None and grade[4] == 1


@contextmanager
def folder() -> Iterator[Path]:
    """A folder through which confined workers can pass to their own, removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="interrupted-")).resolve()
    root.chmod(0o711)
    try:
        yield root
    finally:
        shutil.rmtree(root)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the kills and what differs; 1 where something does."""
    parser = argparse.ArgumentParser(prog="python -m tests.interrupted.kills", description=__doc__)
    parser.add_argument("--times", type=int, default=30, help="how many kills")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    options = parser.parse_args(arguments)
    with folder() as root:
        kills = Kills(SmallClass(root))
        print(HEAD)
        failed = 0
        for number, trial in enumerate(kills.trials(options.times, random.Random(options.seed)), 1):
            print(line(number, trial), flush=True)
            failed += bool(trial.wrong)
    print(f"{options.times} kills, {options.times - failed} as an undisturbed run (seed {options.seed})")
    return 1 if failed else 0


def line(number: int, trial: Trial) -> str:
    """A kill as a line of the table, and below it what was wrong."""
    killed = trial.kind if trial.struck else "(too late)"
    head = f"{number:>3} {trial.start:<6} {killed:<11} {trial.after:>6.2f}s {trial.code:>6} {trial.recorded:>9}  "
    return head + (
        "as undisturbed" if not trial.wrong else "\n".join(["DIFFERS", *(f"      {w}" for w in trial.wrong)])
    )


if __name__ == "__main__":
    sys.exit(main())
