"""The trusted side of workers: starting a zygote, asking it for workers, ending them.

    with Zygote.start() as zygote, zygote.spawn(Limits(cpu_seconds=20)) as worker:
        worker.sock.sendall(...)

One client object belongs to one process and one thread. A process that wants to fork lanes asks for one
client per lane, with `attach`, before it forks; see there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from autograder.errors import ConfinementUnavailable, GraderFault
from autograder.examiner import scratch
from autograder.examiner.launching import START_WITHIN, Launch, last_line, package_folder
from autograder.examiner.workers import (
    ConfinementFailed,
    Forked,
    Tier,
    Worker,
    ZygoteDied,
    describe_exit,
)
from autograder.worker.limits import Limits

__all__ = [
    "IDLE",
    "SERVE",
    "TRAINING",
    "ConfinementFailed",
    "Limits",
    "Tier",
    "Worker",
    "Zygote",
    "ZygoteDied",
    "describe_exit",
    "probe",
]

SERVE, TRAINING = "autograder.worker.serve", "autograder.worker.training"
IDLE = "autograder.worker.idle"

_ANSWER_WITHIN = 30.0  # seconds; it takes milliseconds
_ANSWER_AT_LEAST = 0.01  # seconds: 0 would mean not to wait for what is there already
_END_WITHIN = 10.0  # seconds: longer than a zygote waits for its workers, before it removes what we remove as well
_LARGEST_MESSAGE = 1 << 16


class Zygote:
    """A source of workers of one tier; for the tiers A and B a client of a warm process that forks them.

    `tier` is what `spawn` gives if nothing else is said; `refused` says of each better tier why it cannot be
    had; `start_seconds` is how long the start took.
    """

    def __init__(self, tier: Tier, launch: Launch, control: socket.socket | None) -> None:
        self.tier: Tier = tier
        self.start_seconds = 0.0
        self.refused: dict[Tier, str] = {}
        self._launch = launch
        self._control = control
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self._number = 0
        self._workers: dict[int, weakref.ref[Forked]] = {}
        self._exits: dict[int, int] = {}
        _clients.add(self)

    @property
    def pid(self) -> int | None:
        """The zygote's pid, for the client that has started it."""
        return None if self._process is None else self._process.pid

    @classmethod
    def start(
        cls,
        tiers: Sequence[Tier] = ("A", "B"),
        *,
        module: str = SERVE,
        python: str | None = None,
        package: Path | None = None,
        hidden: Sequence[Path] = (),
    ) -> Zygote:
        """Start a zygote and choose the first of `tiers` that this machine really gives, by trying.

        `module` offers `preload()` and `serve(channel, preloaded)`; `python` is the interpreter; `package` is
        the folder that holds the package. `hidden` are folders that no worker may read: it is refused to
        start if one lies within what Python needs. Raises `ConfinementUnavailable` with the reasons if no
        tier can be had, `GraderFault` if the preload fails.
        """
        launch = Launch(module, python or sys.executable, package or package_folder())
        began = time.perf_counter()
        zygote, refused = cls._choose(tiers, launch, hidden)
        zygote.refused = refused
        zygote.start_seconds = time.perf_counter() - began
        return zygote

    @classmethod
    def _choose(cls, tiers: Sequence[Tier], launch: Launch, hidden: Sequence[Path]) -> tuple[Zygote, dict[Tier, str]]:
        refused: dict[Tier, str] = {}
        forked = [tier for tier in tiers if tier != "C"]
        if forked:
            try:
                launch.look_for_readable(hidden)
                zygote = cls._start_process(launch)
            except ConfinementUnavailable as reason:
                refused.update((tier, str(reason)) for tier in forked)
            else:
                for tier in forked:
                    refusal = zygote.try_tier(tier)
                    if refusal is None:
                        zygote.tier = tier
                        return zygote, refused
                    refused[tier] = refusal
                zygote.close()
        if "C" in tiers:
            return cls("C", launch, None), refused
        reasons = "; ".join(f"tier {tier}: {reason}" for tier, reason in refused.items())
        raise ConfinementUnavailable(f"student code cannot be confined here as the course requires ({reasons})")

    @classmethod
    def _start_process(cls, launch: Launch) -> Zygote:
        """Start a zygote proper, and wait until it is ready."""
        if sys.platform != "linux":
            raise ConfinementFailed(f"system: confinement needs Linux, this is {sys.platform}")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        zygote = cls("A", launch, ours)
        zygote._scratch = scratch.make("zygote")
        with tempfile.TemporaryFile() as complaints:
            with theirs:
                zygote._process = launch.zygote(theirs, zygote._scratch, complaints)
            try:
                zygote._await_ready(complaints)
            except BaseException:
                zygote._process.kill()
                zygote.close()
                raise
        return zygote

    def try_tier(self, tier: Tier) -> str | None:
        """None if a worker of that tier can be had; else why not. Costs one throw-away child."""
        try:
            self.spawn(tier=tier).close()
        except ConfinementFailed as failure:
            return str(failure)
        return None

    def spawn(self, limits: Limits | None = None, tier: Tier | None = None, deadline: float | None = None) -> Worker:
        """A new worker.

        Raises `ConfinementFailed` if a step of its confinement fails, `ZygoteDied` if a new zygote is needed, which
        it is where the answer has not come until `deadline` (on the clock of `time.monotonic`; tiers A and B).
        """
        tier = tier or self.tier
        limits = limits or Limits()
        if tier == "C":
            return self._launch.fresh(limits)
        folder = scratch.make("worker", self._scratch) if tier == "B" else None
        try:
            worker = self._spawn_forked(limits, tier, folder, deadline)
        except BaseException:
            if folder is not None:
                scratch.remove(folder)
            raise
        if folder is not None:
            worker.watch_folder(limits.scratch_bytes)
        return worker

    def _spawn_forked(self, limits: Limits, tier: Tier, folder: Path | None, deadline: float | None) -> Forked:
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
        try:
            with theirs:
                try:
                    answer, descriptors = self._ask(
                        {
                            "op": "spawn",
                            "tier": tier,
                            "limits": dataclasses.asdict(limits),
                            "work": folder and str(folder),
                        },
                        theirs.fileno(),
                        writer,
                        deadline=deadline,
                    )
                finally:
                    os.close(writer)
            worker = self._hold(int(answer["id"]), ours, descriptors[0], tier, folder) if descriptors else None
            try:
                status = _read_status(reader, deadline)
                if worker is None or "failed" in status:
                    raise ConfinementFailed(status.get("failed", "the worker could not be started"))
            except BaseException:
                if worker is not None:
                    worker.close()
                raise
            worker.landlock_abi = int(status["landlock"])
            worker.confinement = "+".join(status["layers"])
            return worker
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(reader)

    def _hold(self, number: int, sock: socket.socket, pidfd: int, tier: Tier, folder: Path | None) -> Forked:
        exit_code = functools.partial(self._exit_code, number)
        worker = Forked(sock, pidfd, tier, folder, exit_code, functools.partial(self._forget, number))
        self._workers[number] = weakref.ref(worker)
        return worker

    def attach(self) -> Zygote:
        """Another client of the same zygote, for a lane that is about to be forked.

        Before the fork: `lane = zygote.attach()`. In the fork: `lane.adopt()`, which makes the client usable
        there and closes all that the fork has inherited from other clients. In the parent: `lane.abandon()`,
        so that the zygote sees the end of the lane, whose workers it then kills.
        """
        if self._control is None:
            return Zygote(self.tier, self._launch, None)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._ask({"op": "attach"}, theirs.fileno())
        lane = Zygote(self.tier, self._launch, ours)
        lane.refused = dict(self.refused)
        lane._scratch = self._scratch
        return lane

    def _await_ready(self, complaints: IO[bytes]) -> None:
        try:
            message, _ = self._receive(START_WITHIN)
        except ZygoteDied as death:
            raise ZygoteDied(f"{death} before it was ready: {last_line(complaints)}") from None
        if not message["ready"]:
            raise GraderFault(f"the zygote could not be prepared: {message['reason']}")

    def adopt(self) -> None:
        """Belong to the calling process, a fork of the one that attached; close all other clients in it."""
        self._owner = os.getpid()
        for other in list(_clients):
            if other is not self:
                other.abandon()

    def abandon(self) -> None:
        """Close this client in the calling process only; neither the zygote nor a worker is told or ended."""
        for reference in self._workers.values():
            worker = reference()
            if worker is not None:
                worker.abandon()
        self._workers.clear()
        if self._control is not None:
            self._control.close()
        self._process = self._scratch = None
        _clients.discard(self)

    def close(self) -> None:
        """End this client's workers, and the zygote itself if this client has started it."""
        if self._owner != os.getpid():
            return
        for reference in list(self._workers.values()):
            worker = reference()
            if worker is not None:
                worker.close()
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            # Lanes may still use it: it ends when the last of them does.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_WITHIN)
            if self._scratch is not None:
                scratch.remove(self._scratch)  # what killed lanes have left is in it too
                self._scratch = None
        _clients.discard(self)

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self, request: dict[str, Any], *descriptors: int, deadline: float | None = None
    ) -> tuple[dict[str, Any], list[int]]:
        if self._owner != os.getpid():
            raise RuntimeError("this client belongs to another process; see Zygote.attach")
        if self._control is None:
            raise ConfinementFailed("zygote: none runs, for only tier C was asked for")
        self._number += 1
        try:
            socket.send_fds(self._control, [json.dumps({**request, "id": self._number}).encode()], descriptors)
        except OSError as error:
            raise ZygoteDied(f"the zygote is gone ({error.strerror})") from error
        while True:
            answer, received = self._receive(_time_until(deadline))
            if answer.get("id") == self._number:
                return answer, received

    def _receive(self, within: float) -> tuple[dict[str, Any], list[int]]:
        """The next message; exits are noted too."""
        assert self._control is not None
        self._control.settimeout(within)
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_MESSAGE, 8)
        except TimeoutError:
            raise ZygoteDied(f"the zygote has not answered within {within:.1f} seconds") from None
        except OSError as error:
            raise ZygoteDied(f"the zygote is gone ({error.strerror})") from error
        if not data:
            raise ZygoteDied("the zygote has ended")
        message: dict[str, Any] = json.loads(data)
        if "exit" in message and message["exit"] in self._workers:
            self._exits[message["exit"]] = message["code"]
        return message, descriptors

    def _exit_code(self, number: int) -> int:
        """How the worker of that number, which is dead, has ended. Killed, where nobody is left to say."""
        while number not in self._exits:
            try:
                self._receive(_ANSWER_WITHIN)
            except ZygoteDied:
                return -signal.SIGKILL
        return self._exits[number]

    def _forget(self, number: int) -> None:
        self._workers.pop(number, None)
        self._exits.pop(number, None)


