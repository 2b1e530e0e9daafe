"""Markdown as nbconvert renders it, and what its parser found on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import unquote

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath, MathBlockParser

from autograder.sanitise.images import without_data
from autograder.sanitise.plain import TooMuch

MAX_MARKDOWN = 20_000
"""Characters of a Markdown cell, the data of images not counted; mistune needs quadratic time for some sources."""
MAX_OPENERS = 200
"""Beginnings of formulas in it: for each without an end, nbconvert's parser reads the rest of the text."""

_OPENERS = re.compile(r"\\\\[(\[]|\\begin")
_LANGUAGES = {"python", "python3", "py", "py3", "ipython", "ipython3", "pycon", "text", "bash", "sh", "console", "json"}
_PILCROW = "¶"
# As nbconvert's add_anchor writes it.
_ANCHORED = re.compile(
    r'(?P<start><h[1-6]) id="(?P<id>[^"]*)">(?P<text>.*)'
    rf'<a class="anchor-link" href="#(?P=id)">&#{ord(_PILCROW)};</a>(?P<end></h[1-6]>)',
    re.DOTALL,
)


@dataclass(frozen=True)
class Rendered:
    """What nbconvert makes of a Markdown source.

    Attributes:
        html: the page's HTML, in which headings have neither the ids nor the links to themselves that they get.
        ids: those ids.
        headings: where in the source the text of a heading begins, of those that aren't within lists or quotes.
        source: the source that these places are in, with other ends of lines.
        missed: whether nbconvert would have raised for an attachment.
    """

    html: str
    ids: tuple[str, ...]
    headings: tuple[int, ...]
    source: str
    missed: bool


def render(source: str, attachments: Mapping[str, dict[str, str]] | None = None, anchors: bool = False) -> Rendered:
    """The HTML that nbconvert makes of a Markdown source (`HTMLExporter.markdown2html`).

    Args:
        source: the Markdown.
        attachments: its images by name and type.
        anchors: give ids to headings, for which nbconvert writes them in other words.

    Raises:
        TooMuch: nbconvert can't, or would need too long.
    """
    if len(without_data(source)) > MAX_MARKDOWN or len(_OPENERS.findall(source)) > MAX_OPENERS:
        raise TooMuch
    source = source.replace("\r\n", "\n").replace("\r", "\n")  # as mistune does
    found = _Attachments(attachments or {})
    renderer = _Renderer(escape=False, attachments=found, anchor_link_text=_PILCROW, exclude_anchor_links=not anchors)
    blocks = _Blocks()
    try:
        html = MarkdownWithMath(renderer, blocks).render(source)
    except Exception as error:
        raise TooMuch from error  # whatever hostile input does to the renderer, the text can be shown
    for state, sign in (("disabled checked/>", "☑ "), ("disabled/>", "☐ ")):
        html = html.replace(f'<input class="task-list-item-checkbox" type="checkbox" {state}', sign)
    return Rendered(html, tuple(renderer.ids), tuple(blocks.headings), source, found.missed)


class _Attachments(dict[str, dict[str, str]]):
    """Attachments by name, where every name is found: nbconvert raises on one that is missing, or that it has quoted.

    Attributes:
        missed: whether it would have raised.
    """

    missed = False

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, str]:
        self.missed = True
        return self.get(unquote(name), {"image/png": ""})


class _Renderer(IPythonRenderer):
    """nbconvert's renderer, without the fences that are not safe to render, and with the headings' ids put aside."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ids: list[str] = []

    def block_code(self, code: str, info: str | None = None) -> str:
        language = (info or "").split(maxsplit=1)[:1]
        if not language or language[0] in _LANGUAGES:
            return str(super().block_code(code, info))
        # nbconvert puts the source of a mermaid figure into the page as HTML, and the time that Pygments needs for one
        # of its hundreds of other languages is anybody's guess. The attribute makes it a change.
        return f"<pre lang><code>{escape(code)}</code></pre>\n"

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        html = str(super().heading(text, level, **attrs))
        anchored = _ANCHORED.fullmatch(html)
        if not anchored:
            return html
        self.ids.append(anchored["id"])
        return f"{anchored['start']}>{anchored['text']}{anchored['end']}"


class _Blocks(MathBlockParser):
    """nbconvert's parser, which remembers where headings begin."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[int] = []

    def parse_atx_heading(self, m: re.Match[str], state: Any) -> int:
        self._remember(state, m["atx_2"], m.start("atx_2"))
        return int(super().parse_atx_heading(m, state))

    def parse_setex_heading(self, m: re.Match[str], state: Any) -> int | None:
        before = state.last_token()
        if before and before["type"] == "paragraph":  # what turns out to be the heading
            self._remember(state, before["text"], m.start() - len(before["text"]))
        end: int | None = super().parse_setex_heading(m, state)
        return end

    def _remember(self, state: Any, text: str, start: int) -> None:
        if state.parent is None and text.strip():
            self.headings.append(start + len(text) - len(text.lstrip()))
