"""Finds the finished article in the source: what the answer reaches, by whatever name, without running anything.

The answer's own function is followed into the helpers, aliases and imports of other cells. What it does not reach is
no offence: a comment, a string, a function of one's own, a comparison beside the answer, a mention. What it surely
calls is one. What it may reach (under a condition, in a container, in a class's method) is for a person to read:
whether it is called, the watch sees.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autograder.channel.proxy import ForbiddenCall
from autograder.examiner import bindings
from autograder.examiner.articles import Articles
from autograder.examiner.bindings import Bound, Function, Scope
from autograder.examiner.certainty import Role, is_conditional, may_leave, role_of
from autograder.examiner.hiding import Hiding, Hidings
from autograder.examiner.meanings import IMPORTERS, LOOK_UPS, MAX_STEPS, PICKERS, TELLING, Meanings

MAX_CHARACTERS = 150_000
"""Of the cells that are searched, but for long texts; the largest cells are left out where there is more."""

MAX_ALL_CHARACTERS = 400_000
"""Of these cells with their texts."""

_LONG_TEXT = re.compile(r"""'[^'"\\\n]{1000,}'|"[^'"\\\n]{1000,}\"""")

TOO_LARGE = "more source than can be searched"

ASKING = ("isinstance", "issubclass", "print", "repr", "help", "callable", "hasattr", "id")
"""The built-in functions that call nothing they are given."""

RUNNERS = ("builtins.exec", "builtins.eval", "builtins.compile")

OF_THE_NOTEBOOK = frozenset(
    (
        *("get_ipython", "display", "In", "Out", "exit", "quit", "__name__", "__doc__"),
        *("_", "__", "___", "_i", "_ii", "_iii"),
    )
)
"""Names that a notebook has without binding them."""


@dataclass
class Found:
    """What a search has come to.

    Attributes:
        breach: the first forbidden thing that it surely calls: its dotted name, and the answer's line that leads to it.
            What is more than can be searched is not searched to the end: then `TOO_LARGE` is among the hidings.
        hidings: where there is no breach, what forbidden thing the answer may reach, and by what it could hide which
            functions it calls, each once, with the line of the answer that leads to it, or None where it stands beside
            the answer. Most of it is innocent: a person should read it.
        unbound: those hidings that are names which no cell binds, as far as the source tells: a slip, or bound by other
            means.
    """

    breach: ForbiddenCall | None = None
    hidings: list[Hiding] = field(default_factory=list)
    unbound: set[str] = field(default_factory=set)


def search(cells: Sequence[str], exercise: str, forbidden: Sequence[str]) -> Found:
    """Look for what `exercise` may not reach.

    Args:
        cells: the sources of the cells that run before the exercise is examined, in order.
        exercise: the name of the answer's function.
        forbidden: dotted names.
    """
    return _Search(cells, forbidden).search(exercise) if forbidden else Found()


class _Visit(NamedTuple):
    node: ast.AST
    scope: Scope | None
    role: str
    line: int | None
    """Where the answer uses it, if it is not the answer itself: what its author can find is in the answer's cell."""
    sure: bool = False
    """Whether it runs whenever the answer is called."""


class _Use(NamedTuple):
    """What is looked at later: a name of the notebook, or a node, and the line that leads to it."""

    what: str | ast.AST
    line: int | None
    sure: bool = False
    scope: Scope | None = None


class _Search:
    """Follows the names of the notebook, beginning with the answer's."""

    def __init__(self, cells: Sequence[str], forbidden: Sequence[str]) -> None:
        self._names = Articles(forbidden)
        searched, self._given_up = _within_bounds(cells)
        self._class_names: set[str] = set()
        self._unbound: list[tuple[str, int | None]] = []
        self._cells = [bindings.read(source) for source in searched]
        bound = [one for cell in self._cells for one in cell.bound]
        self._bound: dict[str, list[Bound]] = {}
        for one in bound:
            self._bound.setdefault(one.name, []).append(one)
        self._meanings = Meanings(bound)
        self._pending: deque[_Use] = deque()
        self._waiting: dict[str, list[_Use]] = {}  # by the attribute that has to be read first
        self._released: deque[_Use] = deque()
        self._reads: set[str] = set()
        self._reads_all = False
        self._seen: set[tuple[int, bool]] = set()  # a function may stand behind thousands of names
        self._constant_keys: set[int] = set()
        self._steps = 0
        self._judged: set[tuple[str, bool, bool]] = set()
        self._loose = False  # whether a module is passed on, from which anything may be taken
        self._unresolved: list[tuple[str, int | None]] = []  # the attributes that may have been taken from it
        self._found = Found()
        self._hidings = Hidings()

    def search(self, exercise: str) -> Found:
        """Look at all that the answer reaches, or until the first breach."""
        self._pending.append(_Use(exercise, None, True))
        names: set[tuple[str, bool]] = set()
        while self._pending or self._released:
            use = self._released.popleft() if self._released else self._pending.popleft()
            if isinstance(use.what, ast.AST):
                self._walk(use.what, use)
            elif (use.what, use.sure) not in names:
                names.add((use.what, use.sure))
                self._follow(use.what, use.line, use.sure)
            if self._found.breach:
                return self._found
        if self._unresolved and self._loose:
            # It may be that module's, or anything else's: whether it was called, the watch sees.
            own = set(bindings.own_names(self._cells))
            for part, line in self._unresolved:
                if part not in own:
                    self._hidings.add(part, line)
        for name, line in self._unbound:
            if name not in self._class_names:
                self._hidings.add(name, line)
                self._found.unbound.add(name)
        for cell in self._cells:
            self._hidings.see_beside(cell, self._is_read)
        if self._given_up:
            self._hidings.add(TOO_LARGE, None)
        self._found.hidings = list(self._hidings)
        return self._found

    def _follow(self, name: str, line: int | None, sure: bool) -> None:
        self._given_up |= name in self._meanings.cut_names
        standing = self._standing(name)
        if not standing and line is not None and not self._is_known(name):
            self._unbound.append((name, line))
        sure = sure and bool(standing) and standing[0].how == "sets"
        sure = sure and all(one.how == "called" or one.attribute is not None for one in standing[1:])
        for place, one in enumerate(standing):
            its = sure and place == 0
            if isinstance(one.to, str):
                self._see(one.to, line, called=True, sure=its)
            elif one.attribute is None or one.attribute.startswith("__") or self._is_read(one.attribute):
                if its and not isinstance(one.to, Function):
                    self._see_made(one.to, line)
                self._walk(one.to, _Use(name, line, its and isinstance(one.to, Function)))
            else:
                self._waiting.setdefault(one.attribute, []).append(_Use(one.to, line))

    def _see_made(self, node: ast.AST, line: int | None) -> None:
        """An object is called: what it was made by, and what it is, if that is sure."""
        while isinstance(node, ast.Call | ast.Attribute | ast.NamedExpr):
            self._see_meaning(node, None, line or getattr(node, "lineno", None), called=True, sure=True)
            node = node.func if isinstance(node, ast.Call) else node.value

    def _is_known(self, name: str) -> bool:
        """Whether a name that no cell binds is a builtin, or of a module from which all names were imported."""
        if hasattr(builtins, name) or name in OF_THE_NOTEBOOK:
            return True
        modules = self._meanings.of_name(bindings.STAR, None).names
        return any(name in vars(sys.modules[module]) for module in modules if module in sys.modules)

    def _standing(self, name: str) -> Sequence[Bound]:
        """What a name stands for in the end: its last sure definition, and what may have changed it since."""
        bound = self._bound.get(name, [])
        made = [one for one in bound if one.how not in ("changes", "called")]
        if made and all(isinstance(one.to, str) for one in made):
            # A module: `torch.testing.assert_close(…)` uses it and does not change it.
            bound = [one for one in bound if one.how != "called"]
        last = max((place for place, one in enumerate(bound) if one.how == "sets"), default=0)
        return bound[last:]

    def _walk(self, node: ast.AST, use: _Use) -> None:
        """Look at the code of a definition; names of the notebook that it uses are looked at later."""
        if (id(node), True) in self._seen or (id(node), use.sure) in self._seen:
            return
        self._seen.add((id(node), use.sure))
        role = Role.CALLED if use.sure else Role.USED
        stack = [_Visit(node, use.scope, role, use.line, use.sure)]
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
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and visit.role != Role.MENTIONED:
            sure = visit.sure and visit.role == Role.CALLED
            where = scope.find(node.id) if scope else None
            if where is None:
                self._pending.append(_Use(node.id, line, sure))
            elif sure and len(where.names[node.id]) == 1 and isinstance((own := where.names[node.id][0])[0], Function):
                self._released.append(_Use(own[0], visit.line, True, own[1]))
        if isinstance(node, ast.ClassDef):
            self._class_names |= {one.name for one in bindings.bindings(node.body)}
        if isinstance(node, ast.Attribute):
            self._read(node.attr, line)
            if node.attr == "__dict__" and id(node) not in self._constant_keys:
                self._read_all(self._meanings.of(node, scope).names, node.attr, line)
        if visit.role in (Role.USED, Role.CALLED) and isinstance(
            node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.NamedExpr
        ):
            called = visit.role == Role.CALLED
            names = self._see_meaning(node, scope, line, called=called, sure=called and visit.sure)
            if visit.role == Role.USED:
                self._loose = self._loose or any(map(self._names.is_module, names))
                for name in names:
                    self._hidings.see_passed_on(name, line)
            if not names:
                for attribute in _attributes(node):
                    self._doubt(attribute, line)
        if isinstance(node, ast.Subscript):
            self._by_key(node.value, [node.slice], scope, line)
        self._given_up |= id(node) in self._meanings.cut
        return self._look_at_call(node, visit, line) if isinstance(node, ast.Call) else ()

    def _look_at_call(self, node: ast.Call, visit: _Visit, line: int | None) -> Iterable[_Visit]:
        scope = visit.scope
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
                yield from self._run(name, node, visit, line)

    def _run(self, runner: str, node: ast.Call, visit: _Visit, line: int | None) -> Iterator[_Visit]:
        """What a constant text does that is run."""
        scope = visit.scope
        texts = self._meanings.of(node.args[0], scope).texts if node.args else ()
        if not texts:
            self._hidings.add(runner, line)
        for text in texts:
            body = self._meanings.parsed(text)
            inner = bindings.scope_of_text(body, scope)
            yield from (_Visit(one, inner, Role.USED, line, visit.sure) for one in reversed(body))

    def _inside(self, visit: _Visit) -> Iterator[_Visit]:
        """The nodes inside of a node that run, each with its scope and role: everything but annotations."""
        node, scope, role, line, sure = visit
        inner = bindings.scope_of(node, scope)
        mentions = self._mentions(node, role, scope)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            # Decorators and defaults belong to the scope around.
            outside = name == "decorator_list" or (name == "args" and isinstance(node, Function))
            runs = sure and not is_conditional(node, name, role)
            for place, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, ast.AST):
                    its = Role.MENTIONED if name in mentions else role_of(node, name, child)
                    runs = runs and not (place == 1 and isinstance(node, ast.BoolOp))
                    yield _Visit(child, scope if outside else inner, its, line, runs)
                    runs = runs and not (isinstance(child, ast.stmt) and may_leave(child))

    def _mentions(self, node: ast.AST, role: str, scope: Scope | None) -> Sequence[str]:
        """The fields of a node in which a function is mentioned and neither called nor passed on."""
        match node:
            case ast.Expr():
                return ["value"] if isinstance(node.value, ast.Name | ast.Attribute) else []
            case ast.Attribute():
                return ["value"] if node.attr in TELLING or role == Role.MENTIONED else []
            case ast.Compare():
                same = all(isinstance(one, ast.Is | ast.IsNot) for one in node.ops)
                return ["left", "comparators"] if same else []
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
                return ["test"]
            case ast.UnaryOp(op=ast.Not()):
                return ["operand"]
            case ast.Tuple() | ast.List() | ast.Starred() | ast.BinOp(op=ast.BitOr()) if role == Role.MENTIONED:
                return node._fields
            case ast.Call():
                asked = self._meanings.of(node.func, scope).names
                return ["args"] if asked and all(name.removeprefix("builtins.") in ASKING for name in asked) else []
        return []

    def _see_meaning(
        self, node: ast.AST, scope: Scope | None, line: int | None, *, called: bool, sure: bool
    ) -> Sequence[str]:
        """Something is used: the names that it may stand for."""
        meaning = self._meanings.of(node, scope)
        sure = sure and meaning.sure and all(map(self._names.match, meaning.names))
        for name in meaning.names:
            self._see(name, line, called=called, sure=sure)
        return meaning.names

    def _see(self, dotted: str, line: int | None, *, called: bool, sure: bool) -> None:
        """Something of that name is used."""
        if (dotted, called, sure) in self._judged:  # the first line is told
            return
        self._judged.add((dotted, called, sure))
        match = self._names.match(dotted)
        if match and sure and self._found.breach is None:
            self._found.breach = ForbiddenCall(match, line)
        elif match:
            self._hidings.add(match.rpartition(".")[2], line)
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


def _attributes(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Attribute):
        yield node.attr
        node = node.value


def _within_bounds(cells: Sequence[str]) -> tuple[list[str], bool]:
    """The cells that are searched, in order, and whether some are left out: the largest, for what they would take."""
    left, left_of_all, kept = MAX_CHARACTERS, MAX_ALL_CHARACTERS, set()
    for number in sorted(range(len(cells)), key=lambda number: len(cells[number])):
        left_of_all -= len(cells[number])
        if left_of_all < 0 or (left := left - len(_LONG_TEXT.sub("", cells[number]))) < 0:
            break
        kept.add(number)
    return [source for number, source in enumerate(cells) if number in kept], len(kept) < len(cells)
