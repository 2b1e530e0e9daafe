"""The code that is run for a student's cell, where that is not its text: every line of it is the student's."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from autograder.definitions import definitions, is_python, seems_to_define, tree
from autograder.messages import N_, Message, message
from autograder.notebook import Cell

MAX_PIECES = 4
"""Into how many cells one function may have been cut."""
ELSEWHERE = frozenset({"tkinter", "turtle", "turtledemo", "idlelib", "google"})
"""Modules that need a screen, or that one service has alone (``google.colab``), wherever Python itself finds them."""
_EXTENSION = re.compile(r"%(?:re)?load_ext\s+([\w.]+)\s*$")
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
_INVISIBLE = dict.fromkeys([0xFEFF, 0x200B, 0x200C, 0x200D, 0x2060]) | dict.fromkeys([0xA0, 0x202F], " ")
"""Characters that nobody sees, which web pages and converters leave; some are as wide as a space."""
MAX_MODULES = 200
"""No honest notebook imports more, and each has to be looked for."""
MAX_LINES, MAX_SHOWN = 3, 60
"""How many of the lines that were left out are shown, and how many characters of each."""


def cleared(cells: Sequence[Cell]) -> tuple[list[Cell], list[Message]]:
    """The cells, without characters that nobody sees where these alone keep them from being Python."""
    clear, told = list(cells), []
    for place, cell in enumerate(cells):
        if cell.kind != "code" or is_python(cell.source):
            continue
        text = cell.source.translate(_INVISIBLE)
        if text != cell.source and is_python(text):
            clear[place] = replace(cell, source=text)
            told.append(message(N_("cell {cell} was run without its invisible characters"), cell=cell.index + 1))
    return clear, told


def joined(cells: Sequence[Cell], names: Collection[str]) -> tuple[list[Cell], list[Message]]:
    """The cells, functions of these names that had been cut in two put together in the first of their pieces.

    Only where it can't mean anything else: the first piece ends within the function, the next is no code by itself,
    and both together are. The later pieces are left empty.
    """
    whole, told = list(cells), []
    place = 0
    while place < len(whole):
        first = whole[place]
        pieces = _pieces(whole[place : place + MAX_PIECES], names) if first.kind == "code" else 0
        if pieces > 1:
            text = "\n".join(cell.source for cell in whole[place : place + pieces])
            [name] = [name for name in names if name in definitions(text)][:1]
            whole[place] = replace(first, source=text)
            for later in range(place + 1, place + pieces):
                whole[later] = replace(whole[later], source="")
            said = N_("cells {first} to {last} were joined: the code of {name} had been cut into pieces")
            told.append(message(said, first=first.index + 1, last=whole[place + pieces - 1].index + 1, name=name))
        place += max(pieces, 1)
    return whole, told


def _pieces(cells: Sequence[Cell], names: Collection[str]) -> int:
    """How many of these cells, from the first on, are pieces of one function of these names; 0 for none."""
    text = cells[0].source
    if not any(seems_to_define(name, text) for name in names) or not _is_open(text, names):
        return 0
    for count, cell in enumerate(cells[1:], start=2):
        if cell.kind == "code" and not cell.source.strip():
            continue
        if cell.kind != "code" or is_python(cell.source):
            return 0
        text += "\n" + cell.source
        if any(name in definitions(text) for name in names) and not _is_open(text, names):
            return count
    return 0


def _is_open(text: str, names: Collection[str]) -> bool:
    """Whether it ends within a function of these names, as far as one can see."""
    statements = tree(text)
    if not statements:
        return True
    last = statements[-1]
    return isinstance(last, ast.FunctionDef) and last.name in names and not _returns(last.body[-1])


def _returns(statement: ast.stmt) -> bool:
    """Whether nothing can come behind it."""
    if isinstance(statement, ast.If):
        return bool(statement.orelse) and _returns(statement.body[-1]) and _returns(statement.orelse[-1])
    if isinstance(statement, ast.With):
        return _returns(statement.body[-1])
    return isinstance(statement, ast.Return | ast.Raise)


def without_strays(
    answers: Sequence[Cell], others: Sequence[Cell], names: Collection[str], own_modules: bool
) -> tuple[dict[int, str], list[Message]]:
    """The texts of answers, by index, without the lines before or around them that can only fail here.

    These are imports of what no grader has, which editors put there unasked or another service needs, and what is
    called from them, or asked of a keyboard. A line that any code relies on stays.

    Args:
        answers: cells that hold answers.
        others: the other cells that are run.
        names: what the answers are called, on which the grader relies.
        own_modules: whether the notebook writes modules of its own, so that an unknown name may be one of them.
    """
    changed: dict[int, str] = {}
    told: list[Message] = []
    if not any(_may_fail(cell.source, own_modules) for cell in (*answers, *others)):
        return changed, told
    trees = {cell.index: tree(cell.source) or [] for cell in (*answers, *others)}
    statements = [statement for body in trees.values() for statement in body]
    if len({module for statement in statements for module in _modules(statement)}) > MAX_MODULES:
        return changed, told
    absent = {name for statement in statements for name in _bound_to_nothing(statement, own_modules)}
    defined = {name for cell in (*answers, *others) for name in definitions(cell.source)}
    absent |= {"input"} - defined - _stored(statements)
    strays = _unneeded(statements, names, absent, own_modules)
    for cell in answers:
        lines = cell.source.split("\n")
        own = _lines_of_their_own(trees[cell.index])
        places = [own[statement] for statement in trees[cell.index] if statement in strays and statement in own]
        places += [(at, at + 1) for at, line in enumerate(lines) if _loads_nothing(line, own_modules)]
        if places:
            texts = ["\n".join(lines[start:end]).strip() for start, end in sorted(places)]
            for start, end in places:
                lines[start:end] = [""] * (end - start)
            changed[cell.index] = "\n".join(lines)
            more = f" … ({len(texts) - MAX_LINES} more)" if len(texts) > MAX_LINES else ""
            text = " · ".join(_short(text) for text in texts[:MAX_LINES]) + more
            said = N_("left out of cell {cell} what can't run here and what no answer uses: {text}")
            told.append(message(said, cell=cell.index + 1, text=text))
    return changed, told


def _short(text: str) -> str:
    line = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in " ".join(text.split()))
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


def _may_fail(source: str, own_modules: bool) -> bool:
    """By the look of it, and so in no time: most notebooks hold nothing of the kind."""
    if "input" in source or "load_ext" in source:
        return True
    return any(_is_absent(module, own_modules) for module in set(_IMPORTED.findall(source)))


def _stored(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that are given something, anywhere: those are no builtins."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    given = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return given | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _written_into(statement: ast.stmt) -> set[str]:
    """The names of what an assignment changes without giving it a new value, as ``shapes["Q"] = …`` does."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    bases = {node for target in targets for node in ast.walk(target) if isinstance(node, ast.Subscript | ast.Attribute)}
    return {node.id for base in bases for node in ast.walk(base.value) if isinstance(node, ast.Name)}


