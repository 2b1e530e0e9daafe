"""The page that a student receives."""

from __future__ import annotations

import base64
import gettext
import hashlib
import re

import msgspec
import pytest

from autograder.feedback.mark import Mark
from autograder.messages import Message
from autograder.report import ExerciseReport
from tests.feedback.graded import (
    CELLS,
    DOUBLE,
    HALF,
    OPEN,
    SEED,
    SUBMISSION,
    Page,
    answer,
    at,
    check,
    code,
    exercise,
    graded_cell,
    made,
    report,
    text,
)

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def test_it_says_what_was_seen_then_the_hint_then_what_passed() -> None:
    read = Page(made(report(DOUBLE, HALF), student="dora")).text
    places = [
        read.index(said)
        for said in (
            "dora",
            "Attention",
            "3 of 6 points",
            "Exercise 1",
            "1 of 4 points",
            "You add one too many.",
            "title of value",
            "double(2) is 5, expected 4",
            "What is twice two?",
            "title of shape",
            "2 of 2 points",
            "Your notebook, as it ran",
        )
    ]
    assert places[3:] == sorted(places[3:])


def test_the_first_of_several_exercises_with_something_to_gain_is_named() -> None:
    small = exercise("half", check("half_value", "failed", 0.5))
    assert "Look at exercise 2 first." in Page(made(report(HALF, small, DOUBLE))).text
    assert "first." not in Page(made(report(HALF, DOUBLE))).text
    assert 'class="summary"' not in made(report(HALF, DOUBLE))


def test_exercises_are_numbered_as_in_the_notebook() -> None:
    read = Page(made(report(DOUBLE, HALF))).text
    assert "Exercise 1 double" in read
    assert "Exercise 2 half" in read
    assert "Your answer to exercise 2 ↑ 2 of 2 points" in read


def test_the_points_stand_once_with_the_answer() -> None:
    html = made(report(DOUBLE, HALF))
    assert '<p class="result">' not in html
    assert html.count("title of value") == 1
    assert '<p class="result"><a href="#exercise-1">↑ Exercise 1</a>' in made(report(DOUBLE), graded_cell("double", 4))


def test_what_stands_between_backticks_is_code() -> None:
    seen = "it stopped: `a = '<b>' + (`"
    one = exercise("double", check("`x`", "failed", 1.0, seen, "see `y`"), diagnosis=Message("`return` is missing"))
    html = made(report(one, notes=(Message("`note`"),), repairs=(Message("`repair`"),)))
    for shown in ("x", "a = &#x27;&lt;b&gt;&#x27; + (", "y", "return", "note", "repair"):
        assert f"<code>{shown}</code>" in html
    assert "`" not in Page(html).text
    assert "<b>'" not in html


def test_a_forbidden_call_is_a_statement_of_the_exercise() -> None:
    one = exercise("double", check("shape", "forbidden", 1.0, "your answer calls softmax"), check("value", "forbidden"))
    read = Page(made(report(one))).text
    assert "0 of 2 points your answer calls softmax – none of its checks counts then 0/2" in read
    assert "title of" not in read


def test_what_the_diagnosis_has_said_is_not_said_or_asked_again() -> None:
    said = "Your function returns nothing."
    marked = msgspec.structs.replace(
        check("shape", "failed", 1.0, "it returned None, expected (a, b): does it end with a return?", said),
        mistake="m",
    )
    read = Page(made(report(exercise("double", marked, diagnosis=Message(said))))).text
    assert read.count(said) == 1
    assert "it returned None, expected (a, b)" in read
    assert "does it end" not in read
    assert "does it end" in Page(made(report(exercise("double", marked)))).text


def test_full_marks_are_a_reason_for_joy() -> None:
    assert "Everything is right. Well done!" in Page(made(report(HALF), answer("half"))).text


def test_an_untouched_notebook_is_told_so_once() -> None:
    untouched = exercise("double", check("a", "not_attempted"), check("b", "not_attempted"))
    read = Page(made(report(untouched))).text
    assert "No exercise is written yet." in read
    assert "0 of 2 points" in read
    assert "title of" not in read


@pytest.mark.parametrize("graded", [report(DOUBLE, HALF), report(OPEN), report(), None])
def test_nothing_can_run_or_be_fetched(graded: object) -> None:
    page = Page(made(graded))  # type: ignore[arg-type]
    assert not page.tags() & {"script", "link", "iframe", "object", "embed", "form", "base", "audio", "video"}
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        if tag == "a":
            assert str(attributes["href"]).startswith("#")


