"""Zygotes whose workers run what tests send them; see `tests.worker.standin`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.examiner.zygotes import Worker, Zygote
from tests.worker import packages
from tests.worker.driver import ask

STANDIN = "autograder.worker.standin"


@pytest.fixture(scope="session")
def worker_package() -> Iterator[Path]:
    """A package that holds the worker's side and the stand-in only."""
    with packages.package() as folder:
        yield folder


@pytest.fixture(params=["A", "B"], scope="session")
def tier(request: pytest.FixtureRequest) -> Any:
    """Each tier that a zygote offers, where this machine has it."""
    reason = packages.without_confinement(request.param)
    if reason:
        pytest.skip(reason)
    return request.param


@pytest.fixture(scope="session")
def python(tier: str) -> str:
    """An interpreter that workers of that tier can reach."""
    unprivileged = packages.NOBODY if tier == "B" and os.geteuid() == 0 else os.geteuid()
    found = packages.interpreter(unprivileged)
    assert found
    return found


@pytest.fixture
def start(tier: Any, python: str, worker_package: Path) -> Iterator[Callable[..., Zygote]]:
    """Starts zygotes of that tier, and ends them."""
    started = []

    def start_zygote(package: Path = worker_package, module: str = STANDIN, **options: Any) -> Zygote:
        zygote = Zygote.start((tier,), module=module, python=python, package=package, **options)
        started.append(zygote)
        return zygote

    yield start_zygote
    for zygote in started:
        zygote.close()


@pytest.fixture
def zygote(start: Callable[..., Zygote]) -> Zygote:
    """A zygote of the stand-in."""
    return start()


def run(worker: Worker, function: Callable[[Any], Any], about: Any = None) -> Any:
    """What `function(about)` returns in `worker`, where its source is sent; it must not raise there."""
    answer = ask(worker, inspect.getsource(function), function.__name__, about)
    if "value" not in answer:
        raise AssertionError(answer)
    return answer["value"]
