"""The proof of the course holds, and would not hold if something were wrong."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from autograder import killmatrix, verify
from autograder.catalogue import Answer
from autograder.errors import GraderFault
from autograder.grading import AloneAnswer, Grader, KnownMistake
from tests.engine import ATTENTION, GOOD, GOOD_BODY, PROJECTION, SEED, attention, course

NO_SCALE = Answer("no-scale", attention(GOOD_BODY.replace(" / Q.shape[-1] ** 0.5", "")), "scale")
WRONG_PROJECTION = Answer("values-before-keys", PROJECTION.replace("x @ W_k, x @ W_v", "x @ W_v, x @ W_k"), "keys")


@pytest.fixture
def prove(grader: Grader, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def prove_with(mistake: Answer = NO_SCALE, right: str = GOOD) -> verify.Proof:
        mistakes = {"project_qkv": [WRONG_PROJECTION], ATTENTION: [mistake]}
        correct = {"project_qkv": [Answer("plain", PROJECTION)], ATTENTION: [Answer("plain", right)]}
        monkeypatch.setattr(verify, "known_mistakes", lambda hidden, exercise: mistakes[exercise.name])
        monkeypatch.setattr(verify, "correct_answers", lambda hidden, exercise: correct[exercise.name])
        [proof] = verify.prove(course(), ["attention"], grader, SEED)
        return proof

    return prove_with


def line_of(proof: verify.Proof) -> verify.Line:
    [line] = proof.exercises[1].lines
    return line


def shown(proof: verify.Proof) -> str:
    page = io.StringIO()
    killmatrix.show([proof], SEED, Console(file=page, width=80))
    return page.getvalue()


def test_mistakes_are_caught_and_named_and_right_answers_pass(prove) -> None:  # type: ignore[no-untyped-def]
    proof = prove()
    assert not proof.problems and [exercise.correct for exercise in proof.exercises] == [1, 1]
    assert [line.named for exercise in proof.exercises for line in exercise.lines] == [
        "values-before-keys", "no-scale",
    ]  # fmt: skip
    line = line_of(proof)
    assert (line.caught, line.score, line.problems) == (("scale",), 13.0, ())
    assert line.outcomes["gradients"] == "skipped"
    assert proof.exercises[1].caught_once == ["no-scale"]


def test_a_check_that_catches_nothing_breaks_it(prove) -> None:  # type: ignore[no-untyped-def]
    proof = prove()
    assert "dtypes" in proof.exercises[1].idle_checks and not proof.holds
    assert f"{ATTENTION}: the check dtypes caught no mistake" in shown(proof)


def test_a_mistake_that_passes_its_check_breaks_it(prove) -> None:  # type: ignore[no-untyped-def]
    line = line_of(prove(replace(NO_SCALE, caught_by="shapes")))
    assert line.problems == ("not caught by shapes, which was passed",)


def test_a_mistake_that_gets_another_name_or_none_breaks_it() -> None:
    caught = {"scale": "failed"}
    assert verify.Line(NO_SCALE, caught, "no-scale", 13).problems == ()
    assert verify.Line(NO_SCALE, caught, "scale-by-d", 13).problems == ("named scale-by-d",)
    assert verify.Line(NO_SCALE, caught, None, 13).problems == ("not named",)
    ungraded = caught | {"dtypes": "ungraded"}
    assert verify.Line(NO_SCALE, ungraded, "no-scale", None).problems == ("dtypes was ungraded",)
    random = replace(NO_SCALE, named=False)
    assert verify.Line(random, caught, None, 13).problems == ()
    assert verify.Line(random, caught, "scale-by-d", 13).problems == ("named scale-by-d",)


def test_a_mistake_that_the_suite_does_not_know_is_a_fault(prove) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(GraderFault, match="has no known mistake 'no-such-thing'"):
        prove(replace(NO_SCALE, id="no-such-thing"))


def test_a_known_mistake_is_reported_as_a_student_who_makes_it(grader: Grader) -> None:
    [known] = grader.examine([KnownMistake("attention", ATTENTION, "no-scale")], SEED)
    [student] = grader.examine([AloneAnswer("attention", ATTENTION, NO_SCALE.source)], SEED)
    assert known == student


def test_an_answer_finds_no_names_of_the_one_before_it(grader: Grader) -> None:
    with_helper = "def shift(x):\n    return x\n\ndef causal_mask(T):\n    return shift(torch.ones(T, T).triu(1) > 0)\n"
    without = with_helper.partition("\n\n")[2]
    sources = ["import torch\n" + with_helper, "import torch\n" + without, without, "import torch\n" + with_helper]
    reports = list(grader.examine([AloneAnswer("masking", "causal_mask", source) for source in sources], SEED))
    assert [report.score == report.max_score for report in reports] == [True, False, False, True]


def test_a_correct_answer_without_full_marks_breaks_it(prove) -> None:  # type: ignore[no-untyped-def]
    proof = prove(right=NO_SCALE.source)
    [problem] = proof.exercises[1].problems
    assert f"the correct answer 'plain' does not pass {ATTENTION}.scale" in problem
    assert proof.exercises[1].misnamed == [f"the correct answer 'plain' to {ATTENTION} was named no-scale"]


def test_the_matrix_fits_a_terminal_and_tells_what_is_wrong(prove) -> None:  # type: ignore[no-untyped-def]
    page = shown(prove(replace(NO_SCALE, caught_by="shapes")))
    assert "not caught by shapes" in page.replace("\n", " ") and "this does not hold" in page
    assert all(len(line) <= 80 for line in page.splitlines())


def line(id: str, named: str | None, **outcomes: str) -> verify.Line:
    return verify.Line(Answer(id, "", "shape"), outcomes, named, 1.5)


def a_proof(*lines: verify.Line) -> verify.Proof:
    checks = tuple(lines[0].outcomes)
    return verify.Proof("loss", [verify.ExerciseProof("tag", 4, checks, list(lines), correct=3)])


CLEAN = a_proof(
    line("wide", "wide", shape="failed", values="skipped"), line("off", "off", shape="error", values="failed")
)


def test_the_page_has_a_row_for_each_mistake_and_a_column_for_each_check() -> None:
    page = killmatrix.page([CLEAN], 7)
    assert "| mistake | 1 | 2 | left | named |" in page and "Checks: 1 shape, 2 values." in page
    assert "| wide | X | - | 1.5 | yes |" in page and "| off | X | x | 1.5 | yes |" in page
    assert "| loss | `tag` | 4 | 2 | 2 | 1 | 3 |" in page and "seed 7" in page
    assert CLEAN.holds


def test_the_naming_table_counts_what_was_named_as_what() -> None:
    proof = a_proof(
        line("wide", "wide", shape="failed"), line("off", "wide", shape="failed"), line("mute", None, shape="failed")
    )
    row = next(row for row in shown(proof).splitlines() if row.startswith("tag ") and row.split()[1:])
    assert row.split() == ["tag", "3", "1", "1", "1", "0", "3", "0"]
    assert not proof.holds
