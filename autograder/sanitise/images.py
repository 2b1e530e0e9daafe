"""Images whose data is in the notebook: only of known types, and only what really is of its type."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from autograder.sanitise.drawings import is_light
from autograder.sanitise.sides import fits
from autograder.sanitise.text import joined

MAX_IMAGE = 8 << 20
"""Bytes of one image."""
MAX_NAME = 200
"""Characters of an attachment's name."""
SVG = "image/svg+xml"

_MAGIC = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    SVG: re.compile(rb"(?=[^\x00]{0,4096}<svg[\s>])(?!.*<!ENTITY)", re.DOTALL | re.IGNORECASE),
}
KINDS = tuple(_MAGIC)
DATA_URL = re.compile(r"data:image/[a-z+]{1,10};base64,[A-Za-z0-9+/=]*", re.IGNORECASE)
_HEAD = re.compile(r"data:(image/[a-z+]+);base64,", re.IGNORECASE)


def image(kind: str, value: object) -> str | None:
    """The base64 text of an image of this type, encoded anew; None for anything else."""
    text = joined(value)
    if text is None or kind not in _MAGIC or len(text) > MAX_IMAGE * 3 // 2:
        return None
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) > MAX_IMAGE or not _MAGIC[kind].match(data) or not fits(kind, data):
        return None
    if kind == SVG and not is_light(data):
        return None
    return base64.b64encode(data).decode()


def data_url(value: str) -> str | None:
    """The same image as a URL that is its own data, written anew; None for any other URL."""
    head = _HEAD.match(value)
    if not head:
        return None
    kind = head[1].lower().replace("/jpg", "/jpeg")
    data = image(kind, value[head.end() :])
    return data and f"data:{kind};base64,{data}"


def without_data(text: str) -> str:
    """A text without the data of its images, which limits don't count."""
    return DATA_URL.sub("", text)


def clean_attachments(attachments: object) -> dict[str, dict[str, str]]:
    """Of a Markdown cell's attachments those that are images, by name and type; any field may hold anything."""
    kept: dict[str, dict[str, str]] = {}
    for name, bundle in attachments.items() if isinstance(attachments, Mapping) else ():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not isinstance(bundle, Mapping):
            continue
        images = {kind: data for kind in KINDS if (data := image(kind, bundle.get(kind)))}
        if images and name.isprintable():
            kept[name] = images
    return kept
