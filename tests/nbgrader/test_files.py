"""How graded notebooks are written: as nbformat writes them."""

from __future__ import annotations

import math
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder.nbgrader.files import notebook_bytes

ODD: dict[str, Any] = {
    "nothing": {},
    "nested": {"b": [[], {}, [{"x": None}]], "a": {"": [1, -0.0, 1e300, 1e-7, 123456789012345678901234567890, True]}},
    "texts": {"quote": '"\\\n\t\x00\x7f\u2028</script>', "注意力": "é😀", "lone": "\ud800 and \udfff"},
    "no_number": {"nan": math.nan, "most": [math.inf, -math.inf]},
    "bytes": {"data": b"abc"},
}


@pytest.mark.parametrize("metadata", ODD.values(), ids=ODD.keys())
def test_a_notebook_is_laid_out_byte_for_byte_as_nbformat_does(metadata: dict[str, Any]) -> None:
    outputs = [
        new_output("stream", text="one\ntwo\r\nthree"),
        new_output("display_data", {"image/png": "aGk=\n", "text/plain": "<x>\n</x>", "application/json": {"a": [1]}}),
    ]
    cells = [new_markdown_cell("# A\n\n$x$ \ud800"), new_code_cell("x = 1\ny = '…'\n", outputs=outputs)]
    cells[0].attachments = {"a.png": {"image/png": "aGk="}}
    cells[1].metadata.update(metadata)
    notebook = new_notebook(cells=cells, metadata={"signature": "transient", **metadata})
    before = nbformat.from_dict(notebook)
    ours = notebook_bytes(notebook)
    assert notebook == before
    assert ours == f"{nbformat.writes(notebook)}\n".encode(errors="replace")
