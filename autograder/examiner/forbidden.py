"""Finds the finished article in the source: what the answer reaches, by whatever name, without running anything.

The answer's own function is followed into the helpers, aliases and imports of other cells. What it does not reach is
no offence: a comment, a string, a function of that name of one's own, a comparison beside the answer, a mention.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autograder.channel.proxy import ForbiddenCall
from autograder.examiner import bindings
from autograder.examiner.articles import Articles
from autograder.examiner.bindings import Bound, Function, Scope
from autograder.examiner.hiding import Hiding, Hidings
from autograder.examiner.meanings import IMPORTERS, LOOK_UPS, MAX_STEPS, PICKERS, TELLING, Meanings

MAX_CHARACTERS = 150_000
"""Of the cells that are searched; the largest are left out where there is more."""

TOO_LARGE = "more source than can be searched"

ASKING = ("isinstance", "issubclass", "print", "repr", "help", "callable", "hasattr", "id")
"""The built-in functions that call nothing they are given."""

RUNNERS = ("builtins.exec", "builtins.eval", "builtins.compile")


@dataclass
class Found:
    """What a search has come to.

    Attributes:
        breach: the first forbidden thing: its dotted name, and the line of the answer that leads to it. What is more
            than can be searched is not searched to the end: then `TOO_LARGE` is among the hidings.
        hidings: where there is no breach, by what the answer could hide which functions it calls, each once, with the
            line of the answer that leads to it, or None where it stands beside the answer. Most of it is innocent: a
            person should read it.
    """

    breach: ForbiddenCall | None = None
    hidings: list[Hiding] = field(default_factory=list)


def search(cells: Sequence[str], exercise: str, forbidden: Sequence[str]) -> Found:
    """Look for what `exercise` may not reach.

    Args:
        cells: the sources of the cells that run before the exercise is examined, in order.
        exercise: the name of the answer's function.
        forbidden: dotted names.
    """
    return _Search(cells, forbidden).search(exercise) if forbidden else Found()


class _Role:
    """What is done with the expression that a node is."""

    USED = "used"
    CALLED = "called"
    PART = "part"  # of a longer dotted name
    MENTIONED = "mentioned"  # neither called nor passed on


class _Visit(NamedTuple):
    node: ast.AST
    scope: Scope | None
    role: str
    line: int | None
    """Where the answer uses it, if it is not the answer itself: what its author can find is in the answer's cell."""


