"""A PostgreSQL server of Debian's, in a folder of its own, for as long as a test module needs it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

PROGRAMS = Path("/usr/lib/postgresql")
ADMIN, PASSWORD = "admin", "rather:s@cret/100%"
START_SECONDS = 30.0
# Nothing outlives the test, so nothing need reach the disk.
SETTINGS = ("fsync=off", "max_connections=20", "shared_buffers=16MB")
# It ends with us, however we end: the pipe to its shell closes then.
UNTIL_CLOSED = 'postgres=$1; shift; "$postgres" "$@" & read -r _; kill -INT $!; wait'


def newest() -> Path | None:
    """The folder of the newest server's programs; None where Debian's package is not installed."""
    found = [path.parent for path in PROGRAMS.glob("*/bin/initdb")]
    return max(found, key=lambda path: float(path.parent.name), default=None)


class Server:
    """A running server; on its socket all are trusted, and over TCP asked for the password."""

    def __init__(self, programs: Path) -> None:
        # A socket's path has at most 107 bytes, and the user whom the server runs as has to get there.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._user = _unprivileged()
        if self._user is not None:
            shutil.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        try:
            self._start(programs)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _start(self, programs: Path) -> None:
        data, secret, self._log = self.folder / "data", self.folder / "password", self.folder / "log"
        secret.write_text(PASSWORD)
        self._run(
            programs / "initdb", "--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C.UTF-8",
            f"--username={ADMIN}", f"--pwfile={secret}", "--auth-local=trust", "--auth-host=scram-sha-256", data,
        )  # fmt: skip
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        listening = (f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}")
        settings = [part for setting in (*SETTINGS, *listening) for part in ("-c", setting)]
        command = ["sh", "-c", UNTIL_CLOSED, "sh", programs / "postgres", "-D", data, *settings]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt from the terminal is not for the shell
                **self._as_user(),
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise RuntimeError(f"PostgreSQL does not start:\n{self._log.read_text()}") from None
                time.sleep(0.05)

    def url(self, database: str, role: str = ADMIN) -> str:
        """The address of a database, through the server's socket."""
        return f"postgresql://{role}@/{database}?host={self.folder}&port={self.port}"

    def execute(self, *statements: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run statements as the administrator, each by itself; returns the rows of the last one."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                done = connection.execute(statement)  # type: ignore[arg-type] # it need not be a literal here
            return done.fetchall() if done.description else []

    def new(self, database: str) -> str:
        """The address of a new, empty database."""
        self.execute(f"CREATE DATABASE {database}")
        return self.url(database)

    def stop(self) -> None:
        """End it, and remove its folder."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=START_SECONDS)
        except BaseException:
            os.killpg(self._process.pid, signal.SIGKILL)  # the server's other processes end with its first
            self._process.wait()
            raise
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, *command: str | Path) -> None:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, **self._as_user())
        assert done.returncode == 0, done.stderr

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom the server runs as, which refuses root; None where we are somebody else."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
