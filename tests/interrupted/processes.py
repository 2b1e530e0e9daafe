"""The processes of a class run, found by a folder that their command lines name, and killed one by one."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

INTERRUPT = "Ctrl-C"
"""What a terminal sends to the process group."""
ABOVE = ("group", "command", "everything", INTERRUPT)
"""What ends the command; it goes on and tells where one of the others is killed."""
BELOW = ("examiner", "zygote", "lane", "worker")
TARGETS = tuple(one for pair in zip(ABOVE, BELOW, strict=True) for one in pair)
WAIT = 20.0
"""Seconds in which what is left of a killed run has to end by itself."""


class Process(NamedTuple):
    """A process that is no zombie."""

    pid: int
    parent: int
    words: str


def living(marker: str, standing: frozenset[int] = frozenset()) -> dict[int, Process]:
    """The processes that name `marker` on their command line, and the children of these, by pid.

    Args:
        marker: a folder.
        standing: pids that are left out.
    """
    everything = {process.pid: process for process in _processes()}
    found = {pid: process for pid, process in everything.items() if marker in process.words and pid != os.getpid()}
    while more := {p: one for p, one in everything.items() if one.parent in found and p not in found}:
        found |= more
    return {pid: process for pid, process in found.items() if pid not in standing}


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if state != "Z":
            yield Process(int(folder.name), int(parent), words)


class Struck(NamedTuple):
    """A run as it is to be killed.

    Attributes:
        command: its pid; it leads a process group.
        examiners_of: the process that has started its examiner.
        marker: what the command lines of all that it has started name.
        standing: processes that are not the run's.
    """

    command: int
    examiners_of: int
    marker: str
    standing: frozenset[int] = frozenset()

    def strike(self, kind: str, rng: random.Random, until: float, at_work: bool = False) -> bool:
        """Kill the command, all that it has started, or one of these.

        Args:
            kind: one of `TARGETS`.
            rng: chooses among several.
            until: how long to wait for one that is not there yet, on the clock of `time.monotonic`.
            at_work: wait until a submission is being examined, whatever is to be killed.

        Returns:
            whether something was killed; a run may end before there is such a process.
        """
        needed = "worker" if at_work else kind
        while needed in BELOW and not self.found(needed):
            if time.monotonic() > until or not _is_alive(self.command):
                return False
            time.sleep(0.003)
        if kind == INTERRUPT:
            return _signalled(self.command, os.killpg, signal.SIGINT)
        if kind == "command":
            return _signalled(self.command)
        if kind == "group":
            return _signalled(self.command, os.killpg)
        if kind == "everything":
            pids = [self.command, *living(self.marker, self.standing)]
            for each in pids:  # so that none of them sees another one end, and tidies up
                _signalled(each, how=signal.SIGSTOP)
            killed = [_signalled(each) for each in pids]
            return killed[0]
        return any(_signalled(pid) for pid in self._chosen(kind, rng))

    def _chosen(self, kind: str, rng: random.Random) -> list[int]:
        found = self.found(kind)
        return [rng.choice(found)] if found else []

    def found(self, kind: str) -> list[int]:
        """The pids of the run's processes of one kind of `BELOW`."""
        everything = living(self.marker)
        examiners = _children(everything, self.examiners_of, "autograder.examiner")
        zygotes = [pid for one in examiners for pid in _children(everything, one, "zygote")]
        lanes = [pid for one in examiners for pid in _children(everything, one, "autograder.examiner")]
        workers = [pid for one in zygotes for pid in _children(everything, one, "zygote")]
        return sorted({"examiner": examiners, "zygote": zygotes, "lane": lanes, "worker": workers}[kind])


def _children(found: Mapping[int, Process], parent: int, said: str) -> list[int]:
    return [one.pid for one in found.values() if one.parent == parent and said in one.words]


def _is_alive(pid: int) -> bool:
    return any(process.pid == pid for process in _processes())


def _signalled(pid: int, send: Callable[[int, int], None] = os.kill, how: signal.Signals = signal.SIGKILL) -> bool:
    try:
        send(pid, how)
    except ProcessLookupError:
        return False
    return True


def survivors(marker: str, standing: frozenset[int] = frozenset()) -> list[str]:
    """The processes that do not end by themselves in time, which are killed then."""
    until = time.monotonic() + WAIT
    while (found := living(marker, standing)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in found:
        _signalled(pid)
    return [
        f"the process {pid} is still there, a child of {parent}: {' '.join(words.split())[:200]}"
        for pid, parent, words in found.values()
    ]
