"""How wide and high the pixels of a picture are, as its first bytes say."""

from __future__ import annotations

import struct

MAX_PIXELS = 10_000
"""Of a picture's width or height; a browser makes that much room for it where a page sets no bounds."""

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG's markers of a frame (ITU-T T.81, table B.1); the three are tables and an extension."""


def fits(kind: str, data: bytes) -> bool:
    """Whether a picture keeps to `MAX_PIXELS`; one whose size can't be read is broken, and takes no room."""
    try:
        match kind:
            case "image/png":
                sides = struct.unpack_from(">II", data, 16)
            case "image/gif":
                sides = struct.unpack_from("<HH", data, 6)
            case "image/jpeg":
                sides = _jpeg(data)
            case _:  # WebP itself allows no more than 16,383; an SVG has no pixels
                sides = ()
    except struct.error:
        return True
    return max(sides, default=0) <= MAX_PIXELS


def _jpeg(data: bytes) -> tuple[int, ...]:
    place = 2
    while True:
        marker, length = struct.unpack_from(">xBH", data, place)
        if marker in _FRAMES:
            return struct.unpack_from(">HH", data, place + 5)
        place += 1 if marker == 0xFF else 2 + max(length, 2)