_clients: weakref.WeakSet[Zygote] = weakref.WeakSet()


def _time_until(deadline: float | None) -> float:
    """Seconds that an answer may take, `deadline` or not."""
    left = _ANSWER_WITHIN if deadline is None else deadline - time.monotonic()
    return min(_ANSWER_WITHIN, max(left, _ANSWER_AT_LEAST))


def _read_status(reader: int, deadline: float | None = None) -> dict[str, Any]:
    """The one message that a child writes before it runs foreign code."""
    within = _time_until(deadline)
    data = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while True:
        if not poll.poll(within * 1000):
            raise ConfinementFailed(f"the worker was not confined within {within:.1f} seconds")
        piece = os.read(reader, 1 << 16)
        if not piece:
            break
        data += piece
    status: dict[str, Any] = json.loads(data or "{}")
    if not status:
        raise ConfinementFailed("the worker ended before it was confined")
    return status


def probe(python: str | None = None, package: Path | None = None) -> dict[Tier, str | None]:
    """What this machine offers, found out by trying: for the tiers A and B None, or why it is missing."""
    launch = Launch(IDLE, python or sys.executable, package or package_folder())
    try:
        zygote = Zygote._start_process(launch)
    except ConfinementFailed as failure:
        return {"A": str(failure), "B": str(failure)}
    with zygote:
        return {"A": zygote.try_tier("A"), "B": zygote.try_tier("B")}
