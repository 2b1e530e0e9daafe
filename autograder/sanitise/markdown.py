"""Markdown that is harmless in every renderer: as it was written, or as HTML in its place."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from autograder.sanitise.frozen import as_text, frozen, is_frozen
from autograder.sanitise.html import clean_html, with_macros
from autograder.sanitise.images import clean_attachments
from autograder.sanitise.maths import inert, without_macros
from autograder.sanitise.plain import Plain, TooMuch
from autograder.sanitise.rendering import Rendered, render
from autograder.sanitise.text import CONTROLS, TAG, writable

_HARMLESS_TAG = re.compile(r"</?(?:b|i|em|strong|sub|sup|br|code|kbd|u|s)\s*/?>|<(?=https?://|mailto:)")
_TAG_LIKE = re.compile(r"<(?:[/!?]|[A-Za-z][A-Za-z0-9-]*(?:[\s/>]|$))")
_SCHEME = re.compile(r"(?:java|vb|live)script:|data:(?!image/(?:png|jpeg|gif|webp|svg\+xml);base64,)")

# nbconvert makes a heading's id of its text, in percent-encoding, so that the student could choose any id that the
# page's scripts look for. No id of a page, of MathJax or of a graded cell begins with a percent sign.
_OWN_ID = re.compile(r"%|\Z")
_MARK = "\N{WORD JOINER}"
"""A character that nobody sees; an id that is made of a text that it begins is one of `_OWN_ID`."""


def clean_markdown(source: str, attachments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The source of a Markdown cell that is harmless in every renderer, and its attachments.

    A source that renders to harmless HTML is returned as it is, but for a character that nobody sees at the beginning
    of its headings. Any other is replaced by its cleaned rendering: one line of HTML, in which no renderer finds
    Markdown again. Its images are in it, and the attachments are empty then.
    """
    source = writable(source)
    if is_frozen(source):
        return source, {}
    kept = clean_attachments(attachments)
    try:
        rendered = render(source, kept, anchors=True)
        if _is_harmless(source, rendered):
            apart = _with_own_ids(source, rendered, kept)
            if apart is not None:
                return apart, kept
        replacement = frozen(clean_html(render(source, kept).html))
    except TooMuch:
        return as_text(source), {}
    return (replacement if is_frozen(replacement) else as_text(source)), {}


def _is_harmless(source: str, rendered: Rendered) -> bool:
    """Whether cleaning has nothing to take away, nor another renderer anything to find."""
    plain = Plain(rendered.html)
    clean = with_macros(plain)
    return (
        plain.whole
        and not rendered.missed
        and _tag_names(plain.html) == _tag_names(clean)
        and without_macros(clean) == clean
        and not _may_read_otherwise(source, rendered.html)
    )


def _tag_names(html: str) -> list[str]:
    """The tags; where a parser makes others of them, it was not HTML in the first place."""
    return re.findall(r"</?[a-z0-9]+", "".join(TAG.findall(html)))


def _may_read_otherwise(source: str, html: str) -> bool:
    """Whether another renderer than nbconvert's might see something in a source that nbconvert's does not."""
    if _TAG_LIKE.search(_HARMLESS_TAG.sub("", source)) or CONTROLS.search(source):
        return True
    if inert(source) != source or source.count("![") != html.count("<img "):
        return True
    squeezed = re.sub(r"[\x00-\x20\x7f\\]", "", unescape(source)).lower()
    return _SCHEME.search(squeezed) is not None


def _with_own_ids(source: str, rendered: Rendered, attachments: Mapping[str, dict[str, str]]) -> str | None:
    """The source in which no heading takes an id of the page; None where that would make another text of it."""
    if all(map(_OWN_ID.match, rendered.ids)):
        return source
    places = (0, *rendered.headings, None)
    marked = _MARK.join(rendered.source[start:end] for start, end in itertools.pairwise(places))
    again = render(marked, attachments, anchors=True)
    same = _unmarked(again.html) == _unmarked(rendered.html)
    return again.source if same and all(map(_OWN_ID.match, again.ids)) else None


def _unmarked(html: str) -> str:
    return unescape(html).replace(_MARK, "")
