"""A student's own words in a sentence of ours: a name looks like a name, a text stays in one bounded line."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME = 60
MAX_LINE = 200
MAX_TEXT = 2_000
"""Of an exception's text, in characters: both sides cut it."""

_NAME = re.compile(r"\w+(\.\w+)*")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Control characters, changes of direction, halves of characters, line separators: what is not seen, but acts."""
_RIGHT_TO_LEFT = frozenset(("R", "AL"))


def name(value: object, unknown: str = "?") -> str:
    """A name as Python has them, dots included; its last part alone where it is long, `unknown` where it is none."""
    if not isinstance(value, str) or len(value) > 10 * MAX_NAME:
        return unknown
    value = value.rpartition("<locals>.")[2]
    if len(value) > MAX_NAME:
        value = value.rpartition(".")[2][:MAX_NAME]
    fits = _NAME.fullmatch(value) and not any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in value)
    return value if fits else unknown


def line(value: object, longest: int = MAX_LINE) -> str:
    """The first line of a text, without what would act on the text around it; empty where it is none."""
    if not isinstance(value, str):
        return ""
    lines = value[: 10 * longest].strip().splitlines()
    seen = "".join(_visible(letter) for letter in lines[0]).strip() if lines else ""
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"


def quoted(value: object, longest: int = MAX_LINE) -> str:
    """The first line of a text in quotation marks, which it can't close itself; empty where there is none."""
    said = line(value, longest).replace("“", '"').replace("”", '"')
    return f"“{said}”" if said else ""


def _visible(letter: str) -> str:
    if letter == "\t":
        return " "
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in _HIDDEN else letter
