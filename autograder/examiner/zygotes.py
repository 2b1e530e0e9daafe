"""The trusted side of workers: starting a zygote, asking it for workers, ending them.

    with Zygote.start() as zygote, zygote.spawn(Limits(cpu_seconds=20)) as worker:
        worker.sock.sendall(...)

One client object belongs to one process and one thread. A process that wants to fork lanes asks for one
client per lane, with `attach`, before it forks; see there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

from autograder.errors import ConfinementUnavailable, GraderFault
from autograder.examiner import scratch
from autograder.worker import surroundings
from autograder.worker.limits import Limits

Tier = Literal["A", "B", "C"]

SERVE = "autograder.worker.serve"
IDLE = "autograder.worker.idle"

_ANSWER_WITHIN = 30.0  # seconds; it takes milliseconds
_START_WITHIN = 180.0  # seconds, for importing torch from a cold disk
_LARGEST_MESSAGE = 1 << 16

# `-I`: no user site, no PYTHONPATH, no folder of the caller's. The package is then found by its own folder
# alone.
_LAUNCH = """
import sys
package, *arguments = sys.argv[1:]
del sys.argv[1:]
sys.path.insert(0, package)
import autograder.worker
del sys.path[0]
"""
_LAUNCH_ZYGOTE = (
    _LAUNCH
    + """
from autograder.worker import zygote
descriptor, module, mount_point = arguments
zygote.main(int(descriptor), module, mount_point)
"""
)
_LAUNCH_FRESH = (
    _LAUNCH
    + """
import json
from autograder.worker import fresh, limits
module, bounds = arguments
fresh.main(module, limits.Limits(**json.loads(bounds)))
"""
)


class ConfinementFailed(ConfinementUnavailable):
    """A worker could not be confined as asked, and ran no student code. The text is "<step>: <reason>"."""


class ZygoteDied(GraderFault):
    """The zygote is gone or does not answer; a new one must be started."""


def describe_exit(code: int) -> str:
    """An exit code as `Worker.wait` returns it, in words: "SIGKILL" or "exit status 1"."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


@dataclasses.dataclass(frozen=True)
class Memory:
    """What a worker occupies now, in bytes.

    `pss` counts shared pages by their share; None if we may not look into the process.
    """

    rss: int
    pss: int | None


class Worker:
    """A process that runs untrusted code; as a context manager it is always killed in the end.

    `sock` is the trusted end of its channel; all that comes out of it was written by untrusted code. `tier`
    and `confinement` (such as "namespaces+landlock+seccomp") are what the child told before it ran any of
    that code.
    """

    def __init__(self, sock: socket.socket, pid: int, tier: Tier, folder: Path | None) -> None:
        self.sock = sock
        self.pid = pid
        self.tier: Tier = tier
        self.confinement = "+".join(surroundings.layers(tier)) or "none"
        self.landlock_abi = 0
        self.overflowed = False
        """Whether it was killed for writing too much to its folder (tier B; in tier A writing fails)."""
        self._folder = folder
        self._watch: scratch.Watch | None = None
        self._closed = False

    def kill(self) -> None:
        """End it now. The kernel does it, and never to another process that has got the same pid."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait at most `timeout` seconds for its end: its exit status, `-signal`, or None while it runs."""
        raise NotImplementedError

    def folder_bytes(self) -> int:
        """Bytes on disk in its private folder; 0 in tier A, whose scratch is memory that nobody else sees."""
        return 0 if self._folder is None else scratch.size(self._folder)

    def memory(self) -> Memory:
        """What it occupies now; for measuring, Linux only."""
        with Path(f"/proc/{self.pid}/statm").open() as file:
            rss = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        try:
            with Path(f"/proc/{self.pid}/smaps_rollup").open() as file:
                pss = next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            return Memory(rss, None)
        return Memory(rss, pss)

    def close(self) -> None:
        """Kill it and remove what it has left: nothing, in tier A, so that its end is not waited for."""
        if self._closed:
            return
        self._closed = True
        if self._watch is not None:
            self._watch.stop()
        self.kill()
        self.sock.close()
        if self._folder is not None:
            self.wait(_ANSWER_WITHIN)
            scratch.remove(self._folder)
        self._release()

    def _release(self) -> None:
        """Give back what the kind of worker holds."""

    def _watch_folder(self, limit: int) -> None:
        assert self._folder is not None
        self._watch = scratch.Watch(self._folder, limit, self._overflow)

    def _overflow(self) -> None:
        self.overflowed = True
        self.kill()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Forked(Worker):
    """A worker of tier A or B: a child of the zygote, held by a pidfd."""

    def __init__(
        self,
        zygote: Zygote,
        number: int,
        sock: socket.socket,
        pid: int,
        pidfd: int,
        tier: Tier,
        folder: Path | None,
    ) -> None:
        super().__init__(sock, pid, tier, folder)
        self._zygote = zygote
        self._number = number
        self._pidfd = pidfd

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int | None:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(None if timeout is None else max(0.0, timeout * 1000)):
            return None
        return self._zygote._exit_code(self._number)

    def _release(self) -> None:
        self._zygote._forget(self._number)
        os.close(self._pidfd)

    def _abandon(self) -> None:
        """Close what a fork has inherited, and leave the worker to the process that it belongs to."""
        self._closed = True
        self.sock.close()
        os.close(self._pidfd)


