"""Sentences that can be stored and shown in any language."""

from __future__ import annotations

from pathlib import Path

import msgspec

from autograder.messages import N_, Message, message, translations


class Backwards:
    """A catalogue whose translation is the sentence with its words in reverse order."""

    def gettext(self, text: str) -> str:
        return " ".join(reversed(text.split()))


def test_a_message_is_its_sentence_with_its_arguments() -> None:
    assert message("row {row} sums to {sum}", row=0, sum=0.53).render() == "row 0 sums to 0.53"


def test_an_argument_is_never_read_as_a_template() -> None:
    assert message("got {value}", value="{secret} {0.__class__}").render() == "got {secret} {0.__class__}"


def test_a_message_within_a_message_is_translated_too() -> None:
    outer = message("where is {place}", place=message("in row {row}", row=2))
    assert outer.render() == "where is in row 2"
    assert outer.render(Backwards()) == "2 row in is where"  # type: ignore[arg-type]


def test_a_message_survives_being_stored() -> None:
    outer = message("where is {place}", place=message("in row {row}", row=2))
    stored = msgspec.json.decode(msgspec.json.encode(outer), type=Message)
    assert stored.render() == outer.render()


def test_a_language_without_a_catalogue_reads_english(tmp_path: Path) -> None:
    assert message("hello {name}", name="Ada").render(translations("xx", tmp_path)) == "hello Ada"


def test_marking_a_sentence_leaves_it_as_it_is() -> None:
    assert N_("a sentence") == "a sentence"
