"""The pytest plugin: collects the hidden suites once, then serves submissions from inside the run loop.

Only the examiner registers it, by hand; it is no entry point, so no one else's pytest run ever meets it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autograder.channel.proxy import Student
from autograder.errors import AutograderError, CourseError
from autograder.examiner.suites import Suite, group_suites
from autograder.suite import Draws

Serve = Callable[["SuitePlugin"], None]


class SuitePlugin:
    """Runs single checks on demand.

    Args:
        serve: called once everything is collected; it returns when there is nothing more to do.
    """

    def __init__(self, serve: Serve) -> None:
        self.suites: dict[tuple[str, str], Suite] = {}
        self.problem: AutograderError | None = None
        """Why nothing can be examined, if so."""
        self._serve = serve
        self._student: Student | None = None
        self._seed: tuple[int, tuple[str, ...]] = (0, ())
        self._raised: BaseException | None = None

    def run(self, item: pytest.Function, student: Student, seed: int) -> BaseException | None:
        """Run one check against a student's function.

        Args:
            item: the check.
            student: the function.
            seed: the course's seed; each check draws from a generator of its own.

        Returns:
            What the check raised, or None when it passed.
        """
        self._student, self._seed, self._raised = student, (seed, (item.path.stem, item.name)), None
        # pytest never clears these two: a report would hold what earlier submissions left there.
        item.user_properties.clear()
        item._report_sections.clear()
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        except BaseException as error:  # noqa: BLE001 - pytest.exit and the like must not end the loop
            item.session._setupstate.teardown_exact(None)  # which was passed over
            return error
        finally:
            self._student = None
        return self._raised

    @pytest.fixture(name="student")
    def _student_fixture(self) -> Student:
        """The student's function, in its own process."""
        assert self._student is not None
        return self._student

    @pytest.fixture(name="rng")
    def _rng_fixture(self) -> Draws:
        """Random draws behind the seed that the report shows."""
        seed, names = self._seed
        return Draws(seed, *names)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Sort what was collected."""
        try:
            self.suites = group_suites(session.items)
        except CourseError as error:
            self.problem = error

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the first suite that can't be imported."""
        if report.failed and self.problem is None:
            last = report.longreprtext.strip().splitlines()[-1]
            self.problem = CourseError(f"the hidden suite {report.nodeid} can't be collected: {last}")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serve instead of running everything once."""
        try:
            if self.problem is None:
                self._serve(self)
        except AutograderError as error:  # pytest would take it for an error of its own
            self.problem = error
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport:
        """Keep what was raised; pytest's own report would format source and tracebacks that nobody reads."""
        if call.excinfo is not None and self._raised is None:
            self._raised = call.excinfo.value
        when = "call" if call.when == "collect" else call.when  # items have no collect phase; the type says so
        return pytest.TestReport(
            item.nodeid, item.location, {}, "passed", None, when, duration=call.duration, start=call.start
        )
