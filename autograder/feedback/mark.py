"""What the gradebook says of one graded cell, as the page needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """What the gradebook says of one graded cell now.

    Attributes:
        score: points, extra credit included; None while nobody has decided.
        max_score: what can be earned.
        manual: whether a human gave the score.
        comment: what a human wrote about the answer, in Markdown.
        needs_human: whether a human still has to look at it, or to look again.
    """

    score: float | None
    max_score: float
    manual: bool = False
    comment: str | None = None
    needs_human: bool = False
