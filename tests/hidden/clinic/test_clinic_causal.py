"""Proves that a sick function is repaired: the suite of `masked_attention` judges, all or nothing."""

from __future__ import annotations

from autograder.suite import N_, Draws, Student, check, judged_by

ORIGINAL = judged_by(__file__, "masking", "masked_attention")


@check(
    points=2,
    title=N_("It does all that masked_attention promises"),
    hint=N_(
        "Show yourself the symptom again, on one sentence: write down what each mask forbids alone, and what both "
        "forbid together."
    ),
)
def test_repaired(student: Student, rng: Draws) -> None:
    ORIGINAL.expect_all(student, rng)
