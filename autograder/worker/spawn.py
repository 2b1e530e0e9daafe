"""Forking a worker: from the zygote's fork to the first line of `serve`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
from collections.abc import Callable

from autograder.worker import namespaces
from autograder.worker.confine import Plan, StepFailed, close_descriptors, confine, lowest, thaw

Serve = Callable[[socket.socket], None]

_BROKEN = os.EX_SOFTWARE  # `serve` raised
_FAILED = os.EX_OSERR  # the confinement failed, student code did not run


@dataclasses.dataclass(frozen=True)
class Ends:
    """A child's descriptors: its channel, the pipe for its status, the pipe that ends with the zygote."""

    channel: int
    status: int
    life: int


def spawn(plan: Plan, ends: Ends, home: int | None, serve: Serve) -> tuple[int, int]:
    """Fork a worker; its pid and a pidfd. What becomes of it is written to `ends.status`.

    `home` is the zygote's own pid namespace, opened, for tier A.
    """
    if plan.tier == "A":
        assert home is not None
        pid = namespaces.fork_into_pid_namespace(home)
    else:
        pid = os.fork()
    if pid == 0:
        _never_return(lambda: _work(plan, ends, serve), ends)
    try:
        return pid, os.pidfd_open(pid)  # no race: nobody but us can reap it
    except OSError:
        os.kill(pid, signal.SIGKILL)  # nobody could hold it
        os.waitpid(pid, 0)
        raise


def _work(plan: Plan, ends: Ends, serve: Serve) -> None:
    close_descriptors(ends.channel, ends.status, ends.life)
    hello = confine(plan, ends.life)
    os.close(ends.life)
    channel = socket.socket(fileno=lowest(ends.channel))
    thaw()
    _tell(ends.status, hello)
    os.close(ends.status)  # before student code: what the trusted side has read there cannot be forged
    serve(channel)


def _never_return(action: Callable[[], None], ends: Ends) -> None:
    """Run `action` and end: a child must not come back into the zygote's loop."""
    code = _BROKEN
    try:
        action()
        code = 0
    except StepFailed as failure:
        code = _FAILED
        _tell(ends.status, {"failed": str(failure)})
    finally:
        os._exit(code)


def _tell(status: int, message: dict[str, object]) -> None:
    os.write(status, json.dumps(message).encode())


def kill(pidfd: int) -> None:
    """SIGKILL to the process behind `pidfd`, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
