"""The proof of the course holds, and would not hold if something were wrong."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from autograder import verify
from autograder.catalogue import Answer
from autograder.grading import Grader
from tests.engine import ATTENTION, GOOD, GOOD_BODY, PROJECTION, SEED, attention, course

NO_SCALE = Answer("no-scale", attention(GOOD_BODY.replace(" / Q.shape[-1] ** 0.5", "")), "scale")
WRONG_PROJECTION = Answer("values-before-keys", PROJECTION.replace("x @ W_k, x @ W_v", "x @ W_v, x @ W_k"), "keys")


@pytest.fixture
def prove(grader: Grader, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def prove_with(mistake: Answer = NO_SCALE, right: str = GOOD) -> verify.Proof:
        mistakes = {"project_qkv": [WRONG_PROJECTION], ATTENTION: [mistake]}
        correct = {"project_qkv": [Answer("plain", PROJECTION)], ATTENTION: [Answer("plain", right)]}
        monkeypatch.setattr(verify, "known_mistakes", lambda hidden, exercise: mistakes[exercise])
        monkeypatch.setattr(verify, "correct_answers", lambda hidden, exercise: correct[exercise])
        return verify.prove(course(), "attention", grader, SEED)

    return prove_with


def test_it_holds_where_mistakes_are_caught_and_named_and_right_answers_pass(prove) -> None:  # type: ignore[no-untyped-def]
    proof = prove()
    assert proof.holds and proof.correct == 2
    assert [(line.mistake.id, line.named) for line in proof.lines] == [
        ("values-before-keys", "values-before-keys"), ("no-scale", "no-scale"),
    ]  # fmt: skip
    assert f"{ATTENTION}.dtypes" in proof.idle_checks


def test_a_mistake_that_passes_its_check_breaks_it(prove) -> None:  # type: ignore[no-untyped-def]
    [_, line] = prove(replace(NO_SCALE, caught_by="shapes")).lines
    assert line.problems == ("not caught by shapes, which was passed",)


def test_a_mistake_that_gets_another_name_breaks_it(prove) -> None:  # type: ignore[no-untyped-def]
    [_, line] = prove(replace(NO_SCALE, id="scale-by-d")).lines
    assert line.problems == ("named no-scale",)


def test_a_correct_answer_without_full_marks_breaks_it(prove) -> None:  # type: ignore[no-untyped-def]
    proof = prove(right=NO_SCALE.source)
    assert not proof.holds
    assert f"the correct answer 'plain' to {ATTENTION} does not pass {ATTENTION}.scale" in proof.problems[0]


def test_the_table_fits_a_terminal_and_tells_what_is_wrong(prove) -> None:  # type: ignore[no-untyped-def]
    page = io.StringIO()
    verify.show(prove(replace(NO_SCALE, caught_by="shapes")), SEED, Console(file=page, width=80))
    assert "not caught by shapes" in page.getvalue().replace("\n", " ") and "this does not hold" in page.getvalue()
    assert all(len(line) <= 80 for line in page.getvalue().splitlines())
