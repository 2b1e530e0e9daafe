"""The student's notebook as it ran."""

from __future__ import annotations

import base64

import pytest

from autograder.feedback import cells
from autograder.feedback.cells import Cells, coloured
from tests.feedback.graded import (
    CELLS,
    DOUBLE,
    HALF,
    Page,
    answer,
    at,
    code,
    graded_cell,
    made,
    raised,
    report,
    shown,
    stream,
    text,
)

PNG = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
).decode()


def page_of(*given: dict) -> Page:  # type: ignore[type-arg]
    """The page of a notebook with these cells."""
    return Page(made(report(DOUBLE), *given))


def test_runs_of_the_courses_cells_are_folded() -> None:
    html = made(report(DOUBLE, HALF))
    assert html.count('<details class="course">') == 2
    assert "the course&#39;s own cells (2), as released" in html
    assert "a cell of the course&#39;s own, as released" in html


def test_the_courses_figures_are_said_not_to_be_drawn_again_once_and_where_there_are_any() -> None:
    figure = at(2, code("plot()", course=True), count=0)
    said = "The figures of the course itself are not drawn again here."
    assert page_of(answer("double"), figure, answer("half"), figure).text.count(said) == 1
    assert said not in page_of(at(2, code("import torch", course=True))).text
    assert said not in page_of(at(2, code("plot()"), count=0)).text


def test_what_the_student_wrote_is_never_folded() -> None:
    blocks = Cells().blocks([text("lesson", course=True), text("my own thoughts"), code("mine = 1")])
    assert [block.kind for block in blocks] == ["course", "text", "code"]


def test_an_answer_that_is_still_the_stub_is_in_view_and_says_so() -> None:
    html = made(report(DOUBLE), answer("double", course=True))
    assert "<details" not in html
    assert "Your answer to exercise 1 · as it was released" in Page(html).text


def test_the_code_of_graded_cells_is_not_shown() -> None:
    page = Page(made(report(DOUBLE, HALF)))
    assert "SECRET" not in page.text
    assert ("a", {"href": "#exercise-1"}) in page.elements


def test_without_a_report_a_failed_test_says_its_error_and_nothing_of_its_code() -> None:
    failed = raised("AssertionError", "double(2) is 5", "----> 1 assert double(2) == SECRET", "AssertionError")
    page = Page(made(None, answer("double"), graded_cell("double", 4, failed, stream("SECRET"))))
    assert "AssertionError: double(2) is 5" in page.text
    assert "SECRET" not in page.text


def test_code_is_in_colours_and_escaped() -> None:
    page = page_of(code('if a < b: print("<script>")'))
    assert ("span", {"class": "k"}) in page.elements
    assert 'if a < b: print("<script>")' in page.text
    assert "script" not in page.tags()


def test_characters_that_put_code_into_another_order_are_named() -> None:
    html = made(report(DOUBLE), answer("double", "return x  # \u202ex 2\u2066"))
    assert "# [U+202E]x 2[U+2066]" in Page(html).text


def test_outputs_of_all_kinds_are_shown() -> None:
    page = page_of(
        code(
            "run()",
            stream("printed"),
            stream("warned", "stderr"),
            shown(text__html="<table><tr><td>7</td></tr></table>", text__plain="the same as text"),
            shown(image__png=PNG, text__plain="<Figure>"),
            shown(text__latex="$\\sqrt d$"),
            shown(text__plain="tensor(1.)"),
            raised("ValueError", "no", "\x1b[31mValueError\x1b[39m: no"),
        )
    )
    for seen in ("printed", "warned", "7", "tensor(1.)", "ValueError: no"):
        assert seen in page.text
    assert "the same as text" not in page.text
    assert {"table", "img", "msqrt"} <= page.tags()
    assert next(a["alt"] for tag, a in page.elements if tag == "img")
    assert ("span", {"class": "ansi-red-fg"}) in page.elements


def test_outputs_are_cleaned_on_the_way_out_too() -> None:
    page = page_of(
        code(
            "run()",
            shown(
                text__html='<script>x</script><p onclick="x" style="color: red" id="top">seen</p><img src="http://x/y">'
            ),
            shown(image__png='"><script>x</script>'),
            shown(application__javascript="alert(1)"),
            stream("<script>x</script>"),
        ),
        text('<iframe src="http://x"></iframe><p onclick="x">words</p>\n\n![](http://x/y.png)'),
    )
    assert "[an output of type application/javascript is not shown]" in page.text
    assert not page.tags() & {"script", "iframe", "form", "object"}
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert tag == "a" or not str(attributes.get("src", attributes.get("href", ""))).startswith("http")
    assert [a for _, a in page.elements if a.get("id") == "top"] == [{"id": "top"}]


def test_colours_are_classes_and_never_fixed() -> None:
    html = coloured("\x1b[38;5;196mred\x1b[0m \x1b[38;5;28;01mgreen\x1b[0m \x1b[48;2;1;2;3mback")
    assert "style" not in html
    assert '<span class="ansi-red-fg">red</span>' in html
    assert '<span class="ansi-green-intense-fg ansi-bold">green</span>' in html


def test_a_huge_output_is_cut_in_the_middle() -> None:
    page = page_of(code("run()", stream("begin" + "x" * 3_000_000 + "end")))
    assert "begin" in page.text
    assert "xend" in page.text
    assert "2980008 characters are left out where […] stands." in page.text
    assert len(page.text) < 30_000


