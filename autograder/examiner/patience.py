"""The grader's own work on one submission has an end: what takes longer is stopped, wherever it is."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

OWN_SECONDS = 20.0
"""Of this process' processor time for one submission: reading its source, checks, the search of known mistakes.

Its own code runs elsewhere, in `Limits.submission_seconds`.
"""
OWN_BYTES = 2 << 30
"""What a submission may make this process grow by; a reply of the largest kind takes a sixth."""

MEMORY_TEXTS = ("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory")
"""What torch says where it gets no memory, as a plain `RuntimeError`."""

_AGAIN_AFTER = 0.5  # seconds: the first alarm may end in a finaliser, where exceptions are lost


class OutOfPatience(BaseException):
    """The grader's own work took too long. No `Exception`: nothing on the way may take it for one of its own."""


class _BoundedTime:
    """The guard of `bounded_time`. It is left by one method, whose frame tells the alarm that it comes too late."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGPROF, _give_up)
        signal.setitimer(signal.ITIMER_PROF, self._seconds, _AGAIN_AFTER)

    def __exit__(self, *raised: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)


def bounded_time(seconds: float | None = None) -> AbstractContextManager[None]:
    """Raise `OutOfPatience` in here once this process has worked for so long (`OWN_SECONDS`); main thread only."""
    return _BoundedTime(OWN_SECONDS if seconds is None else seconds)


def bound_memory() -> None:
    """From now on, more than `OWN_BYTES` beyond what this process has now is refused to it."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        # The soft limit alone: a worker that is started from here has limits of its own.
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        bound = pages * resource.getpagesize() + OWN_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))


def note_memory(error: BaseException | None) -> None:
    """Note whether an exception of our own says that this process may have no more memory."""
    global _has_run_out
    _has_run_out |= is_about_memory(error)


def is_about_memory(error: BaseException | None) -> bool:
    """Whether an exception is what Python or torch raise where there is no more memory."""
    if isinstance(error, RuntimeError):
        return says_no_memory((), str(error))
    return isinstance(error, MemoryError)


def says_no_memory(bases: Sequence[str], text: str) -> bool:
    """The same of an exception's description: its builtin classes and its text."""
    return "MemoryError" in bases or any(piece in text for piece in MEMORY_TEXTS)


def has_run_out_of_memory() -> bool:
    """Whether that has been noted in this process: it is not to be asked again."""
    return _has_run_out


_has_run_out = False


def _give_up(number: int, frame: FrameType | None) -> None:
    # On the way in or out nothing would stop the timer behind the exception.
    while frame is not None:
        if frame.f_code in _ON_THE_WAY:
            return
        frame = frame.f_back
    raise OutOfPatience


_ON_THE_WAY = _BoundedTime.__enter__.__code__, _BoundedTime.__exit__.__code__
