"""Makes what a student wrote harmless in every page that is made of a graded notebook.

nbconvert puts Markdown and HTML outputs into its page as they are, and nbgrader's formgrader shows that page in the
Jupyter server's own origin. So whatever came from a student passes here before it is written into the notebook.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape, unescape
from typing import Any
from urllib.parse import unquote

import nh3
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from autograder.messages import N_, message

MAX_HTML = 1 << 20
"""Characters of one piece of HTML, the data of images not counted."""
MAX_TAGS = 10_000
MAX_DEPTH = 100
MAX_MARKDOWN = 20_000
"""Characters of a Markdown cell, the data of images not counted; mistune needs quadratic time for some sources."""
MAX_OPENERS = 200
MAX_ESCAPED = 50_000
"""Characters in one text that HTML escapes: nh3 needs quadratic time for them, and nbconvert 25 µs for each."""
MAX_TEXT = MAX_ESCAPED
CUT = " […]"
MAX_IMAGE = 8 << 20
"""Bytes of one image."""
MAX_SIDE = 2_000
MAX_NAME = 200
MAX_COLOURS = 2_000
"""Colour sequences in one text; nbconvert copies the rest of the text at each one."""

_TOO_MUCH = N_("[HTML that is too large to be shown]")
_NOT_SHOWN = N_("[an output of type {type} is not shown]")

# --- images ---

_MAGIC = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "image/svg+xml": re.compile(rb"(?=[^\x00]{0,4096}<svg[\s>])(?!.*<!ENTITY)", re.DOTALL | re.IGNORECASE),
}
_DATA_URL = re.compile(r"data:(image/[a-z+]+);base64,", re.IGNORECASE)
_DATA_URLS = re.compile(r"data:image/[a-z+]{1,10};base64,[A-Za-z0-9+/=]*", re.IGNORECASE)


def _image(kind: str, value: object) -> str | None:
    """The base64 text of an image of this type, encoded anew; None for anything else."""
    text = _joined(value)
    if text is None or kind not in _MAGIC or len(text) > MAX_IMAGE * 3 // 2:
        return None
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(data).decode() if len(data) <= MAX_IMAGE and _MAGIC[kind].match(data) else None


def _data_url(value: str) -> str | None:
    head = _DATA_URL.match(value)
    if not head:
        return None
    kind = head[1].lower().replace("/jpg", "/jpeg")
    data = _image(kind, value[head.end() :])
    return data and f"data:{kind};base64,{data}"


# --- HTML ---

_LINK = re.compile(r"(?:https?://[^/\\?#\s]|mailto:|#)[^\s\\\x00-\x20\x7f]{0,2000}", re.IGNORECASE)
_ALIGN = re.compile(r"\s*text-align:\s*(left|right|center)\s*;?\s*", re.IGNORECASE)


def _number(limit: int, value: str) -> str | None:
    return str(int(value)) if re.fullmatch(r"[0-9]{1,6}", value) and int(value) <= limit else None


def _attribute(tag: str, name: str, value: str) -> str | None:
    """The value that an attribute may have, or None where it has to go."""
    match name:
        case "href":
            return value if _LINK.fullmatch(value) else None
        case "src":
            return _data_url(value)
        case "width" | "height":
            return _number(MAX_SIDE, value)
        case "colspan" | "rowspan" | "start":
            return _number(1_000, value)
        case "border":
            return _number(1, value)
        case "align":
            return value.lower() if value.lower() in ("left", "right", "center") else None
        case _:
            return value if len(value) <= 1_000 else None


_CELL = {"align", "colspan", "rowspan"}
_ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "table": {"border"},
    "td": _CELL,
    "th": _CELL,
    "tr": {"align"},
}
# fmt: off
_TAGS = _ATTRIBUTES.keys() | {
    "abbr", "b", "blockquote", "br", "caption", "cite", "code", "col", "colgroup", "dd", "del", "details", "dfn",
    "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "ins", "kbd", "li",
    "mark", "p", "pre", "q", "s", "samp", "small", "strike", "strong", "sub", "summary", "sup", "tbody", "tfoot",
    "thead", "tt", "u", "ul", "var",
}
_VANISH = {
    "iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "template", "textarea", "title", "xmp",
}
# fmt: on
_VOID = {"br", "col", "hr", "img"}
_CLOSED_BY_THE_NEXT = {"p": {"p"}, "li": {"li"}, "tr": {"tr"}} | {
    name: group for group in ({"td", "th"}, {"dt", "dd"}) for name in group
}
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    clean_content_tags=_VANISH,
    attributes=_ATTRIBUTES,
    attribute_filter=_attribute,
    url_schemes={"http", "https", "mailto", "data"},
    link_rel="noopener noreferrer nofollow",
)

_TAG_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_TAG_ATTRIBUTE = re.compile(r"[\s/]*(?:(>)|([^\s/>][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]*)))?)")
_COMMENT_END = re.compile("--!?>")
_BOGUS_END = re.compile(">")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

# Classes that nbconvert itself writes: those of Pygments, and of the language of a fence.
_OWN_CLASS = re.compile(r"highlight|[a-z][a-z0-9]{0,2}|language-[A-Za-z0-9_+#.-]{1,32}")


class _TooMuch(Exception):
    """HTML that can't be cleaned in reasonable time."""


