"""What a built distribution holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from .conftest import REPOSITORY

BUILD = "from setuptools.build_meta import build_sdist, build_wheel; build_wheel('dist'); build_sdist('dist')"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The names of the files in the wheel and in the source distribution."""
    root = tmp_path_factory.mktemp("build")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, root)
    for name in ("autograder", "tests", "release"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    [wheel] = (root / "dist").glob("*.whl")
    [source] = (root / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive, tarfile.open(source) as sources:
        return {"wheel": archive.namelist(), "source": sources.getnames()}


@pytest.mark.parametrize("kind", ["wheel", "source"])
def test_the_hidden_suites_are_never_packaged(distributions: dict[str, list[str]], kind: str) -> None:
    names = distributions[kind]
    assert any(name.endswith("autograder/course.py") for name in names)
    assert [name for name in names if "hidden" in Path(name).parts] == []
    assert [name for name in names if Path(name).name.startswith(("mistakes_", "correct_"))] == []


def test_a_wheel_holds_the_package_and_its_parts_alone(distributions: dict[str, list[str]]) -> None:
    tops = {Path(name).parts[0].split("-")[0] for name in distributions["wheel"]}
    assert tops == {"autograder", "attention_autograder"}
    for part in ("channel", "examiner", "suite", "worker"):
        assert any(name.startswith(f"autograder/{part}/") for name in distributions["wheel"])


def test_the_lock_names_exact_versions_and_nothing_else() -> None:
    lines = (REPOSITORY / "requirements.lock").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    for line in pinned:
        name, separator, version = line.partition("==")
        assert separator, line
        assert name.replace("-", "").replace("_", "").replace(".", "").isalnum(), line
        assert version.replace(".", "").isalnum(), line
        assert "+" not in version
    assert len({line.partition("==")[0].lower() for line in pinned}) == len(pinned)


def test_the_lock_holds_whatever_the_package_needs() -> None:
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    needs = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    locked = {line.partition("==")[0].lower() for line in (REPOSITORY / "requirements.lock").read_text().splitlines()}
    for need in needs:
        assert need.partition(">")[0].partition("[")[0].lower() in locked, need