class _Search:
    """Follows the names of the notebook, beginning with the answer's."""

    def __init__(self, cells: Sequence[str], forbidden: Sequence[str]) -> None:
        self._names = Articles(forbidden)
        searched, self._given_up = _within_bounds(cells)
        self._cells = [bindings.read(source) for source in searched]
        bound = [one for cell in self._cells for one in cell.bound]
        self._bound: dict[str, list[Bound]] = {}
        for one in bound:
            self._bound.setdefault(one.name, []).append(one)
        self._meanings = Meanings(bound)
        self._given_up |= self._meanings.given_up
        self._pending: deque[tuple[str, int | None]] = deque()
        self._waiting: dict[str, list[tuple[ast.AST, int | None]]] = {}  # by the attribute that has to be read first
        self._released: deque[tuple[ast.AST, int | None]] = deque()
        self._reads: set[str] = set()
        self._reads_all = False
        self._seen: set[int] = set()  # a function may stand behind thousands of names
        self._constant_keys: set[int] = set()
        self._steps = 0
        self._judged: set[tuple[str, bool]] = set()
        self._loose = False  # whether a module is passed on, from which anything may be taken
        self._unresolved: list[tuple[str, int | None]] = []  # the attributes that may have been taken from it
        self._found = Found()
        self._hidings = Hidings()

    def search(self, exercise: str) -> Found:
        """Look at all that the answer reaches, or until the first breach."""
        self._pending.append((exercise, None))
        names: set[str] = set()
        while self._pending or self._released:
            if self._released:
                self._walk(*self._released.popleft())
            else:
                name, line = self._pending.popleft()
                if name not in names:
                    names.add(name)
                    self._follow(name, line)
            if self._found.breach:
                return self._found
        if self._unresolved and self._loose:
            # It may be that module's, or anything else's: whether it was called, the watch sees.
            own = set(self._own_names())
            for part, line in self._unresolved:
                if part not in own:
                    self._hidings.add(part, line)
        for cell in self._cells:
            self._hidings.see_beside(cell)
        if self._given_up or self._meanings.given_up:
            self._hidings.add(TOO_LARGE, None)
        self._found.hidings = list(self._hidings)
        return self._found

    def _follow(self, name: str, line: int | None) -> None:
        for one in self._standing(name):
            if isinstance(one.to, str):
                self._see(one.to, line, called=True)
            elif one.attribute is None or one.attribute.startswith("__") or self._is_read(one.attribute):
                self._walk(one.to, line)
            else:
                self._waiting.setdefault(one.attribute, []).append((one.to, line))

    def _standing(self, name: str) -> Sequence[Bound]:
        """What a name stands for in the end: its last sure definition, and what may have changed it since."""
        bound = self._bound.get(name, [])
        made = [one for one in bound if one.how not in ("changes", "called")]
        if made and all(isinstance(one.to, str) for one in made):
            # A module: `torch.testing.assert_close(…)` uses it and does not change it.
            bound = [one for one in bound if one.how != "called"]
        last = max((place for place, one in enumerate(bound) if one.how == "sets"), default=0)
        return bound[last:]

    def _walk(self, node: ast.AST, line: int | None) -> None:
        """Look at the code of a definition; names of the notebook that it uses are looked at later."""
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        stack = [_Visit(node, None, _Role.USED, line)]
        while stack:
            self._steps += 1
            if self._steps > MAX_STEPS:
                self._given_up = True
                return
            visit = stack.pop()
            here = getattr(visit.node, "lineno", None) if visit.line is None else visit.line
            stack += self._look(visit, here)
            stack += reversed(list(self._inside(visit)))

    def _look(self, visit: _Visit, line: int | None) -> Iterable[_Visit]:
        """Judge one node; a text that it runs is looked at next."""
        node, scope = visit.node, visit.scope
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and visit.role != _Role.MENTIONED:
            if scope is None or scope.find(node.id) is None:
                self._pending.append((node.id, line))
        if isinstance(node, ast.Attribute):
            self._read(node.attr, line)
            if node.attr == "__dict__" and id(node) not in self._constant_keys:
                self._read_all(self._meanings.of(node, scope).names, node.attr, line)
        if visit.role in (_Role.USED, _Role.CALLED) and isinstance(
            node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.NamedExpr
        ):
            names = self._meanings.of(node, scope).names
            for name in names:
                self._see(name, line, called=visit.role == _Role.CALLED)
            if visit.role == _Role.USED:
                self._loose = self._loose or any(map(self._names.is_module, names))
            if not names:
                for attribute in _attributes(node):
                    self._doubt(attribute, line)
        if isinstance(node, ast.Subscript):
            self._by_key(node.value, [node.slice], scope, line)
        return self._look_at_call(node, scope, line) if isinstance(node, ast.Call) else ()

    def _look_at_call(self, node: ast.Call, scope: Scope | None, line: int | None) -> Iterable[_Visit]:
        if isinstance(node.func, ast.Attribute) and node.func.attr in LOOK_UPS:
            self._by_key(node.func.value, node.args[:1], scope, line)
        texts = [text for one in node.args for text in self._meanings.of(one, scope).texts]
        for name in self._meanings.of(node.func, scope).names:
            if name == "builtins.getattr" and node.args:
                key = node.args[1] if len(node.args) > 1 else node.args[0]  # where the module was given before
                keys = self._meanings.of(key, scope).texts
                self._by_text(keys, line)
                if not keys:
                    self._read_all(self._meanings.of(node.args[0], scope).names, name, line)
            elif name == "builtins.vars" and node.args and id(node) not in self._constant_keys:
                self._read_all(self._meanings.of(node.args[0], scope).names, name, line)
            elif name in PICKERS or name == "functools.partial":
                self._by_text(texts, line)
                if name in PICKERS and not texts and not name.endswith("itemgetter"):
                    self._hidings.add(name, line)
            elif name in IMPORTERS and not texts:
                self._hidings.add(name, line)
            elif name in RUNNERS:
                yield from self._run(name, node, scope, line)

    def _run(self, runner: str, node: ast.Call, scope: Scope | None, line: int | None) -> Iterator[_Visit]:
        """What a constant text does that is run."""
        texts = self._meanings.of(node.args[0], scope).texts if node.args else ()
        if not texts:
            self._hidings.add(runner, line)
        for text in texts:
            body = self._meanings.parsed(text)
            inner = bindings.scope_of_text(body, scope)
            yield from (_Visit(statement, inner, _Role.USED, line) for statement in reversed(body))

    def _inside(self, visit: _Visit) -> Iterator[_Visit]:
        """The nodes inside of a node that run, each with its scope and role: everything but annotations."""
        node, scope, role, line = visit
        inner = bindings.scope_of(node, scope)
        mentions = self._mentions(node, role, scope)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            # Decorators and defaults belong to the scope around.
            outside = name == "decorator_list" or (name == "args" and isinstance(node, Function))
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    its = _Role.MENTIONED if name in mentions else _role(node, name, child)
                    yield _Visit(child, scope if outside else inner, its, line)

    def _mentions(self, node: ast.AST, role: str, scope: Scope | None) -> Sequence[str]:
        """The fields of a node in which a function is mentioned and neither called nor passed on."""
        match node:
            case ast.Expr():
                return ["value"] if isinstance(node.value, ast.Name | ast.Attribute) else []
            case ast.Attribute():
                return ["value"] if node.attr in TELLING or role == _Role.MENTIONED else []
            case ast.Compare():
                same = all(isinstance(one, ast.Is | ast.IsNot) for one in node.ops)
                return ["left", "comparators"] if same else []
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
                return ["test"]
            case ast.UnaryOp(op=ast.Not()):
                return ["operand"]
            case ast.Tuple() | ast.List() | ast.Starred() | ast.BinOp(op=ast.BitOr()) if role == _Role.MENTIONED:
                return node._fields
            case ast.Call():
                asked = self._meanings.of(node.func, scope).names
                return ["args"] if asked and all(name.removeprefix("builtins.") in ASKING for name in asked) else []
        return []

    def _see(self, dotted: str, line: int | None, *, called: bool) -> None:
        """Something of that name is used."""
        if (dotted, called) in self._judged:  # the first line is told
            return
        self._judged.add((dotted, called))
        match = self._names.match(dotted)
        if match and self._found.breach is None:
            self._found.breach = ForbiddenCall(match, line)
        self._hidings.see_name(dotted, line, called=called)

    def _doubt(self, attribute: str, line: int | None) -> None:
        """An attribute of something unknown is used."""
        if self._names.match_part(attribute):
            self._unresolved.append((attribute, line))

    def _by_key(self, container: ast.AST, keys: Sequence[ast.expr], scope: Scope | None, line: int | None) -> None:
        texts = [text for one in keys for text in self._meanings.of(one, scope).texts]
        if texts:
            self._constant_keys.add(id(container))
            self._by_text(texts, line)

    def _by_text(self, texts: Iterable[str], line: int | None) -> None:
        for text in texts:
            for part in text.split(".")[:10]:
                self._read(part, line)
                self._doubt(part, line)

    def _is_read(self, attribute: str) -> bool:
        return self._reads_all or attribute in self._reads

    def _read(self, attribute: str, line: int | None) -> None:
        self._hidings.see_attribute(attribute, line)
        if attribute not in self._reads:
            self._reads.add(attribute)
            self._released += self._waiting.pop(attribute, [])

    def _read_all(self, names: Sequence[str], how: str, line: int | None) -> None:
        """Attributes are read that no constant names: a note where they are a module's, and what waits is read."""
        if any(map(self._names.is_ours, names)):
            self._hidings.add(how, line)
        self._reads_all = True
        for waiting in self._waiting.values():
            self._released += waiting
        self._waiting.clear()

    def _own_names(self) -> Iterator[str]:
        """What the notebook defines itself, under which an attribute of something unknown may be known."""
        for node in (sub for cell in self._cells for statement in cell.body for sub in ast.walk(statement)):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    yield node.name
                case ast.Attribute(ctx=ast.Store()):
                    yield node.attr
                case ast.Name(ctx=ast.Store()):
                    yield node.id
                case ast.keyword() | ast.arg():
                    yield node.arg or ""
                case ast.Dict():
                    yield from (text for key in node.keys if key and (text := bindings.constant_text(key)))


def _role(node: ast.AST, field: str, child: ast.AST) -> str:
    if isinstance(node, ast.Call) and field == "func":
        return _Role.CALLED
    if isinstance(node, ast.Attribute) and isinstance(child, ast.Name | ast.Attribute):
        return _Role.PART
    return _Role.USED


def _attributes(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Attribute):
        yield node.attr
        node = node.value


def _within_bounds(cells: Sequence[str]) -> tuple[list[str], bool]:
    """The cells that are searched, in order, and whether some are left out: the largest, for what they would take."""
    left, kept = MAX_CHARACTERS, set()
    for number in sorted(range(len(cells)), key=lambda number: len(cells[number])):
        left -= len(cells[number])
        if left < 0:
            break
        kept.add(number)
    return [source for number, source in enumerate(cells) if number in kept], len(kept) < len(cells)
