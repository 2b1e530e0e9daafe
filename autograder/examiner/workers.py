"""Workers as the trusted side holds them: their channel, their end, what they leave behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

from autograder.errors import ConfinementUnavailable, GraderFault
from autograder.examiner import scratch
from autograder.worker import surroundings

Tier = Literal["A", "B", "C"]

_END_WITHIN = 30.0  # seconds; it takes milliseconds


class ConfinementFailed(ConfinementUnavailable):
    """A worker could not be confined as asked, and ran no student code. The text is "<step>: <reason>"."""


class ZygoteDied(GraderFault):
    """The zygote is gone or does not answer; a new one must be started."""


def describe_exit(code: int) -> str:
    """An exit code as `Worker.wait` returns it, in words: "SIGKILL" or "exit status 1"."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class Worker:
    """A process that runs untrusted code; as a context manager it is always killed in the end.

    `sock` is the trusted end of its channel; all that comes out of it was written by untrusted code. `tier`
    and `confinement` (such as "namespaces+landlock+seccomp") are what the child told before it ran any of
    that code.
    """

    def __init__(self, sock: socket.socket, pid: int, tier: Tier, folder: Path | None) -> None:
        self.sock = sock
        self.pid = pid
        self.tier: Tier = tier
        self.confinement = "+".join(surroundings.layers(tier)) or "none"
        self.landlock_abi = 0
        self.overflowed = False
        """Whether it was killed for writing too much to its folder (tier B; in tier A writing fails)."""
        self._folder = folder
        self._watch: scratch.Watch | None = None
        self._closed = False

    def kill(self) -> None:
        """End it now. The kernel does it, and never to another process that has got the same pid."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait at most `timeout` seconds for its end: its exit status, `-signal`, or None while it runs."""
        raise NotImplementedError

    def folder_bytes(self) -> int:
        """Bytes on disk in its private folder; 0 in tier A, whose scratch is memory that nobody else sees."""
        return 0 if self._folder is None else scratch.size(self._folder)

    def close(self) -> None:
        """Kill it and remove what it has left: nothing, in tier A, so that its end is not waited for.

        Where that is broken off, by an alarm perhaps, it can be done again, until it has come to its end.
        """
        if self._closed:
            return
        if self._watch is not None:
            self._watch.stop()
        self.kill()
        self.sock.close()
        if self._folder is not None:
            self.wait(_END_WITHIN)
            scratch.remove(self._folder)
        self._closed = True  # before its pidfd is closed, whose number may be another file's then
        self._release()

    def _release(self) -> None:
        """Give back what the kind of worker holds."""

    def watch_folder(self, limit: int) -> None:
        """From now on, kill it if its folder holds more than `limit` bytes."""
        assert self._folder is not None
        self._watch = scratch.Watch(self._folder, limit, self._overflow)

    def _overflow(self) -> None:
        self.overflowed = True
        self.kill()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Forked(Worker):
    """A worker of tier A or B: a child of the zygote, held by a pidfd.

    `exit_code` tells how it has ended, once it has; `forget` is called when nobody will ask any more.
    """

    def __init__(
        self,
        sock: socket.socket,
        pidfd: int,
        tier: Tier,
        folder: Path | None,
        exit_code: Callable[[], int],
        forget: Callable[[], None],
    ) -> None:
        super().__init__(sock, _pid_of(pidfd), tier, folder)
        self._pidfd = pidfd
        self._exit_code = exit_code
        self._forget = forget

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int | None:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(None if timeout is None else max(0.0, timeout * 1000)):
            return None
        return self._exit_code()

    def abandon(self) -> None:
        """Close what a fork has inherited, and leave the worker to the process that it belongs to."""
        if not self._closed:
            self._closed = True
            self.sock.close()
            os.close(self._pidfd)

    def _release(self) -> None:
        self._forget()
        os.close(self._pidfd)


class Fresh(Worker):
    """A worker of tier C."""

    def __init__(self, process: subprocess.Popen[str], sock: socket.socket, folder: Path) -> None:
        super().__init__(sock, process.pid, "C", folder)
        self._process = process

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


def _pid_of(pidfd: int) -> int:
    """The pid as it is here: in the zygote's pid namespace it may be another. -1 once the process is gone."""
    with Path(f"/proc/self/fdinfo/{pidfd}").open() as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
