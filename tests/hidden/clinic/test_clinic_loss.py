"""Proves that a sick function is repaired: the suite of `sequence_cross_entropy` judges, all or nothing."""

from __future__ import annotations

from autograder.suite import N_, Draws, Student, check, judged_by

ORIGINAL = judged_by(__file__, "loss", "sequence_cross_entropy")


@check(
    points=2,
    title=N_("It does all that sequence_cross_entropy promises"),
    hint=N_("Show yourself the symptom again, on three words whose losses you know, as one sentence and as two."),
)
def test_repaired(student: Student, rng: Draws) -> None:
    ORIGINAL.expect_all(student, rng)
