"""Tier C: a worker that is a freshly started process on any system, bounded in time, and unconfined.

For trusted code only, such as one's own: a learner's self-check on macOS.
"""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from autograder.worker import limits


def main(module: str, bounds: limits.Limits) -> None:
    """Preload `module`, connect to the trusted side and serve it; the first line of stdin says where that is.

    That line is "<port> <token> <pid>": the token shows that it is us who connect, and is in no argument list; the pid
    is that of whoever started us.
    """
    line, folder = sys.stdin.readline(), Path.cwd()
    if not line:  # it was gone before it could say anything
        _leave(folder)
    port, token, starter = line.split()
    threading.Thread(target=_end_with, args=(int(starter), folder), daemon=True).start()
    _silence()
    loaded = importlib.import_module(module)
    preloaded = loaded.preload()
    limits.apply_where_trusted(bounds)
    channel = socket.create_connection(("127.0.0.1", int(port)))
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel.sendall(token.encode())
    loaded.serve(channel, preloaded)
    os._exit(0)


def _end_with(starter: int, folder: Path) -> None:
    """End when whoever started us is gone; no system tells us without being asked."""
    while os.getppid() == starter:
        time.sleep(0.5)
    _leave(folder)


def _leave(folder: Path) -> NoReturn:
    """End, and leave no folder behind."""
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _silence() -> None:
    """What cells print goes through the channel; nothing raw may reach the trusted side."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    os.close(null)
