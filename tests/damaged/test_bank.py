"""No honest student loses marks to a damaged file: every case of the bank comes to what it must come to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.damaged import cells, code, files, metadata, text
from tests.damaged.bank import Case

CASES = (*files.CASES, *text.CASES, *cells.CASES, *metadata.CASES, *code.CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}-{case.id}")
def test_case(as_required: Callable[[Case], None], case: Case) -> None:
    as_required(case)
