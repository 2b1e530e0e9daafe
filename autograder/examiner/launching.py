"""Starting the untrusted side's processes: they know the package, and nothing of who starts them."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from autograder.errors import GraderFault
from autograder.examiner import scratch
from autograder.examiner.workers import ConfinementFailed, Fresh
from autograder.worker import surroundings
from autograder.worker.limits import Limits

START_WITHIN = 180.0  # seconds, for importing torch from a cold disk

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


@dataclasses.dataclass(frozen=True)
class Launch:
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
                        f"hidden folders: {folder} lies within {readable}, which Python needs: move the course"
                    )

    def zygote(self, control: socket.socket, folder: Path, complaints: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a zygote at that end of a control socket; `folder` is its own, `complaints` its stderr."""
        mount_point = folder / "root"
        mount_point.mkdir()
        folder.chmod(0o711)  # root's workers, no longer root, pass through it; nothing in it is open to them
        arguments = [str(self.package), str(control.fileno()), self.module, str(mount_point)]
        return subprocess.Popen(
            [self.python, "-I", "-B", "-c", _LAUNCH_ZYGOTE, *arguments],
            env=surroundings.clean_environment(str(folder), str(folder)),
            cwd=folder,
            pass_fds=[control.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            start_new_session=True,
        )

    def fresh(self, limits: Limits) -> Fresh:
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
                    stdin.write(f"{server.getsockname()[1]} {token} {os.getpid()}\n")
                return Fresh(process, _accept(server, token, process, complaints), folder)
            except BaseException:
                process.kill()
                process.wait()
                scratch.remove(folder)
                raise


def _accept(server: socket.socket, token: str, process: subprocess.Popen[str], complaints: IO[bytes]) -> socket.socket:
    """The connection that begins with `token`; whoever else connects is turned away."""
    deadline = time.monotonic() + START_WITHIN
    server.settimeout(0.2)
    while time.monotonic() < deadline:
        try:
            connection, _ = server.accept()
        except TimeoutError:
            if process.poll() is not None:
                raise GraderFault(f"the worker could not be started: {last_line(complaints)}") from None
            continue
        connection.settimeout(5)
        with contextlib.suppress(OSError):
            with connection.makefile("rb", buffering=0) as stream:
                said = stream.read(len(token)) or b""
            if secrets.compare_digest(said, token.encode()):
                connection.settimeout(None)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
        connection.close()
    raise GraderFault(f"the worker was not ready within {START_WITHIN:.0f} seconds")


def _system_environment() -> dict[str, str]:
    """What Windows' own libraries need to start at all."""
    return {name: os.environ[name] for name in ("SYSTEMROOT", "WINDIR") if name in os.environ}


def last_line(complaints: IO[bytes]) -> str:
    """The last line that a process wrote to its stderr."""
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it gave no reason"


def package_folder() -> Path:
    """The folder that holds this package."""
    spec = importlib.util.find_spec("autograder")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))).resolve().parent
