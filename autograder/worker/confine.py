"""The steps by which a forked child becomes a worker, in order. If one fails, student code does not run.

The order matters: descriptors first, so that none leads out of the private root; ids before capabilities,
which it takes to change them; Landlock after the mounts, which it forbids; seccomp last, which forbids nearly
all of the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import gc
import os
import select
import signal
import sysconfig
import tempfile
from collections.abc import Iterator

from autograder.worker import landlock, limits, namespaces, privileges, seccomp, surroundings, syscalls

# Looked up before any fork: a confined child imports nothing new.
_PACKAGES = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))


class StepFailed(Exception):
    """A step of the confinement failed; its text is "<step>: <reason>"."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a child is to become.

    `work` is tier B's private folder; `account` the uid and gid of the child, where root starts it.
    """

    tier: str
    limits: limits.Limits
    filter: seccomp.Loader
    pivot_root: int
    mount_point: str
    readable: tuple[str, ...]
    work: str | None = None
    account: int | None = None
    others: int = 0


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Names what fails inside of it."""
    try:
        yield
    except StepFailed:
        raise
    except Exception as error:
        raise StepFailed(f"{name}: {error or type(error).__name__}") from error


def close_descriptors(*keep: int) -> None:
    """Close all but `keep`; 0, 1 and 2 become /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    low = 3
    for descriptor in sorted({*keep, 1 << 30}):
        os.closerange(low, descriptor)
        low = descriptor + 1


def lowest(descriptor: int) -> int:
    """The same open file under the lowest free number above 2, well below the limit of open files."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return copy


def reset_signals() -> None:
    """Undo, in the zygote, what its caller and what it imports have done to signals; SIGINT stays ignored there."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGINT}:
        with contextlib.suppress(OSError, ValueError):  # those that the C library keeps for itself
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python does: an exception instead
        signal.signal(number, signal.SIG_IGN)


def become_ordinary_process() -> None:
    """Undo what the zygote's ways with signals, groups and masks have left."""
    os.setsid()
    os.umask(0o022)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.default_int_handler)


def die_with_zygote(life: int) -> None:
    """Be killed when the zygote ends. `life` is a pipe whose writing end only the zygote has."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(life, 0)
    if poll.poll(0):  # it ended before that was said
        raise OSError("the zygote is gone")


def confine(plan: Plan, life: int) -> dict[str, object]:
    """Make the calling process, which is a fresh fork with one thread, a worker of `plan.tier`.

    All descriptors but the worker's socket, the status pipe and `life` must be closed already. Returns what
    it has become, as said to the trusted side. Raises `StepFailed`.
    """
    with step("session"):
        become_ordinary_process()
    with step("death signal"):
        die_with_zygote(life)
    kept = plan.readable
    if plan.tier == "A":
        with step("namespaces"):
            namespaces.unshare(user=plan.account is None)
        with step("private root"):
            namespaces.enter_private_root(plan.mount_point, kept, plan.limits.scratch_bytes, plan.pivot_root)
        work = namespaces.WORK
    else:
        assert plan.work is not None
        work = plan.work
    with step("user"):
        _become_nobody(plan, work, life)
    with step("capabilities"):
        privileges.drop_everything()
    with step("working folder"):
        os.chdir(work)
    with step("interpreter"):
        _look_for_interpreter()
    with step("environment"):
        _clean_environment(work)
    with step("limits"):
        os.umask(0o077)
        limits.apply(plan.limits, plan.others)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    with step("Landlock"):
        scratch = list(namespaces.SCRATCH) if plan.tier == "A" else [work]
        version = landlock.restrict([*kept, *namespaces.DEVICES], [*scratch, "/dev/null"])
    with step("seccomp"):
        plan.filter.load(os.getpid())
    return {
        "tier": plan.tier,
        "landlock": version,
        "uid": os.getuid(),
        "layers": surroundings.layers(plan.tier),
    }


def _become_nobody(plan: Plan, work: str, life: int) -> None:
    syscalls.drop_bounding_set()
    if plan.account is not None:
        if plan.tier == "B":
            os.chown(work, plan.account, plan.account)
        if os.geteuid() != plan.account:
            privileges.become(plan.account)
    die_with_zygote(life)  # whoever changes ids or capabilities loses it
    if 0 in os.getresuid():
        raise OSError("student code would run as root")


def _look_for_interpreter() -> None:
    for folder in _PACKAGES:
        try:
            os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        except FileNotFoundError:
            continue
        except PermissionError:
            raise OSError(
                f"{folder} cannot be read by the unprivileged user {os.getuid()} that student code runs as: "
                "put Python and its virtual environment where every user can read them, "
                "or grade as an ordinary user"
            ) from None


def _clean_environment(work: str) -> None:
    temporary = "/tmp" if work == namespaces.WORK else work
    tempfile.tempdir = None  # the preload may have asked for it, and got the zygote's
    os.environ.clear()
    os.environ.update(surroundings.clean_environment(work, temporary))


def thaw() -> None:
    """The zygote collects no garbage, so that its memory stays shared; a worker does."""
    gc.enable()
