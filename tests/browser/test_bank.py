"""The instructor's browser: of a bank of attempts, none gets hold of a feedback page or of formgrader's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nbconvert.filters.markdown import markdown2html
from nbgrader.api import Gradebook

from tests.browser.attempt import PIXEL, SVG, Attempt
from tests.browser.attempts import ATTEMPTS, FAMILIES
from tests.browser.harm import Seen, Watch
from tests.browser.hostile import WORDS, write_class
from tests.browser.server import FormgraderServer
from tests.courses import ASSIGNMENT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ALL = "everything"
HONEST = "honest"
TABLE = """\
<style scoped>.dataframe tbody tr th {vertical-align: top;}</style>
<table border="1" class="dataframe"><thead><tr style="text-align: right;"><th></th><th>loss</th></tr></thead>
<tbody><tr><th>epoch 1</th><td>0.693</td></tr></tbody></table>"""
NEEDED = (
    Attempt("table", "html", TABLE),
    Attempt("picture", "data", {"image/png": PIXEL, "text/plain": "<Figure>"}),
    Attempt("drawing", "data", {"image/svg+xml": f'<svg {SVG} width="9" height="9"><path d="M0 0h9"/></svg>'}),
    Attempt("maths", "markdown", r"With $\frac{QK^\top}{\sqrt d}$ and [the paper](https://paper.example/1706)."),
    Attempt("code", "code", "def mine(x):\n    return x + 1"),
)
"""What an honest student shows, and a teacher has to see."""
USEFUL = "useful"
TRIED = {HONEST: (), **FAMILIES, ALL: ATTEMPTS, USEFUL: NEEDED}
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
LOADED = "window.formgrader?.loaded && formgrader.grades.loaded && formgrader.comments.loaded"
MARK = """
words => {
  const cells = [...document.querySelectorAll(".cell")];
  const theirs = cells.slice(cells.findIndex(cell => cell.textContent.includes(words)));
  theirs.forEach(cell => cell.classList.add("theirs"));
  return theirs.length;
}
"""

FEEDBACK = Seen(
    parts=".cell:not(.course .cell) > :is(.text, .code, .output), .comment",
    own=(
        ".total",
        "h1",
        "#name-1",
        ".exercise .points",
        ".checks .passed .points",
        ".checks .passed .title",
        "footer p",
    ),
)
FORMGRADER = Seen(
    parts=".theirs :is(.text_cell_render, .input_area, .output_subarea)",
    own=("#test_scaled_dot_product_attention", ".panel-title", ".nbgrader-label", ".scoring-buttons"),
)
UNPROTECTED = Seen(parts="#part", own=("#score",))
PAGE = '<!DOCTYPE html><title>{}</title><p id="score">17 of 20 points</p><div id="part">{}</div>'


@pytest.fixture(scope="module")
def graded_class(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_class(tmp_path_factory.mktemp("bank"), TRIED)


@pytest.fixture(scope="module")
def watch(browser: Browser) -> Iterator[Watch]:
    context = browser.new_context(viewport={"width": 1200, "height": 1000})
    yield Watch(context)
    context.close()


@pytest.fixture(scope="module")
def usual(watch: Watch, graded_class: Path) -> list[str]:
    """How an honest student's feedback page looks."""
    watch.show(HONEST, feedback(graded_class, HONEST))
    return watch.styles(FEEDBACK)


def test_the_bank_is_large_and_each_attempt_has_a_name_of_its_own() -> None:
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS) >= 150


def test_attempts_get_hold_of_a_page_that_nothing_protects(watch: Watch) -> None:
    watch.show("quiet", PAGE.format("", "nothing"))
    styles = watch.styles(UNPROTECTED)
    assert watch.harm(UNPROTECTED, styles) == {}
    failed = []
    for attempt in (one for one in ATTEMPTS if one.works and one.place in ("html", "markdown", "data")):
        watch.show(attempt.name, PAGE.format(attempt.name, unprotected(attempt)))
        harm = watch.harm(UNPROTECTED, styles, settled=20)
        if not harm.keys() - {"element"}:  # to be of an unknown kind is no harm yet
            failed.append(attempt.name)
    assert failed == []


@pytest.mark.parametrize("student", [*FAMILIES, ALL])
@pytest.mark.parametrize("policy", [True, False], ids=["with its policy", "without a policy"])
def test_no_attempt_gets_hold_of_a_feedback_page(
    watch: Watch, graded_class: Path, usual: list[str], student: str, policy: bool
) -> None:
    html = feedback(graded_class, student)
    if not policy:
        html, found = POLICY.subn("", html)
        assert found == 1
    watch.show(student, html)
    assert WORDS in watch.page.locator("body").inner_text()
    assert watch.harm(FEEDBACK, usual) == {}


