"""How much of the machine one worker may use."""

from __future__ import annotations

import contextlib
import dataclasses
import os

try:
    import resource
except ImportError:  # Windows: a worker there is bounded in time alone
    resource = None  # type: ignore[assignment]

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one worker may use. `Limits(cpu_seconds=20)` changes one of them.

    `memory_bytes` bounds the address space: torch alone maps about 0.7 GiB, so keep it at 2 GiB or above.
    `processes` bounds threads, for a confined worker cannot make processes. `scratch_bytes` bounds all that a
    worker writes to files, `file_bytes` one file.
    """

    memory_bytes: int = 3 << 30
    cpu_seconds: int = 120
    file_bytes: int = 32 * MIB
    open_files: int = 64
    processes: int = 64
    scratch_bytes: int = 64 * MIB


def threads_of(uid: int) -> int:
    """How many threads the user `uid` runs on this machine now, as far as /proc shows them."""
    count = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid == uid:
                count += max(1, os.stat(f"/proc/{entry.name}/task").st_nlink - 2)
        except OSError:  # it ended meanwhile
            continue
    return count


def apply(limits: Limits, others: int = 0) -> None:
    """Bind the calling process to `limits`, for good (soft and hard).

    `others`: how many threads the kernel counts on the same account although they are not this worker's,
    since RLIMIT_NPROC counts all threads of a user.
    """
    if resource is None:
        return
    _bind(
        {
            "AS": limits.memory_bytes,
            "CPU": limits.cpu_seconds,
            "FSIZE": limits.file_bytes,
            "NOFILE": limits.open_files,
            "NPROC": limits.processes + others,
            "STACK": 8 * MIB,
            "CORE": 0,
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
            "SIGPENDING": 256,
            "NICE": 0,
            "RTPRIO": 0,
        }
    )


def apply_where_trusted(limits: Limits) -> None:
    """The bounds that keep a trusted worker from harming by mistake, where the system has them."""
    if resource is not None:
        bounds = {"AS": limits.memory_bytes, "CPU": limits.cpu_seconds, "FSIZE": limits.file_bytes, "CORE": 0}
        for name, value in bounds.items():
            with contextlib.suppress(OSError, ValueError):  # macOS maps more than any sensible address space
                _bind({name: value})


def _bind(wanted: dict[str, int]) -> None:
    for name, value in wanted.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:  # not on this system
            continue
        hard = resource.getrlimit(number)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (bound, bound))
