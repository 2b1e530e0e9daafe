"""TeX that could reach out of its formula is shown and not obeyed."""

from __future__ import annotations

import unicodedata

from autograder.sanitise import clean_html, clean_outputs
from tests.sanitise.pages import display


def test_prose_and_code_keep_their_backslashes() -> None:
    assert clean_html("<p>C:\\data\\class costs $5</p>") == "<p>C:\\data\\class costs $5</p>"
    assert clean_html("<p>$x$ <code>\\href</code></p><pre>$\\def$</pre>").count("\\") == 2
    [output] = clean_outputs([display({"text/plain": "$\\href{x}$"})])
    assert output["data"] == {"text/plain": "$\\href{x}$"}  # nbconvert shows it in <pre>, which MathJax skips


def test_a_macro_that_is_out_of_order_still_reads_the_same() -> None:
    [output] = clean_outputs([display({"text/latex": "$\\href{x}{y} \\\\[-9em] \\frac{1}{2}$"})])
    assert unicodedata.normalize("NFKC", output["data"]["text/latex"]) == "$\\href{x}{y} \\\\[−9em] \\frac{1}{2}$"  # noqa: RUF001