class _Fresh(Worker):
    """A worker of tier C."""

    def __init__(self, process: subprocess.Popen[str], sock: socket.socket, folder: Path) -> None:
        super().__init__(sock, process.pid, "C", folder)
        self._process = process

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


class Zygote:
    """A source of workers of one tier; for the tiers A and B a client of a warm process that forks them.

    `tier` is what `spawn` gives if nothing else is said; `refused` says of each better tier why it cannot be
    had; `start_seconds` is how long the start took.
    """

    def __init__(self, tier: Tier, launch: _Launch, control: socket.socket | None) -> None:
        self.tier: Tier = tier
        self.start_seconds = 0.0
        self.refused: dict[Tier, str] = {}
        self._launch = launch
        self._control = control
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self._number = 0
        self._workers: dict[int, weakref.ref[_Forked]] = {}
        self._exits: dict[int, int] = {}
        _clients.add(self)

    @property
    def pid(self) -> int | None:
        """The zygote's pid, for the client that has started it."""
        return None if self._process is None else self._process.pid

    @classmethod
    def start(
        cls,
        tiers: Sequence[Tier] = ("A", "B"),
        *,
        module: str = SERVE,
        python: str | None = None,
        package: Path | None = None,
        hidden: Sequence[Path] = (),
    ) -> Zygote:
        """Start a zygote and choose the first of `tiers` that this machine really gives, by trying.

        `module` offers `preload()` and `serve(channel, preloaded)`; `python` is the interpreter; `package` is
        the folder that holds the package. `hidden` are folders that no worker may read: it is refused to
        start if one lies within what Python needs. Raises `ConfinementUnavailable` with the reasons if no
        tier can be had, `GraderFault` if the preload fails.
        """
        launch = _Launch(module, python or sys.executable, package or _package_folder())
        began = time.perf_counter()
        zygote, refused = cls._choose(tiers, launch, hidden)
        zygote.refused = refused
        zygote.start_seconds = time.perf_counter() - began
        return zygote

    @classmethod
    def _choose(
        cls, tiers: Sequence[Tier], launch: _Launch, hidden: Sequence[Path]
    ) -> tuple[Zygote, dict[Tier, str]]:
        refused: dict[Tier, str] = {}
        forked = [tier for tier in tiers if tier != "C"]
        if forked:
            try:
                launch.look_for_readable(hidden)
                zygote = launch.start()
            except ConfinementUnavailable as reason:
                refused.update((tier, str(reason)) for tier in forked)
            else:
                for tier in forked:
                    refusal = zygote.try_tier(tier)
                    if refusal is None:
                        zygote.tier = tier
                        return zygote, refused
                    refused[tier] = refusal
                zygote.close()
        if "C" in tiers:
            return cls("C", launch, None), refused
        reasons = "; ".join(f"tier {tier}: {reason}" for tier, reason in refused.items())
        raise ConfinementUnavailable(
            f"student code cannot be confined here as the course requires ({reasons})"
        )

    def try_tier(self, tier: Tier) -> str | None:
        """None if a worker of that tier can be had; else why not. Costs one throw-away child."""
        try:
            self.spawn(tier=tier).close()
        except ConfinementFailed as failure:
            return str(failure)
        return None

    def spawn(self, limits: Limits | None = None, tier: Tier | None = None) -> Worker:
        """A new worker.

        Raises `ConfinementFailed` if a step of its confinement fails, `ZygoteDied` if a new zygote is needed.
        """
        tier = tier or self.tier
        limits = limits or Limits()
        if tier == "C":
            return self._launch.fresh(limits)
        folder = scratch.make("worker") if tier == "B" else None
        try:
            worker = self._spawn_forked(limits, tier, folder)
        except BaseException:
            if folder is not None:
                scratch.remove(folder)
            raise
        if folder is not None:
            worker._watch_folder(limits.scratch_bytes)
        return worker

    def _spawn_forked(self, limits: Limits, tier: Tier, folder: Path | None) -> _Forked:
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
        try:
            with theirs:
                try:
                    answer, descriptors = self._ask(
                        {
                            "op": "spawn",
                            "tier": tier,
                            "limits": dataclasses.asdict(limits),
                            "work": folder and str(folder),
                        },
                        theirs.fileno(),
                        writer,
                    )
                finally:
                    os.close(writer)
            worker = None
            if descriptors:
                number = int(answer["id"])
                worker = _Forked(self, number, ours, _pid_of(descriptors[0]), descriptors[0], tier, folder)
                self._workers[number] = weakref.ref(worker)
            try:
                status = _read_status(reader)
                if worker is None or "failed" in status:
                    raise ConfinementFailed(status.get("failed", "the worker could not be started"))
            except BaseException:
                if worker is not None:
                    worker.close()
                raise
            worker.landlock_abi = int(status["landlock"])
            worker.confinement = "+".join(status["layers"])
            return worker
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(reader)

    def attach(self) -> Zygote:
        """Another client of the same zygote, for a lane that is about to be forked.

        Before the fork: `lane = zygote.attach()`. In the fork: `lane.adopt()`, which makes the client usable
        there and closes all that the fork has inherited from other clients. In the parent: `lane.abandon()`,
        so that the zygote sees the end of the lane, whose workers it then kills.
        """
        if self._control is None:
            return Zygote(self.tier, self._launch, None)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._ask({"op": "attach"}, theirs.fileno())
        lane = Zygote(self.tier, self._launch, ours)
        lane.refused = dict(self.refused)
        return lane

    def _await_ready(self, complaints: IO[bytes]) -> None:
        try:
            message, _ = self._receive(_START_WITHIN)
        except ZygoteDied as death:
            raise ZygoteDied(f"{death} before it was ready: {_last_line(complaints)}") from None
        if not message["ready"]:
            raise GraderFault(f"the zygote could not be prepared: {message['reason']}")

    def adopt(self) -> None:
        """Belong to the calling process, a fork of the one that attached; close all other clients in it."""
        self._owner = os.getpid()
        for other in list(_clients):
            if other is not self:
                other.abandon()

    def abandon(self) -> None:
        """Close this client in the calling process only; neither the zygote nor a worker is told or ended."""
        for reference in self._workers.values():
            worker = reference()
            if worker is not None and not worker._closed:
                worker._abandon()
        self._workers.clear()
        if self._control is not None:
            self._control.close()
        self._process = self._scratch = None
        _clients.discard(self)

    def close(self) -> None:
        """End this client's workers, and the zygote itself if this client has started it."""
        if self._owner != os.getpid():
            return
        for reference in list(self._workers.values()):
            worker = reference()
            if worker is not None:
                worker.close()
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            # Lanes may still use it: it ends when the last of them does.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        if self._scratch is not None:
            scratch.remove(self._scratch)
            self._scratch = None
        _clients.discard(self)

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: dict[str, Any], *descriptors: int) -> tuple[dict[str, Any], list[int]]:
        if self._owner != os.getpid():
            raise RuntimeError("this client belongs to another process; see Zygote.attach")
        if self._control is None:
            raise ConfinementFailed("zygote: none runs, for only tier C was asked for")
        self._number += 1
        try:
            socket.send_fds(
                self._control, [json.dumps({**request, "id": self._number}).encode()], descriptors
            )
        except OSError as error:
            raise ZygoteDied(f"the zygote is gone ({error.strerror})") from error
        while True:
            answer, received = self._receive(_ANSWER_WITHIN)
            if answer.get("id") == self._number:
                return answer, received

    def _receive(self, within: float) -> tuple[dict[str, Any], list[int]]:
        """The next message; exits are noted too."""
        assert self._control is not None
        self._control.settimeout(within)
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_MESSAGE, 8)
        except TimeoutError:
            raise ZygoteDied(f"the zygote has not answered within {within:.0f} seconds") from None
        except OSError as error:
            raise ZygoteDied(f"the zygote is gone ({error.strerror})") from error
        if not data:
            raise ZygoteDied("the zygote has ended")
        message: dict[str, Any] = json.loads(data)
        if "exit" in message and message["exit"] in self._workers:
            self._exits[message["exit"]] = message["code"]
        return message, descriptors

    def _exit_code(self, number: int) -> int:
        """How the worker of that number, which is dead, has ended. Killed, where nobody is left to say."""
        while number not in self._exits:
            try:
                self._receive(_ANSWER_WITHIN)
            except ZygoteDied:
                return -signal.SIGKILL
        return self._exits[number]

    def _forget(self, number: int) -> None:
        self._workers.pop(number, None)
        self._exits.pop(number, None)


