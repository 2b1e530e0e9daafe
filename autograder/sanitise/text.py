"""Text that can be written, and escaped in reasonable time."""

from __future__ import annotations

import itertools
import re

MAX_ESCAPED = 50_000
"""Characters in one text that HTML escapes: nh3 needs quadratic time for them, and nbconvert 25 µs for each."""
CUT = " […]"

REORDERING = r"\u202a-\u202e\u2066-\u2069"
"""Those that make letters stand in another order than they are read (https://trojansource.codes), for a pattern."""
CONTROLS = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f{REORDERING}]")
"""Characters that no page may hold, and those."""
TAG = re.compile(r"(<[^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*>)")
"""A tag of clean HTML; `split` gives text and tags by turns, text first."""


def joined(value: object) -> str | None:
    """A text, or the lines of one, as nbformat has it; None for any other type."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    return writable(value) if isinstance(value, str) else None


def writable(text: str) -> str:
    """Text that can be written in UTF-8: a surrogate without its other half is replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def bounded(text: str) -> str:
    """A text up to the place where it holds too much that has to be escaped."""
    if sum(map(text.count, "&<>\"'")) <= MAX_ESCAPED:
        return text
    places = (found.start() for found in re.finditer("[&<>\"']", text))
    return text[: next(itertools.islice(places, MAX_ESCAPED, None))] + CUT
