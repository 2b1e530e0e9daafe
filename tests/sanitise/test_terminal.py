"""Text of a terminal keeps its colours, and steers nothing."""

from __future__ import annotations

import re

import pytest
from nbconvert.filters import ansi2html

from autograder.sanitise import clean_outputs
from autograder.sanitise.terminal import overwritten


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


def test_what_was_printed_stands_in_the_order_in_which_it_was() -> None:
    [output] = clean_outputs(
        [{"output_type": "stream", "name": "stdout", "text": "\u202e02 \u2067fo\u2069 \u05d0\u200f"}]
    )
    assert output["text"] == "02 fo \u05d0\u200f"


def test_other_control_sequences_are_dropped() -> None:
    text = "a\x1b[2J\x1b]8;;javascript:x\x1b\\b\x1b\x1b[5n[38m\x00\x07c\x1b"
    [output] = clean_outputs([{"output_type": "stream", "text": text}])
    assert output == {"output_type": "stream", "name": "stdout", "text": "ab[38mc"}


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("\r  0%|\r 50%|##\r100%|####", "100%|####"),
        ("abcdef\rxy", "xycdef"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("a\r\r\rb\nc\r", "b\nc"),
        ("\x1b[31mlong red\x1b[0m\rshort", "short"),
        ("\r", ""),
    ],
)
def test_a_carriage_return_writes_over_what_stood_there(printed: str, seen: str) -> None:
    [output] = clean_outputs([{"output_type": "stream", "name": "stdout", "text": printed}])
    assert output["text"] == seen


def test_a_million_carriage_returns_are_applied() -> None:
    assert overwritten("x" * 1_000_000 + "\ra" * 1_000_000) == "a" + "x" * 999_999