_clients: weakref.WeakSet[Zygote] = weakref.WeakSet()


@dataclasses.dataclass(frozen=True)
class _Launch:
    """How to start a process that knows the package and nothing of the caller."""

    module: str
    python: str
    package: Path

    def look_for_readable(self, hidden: Sequence[Path]) -> None:
        """Refuse to start where a hidden folder lies within what every worker can read."""
        for folder in hidden:
            for readable in surroundings.readable():
                if folder.resolve().is_relative_to(Path(readable).resolve()):
                    raise ConfinementFailed(
                        f"hidden folders: {folder} lies within {readable}, which Python needs: "
                        "move the course"
                    )

    def start(self) -> Zygote:
        """Start a zygote and wait until it is ready."""
        if sys.platform != "linux":
            raise ConfinementFailed(f"system: confinement needs Linux, this is {sys.platform}")
        folder = scratch.make("zygote")
        mount_point = folder / "root"
        mount_point.mkdir()
        folder.chmod(0o711)  # root's workers, no longer root, pass through it; nothing in it is open to them
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        zygote = Zygote("A", self, ours)
        zygote._scratch = folder
        with tempfile.TemporaryFile() as complaints, theirs:
            arguments = [str(self.package), str(theirs.fileno()), self.module, str(mount_point)]
            zygote._process = subprocess.Popen(
                [self.python, "-I", "-B", "-c", _LAUNCH_ZYGOTE, *arguments],
                env=surroundings.clean_environment(str(folder), str(folder)),
                cwd=folder,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                start_new_session=True,
            )
            theirs.close()
            try:
                zygote._await_ready(complaints)
            except BaseException:
                zygote._process.kill()
                zygote.close()
                raise
        return zygote

    def fresh(self, limits: Limits) -> Worker:
        """Start a worker of tier C and wait until it has preloaded."""
        folder = scratch.make("worker")
        token = secrets.token_hex(16)
        bounds = json.dumps(dataclasses.asdict(limits))
        with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryFile() as complaints:
            process = subprocess.Popen(
                [self.python, "-I", "-B", "-c", _LAUNCH_FRESH, str(self.package), self.module, bounds],
                env={**_system_environment(), **surroundings.clean_environment(str(folder), str(folder))},
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                text=True,
            )
            try:
                assert process.stdin is not None
                with process.stdin as stdin, contextlib.suppress(BrokenPipeError):
                    stdin.write(f"{server.getsockname()[1]} {token}\n")
                return _Fresh(process, _accept(server, token, process, complaints), folder)
            except BaseException:
                process.kill()
                process.wait()
                scratch.remove(folder)
                raise