class _Plain:
    """HTML rebuilt from allowed tags alone, balanced and no deeper than MAX_DEPTH.

    The tokens are read as a browser does
    (https://html.spec.whatwg.org/multipage/parsing.html#tokenization). What is written here is not trusted: it only
    keeps the work of nh3, which cleans it, within bounds. nh3 needs minutes for some hundred kilobytes of nested
    tags or of attributes.

    Attributes:
        html: the result.
        whole: whether nothing but re-serialisation took place.
    """

    def __init__(self, html: str) -> None:
        self.whole = True
        self._parts: list[str] = []
        self._open: list[str] = []
        self._tags = 0
        html = _text(html)
        if len(_DATA_URLS.sub("", html)) > MAX_HTML or html.count("<") > 2 * MAX_ESCAPED:
            raise _TooMuch
        self._read(html)
        self._close_down_to(0)
        self.html = "".join(self._parts)
        if self.html.count("&") + self.html.count("\xa0") > MAX_ESCAPED:
            raise _TooMuch

    def _read(self, html: str) -> None:
        position = 0
        while True:
            start = html.find("<", position)
            if start < 0:
                self._write_text(html[position:])
                return
            self._write_text(html[position:start])
            if name := _TAG_NAME.match(html, start):
                position = self._tag(html, name)
            elif html.startswith(("<!", "<?", "</"), start):
                self.whole = False
                end = (_COMMENT_END if html.startswith("<!--", start) else _BOGUS_END).search(html, start + 2)
                position = end.end() if end else len(html)
            else:
                self._write_text("<")
                position = start + 1

    def _tag(self, html: str, token: re.Match[str]) -> int:
        """Read a tag and write what may stay of it; return where it ends."""
        name = token[1].lower()
        closing = html.startswith("</", token.start())
        attributes: dict[str, str] = {}
        position = token.end()
        while True:
            part = _TAG_ATTRIBUTE.match(html, position)
            if not part:  # the text ends within the tag
                self.whole = False
                return len(html)
            position = part.end()
            if part[1]:
                break
            attributes.setdefault(part[2].lower(), unescape(part[3] or part[4] or part[5] or ""))
        self._tags += name != "span"
        if self._tags > MAX_TAGS:
            raise _TooMuch
        if name in _VANISH:
            self.whole = False
            end = None if closing else re.compile(rf"(?i:</{name}(?=[\s/>]))").search(html, position)
            return position if closing else end.start() if end else len(html)
        if name == "span":  # without its attributes it says nothing
            list(self._kept(name, attributes))
        elif closing:
            self._end(name)
        else:
            self._start(name, attributes)
        return position

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name not in _TAGS or len(self._open) >= MAX_DEPTH:
            self.whole = False
            return
        if self._open and self._open[-1] in _CLOSED_BY_THE_NEXT.get(name, ()):
            self._close_down_to(len(self._open) - 1)
        kept = dict(self._kept(name, attributes))
        if name == "img" and "src" not in kept:
            self.whole = False
            self._write_text(escape(kept.get("alt", "")))
            return
        written = "".join(f' {key}="{escape(value)}"' for key, value in kept.items())
        self._parts.append(f"<{name}{written}>")
        if name not in _VOID:
            self._open.append(name)

    def _kept(self, tag: str, attributes: dict[str, str]) -> Iterator[tuple[str, str]]:
        for name, value in attributes.items():
            allowed = name in _ATTRIBUTES.get(tag, ())
            kept = _attribute(tag, name, value) if allowed else None
            if kept is not None:
                yield name, kept
            elif name == "style" and tag in ("td", "th", "tr") and (align := _ALIGN.fullmatch(value)):
                self.whole = False
                yield "align", align[1].lower()
            elif not (name == "class" and tag in ("div", "span", "code") and _OWN_CLASS.fullmatch(value)):
                self.whole = False

    def _end(self, name: str) -> None:
        if name not in self._open:
            self.whole = False
            return
        depth = len(self._open) - self._open[::-1].index(name) - 1
        self.whole = self.whole and depth == len(self._open) - 1
        self._close_down_to(depth)

    def _close_down_to(self, depth: int) -> None:
        while len(self._open) > depth:
            self._parts.append(f"</{self._open.pop()}>")

    def _write_text(self, text: str) -> None:
        self._parts.append(escape(_CONTROLS.sub("", unescape(text)).replace("\r", "\n"), quote=False))


