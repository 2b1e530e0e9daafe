"""The table of checks that stands in a graded cell."""

from __future__ import annotations

import gettext

import pytest

from autograder.feedback.table import check_table, fault_note
from autograder.messages import Message
from tests.feedback.graded import DOUBLE, OPEN, Page, check, exercise, report


class Shouting(gettext.NullTranslations):
    """A language of capitals."""

    def gettext(self, message: str) -> str:
        """Everything outside of fields in capitals."""
        return message if "{" in message else message.upper()


def test_a_lost_check_says_what_was_seen_and_then_the_hint() -> None:
    text = Page(check_table(DOUBLE)).text
    assert "1 of 4 points" in text
    assert text.index("double(2) is 5, expected 4") < text.index("hint: What is twice two?")
    assert "0/3" in text


def test_the_famous_mistake_comes_before_the_checks() -> None:
    text = Page(check_table(DOUBLE)).text
    assert text.index("You add one too many.") < text.index("title of shape")


def test_a_passed_check_has_no_sentence_below_it() -> None:
    html = check_table(exercise("double", check("shape", "passed", message="seen", hint="try")))
    assert "seen" not in html
    assert "try" not in html


@pytest.mark.parametrize(
    ("outcome", "sign", "spoken"),
    [
        ("passed", "✓", "passed"),
        ("failed", "✗", "wrong result"),
        ("skipped", "–", "waiting for another check"),
        ("timeout", "!", "took too long"),
        ("ungraded", "!", "could not be graded"),
    ],
)
def test_each_sign_is_also_said_in_words(outcome: str, sign: str, spoken: str) -> None:
    page = Page(check_table(exercise("double", check("one", outcome))))  # type: ignore[arg-type]
    assert sign in page.text
    assert {"role": "img", "aria-label": spoken}.items() <= next(
        attributes.items() for tag, attributes in page.elements if tag == "span" and "aria-label" in attributes
    )


def test_an_untouched_exercise_is_one_row() -> None:
    checks = (
        check("one", "not_attempted", 1.0, "this exercise is not written yet"),
        check("two", "not_attempted", 2.0),
    )
    text = Page(check_table(exercise("double", *checks))).text
    assert text.count("this exercise is not written yet") == 1
    assert "title of" not in text
    assert "0/3" in text


def test_a_forbidden_call_stands_above_the_checks() -> None:
    checks = (check("one", "forbidden", 1.0, "your answer calls softmax"), check("two", "forbidden", 2.0))
    text = Page(check_table(exercise("double", *checks))).text
    assert text.index("your answer calls softmax") < text.index("none of its checks counts then")
    assert "title of" not in text
    assert "0/3" in text


def test_a_forbidden_call_without_a_word_still_says_what_it_is() -> None:
    assert "calls a ready-made function" in Page(check_table(exercise("double", check("one", "forbidden")))).text


def test_what_stands_between_backticks_is_code() -> None:
    page = Page(check_table(exercise("double", check("one", "failed", 1.0, "it stopped: `a < (`"))))
    assert "code" in page.tags()
    assert "it stopped: a < (" in page.text


def test_checks_that_wait_are_one_row_below_the_others() -> None:
    checks = (check("a", "failed"), check("b", "skipped"), check("c", "skipped"), check("d", "passed"))
    text = Page(check_table(exercise("double", *checks))).text
    assert text.index("title of d") < text.index("2 more checks wait until the check above passes")


def test_everything_is_escaped() -> None:
    evil = "<script>x</script>\"'&<img src=x onerror=y>"
    said, seen, hint = (f"{kind} `{evil}`" for kind in ("said", "seen", "hint"))
    hostile = exercise("<b>", check(evil, "failed", 1.0, seen, hint), diagnosis=Message(said))
    page = Page(check_table(hostile))
    assert page.tags() <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "span", "em", "code"}
    assert page.text.count(evil) == 4
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_text_that_would_reorder_the_page_is_replaced() -> None:
    html = check_table(exercise("double", check("value", "failed", 1.0, "a\u202eb\x00c\x1b[31md\ud800e")))
    assert "a\ufffdb\ufffdcd\ufffde" in html
    html.encode()


def test_it_brings_inline_style_alone_and_sets_no_background() -> None:
    page = Page(check_table(DOUBLE) + fault_note(report(OPEN)))
    assert not page.tags() & {"style", "script", "link"}
    for _, attributes in page.elements:
        assert not {"class", "id"} & attributes.keys()
        assert "background: transparent" in (attributes.get("style") or "") or "background" not in str(attributes)


def test_sentences_are_in_the_language_that_is_asked_for() -> None:
    text = Page(check_table(DOUBLE, Shouting())).text
    assert "WHAT IS TWICE TWO?" in text
    assert "YOU ADD ONE TOO MANY." in text


def test_an_open_score_is_never_0() -> None:
    assert "not graded yet" in check_table(OPEN)
    assert "0 of" not in check_table(OPEN)


def test_why_a_check_could_not_be_made_is_for_instructors_alone() -> None:
    assert "KeyError" not in check_table(OPEN)
    assert "that is a fault of the grader, not yours" in check_table(OPEN)
    assert "KeyError in /srv/suite.py" in fault_note(report(OPEN))


def test_the_note_of_a_fault_says_what_to_do() -> None:
    note = Page(fault_note(report(OPEN, error=Message("the grader failed: <no lane>")))).text
    assert "the answer is not at fault. Grade again, or give the points by hand." in note
    assert "the grader failed: <no lane>" in note


def test_the_note_of_an_unusable_notebook_does_not_blame_the_grader() -> None:
    note = Page(fault_note(report(status="unusable", error=Message("x.ipynb is empty.")))).text
    assert "This notebook could not be graded".lower() in note.lower()
    assert "x.ipynb is empty." in note
    assert "grader failed" not in note
