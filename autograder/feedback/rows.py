"""What is said of an exercise, check by check: one row each, or one for several of which each would say the same."""

from __future__ import annotations

import gettext
import re
from dataclasses import dataclass
from html import escape
from typing import Literal

from markupsafe import Markup

from autograder.messages import N_, Message
from autograder.report import ExerciseReport, Outcome
from autograder.wording import WORDS, Line, lines, statement

Translations = gettext.NullTranslations | None
Tone = Literal["passed", "lost", "waiting", "fault"]

MAX_SENTENCE = 2_000

# Characters that reorder the text around them, that no page may hold, or that no encoding knows.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
# What a sentence asks at its end, after what was seen.
_QUESTION = re.compile(r": [^:`]*\?$")

_SIGNS: dict[Outcome, tuple[Tone, str]] = {
    "passed": ("passed", "✓"),
    "failed": ("lost", "✗"),
    "not_attempted": ("waiting", "–"),
    "skipped": ("waiting", "–"),
    "ungraded": ("fault", "!"),
}
_TROUBLE: tuple[Tone, str] = ("lost", "!")


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
    said = sentence(statement(exercise), translations)
    return [_row(line, said, translations) for line in lines(exercise.checks)]


def sentence(message: Message | None, translations: Translations = None) -> str:
    """A message as plain text for a page: nothing in it reorders the page or is endless."""
    return "" if message is None else plain(message.render(translations))


def say(id: str, translations: Translations = None, **args: object) -> str:
    """One of our own sentences, as `sentence` shows it."""
    return sentence(Message(id, args), translations)


def marked(text: str, style: str = "") -> Markup:
    """A sentence as HTML: escaped, and what stands between backticks in ``<code>`` of this style."""
    code = f'<code style="{style}">' if style else "<code>"
    return Markup(_IN_BACKTICKS.sub(rf"{code}\1</code>", escape(text)))


def plain(text: str) -> str:
    """Text of anyone's making without escape sequences and control characters, and bounded."""
    text = _UNSEEN.sub("\ufffd", _ANSI.sub("", text)).strip()
    return text if len(text) <= MAX_SENTENCE else f"{text[:MAX_SENTENCE]}…"


def _row(line: Line, above: str, translations: Translations) -> Row:
    """The row of a line; what the exercise's own statement `above` says is not said or asked again."""
    spoken = say(WORDS[line.outcome], translations)
    if line.said is not None:
        tone, sign = _SIGNS["skipped"]
        return Row(tone, sign, spoken, sentence(line.said, translations), line.score, line.max_score)
    [check] = line.checks
    tone, sign = _SIGNS.get(check.outcome, _TROUBLE)
    seen = hint = ""
    if check.outcome == "ungraded":  # why is for instructors: it tells of the suite, not of the answer
        seen = say(N_("this check could not be made; that is a fault of the grader, not yours"), translations)
    elif check.outcome != "passed":
        seen = sentence(check.message, translations) or spoken
        if above and check.mistake:
            seen = _QUESTION.sub("", seen)
        seen = "" if seen == above else seen
        hint = sentence(check.hint, translations)
        hint = "" if hint in (above, seen) else hint
    return Row(tone, sign, spoken, sentence(check.title, translations), check.score, check.max_score, seen, hint)
