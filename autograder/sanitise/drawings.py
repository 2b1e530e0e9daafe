"""SVG that a browser draws in reasonable time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from xml.parsers import expat

from autograder.sanitise.sides import MAX_PIXELS

MAX_DRAWN = 100_000
"""Elements that are drawn in all, each as often as something refers to it."""

_REFERENCE = re.compile(r"\A\s*#(.+)|url\(\s*['\"]?#([^)'\"]+)", re.DOTALL | re.IGNORECASE)
_WHOLE_FILE = re.compile(r"\s*data:(?!image/(?:png|jpeg|gif|webp)[;,])", re.IGNORECASE)
_IN_CSS = re.compile(r"url\(|[@\\]|(?<![\w-])(?:min-)?(?:width|height)\s*:", re.IGNORECASE)
"""What a style sheet refers to something by, or makes a drawing large with; a backslash may spell any of it."""
_LENGTH = re.compile(r"\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)
_PIXELS = {"": 1.0, "px": 1.0, "pt": 1.34, "mm": 3.8, "cm": 38.0, "pc": 16.0, "em": 16.0}
_INCH = 96.0
_ROOT = ""


class _TooMuch(Exception):
    """Something that takes too long to draw, or of which nobody can tell how long it takes."""


def is_light(svg: bytes) -> bool:
    """Whether an SVG is well-formed, and no references within it (``<use>``, patterns) multiply what is drawn.

    Ten elements, of which each draws the one before it ten times, keep a browser's tab busy for minutes.
    """
    drawing = _Drawing()
    try:
        drawing.read(svg)
        return drawing.drawn() <= MAX_DRAWN
    except (expat.ExpatError, ValueError, LookupError, _TooMuch):
        return False


class _Drawing:
    """The elements of a drawing by the id that they have or stand below, and what each of these refers to."""

    def __init__(self) -> None:
        self._read = 0
        self._elements: Counter[str] = Counter()
        self._references: defaultdict[str, list[str]] = defaultdict(list)
        self._owners = [_ROOT]
        self._css: list[str] | None = None

    def read(self, svg: bytes) -> None:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._refuse
        parser.ProcessingInstructionHandler = self._refuse  # a style sheet, say
        parser.Parse(svg, True)

    def drawn(self) -> int:
        """How many elements are drawn."""
        totals: dict[str, int] = {}
        begun: set[str] = set()
        waiting = [(_ROOT, False)]
        while waiting:
            owner, is_known = waiting.pop()
            if is_known:
                below = sum(totals[one] for one in self._references[owner])
                totals[owner] = min(self._elements[owner] + below, MAX_DRAWN + 1)
            elif owner not in totals:
                if owner in begun:
                    raise _TooMuch  # it refers to itself
                begun.add(owner)
                waiting.append((owner, True))
                waiting += [(one, False) for one in self._references[owner] if one not in totals]
        return totals[_ROOT]

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        above = self._owners[-1]
        owner = attributes.get("id", above) or above
        if owner != above:
            self._references[above].append(owner)
        self._owners.append(owner)
        self._elements[owner] += 1
        self._read += 1
        if self._read > MAX_DRAWN:
            raise _TooMuch
        if self._read == 1 and not _fits(attributes):
            raise _TooMuch
        name = tag.rpartition(":")[2]
        if name == "filter":  # what it takes to draw one can't be told from its elements
            raise _TooMuch
        if name == "style":
            self._css = []
        for value in attributes.values():
            if _WHOLE_FILE.match(value) or "\\" in value:
                raise _TooMuch
            self._references[owner] += [found[1] or found[2] for found in _REFERENCE.finditer(value)]

    def _end(self, tag: str) -> None:
        self._owners.pop()
        if self._css is not None and _IN_CSS.search("".join(self._css)):
            raise _TooMuch
        self._css = None

    def _text(self, text: str) -> None:
        if self._css is not None:
            self._css.append(text)

    def _refuse(self, *declaration: object) -> None:
        raise _TooMuch


def _fits(attributes: dict[str, str]) -> bool:
    """Whether a drawing as a whole takes no more room than a picture may."""
    sides = (_LENGTH.match(attributes.get(side, "")) for side in ("width", "height"))
    pixels = (float(found[1]) * _PIXELS.get(found[2].lower(), _INCH) for found in sides if found)
    return all(side <= MAX_PIXELS for side in pixels) and not _IN_CSS.search(attributes.get("style", ""))