def clean_html(html: str) -> str:
    """HTML of which nothing can run, load, submit, frame, restyle or cover the page, or take one of its ids.

    Kept: text, headings, lists, tables, code, emphasis; links to http, https, mailto and fragments; images whose data
    is in the page; maths, without the TeX macros that reach out of it. Too much HTML is replaced by a sentence.
    """
    try:
        return _cleaned(_Plain(html))
    except _TooMuch:
        return f"<p>{escape(message(_TOO_MUCH).render())}</p>"


def _cleaned(plain: _Plain) -> str:
    return _without_macros(_allowed(plain))


def _allowed(plain: _Plain) -> str:
    html = _CONTROLS.sub("", _CLEANER.clean(plain.html))
    # A parser drops the first line feed in <pre>, and the serialiser doesn't write it back.
    return html.replace("<pre>\n", "<pre>\n\n")


# --- maths ---

# Macros of MathJax 2 to 4 that link, style, name, load or store what holds for the whole page, and those that move or
# shrink boxes, so that they cover something else (https://docs.mathjax.org/en/latest/input/tex/macros/index.html).
_MACROS = re.compile(
    r"\\(?=(?:href|style|class|cssId|require|unicode|html[A-Za-z]*|data|mml[A-Za-z]*|bbox|enclose|toggle|texttip|"
    r"mathtip|setOptions|includegraphics|csname|def|[egx]def|let|futurelet|(?:re|provide)?newcommand|"
    r"(?:re|provide)command|providecommand|renewcommand|(?:re)?newenvironment|renewenvironment|Declare[A-Za-z]*|"
    r"definecolor|newcolumntype|raise|lower|raisebox|moveleft|moveright|smash|[Rr]ule|Space)(?![A-Za-z]))"
)
_UPWARDS = re.compile(r"((?:(?<=\\\\)|\A)\s*\*?\s*\[\s*)-")
_MATHS = re.compile(r"\$[^$]*\$|\\[(\[]|\\begin")
_LOOKALIKE = "\N{FULLWIDTH REVERSE SOLIDUS}"
_PIECES = re.compile(r"(<[^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*>)")


def _inert(text: str) -> str:
    """Text in which the dangerous macros of TeX are letters, if MathJax would find any TeX there."""
    return _spelt_out(text) if _MATHS.search(text) else text


def _spelt_out(text: str) -> str:
    return _UPWARDS.sub(r"\1" + "\N{MINUS SIGN}", _MACROS.sub(_LOOKALIKE, text))


