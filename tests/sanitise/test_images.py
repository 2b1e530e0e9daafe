"""Images are kept where their data is an image."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from autograder.sanitise import clean_markdown, clean_outputs
from tests.sanitise.pages import GIF, IMAGE, JPEG, PNG, SVG, WEBP, Page, code_cell, display, export, shown


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


def test_an_image_is_what_its_type_says() -> None:
    for kind, data in (("image/png", GIF), ("image/jpeg", PNG), ("image/png", PNG + "!"), ("image/png", f'{PNG}" x="')):
        [output] = clean_outputs([display({kind: data})])
        assert output["data"] == {"text/plain": f"[an output of type {kind} is not shown]"}


def test_an_attached_image_is_kept() -> None:
    attachments = {"a.png": {"image/png": PNG}}
    assert clean_markdown("![](attachment:a.png)", attachments) == ("![](attachment:a.png)", attachments)
    assert f'src="{IMAGE}"' in shown("<b onclick=alert(1)>x</b>\n![](attachment:a.png)", attachments)


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
    odd: list[Any] = [[], "x", None]
    for attachments in odd:
        assert clean_markdown("text", attachments) == ("text", {})
