"""What results, files and rows hang on, as hashes: where one of them is another, something has to be done again."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from autograder import __version__
from autograder.course import Course, Limits, suite_hash
from autograder.folders import fingerprints_in

CONFIGURATIONS = ("jupyter_config.py", "jupyter_config.json", "nbgrader_config.py", "nbgrader_config.json")
PACKAGE = Path(__file__).parent


class Rules(msgspec.Struct, frozen=True):
    """What decides a score beside the submission, in parts, so that it can be told which of them is another."""

    all: str
    suites: str
    limits: str
    version: str
    seed: int
    tier: str

    def others(self, then: Rules) -> tuple[str, ...]:
        """What is another than `then`; keys of `autograder.changes.REASONS`."""
        found = {
            "suite": self.suites != then.suites and self.version == then.version,
            "limits": self.limits != then.limits,
            "version": self.version != then.version,
            "seed": self.seed != then.seed,
            "tier": self.tier != then.tier,
        }
        return tuple(name for name, is_other in found.items() if is_other)


def rules_of(course: Course, assignment: str, seed: int) -> Rules:
    """What decides the scores of an assignment now."""
    plain = msgspec.structs.replace(course, limits=Limits())
    return Rules(
        all=suite_hash(course, assignment),
        suites=suite_hash(plain, assignment),
        limits=hash_of([msgspec.json.encode(course.limits)]),
        version=__version__,
        seed=seed,
        tier=course.confinement.grade,
    )


def result_key(course: Course, submission: str, assignment: str, suites: str, seed: int) -> str:
    """The name of a result in the store.

    Args:
        course: the course, whose grading requires a confinement.
        submission: SHA-256 (hex) of the submitted file; empty where it could not be read, which has no result.
        assignment: which one it answers.
        suites: `suite_hash` of that assignment.
        seed: of the suites' random draws.
    """
    if not submission:
        return ""
    parts = [submission, assignment, suites, str(seed), course.confinement.grade]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def frame_of(course: Course, assignment: str, configuration: str) -> str:
    """A hash of what the files and rows of a whole class hang on beside its rules.

    Args:
        course: the course.
        assignment: which one.
        configuration: `configuration_of` nbgrader.
    """
    parts = [configuration.encode(), course.language.encode(), str(course.assignment(assignment).due).encode()]
    for notebook in (course.source_notebook(assignment), course.release_notebook(assignment)):
        try:
            parts += fingerprints_in(notebook.parent) if notebook.parent.is_dir() else []
        except OSError:  # nothing holds of what can't be looked at
            parts.append(secrets.token_bytes())
        if notebook.is_file():
            break
    return hash_of(parts)


def configuration_of(course: Course, modules: Iterable[str]) -> str:
    """A hash of nbgrader's configuration and of the code that applies it.

    That is each file in which Jupyter looks for it, those that these load or import, the environment variables that
    they name, the versions of all packages, this package's files, and the database of ``course.yml``.

    Args:
        course: the course.
        modules: `own_modules` of a process that has applied it.
    """
    from jupyter_core.paths import jupyter_config_dir, jupyter_config_path

    folders = dict.fromkeys([str(course.root), jupyter_config_dir(), *jupyter_config_path()])
    files = [os.path.join(folder, name) for folder in folders for name in CONFIGURATIONS]
    parts, words = [], set()
    for path in [*files, *sorted(modules)]:
        try:
            content = Path(path).read_bytes()
        except OSError:
            continue
        parts += [os.fsencode(path), content]
        words |= set(re.findall(rb"\w+", content))
    named = sorted(name for name in os.environ if os.fsencode(name) in words)
    parts += [os.fsencode(f"{name}={os.environ[name]}") for name in named]
    for packages in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        parts += sorted(os.fsencode(name) for name in os.listdir(packages) if name.endswith(".dist-info"))
    for file in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.mo")]):
        status = file.stat()
        parts += [os.fsencode(file), f"{status.st_size} {status.st_mtime_ns}".encode()]
    if course.database is not None:
        parts.append(course.database.encode())
    return hash_of(parts)


_loaded: set[str] = set()
"""The configuration files that this process has loaded or looked for, those within others too."""


@contextmanager
def noting_configurations() -> Iterator[None]:
    """Note which configuration files are loaded in here, for `own_modules`.

    A file loads another by traitlets' ``load_subconfig``, which goes on without a word where there is none.
    """
    from traitlets.config.loader import PyFileConfigLoader

    load = PyFileConfigLoader.load_config

    def load_config(self: PyFileConfigLoader) -> Any:
        paths = [self.path] if isinstance(self.path, str) else list(self.path or [""])
        name = os.path.expanduser(self.filename)
        _loaded.update(os.path.abspath(os.path.join(path, name)) for path in paths)
        return load(self)

    PyFileConfigLoader.load_config = load_config  # type: ignore[method-assign]
    try:
        yield
    finally:
        PyFileConfigLoader.load_config = load  # type: ignore[method-assign]


def own_modules() -> tuple[str, ...]:
    """The files that a configuration has loaded or imported.

    These are the imported modules that are of no installed package, and those of nbgrader's plugins wherever they are.
    """
    installed = {os.path.realpath(path) for path in sysconfig.get_paths().values()} | {os.path.realpath(PACKAGE)}
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    found = {os.path.realpath(file) for file in files if file}
    own = {path for path in found if not any(path.startswith(f"{one}{os.sep}") for one in installed)}
    return tuple(sorted(own | _loaded | set(_plugin_files())))


def _plugin_files() -> Iterator[str]:
    """The files of nbgrader's plugins, such as one for late penalties, that this process has imported."""
    base = getattr(sys.modules.get("nbgrader.plugins"), "BasePlugin", None)
    waiting = [base] if base is not None else []
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if file:
            yield os.path.realpath(file)


def hash_of(parts: Iterable[bytes]) -> str:
    """SHA-256 (hex) of parts, so that no two lists of them look alike."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
