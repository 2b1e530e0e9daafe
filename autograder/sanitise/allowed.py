"""The tags, attributes and values that a student's HTML may have."""

from __future__ import annotations

import re

from autograder.sanitise.images import data_url

MAX_SIDE = 2_000
"""Pixels of an image's width or height."""
MAX_SPAN = 1_000
MAX_WORDS = 1_000
"""Characters of a title, or of what stands in an image's place."""

_CELL = {"align", "colspan", "rowspan"}
ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "table": {"border"},
    "td": _CELL,
    "th": _CELL,
    "tr": {"align"},
}
# fmt: off
TAGS = ATTRIBUTES.keys() | {
    "abbr", "b", "blockquote", "br", "caption", "cite", "code", "col", "colgroup", "dd", "del", "details", "dfn",
    "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "ins", "kbd", "li",
    "mark", "p", "pre", "q", "s", "samp", "small", "strike", "strong", "sub", "summary", "sup", "tbody", "tfoot",
    "thead", "tt", "u", "ul", "var",
}
VANISH = {
    "iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "template", "textarea", "title", "xmp",
}
"""Tags that go together with what is in them: a browser reads it as no HTML, and nobody meant it as text."""
# fmt: on
SCHEMES = {"http", "https", "mailto", "data"}

_LINK = re.compile(r"(?:https?://[^/\\?#\s]|mailto:|#)[^\s\\\x00-\x20\x7f]{0,2000}", re.IGNORECASE)


def attribute(tag: str, name: str, value: str) -> str | None:
    """The value that an attribute may have, or None where it has to go."""
    match name:
        case "href":
            return value if _LINK.fullmatch(value) else None
        case "src":
            return data_url(value)
        case "width" | "height":
            return _number(MAX_SIDE, value)
        case "colspan" | "rowspan" | "start":
            return _number(MAX_SPAN, value)
        case "border":
            return _number(1, value)
        case "align":
            return value.lower() if value.lower() in ("left", "right", "center") else None
        case _:
            return value if len(value) <= MAX_WORDS else None


def _number(limit: int, value: str) -> str | None:
    return str(int(value)) if re.fullmatch(r"[0-9]{1,6}", value) and int(value) <= limit else None
