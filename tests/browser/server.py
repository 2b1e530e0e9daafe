"""A Jupyter server with nbgrader's formgrader, for as long as a test needs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

import psutil

from tests import courses

START_SECONDS = 180.0
STOP_SECONDS = 60.0

# Jupyter runs this in the server's own process. What it has imported is known for sure at its end only.
REMEMBER_IMPORTS = """\
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path({target!r}).write_text(json.dumps(sorted(sys.modules))))
"""


class FormgraderServer:
    """A server of the course folder `course`; it is ready when the constructor returns.

    The command is ``jupyter-server`` itself, because ``jupyter server`` would put the virtual environment's
    commands on the PATH, and an instructor's server need not have them there.
    """

    def __init__(self, course: Path, home: Path) -> None:
        self._token = os.urandom(16).hex()
        self._log, self._imported = home / "server.log", home / "imported.json"
        environment = courses.environment(home) | {"JUPYTER_TOKEN": self._token}
        config = Path(environment["JUPYTER_CONFIG_DIR"]) / "jupyter_server_config.py"
        config.parent.mkdir(parents=True)
        config.write_text(REMEMBER_IMPORTS.format(target=str(self._imported)))
        command = [
            str(courses.COMMANDS / "jupyter-server"),
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}",
        ]
        with self._log.open("w") as log:
            process = subprocess.Popen(
                command,
                cwd=course,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._process = process
        self._started: list[psutil.Process] = []
        try:
            self._url = self._when_ready(Path(environment["JUPYTER_RUNTIME_DIR"]))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(errors="replace")

    @property
    def imported(self) -> set[str]:
        """The modules that the server had imported when it ended."""
        return set(json.loads(self._imported.read_text()))

    def url(self, page: str) -> str:
        """The address of one of formgrader's pages; the token in it logs the browser in."""
        return f"{self._url}formgrader/{page}?token={self._token}"

    def serves(self, url: str) -> bool:
        """Whether an address is one of this server's."""
        return url.startswith(self._url)

    def children(self) -> list[psutil.Process]:
        """All the processes that it has started, and those that these have."""
        return psutil.Process(self.pid).children(recursive=True)

    def stop(self) -> int:
        """Ask the server to end, as an operating system does; returns its exit code."""
        self._started = self.children()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(STOP_SECONDS)

    def left_behind(self) -> list[psutil.Process]:
        """The processes that outlive the server."""
        return list(psutil.wait_procs(self._started, timeout=STOP_SECONDS)[1])

    def close(self) -> None:
        """End the server, and whatever it leaves behind."""
        if self._process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for process in self.left_behind():
            process.kill()

    def __enter__(self) -> FormgraderServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _when_ready(self, runtime: Path) -> str:
        """The server's address, which it writes into a file when it has begun to listen."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            for file in runtime.glob(f"jpserver-{self.pid}.json"):
                try:
                    return str(json.loads(file.read_text())["url"])
                except ValueError:
                    continue  # it is being written
            time.sleep(0.05)
        raise RuntimeError(f"The Jupyter server did not start:\n{self.log}")
