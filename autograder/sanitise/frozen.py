"""HTML as the source of a Markdown cell that no renderer reads in another way."""

from __future__ import annotations

import re
from html import escape, unescape

from autograder.sanitise.html import clean_html, with_macros
from autograder.sanitise.images import DATA_URL
from autograder.sanitise.plain import Plain
from autograder.sanitise.text import CONTROLS, CUT, MAX_ESCAPED, TAG, writable

MAX_TEXT = MAX_ESCAPED
"""Characters of a text that is shown letter by letter, any of which may have to be escaped."""

_ACTIVE = re.compile(r"[!-/:-@\[-`{-~\n\r\t\xa0]")
_ATTRIBUTE_VALUE = re.compile(r'="([^"]*)"')


def frozen(html: str) -> str:
    """Clean HTML as one line that a Markdown renderer hands through: it begins a block that only a blank line ends
    (https://spec.commonmark.org/0.31.2/#html-blocks), and no punctuation is left in text or attributes."""
    pieces = TAG.split(html)
    for place, piece in enumerate(pieces):
        pieces[place] = _ATTRIBUTE_VALUE.sub(_frozen_value, piece) if place % 2 else _encoded(piece)
    return f"<div>{''.join(pieces)}</div>"


def is_frozen(source: str) -> bool:
    """Whether a source is HTML that was frozen here, so that cleaning it again would change nothing."""
    if not (source.startswith("<div>") and source.endswith("</div>")) or "\n" in source:
        return False
    return frozen(clean_html(source.removeprefix("<div>").removesuffix("</div>"))) == source


def as_text(source: str) -> str:
    """The source of a Markdown cell that shows this text letter by letter (of a raw cell, say)."""
    text = CONTROLS.sub("", writable(source))
    text = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + CUT
    return frozen(with_macros(Plain(f"<pre>\n{escape(text, quote=False)}</pre>")))


def _frozen_value(match: re.Match[str]) -> str:
    return match[0] if DATA_URL.fullmatch(match[1]) else f'="{_encoded(match[1])}"'


def _encoded(text: str) -> str:
    return _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", unescape(text))
