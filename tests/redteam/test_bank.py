"""Every submission that lies to the grader comes to what it must come to, and to nothing else.

Those that reach for the machine stand in a module of their own, so that two processes can share the bank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.redteam.bank import FAMILIES, LYING, Case, cases


def test_the_bank_is_large_enough_and_every_family_is_in_it() -> None:
    bank = cases()
    assert len(bank) >= 70
    assert Counter(case.family for case in bank).keys() == set(FAMILIES)
    assert len({case.id for case in bank}) == len(bank)


@pytest.mark.parametrize("case", cases(LYING), ids=lambda case: f"{case.family}-{case.id}")
def test_case(as_required: Callable[[Case], None], case: Case) -> None:
    as_required(case)
