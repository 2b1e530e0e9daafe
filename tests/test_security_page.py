"""docs/security.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.redteam.bank import FAMILIES, LYING, REACHING

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([\w-]+)\])?`", PAGE)


def test_the_page_names_tests_for_its_promises() -> None:
    assert len(NAMED) >= 40
    assert PAGE.count("::") == len(NAMED)  # each in the form that is looked at


@pytest.mark.parametrize("path", sorted({path for path, _, _ in NAMED}))
def test_every_named_test_exists(path: str) -> None:
    module = ast.parse((ROOT / path).read_text())
    defined = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    named = {name for where, name, _ in NAMED if where == path}
    assert named - defined == set()


def test_a_family_is_named_with_the_module_that_runs_it() -> None:
    modules = {"test_bank": LYING, "test_bank_of_reaching": REACHING}
    assert [(path, family) for path, _, family in NAMED if family and family not in modules[Path(path).stem]] == []


def test_every_family_of_hostile_submissions_is_named() -> None:
    assert {family for _, _, family in NAMED if family} == {*FAMILIES}


def test_every_promise_has_a_test() -> None:
    _, _, rest = PAGE.partition("## What is promised")
    rows = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 15
    assert [row for row in rows if "::" not in row] == []
