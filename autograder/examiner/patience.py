"""The grader's own work on one submission has an end: what takes longer is stopped, wherever it is."""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

OWN_SECONDS = 20.0
"""Of this process' processor time for one submission: reading its source, checks, the search of known mistakes.

Its own code runs elsewhere, in `Limits.submission_seconds`.
"""
OWN_BYTES = 2 << 30
"""What a submission may make this process grow by; a reply of the largest kind takes a sixth."""

_AGAIN_AFTER = 0.5  # seconds: the first alarm may end in a finaliser, where exceptions are lost


class OutOfPatience(BaseException):
    """The grader's own work took too long. No `Exception`: nothing on the way may take it for one of its own."""


@contextlib.contextmanager
def bounded_time(seconds: float | None = None) -> Iterator[None]:
    """Raise `OutOfPatience` in here once this process has worked for so long (`OWN_SECONDS`); main thread only."""
    before = signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, OWN_SECONDS if seconds is None else seconds, _AGAIN_AFTER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def bound_memory() -> None:
    """From now on, more than `OWN_BYTES` beyond what this process has now is refused to it."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        # The soft limit alone: a worker that is started from here has limits of its own.
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        bound = pages * resource.getpagesize() + OWN_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))


def _give_up(number: int, frame: FrameType | None) -> NoReturn:
    raise OutOfPatience
