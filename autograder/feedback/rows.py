"""What is said of an exercise, check by check: one row each, or one for several of which each would say the same."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from autograder.messages import N_, Message
from autograder.report import CheckReport, ExerciseReport, Outcome

Translations = gettext.NullTranslations | None
Tone = Literal["passed", "lost", "waiting", "fault"]

MAX_SENTENCE = 2_000

# Characters that reorder the text around them, that no page may hold, or that no encoding knows.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")

_SIGNS: dict[Outcome, tuple[Tone, str, str]] = {
    "passed": ("passed", "✓", N_("passed")),
    "failed": ("lost", "✗", N_("wrong result")),
    "not_attempted": ("waiting", "–", N_("not attempted yet")),
    "skipped": ("waiting", "–", N_("waiting for another check")),
    "error": ("lost", "!", N_("an error in the code")),
    "timeout": ("lost", "!", N_("took too long")),
    "out_of_memory": ("lost", "!", N_("out of memory")),
    "crashed": ("lost", "!", N_("the code ended the process")),
    "forbidden": ("lost", "!", N_("calls a ready-made function")),
    "ungraded": ("fault", "!", N_("could not be graded")),
}


@dataclass(frozen=True)
class Row:
    """One line about one check, or about several.

    Attributes:
        spoken: what the sign says, in words.
        score, most: points.
        message: what was seen, where something was lost.
        hint: what to try.
    """

    tone: Tone
    sign: str
    spoken: str
    title: str
    score: float
    most: float
    message: str = ""
    hint: str = ""


def rows(exercise: ExerciseReport, translations: Translations = None) -> list[Row]:
    """The rows of an exercise in the order of its checks; those that wait come last."""
    return list(_rows(exercise.checks, translations))


def sentence(message: Message | None, translations: Translations = None) -> str:
    """A message as plain text for a page: nothing in it reorders the page or is endless."""
    return "" if message is None else plain(message.render(translations))


def say(id: str, translations: Translations = None, **args: object) -> str:
    """One of our own sentences, as `sentence` shows it."""
    return sentence(Message(id, args), translations)


def plain(text: str) -> str:
    """Text of anyone's making without escape sequences and control characters, and bounded."""
    text = _UNSEEN.sub("\ufffd", _ANSI.sub("", text)).strip()
    return text if len(text) <= MAX_SENTENCE else f"{text[:MAX_SENTENCE]}…"


def _rows(checks: Sequence[CheckReport], translations: Translations) -> Iterator[Row]:
    outcomes = {check.outcome for check in checks}
    if "not_attempted" in outcomes and outcomes <= {"not_attempted", "skipped"}:
        said = [check.message for check in checks if check.outcome == "not_attempted" and check.message is not None]
        yield _one(
            checks,
            sentence(said[0], translations) if said else say(N_("not attempted yet"), translations),
            translations,
        )
        return
    silent = [check for check in checks if check.message is None and check.outcome == "forbidden"]
    waiting = [check for check in checks if check.outcome == "skipped"]
    silent, waiting = (several if len(several) > 1 else [] for several in (silent, waiting))
    for check in checks:
        if check not in silent and check not in waiting:
            yield _row(check, translations)
    if silent:
        yield _one(
            silent,
            say(N_("the other {count} checks count nothing then"), translations, count=len(silent)),
            translations,
        )
    if waiting:
        yield _one(
            waiting,
            say(N_("{count} more checks wait until those above pass"), translations, count=len(waiting)),
            translations,
        )


def _row(check: CheckReport, translations: Translations) -> Row:
    tone, sign, word = _SIGNS[check.outcome]
    message = hint = ""
    if check.outcome == "ungraded":  # why is for instructors: it tells of the suite, not of the answer
        message = say(N_("this check could not be made; that is a fault of the grader, not yours"), translations)
    elif check.outcome != "passed":
        message = sentence(check.message, translations) or say(word, translations)
        hint = sentence(check.hint, translations)
    title = sentence(check.title, translations)
    return Row(tone, sign, say(word, translations), title, check.score, check.max_score, message, hint)


def _one(checks: Sequence[CheckReport], said: str, translations: Translations) -> Row:
    """One row for several checks."""
    _, _, word = _SIGNS[checks[0].outcome]
    tone, sign, _ = _SIGNS["skipped"]
    score, most = sum(check.score for check in checks), sum(check.max_score for check in checks)
    return Row(tone, sign, say(word, translations), said, score, most)
