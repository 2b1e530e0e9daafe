"""Drawings and pictures that would keep a browser busy, or push a page apart, are not shown."""

from __future__ import annotations

import struct
import time

import pytest

from autograder.sanitise.drawings import MAX_DRAWN, is_light
from autograder.sanitise.sides import MAX_PIXELS, fits

ROOT = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"{}>{}</svg>'
USES = "<g id='{0}'>" + "<use xlink:href='#{1}'/>" * 10 + "</g>"
PATTERN = "<pattern id='{0}'>" + "<rect fill='url( #{1})'/>" * 10 + "</pattern>"
STYLED = "<g id='{0}'>" + "<rect style='fill:URL(\"#{1}\")'/>" * 10 + "</g>"


def drawing(inner: str, attributes: str = "") -> bytes:
    return ROOT.format(attributes, inner).encode()


def chain(one: str, levels: int) -> bytes:
    return drawing("<path id='l0'/>" + "".join(one.format(f"l{n + 1}", f"l{n}") for n in range(levels)))


@pytest.mark.parametrize("one", [USES, PATTERN, STYLED])
def test_what_each_level_multiplies_is_counted(one: str) -> None:
    assert is_light(chain(one, 3))
    assert not is_light(chain(one, 8))


@pytest.mark.parametrize(
    "inner",
    [
        "<g id='a'><use href='#a'/></g>",
        "<filter id='f'><feTurbulence numOctaves='999'/></filter>",
        "<style>rect{fill:u\\72l(#a)}</style>",
        "<style>" + " " * 20_000 + "rect{fill:url(#a)}</style>",
        "<style><![CDATA[@import 'data:text/css,x']]></style>",
        "<style>svg{width:99999px}</style>",
        "<rect style='fill:u\\72l(#a)'/>",
        "<image href=' data:image/svg+xml;base64,PHN2Zz4='/>",
        "<?xml-stylesheet href='data:text/css,x'?>",
        "<g>",
        "<g/>" * MAX_DRAWN,
    ],
)
def test_what_cannot_be_counted_is_not_drawn(inner: str) -> None:
    assert not is_light(drawing(inner))


@pytest.mark.parametrize("size", ["width='99999'", "height='1e9px'", "width='500in'", "style='height:99999px'"])
def test_a_drawing_is_not_larger_than_a_page_can_bear(size: str) -> None:
    assert not is_light(drawing("", f" {size}"))


def test_what_plots_are_made_of_is_drawn() -> None:
    doctype = b'<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">'
    plot = drawing(
        "<defs><style type='text/css'>*{stroke-linejoin: round; stroke-linecap: butt}</style>"
        "<clipPath id='c'><rect width='9'/></clipPath></defs><g id='axes'><defs><path id='m'/></defs>"
        "<g clip-path='url(#c)'>" + "<use xlink:href='#m' style='fill: #1f77b4; stroke-width: 2'/>" * 5_000 + "</g>"
        "<image xlink:href='data:image/png;base64,iVBORw0KGgo='/></g>",
        " width='460.8pt' height='345.6pt' viewBox='0 0 460.8 345.6'",
    )
    assert is_light(doctype + plot)
    assert is_light(drawing("", " width='210mm' height='297mm'"))


@pytest.mark.parametrize(
    "inner", [USES.format("a", "b") * 40_000, "<g id='a'>" * 300_000, "<rect fill='#a'/>" * 90_000]
)
def test_a_large_drawing_is_read_in_reasonable_time(inner: str) -> None:
    started = time.process_time()
    is_light(drawing(inner))
    assert time.process_time() - started < 5


def test_the_sides_of_pictures_are_bounded() -> None:
    for side in (MAX_PIXELS, MAX_PIXELS + 1):
        sized = [
            ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 1, side)),
            ("image/gif", b"GIF89a" + struct.pack("<HH", side, 1)),
            (
                "image/jpeg",
                b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x02\xff\xc2\0\x0b\x08" + struct.pack(">HH", side, 1),
            ),
        ]
        assert {fits(*one) for one in sized} == {side <= MAX_PIXELS}


def test_a_broken_picture_takes_no_room_and_ends() -> None:
    assert fits("image/jpeg", b"\xff\xd8\xff\xe0" + bytes(1_000))
    assert fits("image/png", b"\x89PNG")
    assert fits("image/webp", b"RIFF")
