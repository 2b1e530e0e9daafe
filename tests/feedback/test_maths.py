r"""TeX in rendered text."""

from __future__ import annotations

import itertools
from xml.etree.ElementTree import fromstring

import pytest

from autograder.feedback import maths
from autograder.feedback.cells import prose
from autograder.feedback.maths import MAX_TEX, mathml, with_maths
from tests.feedback.graded import Page


@pytest.mark.parametrize(
    "source",
    [
        r"$\sqrt d$",
        r"$$\sqrt d$$",
        r"\\(\sqrt d\\)",
        r"\\[\sqrt d\\]",
        r"\begin{align} a &= \sqrt d \\ b &= c \end{align}",
        r"in *a sentence* $\sqrt d$ too",
        "| a |\n|---|\n| $\\sqrt d$ |",
        r"<div>&#36;&#92;sqrt d&#36;</div>",  # as a sanitiser leaves it
    ],
)
def test_maths_in_markdown_needs_no_script(source: str) -> None:
    html = prose(source)
    assert html.count("<math") == 1
    assert "<msqrt><mi>d</mi></msqrt>" in html
    assert "$" not in html


@pytest.mark.parametrize(
    "source",
    [
        "`$x$`",
        "```\n$x$\n```",
        "    $x$",
        r"it costs \$5 and \$6",
        "it costs $5",
        "<code>$x$</code>",
        r"\\(no end",
        "$$",
    ],
)
def test_code_and_prices_are_no_maths(source: str) -> None:
    assert "<math" not in prose(source)


def test_a_dollar_that_is_escaped_stands_as_a_dollar() -> None:
    assert Page(prose(r"it costs \$5 and \$6")).text == "it costs $5 and $6"


def test_display_maths_is_a_block() -> None:
    assert 'display="block"' in mathml("x", display=True)
    assert 'display="inline"' in mathml("x")


def test_the_sides_of_an_equation_are_aligned_and_not_numbered() -> None:
    html = prose(r"\begin{align} a &= b \\ c &= d \end{align}")
    assert 'class="right"' in html
    assert 'class="left"' in html
    assert "(1)" not in html


@pytest.mark.parametrize("name", ["aligned", "split", "align", "align*", "flalign*"])
def test_equations_stand_below_one_another(name: str) -> None:
    html = mathml(rf"\begin{{{name}}} a &= b \\ &= c \end{{{name}}}", display=True)
    assert html.count("<mtr>") == 2
    assert html.count('class="right"') == 2
    assert "&amp;" not in html


@pytest.mark.parametrize("name", ["gathered", "gather", "multline*"])
def test_lines_of_a_formula_stand_below_one_another(name: str) -> None:
    assert mathml(rf"\begin{{{name}}} a \\ b \end{{{name}}}", display=True).count("<mtr>") == 2


def test_columns_may_be_counted_and_a_place_given() -> None:
    assert mathml(r"\begin{alignat}{2} a &= b \\ c &= d \end{alignat}").count("<mtd") == 4
    assert mathml(r"\begin{aligned}[t] a &= b \end{aligned}").count("<mtd") == 2
    assert mathml(r"\begin{eqnarray} a &=& b \end{eqnarray}").count("<mtd") == 3


@pytest.mark.parametrize(
    "tex", [r"\max_j z", r"\lim_{j} z", r"\arg\max_j z", r"\operatorname*{argmax}_j z", r"\min_j^k z"]
)
def test_limits_stand_below_in_display(tex: str) -> None:
    html = mathml(tex, display=True)
    assert "<munder" in html
    assert 'movablelimits="true"' in html


def test_a_subscript_of_another_function_stays_beside_it() -> None:
    assert "<msub>" in mathml(r"\operatorname{softmax}_j z", display=True)
    assert "<mi>softmax</mi>" in mathml(r"\operatorname{softmax}(z)")


def test_what_browsers_do_not_draw_of_a_letter_is_a_class() -> None:
    assert '<mi class="bold">Q</mi>' in mathml(r"\bm{Q}")
    assert '<mi class="bold">μ</mi>' in mathml(r"\boldsymbol{\mu}")
    assert '<mi class="mono upright">a</mi>' in mathml(r"\mathtt{ab}")
    assert mathml(r"\mathsf T") == mathml(r"\mathsf{T}")
    assert "arg" in mathml(r"\arg x") and "\\" not in mathml(r"\arg x")


@pytest.mark.parametrize("tex", [r"\undefinedthing{x}", r"a & b", r"a \\ b", r"x \\arg y"])
def test_what_the_converter_leaves_raw_is_shown_as_code(tex: str) -> None:
    assert mathml(tex, display=True) == f"<code>{tex.replace('&', '&amp;')}</code>"


@pytest.mark.parametrize("tex", [r"\frac", r"\left( x", "{" * 300, r"x^a^b", "x" * (MAX_TEX + 1)])
def test_what_can_not_be_read_is_shown_as_code(tex: str) -> None:
    assert mathml(tex) == f"<code>{tex}</code>"


@pytest.mark.parametrize(
    "tex",
    [
        r"\text{<script>alert(1)</script>}",
        r"\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
        r"\unicode{60}script\unicode{62}",
        r"\href{javascript:alert(1)}{x}",
        r"\style{position:fixed}{x}",
        r"\class{top}{x}",
        r"\color{red;background:url(x)}{x}",
        r"\hspace{999em} x",
        r'\text{"><img src=x onerror=alert(1)>}',
        r"\mathchoice{<b>}{<i>}{}{}",
    ],
)
def test_a_formula_brings_neither_markup_nor_links_nor_style(tex: str) -> None:
    page = Page(with_maths(f"<p>${tex.replace('&', '&amp;').replace('<', '&lt;')}$</p>"))
    assert not page.tags() & {"script", "img", "a", "b", "i", "style"}
    for _, attributes in page.elements:
        assert not attributes.keys() & {"href", "style", "onerror", "xlink:href", "id"}
        assert "top" not in attributes.values()
        assert "999em" not in attributes.values()


def test_of_an_element_that_is_not_known_the_text_alone_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = fromstring("<math><script>a</script><mi onclick='x'>b</mi><annotation-xml>c</annotation-xml></math>")
    monkeypatch.setattr(maths, "convert_to_element", lambda *_, **__: tree)
    assert mathml(r"\not \seen \before") == "<math>a<mi>b</mi>c</math>"


def test_macros_that_double_themselves_are_not_expanded() -> None:
    names = "abcdefghijklmnopqrstuvwxyz"
    bomb = "".join(rf"\newcommand{{\{a}z}}{{\{b}z\{b}z}}" for a, b in itertools.pairwise(names))
    assert "<math" not in mathml(bomb[:500] + r"\az")


def test_attributes_of_html_are_left_alone() -> None:
    html = '<p title="$x$ > $y$">text</p>'
    assert with_maths(html) == html


def test_comparisons_survive() -> None:
    assert "<mo>&lt;</mo>" in prose("$a < b$")
    assert Page(prose("$a < b$")).text == "a<b"
