"""Says what a worker has none of where a notebook asks for it: a keyboard, a shell, other processes."""

from __future__ import annotations

import errno
import os
import subprocess
from multiprocessing import popen_fork
from typing import Any, NoReturn

_STARTERS = (subprocess.__file__, popen_fork.__file__)
"""Where Python starts another process."""
_NOT_STARTED = (-1, 127 << 8)
"""What the C library says of a shell that could not be started, in its newer and in its older versions."""
_stock_system: Any = os.system


def no_input(prompt: object = "") -> NoReturn:
    """In the place of `input`."""
    raise EOFError("input() can't be answered here: nobody sits at the keyboard while a notebook is checked")


def no_shell(command: Any) -> None:
    """Print that a command is not run."""
    print(f"[shell commands are not run here: {str(command).strip()[:200]}]")


def system(command: Any) -> int:
    """`os.system`, which says so where no shell could be started."""
    status: int = _stock_system(command)
    if status in _NOT_STARTED:
        no_shell(command)
    return status


def explain(error: BaseException | None) -> None:
    """Give an exception the reason, where the system only says that another process is not permitted."""
    if type(error) is not PermissionError or error.errno != errno.EPERM or error.__traceback__ is None:
        return
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    if trace.tb_frame.f_code.co_filename in _STARTERS:
        error.strerror = "shell commands and other processes are not run here"
