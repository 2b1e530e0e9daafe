"""What is taken from a worker's replies: known fields of known types and bounded sizes. The rest is left behind.

A worker may write anything, so that nothing of it is passed on as it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autograder.channel import words
from autograder.channel.replies import MAX_LINE_NUMBER

MAX_NAME = 200

Output = dict[str, Any]


def text(value: Any, longest: int = words.MAX_TEXT) -> str:
    """A text, cut to `longest` characters; empty where it is none."""
    return value[:longest] if isinstance(value, str) else ""


def outputs(value: Any) -> list[Output]:
    """A cell's outputs in nbformat 4 (https://nbformat.readthedocs.io/en/latest/format_description.html)."""
    return list(_outputs(value)) if isinstance(value, list) else []


def _outputs(values: list[Any]) -> Iterator[Output]:
    for value in values:
        kind = value.get("output_type") if isinstance(value, dict) else None
        if kind == "stream" and value.get("name") in ("stdout", "stderr") and isinstance(value.get("text"), str):
            yield {"output_type": "stream", "name": value["name"], "text": value["text"]}
        elif kind in ("execute_result", "display_data") and isinstance(value.get("data"), dict):
            output = {"output_type": kind, "data": _texts(value["data"]), "metadata": {}}
            if kind == "execute_result":
                count = value.get("execution_count")
                output["execution_count"] = count if type(count) is int and abs(count) < MAX_LINE_NUMBER else None
            yield output
        elif kind == "error":
            lines = value.get("traceback")
            yield {
                "output_type": "error",
                "ename": text(value.get("ename"), MAX_NAME),
                "evalue": text(value.get("evalue")),
                "traceback": [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else [],
            }


def _texts(data: dict[str, Any]) -> dict[str, str]:
    return {kind: content for kind, content in data.items() if isinstance(content, str)}
