"""A code cell's outputs, built anew from the little that a page needs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from autograder.messages import N_, message
from autograder.sanitise.allowed import MAX_SIDE
from autograder.sanitise.html import cleaned
from autograder.sanitise.images import KINDS, image
from autograder.sanitise.maths import inert
from autograder.sanitise.plain import Plain, TooMuch
from autograder.sanitise.rendering import render
from autograder.sanitise.terminal import console, overwritten
from autograder.sanitise.text import CONTROLS, bounded, joined

_NOT_SHOWN = N_("[an output of type {type} is not shown]")
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+/_-]{0,79}")
_SHOWN_BY_NBCONVERT = ("image/png", "image/jpeg")
_SHOWN_AS_HTML = ("image/svg+xml", "image/gif", "image/webp")


def clean_outputs(outputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """nbformat outputs built anew from the little that a page needs; any field may hold anything.

    Format: https://nbformat.readthedocs.io/en/latest/format_description.html#code-cell-outputs. What is no output is
    left out; an output of which nothing can be shown says so.
    """
    kept = (_clean_output(output) for output in outputs if isinstance(output, Mapping))
    return [output for output in kept if output is not None]


def _clean_output(output: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": overwritten(console(joined(output.get("text")) or ""))}
    if kind == "error":
        lines = output.get("traceback")
        return {
            "output_type": "error",
            "ename": console(joined(output.get("ename")) or ""),
            "evalue": console(joined(output.get("evalue")) or ""),
            "traceback": [console(line) for line in lines if isinstance(line, str)] if isinstance(lines, list) else [],
        }
    if kind not in ("execute_result", "display_data"):
        return None
    data, metadata = _clean_bundle(output.get("data"), output.get("metadata"))
    result: dict[str, Any] = {"output_type": kind, "data": data, "metadata": metadata}
    if kind == "execute_result":
        result["execution_count"] = _whole(output.get("execution_count"), 0, 1 << 31)
    return result


def _clean_bundle(bundle: object, about: object) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """A MIME bundle that can be shown, and the sizes of its images in pixels."""
    raw = bundle if isinstance(bundle, Mapping) else {}
    data: dict[str, str] = {}
    sizes: dict[str, dict[str, int]] = {}
    for kind in KINDS:
        value = _svg(raw.get(kind)) if kind == "image/svg+xml" else raw.get(kind)
        if found := image(kind, value):
            data[kind] = found
            if size := _size(about, kind):
                sizes[kind] = size
    html = _clean_html_of(raw)
    if html is None and not any(kind in data for kind in _SHOWN_BY_NBCONVERT):
        html = next((_img(kind, data[kind], sizes) for kind in _SHOWN_AS_HTML if kind in data), None)
    data.pop("image/svg+xml", None)  # nbconvert and others put its source into the page
    sizes.pop("image/svg+xml", None)
    if html is not None:
        data["text/html"] = html
    if (latex := joined(raw.get("text/latex"))) is not None:
        data["text/latex"] = inert(bounded(CONTROLS.sub("", latex)))
    if (plain := joined(raw.get("text/plain"))) is None and "application/json" in raw:
        plain = _as_json(raw["application/json"])
    if plain is not None:
        data["text/plain"] = console(plain)
    if not data:
        name = next((key for key in raw if isinstance(key, str) and _KIND.fullmatch(key)), "?")
        data["text/plain"] = message(_NOT_SHOWN, type=name).render()
    return data, sizes


def _clean_html_of(raw: Mapping[Any, Any]) -> str | None:
    """The HTML of an output, or of its Markdown; None where nothing of it is left to see."""
    html = joined(raw.get("text/html"))
    try:
        if html is None and (source := joined(raw.get("text/markdown"))) is not None:
            html = render(source).html
        clean = None if html is None else cleaned(Plain(html))
    except TooMuch:
        return None
    return clean if clean and (re.sub(r"<[^>]*>", "", clean).strip() or "<img src" in clean) else None


def _svg(value: object) -> str | None:
    """SVG in base64: in a bundle it is text, unlike other images."""
    text = joined(value)
    return None if text is None else base64.b64encode(text.encode()).decode()


def _img(kind: str, data: str, sizes: dict[str, dict[str, int]]) -> str:
    size = "".join(f' {side}="{pixels}"' for side, pixels in sizes.get(kind, {}).items())
    return f'<img src="data:{kind};base64,{data}"{size}>'


def _size(about: object, kind: str) -> dict[str, int]:
    own = about.get(kind) if isinstance(about, Mapping) else None
    if not isinstance(own, Mapping):
        return {}
    sides = {side: _whole(own.get(side), 1, MAX_SIDE) for side in ("width", "height")}
    return {side: pixels for side, pixels in sides.items() if pixels is not None}


def _whole(value: object, least: int, most: int) -> int | None:
    """This value if it is an int (and no bool) within bounds."""
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most else None


def _as_json(value: object) -> str | None:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):
        return None
