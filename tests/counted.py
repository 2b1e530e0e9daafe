"""The cases of a bank of tests: which of them ran in this test run, and which were not as required."""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Counted(NamedTuple):
    """By their ids; `reports` are those that say so."""

    ran: set[str]
    lost: set[str]
    reports: list[pytest.TestReport]

    def __str__(self) -> str:
        return f"{len(self.ran)} cases, {len(self.ran) - len(self.lost)} as required"


def counted(terminalreporter: pytest.TerminalReporter, cases: str | tuple[str, ...]) -> Counted:
    """Those whose ids begin so, counted from the reports, which xdist brings home from its processes."""
    found = Counted(set(), set(), [])
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            if report.nodeid.startswith(cases):
                found.ran.add(report.nodeid)
                found.reports.append(report)
                if outcome != "passed":
                    found.lost.add(report.nodeid)
    return found
