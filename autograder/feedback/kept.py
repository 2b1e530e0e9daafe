"""What a graded notebook keeps for its page, read without nbgrader and nbformat: their imports take seconds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from autograder.report import GradeReport

KEY = "autograder"
"""What stands beside nbgrader's own in the metadata of a graded notebook and of its cells."""


class Kept(msgspec.Struct, frozen=True):
    """What a graded notebook's metadata hold; `submission` is SHA-256 (hex) of the file that it was made from."""

    schema: Literal[1]
    report: GradeReport
    submission: str = ""


def kept_in(notebook: Mapping[str, Any]) -> Kept | None:
    """What a graded notebook holds of ours; None in one that was graded without us, or by another version."""
    try:
        return msgspec.convert(notebook.get("metadata", {}).get(KEY), Kept)
    except msgspec.ValidationError:
        return None


def read_page(path: Path) -> Mapping[str, Any] | None:
    """A graded notebook, as far as its page needs it; None where there is none that can be read."""
    with suppress(OSError, msgspec.DecodeError, RecursionError):
        document = msgspec.json.decode(path.read_bytes())
        if _is_as_written(document):
            return document  # type: ignore[no-any-return]
    from autograder.nbgrader.files import read_graded  # another format, or a file that was edited

    return read_graded(path)


def _is_as_written(document: Any) -> bool:
    """Whether it is in the form in which we write it, so that nbformat has nothing to mend in it."""
    if not isinstance(document, dict) or (document.get("nbformat"), document.get("nbformat_minor")) != (4, 5):
        return False
    cells = document.get("cells")
    return isinstance(document.get("metadata"), dict) and isinstance(cells, list) and all(map(_is_cell, cells))


def _is_cell(cell: Any) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("metadata"), dict):
        return False
    outputs, attachments = cell.get("outputs", []), cell.get("attachments", {})
    return (
        cell.get("cell_type") in ("code", "markdown")
        and isinstance(outputs, list)
        and all(isinstance(output, dict) and "output_type" in output for output in outputs)
        and isinstance(attachments, dict)
        and all(isinstance(one, dict) and all(map(_is_text, one.values())) for one in attachments.values())
    )


def _is_text(value: Any) -> bool:
    """Whether it is a text in one piece; nbformat writes some as lists of lines."""
    return isinstance(value, str)