def _unneeded(
    statements: Iterable[ast.stmt], names: Collection[str], absent: Collection[str], own_modules: bool
) -> set[ast.stmt]:
    """The statements that can only fail, that no other one relies on, and that give none of these names."""
    strays: set[ast.stmt] = set()
    binding: dict[str, list[ast.stmt]] = {}
    relied_on = []
    for statement in statements:
        calls = isinstance(statement, ast.Expr | ast.Assign) and any(_calls(statement, absent))
        gives = {*_binds(statement), *_written_into(statement)}
        if (calls or _fails(statement, own_modules)) and gives.isdisjoint(names):
            strays.add(statement)
            for name in _binds(statement):
                binding.setdefault(name, []).append(statement)
        else:
            relied_on.append(statement)
    while relied_on:  # what these take from a stray makes it one of them
        for name in _names(relied_on.pop()):
            for statement in binding.pop(name, ()):
                strays.discard(statement)
                relied_on.append(statement)
    return strays


def _modules(statement: ast.stmt) -> list[str]:
    """The modules that it imports from, but for those that lie beside it."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        return [statement.module]
    return []


def _fails(statement: ast.stmt, own_modules: bool) -> bool:
    """Whether it imports from what is not here, and nothing else."""
    modules = _modules(statement)
    return bool(modules) and all(_is_absent(module, own_modules) for module in modules)


def _loads_nothing(line: str, own_modules: bool) -> bool:
    """Whether it asks for an extension of IPython's that is not here."""
    asked = _EXTENSION.match(line)
    return asked is not None and _is_absent(asked[1], own_modules)


def _bound_to_nothing(statement: ast.stmt, own_modules: bool) -> Iterator[str]:
    if _fails(statement, own_modules):
        yield from _binds(statement)


def _is_absent(module: str, own_modules: bool) -> bool:
    root = module.split(".")[0]
    if root in ELSEWHERE:
        return root != "google" or module.startswith("google.colab")
    return not own_modules and not _is_installed(root)


@functools.lru_cache(maxsize=1024)
def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return True  # it is something odd, and not for us to leave out


def _binds(statement: ast.stmt) -> Iterator[str]:
    """The names that it gives a value."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
    else:
        yield from (n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _names(statement: ast.stmt) -> Iterator[str]:
    yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _calls(statement: ast.stmt, names: Collection[str]) -> Iterator[bool]:
    """Whether its calls are of these names or of what belongs to them."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            function = node.func
            while isinstance(function, ast.Attribute):
                function = function.value
            yield isinstance(function, ast.Name) and function.id in names


def _lines_of_their_own(body: Sequence[ast.stmt]) -> dict[ast.stmt, tuple[int, int]]:
    """The first line, and the one behind the last, from 0, of each statement that shares none with another."""
    places = {}
    for statement in body:
        decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
        start = min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        places[statement] = (start, statement.end_lineno or statement.lineno)
    held = Counter(line for start, end in places.values() for line in range(start, end))
    return {one: (start, end) for one, (start, end) in places.items() if all(held[at] == 1 for at in range(start, end))}


def more_than_released(changed: str, released: str, others: Sequence[str]) -> tuple[str, list[str]]:
    """What a changed cell of the course brings along and other cells use: imports and functions of the student's.

    Args:
        changed: the cell that came in.
        released: the course's own, which is run.
        others: the texts of the student's own cells.

    Returns:
        their text, and the names that it defines.
    """
    brought = {
        name: place
        for statement, place in _lines_of_their_own(tree(changed) or []).items()
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef)
        for name in ([statement.name] if isinstance(statement, ast.FunctionDef) else _binds(statement))
        if name not in definitions(released)
    }
    if not brought:
        return "", []
    defined = {name for text in others for name in definitions(text)}
    used = {name for text in others for statement in tree(text) or () for name in _names(statement)}
    names = [name for name in brought if name in used and name not in defined]
    lines = changed.split("\n")
    kept = ["\n".join(lines[start:end]) for start, end in dict.fromkeys(brought[name] for name in names)]
    return "\n".join(kept), names
