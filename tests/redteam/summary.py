"""The line at the end of a test run: how many hostile submissions there were, and how many came out as required."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.counted import counted

CASES = tuple(f"tests/redteam/{module}.py::test_case[" for module in ("test_bank", "test_bank_of_reaching"))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost, and so behind all that others have to say
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Written behind all else."""
    yield
    found = counted(terminalreporter, CASES)
    if found.ran:
        properties = [each for report in found.reports for each in report.user_properties]
        tiers = sorted({str(value) for name, value in properties if name == "tier"})
        terminalreporter.write_line(f"red team: {found} (tier {', '.join(tiers) or 'unknown'})")