def test_an_imitation_of_our_table_stands_in_a_students_frame(watch: Watch, graded_class: Path) -> None:
    watch.show("imitation", feedback(graded_class, "imitation"))
    theirs = watch.page.locator(".cell:not(.course .cell)")
    imitations = theirs.locator("table, :text('20 of 20 points')")
    framed = imitations.evaluate_all(
        """found => found.map(one => {
          const frame = getComputedStyle(one.closest(".cell > .text, .output > .rich"));
          return [frame.borderLeftStyle, parseFloat(frame.borderLeftWidth) > 0, getComputedStyle(one).position];
        })"""
    )
    assert len(framed) >= 6 and set(map(tuple, framed)) == {("solid", True, "static")}
    own = watch.page.locator("#exercises ~ .exercise .points").all_inner_texts()
    assert "20 of 20 points" not in own
    assert watch.page.locator(".exercise table:not(.comment table), .cell .checks, .cell progress").count() == 0


def test_a_feedback_page_shows_what_a_teacher_needs(watch: Watch, graded_class: Path, usual: list[str]) -> None:
    watch.show(USEFUL, feedback(graded_class, USEFUL))
    theirs = watch.page.locator(".cell:not(.course .cell)")
    assert theirs.locator("td").all_inner_texts() == ["0.693", "0.693"]
    drawn = theirs.locator("img").evaluate_all("all => all.map(one => [one.src.slice(0, 15), one.naturalWidth])")
    assert drawn == [["data:image/png;", 1], ["data:image/svg+", 9]]
    assert theirs.locator("math mfrac msqrt").count() == 1
    assert theirs.locator("a[href='https://paper.example/1706']").is_visible()
    keyword = theirs.locator(".k", has_text="def").last
    assert keyword.evaluate("one => getComputedStyle(one).color !== getComputedStyle(one.parentElement).color")
    assert watch.harm(FEEDBACK, usual) == {}


def test_no_attempt_gets_hold_of_formgrader(browser: Browser, graded_class: Path) -> None:
    with FormgraderServer(graded_class, graded_class.with_name("home")) as server:
        watch = Watch(browser.new_context(viewport={"width": 1200, "height": 1000}), server.serves)
        watch.open(server.url("manage_assignments"))  # to log in
        styles: list[str] = []
        for student in (one for one in TRIED if one != ALL):  # all that is in that page is in one of these
            open_submission(watch, server, submission(graded_class, student))
            styles = styles or watch.styles(FORMGRADER)
            assert watch.harm(FORMGRADER, styles) == {}, student
            theirs = watch.page.locator(".theirs")
            assert theirs.locator(".score, .panel, [style*='color']").count() == 0  # those are the mark of our tables
            if student == USEFUL:
                assert theirs.locator("td").all_inner_texts() == ["0.693", "0.693"]
                assert theirs.locator("img[src^='data:image/']").count() == 2
                assert theirs.locator("a[href^='https://paper.example']").is_visible()
                assert r"\frac{QK^\top}{\sqrt d}" in theirs.all_inner_texts()[-2]  # for MathJax
        watch.close()


def open_submission(watch: Watch, server: FormgraderServer, id: str) -> None:
    """Open a submission, and mark the cells that are the student's."""
    watch.open(server.url(f"submissions/{id}/"))
    watch.page.wait_for_function(LOADED)
    assert watch.page.evaluate(MARK, WORDS) > 0


def unprotected(attempt: Attempt) -> str:
    """What a page would hold that takes everything as it comes."""
    if attempt.place != "data":
        return attempt.text if attempt.place == "html" else str(markdown2html(attempt.text))
    [(kind, value)] = attempt.filled.items()
    text = value if isinstance(value, str) else "".join(value.values())
    return {
        "application/javascript": f"<script>{text}</script>",
        "image/png": f'<img src="data:image/png;base64,{text}">',
        "text/markdown": markdown2html(text),
    }.get(kind, text)


def feedback(graded_class: Path, student: str) -> str:
    return (graded_class / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text()


def submission(graded_class: Path, student: str) -> str:
    """What formgrader calls a student's notebook."""
    with Gradebook(f"sqlite:///{graded_class}/gradebook.db") as gradebook:
        return str(gradebook.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, student).id)
