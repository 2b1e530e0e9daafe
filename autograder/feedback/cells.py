"""The student's notebook as it ran, as pieces of HTML: the course's own text folded, the student's work in view."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ipython_pygments_lexers import IPython3Lexer  # type: ignore[import-untyped]
from markupsafe import Markup
from nbconvert.filters.ansi import ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath, MathBlockParser, MathInlineParser
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]

from autograder.feedback.maths import LITERAL_DOLLAR, MAX_TEX, with_maths
from autograder.feedback.rows import Translations, say
from autograder.messages import N_
from autograder.sanitise import clean_html, clean_outputs
from autograder.sanitise.text import REORDERING

MAX_TEXT = 20_000
"""Characters of one cell, or of one text among its outputs; of more, the beginning and the end are shown."""
MAX_RICH = 4_000_000
"""Characters of one table or picture; a larger one is left out."""
MAX_PRINTED = 30
"""Lines of an output that are on paper; of more, the first ones."""
LINE = 100
"""Characters of a line of an output on paper."""
MAX_OUTPUTS = 40
"""Outputs of one cell."""
MAX_PAGE = 12_000_000
"""Characters of all cells together; those behind are left out."""
MAX_CODE = 8_000
"""Characters of a cell that is shown in colours."""
MAX_EFFORT = 200_000
"""Characters of all cells together that are read as Markdown or shown in colours; those behind stand as plain text."""

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_GAP = "\n[…]\n"
_NOTHING = Markup("")
_LEXER = IPython3Lexer()
_FORMATTER = HtmlFormatter(nowrap=True)
_SGR = re.compile(r"\x1b\[[\d;]*m")
_INDEXED_COLOUR = re.compile(r"(?<!\d)([34])8;5;(\d{1,3})")
_INLINE_STYLE = re.compile(r' style="[^"]*"')
_HEADING = re.compile(r"(?<=<)(/?)h([1-6])(?=>)")
_REORDERING = re.compile(f"[{REORDERING}]")
_BORDER = re.compile(r'(?<=<table) border="[0-9]*"')
_PROMPT = re.compile(r"(?<=Cell )In\[(\d{1,9})\]")


@dataclass(frozen=True)
class Block:
    """What stands in the notebook's place of one cell, or of a run of the course's cells.

    Attributes:
        kind: ``code``, ``text``, ``course`` or ``result``.
        grade_id: of a cell that nbgrader knows.
        html: the source, rendered.
        outputs: of a code cell, rendered.
        number: its place in the notebook that came in, from 1; 0 where it has none.
        ran: whether it was run.
        as_released: an answer cell that still stands as the course released it.
        course: of a run of the course's cells, the cells.
    """

    kind: str
    grade_id: str = ""
    html: Markup = _NOTHING
    outputs: tuple[Markup, ...] = ()
    number: int = 0
    ran: bool = False
    as_released: bool = False
    course: tuple[Block, ...] = ()


class Cells:
    """Renders the cells of one notebook; `MAX_PAGE` holds for all of them together."""

    def __init__(self, translations: Translations = None, reported: bool = True) -> None:
        """`reported`: the graded cells' outputs stand in a report, and need not be shown again."""
        self._translations, self._reported = translations, reported
        self._left, self._effort = MAX_PAGE, MAX_EFFORT
        self._numbered: dict[int, int] = {}

    def blocks(self, cells: Sequence[Mapping[str, Any]]) -> list[Block]:
        """The notebook's cells; runs of the course's cells are one block each."""
        blocks: list[Block] = []
        self._numbered = {_count(cell): number for cell in cells if (number := _number(cell)) and _count(cell)}
        for folded, run in itertools.groupby(cells, _is_folded):
            rendered = [block for cell in run if (block := self._block(cell)) is not None]
            if folded and rendered:
                blocks.append(Block("course", course=tuple(rendered)))
            elif not folded:
                blocks += rendered
        if self._left < 0:
            blocks.append(
                Block("text", html=self._remark(N_("The rest of the notebook is left out: it is too large.")))
            )
        return blocks

    def _block(self, cell: Mapping[str, Any]) -> Block | None:
        """One cell; None where there is nothing to show, or no room for it."""
        grade_id = str(nbgrader_of(cell).get("grade_id", ""))
        if is_test(cell):
            # Its source may hold tests that students have not got, and so may a traceback through it.
            shown = [] if self._reported else [output for output in map(_named_error, _outputs_of(cell)) if output]
            return Block("result", grade_id, outputs=tuple(self._outputs(shown)))
        source = joined(cell.get("source"))
        if not (source.strip() or cell.get("outputs")) or self._left < 0:
            return None
        html = self._source(source, cell)
        self._left -= len(html)
        number, released = _number(cell), _is_course(cell)
        if cell.get("cell_type") != "code":
            return Block("text", grade_id, html, number=number, as_released=released)
        outputs = tuple(self._outputs(_outputs_of(cell)))
        return Block("code", grade_id, html, outputs, number, _count(cell) > 0, released)

    def _source(self, source: str, cell: Mapping[str, Any]) -> Markup:
        self._effort -= min(len(source), MAX_TEXT)
        plain = self._effort < 0
        if cell.get("cell_type") == "code":
            return Markup(escape(self._bounded(source))) if plain else code(self._bounded(source))
        if plain or cell.get("cell_type") != "markdown":
            return Markup(f"<pre>{escape(self._bounded(source))}</pre>")
        return prose(source, cell.get("attachments"))

    def _outputs(self, outputs: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
        """The outputs of a cell; of too many, the first and the last, which may be the error that ended it."""
        if len(outputs) <= MAX_OUTPUTS:
            yield from self._rendered(outputs)
            return
        yield from self._rendered(outputs[: MAX_OUTPUTS - 1])
        yield self._remark(N_("{count} more outputs of this cell are left out"), count=len(outputs) - MAX_OUTPUTS)
        yield from self._rendered(outputs[-1:])

    def _rendered(self, outputs: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
        for raw in outputs:
            cut, missing = self._cut(raw)
            for output in clean_outputs([cut]):
                if self._left < 0:
                    return
                html = self._output(output)
                if missing:
                    html += self._remark(N_("{count} characters are left out where […] stands."), count=missing)
                self._left -= len(html)
                yield html

    def _output(self, output: Mapping[str, Any]) -> Markup:
        kind = output["output_type"]
        if kind == "stream":
            stderr = " stderr" if output.get("name") == "stderr" else ""
            return self._box(f"stream{stderr}", joined(output.get("text")))
        if kind == "error":
            text = "\n".join(output["traceback"]).strip("\n") or f"{output['ename']}: {output['evalue']}"
            return self._box("error", _PROMPT.sub(self._numbered_prompt, text))
        data = {mime: joined(value) for mime, value in output.get("data", {}).items()}
        if "text/html" in data:
            html = _below(clean_html(data["text/html"]))
            return self._shortened("rich", "div", with_maths(html), max(html.count("<tr"), html.count("<p>")))
        for mime in IMAGES:
            if mime in data:
                what = escape(say(N_("picture that this cell shows"), self._translations))
                return Markup(f'<img src="data:{mime};base64,{"".join(escape(data[mime]).split())}" alt="{what}">')
        if "text/latex" in data:
            return Markup(f'<div class="rich">{with_maths(escape(data["text/latex"], quote=False))}</div>')
        return self._box("result", data.get("text/plain", ""))

    def _box(self, kind: str, text: str) -> Markup:
        """Text as a terminal shows it."""
        lines = sum(1 + len(line) // LINE for line in text.rstrip("\n").split("\n"))
        return self._shortened(kind, "pre", coloured(text), lines)

    def _shortened(self, kind: str, tag: str, html: str, lines: int) -> Markup:
        """An output, which is cut on paper where it is long: there is no scrolling there."""
        if lines <= MAX_PRINTED:
            return Markup(f'<{tag} class="{kind}">{html}</{tag}>')
        said = escape(say(N_("On paper this output is cut; the page in a browser has the rest."), self._translations))
        return Markup(f'<{tag} class="{kind} long">{html}</{tag}><p class="remark paper">{said}</p>')

    def _numbered_prompt(self, prompt: re.Match[str]) -> str:
        """The number that the page gives to a cell, for the one that IPython gave to its run."""
        number = self._numbered.get(int(prompt[1]))
        return str(number) if number else prompt[0]

    def _cut(self, output: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """The output with no more in it than a page can hold, before anything reads it closely, and what is missing.

        That is the number of characters that are left out of its text.
        """
        cut = dict(output)
        missing = 0
        if "text" in cut:
            cut["text"], missing = _shorter(joined(cut["text"]))
        if isinstance(cut.get("traceback"), list):
            text, missing = _shorter("\n".join(line for line in cut["traceback"] if isinstance(line, str)))
            cut["traceback"] = [text]
        if isinstance(cut.get("data"), Mapping):
            data = {mime: joined(value) for mime, value in cut["data"].items()}
            cut["data"] = {mime: value for mime, value in data.items() if len(value) <= MAX_RICH}
            if "text/plain" in data or len(cut["data"]) < len(data):
                too_large = say(N_("[an output is left out: it is too large]"), self._translations)
                cut["data"]["text/plain"], left_out = _shorter(data.get("text/plain") or too_large)
                missing = 0 if _is_rich(cut["data"]) else left_out
        return cut, missing

    def _bounded(self, text: str) -> str:
        """A source, with a word in it about what is left out."""
        shorter, missing = _shorter(text)
        said = say(N_("{count} characters are left out here"), self._translations, count=missing)
        return shorter.replace(_GAP, f"\n[… {said} …]\n", 1) if missing else text

    def _remark(self, id: str, **args: object) -> Markup:
        return Markup(f'<p class="remark">{escape(say(id, self._translations, **args))}</p>')


def _shorter(text: str) -> tuple[str, int]:
    """The beginning and the end of a text, and how many characters are left out between them."""
    if len(text) <= MAX_TEXT:
        return text, 0
    head, tail = MAX_TEXT * 3 // 4, MAX_TEXT // 4
    return text[:head] + _GAP + text[-tail:], len(text) - head - tail


def _is_rich(data: Mapping[str, str]) -> bool:
    return any(mime in data for mime in ("text/html", "text/latex", "text/markdown", "image/svg+xml", *IMAGES))


def is_test(cell: Mapping[str, Any]) -> bool:
    """Whether a cell holds an exercise's tests, and not an answer that is graded itself."""
    nbgrader = nbgrader_of(cell)
    return nbgrader.get("grade") is True and nbgrader.get("solution") is not True


def nbgrader_of(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    """What nbgrader keeps in a cell's metadata."""
    return _mapping(_mapping(cell.get("metadata")).get("nbgrader"))


def joined(value: Any) -> str:
    """A text of a notebook, which is one string or, in a file, a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def prose(source: str, attachments: Any = None) -> Markup:
    """Markdown with maths as HTML. Headings begin at level 3: the page's own stand above them."""
    if len(source) > MAX_TEXT:
        return Markup(f"<pre>{escape(source[:MAX_TEXT])} …</pre>")
    return _rendered(source) if not attachments else Markup(_read(source, _markdown(_mapping(attachments))))


def code(source: str) -> Markup:
    """Python with its parts in spans, by pygments; characters that would put it into another order are named."""
    source = _REORDERING.sub(lambda found: f"[U+{ord(found[0]):04X}]", source)
    return _highlighted(source) if len(source) <= MAX_CODE else Markup(escape(source))


def coloured(text: str) -> Markup:
    """Terminal output as HTML; its colours are the page's sixteen, which can be read in light and dark."""
    text = _SGR.sub(lambda code: _INDEXED_COLOUR.sub(_basic_colour, code[0]), text)
    return Markup(_INLINE_STYLE.sub("", ansi2html(text)))


class _Renderer(IPythonRenderer):
    """nbconvert's, with what a page of ours needs changed."""

    def __init__(self, attachments: Mapping[str, Any]) -> None:
        super().__init__(escape=False, exclude_anchor_links=True, attachments=dict(attachments))

    def text(self, text: str) -> str:
        return str(super().text(text)).replace("$", LITERAL_DOLLAR)  # what is maths was found before

    def block_code(self, code: str, info: str | None = None) -> str:
        return f"<pre><code>{escape(code)}</code></pre>\n"


def _bounded_maths(rules: Mapping[str, str]) -> dict[str, str]:
    """Patterns of a parser that look for the end of a formula no farther than a formula may reach.

    Without an end, nbconvert's read the rest of the text once for each beginning.
    """
    return {
        name: pattern.replace(".*?", f".{{0,{MAX_TEX}}}?").replace(".+?", f".{{1,{MAX_TEX}}}?")
        if "math" in name or "latex" in name
        else pattern
        for name, pattern in rules.items()
    }


class _Blocks(MathBlockParser):
    SPECIFICATION = _bounded_maths(MathBlockParser.SPECIFICATION)


class _Inlines(MathInlineParser):
    SPECIFICATION = _bounded_maths(MathInlineParser.SPECIFICATION)


def _markdown(attachments: Mapping[str, Any]) -> MarkdownWithMath:
    return MarkdownWithMath(_Renderer(attachments), _Blocks(), _Inlines())


_PLAIN_MARKDOWN = _markdown({})


def _read(source: str, markdown: MarkdownWithMath) -> str:
    try:
        html = markdown.render(source)
    except Exception:  # noqa: BLE001 - an attachment that is missing, or brackets nested a thousand deep
        return f"<pre>{escape(source)}</pre>"
    return with_maths(_below(clean_html(html)))


def _below(html: str) -> str:
    """Clean HTML with its headings at level 3 and more: the page's own stand above them."""
    html = _HEADING.sub(lambda tag: f"{tag[1]}h{min(int(tag[2]) + 2, 6)}", html)
    return _BORDER.sub("", html)


@functools.lru_cache(maxsize=512)  # a class has the course's own cells in common
def _rendered(source: str) -> Markup:
    return Markup(_read(source, _PLAIN_MARKDOWN))


@functools.lru_cache(maxsize=512)
def _highlighted(source: str) -> Markup:
    return Markup(highlight(source, _LEXER, _FORMATTER).rstrip("\n"))


def _basic_colour(indexed: re.Match[str]) -> str:
    """A colour of the 256 (6×6×6 from 16, 24 greys from 232) as the nearest of the eight."""
    layer, number = indexed[1], int(indexed[2])
    if number < 8:
        return f"{layer}{number}"
    if number < 16:
        return f"{9 if layer == '3' else 10}{number - 8}"
    if number >= 232:
        return f"{layer}9"
    parts = [(number - 16) // step % 6 for step in (36, 6, 1)]
    red, green, blue = (2 * part > max(parts) for part in parts)
    return f"{layer}{red + 2 * green + 4 * blue}"


def _outputs_of(cell: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    outputs = cell.get("outputs")
    return [output for output in outputs if isinstance(output, Mapping)] if isinstance(outputs, list) else []


def _named_error(output: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Of an error its name and text alone; nothing of other outputs."""
    return {**output, "traceback": []} if output.get("output_type") == "error" else None


def _number(cell: Mapping[str, Any]) -> int:
    """A cell's place in the notebook that came in, from 1; 0 where it has none."""
    number = _mapping(_mapping(cell.get("metadata")).get("autograder")).get("number")
    return number if type(number) is int and number > 0 else 0


def _count(cell: Mapping[str, Any]) -> int:
    """The number that a cell ran as; 0 where it did not run."""
    count = cell.get("execution_count")
    return count if type(count) is int and count > 0 else 0


def _is_course(cell: Mapping[str, Any]) -> bool:
    return _mapping(_mapping(cell.get("metadata")).get("autograder")).get("course") is True


def _is_folded(cell: Mapping[str, Any]) -> bool:
    """Lesson text and examples; never an answer, which the page links to, nor the place of a result."""
    return _is_course(cell) and nbgrader_of(cell).get("solution") is not True and not is_test(cell)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
