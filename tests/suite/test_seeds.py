"""The run over many seeds finds what does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.suite import seeds
from tests.suite.exam import Suite

SUITE = Suite.load("masking", "causal_mask")
RIGHT, WRONG = SUITE.correct[0], next(known for known in SUITE.mistakes if known.id == "floats")


def found(monkeypatch: pytest.MonkeyPatch, suite: Suite, telling: bool = False) -> list[str]:
    monkeypatch.setattr(seeds, "load", lambda assignment, exercise: suite)
    _, problems, seconds = seeds.problems(("masking", "causal_mask", 7, telling))
    assert seconds > 0
    return problems


def test_nothing_is_said_of_a_suite_that_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, replace(SUITE, correct=[RIGHT], mistakes=[WRONG]), telling=True) == []


def test_a_correct_answer_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = replace(SUITE, correct=[replace(RIGHT, id="floats", answer=WRONG.answer)], mistakes=[])
    [problem] = found(monkeypatch, suite)
    assert problem.startswith("causal_mask, seed 7: the correct answer floats fails dtype: the dtype of your mask")


def test_a_mistake_that_slips_through_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = replace(SUITE, correct=[RIGHT], mistakes=[replace(WRONG, caught_by="shape")])
    assert found(monkeypatch, suite) == ["causal_mask, seed 7: floats slips through shape, which was passed"]


def test_mistakes_that_do_the_same_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = replace(SUITE, correct=[RIGHT], mistakes=[WRONG, replace(WRONG, id="decimals")])
    assert found(monkeypatch, suite) == []
    assert found(monkeypatch, suite, telling=True) == [
        "causal_mask, seed 7: floats can't be told from floats, decimals",
        "causal_mask, seed 7: decimals can't be told from floats, decimals",
    ]


def test_the_command_ends_with_whether_all_of_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert seeds.main(["causal_mask", "--seeds", "2", "--processes", "1", "--tell-apart", "0"]) == 0
    assert capsys.readouterr().out.startswith("causal_mask: 2 seeds from 1, ")
    with pytest.raises(SystemExit):
        seeds.main(["no_such_exercise"])
