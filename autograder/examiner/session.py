"""One submission's worker: its cells run in order, its functions called, and a fresh one when it dies.

Deadlines are kept here, outside of the student's process, and end in SIGKILL.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from autograder.channel import frames
from autograder.channel.replies import Frame, exception
from autograder.course import Limits
from autograder.errors import ConfinementUnavailable, GraderFault
from autograder.examiner import replies
from autograder.examiner.job import JobCell
from autograder.examiner.zygotes import Worker, describe_exit

MAX_REPLY = 4 << 20
"""Of a call's header, in bytes: that of the largest result that the codec sends has some hundred thousand."""
MAX_OUTPUTS = 32 << 20
"""Characters of output that are kept of a whole submission; those of later cells are dropped."""


class WorkerDied(Exception):
    """The student's process is gone; the text says how."""


class TimedOut(WorkerDied):
    """It was killed at a deadline.

    Attributes:
        seconds: the deadline's length.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer after {seconds:g} seconds")
        self.seconds = seconds


class Crashed(WorkerDied):
    """It ended by itself, or was killed by the system.

    Attributes:
        exited: whether it ended as a program does that is done, by an exit.
    """

    def __init__(self, how: str, exited: bool = False) -> None:
        super().__init__(how)
        self.exited = exited


class Garbled(WorkerDied):
    """It sent something that is no answer, and was killed for it."""


class NoMoreTime(TimedOut):
    """The submission has used up all its time."""


class NoMoreRestarts(WorkerDied):
    """It died more often than it may be started again."""


class Session:
    """A submission in a worker.

    Args:
        spawn: starts a fresh worker.
        cells: the cells to run, in order.
        limits: deadlines and the number of restarts.
        end: when all its time is used up, on the clock of `time.monotonic`; by the limits, from now on, by default.
    """

    def __init__(
        self, spawn: Callable[[], Worker], cells: Sequence[JobCell], limits: Limits, end: float | None = None
    ) -> None:
        self._spawn = spawn
        self._cells = cells
        self._limits = limits
        self._worker: Worker | None = None
        self._ran = 0  # how many cells have run in the present worker
        self._reached = 0  # how many have run in any
        self._deadly: set[int] = set()
        self._restarts = 0
        self._request_number = 0
        self._watched: object = None  # the names that the present worker looks out for
        self._end = time.monotonic() + limits.submission_seconds if end is None else end
        self._output_left = MAX_OUTPUTS
        self.outputs: dict[int, list[dict[str, Any]]] = {}
        self.errors: dict[int, dict[str, Any]] = {}
        """What stopped cells, by number: an exception's description; ``ended`` is the `WorkerDied`, if it was one."""
        self.was_killed = False
        """Whether a worker was killed, and not by us: where memory runs out, or by whoever keeps the machine."""
        self.was_late = False
        """Whether a deadline has ended a worker."""
        self.confinement = "none"
        self.seconds = {"spawn": 0.0, "cells": 0.0, "channel": 0.0}
        self.calls = 0

    def run_until(self, count: int) -> None:
        """Run the first `count` cells, those that have not run yet.

        A cell that kills the worker costs itself alone: it is skipped by the fresh worker that takes over.

        Raises:
            NoMoreTime, NoMoreRestarts: the submission can't go on.
            GraderFault: no worker could be started, which is our fault.
        """
        while self._worker is None or self._ran < count:
            try:
                self._ensure(count)
            except (NoMoreTime, NoMoreRestarts):
                raise
            except WorkerDied:
                continue

    def request(self, header: dict[str, Any], blobs: Sequence[frames.Buffer]) -> Frame:
        """Ask the worker (an `Endpoint` of the channel's proxy).

        Raises:
            WorkerDied: it gave no answer; the next request starts a fresh worker.
            GraderFault: no worker could be started, which is our fault.
        """
        self.run_until(self._reached)
        started = time.monotonic()
        self.calls += 1
        header = self._told_once(header)
        try:
            return self._ask(header, blobs, self._limits.call_seconds, MAX_REPLY)
        finally:
            self.seconds["channel"] += time.monotonic() - started

    def _told_once(self, header: dict[str, Any]) -> dict[str, Any]:
        """The request without the names to look out for where the worker does so already: there are many of them."""
        names = header.get("watch", self._watched)
        if names is None or names != self._watched:
            self._watched = names
            return header
        return {field: value for field, value in header.items() if field != "watch"}

    def close(self) -> None:
        """End the worker, whatever it does."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ensure(self, count: int) -> None:
        if self._worker is None:
            self._start()
        count = max(count, self._reached)
        while self._ran < count:
            place = self._ran
            self._ran += 1
            if place not in self._deadly:
                self._run_cell(place)
            self._reached = max(self._reached, self._ran)

    def _start(self) -> None:
        if self._restarts > self._limits.restarts:
            raise NoMoreRestarts("it was started again as often as it may be")
        if time.monotonic() >= self._end:
            self.was_late = True
            raise NoMoreTime(self._limits.submission_seconds)
        started = time.monotonic()
        self._restarts += 1
        try:
            self._worker = self._spawn()
        except (ConfinementUnavailable, OSError) as failure:  # this machine gave one before, or would not have begun
            raise GraderFault(f"no worker could be started: {failure}") from failure
        self._ran, self._watched = 0, None
        self.confinement = self._worker.confinement
        self.seconds["spawn"] += time.monotonic() - started

    def _run_cell(self, place: int) -> None:
        cell = self._cells[place]
        header = {
            "op": "cell",
            "source": cell.source,
            "number": cell.number,
            "cap": self._limits.output_kb << 10,
        }
        started = time.monotonic()
        self._watched = None  # a cell ends that
        try:
            limits = self._limits
            reply, _ = self._ask(header, (), limits.call_seconds if cell.public_tests else limits.cell_seconds)
        except WorkerDied as death:
            self._deadly.add(place)
            self._reached = max(self._reached, place + 1)
            # What a worker says of itself has no such field: see `replies.exception`.
            said = {"type": type(death).__name__, "text": str(death), "line": None, "ended": death}
            self.errors[cell.number] = said
            raise
        finally:
            self.seconds["cells"] += time.monotonic() - started
        self._keep(cell.number, reply)

    def _keep(self, number: int, reply: dict[str, Any]) -> None:
        if error := exception(reply.get("error")):
            self.errors.setdefault(number, error)
        if number in self.outputs:
            return
        outputs = replies.outputs(reply.get("outputs"))
        size = len(json.dumps(outputs))
        if size <= self._output_left:
            self._output_left -= size
            self.outputs[number] = outputs

    def _ask(
        self,
        header: dict[str, Any],
        blobs: Sequence[frames.Buffer],
        seconds: float,
        max_header: int = frames.MAX_HEADER,
    ) -> Frame:
        assert self._worker is not None
        self._request_number += 1
        now = time.monotonic()
        deadline = min(now + seconds, self._end)
        try:
            frames.expect_silence(self._worker.sock)
            frames.send(self._worker.sock, {**header, "n": self._request_number}, blobs, deadline=deadline)
            reply, blob = frames.receive(self._worker.sock, deadline=deadline, max_header=max_header)
        except frames.DeadlineExceeded:
            self.close()
            self.was_late = True
            if deadline == self._end:
                raise NoMoreTime(self._limits.submission_seconds) from None
            raise TimedOut(seconds) from None
        except frames.PeerGone:
            raise self._how_it_ended() from None
        except frames.ProtocolError as error:
            self.close()
            raise Garbled(str(error)) from None
        if type(reply.get("re")) is not int or reply["re"] != self._request_number:
            self.close()
            raise Garbled("it answered another request than the one that was asked")
        return reply, blob

    def _how_it_ended(self) -> Crashed:
        assert self._worker is not None
        code, overflowed = self._worker.wait(1.0), self._worker.overflowed
        self.close()
        if overflowed:
            return Crashed("more files than a submission may write")
        self.was_killed |= code == -signal.SIGKILL
        return Crashed(describe_exit(code), code >= 0) if code is not None else Crashed("a closed channel")
