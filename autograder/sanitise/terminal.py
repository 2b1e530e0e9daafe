"""Text of a terminal with its colours, and without what else a terminal obeys."""

from __future__ import annotations

import re

from autograder.sanitise.text import REORDERING, bounded, writable

MAX_COLOURS = 2_000
"""Colour sequences in one text; nbconvert copies the rest of the text at each one."""

# nbconvert's ansi2html escapes HTML, but raises IndexError on an extended colour (38, 48) that is cut off.
_SINGLE_COLOUR = r"[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3}|(?!0*[34]8[;m])\d{0,3}"
_ESCAPES = re.compile(
    rf"(?P<colour>\x1b\[(?:(?:{_SINGLE_COLOUR});){{0,16}}(?:{_SINGLE_COLOUR})m)"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]?|\x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?|\x1b"
    rf"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f{REORDERING}]"
)
_BEGINNINGS = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f{REORDERING}]")
"""What each of them begins with: found, or not, ten times as fast."""


def console(text: str) -> str:
    """Text of which colours, line feeds and tabs are left, where a page can bear them."""
    text = bounded(writable(text))
    if _BEGINNINGS.search(text) is None:
        return text
    colours = text.count("\x1b") <= MAX_COLOURS
    return _ESCAPES.sub(lambda found: found["colour"] if colours and found["colour"] else "", text)


def overwritten(text: str) -> str:
    """Text in which each carriage return has moved the cursor to the beginning of its line, as in a terminal."""
    return "\n".join(map(_last_written, text.split("\n"))) if "\r" in text else text


def _last_written(line: str) -> str:
    """What is left of a line: what was written last, and of what was before only the part that is longer."""
    layers = [layer for layer in line.split("\r") if layer]
    if "\x1b" in line:  # colours take no room, so that lengths say nothing
        return layers[-1] if layers else ""
    left: list[str] = []
    width = 0
    for layer in reversed(layers):
        left.append(layer[width:])
        width = max(width, len(layer))
    return "".join(left)
