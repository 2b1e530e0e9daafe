"""The worker's side imports nothing of the trusted side."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import autograder.worker
from autograder.examiner.zygotes import IDLE, Zygote
from tests.worker import packages

MODULES = sorted(Path(autograder.worker.__file__).parent.glob("*.py"))
WARM = {"torch", "numpy", "IPython", "matplotlib", "traitlets"}  # what notebooks are run with
OURS = ("autograder.worker", *(f"autograder.channel.{name}" for name in ("frames", "codec", "raw", "words")))


def imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they lead"
            if node.module == "autograder.channel":
                yield from (f"{node.module}.{name.name}" for name in node.names)
            else:
                yield node.module or ""


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_worker_module_imports_the_standard_library_and_itself_alone(module: Path) -> None:
    for name in imported(module):
        allowed = {*sys.stdlib_module_names} | (
            WARM if module.stem in ("serve", "cells", "calls", "passes", "watch") else set()
        )
        assert name.startswith(OURS) or name.partition(".")[0] in allowed, name


@pytest.mark.parametrize("tier", ["A", "B"])
def test_a_zygote_runs_where_the_trusted_side_does_not_exist(tier: str) -> None:
    reason = packages.without_confinement(tier)
    if reason:
        pytest.skip(reason)
    with packages.package() as folder:
        assert {path.name for path in (folder / "autograder").iterdir()} == {
            "__init__.py",
            "worker",
            "channel",
        }
        uid = packages.NOBODY if tier == "B" else 0
        python = packages.interpreter(uid if sys.platform == "linux" and _is_root() else _uid())
        with Zygote.start((tier,), module=IDLE, package=folder, python=python) as zygote:  # type: ignore[arg-type]
            zygote.spawn().close()


def _uid() -> int:
    import os

    return os.geteuid()


def _is_root() -> bool:
    return _uid() == 0
