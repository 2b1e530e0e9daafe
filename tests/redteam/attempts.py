"""Attempts that betray themselves: an answer that is right as long as every one of them was refused.

An attempt is a function whose source is put into a cell: all that it uses is in it, or among the helpers here, which
are put there too. It must fail with an `OSError` that says "refused" or "not there"; whatever else comes of it, a
mistake in the attempt included, makes the answer raise, and the exercise loses its points.
"""

from __future__ import annotations

import ctypes
import errno
import inspect
import os
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.engine import ATTENTION, GOOD_BODY, ROOT
from tests.redteam.bank import COURSE, START, Case

Attempt = Callable[[], Any]

TRUSTED = os.getpid()
"""The process that asks for the grading."""
HOME = str(Path.home())
REPOSITORY = str(ROOT)
CAME_THROUGH: list[str] = []
REFUSED = {
    errno.EPERM,
    errno.EACCES,
    errno.ENOENT,
    errno.ENOSYS,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EXDEV,  # a link out of a private file system
}


def attempt(name: str, function: Attempt) -> None:
    """Note the attempt unless it was refused."""
    try:
        got = function()
    except OSError as error:
        if error.errno in REFUSED:
            return
        got = error
    except BaseException as error:  # noqa: BLE001 - an attempt that is wrong must be seen
        got = error
    CAME_THROUGH.append(f"{name}: {got!r:.100}")


def refuse(is_refused: object) -> None:
    """Say so, where an attempt was refused in another way than by an error."""
    if is_refused:
        raise PermissionError(errno.EPERM, "refused")


def kernel(call: str | int, *arguments: Any) -> int:
    """Make a system call, by its name or number."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = call
    if isinstance(call, str):
        number = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name(call.encode())
        assert number >= 0, call
    libc.syscall.restype = ctypes.c_long
    ctypes.set_errno(0)
    raw = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *raw)  # type: ignore[arg-type]
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def foreign() -> int:
    """A process that a submission has no business with: its parent, or where that is hidden, who asked."""
    return os.getppid() or TRUSTED


HELPERS = (attempt, refuse, kernel, foreign)

ANSWER = f"""
import torch


def {ATTENTION}(Q, K, V):
    if CAME_THROUGH:
        raise RuntimeError("came through: " + "; ".join(CAME_THROUGH))
{textwrap.indent(GOOD_BODY, "    ")}
"""


def helpers() -> str:
    """The source of what attempts use."""
    header = f"""
        from __future__ import annotations
        import ctypes
        import errno
        import os
        from pathlib import Path
        from typing import Any, Callable
        Attempt = Callable[[], Any]
        CAME_THROUGH, REFUSED = [], {REFUSED}
        TRUSTED, COURSE, HOME, REPOSITORY = {TRUSTED}, "{COURSE}", {HOME!r}, {REPOSITORY!r}
    """
    return "\n\n".join([textwrap.dedent(header), *(inspect.getsource(one) for one in HELPERS)])


def text(made: Sequence[Attempt]) -> str:
    """The source of a cell that makes these attempts."""
    calls = [f'attempt("{one.__name__}", {one.__name__})' for one in made]
    return "\n\n".join([helpers(), *map(inspect.getsource, made), "\n".join(calls)])


def attempts(id: str, family: str, tries: str, *made: Attempt, **required: Any) -> Case:
    """A case of attempts, made as the notebook runs, around a right answer: it keeps its points if all are refused."""
    return Case(id, family, tries, 16, answers={ATTENTION: ANSWER}, cells=((START, text(made)),), **required)


def fresh_start(id: str, family: str, tries: str, leave: str, find: str, **required: Any) -> Case:
    """What `leave` leaves behind must not be there for `find` once a fresh process has taken over.

    The second cell kills the worker and is skipped by the next one, which runs the first cell anew.
    """
    first = helpers() + textwrap.dedent(find) + textwrap.dedent(leave)
    cells = ((START, first), (START, "import os\nos._exit(0)"))
    return Case(id, family, tries, 16, answers={ATTENTION: ANSWER}, cells=cells, **required)
