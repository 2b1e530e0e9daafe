"""The JSON values of a file that was meant to be a notebook, whatever happened to its text on the way.

Nothing is guessed: a text that can be read in two ways, which differ in the student's code, is refused with a sentence.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from autograder.definitions import effort, tree
from autograder.errors import UnusableNotebook
from autograder.merging import Sides, as_one, conflict_line, sides_of, text_of
from autograder.messages import N_, Message, message

MAX_RESCUED = 50 * 2**20
"""Characters of a text that is mended: each attempt reads it once more."""
MAX_COMMAS = 4
"""Commas too many, or missing ones, that are mended."""
MAX_SALVAGED = 10_000
"""Cells; a notebook of as many is not graded anyway."""
MAX_OBJECTS = 200_000
"""Braces of a text in which keys that stand twice are looked for, which makes reading half as fast."""
MAX_UNCERTAIN = 20_000
"""Words and signs of the code in which characters can't be read; no honest notebook has as much of it."""
MAX_JUMPS = 8
"""Damaged places in a notebook's cells behind which reading goes on."""
MAX_TOLD = 3
_CELL = re.compile(r'\r?\n[ \t]*\{\s*"cell_type"')
_FILLING = " \t\r\n\0"
"""What files end with, some after a crash."""
_BLANK = re.compile(r"[ \t\r\n]*")
_DECIDING = frozenset({"cells", "worksheets", "cell_type", "source", "input"})
"""Keys that say what a student's code is: which of two values counts can't be told."""
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_SCRIPT = re.compile(r"^(?:import \w|from [\w.]+ import |(?:async )?def \w+\(|class \w+|# %%|# In\[)", re.MULTILINE)
_MAX_SCRIPT = 64_000
_KINDS = (
    (b"PK\x03\x04", "a zip archive (or a document that is one); unpack it, and hand in the notebook in it"),
    (b"\x1f\x8b", "a packed file; unpack it, and hand in the notebook in it"),
    (b"%PDF", "a PDF; hand in the notebook itself, the file that ends in .ipynb"),
)


@dataclass(frozen=True)
class Rescued:
    """What could be read.

    Attributes:
        document: the notebook's JSON values.
        repairs: what had to be mended for that.
        cut: cells are lost.
    """

    document: dict[str, Any]
    repairs: tuple[Message, ...] = ()
    cut: bool = False


@dataclass
class _Pairs:
    """Turns a JSON object's pairs into a dict, and remembers keys that stood twice with two values: the last counts."""

    twice: dict[str, None] = field(default_factory=dict)

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) != len(pairs):
            self.twice.update((key, None) for key, value in pairs if values[key] != value)
        return values


def document_of(path: Path, content: bytes) -> Rescued:
    """The JSON values of a notebook file, mended where its text is damaged.

    Args:
        path: what the sentences of an error call it.
        content: its bytes, of bounded size and holding something.

    Raises:
        UnusableNotebook: one sentence that says why it is no notebook, or what can't be decided.
    """
    try:
        text, is_certain, told = _text(path, content)
        pairs = _Pairs()
        hook = pairs if text.count("{") <= MAX_OBJECTS else None
        try:
            found = Rescued(_mapping(path, json.loads(text, object_pairs_hook=hook)))
        except json.JSONDecodeError as fault:
            found = _rescued(path, text, fault, pairs)
        if not is_certain:
            _expect_known_code(path, found.document)
        told += _told_twice(path, pairs.twice)
    except (ValueError, RecursionError):  # a number of 5,000 digits; brackets nested 100,000 deep
        raise UnusableNotebook(f"{path} is not a notebook: its JSON holds absurd values.") from None
    return Rescued(found.document, (*told, *found.repairs), found.cut)


