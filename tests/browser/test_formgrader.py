"""An instructor's work in nbgrader's formgrader, by mouse and keyboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.conftest import PATIENCE, Visits
from tests.browser.server import FormgraderServer
from tests.conftest import code
from tests.courses import ASSIGNMENT

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SCORE_INPUT = "#test_scaled_dot_product_attention"
COMMENT_INPUT = "#scaled_dot_product_attention-comment"
LOADED = "window.formgrader?.loaded && formgrader.grades.loaded && formgrader.comments.loaded"

HOSTILE_MARKDOWN = """\
<script>window.taken = "Markdown"</script>
<img src="x" onerror="window.taken = 'an image'">
<img src="https://elsewhere.example/pixel.png">
<iframe srcdoc="<script>parent.taken = 'a frame'</script>"></iframe>
the student's words
"""
HOSTILE_CODE = """\
from IPython.display import HTML, SVG, Javascript, Markdown
display(HTML("<script>window.taken = 'an output'</script><img src=x onerror='window.taken = 1'>"))
display(Javascript("window.taken = 'JavaScript'"))
display(Markdown("<img src=x onerror='window.taken = 2'>"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='window.taken = 3'><script>taken = 4</script></svg>"))
print("the student's output <img src=x onerror='window.taken = 5'>")
raise ValueError("<script>window.taken = 'a traceback'</script>")
"""
HOSTILE_NAME = "\"><script>window.taken = 'a grade_id'</script>"


def test_a_click_autogrades_a_submission_and_shows_its_score(page: Page) -> None:
    row = autograde(page, "amara")
    assert row.locator(".status").inner_text() == "graded"
    assert row.locator(".score").inner_text() == "20 / 20"


def test_a_submission_shows_its_checks_below_the_graded_cell(page: Page) -> None:
    autograde(page, "dora")
    open_submission(page, "dora")
    cell = page.locator(".cell", has=page.locator(SCORE_INPUT))
    checks = cell.locator("table").inner_text()
    assert "Each query's weights sum to 1" in checks
    assert "The dot products are divided by √d, whatever d is" in checks
    assert "Your weights are those of attention without the 1/√d scale." in cell.inner_text()
    assert page.locator(SCORE_INPUT).get_attribute("placeholder") == "13"


def test_a_mark_and_a_comment_that_a_human_types_are_kept(page: Page) -> None:
    row = autograde(page, "emil")
    automatic = float(row.locator(".score").inner_text().split(" / ")[0])
    open_submission(page, "emil")
    before = float(page.locator(SCORE_INPUT).get_attribute("placeholder") or "nan")
    type_in(page, SCORE_INPUT, "9.5", "/api/grade/")
    type_in(page, COMMENT_INPUT, "Nearly: look at `dim`.", "/api/comment/")

    page.reload()
    page.wait_for_function(LOADED)
    assert page.input_value(SCORE_INPUT) == "9.5"
    assert page.input_value(COMMENT_INPUT) == "Nearly: look at `dim`."
    leave_submission(page)
    row = autograde(page, "emil")  # grading again
    assert row.locator(".score").inner_text() == f"{automatic - before + 9.5:g} / 20"
    assert row.locator(".status").inner_text() == "needs manual grading"  # is the mark still right?


def test_a_click_writes_the_feedback_page_with_the_score(page: Page, visits: Visits, class_folder: Path) -> None:
    autograde(page, "dora")
    click(page, "dora", ".generate-feedback")
    feedback = visits.open(feedback_of(class_folder, "dora").as_uri())
    assert "17 of 20 points" in feedback.locator("body").inner_text()


def test_what_a_student_wrote_does_not_run_in_anybodys_page(page: Page, visits: Visits, class_folder: Path) -> None:
    file = class_folder / "submitted" / "farah" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    content = json.loads(file.read_text())
    words = {"cell_type": "markdown", "id": "words", "metadata": {}, "source": HOSTILE_MARKDOWN}
    content["cells"] += [words, code(HOSTILE_CODE), code("1 + 1", grade_id=HOSTILE_NAME, solution=True)]
    file.write_text(json.dumps(content))

    autograde(page, "farah")
    click(page, "farah", ".generate-feedback")
    open_submission(page, "farah")
    for shown in (page, visits.open(feedback_of(class_folder, "farah").as_uri())):
        text = shown.locator("body").inner_text()
        assert "the student's words" in text
        assert "the student's output" in text
        shown.wait_for_load_state("networkidle")
        assert shown.evaluate("window.taken") is None
    # and `visits` finds out whether a page asked for anything elsewhere


# The last of the module: it ends the server of all.
def test_a_server_has_not_imported_what_grading_needs_and_ends_with_all_that_it_started(
    page: Page, formgrader: FormgraderServer
) -> None:
    autograde(page, "amara")
    assert formgrader.children()  # the examiner, and what it runs students' code in
    assert formgrader.stop() == 0
    assert formgrader.left_behind() == []
    assert "nbgrader" in formgrader.imported
    assert [name for name in ("torch", "numpy", "pytest", "_pytest") if name in formgrader.imported] == []


def row_of(page: Page, student: str) -> Locator:
    return page.locator("tr", has=page.locator(".student-id", has_text=re.compile(f"^{student}$")))


def autograde(page: Page, student: str) -> Locator:
    """From Manage Assignments to the submissions, and through the autograding of one; returns its row."""
    page.locator(f"a[href$='manage_submissions/{ASSIGNMENT}']").click()
    return click(page, student, ".autograde")


def click(page: Page, student: str, column: str) -> Locator:
    """Click a sign in a student's row of the submissions, and wait until it is done; returns the row."""
    row = row_of(page, student)
    row.locator(f"{column} a").click()
    said = page.locator(".modal-body")
    said.wait_for(timeout=PATIENCE)
    assert page.locator(".modal-title").inner_text() == "Success", said.inner_text()
    page.get_by_role("button", name="OK").click()
    page.locator(".modal").wait_for(state="detached")
    row.locator(".status .label").wait_for()
    return row


def open_submission(page: Page, student: str) -> None:
    """From any page of the overview to a student's notebook, through Manual Grading."""
    page.get_by_role("link", name="Manual Grading").click()
    page.locator("#main-table").get_by_role("link", name=ASSIGNMENT).click()
    page.wait_for_url(f"**/gradebook/{ASSIGNMENT}")
    page.locator("#main-table").get_by_role("link", name=ASSIGNMENT).click()
    page.locator("#main-table .reveal").first.wait_for()  # the button finds no names before
    page.get_by_role("button", name="Show All Names").click()
    page.get_by_role("link", name=student).click()
    page.wait_for_function(LOADED)


def leave_submission(page: Page) -> None:
    """From a student's notebook to Manage Assignments."""
    page.get_by_role("link", name="Manual Grading").click()
    page.get_by_role("link", name="Manage Assignments").click()


def type_in(page: Page, field: str, text: str, address: str) -> None:
    """Type something, leave the field, and wait until it is saved."""
    page.fill(field, text)
    with page.expect_response(re.compile(address)):
        page.locator(field).blur()


def feedback_of(class_folder: Path, student: str) -> Path:
    return class_folder / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html"
