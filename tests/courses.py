"""The course of this repository, copied for a class that comes and goes, and nbgrader run in it."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
COMMANDS = Path(sysconfig.get_path("scripts"))
SYSTEM_PATH = "/usr/bin:/bin"
ASSIGNMENT = "attention"
PARTS = ("course.yml", "nbgrader_config.py", "source", "release", "tests/hidden")


def copy_course(root: Path, *students: str) -> Path:
    """Copy the course into `root`, with the submissions of these students of the sample class; returns `root`."""
    for part in PARTS:
        original, copy = REPOSITORY / part, root / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if original.is_dir():
            shutil.copytree(original, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(original, copy)
    for student in students:
        shutil.copytree(REPOSITORY / "examples" / "submissions" / student, root / "submitted" / student)
    return root


def environment(home: Path) -> dict[str, str]:
    """A plain user's: a home of their own, and a PATH on which no command of the virtual environment lies."""
    home.mkdir(parents=True, exist_ok=True)
    return {
        "HOME": str(home),
        "PATH": SYSTEM_PATH,
        "LANG": "C.UTF-8",
        "JUPYTER_CONFIG_DIR": str(home / "jupyter" / "config"),
        "JUPYTER_DATA_DIR": str(home / "jupyter" / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "jupyter" / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
    }


def run(command: str, *arguments: str, folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the virtual environment by its absolute path; stderr is in stdout, as a terminal shows it."""
    return subprocess.run(
        [COMMANDS / command, *arguments],
        cwd=folder,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
    )


def nbgrader(*arguments: str, folder: Path, home: Path) -> str:
    """Run ``nbgrader`` in a folder, and expect that it succeeds; returns what it printed."""
    done = run("nbgrader", *arguments, folder=folder, home=home)
    assert done.returncode == 0, f"nbgrader {' '.join(arguments)}\n{done.stdout}"
    return done.stdout
