"""Markdown stays as it was written where it can, and is harmless HTML where it can't."""

from __future__ import annotations

import re
from html import unescape

import nbformat
import pytest
from nbconvert.filters.markdown_mistune import markdown2html_mistune

from autograder.feedback.cells import prose
from autograder.sanitise import as_text, clean_html, clean_markdown
from autograder.sanitise.frozen import MAX_TEXT
from tests.sanitise.attacks import ATTACKS, BOMBS
from tests.sanitise.pages import IMAGE, Page, export, markdown_cell, shown

MARK = "\N{WORD JOINER}"
HARMFUL = "<b onclick=alert(1)>x</b>"

ORDINARY = """\
# Why `sqrt(d_k)`

Some *text*, a `code span` and $x^2$.

- one
- two

## Answer

```python
def attention(Q, K, V):
    # no heading
    return softmax(Q @ K.T / math.sqrt(d_k)) @ V
```

| name | value |
|:-----|------:|
| a    | $x^2$ |

Summary
-------
"""

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
    "|a|b|\n|:-|-:|\n|1|*2*|",
    "",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_cleaning_again_changes_nothing(text: str) -> None:
    source, attachments = clean_markdown(text, {})
    assert clean_markdown(source, attachments) == (source, attachments)


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: repr(text[:20]))
def test_huge_and_deep_input_is_bounded(text: str) -> None:
    source, attachments = clean_markdown(text, {})
    assert clean_markdown(source, attachments) == (source, attachments)
    assert len(source) < 8_000_000


@pytest.mark.parametrize("text", ATTACKS)
def test_what_replaces_markdown_is_html_that_no_renderer_interprets_again(text: str) -> None:
    source, _ = clean_markdown(text, {})
    if source.replace(MARK, "") != text:
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


@pytest.mark.parametrize("source", KEPT_MARKDOWN)
def test_harmless_markdown_is_kept_letter_by_letter(source: str) -> None:
    assert clean_markdown(source, {}) == (source, {})


def test_an_ordinary_answer_looks_as_its_student_saw_it() -> None:
    source = nbformat.v4.new_markdown_cell(ORDINARY)
    before, after = Page(export([source])), Page(export([markdown_cell(ORDINARY)]))
    assert after.text.replace(MARK, "") == before.text
    assert [tag for tag, _ in after.inside] == [tag for tag, _ in before.inside]
    assert {"h1", "h2", "li", "code", "table"} < {tag for tag, _ in after.inside}
    assert ("span", {"class": "k"}) in after.inside  # the colours of the code
    after.assert_harmless()


def test_headings_of_an_answer_stay_below_those_of_the_feedback_page() -> None:
    source, _ = clean_markdown(ORDINARY, {})
    assert re.findall(r"<h\d", prose(source)) == ["<h3", "<h4", "<h4"]


@pytest.mark.parametrize(
    "heading",
    [
        "# statusmessage",
        "#notebook-container",
        "## test_double ##",
        "notebook\n===",
        "text\n\n test_double\n---",
        "# 1. `statusmessage`",
        "# **statusmessage**",
        "# _statusmessage_",
        "> # é\n\n# statusmessage",
        "# [statusmessage](https://a.example)",
        "\r\n\r\n#\tstatusmessage\r\n",
        "```python\n# statusmessage\n```\n# statusmessage",
    ],
)
def test_a_heading_takes_no_id_of_the_page(heading: str) -> None:
    source, _ = clean_markdown(heading, {})
    assert source.replace(MARK, "") == heading.replace("\r\n", "\n")
    assert source.count(MARK) == 1
    ids = [attributes["id"] for _, attributes in Page(export([markdown_cell(heading)])).inside if "id" in attributes]
    assert ids
    assert all(id.startswith("%") for id in ids)


@pytest.mark.parametrize("heading", ["> # statusmessage", "- # statusmessage", "# <b></b>x", "# statusmessage\n\n# #"])
def test_a_heading_that_cannot_be_marked_is_kept_as_html_without_an_id(heading: str) -> None:
    source, _ = clean_markdown(heading, {})
    assert source.startswith("<div>")
    assert "<h1>" in source


def test_headings_whose_ids_are_their_own_are_kept_letter_by_letter() -> None:
    source = "# 答案\n\n## Überblick"
    assert clean_markdown(source, {}) == (source, {})


def test_a_table_keeps_its_alignment() -> None:
    page = shown("|a|b|\n|:-|-:|\n|1|*2*|\n")
    assert re.search(r'<td align="left">1</td>\s*<td align="right"><em>2</em></td>', page)
    replaced = shown(f"{HARMFUL}\n\n|a|b|\n|:-|-:|\n|1|*2*|\n")
    assert re.search(r'<td align="left">1</td>\s*<td align="right"><em>2</em></td>', replaced)


def test_a_heading_beside_something_harmful_is_kept_as_html() -> None:
    assert "<h1>Title</h1>" in shown(f"# Title\n\n{HARMFUL}")


def test_maths_beside_something_harmful_is_kept() -> None:
    source, _ = clean_markdown(
        f"{HARMFUL}\n\n$a_i < b$ and \\begin{{align}}x &= \\frac{{1}}{{2}} \\\\ y\\end{{align}}", {}
    )
    text = Page(export([nbformat.v4.new_markdown_cell(source)])).seen_by_mathjax
    assert "$a_i < b$" in text
    assert "\\begin{align}x &= \\frac{1}{2} \\\\ y\\end{align}" in text


def test_code_beside_something_harmful_is_kept() -> None:
    page = Page(export([markdown_cell(f"{HARMFUL}\n\n```python\nif a<b and c & d:\n    \\href$\n```\n\n`$\\def<p>$`")]))
    assert "if a<b and c & d:\n    \\href$\n" in page.text
    assert "$\\def<p>$" in page.text


def test_a_task_list_is_kept_without_its_inputs() -> None:
    assert "☑ done" in shown("- [ ] to do\n- [x] done")


def test_a_fence_in_another_language_is_kept_as_text() -> None:
    assert "<pre><code>graph &lt;b&gt;\n</code></pre>" in shown("```mermaid\ngraph <b>\n```")
    assert "<pre><code>puts 1\n</code></pre>" in shown("```ruby\nputs 1\n```")


def test_a_text_that_is_no_markdown_is_shown_letter_by_letter() -> None:
    text = "\n # <b>no</b> *markdown* $x$ &amp; `a`\n\n"
    assert Page(export([nbformat.v4.new_markdown_cell(as_text(text))])).text.strip("\n") == text.strip("\n")
    assert unescape(as_text("x" * (MAX_TEXT + 1))).endswith("x […]</pre></div>")
