"""Proves that a sick function is repaired: the suite of `split_heads` judges, all or nothing."""

from __future__ import annotations

from autograder.suite import N_, Draws, Student, check, judged_by

ORIGINAL = judged_by(__file__, "multihead", "split_heads")


@check(
    points=2,
    title=N_("It does all that split_heads promises"),
    hint=N_(
        "Show yourself the symptom again, with numbers that tell where they come from, and read one row of one head."
    ),
)
def test_repaired(student: Student, rng: Draws) -> None:
    ORIGINAL.expect_all(student, rng)