def _without_macros(html: str) -> str:
    """Clean HTML in which MathJax finds no dangerous macro. It reads text outside of <pre> and <code>, across <br>."""
    if not _MATHS.search(html):
        return html
    pieces = _PIECES.split(html)
    verbatim = 0
    for place, piece in enumerate(pieces):
        if place % 2:
            verbatim += piece.startswith(("<pre>", "<code>")) - piece.startswith(("</pre>", "</code>"))
        elif not verbatim:
            pieces[place] = _spelt_out(piece)
    return "".join(pieces)


# --- Markdown ---

_ACTIVE = re.compile(r"[!-/:-@\[-`{-~\n\r\t\xa0]")
_ATTRIBUTE_VALUE = re.compile(r'="([^"]*)"')
_HARMLESS_TAG = re.compile(r"</?(?:b|i|em|strong|sub|sup|br|code|kbd|u|s)\s*/?>|<(?=https?://|mailto:)")
_TAG_LIKE = re.compile(r"<(?:[/!?]|[A-Za-z][A-Za-z0-9-]*(?:[\s/>]|$))")
_SCHEME = re.compile(r"(?:java|vb|live)script:|data:(?!image/(?:png|jpeg|gif|webp|svg\+xml);base64,)")
_OPENERS = re.compile(r"\\\\[(\[]|\\begin")
_LANGUAGES = {"python", "python3", "py", "py3", "ipython", "ipython3", "pycon", "text", "bash", "sh", "console", "json"}


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
    """nbconvert's renderer, without the fences that are not safe to render."""

    def block_code(self, code: str, info: str | None = None) -> str:
        language = (info or "").split(maxsplit=1)[:1]
        if not language or language[0] in _LANGUAGES:
            return str(super().block_code(code, info))
        # nbconvert puts the source of a mermaid figure into the page as HTML, and the time that Pygments needs for one
        # of its hundreds of other languages is anybody's guess. The attribute makes it a change.
        return f"<pre lang><code>{escape(code)}</code></pre>\n"


