"""Serves submissions: the warm examiner forks a lane for each connection, and a lane examines one job after another.

A lane that dies takes one submission with it, and nobody else's.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from autograder.channel import frames
from autograder.examiner.exam import examine
from autograder.examiner.job import Examined, Job, KnownJob
from autograder.examiner.patience import bound_memory, has_run_out_of_memory, note_memory
from autograder.examiner.plugin import SuitePlugin
from autograder.examiner.rehearsal import examine_known
from autograder.examiner.zygotes import Worker, Zygote
from autograder.worker.limits import Limits as WorkerLimits

SPAWN_SECONDS = 5.0
"""How much longer than its submission the start of a worker may take; a part of the door's `GRACE_SECONDS`."""


class Lanes:
    """The examiner's side of the door's control socket.

    Args:
        control: where the door asks for lanes, each with a socket of its own.
        zygote: the warm parent of all workers.
    """

    def __init__(self, control: socket.socket, zygote: Zygote) -> None:
        self._control, self._zygote = control, zygote
        self._running: set[int] = set()

    def serve(self, plugin: SuitePlugin) -> None:
        """Fork lanes until the door closes the control socket."""
        # What lives now lives for good: lanes need not walk over it at each collection, nor copy its pages for that.
        gc.collect()
        gc.freeze()
        frames.send(self._control, {"ready": True, "suites": _described(plugin)})
        while True:
            message, fds, _, _ = socket.recv_fds(self._control, 1, 1)
            self._reap()
            if not message:
                for pid in self._running:  # nobody is left to read their reports
                    os.kill(pid, signal.SIGKILL)
                for pid in self._running:
                    os.waitpid(pid, 0)  # what they have used counts as ours, for whoever measures
                return
            with socket.socket(fileno=fds[0]) as lane:
                self._fork(plugin, lane)

    def _fork(self, plugin: SuitePlugin, lane: socket.socket) -> None:
        zygote = self._zygote.attach()
        pid = os.fork()
        if pid:
            self._running.add(pid)
            zygote.abandon()
            return
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the door's to handle; it closes the lane
            _end_with_parent()
            self._control.close()
            zygote.adopt()
            _serve_lane(lane, plugin, zygote)
            code = 0
        finally:
            os._exit(code)  # the parent's pytest session must not be finished twice

    def _reap(self) -> None:
        """Bury the lanes that have ended. The zygote, which is a child too, is not ours to bury."""
        for pid in list(self._running):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._running.discard(pid)


def _end_with_parent() -> None:
    """Be killed when the examiner ends, also in the middle of a submission."""
    if sys.platform == "linux":
        from autograder.worker import syscalls

        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve_lane(lane: socket.socket, plugin: SuitePlugin, zygote: Zygote) -> None:
    frames.send(lane, {"pid": os.getpid()})
    with zygote:
        while True:
            try:
                header, _ = frames.receive(lane, max_header=frames.MAX_TRUSTED_HEADER)
            except frames.PeerGone:
                return
            frames.send(lane, {"taken": True})
            bound_memory()  # anew: what earlier submissions have left here is not this one's
            reply = _answer(header, plugin, zygote)
            frames.send(lane, reply, max_header=frames.MAX_TRUSTED_HEADER)
            # It was stopped in the middle of anything, an exchange with the zygote perhaps, or is too large.
            if not reply.get("examined", {}).get("in_time", True) or has_run_out_of_memory():
                return


def _answer(header: dict[str, Any], plugin: SuitePlugin, zygote: Zygote) -> dict[str, Any]:
    try:
        if "known" in header:
            report = examine_known(msgspec.convert(header["known"], KnownJob), plugin)
            return {"examined": msgspec.to_builtins(Examined((report,)), str_keys=True)}
        job = msgspec.convert(header["job"], Job)
        return {"examined": msgspec.to_builtins(examine(job, plugin, _spawner(zygote, job)), str_keys=True)}
    except Exception as error:  # noqa: BLE001 - a fault of ours: the submission stays ungraded, the class goes on
        note_memory(error)
        traceback.print_exc()
        return {"fault": f"{type(error).__name__}: {error}"}


def _spawner(zygote: Zygote, job: Job) -> Callable[[], Worker]:
    # The last worker of a submission may be asked for in its last moment, and is not to fail for that.
    deadline = time.monotonic() + job.limits.submission_seconds + SPAWN_SECONDS
    limits = WorkerLimits(
        memory_bytes=job.limits.memory_mb << 20,
        # More than all processors give until the deadline: the kernel's kill could not be told from one from outside,
        # after which a submission is examined once more.
        cpu_seconds=int(job.limits.submission_seconds) * (os.cpu_count() or 1) + 1,
        scratch_bytes=job.limits.scratch_mb << 20,
    )
    return lambda: zygote.spawn(limits, deadline=deadline)


def _described(plugin: SuitePlugin) -> dict[str, dict[str, float]]:
    """The points of every suite, for the doors: they have no other place to know them from."""
    described: dict[str, dict[str, float]] = {}
    for (assignment, exercise), suite in plugin.suites.items():
        described.setdefault(assignment, {})[exercise] = suite.points
    return described