def test_what_is_left_out_of_an_output_is_said_outside_of_its_box() -> None:
    html = made(report(DOUBLE), code("run()", stream("x" * 30_000)))
    assert html.index("</pre><p", html.index('<pre class="stream')) < html.index("10000 characters are left out")


def test_a_long_output_says_that_paper_has_only_its_beginning() -> None:
    cut = "On paper this output is cut"
    assert cut in page_of(code("run()", stream("line\n" * 31))).text
    assert cut in page_of(code("run()", stream("x" * 4_000))).text
    assert cut in page_of(code("run()", shown(text__html="<table>" + "<tr><td>1</td></tr>" * 31 + "</table>"))).text
    assert cut not in page_of(code("run()", stream("line\n" * 30))).text


def test_a_progress_bar_is_shown_as_it_ended() -> None:
    assert "100%|####" in page_of(code("run()", stream("\r  0%|\r 50%|##\r100%|####", "stderr"))).text
    assert "50%" not in page_of(code("run()", stream("\r 50%|##\r100%|####"))).text


def test_cells_have_the_numbers_that_notes_and_errors_tell() -> None:
    error = raised("NameError", "no", "Cell In[9], line 1", "----> 1 x = In[9]", "NameError: no")
    page = page_of(at(25, code("x = 1"), count=8), at(26, code("x = In[9]", error), count=9), at(27, text("words")))
    assert "cell 26" in page.text
    assert "Cell 26, line 1" in page.text
    assert "----> 1 x = In[9]" in page.text
    assert [a["id"] for _, a in page.elements if str(a.get("id")).startswith("cell-")] == [
        "cell-25",
        "cell-26",
        "cell-27",
    ]


def test_a_cell_that_was_added_has_no_number() -> None:
    assert "cell " not in page_of(code("import torch")).text
    assert [block.number for block in Cells().blocks([at(True, code("1")), at(-3, code("1")), code("1")])] == [0, 0, 0]  # type: ignore[arg-type]


def test_a_thousand_outputs_are_not_all_shown() -> None:
    page = page_of(code("run()", *[stream(f"line {n}", "stderr" if n % 2 else "stdout") for n in range(1_000)]))
    assert "line 38" in page.text
    assert "line 39" not in page.text
    assert "line 999" in page.text
    assert "960 more outputs of this cell are left out" in page.text


def test_a_page_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MAX_PAGE", 1_000)
    page = page_of(*[code(f"step_{n}()", stream("x" * 300)) for n in range(50)])
    assert "step_0" in page.text
    assert "step_49" not in page.text
    assert "The rest of the notebook is left out: it is too large." in page.text


def test_a_picture_that_is_too_large_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MAX_RICH", 10)
    page = page_of(code("run()", shown(image__png=PNG)))
    assert "img" not in page.tags()
    assert "[an output is left out: it is too large]" in page.text


def test_a_very_long_cell_stands_without_colours() -> None:
    page = page_of(code("x = 1\n" * 2_000))
    assert ("span", {"class": "mi"}) not in page.elements
    assert "x = 1" in page.text


def test_one_very_long_cell_takes_no_colours_from_the_others() -> None:
    assert ("span", {"class": "k"}) in page_of(code("x = 1\n" * 100_000), code("return 1")).elements


@pytest.mark.parametrize("source", [r"\\(" * 6_000, r"\begin{align}" * 1_500, "[" * 19_000, "$ " * 8_999])
def test_markdown_that_nbconvert_reads_for_minutes_is_read(source: str) -> None:
    assert page_of(text(source)).text.count(source[0]) >= len(source) // 15


def test_an_attachment_is_part_of_the_page() -> None:
    cell = text("![figure](attachment:a.png)") | {"attachments": {"a.png": {"image/png": PNG}}}
    sources = [a["src"] for tag, a in page_of(cell).elements if tag == "img"]
    assert sources == [f"data:image/png;base64,{PNG}"]


def test_an_attachment_that_is_missing_stops_nothing() -> None:
    assert "Exercises" in page_of(text("![figure](attachment:a.png)")).text


def test_headings_of_the_notebook_stand_below_those_of_the_page() -> None:
    html = made(report(DOUBLE), text("# One\n\n###### Six"))
    assert "<h3>One</h3>" in html
    assert "<h6>Six</h6>" in html
    html = made(report(DOUBLE), text("<div><h1>One</h1></div>"), code("run()", shown(text__html="<h2>Two</h2>")))
    assert "<h3>One</h3>" in html
    assert "<h4>Two</h4>" in html
    assert html.count("<h1>") == 1


def test_sources_and_outputs_may_be_lists_of_lines() -> None:
    cell = code("") | {"source": ["a = 1\n", "b = 2"], "outputs": [{**stream(""), "text": ["one\n", "two\n"]}]}
    page = page_of(cell)
    assert "a = 1 b = 2" in page.text
    assert "one two" in page.text


def test_tables_have_no_frame_of_their_own() -> None:
    table = '<table border="1" class="dataframe"><tr><td>border="1"</td></tr></table>'
    page = page_of(code("run()", shown(text__html=table)), text(table))
    assert [attributes for tag, attributes in page.elements if tag == "table"] == [{}, {}]
    assert page.text.count('border="1"') == 2


def test_a_notebook_without_cells_says_so() -> None:
    page = Page(made(report(DOUBLE), {"cell_type": "markdown", "metadata": {}, "source": ""}))
    assert "This notebook has no cells." in page.text
    assert len(CELLS) == 7
