"""Every submission that reaches for the machine, or for more of it than it may have, comes to what it must come to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.redteam.bank import REACHING, Case, cases


@pytest.mark.parametrize("case", cases(REACHING), ids=lambda case: f"{case.family}-{case.id}")
def test_case(as_required: Callable[[Case], None], case: Case) -> None:
    as_required(case)
