"""One try of a hostile student, and how a few words become many of them."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Literal

Place = Literal[
    "html", "markdown", "raw", "code", "stream", "exception", "data", "outputs", "attachment", "id", "metadata", "file"
]

HOST = "away.example"
TITLE = "taken."


@dataclass(frozen=True)
class Attempt:
    """One try.

    Attributes:
        name: what it is called; the title that it sets, or the address that it asks for, holds it.
        place: where it stands; `html` is an output, a Markdown cell and a comment.
        content: the text, or what an output's `data` or a cell's `metadata` are.
        works: whether Chromium falls for it where nothing stands in its way.
    """

    name: str
    place: Place
    content: Any
    works: bool = True

    @property
    def text(self) -> str:
        """The content of those that are text."""
        return str(self.filled)

    @property
    def filled(self) -> Any:
        """The content with its script and address in it."""
        return self._filled(self.content)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._filled(key): self._filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._filled(part) for part in value]
        if not isinstance(value, str):
            return value
        # A pattern needs no quotes, in whatever attribute it stands; a file's name can't have a slash.
        quote = "'" if self.place == "file" else "/"
        script = f"top.document.title={quote}{TITLE}{self.name}{quote}"
        encoded = base64.b64encode(f"<script>{script}</script>".encode()).decode()
        text = value.replace("TAKEN64", encoded).replace("TAKE", script)
        return text.replace("AWAY", f"https://{HOST}/{self.name}")


def html(works: bool = True, **contents: str) -> tuple[Attempt, ...]:
    """Attempts in HTML, by name."""
    return tuple(Attempt(name.replace("_", "-"), "html", content, works) for name, content in contents.items())


def at(place: Place, works: bool = True, **contents: Any) -> tuple[Attempt, ...]:
    """Attempts that stand in one kind of place, by name."""
    return tuple(Attempt(name.replace("_", "-"), place, content, works) for name, content in contents.items())


def png(width: int, height: int) -> str:
    """A white picture of that size, in few bytes, in base64."""
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0" * ((width + 7) // 8 + 1) * min(height, 200), 9)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    written = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(written)).decode()


def in_base64(text: str) -> str:
    """A text as the data of an address."""
    return base64.b64encode(text.encode()).decode()


PIXEL = png(1, 1)
SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
LIVE_DRAWING = f"<svg {SVG} onload='TAKE'><script>TAKE</script><image href='AWAY'/></svg>"
ABOVE_ALL = "position:fixed;inset:0;z-index:9999;background:white"


def laughs(levels: int, each: str, last: str) -> str:
    """Definitions of which each draws the one before ten times."""
    drawn = "".join(f'<g id="l{n}">{each.format(n - 1) * 10}</g>' for n in range(1, levels))
    return f'<svg {SVG} width="9" height="9"><defs><g id="l0">{last}</g>{drawn}</defs>{each.format(levels - 1)}</svg>'
