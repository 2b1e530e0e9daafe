"""The code that is run for a student's cell, where that is not its text: every line of it is the student's."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from autograder.definitions import definitions, free_names, is_python, seems_to_define, tree
from autograder.messages import N_, Message, message
from autograder.notebook import Cell

MAX_PIECES = 4
"""Into how many cells one function may have been cut."""
ELSEWHERE = frozenset({"tkinter", "turtle", "turtledemo", "idlelib", "google"})
"""Modules that need a screen, or that one service has alone (``google.colab``), wherever Python itself finds them."""
_EXTENSION = re.compile(r"%(?:re)?load_ext\s+([\w.]+)\s*$")
_IMPORTED = re.compile(r"^[ \t]*(?:from|import)\s+([\w.]+)", re.MULTILINE)
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
    answers: Sequence[Cell], others: Sequence[Cell], names: Set[str], own_modules: bool
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
    statements = {statement: list(ast.walk(statement)) for body in trees.values() for statement in body}
    if len({module for statement in statements for module in _modules(statement)}) > MAX_MODULES:
        return changed, told
    absent = {name for statement in statements for name in _bound_to_nothing(statement, own_modules)}
    defined = {name for cell in (*answers, *others) for name in definitions(cell.source)}
    absent |= {"input"} - defined - set(_stored(node for nodes in statements.values() for node in nodes))
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


def _stored(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that are given something, anywhere: those are no builtins."""
    for node in nodes:
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _written_into(statement: ast.stmt) -> set[str]:
    """The names of what an assignment changes without giving it a new value, as ``shapes["Q"] = …`` does."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    bases = {node for target in targets for node in ast.walk(target) if isinstance(node, ast.Subscript | ast.Attribute)}
    return {node.id for base in bases for node in ast.walk(base.value) if isinstance(node, ast.Name)}


def _unneeded(
    statements: Mapping[ast.stmt, Sequence[ast.AST]], names: Set[str], absent: Collection[str], own_modules: bool
) -> set[ast.stmt]:
    """The statements that can only fail, that no other one relies on, and that give none of these names.

    Each comes with all that stands in it.
    """
    strays: set[ast.stmt] = set()
    binding: dict[str, list[ast.stmt]] = {}
    relied_on = []
    for statement, nodes in statements.items():
        calls = isinstance(statement, ast.Expr | ast.Assign) and _calls(nodes, absent)
        fails = calls or _fails(statement, own_modules)
        bound = tuple(_binds(statement)) if fails else ()
        if fails and names.isdisjoint([*bound, *_written_into(statement)]):
            strays.add(statement)
            for name in bound:
                binding.setdefault(name, []).append(statement)
        else:
            relied_on.append(statement)
    while relied_on and binding:  # what these take from a stray makes it one of them
        for name in {node.id for node in statements[relied_on.pop()] if isinstance(node, ast.Name)}:
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


def _calls(nodes: Iterable[ast.AST], names: Collection[str]) -> bool:
    """Whether there is a call of these names or of what belongs to them."""
    for node in nodes:
        if isinstance(node, ast.Call):
            function = node.func
            while isinstance(function, ast.Attribute):
                function = function.value
            if isinstance(function, ast.Name) and function.id in names:
                return True
    return False


def _lines_of_their_own(body: Sequence[ast.stmt]) -> dict[ast.stmt, tuple[int, int]]:
    """The first line, and the one behind the last, from 0, of each statement that shares none with another."""
    places = {}
    for statement in body:
        decorators = getattr(statement, "decorator_list", [])
        start = min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        places[statement] = (start, statement.end_lineno or statement.lineno)
    held = Counter(line for start, end in places.values() for line in range(start, end))
    return {one: (start, end) for one, (start, end) in places.items() if all(held[at] == 1 for at in range(start, end))}


def kept_of_changed(changed: Mapping[int, tuple[str, str]], own: Sequence[str]) -> dict[int, tuple[str, list[str]]]:
    """What changed cells of the course hold of the student's and the student's other code needs.

    That is functions, classes, imports and plain assignments, and what these need in turn, but for names that the
    course's own cell gives.

    Args:
        changed: the text that came in and the course's own, by a number of the cell.
        own: the texts of the student's cells, in order.

    Returns:
        the text, and the names that it is kept for, by the cell's number; nothing for a cell of which nothing is kept.
    """
    brought = [_Brought(number, *found) for number, texts in changed.items() for found in _brought(*texts)]
    giving: dict[str, list[_Brought]] = {}
    for one in brought:
        for name in one.names:
            giving.setdefault(name, []).append(one)
    waiting, wanted = list(_taken_from_elsewhere(own) & giving.keys()), set[str]()
    kept: set[_Brought] = set()
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        wanted.add(name)
        for one in giving[name]:
            if one not in kept:
                kept.add(one)
                waiting += free_names(one.text) & giving.keys()
    texts: dict[int, list[str]] = {}
    names: dict[int, dict[str, None]] = {}
    for one in brought:
        if one in kept:
            texts.setdefault(one.number, []).append(one.text)
            names.setdefault(one.number, {}).update(dict.fromkeys(name for name in one.names if name in wanted))
    return {number: ("\n".join(text), list(names[number])) for number, text in texts.items()}


class _Brought(NamedTuple):
    """A statement of a student's in a cell of the course: its cell, its place there, its lines, what it gives."""

    number: int
    place: int
    text: str
    names: tuple[str, ...]


def _brought(changed: str, released: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    lines = changed.split("\n")
    of_the_course = {name for statement in tree(released) or () for name in _given_by(statement)}
    for statement, (start, end) in _lines_of_their_own(tree(changed) or []).items():
        names = tuple(dict.fromkeys(_given_by(statement)))
        new = tuple(name for name in names if name not in of_the_course)
        # An import may well repeat one of the course's: that gives nothing else.
        if new and (new == names or isinstance(statement, ast.Import | ast.ImportFrom)):
            yield start, "\n".join(lines[start:end]), new


def _given_by(statement: ast.stmt) -> Iterator[str]:
    """The names that a definition, an import or a plain assignment gives; none of what is something else."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from _binds(statement)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        named = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
        if all(isinstance(one, ast.Name) for one in named):
            yield from (one.id for one in named if isinstance(one, ast.Name))


def _taken_from_elsewhere(cells: Sequence[str]) -> set[str]:
    """The names that these cells, run in order, take from others."""
    taken: set[str] = set()
    given: set[str] = set()
    for text in cells:
        taken |= free_names(text) - given
        given |= {name for statement in tree(text) or () for name in _given_by(statement)}
    return taken
