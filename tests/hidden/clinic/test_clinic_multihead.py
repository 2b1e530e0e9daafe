"""Proves that a sick function is repaired: the suite of `multi_head_attention` judges, all or nothing."""

from __future__ import annotations

from autograder.suite import N_, Draws, Student, check, judged_by

ORIGINAL = judged_by(__file__, "multihead", "multi_head_attention")


@check(
    points=2,
    title=N_("It does all that multi_head_attention promises"),
    hint=N_("Show yourself the symptom again: which of the two results is off, where, and by how much each time?"),
)
def test_repaired(student: Student, rng: Draws) -> None:
    ORIGINAL.expect_all(student, rng)
