"""The line at the end of a test run: how many damaged submissions there were, and how many came out as required."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import pytest

from tests.counted import counted

CASES = "tests/damaged/test_bank.py::test_case["


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost, and so behind all that others have to say
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Written behind all else."""
    yield
    found = counted(terminalreporter, CASES)
    if found.ran:
        families = Counter(nodeid.removeprefix(CASES).split("-")[0] for nodeid in found.ran)
        told = ", ".join(f"{family} {count}" for family, count in sorted(families.items()))
        terminalreporter.write_line(f"damaged: {found} ({told})")