def _accept(
    server: socket.socket, token: str, process: subprocess.Popen[str], complaints: IO[bytes]
) -> socket.socket:
    """The connection that begins with `token`; whoever else connects is turned away."""
    deadline = time.monotonic() + _START_WITHIN
    server.settimeout(0.2)
    while time.monotonic() < deadline:
        try:
            connection, _ = server.accept()
        except TimeoutError:
            if process.poll() is not None:
                raise GraderFault(f"the worker could not be started: {_last_line(complaints)}") from None
            continue
        connection.settimeout(5)
        with contextlib.suppress(OSError):
            if secrets.compare_digest(connection.recv(len(token), socket.MSG_WAITALL), token.encode()):
                connection.settimeout(None)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
        connection.close()
    raise GraderFault(f"the worker was not ready within {_START_WITHIN:.0f} seconds")


def _system_environment() -> dict[str, str]:
    """What Windows' own libraries need to start at all."""
    return {name: os.environ[name] for name in ("SYSTEMROOT", "WINDIR") if name in os.environ}


def _pid_of(pidfd: int) -> int:
    """The pid as it is here: in the zygote's pid namespace it may be another. -1 once the process is gone."""
    with Path(f"/proc/self/fdinfo/{pidfd}").open() as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))


def _read_status(reader: int) -> dict[str, Any]:
    """The one message that a child writes before it runs foreign code."""
    data = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while True:
        if not poll.poll(_ANSWER_WITHIN * 1000):
            raise ConfinementFailed(f"the worker was not confined within {_ANSWER_WITHIN:.0f} seconds")
        piece = os.read(reader, 1 << 16)
        if not piece:
            break
        data += piece
    status: dict[str, Any] = json.loads(data or "{}")
    if not status:
        raise ConfinementFailed("the worker ended before it was confined")
    return status


def _last_line(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it gave no reason"


def _package_folder() -> Path:
    spec = importlib.util.find_spec("autograder")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))).resolve().parent


def probe(python: str | None = None, package: Path | None = None) -> dict[Tier, str | None]:
    """What this machine offers, found out by trying: for the tiers A and B None, or why it is missing."""
    launch = _Launch(IDLE, python or sys.executable, package or _package_folder())
    try:
        zygote = launch.start()
    except ConfinementFailed as failure:
        return {"A": str(failure), "B": str(failure)}
    with zygote:
        return {"A": zygote.try_tier("A"), "B": zygote.try_tier("B")}
