"""Proves that a sick function is repaired: the suite of `scaled_dot_product_attention` judges, all or nothing."""

from __future__ import annotations

from autograder.suite import N_, Draws, Student, check, judged_by

ORIGINAL = judged_by(__file__, "attention", "scaled_dot_product_attention")


@check(
    points=2,
    title=N_("It does all that scaled_dot_product_attention promises"),
    hint=N_(
        "Show yourself the symptom again, on one sentence, on a batch and on a batch of heads: which axis sums to 1 "
        "each time?"
    ),
)
def test_repaired(student: Student, rng: Draws) -> None:
    ORIGINAL.expect_all(student, rng)
