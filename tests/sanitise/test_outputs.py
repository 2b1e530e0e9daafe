"""Outputs are built anew, whatever is in them."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from autograder.sanitise import clean_outputs
from autograder.sanitise.allowed import MAX_SIDE
from tests.sanitise.attacks import ATTACKS
from tests.sanitise.pages import PNG, display, export

ODD: list[Any] = [None, 3, True, 1.5, "x", [], {}, ["x", 3], {"a": {"b": "c"}}, [[]], "\ud800", float("nan")]


@pytest.mark.parametrize("text", ATTACKS)
def test_cleaning_again_changes_nothing(text: str) -> None:
    outputs = clean_outputs([display({"text/html": text}), display({"text/markdown": text})])
    assert clean_outputs(outputs) == outputs


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


def test_a_text_is_cut_where_it_would_keep_the_page_busy() -> None:
    assert clean_outputs([display({"text/plain": "x<" * 60_000})])[0]["data"]["text/plain"].endswith("x<x […]")
    assert clean_outputs([display({"text/plain": "x" * 900_000})])[0]["data"]["text/plain"] == "x" * 900_000
