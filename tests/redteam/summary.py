"""The line at the end of a test run: how many hostile submissions there were, and how many came out as required."""

from __future__ import annotations

from collections.abc import Generator

import pytest

CASES = tuple(f"tests/redteam/{module}.py::test_case[" for module in ("test_bank", "test_bank_of_reaching"))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost, and so behind all that others have to say
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Counted from the reports, which xdist brings home from its processes."""
    yield
    ran: set[str] = set()
    lost: set[str] = set()
    tiers: set[str] = set()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            if report.nodeid.startswith(CASES):
                ran.add(report.nodeid)
                tiers |= {str(value) for name, value in report.user_properties if name == "tier"}
                if outcome != "passed":
                    lost.add(report.nodeid)
    if ran:
        tier = ", ".join(sorted(tiers)) or "unknown"
        terminalreporter.write_line(f"red team: {len(ran)} cases, {len(ran) - len(lost)} as required (tier {tier})")
