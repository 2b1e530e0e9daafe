"""Cells that a student wrote, the pages that nbconvert and formgrader make of them, and what may be in there."""

from __future__ import annotations

import base64
import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import nbgrader
from nbconvert.exporters import HTMLExporter
from traitlets.config import Config

from autograder.sanitise import as_text, clean_html, clean_markdown, clean_outputs
from autograder.sanitise.allowed import MAX_SIDE

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel
GIF = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(20)).decode()
WEBP = base64.b64encode(b"RIFF\x1a\x00\x00\x00WEBPVP8 " + bytes(20)).decode()
SVG = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script><circle r="4"/></svg>'
IMAGE = f"data:image/png;base64,{PNG}"

TEMPLATES = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"

# fmt: off
HARMLESS_TAGS = {
    "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "hr", "i",
    "img", "li", "ol", "p", "pre", "s", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th",
    "thead", "tr", "u", "ul",
}
HARMLESS_VALUES = {
    "class": r"highlight|anchor-link|language-\w+|[a-z]\w{0,2}|",  # nbconvert's own
    "id": r"%[^\s\"]+",  # no id of the page begins like this
    "href": r"(?:https?://[a-z]|mailto:|#).*",
    "src": r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=]+",
    "style": r"text-align:(?:left|right|center)",
} | dict.fromkeys(("alt", "title", "rel", "tabindex", "align", "start"), r"(?s:.*)") | dict.fromkeys(
    ("width", "height"), r"[0-9]{1,4}"
)
# fmt: on
VOID = {"br", "hr", "img", "meta", "link", "input"}
MACRO = re.compile(
    r"\\(href|style|class|cssId|require|unicode|html\w*|data|toggle|mmlToken|def|let|newcommand)(?![A-Za-z])"
)


class Page(HTMLParser):
    """The tags within what is the student's, and all the others."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.inside: list[tuple[str, dict[str, str]]] = []
        self.outside: list[str] = []
        self.text = ""
        self.seen_by_mathjax = ""
        self._path: list[tuple[str, bool]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        students = bool(self._path) and self._path[-1][1]
        if students:
            self.inside.append((tag, attributes))
        else:
            self.outside.append(f"<{tag}>")
        if tag not in VOID:
            is_theirs = {"text_cell_render", "output_subarea"} & set(attributes.get("class", "").split())
            self._path.append((tag, students or bool(is_theirs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        opened, _ = self._path.pop()
        assert opened == tag
        if not self._path or not self._path[-1][1]:
            self.outside.append(f"</{tag}>")

    def handle_comment(self, data: str) -> None:
        assert not (self._path and self._path[-1][1])

    def handle_data(self, data: str) -> None:
        if self._path and self._path[-1][1]:
            self.text += data
            if not {"pre", "code"} & {tag for tag, _ in self._path}:
                self.seen_by_mathjax += data

    def assert_harmless(self) -> None:
        for tag, attributes in self.inside:
            assert tag in HARMLESS_TAGS
            for name, value in attributes.items():
                assert name in HARMLESS_VALUES
                assert re.fullmatch(HARMLESS_VALUES[name], value)
                if name in ("width", "height"):
                    assert int(value) <= MAX_SIDE
        if re.search(r"\$|\\[(\[]|\\begin", self.seen_by_mathjax):
            assert not MACRO.search(self.seen_by_mathjax)


@functools.cache
def exporter(template: str) -> HTMLExporter:
    config = Config()
    config.HTMLExporter.template_name = template
    config.HTMLExporter.extra_template_basedirs = [str(TEMPLATES)]  # as in nbgrader's formgrader.py
    config.HTMLExporter.optimistic_validation = True  # else the notebook is validated for each preprocessor
    return HTMLExporter(config=config)


def export(cells: Sequence[Any], template: str = "formgrade") -> str:
    notebook = nbformat.v4.new_notebook(cells=list(cells))
    nbformat.validate(notebook)
    resources = {
        "assignment_id": "a", "notebook_id": "n", "submission_id": "s", "index": 0, "total": 1, "base_url": "",
        "student": "ada", "last_name": None, "first_name": None, "notebook_path": "n.ipynb",
    }  # fmt: skip
    html, _ = exporter(template).from_notebook_node(notebook, resources=resources)
    return str(html)


def export_apart(groups: Iterable[Sequence[Any]], template: str) -> list[str]:
    """What stands in one page of several groups of cells for each of them."""
    parts = [*groups, ()]
    cells = [
        cell
        for number, group in enumerate(parts)
        for cell in (nbformat.v4.new_markdown_cell(f"boundary {number}."), *group)
    ]
    html = export(cells, template)
    places = [
        html.rindex('<div class="cell ', 0, html.index(f"<p>boundary {number}.</p>")) for number in range(len(parts))
    ]
    return [html[start:end] for start, end in itertools.pairwise(places)]


def markdown_cell(source: str, attachments: Mapping[str, Any] | None = None) -> Any:
    source, kept = clean_markdown(source, attachments or {})
    return nbformat.v4.new_markdown_cell(source, attachments=kept)


def code_cell(*outputs: dict[str, Any]) -> Any:
    return nbformat.v4.new_code_cell("1", outputs=[nbformat.from_dict(output) for output in clean_outputs(outputs)])


def display(data: object, metadata: object = None, **more: object) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata, **more}


@functools.cache
def cells_with(text: str) -> tuple[Any, ...]:
    """A student's text wherever it may stand."""
    kinds = ("text/html", "text/markdown", "text/latex", "text/plain", "image/svg+xml", "image/png")
    return (
        markdown_cell(text),
        code_cell(*(display({kind: text}) for kind in kinds)),
        markdown_cell(as_text(text)),
        code_cell(
            display({text: text}),
            display({f'image/png" onload="{text}': PNG}),
            display({"image/png": PNG}, {"image/png": {"width": text, "height": text, "alt": text}, "alt": text}),
            {"output_type": "stream", "name": text, "text": text},
            {"output_type": "error", "ename": text, "evalue": text, "traceback": [text, text]},
            {"output_type": text, "data": text},
        ),
    )


def shown(source: str, attachments: Mapping[str, Any] | None = None) -> str:
    """The student's part of formgrader's page of a cleaned Markdown cell."""
    html = export([markdown_cell(source, attachments)])
    return clean_html(html.split('rendered_html">')[1].split('<div class="help">')[0])
