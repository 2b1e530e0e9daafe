"""The door's side of the examiner: starts it, opens lanes to it, hands in jobs. Imports neither torch nor pytest."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from autograder.channel import frames
from autograder.course import Tier
from autograder.errors import ConfinementUnavailable, CourseError, GraderFault
from autograder.examiner.job import Examined, Job, KnownJob
from autograder.examiner.zygotes import SERVE, TRAINING

START_SECONDS = 240.0
"""Importing torch twice from a cold disk."""
GRACE_SECONDS = 30.0
"""How long a lane may take beyond what its submission may: then the fault is ours.

So a submission costs at most ``submission_seconds + GRACE_SECONDS``, however often it is handed in.
"""

KNOWN_SECONDS = 60.0
"""How long a known mistake of the suites may take; none of them does anything for long."""


HELLO_SECONDS = 30.0
"""How long a new lane may take to say that it is there; a fork takes milliseconds."""


class LaneLost(GraderFault):
    """The lane ended or was stopped in the middle of a submission: another one would fare no better with it."""


class Examiner:
    """An examiner, which begins to warm up at once; `wait` until it is ready.

    Args:
        hidden: the folder of all hidden suites.
        tiers: acceptable confinement, best first.
        log: where tracebacks of the examiner's own faults are kept.
        assignments: which suites to load; all of them by default.
        training: whether notebooks train a model; where others do all the same, they take longer.
    """

    def __init__(
        self,
        hidden: Path,
        tiers: Sequence[Tier],
        log: Path | None = None,
        assignments: Sequence[str] = (),
        *,
        training: bool = True,
    ) -> None:
        self._control, theirs = socket.socketpair()
        package = Path(__file__).parents[2]
        with theirs, _opened(log) as complaints:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "autograder.examiner",
                    str(theirs.fileno()),
                    str(hidden),
                    "".join(tiers),
                    TRAINING if training else SERVE,
                    *assignments,
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the door's: it ends the examiner in its own way
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env={**_environment(), "PYTHONPATH": str(package)},
            )
        self._ready = False
        self.points: dict[str, dict[str, float]] = {}
        """What each exercise is worth, by assignment, as its checks declare it; known when it is ready."""

    def wait(self) -> None:
        """Return when it can examine.

        Raises:
            ConfinementUnavailable: student code can't be confined as required.
            CourseError: a hidden suite can't be used.
            GraderFault: it did not start.
        """
        if not self._ready:
            self.points = self._hello()

    def lane(self) -> Lane:
        """A new connection; jobs in different lanes are examined at the same time. Raises as `wait` does."""
        self.wait()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"L"], [theirs.fileno()])
            except OSError as error:
                raise GraderFault(f"the examiner is gone ({error.strerror})") from None
        return Lane(ours)

    def close(self) -> None:
        """End the examiner and all that belongs to it."""
        self._control.close()
        if not self._ready:
            self._process.kill()  # it is importing; its zygote ends by itself
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Examiner:
        try:
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hello(self) -> dict[str, dict[str, float]]:
        try:
            hello, _ = frames.receive(self._control, deadline=time.monotonic() + START_SECONDS)
        except frames.ChannelError as error:
            raise GraderFault(f"the examiner did not start ({error})") from None
        if "refused" in hello:
            # The class of the exception does not cross the process border; its exit code does.
            raise (CourseError if hello["exit_code"] == CourseError.exit_code else ConfinementUnavailable)(
                hello["refused"]
            )
        self._ready = True
        self._control.settimeout(None)  # lanes are asked for by `send_fds`, which waits for room
        return dict(hello["suites"])


class Lane:
    """One connection to the examiner; used by one thread.

    Raises:
        GraderFault: the examiner did not open it.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._pid: int | None = None
        self._is_killed = False
        try:
            self._pid = int(self._receive(time.monotonic() + HELLO_SECONDS)["pid"])
        except BaseException:
            self.close()
            raise

    def examine(self, job: Job | KnownJob, deadline: float | None = None) -> Examined:
        """Have a submission, or a known mistake of the suites, examined until `deadline` (see `deadline_of`).

        Raises:
            LaneLost: the lane died over it, or was stopped.
            GraderFault: the lane had not taken it yet, or failed; it can't be used again, but another one can.
        """
        name = "job" if isinstance(job, Job) else "known"
        deadline = deadline_of(job) if deadline is None else deadline
        try:
            frames.send(
                self._sock, {name: msgspec.to_builtins(job)}, deadline=deadline, max_header=frames.MAX_TRUSTED_HEADER
            )
        except frames.ChannelError as error:
            raise GraderFault(f"the examiner's lane is gone ({error})") from None
        if "taken" not in self._receive(deadline):
            raise GraderFault("the examiner's lane did not take the submission")
        reply = self._receive(deadline, lost=LaneLost)
        if "fault" in reply:
            raise GraderFault(reply["fault"])
        try:
            return msgspec.convert(reply["examined"], Examined, strict=False)
        except (msgspec.ValidationError, KeyError) as error:
            raise GraderFault(f"the examiner's report can't be read ({error})") from None

    def close(self) -> None:
        """End the lane and the worker that it may have, in the middle of a submission too."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # whoever waits for a report, in another thread, wakes up
        self._sock.close()
        self._kill()

    def _kill(self) -> None:
        if self._pid is not None and not self._is_killed:  # one that has not said who it is ends by its closed socket
            self._is_killed = True  # soon its number may be somebody else's
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _receive(self, deadline: float, lost: type[GraderFault] = GraderFault) -> dict[str, Any]:
        try:
            return frames.receive(self._sock, deadline=deadline, max_header=frames.MAX_TRUSTED_HEADER)[0]
        except frames.DeadlineExceeded:
            self._kill()
            raise lost("the examiner gave no report in time") from None
        except frames.ChannelError as error:
            raise lost(f"the examiner's lane is gone ({error})") from None


def deadline_of(job: Job | KnownJob) -> float:
    """When an examination that begins now has to be over, on the clock of `time.monotonic`."""
    seconds = job.limits.submission_seconds if isinstance(job, Job) else KNOWN_SECONDS
    return time.monotonic() + seconds + GRACE_SECONDS


def _environment() -> dict[str, str]:
    """Ours, without what tells pytest to load or do more, and with one thread.

    Forks of a process whose maths library runs threads can hang; and a lane is one core's work anyway.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return ours | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def _opened(log: Path | None) -> IO[bytes]:
    """Where tracebacks of the examiner go: to a file for instructors, or nowhere; never to a student's terminal."""
    if log is not None:
        with contextlib.suppress(OSError):
            log.parent.mkdir(mode=0o700, exist_ok=True)
            return log.open("ab")
    return open(os.devnull, "ab")
