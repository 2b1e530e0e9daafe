"""The line at the end of a test run: how many damaged submissions there were, and how many came out as required."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import pytest

CASES = "tests/damaged/test_bank.py::test_case["


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost, and so behind all that others have to say
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Counted from the reports, which xdist brings home from its processes."""
    yield
    ran: set[str] = set()
    lost: set[str] = set()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            if report.nodeid.startswith(CASES):
                ran.add(report.nodeid)
                if outcome != "passed":
                    lost.add(report.nodeid)
    if ran:
        families = Counter(nodeid.removeprefix(CASES).split("-")[0] for nodeid in ran)
        told = ", ".join(f"{family} {count}" for family, count in sorted(families.items()))
        terminalreporter.write_line(f"damaged: {len(ran)} cases, {len(ran) - len(lost)} as required ({told})")