def test_the_policy_allows_our_style_and_pictures_in_the_page_alone() -> None:
    html = made(report(DOUBLE))
    [policy] = [
        a["content"] for _, a in Page(html).elements if str(a.get("http-equiv")).lower() == "content-security-policy"
    ]
    style = re.search(r"<style>(.*)</style>", html, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert "style" not in {name for _, attributes in Page(html).elements for name in attributes}


def test_everything_is_escaped() -> None:
    hostile = exercise(EVIL, check("value", "failed", 1.0, EVIL, EVIL), diagnosis=Message(EVIL))
    page = Page(
        made(
            report(hostile, notes=(Message(EVIL),), repairs=(Message(EVIL),)),
            code("x = 1", grade_id=EVIL, solution=True, grade=False),
            marks={EVIL: Mark(1.0, 1.0, comment=EVIL), "other": Mark(None, 0.0, comment=EVIL)},
            student=EVIL,
            assignment_title=EVIL,
        )
    )
    assert "script" not in page.tags()
    assert not any({"src", "onerror"} & attributes.keys() for _, attributes in page.elements)
    assert page.text.count("alert(1)") >= 9


def test_a_name_that_no_encoding_knows_can_be_written() -> None:
    made(report(DOUBLE), student="d\udce4ra\u202e").encode()


def test_links_lead_to_places_that_are_there_and_ids_stand_once() -> None:
    page = Page(made(report(DOUBLE, HALF)))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {str(attributes["href"]).removeprefix("#") for tag, attributes in page.elements if tag == "a"}
    assert links <= set(ids)
    assert {"answer-1", "exercise-1", "answer-2", "exercise-2", "top"} <= links


def test_an_answer_cell_that_is_empty_is_not_linked_to() -> None:
    page = Page(made(report(DOUBLE), code("", grade_id="double", solution=True, grade=False), text("words")))
    assert "#answer-1" not in {attributes.get("href") for _, attributes in page.elements}


def test_an_answer_that_was_copied_does_not_take_an_id_twice() -> None:
    page = Page(made(report(DOUBLE), answer("double"), answer("double")))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_headings_and_labels_serve_those_who_do_not_see_the_page() -> None:
    page = Page(made(report(DOUBLE, HALF)))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("h1") == tags.count("main") == tags.count("header") == 1
    assert ("html", {"lang": "en"}) in page.elements
    for tag, attributes in page.elements:
        if tag == "progress" or attributes.get("role") == "img":
            assert attributes.get("aria-label")
    labels = {attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes}
    assert labels <= {attributes.get("id") for _, attributes in page.elements}


# --- marks ---


def test_a_human_mark_wins_and_the_automatic_one_is_named() -> None:
    read = Page(made(report(DOUBLE, HALF), marks={"test_double": Mark(3.5, 4.0, manual=True)})).text
    assert "3.5 of 4 points" in read
    assert "5.5 of 6 points" in read
    assert "A person has given these points; the checks alone came to 1." in read


def test_a_mark_of_nobody_yet_is_never_0() -> None:
    read = Page(made(report(DOUBLE, HALF), marks={"test_half": Mark(None, 2.0, needs_human=True)})).text
    assert "1 of 6 points so far" in read
    assert "not graded yet, out of 2" in read
    assert "Not graded yet: half." in read
    assert not re.search(r"(?<!\d)0 of 2", read)


def test_a_notebook_without_any_score_has_no_total() -> None:
    page = Page(made(report(OPEN), marks={}))
    assert "Not graded yet" in page.text
    assert "Nothing is lost: a person will look at it." in page.text
    assert "so far" not in page.text
    assert "progress" not in page.tags()


def test_the_gradebook_counts_before_the_report() -> None:
    read = Page(made(report(DOUBLE), marks={"test_double": Mark(None, 4.0, needs_human=True)})).text
    assert "1 of 4" not in read


def test_what_a_human_will_look_at_again_says_so() -> None:
    marks = {"test_double": Mark(2.0, 4.0, manual=True, needs_human=True)}
    read = Page(made(report(DOUBLE), marks=marks)).text
    assert "2 of 4 points" in read
    assert "A person will look at it again." in read


def test_extra_credit_is_named() -> None:
    read = Page(made(report(HALF), marks={"test_half": Mark(2.5, 2.0)})).text
    assert "2.5 of 2 points" in read
    assert "Extra credit is among them: 0.5." in read


def test_a_comment_stands_with_its_exercise_in_markdown() -> None:
    html = made(report(DOUBLE), marks={"test_double": Mark(1.0, 4.0, comment="**Nearly**: see $x^2$.")})
    assert "<strong>Nearly</strong>" in html
    assert "<msup>" in html
    assert html.index("Comment on your answer") < html.index("You add one too many.")


def test_a_comment_kept_under_the_answers_name_is_shown_once() -> None:
    marks = {"test_double": Mark(1.0, 4.0, comment="Nearly."), "double": Mark(None, 0.0, comment="Nearly.")}
    assert Page(made(report(DOUBLE), marks=marks)).text.count("Nearly.") == 1


def test_a_comment_on_a_cell_without_points_stands_below_that_cell() -> None:
    cells = (text("my thoughts", grade_id="thoughts", solution=True, grade=False), text("the end"))
    read = Page(made(report(DOUBLE), *cells, marks={"thoughts": Mark(None, 0.0, comment="Well put.")})).text
    assert read.index("my thoughts") < read.index("Well put.") < read.index("the end")
    assert "1 of 4 points so far" not in read


def test_a_hand_graded_answer_waits_without_a_zero() -> None:
    cells = (*CELLS, text("Because.", grade_id="explain", solution=True, grade=True, points=5))
    graded = report(DOUBLE, HALF, ExerciseReport("explain", None, 5.0, manual=True))
    read = Page(made(graded, *cells)).text
    assert "3 of 11 points so far" in read
    assert "A person reads this answer; its points come later." in read
    assert "8 of 11 points" in Page(made(graded, *cells, marks={"explain": Mark(5.0, 5.0, manual=True)})).text


def test_a_late_penalty_is_taken_off_and_said() -> None:
    read = Page(made(report(DOUBLE, HALF), late_penalty=0.5)).text
    assert "2.5 of 6 points" in read
    assert "Handed in late: 0.5 points are taken off." in read


def test_a_late_penalty_never_makes_a_total_negative() -> None:
    assert "0 of 6 points" in Page(made(report(DOUBLE, HALF), late_penalty=50.0)).text


# --- what else may come ---


def test_repairs_and_notes_are_listed() -> None:
    given = {"repairs": "put back the cell setup", "notes": "cell 7 stopped", "doubts": "a person should read it"}
    graded = report(DOUBLE, **{name: (Message(said),) for name, said in given.items()})
    read = Page(made(graded)).text
    assert "Repaired: put back the cell setup" in read
    assert "cell 7 stopped" in read
    assert "a person should read it" not in read  # that is for an instructor, and no reproach


def test_a_note_leads_to_the_cell_that_it_names() -> None:
    note = Message("cell {place} stopped with {what}", {"place": 7, "what": "Error: \ue0f67\ue0f7<b>"})
    html = made(report(DOUBLE, notes=(note,)), at(7, code("x")))
    assert '<li>cell <a href="#cell-7">7</a> stopped with Error: &lt;b&gt;</li>' in html
    assert 'href="#cell-7"' not in made(report(DOUBLE, notes=(note,)), at(8, code("x")))


def test_a_number_that_two_cells_claim_is_an_id_once() -> None:
    page = Page(made(report(DOUBLE), at(7, code("x")), at(7, text("y"))))
    assert [attributes.get("id") for _, attributes in page.elements].count("cell-7") == 1


def test_an_unusable_notebook_says_why_and_shows_no_path_and_no_strangers_notebook() -> None:
    why = Message("{why}", {"why": "/srv/my course/submitted/ben/attention.ipynb ends in the middle, in line 3."})
    html = made(report(status="unusable", error=why, score=None), marks={"test_double": Mark(None, 4.0)})
    read = Page(html).text
    assert "This notebook could not be graded." in read
    assert " attention.ipynb ends in the middle, in line 3." in read
    assert "srv" not in html
    assert "Your notebook" not in read
    assert "not graded yet, out of 4" in read


def test_a_fault_of_the_grader_is_not_told_in_its_own_words() -> None:
    fault = Message("the grader failed: {fault}", {"fault": "KeyError in /srv/autograder/exam.py"})
    html = made(report(DOUBLE, OPEN, error=fault))
    assert "srv" not in html
    assert "KeyError" not in html
    assert "The grader could not decide this; that is no fault of yours, and a person will." in Page(html).text


def test_a_notebook_without_exercises_says_so() -> None:
    assert "There is nothing to grade in this notebook." in Page(made(report(), text("only words"))).text


def test_many_exercises_have_a_table_of_contents() -> None:
    page = Page(made(report(*(exercise(f"e{n}", check("one", "failed")) for n in range(40)))))
    assert page.tags() >= {"table", "th"}
    assert {f"#exercise-{n}" for n in range(1, 41)} <= {a.get("href") for _, a in page.elements}
    assert "table" not in Page(made(report(DOUBLE, HALF))).tags()


def test_the_seed_of_the_tests_is_not_told() -> None:
    assert str(SEED) not in made(report(DOUBLE, HALF))


def test_the_file_that_was_graded_can_be_known_again() -> None:
    read = Page(made(report(DOUBLE))).text
    assert f"This page is about attention.ipynb as you handed it in (version {SUBMISSION[:12]})." in read


def test_a_notebook_that_was_graded_without_us_has_a_page_too() -> None:
    read = Page(made(None, answer("double"), graded_cell("double", 4), marks={"test_double": Mark(3.0, 4.0)})).text
    assert "3 of 4 points" in read
    assert "Your answer to exercise 1" in read


def test_a_score_in_a_cell_counts_for_nothing() -> None:
    forged = code("1", grade_id="test_double", grade=True, solution=False, points=4, score=4.0)
    assert "not graded yet, out of 4" in Page(made(None, forged)).text


def test_the_page_is_in_the_language_that_is_asked_for() -> None:
    class German(gettext.NullTranslations):
        def info(self) -> dict[str, str]:
            return {"language": "de_AT"}

        def gettext(self, message: str) -> str:
            return {"Feedback": "Rückmeldung", "{score} of {most} points": "{score} von {most} Punkten"}.get(
                message, message
            )

    page = Page(made(report(DOUBLE), translations=German()))
    assert ("html", {"lang": "de-AT"}) in page.elements
    assert "Rückmeldung" in page.text
    assert "1 von 4 Punkten" in page.text
