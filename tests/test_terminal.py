"""What people see: complete, calm, and safe to print."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from autograder._class_outcome import _settled
from autograder.class_result import Result
from autograder.messages import message
from autograder.report import CheckReport, ExerciseReport, GradeReport, Outcome
from autograder.terminal import ClassRow, points, show_class, show_report, show_totals


def check(outcome: Outcome, title: str = "A check", **more: Any) -> CheckReport:
    return CheckReport(title.lower(), message(title), outcome, 1.0 if outcome == "passed" else 0.0, 1.0, **more)


def exercise(*checks: CheckReport, **more: Any) -> ExerciseReport:
    score = sum(check.score for check in checks)
    return ExerciseReport(**{"id": "double", "score": score, "max_score": float(len(checks)), "checks": checks} | more)


def report(*exercises: ExerciseReport, **more: Any) -> GradeReport:
    fields: dict[str, Any] = {
        "notebook": "n.ipynb",
        "assignment": "attention",
        "status": "graded",
        "score": sum(one.score or 0.0 for one in exercises),
        "max_score": sum(one.max_score for one in exercises if not one.manual),
        "seed": 17,
        "suite_hash": "ab",
        "confinement": "landlock+seccomp",
        "exercises": exercises,
    }
    return GradeReport(**fields | more)


def console(width: int = 80, encoding: str = "utf-8", **more: Any) -> Console:
    return Console(file=io.TextIOWrapper(io.BytesIO(), encoding=encoding), width=width, **more)


def printed(on: Console) -> str:
    assert isinstance(on.file, io.TextIOWrapper)
    on.file.flush()
    assert isinstance(on.file.buffer, io.BytesIO)
    return on.file.buffer.getvalue().decode(on.encoding)


def page(one: GradeReport, **how: Any) -> str:
    on = console(**how)
    show_report(one, on)
    return printed(on)


def test_a_report_leads_with_the_score() -> None:
    lines = page(report(exercise(check("passed"), check("failed")))).splitlines()
    assert lines[0] == "n.ipynb · attention"
    assert lines[1] == "━" * 15 + "─" * 15 + "  1 of 2 points"


def test_a_check_that_did_not_pass_says_what_was_seen_and_what_to_try() -> None:
    failed = check("failed", "The rows sum to 1", message=message("row 0 sums to 0.53"), hint=message("Add them up."))
    text = page(report(exercise(failed)))
    assert "✗ The rows sum to 1" in text
    assert "      row 0 sums to 0.53\n      hint: Add them up.\n" in text


def test_a_check_that_passed_keeps_its_hint() -> None:
    assert "hint" not in page(report(exercise(check("passed", hint=message("Add them up.")))))


@pytest.mark.parametrize(
    ("outcome", "mark", "words"),
    [
        ("passed", "✓", ""),
        ("failed", "✗", "wrong result"),
        ("error", "!", "an error in the code"),
        ("timeout", "!", "took too long"),
        ("crashed", "!", "the code ended the process"),
        ("out_of_memory", "!", "out of memory"),
        ("forbidden", "!", "calls a ready-made function"),
        ("ungraded", "?", "could not be graded"),
        ("not_attempted", "·", "not attempted yet"),
        ("skipped", "–", ""),
    ],
)
def test_every_outcome_has_its_mark_and_says_what_it_is(outcome: Outcome, mark: str, words: str) -> None:
    text = page(report(exercise(check("failed", "Another"), check(outcome, "A title"))))
    assert f"  {mark} A title" in text
    assert words in text


def test_the_known_mistake_is_named_once_above_the_checks() -> None:
    checks = [check("failed", "One", mistake="no-scale"), check("failed", "Two", mistake="no-scale")]
    text = page(report(exercise(*checks, mistake="no-scale", diagnosis=message("The scale is missing."))))
    assert text.count("The scale is missing.") == 1
    assert text.index("The scale is missing.") < text.index("One")


def test_checks_that_wait_for_others_are_folded_into_one_line() -> None:
    waiting = [check("skipped", f"Waiting {number}") for number in range(4)]
    text = page(report(exercise(check("failed"), *waiting)))
    assert "– 4 more checks wait until the check above passes" in text
    assert "0/4\n" in text
    assert "Waiting" not in text
    text = page(report(exercise(check("failed", "One"), check("error", "Two"), *waiting)))
    assert "– 4 more checks wait until the checks above pass" in text


def test_a_forbidden_call_is_said_of_the_exercise_and_not_of_a_check() -> None:
    calls = message("your answer calls softmax")
    forbidden = [check("forbidden", "One", message=calls), check("forbidden", "Two"), check("forbidden", "Three")]
    text = page(report(exercise(*forbidden)))
    assert (
        text.index("double")
        < text.index("  your answer calls softmax\n")
        < text.index("none of its checks counts then")
    )
    assert "0/3" in text
    assert "One" not in text
    assert "Two" not in text


def test_an_untouched_exercise_is_one_line() -> None:
    text = page(report(exercise(check("not_attempted", "One"), check("skipped", "Two"))))
    assert "· not attempted yet" in text
    assert "One" not in text
    assert "Two" not in text


def test_what_a_person_grades_is_no_zero() -> None:
    text = page(report(exercise(check("passed")), exercise(id="conclusion", score=None, max_score=6.0, manual=True)))
    assert "conclusion" in text
    assert "by hand" in text
    assert "1 of 1 points" in text


def test_all_points_are_praised_and_less_is_not() -> None:
    assert "Well done!" in page(report(exercise(check("passed"))))
    assert "Well done!" not in page(report(exercise(check("failed"))))


def test_a_bar_is_full_only_with_all_points() -> None:
    almost = page(report(exercise(check("passed")), score=999.0, max_score=1000.0)).splitlines()[1]
    assert almost.count("━") == 29


def test_an_unusable_notebook_says_why_and_nothing_else() -> None:
    one = report(status="unusable", score=None, assignment=None, error=message("n.ipynb is empty."))
    assert page(one) == "n.ipynb is empty.\n"


def test_a_fault_of_ours_is_no_zero() -> None:
    text = page(report(exercise(check("ungraded"), score=None), status="ungraded", score=None))
    assert "Not graded yet" in text
    assert "?/1" in text
    assert "points" not in text


def test_repairs_are_listed() -> None:
    assert "Repaired: cell 3 was put back" in page(report(repairs=(message("cell 3 was put back"),)))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_or_80_columns(width: int) -> None:
    long = message("weights of " + "a very long sentence in 中文和英文 " * 9 + "x" * 200)
    one = report(
        exercise(check("failed", "A long title " * 12, message=long, hint=long), diagnosis=long),
        repairs=(long,),
    )
    lines = page(one, width=width).splitlines()
    assert max(cell_len(line) for line in lines) <= min(width, 80)


EVIL = "\x1b[31mred\x1b[0m \x1b]0;title\x07 [bold]b[/bold] :smile: \x07\x9b2J\u202eevil\ud800 \rback"


def test_text_of_students_can_neither_move_the_cursor_nor_set_colours() -> None:
    wrong = check("failed", "T", message=message("{seen}", seen=EVIL))
    one = report(exercise(wrong), notebook=EVIL, repairs=(message("{seen}", seen=EVIL),))
    on = console(force_terminal=True, color_system="truecolor")
    show_report(one, on)
    show_class([ClassRow(EVIL, one, 1.0)], on)
    text = printed(on)
    assert "[bold]b[/bold] :smile:" in text
    for piece in ("\x1b[31mred", "\ufffd[31m", "\x1b]0", "\x07", "\x9b", "\u202e", "\r"):
        assert piece not in text


def test_without_a_terminal_there_is_no_colour() -> None:
    assert "\x1b" not in page(report(exercise(check("failed", hint=message("h")))))


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    one = report(exercise(check("failed")))
    assert "\x1b[31m" in page(one, force_terminal=True)
    monkeypatch.setenv(name, value)
    assert "\x1b[31m" not in page(one, force_terminal=True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk"])
def test_where_the_marks_cannot_be_shown_there_are_plain_ones(encoding: str) -> None:
    seen = check("failed", "1/√d", message=message("emoji \U0001f600"))
    on = console(encoding=encoding)
    show_report(report(exercise(seen, check("passed"))), on)
    show_class([ClassRow("王小明", report(exercise(seen)), 1.0)], on)
    text = printed(on)
    assert "  x 1/" in text
    assert "  + A check" in text
    assert "####" in text


def test_a_class_is_sorted_by_name_with_a_note_for_each() -> None:
    mistaken = report(exercise(check("failed"), mistake="no-scale"))
    slow = report(exercise(check("failed", "One"), check("timeout", "Two")))
    unusable = report(status="unusable", score=None, error=message("it is empty"))
    rows = [ClassRow("Carl", slow, 12.0), ClassRow("Ada", mistaken, 0.25), ClassRow("Bob", unusable, 0.0)]
    on = console()
    show_class(rows, on)
    lines = printed(on).splitlines()
    assert lines[0] == "[1] double, out of 2"
    assert [line.split() for line in lines[3:6]] == [
        ["Ada", "0", "0", "0.2", "s", "no-scale"],
        ["Bob", "?", "0.0", "s", "it", "is", "empty"],
        ["Carl", "0", "0", "12.0", "s", "took", "too", "long"],
    ]
    assert lines[-1] == "submissions: 3, mean: 0.0 of 2, with all points: 0, without a score: 1"
    show_class([*rows, ClassRow("Eva", mistaken, 0.25)], on)
    assert printed(on).splitlines()[-1] == "most frequent mistakes: no-scale (2)"


def test_several_assignments_are_added_up_for_each_student() -> None:
    on = console()
    show_totals({"Bob": {"masking": 3.5, "loss": None}, "Ada": {"attention": 20.0, "masking": 2.5}}, on)
    assert [line.split() for line in printed(on).splitlines()] == [
        ["student", "masking", "loss", "attention", "all"],
        ["Ada", "2.5", "–", "20", "22.5"],
        ["Bob", "3.5", "?", "–", "?"],
        ["?:", "no", "score", "yet,", "a", "human", "looks", "at", "it;", "–:", "not", "handed", "in"],
    ]


def test_totals_explain_no_sign_that_does_not_stand_there() -> None:
    on = console()
    show_totals({"Ada": {"attention": 20.0, "masking": 2.5}}, on)
    assert len(printed(on).splitlines()) == 2


def test_a_mark_by_hand_is_no_open_question() -> None:
    by_hand = msgspec.structs.replace(exercise(), id="conclusion", score=None, manual=True)
    full = report(exercise(check("passed")), by_hand)
    for settled, sign, told in (
        ({"conclusion": "by_hand"}, "*", "*: marked by hand; `autograder export` counts it in"),
        ({"conclusion": "not_attempted"}, "·", "·: for a human to mark, but left as it was released"),
        ({}, "?", ""),
    ):
        on = console()
        show_class([ClassRow("Ada", full, 0.1, settled)], on)
        [row] = [line.split() for line in printed(on).splitlines() if line.startswith("Ada")]
        assert row == ["Ada", "1", "1", sign, "0.1", "s"]
        assert told in printed(on)
        assert ("by hand" in printed(on), "released" in printed(on)) == (sign == "*", sign == "·")


def test_an_answer_for_a_human_that_is_blank_is_not_called_marked() -> None:
    one = report(exercise(id="conclusion", score=None, manual=True), exercise(check("passed")))
    for more, sign in (({"marked": ("conclusion",)}, "by_hand"), ({}, "not_attempted")):
        assert _settled(Result("ada", one, **more)) == {"conclusion": sign}
    assert _settled(Result("ada", one, waiting=("conclusion",), marked=("conclusion",))) == {}


def test_an_ungraded_submission_does_not_lower_the_mean() -> None:
    full = report(exercise(check("passed")))
    ungraded = msgspec.structs.replace(full, status="ungraded", score=None)
    on = console()
    show_class([ClassRow("Ada", full, 0.1), ClassRow("Bob", ungraded, 0.1)], on)
    assert "mean: 1.0 of 1, with all points: 1, without a score: 1" in printed(on)


def test_a_class_without_submissions_says_so() -> None:
    on = console()
    show_class([], on)
    assert printed(on) == "No submissions.\n"


def test_a_table_of_a_class_fits_into_80_columns() -> None:
    exercises = [exercise(check("failed"), id=f"clinic_{number}", mistake="a-long-name") for number in range(6)]
    on = console()
    show_class([ClassRow("a-very-long-student-id-" * 3, report(*exercises), 100.0)], on)
    assert max(cell_len(line) for line in printed(on).splitlines()) <= 80


@pytest.mark.parametrize(("score", "shown"), [(4.0, "4"), (17.5, "17.5"), (0.0, "0"), (None, "?"), (100.0, "100")])
def test_points_are_shown_as_people_write_them(score: float | None, shown: str) -> None:
    assert points(score) == shown