def _text(path: Path, content: bytes) -> tuple[str, bool, list[Message]]:
    """The text, whether all of its characters are certain, and what is to be told of how it was written."""
    for start, kind in _KINDS:
        if content.startswith(start):
            raise UnusableNotebook(f"{path} is not a notebook: it is {kind}.")
    encoding = json.detect_encoding(content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as fault:
        if not encoding.startswith("utf-8") and fault.end < len(content):
            raise UnusableNotebook(f"{path} is not a notebook: it is not text.") from None
        text = content.decode(encoding, "replace")
        if not text.lstrip().startswith("{"):
            raise UnusableNotebook(f"{path} is not a notebook: it is not text.") from None
        if fault.end >= len(content):  # cut within a character
            return text.rstrip(_UNKNOWN), True, []
        return text, False, [message(N_("some characters of the file are not in UTF-8, and could not be read"))]
    if not encoding.startswith("utf-8"):
        return text, True, [message(N_("read the file in {encoding} instead of UTF-8"), encoding=encoding[:6].upper())]
    return text, True, []


def _rescued(path: Path, text: str, fault: json.JSONDecodeError, pairs: _Pairs) -> Rescued:
    """What a text that is no JSON still holds."""
    if line := conflict_line(text):
        return _merged(path, text, line)
    _expect_json(path, text, fault)
    read = _with_commas(text, pairs)
    if read.fault is not None:
        return _salvaged(path, read)
    document, repairs = _as_notebook(_mapping(path, read.value)), [*read.repairs]
    rest = read.text[read.end :]
    if rest.strip(_FILLING):
        line = read.text.count("\n", 0, _after_blanks(read.text, read.end)) + 1
        document = _without_second(path, document, rest, line)
        said = N_("left out what stands behind the end of the notebook, from line {line} on")
        repairs.append(message(said, line=line))
    return Rescued(document, tuple(repairs))


def _expect_json(path: Path, text: str, fault: json.JSONDecodeError) -> None:
    """Say what a text is that nothing can be made of."""
    start = text.lstrip()[:_MAX_SCRIPT]
    if start[:9].lower() == "<!doctype" or start[:5].lower() == "<html":
        raise UnusableNotebook(
            f"{path} is not a notebook: it is a web page, perhaps of a login, that was saved under this name; download "
            "the notebook itself and hand it in again."
        )
    if not start.startswith(("{", "[")) and _SCRIPT.search(start):
        raise UnusableNotebook(
            f"{path} is not a notebook: it is a Python script; hand in the notebook itself (in Colab: File, Download, "
            "Download .ipynb)."
        )
    if not start.startswith("{") or len(text) > MAX_RESCUED:
        raise UnusableNotebook(f"{path} is not a notebook: line {fault.lineno} is not JSON.")


def _mapping(path: Path, document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UnusableNotebook(f"{path} is not a notebook: it is JSON, but without cells.")
    return document


def _as_notebook(document: dict[str, Any]) -> dict[str, Any]:
    """With the format, which stands last in the file and may be lost."""
    if "nbformat" not in document and isinstance(document.get("cells"), list):
        document["nbformat"] = 4
    return document


class _Read(NamedTuple):
    """The first JSON value of a text and its end, or the fault that is no comma's; and the text with commas mended."""

    text: str
    repairs: tuple[Message, ...]
    value: Any = None
    end: int = 0
    fault: json.JSONDecodeError | None = None


def _with_commas(text: str, pairs: _Pairs) -> _Read:
    """Read a text, and mend a few commas for that."""
    decoder = json.JSONDecoder(object_pairs_hook=pairs if text.count("{") <= MAX_OBJECTS else None)
    repairs: tuple[Message, ...] = ()
    while True:
        try:
            pairs.twice.clear()
            value, end = decoder.raw_decode(text, _after_blanks(text, 0))
            return _Read(text, repairs, value, end)
        except json.JSONDecodeError as fault:
            mended = _comma(text, fault.pos) if len(repairs) < MAX_COMMAS else None
            if mended is None:
                return _Read(text, repairs, fault=fault)
            text, repair = mended
            repairs = (*repairs, repair)


def _comma(text: str, fault: int) -> tuple[str, Message] | None:
    """The text with one comma less or more at a fault; None where that is not what is wrong."""
    here = _after_blanks(text, fault)
    before = len(text[:fault].rstrip(" \t\r\n")) - 1 if here < len(text) else -1
    if before < 0:
        return None
    line = text.count("\n", 0, here) + 1
    after = _after_blanks(text, here + 1)
    too_many = message(N_("took a comma too many out of line {line} of the file"), line=line)
    if text[here] == "," and (text[before] in "[{," or text[after : after + 1] in ("]", "}")):
        return text[:here] + text[here + 1 :], too_many
    if text[before] == "," and text[here] in "]}":
        return text[:before] + text[before + 1 :], too_many
    # On one line it may as well be a quotation mark that lacks its backslash, which is another text.
    is_own_line = "\n" in text[before:here]
    if is_own_line and text[here] in '{["' and (text[before] in '}]"' or text[before].isalnum()):
        return f"{text[:here]},{text[here:]}", message(
            N_("put a missing comma into line {line} of the file"), line=line
        )
    return None


def _salvaged(path: Path, read: _Read) -> Rescued:
    """The whole cells of a text that is broken somewhere."""
    fault = read.fault
    assert fault is not None
    found = _around_fault(read.text)
    ends = fault.pos >= len(read.text.rstrip()) or fault.msg.startswith("Unterminated")
    if not found.cells and ends and not found.jumps:
        raise UnusableNotebook(
            f"{path} ends in the middle, in line {fault.lineno}: it was not saved or copied whole; "
            "look for an earlier copy, for example in .ipynb_checkpoints beside it."
        )
    if not found.cells:
        raise UnusableNotebook(f"{path} is not a notebook: line {fault.lineno} is not JSON.")
    if found.jumps:
        said = N_("the file is damaged in line {line}: read its {count} whole cells; what stood between them is lost")
    elif found.is_closed:
        said = N_("the file is damaged in line {line}, behind its {count} cells: none of them is lost")
    elif ends:
        said = N_("the file ends in the middle, in line {line}: read its {count} whole cells; what came then is lost")
    else:
        said = N_("the file is damaged in line {line}: read the {count} whole cells before; what came then is lost")
    repair = message(said, line=fault.lineno, count=len(found.cells))
    is_cut = bool(found.jumps) or not found.is_closed
    return Rescued(_as_notebook(found.document), (*read.repairs, repair), is_cut)


@dataclass
class _Around:
    """What could be read of a broken object: its values, the whole cells among them, and how often some were lost."""

    document: dict[str, Any] = field(default_factory=dict)
    cells: list[dict[str, Any]] = field(default_factory=list)
    jumps: int = 0
    is_closed: bool = False


def _around_fault(text: str) -> _Around:
    """Read what can be read of a broken object."""
    decoder = json.JSONDecoder()
    found = _Around()
    place = _after_blanks(text, 0)
    try:
        while text[place] in "{,":
            key, place = decoder.raw_decode(text, _after_blanks(text, place + 1))
            place = _after_blanks(text, place)
            if not isinstance(key, str) or text[place] != ":":
                break
            place = _after_blanks(text, place + 1)
            if key == "cells" and text[place] == "[" and not found.cells:
                found.document[key] = found.cells
                place = _read_cells(text, place, found)
                found.is_closed = text[place] == "]"
                place += 1
            else:
                found.document[key], place = decoder.raw_decode(text, place)
            place = _after_blanks(text, place)
    except (json.JSONDecodeError, IndexError):
        pass
    return found


def _read_cells(text: str, place: int, found: _Around) -> int:
    """Read whole cells from the bracket of their list on, past broken ones; where that ends."""
    decoder = json.JSONDecoder()
    place += 1
    start = _CELL.match(text, place)
    while (begin := _after_blanks(text, place)) < len(text) and text[begin] != "]" and len(found.cells) < MAX_SALVAGED:
        try:
            cell, end = decoder.raw_decode(text, begin)
            begin = _after_blanks(text, end)
            if isinstance(cell, dict):
                found.cells.append(cell)
                if text[begin : begin + 1] in (",", "]"):
                    place = begin + (text[begin] == ",")
                    continue
        except json.JSONDecodeError:
            pass
        # On behind the next line that looks like the first of a cell, as deep as that of the first one: nothing within
        # quotation marks looks like that, and no output at that depth.
        following = text.find(start[0], place + 1) if start and found.jumps < MAX_JUMPS else -1
        if following < 0:
            return len(text)
        found.jumps += 1
        place = following
    return begin


def _merged(path: Path, text: str, line: int) -> Rescued:
    """One of the two sides of a merge conflict, where they agree in what counts."""
    sides = sides_of(text) if len(text) <= MAX_RESCUED else None
    documents = []
    for side in sides or ():
        pairs = _Pairs()
        read = _with_commas(side, pairs)
        is_whole = read.fault is None and not read.text[read.end :].strip(_FILLING)
        if is_whole and isinstance(read.value, dict) and not pairs.twice.keys() & _DECIDING:
            documents.append((read.value, read.repairs))
    if len(documents) < 2:
        raise UnusableNotebook(
            f"{path} holds a merge conflict, in line {line}, whose sides are no whole notebooks; resolve it and hand "
            "the notebook in again."
        )
    (first, repairs), (second, others) = documents
    one = as_one(Sides(first, second))
    if one is None:
        raise UnusableNotebook(
            f"{path} holds a merge conflict, in line {line}, and its two sides differ in the student's own code or "
            "answers; which of them counts has to be asked."
        )
    document, said = one
    commas = [*repairs, *(other for other in others if other not in repairs)]
    return Rescued(_as_notebook(document), (message(said, line=line), *commas))


def _without_second(path: Path, document: dict[str, Any], rest: str, line: int) -> dict[str, Any]:
    """The notebook, where another one stands behind it: whichever holds all that counts."""
    try:
        second, _ = json.JSONDecoder().raw_decode(rest, _after_blanks(rest, 0))
    except json.JSONDecodeError:
        return document
    if not isinstance(second, dict) or "cells" not in second:
        return document
    one = as_one(Sides(document, second))
    if one is None:
        raise UnusableNotebook(
            f"{path} holds two notebooks, the second one from line {line} on, that differ in the student's own code or "
            "answers; which of them counts has to be asked."
        )
    return _as_notebook(one[0])


def _told_twice(path: Path, twice: dict[str, None]) -> list[Message]:
    """A repair about keys that stand twice; refused where they say what the code is."""
    if deciding := [key for key in twice if key in _DECIDING]:
        raise UnusableNotebook(
            f"{path} holds two different values of {deciding[0]!r} in one place, as after a merge by hand; which of "
            "them counts has to be asked."
        )
    if not twice:
        return []
    names = ", ".join(repr(key)[:30] for key in list(twice)[:MAX_TOLD])
    return [message(N_("took the last value of what stands twice in one place of the file: {names}"), names=names)]


def _expect_known_code(path: Path, document: dict[str, Any]) -> None:
    """Refuse code with characters that could not be read, unless they stand in a comment."""
    room = MAX_UNCERTAIN
    for number, cell in enumerate(_cells(document), start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        # That of format 4 or that of format 3, whichever the other parts of the file make it.
        texts = [text for key in ("source", "input") if _UNKNOWN in (text := text_of(cell.get(key)))]
        room -= sum(map(effort, texts))
        if room < 0 or not all(map(_is_known, texts)):
            raise UnusableNotebook(
                f"{path} is not in UTF-8, and the code of its cell {number} can't be read for certain; save it in "
                "JupyterLab and hand it in again."
            )


def _cells(document: dict[str, Any]) -> Iterator[Any]:
    """The cells of a notebook of format 4, or of the sheets of one of format 3."""
    sheets = document.get("worksheets")
    for sheet in (document, *(sheets if isinstance(sheets, list) else ())):
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        yield from cells if isinstance(cells, list) else ()


def _is_known(code: str) -> bool:
    """Whether code means the same whatever stood in the place of what could not be read."""
    one, other = (tree(code.replace(_UNKNOWN, instead)) for instead in "ab")
    return one is not None and other is not None and list(map(ast.dump, one)) == list(map(ast.dump, other))


def _after_blanks(text: str, place: int) -> int:
    return _BLANK.match(text, place).end()  # type: ignore[union-attr] # it matches anything
