"""A package that holds only what a worker's side may use, and interpreters that a given user can run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import autograder

NOBODY = 65534
_SOURCE = Path(autograder.__file__).parent
_HERE = Path(__file__).parent


@contextmanager
def package(*, client: bool = False) -> Iterator[Path]:
    """A folder, readable for everybody, with `autograder/__init__.py`, `worker`, `channel` and the stand-in.

    `client`: the trusted side's client too, and the driver.
    """
    folder = Path(tempfile.mkdtemp(prefix="autograder-package-"))
    try:
        target = folder / "autograder"
        target.mkdir()
        shutil.copy(_SOURCE / "__init__.py", target)
        for part in ("worker", "channel"):
            shutil.copytree(_SOURCE / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(_HERE / "standin.py", target / "worker")
        if client:
            shutil.copy(_SOURCE / "errors.py", target)
            (target / "examiner").mkdir()
            for name in ("__init__.py", "launching.py", "scratch.py", "workers.py", "zygotes.py"):
                shutil.copy(_SOURCE / "examiner" / name, target / "examiner")
            for name in ("driver.py", "attacks.py"):
                shutil.copy(_HERE / name, folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield folder
    finally:
        shutil.rmtree(folder)


def interpreter(uid: int) -> str | None:
    """A Python that the user `uid` can run: this one, or the system's, if it is new enough."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        question = [candidate, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            answer = subprocess.run(question, check=False, capture_output=True, cwd="/", **as_user(uid))
        except OSError:
            continue
        if answer.returncode == 0:
            return candidate
    return None


def as_user(uid: int) -> dict[str, Any]:
    """Arguments that make `subprocess.run` run as that user; none, if that is who we are."""
    return {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}


def without_confinement(tier: str) -> str | None:
    """Why tests of that tier cannot run with this process's rights; None if they can."""
    if sys.platform != "linux":
        return "confinement needs Linux"
    uid = NOBODY if os.geteuid() == 0 and tier == "B" else os.geteuid()
    if interpreter(uid) is None:
        return f"no Python 3.11 that the unprivileged user {uid} can run"
    return None
