"""The zygote: imports what notebooks need once, and forks a confined worker for each submission.

It runs trusted code only, has one thread, holds nothing secret (its children could read it), and obeys
whoever is at the other end of its control sockets (SOCK_SEQPACKET, one JSON object a message, descriptors
beside it):

    zygote   {"ready": true, "seconds": 2.9}  or  {"ready": false, "reason": "..."}   once
    client   {"id": 1, "op": "attach"}  + the zygote's end of another control socket
    zygote   {"id": 1}
    client   {"id": 2, "op": "spawn", "tier": "A", "limits": {...}, "work": "/..."}  + channel, status pipe
    zygote   {"id": 2}  + pidfd, if there is a child; the status pipe tells what became of it
    zygote   {"exit": 2, "code": -9}   whenever a child has ended: of which spawn, and how

When a control socket closes, the children that were asked for through it are killed; with the last one the
zygote ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import json
import os
import pathlib
import select
import signal
import socket
import sys
import time
from typing import Any

from autograder.worker import (
    confine,
    folders,
    limits,
    namespaces,
    pages,
    privileges,
    seccomp,
    spawn,
    surroundings,
    syscalls,
)

_LARGEST_MESSAGE = 1 << 16
_COUNT_IS_FRESH_FOR = 1.0
_END_WITHIN_MS = 5000
_SLACK = 256  # threads that a user may start elsewhere while a worker of the same user runs
# It takes up to half a second once and saves 10 to 20 ms a fork: not worth it for one check of one notebook.
_WORTH_GATHERING = 8


@dataclasses.dataclass
class _Child:
    id: int
    pid: int
    pidfd: int
    owner: socket.socket


class Zygote:
    """The loop that obeys control sockets.

    `mount_point` is an empty folder, on which tier A's roots are built; `no_namespaces` why there is no tier
    A, if so.
    """

    def __init__(self, control: socket.socket, module: str, mount_point: str, no_namespaces: str | None) -> None:
        self._module = importlib.import_module(module)
        self._preloaded: object = None
        self._mount_point = mount_point
        self._clients: dict[int, socket.socket] = {control.fileno(): control}
        self._children: dict[int, _Child] = {}  # by pidfd
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._serial = 0
        self._threads = (0.0, 0)  # when counted, how many
        self._readable = surroundings.readable()
        self._home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._life_reader, self._life_writer = os.pipe()
        self._unavailable: dict[str, str] = {}  # by tier, as "<step>: <reason>"
        if no_namespaces:
            self._unavailable["A"] = f"namespaces: {no_namespaces}"
        try:
            self._filter, self._pivot_root = seccomp.Loader(seccomp.build()), seccomp.pivot_root_number()
        except OSError as error:
            self._unavailable = dict.fromkeys("AB", f"seccomp: {error}")

    def prepare(self) -> None:
        """Import and build what every worker shares, and make it cheap and safe to fork."""
        self._preloaded = self._module.preload()
        _forget_foreign_paths()
        confine.reset_signals()
        tasks = len(os.listdir("/proc/self/task"))
        if tasks != 1:
            raise RuntimeError(f"{tasks} threads run after the preload; forking is safe with one only")
        gc.collect()
        gc.disable()
        gc.freeze()

    def run(self) -> None:
        """Obey until the last control socket is closed."""
        while self._clients:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._children:
                    self._reap()
                elif descriptor in self._clients:
                    self._obey(self._clients[descriptor])
        while self._children and self._poll.poll(_END_WITHIN_MS):  # they are killed, and use their folders until then
            self._reap()

    def say(self, client: socket.socket, message: dict[str, Any], *descriptors: int) -> None:
        """Send a message; a client that does not read what it is told is dropped like one that is gone."""
        try:
            socket.send_fds(client, [json.dumps(message).encode()], descriptors, socket.MSG_DONTWAIT)
        except OSError:
            self._drop(client)

    def _obey(self, client: socket.socket) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(client, _LARGEST_MESSAGE, 8, socket.MSG_DONTWAIT)
        except BlockingIOError:  # a number that was another descriptor's a moment ago
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._drop(client)
            return
        request = json.loads(data)
        if request["op"] == "attach":
            other = socket.socket(fileno=descriptors[0])
            self._clients[other.fileno()] = other
            self._poll.register(other, select.POLLIN)
            self.say(client, {"id": request["id"]})
        elif request["op"] == "spawn":
            try:
                self._spawn(client, request, *descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _spawn(self, client: socket.socket, request: dict[str, Any], channel: int, status: int) -> None:
        answer = {"id": request["id"]}
        tier = request["tier"]
        if tier in self._unavailable:
            os.write(status, json.dumps({"failed": self._unavailable[tier]}).encode())
            self.say(client, answer)
            return
        plan = self._plan(tier, limits.Limits(**request["limits"]), request["work"])
        ends = spawn.Ends(channel, status, self._life_reader)
        if self._serial == _WORTH_GATHERING:
            pages.gather()
        try:
            pid, pidfd = spawn.spawn(plan, ends, self._home, self._serve)
        except OSError as error:  # too many processes, or namespaces
            os.write(status, json.dumps({"failed": f"fork: {error}"}).encode())
            self.say(client, answer)
            return
        child = _Child(request["id"], pid, pidfd, client)
        self._children[child.pidfd] = child
        self._poll.register(child.pidfd, select.POLLIN)
        self.say(client, answer, child.pidfd)

    def _plan(self, tier: str, bounds: limits.Limits, work: str | None) -> confine.Plan:
        self._serial += 1
        as_root = os.geteuid() == 0
        return confine.Plan(
            tier=tier,
            limits=bounds,
            filter=self._filter,
            pivot_root=self._pivot_root,
            mount_point=self._mount_point,
            readable=self._readable,
            work=work,
            account=privileges.account(self._serial) if as_root else None,
            # Root's workers are users of their own, tier A's others have a user namespace of their own: both
            # count anew.
            others=0 if as_root or tier == "A" else self._threads_elsewhere(),
        )

    def _threads_elsewhere(self) -> int:
        counted, number = self._threads
        if time.monotonic() - counted > _COUNT_IS_FRESH_FOR:
            number = limits.threads_of(os.getuid()) + _SLACK
            self._threads = time.monotonic(), number
        return number

    def _serve(self, channel: socket.socket) -> None:
        self._module.serve(channel, self._preloaded)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = next((child for child in self._children.values() if child.pid == pid), None)
            if child is None:
                continue
            self._poll.unregister(child.pidfd)
            del self._children[child.pidfd]
            os.close(child.pidfd)
            if child.owner.fileno() in self._clients:
                self.say(child.owner, {"exit": child.id, "code": os.waitstatus_to_exitcode(status)})

    def _drop(self, client: socket.socket) -> None:
        if self._clients.pop(client.fileno(), None) is None:
            return
        self._poll.unregister(client)
        for child in self._children.values():
            if child.owner is client:
                spawn.kill(child.pidfd)
        client.close()


def _forget_foreign_paths() -> None:
    """Workers look for modules only where they may read, and need not know where the course lies."""
    kept = tuple(path + os.sep for path in surroundings.readable())
    sys.path[:] = [path for path in sys.path if path.startswith(kept)]
    sys.path_importer_cache.clear()


def _seek_rights(control: socket.socket) -> str | None:
    """Get the rights that it takes to make namespaces; None, or why they cannot be had."""
    if syscalls.has_capability(syscalls.CAP_SYS_ADMIN):
        return None
    if os.geteuid() == 0:
        return "this root may not make them (it has no CAP_SYS_ADMIN): grade as an ordinary user, or grant it"
    try:
        namespaces.be_first_of_user_namespace(control.fileno())
    except OSError as error:
        return f"{error} (may users make user namespaces here?)"
    return None


def _be_first_to_go() -> None:
    """When the machine runs out of memory, the kernel is to end a worker, and not the trusted side."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/oom_score_adj").write_text("1000")


def main(descriptor: int, module: str, mount_point: str) -> None:
    """Be a zygote on the control socket `descriptor`, with the `preload` and `serve` of `module`."""
    started = time.perf_counter()
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_namespaces = _seek_rights(control)
    _be_first_to_go()
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)  # closed to other processes of the same user
    try:
        zygote = Zygote(control, module, mount_point, no_namespaces)
        zygote.prepare()
    except BaseException as error:
        with contextlib.suppress(OSError):
            reason = f"{type(error).__name__}: {error}"
            control.send(json.dumps({"ready": False, "reason": reason}).encode())
        raise
    zygote.say(control, {"ready": True, "seconds": time.perf_counter() - started})
    zygote.run()
    # Whoever started us may be gone, killed even: nobody else would remove what was made for us.
    with contextlib.suppress(OSError):  # they may be removing it at the same time
        folders.remove(pathlib.Path(mount_point).parent)
