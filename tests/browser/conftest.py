"""A real browser, and nbgrader's formgrader for it: both end with the tests that asked for them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests import courses
from tests.browser.server import FormgraderServer

if TYPE_CHECKING:  # it need not be installed
    from playwright.sync_api import Browser, Dialog, Page, Response, Route

REQUIRED = "AUTOGRADER_REQUIRE_BROWSER"
CHROMIUM = "/usr/bin/chromium"
CLASS = ("amara", "dora", "emil", "farah")
SECONDS = 1000.0
PATIENCE = 180 * SECONDS
"""The first autograding of a server waits for two imports of torch."""

# Formgrader's pages load MathJax from the net, and wait for it. The tests must not need the net.
MATHJAX = """\
window.MathJax = {Hub: {Config() {}, Startup: {signal: {Interest(listener) { setTimeout(listener, 0, "End"); }}}}};
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The machine's Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without("playwright is not installed")
    if not Path(CHROMIUM).exists():
        _without(f"there is no {CHROMIUM}")
    options = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def class_folder(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course whose gradebook knows the assignment, with some submissions in it."""
    root = tmp_path_factory.mktemp("class")
    course = courses.copy_course(root / "course", *CLASS)
    courses.nbgrader("generate_assignment", courses.ASSIGNMENT, folder=course, home=root / "author")
    return course


@pytest.fixture(scope="module")
def formgrader(class_folder: Path) -> Iterator[FormgraderServer]:
    """A Jupyter server with formgrader, in that folder."""
    with FormgraderServer(class_folder, class_folder.with_name("home")) as server:
        yield server


@pytest.fixture
def visits(browser: Browser, tmp_path: Path) -> Iterator[Visits]:
    """Where the pages of one test are opened; at its end, no page may have met an error."""
    with Visits(browser, tmp_path) as visits:
        yield visits
        assert not visits.complaints, "\n".join(visits.complaints)


@pytest.fixture
def page(visits: Visits, formgrader: FormgraderServer) -> Page:
    """Manage Assignments, logged in."""
    return visits.manage_assignments(formgrader)


class Visits:
    """Opens pages, keeps them away from all servers but formgrader's, and remembers what went wrong."""

    def __init__(self, browser: Browser, pictures: Path) -> None:
        self.complaints: list[str] = []
        from playwright.sync_api import Error

        self._errors, self._pictures = Error, pictures
        self._servers: list[FormgraderServer] = []
        self._context = browser.new_context(viewport={"width": 1200, "height": 1600})
        self._context.set_default_timeout(60 * SECONDS)
        self._context.on("weberror", lambda fault: self.complaints.append(f"script: {fault.error}"))
        self._context.on("dialog", self._dismiss)
        self._context.on("response", self._look_at)
        self._context.route("**/*", self._answer)

    def manage_assignments(self, server: FormgraderServer) -> Page:
        """The page on which an instructor begins."""
        self._servers.append(server)
        return self.open(server.url("manage_assignments"))

    def open(self, address: str) -> Page:
        """Any page."""
        page = self._context.new_page()
        page.goto(address)
        return page

    def evidence(self) -> Iterator[tuple[str, str]]:
        """What the report of a failure shows: where each page stood, its picture, and what the servers said."""
        for number, page in enumerate(self._context.pages, 1):
            picture = self._pictures / f"page-{number}.png"
            try:
                page.screenshot(path=picture, full_page=True)
                yield f"page {number}", f"{page.url}\n{picture}"
            except self._errors as fault:  # a page that crashed must not hide why the test failed
                yield f"page {number}", f"{page.url}\nhas no picture: {fault}"
        for server in self._servers:
            yield "Jupyter server", server.log

    def _dismiss(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _look_at(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} {response.url}")

    def _answer(self, route: Route) -> None:
        address = route.request.url
        if address.startswith("file:") or any(server.serves(address) for server in self._servers):
            route.continue_()
        elif "/mathjax/" in address.lower():
            route.fulfill(body=MATHJAX, content_type="text/javascript")
        else:
            self.complaints.append(f"asked for {address}")
            route.abort()

    def __enter__(self) -> Visits:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Beside a failure, show where the pages stood and what their servers said."""
    report = yield
    visits = getattr(item, "funcargs", {}).get("visits")
    if report.failed and visits:
        report.sections.extend(visits.evidence())
    return report


def _without(what: str) -> NoReturn:
    reason = f"formgrader is not tried in a browser: {what}"
    if os.environ.get(REQUIRED):
        pytest.fail(f"{reason}, and {REQUIRED} is set.")
    pytest.skip(reason)