def clean_markdown(source: str, attachments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The source of a Markdown cell that is harmless in every renderer, and its attachments.

    A source that renders to harmless HTML is returned as it is. Any other is replaced by its cleaned rendering: one
    line of HTML, in which no renderer finds Markdown again. Its images are in it, and the attachments are empty then.
    """
    source = _text(source)
    if _is_frozen(source):
        return source, {}
    kept = _clean_attachments(attachments)
    found = _Attachments(kept)
    try:
        html = _rendered(source, found, anchors=True)
        plain = _Plain(html)
        clean = _allowed(plain)
        if (
            plain.whole
            and not found.missed
            and _is_the_same(plain.html, clean)
            and not _may_read_otherwise(source, html)
        ):
            return source, kept
        frozen = _frozen(clean_html(_rendered(source, found, anchors=False)))
    except _TooMuch:
        return as_text(source), {}
    return (frozen if _is_frozen(frozen) else as_text(source)), {}


def as_text(source: str) -> str:
    """The source of a Markdown cell that shows this text letter by letter (of a raw cell, say)."""
    text = _CONTROLS.sub("", _text(source))
    text = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + CUT
    return _frozen(_allowed(_Plain(f"<pre>\n{escape(text, quote=False)}</pre>")))


def _is_the_same(before: str, after: str) -> bool:
    """Whether a parser made no other tags of this HTML, and MathJax finds no dangerous macro in it."""
    return _tag_names(before) == _tag_names(after) and _without_macros(after) == after


def _may_read_otherwise(source: str, html: str) -> bool:
    """Whether another renderer than nbconvert's might see something in a source that nbconvert's does not."""
    if _TAG_LIKE.search(_HARMLESS_TAG.sub("", source)) or _CONTROLS.search(source):
        return True
    if _inert(source) != source or source.count("![") != html.count("<img "):
        return True
    squeezed = re.sub(r"[\x00-\x20\x7f\\]", "", unescape(source)).lower()
    return _SCHEME.search(squeezed) is not None


def _rendered(source: str, attachments: _Attachments, anchors: bool) -> str:
    """The HTML that nbconvert makes of a Markdown source (`HTMLExporter.markdown2html`).

    Raises:
        _TooMuch: nbconvert can't, or would need too long.
    """
    if len(_DATA_URLS.sub("", source)) > MAX_MARKDOWN or len(_OPENERS.findall(source)) > MAX_OPENERS:
        raise _TooMuch
    renderer = _Renderer(
        escape=False,
        attachments=attachments,
        anchor_link_text="¶",
        exclude_anchor_links=not anchors,
    )
    try:
        html: str = MarkdownWithMath(renderer=renderer).render(source)
    except Exception as error:
        raise _TooMuch from error  # whatever hostile input does to the renderer, the text can be shown
    for state, sign in (("disabled checked/>", "☑ "), ("disabled/>", "☐ ")):
        html = html.replace(f'<input class="task-list-item-checkbox" type="checkbox" {state}', sign)
    return html


def _tag_names(html: str) -> list[str]:
    return re.findall(r"</?[a-z0-9]+", "".join(_PIECES.findall(html)))


def _frozen(html: str) -> str:
    """Clean HTML as one line that a Markdown renderer hands through: it begins a block that only a blank line ends
    (https://spec.commonmark.org/0.31.2/#html-blocks), and no punctuation is left in text or attributes."""
    pieces = _PIECES.split(html)
    for place, piece in enumerate(pieces):
        if place % 2:
            pieces[place] = _ATTRIBUTE_VALUE.sub(_frozen_value, piece)
        else:
            pieces[place] = _encoded(piece)
    return f"<div>{''.join(pieces)}</div>"


def _is_frozen(source: str) -> bool:
    if not (source.startswith("<div>") and source.endswith("</div>")) or "\n" in source:
        return False
    return _frozen(clean_html(source.removeprefix("<div>").removesuffix("</div>"))) == source


def _frozen_value(match: re.Match[str]) -> str:
    return match[0] if _DATA_URLS.fullmatch(match[1]) else f'="{_encoded(match[1])}"'


def _encoded(text: str) -> str:
    return _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", unescape(text))


def _clean_attachments(attachments: object) -> dict[str, dict[str, str]]:
    kept: dict[str, dict[str, str]] = {}
    for name, bundle in attachments.items() if isinstance(attachments, Mapping) else ():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not isinstance(bundle, Mapping):
            continue
        images = {kind: data for kind in _MAGIC if (data := _image(kind, bundle.get(kind)))}
        if images and name.isprintable():
            kept[name] = images
    return kept


# --- outputs ---

_SINGLE_COLOUR = r"[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3}|(?!0*[34]8[;m])\d{0,3}"
_ESCAPES = re.compile(
    rf"(?P<colour>\x1b\[(?:(?:{_SINGLE_COLOUR});){{0,16}}(?:{_SINGLE_COLOUR})m)"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]?|\x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?|\x1b"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+/_-]{0,79}")
_SHOWN_BY_NBCONVERT = ("image/png", "image/jpeg")
_SHOWN_AS_HTML = ("image/svg+xml", "image/gif", "image/webp")


def clean_outputs(outputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """nbformat outputs built anew from the little that a page needs; any field may hold anything.

    Format: https://nbformat.readthedocs.io/en/latest/format_description.html#code-cell-outputs. What is no output is
    left out; an output of which nothing can be shown says so.
    """
    cleaned = (_clean_output(output) for output in outputs if isinstance(output, Mapping))
    return [output for output in cleaned if output is not None]


def _clean_output(output: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": _console(_joined(output.get("text")) or "")}
    if kind == "error":
        lines = output.get("traceback")
        return {
            "output_type": "error",
            "ename": _console(_joined(output.get("ename")) or ""),
            "evalue": _console(_joined(output.get("evalue")) or ""),
            "traceback": [_console(line) for line in lines if isinstance(line, str)] if isinstance(lines, list) else [],
        }
    if kind not in ("execute_result", "display_data"):
        return None
    data, metadata = _clean_bundle(output.get("data"), output.get("metadata"))
    result: dict[str, Any] = {"output_type": kind, "data": data, "metadata": metadata}
    if kind == "execute_result":
        result["execution_count"] = _whole(output.get("execution_count"), 0, 1 << 31)
    return result


def _clean_bundle(bundle: object, about: object) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """A MIME bundle that can be shown, and the sizes of its images in pixels."""
    raw = bundle if isinstance(bundle, Mapping) else {}
    data: dict[str, str] = {}
    sizes: dict[str, dict[str, int]] = {}
    for kind in _MAGIC:
        value = _svg(raw.get(kind)) if kind == "image/svg+xml" else raw.get(kind)
        if image := _image(kind, value):
            data[kind] = image
            if size := _size(about, kind):
                sizes[kind] = size
    html = _clean_output_html(raw)
    if html is None and not any(kind in data for kind in _SHOWN_BY_NBCONVERT):
        html = next((_img(kind, data[kind], sizes) for kind in _SHOWN_AS_HTML if kind in data), None)
    data.pop("image/svg+xml", None)  # nbconvert and others put its source into the page
    sizes.pop("image/svg+xml", None)
    if html is not None:
        data["text/html"] = html
    if (latex := _joined(raw.get("text/latex"))) is not None:
        latex = _bounded(_CONTROLS.sub("", latex))
        data["text/latex"] = _inert(latex)
    if (plain := _joined(raw.get("text/plain"))) is None and "application/json" in raw:
        plain = _as_json(raw["application/json"])
    if plain is not None:
        data["text/plain"] = _console(plain)
    if not data:
        name = next((key for key in raw if isinstance(key, str) and _KIND.fullmatch(key)), "?")
        data["text/plain"] = message(_NOT_SHOWN, type=name).render()
    return data, sizes


def _clean_output_html(raw: Mapping[Any, Any]) -> str | None:
    """The HTML of an output, or of its Markdown; None where nothing of it is left to see."""
    html = _joined(raw.get("text/html"))
    try:
        if html is None and (source := _joined(raw.get("text/markdown"))) is not None:
            html = _rendered(source, _Attachments(), anchors=False)
        clean = None if html is None else _cleaned(_Plain(html))
    except _TooMuch:
        return None
    return clean if clean and (re.sub(r"<[^>]*>", "", clean).strip() or "<img src" in clean) else None


def _svg(value: object) -> str | None:
    text = _joined(value)
    return None if text is None else base64.b64encode(text.encode()).decode()


def _img(kind: str, data: str, sizes: dict[str, dict[str, int]]) -> str:
    size = "".join(f' {side}="{pixels}"' for side, pixels in sizes.get(kind, {}).items())
    return f'<img src="data:{kind};base64,{data}"{size}>'


def _size(about: object, kind: str) -> dict[str, int]:
    own = about.get(kind) if isinstance(about, Mapping) else None
    if not isinstance(own, Mapping):
        return {}
    sides = {side: _whole(own.get(side), 1, MAX_SIDE) for side in ("width", "height")}
    return {side: pixels for side, pixels in sides.items() if pixels is not None}


def _whole(value: object, least: int, most: int) -> int | None:
    """This value if it is an int (and no bool) within bounds."""
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most else None


def _as_json(value: object) -> str | None:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):
        return None


def _joined(value: object) -> str | None:
    """A text, or the lines of one, as nbformat has it; None for any other type."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    return _text(value) if isinstance(value, str) else None


def _text(text: str) -> str:
    """Text that can be written in UTF-8: a surrogate without its other half is replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _console(text: str) -> str:
    """Text of a terminal with its colours, without other control sequences. nbconvert's ansi2html escapes HTML, but
    raises IndexError on a colour that is cut off."""
    text = _bounded(_text(text))
    colours = text.count("\x1b") <= MAX_COLOURS
    return _ESCAPES.sub(lambda found: found["colour"] if colours and found["colour"] else "", text)


def _bounded(text: str) -> str:
    """A text up to the place where it holds too much that has to be escaped."""
    if sum(map(text.count, "&<>\"'")) <= MAX_ESCAPED:
        return text
    places = (found.start() for found in re.finditer("[&<>\"']", text))
    return text[: next(itertools.islice(places, MAX_ESCAPED, None))] + CUT
