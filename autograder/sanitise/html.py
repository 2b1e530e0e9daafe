"""HTML of which a page shows the content, and does nothing."""

from __future__ import annotations

from html import escape

import nh3

from autograder.messages import N_, message
from autograder.sanitise.allowed import ATTRIBUTES, SCHEMES, TAGS, VANISH, attribute
from autograder.sanitise.maths import without_macros
from autograder.sanitise.plain import Plain, TooMuch
from autograder.sanitise.text import CONTROLS

_TOO_MUCH = N_("[HTML that is too large to be shown]")
_CLEANER = nh3.Cleaner(
    tags=TAGS,
    clean_content_tags=VANISH,
    attributes=ATTRIBUTES,
    attribute_filter=attribute,
    url_schemes=SCHEMES,
    link_rel="noopener noreferrer nofollow",
)


def clean_html(html: str) -> str:
    """HTML of which nothing can run, load, submit, frame, restyle or cover the page, or take one of its ids.

    Kept: text, headings, lists, tables, code, emphasis; links to http, https, mailto and fragments; images whose data
    is in the page; maths, without the TeX macros that reach out of it. Too much HTML is replaced by a sentence.
    """
    try:
        return cleaned(Plain(html))
    except TooMuch:
        return f"<p>{escape(message(_TOO_MUCH).render())}</p>"


def cleaned(plain: Plain) -> str:
    """The HTML that pages may show."""
    return without_macros(with_macros(plain))


def with_macros(plain: Plain) -> str:
    """The same, where no TeX can be, or what it does is looked at elsewhere."""
    html = CONTROLS.sub("", _CLEANER.clean(plain.html))
    # A parser drops the first line feed in <pre>, and the serialiser doesn't write it back.
    return html.replace("<pre>\n", "<pre>\n\n")
