"""What a cell defines, told from its syntax tree: nothing is run for it."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import re
import symtable
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import NamedTuple

MAX_CODE = 1 << 20
"""Characters of code in a notebook, or bytes as they cross the channel; with more it is no answer to an exercise."""
MAX_PARSED = 64_000
"""Characters of a cell that is looked into: Python's parser takes minutes and gigabytes for absurd megabytes."""
_NO_PYTHON = re.compile(r"(?:\w[\w, ]*=\s*)?[%!].*|\?.*|.*\?")
"""A line magic, a shell command or a request for help; what it does defines no exercise."""
# Python 3.11 counts the depth of all trees that it builds in one place: two threads that build at the same time can
# each find the other's count, which is a SystemError.
_PARSING = threading.Lock()
_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]|\n")


class _Parsed(NamedTuple):
    """A text as Python reads it, without IPython's own lines, and its statements."""

    text: str
    body: list[ast.stmt]


_TREES: ContextVar[dict[str, _Parsed | None] | None] = ContextVar("trees", default=None)


class Definition(NamedTuple):
    """What stands under a name.

    Attributes:
        shape: of the function or of the value, without docstring, comments and layout; None of what is neither.
        whole: of the whole statement.
        empty: the body only says that it is not written yet, or nothing at all.
    """

    shape: str | None
    whole: str | None
    empty: bool = False


class _Read(NamedTuple):
    is_python: bool
    defined: Mapping[str, Definition]


def definitions(source: str) -> Mapping[str, Definition]:
    """The names that a cell defines at its top level; none where no tree can be made of it."""
    return _read(source).defined


def is_python(source: str) -> bool:
    """Whether a tree can be made of it."""
    return _read(source).is_python


@functools.lru_cache(maxsize=4096)  # a course's own cells come with every submission
def _read(source: str) -> _Read:
    # The trees themselves are not kept for long: they take a thousand times the room of their text.
    body = tree(source)
    defined = {name: defined for statement in body or () for name, defined in defined_by(statement)}
    return _Read(body is not None, MappingProxyType(defined))


@contextlib.contextmanager
def each_parsed_once() -> Iterator[None]:
    """Within it a text is parsed once, however often its tree is asked for."""
    token = _TREES.set({})
    try:
        yield
    finally:
        _TREES.reset(token)


def tree(source: str) -> list[ast.stmt] | None:
    """The cell's statements, on their own lines; None where it is no Python, or too long to be looked into."""
    parsed = _parsed(source)
    return None if parsed is None else parsed.body


def effort(source: str) -> int:
    """How much there is to look into: its words and signs, which cost the same wherever they stand."""
    return 0 if len(source) > MAX_PARSED else _words_and_signs(source)


@functools.lru_cache(maxsize=1024)  # asked for at each step of a notebook, and mostly about the course's own cells
def _words_and_signs(source: str) -> int:
    return len(_WORD_OR_SIGN.findall(source))


def free_names(source: str) -> frozenset[str]:
    """The names that it reads and gives no value at its top level: what it takes from other cells."""
    parsed = _parsed(source)
    if parsed is None:
        return frozenset()
    try:
        table = symtable.symtable(parsed.text, "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a tree can be made of it, and it can't be run
        return frozenset(node.id for one in parsed.body for node in ast.walk(one) if isinstance(node, ast.Name))
    given = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    return frozenset(_read_from_outside(table) - given)


def _read_from_outside(table: symtable.SymbolTable) -> set[str]:
    """The module's names that a scope and those within it read."""
    is_module = table.get_type() == "module"
    names = {one.get_name() for one in table.get_symbols() if one.is_referenced() and (is_module or one.is_global())}
    return names.union(*map(_read_from_outside, table.get_children()))


def _parsed(source: str) -> _Parsed | None:
    trees = _TREES.get()
    if trees is None:
        return _parse(source)
    if source not in trees:
        trees[source] = _parse(source)
    return trees[source]


def _parse(source: str) -> _Parsed | None:
    if len(source) > MAX_PARSED:
        return None
    tried = set()
    for instead in (None, "", "pass"):
        text = source if instead is None else _without_magics(source, instead)
        if text in tried:
            continue
        tried.add(text)
        try:
            with _PARSING:
                return _Parsed(text, ast.parse(text).body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def seems_to_define(name: str, source: str) -> bool:
    """By the look of it: a cell with a syntax error has no tree to ask."""
    name = re.escape(name)
    pattern = rf"^[ \t]*(def|class)[ \t]+{name}\b|^{name}[ \t]*(:[^=\n]+)?=(?!=)"
    return re.search(pattern, source, re.MULTILINE) is not None


def _without_magics(source: str, instead: str) -> str:
    lines = source.split("\n")
    for place, line in enumerate(lines):
        code = line.strip()
        if _NO_PYTHON.fullmatch(code):
            lines[place] = line[: len(line) - len(line.lstrip())] + instead if instead else ""
    return "\n".join(lines)


def defined_by(statement: ast.stmt) -> Iterator[tuple[str, Definition]]:
    """The names that one statement defines."""
    if isinstance(statement, ast.FunctionDef):
        body = statement.body[ast.get_docstring(statement, clean=False) is not None :]
        whole = _shape([*statement.decorator_list, statement.args, *body])
        yield statement.name, Definition(whole, whole, _is_empty(body))
    elif isinstance(statement, ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name, Definition(None, _shape([statement]))
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        shape = _shape([] if statement.value is None else [ast.Expr(statement.value)])
        yield from ((target.id, Definition(shape, shape)) for target in targets if isinstance(target, ast.Name))
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        whole = _shape([statement])
        yield from ((alias.asname or alias.name, Definition(None, whole)) for alias in statement.names)


def _is_empty(body: list[ast.stmt]) -> bool:
    if len(body) > 1:
        return False
    for statement in body:
        if isinstance(statement, ast.Raise) and isinstance(statement.exc, ast.Call | ast.Name):
            raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
            return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
        is_dots = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        return isinstance(statement, ast.Pass) or is_dots
    return True


def _shape(nodes: Sequence[ast.AST]) -> str | None:
    """What these do, without comments and layout, as a hash; None where that can't be told."""
    try:
        return hashlib.sha256("\n".join(map(ast.dump, nodes)).encode()).hexdigest()
    except (RecursionError, UnicodeEncodeError):  # a sum of a thousand terms; no stub is that deep
        return None
