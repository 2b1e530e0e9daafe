"""Finds the finished article in the source: what the answer reaches, by whatever name, without running anything.

The answer's own function is followed into the helpers, aliases and imports of other cells. What it does not reach is
no offence: a comment, a string, a function of that name of one's own, a comparison beside the answer.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

from autograder.channel.proxy import ForbiddenCall
from autograder.worker.watch import KERNELS

Binding = ast.AST | str
"""What a name stands for: the definition, the assigned expression, or a dotted name."""

MAX_STEPS = 50
"""Aliases of aliases, and additions of texts, that are followed."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Bound(NamedTuple):
    """A name and what a statement makes of it.

    It ``sets`` it, ``may_set`` it, ``changes`` what stands there, or has ``called`` a method of that, which may.
    """

    name: str
    to: Binding
    how: str


@dataclass
class Scope:
    """What the names inside a function stand for; nothing is known of an argument."""

    names: dict[str, list[Binding]]
    outer: Scope | None

    def find(self, name: str) -> list[Binding] | None:
        """What a name stands for here or in the functions around, or None where it is the notebook's."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None


def find_forbidden(cells: Sequence[str], exercise: str, forbidden: Sequence[str]) -> ForbiddenCall | None:
    """The first forbidden thing that `exercise` reaches.

    Args:
        cells: the sources of the cells that run before the exercise is examined, in order.
        exercise: the name of the answer's function.
        forbidden: dotted names.

    Returns:
        Its dotted name and the line of the answer that leads to it, or None.
    """
    bound: dict[str, list[Bound]] = {}
    for source in cells:
        for one in _bindings(_statements(source)):
            bound.setdefault(one.name, []).append(one)
    return _Search(_Names(forbidden), bound).search(exercise)


class _Names:
    """The forbidden names; private builtins such as ``torch._C._nn.…`` share the last part."""

    def __init__(self, forbidden: Sequence[str]) -> None:
        self._roots = {name.partition(".")[0] for name in forbidden}
        self._stems = {name.rpartition(".")[2]: name for name in forbidden}
        kernels = {KERNELS[stem]: name for stem, name in self._stems.items() if stem in KERNELS}
        self._starts = self._stems | kernels

    def match(self, dotted: str) -> str | None:
        """The forbidden name that a resolved dotted name stands for, or None."""
        root, *parts = dotted.split(".")
        if root not in self._roots:
            return None
        for part in parts:
            for start, name in self._starts.items():
                if part.lstrip("_").startswith(start):
                    return name
        return None


class _Search:
    def __init__(self, names: _Names, bound: dict[str, list[Bound]]) -> None:
        self._names, self._bound = names, bound
        self._found: dict[str, list[Binding]] = {}
        self._pending: deque[tuple[str, int | None]] = deque()

    def search(self, exercise: str) -> ForbiddenCall | None:
        """Follow the names of the notebook, beginning with the answer's."""
        self._pending.append((exercise, None))
        seen: set[str | int] = set()
        while self._pending:
            name, line = self._pending.popleft()
            if name in seen:
                continue
            seen.add(name)
            for binding in self._standing(name):
                if id(binding) in seen:  # a function may stand behind thousands of names
                    continue
                seen.add(id(binding))
                found = self._named(binding, line) if isinstance(binding, str) else self._inside(binding, line)
                if found:
                    return found
        return None

    def _standing(self, name: str) -> list[Binding]:
        """What a name stands for in the end: its last sure definition, and what may have changed it since."""
        if name not in self._found:
            bound = self._bound.get(name, [])
            made = [one for one in bound if one.how not in ("changes", "called")]
            if made and all(isinstance(one.to, str) for one in made):
                # A module: `torch.testing.assert_close(…)` uses it and does not change it.
                bound = [one for one in bound if one.how != "called"]
            last = max((place for place, one in enumerate(bound) if one.how == "sets"), default=0)
            self._found[name] = [one.to for one in bound[last:]]
        return self._found[name]

    def _named(self, dotted: str | None, line: int | None) -> ForbiddenCall | None:
        match = self._names.match(dotted) if dotted else None
        return ForbiddenCall(match, line) if match else None

    def _inside(self, node: ast.AST, line: int | None) -> ForbiddenCall | None:
        """Look at the code of a definition; names of the notebook that it uses are looked at later.

        `line` is where the answer uses it, if it is not the answer itself: a line of the answer's cell is what its
        author can find.
        """
        for sub, scope in _code(node):
            here = getattr(sub, "lineno", None) if line is None else line
            if isinstance(sub, ast.Name) and isinstance(sub.ctx, ast.Load):
                local = scope.find(sub.id) if scope else None
                if local is None:
                    for star in self._bound.get("*", ()) if sub.id not in self._bound else ():
                        if found := self._named(f"{star.to}.{sub.id}", here):
                            return found
                    self._pending.append((sub.id, here))
                for dotted in local or ():
                    if isinstance(dotted, str) and (found := self._named(dotted, here)):
                        return found
            elif isinstance(sub, ast.Attribute | ast.Call):
                if found := self._named(self._dotted(sub, scope), here):
                    return found
        return None

    def _dotted(self, node: ast.AST, scope: Scope | None, seen: set[int] | None = None) -> str | None:
        """``F.softmax`` as ``torch.nn.functional.softmax``, through aliases and ``getattr`` with a known name."""
        attributes: list[str] = []
        while True:
            if isinstance(node, ast.Attribute):
                attributes.append(node.attr)
                node = node.value
            elif isinstance(node, ast.NamedExpr):
                node = node.value
            elif _is_getattr(node) and (name := _constant_text(node.args[1])):
                attributes.append(name)
                node = node.args[0]
            else:
                break
        base = self._base(node, scope, set() if seen is None else seen)
        return ".".join([base, *reversed(attributes)]) if base else None

    def _base(self, node: ast.AST, scope: Scope | None, seen: set[int]) -> str | None:
        """The dotted name that a dotted name begins with: a module's alias, or an import by a call."""
        if isinstance(node, ast.Name):
            local = scope.find(node.id) if scope else None
            for binding in self._standing(node.id) if local is None else local:
                if isinstance(binding, str):
                    return binding
                if len(seen) >= MAX_STEPS:
                    break
                if id(binding) in seen:
                    continue
                seen.add(id(binding))
                if found := self._dotted(binding, None if local is None else scope, seen):
                    return found
        if isinstance(node, ast.Call) and node.args and _last_name(node.func) in ("import_module", "__import__"):
            name = _constant_text(node.args[0])
            # `__import__("a.b")` is a.
            return name.partition(".")[0] if name and _last_name(node.func) == "__import__" else name
        return None


def _statements(source: str) -> list[ast.stmt]:
    lines = source.split("\n")
    if lines[0].startswith("%%"):
        lines[0] = ""
    # A line that begins with % may be a magic, or go on with the line before.
    plain = [re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in lines]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in ("\n".join(lines), "\n".join(plain)):
            try:
                return ast.parse(text).body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
    return []  # a cell that can't be parsed defines nothing when it is run, either


def _bindings(statements: Sequence[ast.stmt]) -> Iterator[Bound]:
    """The names that statements bind, in order; those inside of functions and classes are their own."""
    stack = [(statement, "sets") for statement in reversed(statements)]
    while stack:
        statement, how = stack.pop()
        yield from _bound_by(statement, how)
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            sure = isinstance(statement, ast.With | ast.AsyncWith)
            stack += [(child, how if sure else "may_set") for child in reversed(list(_blocks(statement)))]


def _bound_by(statement: ast.stmt, how: str) -> Iterator[Bound]:
    for name, dotted in _imports(statement):
        yield Bound(name, dotted, how)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield Bound(statement.name, statement, how)
        for sub in ast.walk(statement):
            if isinstance(sub, ast.Global):
                yield from (Bound(name, statement, "changes") for name in sub.names)
        return
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _assigned(target, statement.value, statement, how)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _assigned(statement.target, statement.value, statement, how)
    elif isinstance(statement, ast.AugAssign):
        yield from _assigned(statement.target, statement.value, statement, "may_set")
    elif isinstance(statement, ast.For | ast.AsyncFor):
        yield from _assigned(statement.target, statement.iter, statement, "may_set")
    elif isinstance(statement, ast.With | ast.AsyncWith):
        for item in statement.items:
            if item.optional_vars is not None:
                yield from _assigned(item.optional_vars, item.context_expr, statement, how)
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        # helpers.append(…)
        if isinstance(statement.value.func, ast.Attribute) and (root := _root(statement.value.func)):
            yield Bound(root, statement.value, "called")
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            for sub in ast.walk(child):
                if isinstance(sub, ast.NamedExpr):
                    yield Bound(sub.target.id, sub.value, how)


def _assigned(target: ast.AST, value: ast.expr, statement: ast.stmt, how: str) -> Iterator[Bound]:
    if isinstance(target, ast.Attribute | ast.Subscript):  # helpers["a"] = …, helper.attend = …
        if root := _root(target):
            yield Bound(root, value, "changes")
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        if len(target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                yield from _assigned(one, its, statement, how)
            return
    for name in _stored(target):
        yield Bound(name, value, how)


def _blocks(statement: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly inside of a compound statement."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _imports(statement: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            root = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (root, root)
    elif isinstance(statement, ast.ImportFrom) and statement.module:
        for alias in statement.names:
            dotted = statement.module if alias.name == "*" else f"{statement.module}.{alias.name}"
            yield alias.asname or alias.name, dotted


def _code(node: ast.AST) -> Iterator[tuple[ast.AST, Scope | None]]:
    """The nodes that run, each with its scope: everything but annotations."""
    stack: list[tuple[ast.AST, Scope | None]] = [(node, None)]
    while stack:
        current, scope = stack.pop()
        yield current, scope
        inner = _scope(current, scope)
        for name, value in reversed(list(ast.iter_fields(current))):
            if name in ("annotation", "returns"):
                continue
            # Decorators and defaults belong to the scope around.
            outside = name == "decorator_list" or (name == "args" and isinstance(current, Function))
            children = value if isinstance(value, list) else [value]
            where = scope if outside else inner
            stack += [(child, where) for child in reversed(children) if isinstance(child, ast.AST)]


def _scope(node: ast.AST, outer: Scope | None) -> Scope | None:
    """The scope of what is inside a node: a new one for a function or a comprehension."""
    if isinstance(node, Comprehension):
        return Scope({name: [] for part in node.generators for name in _stored(part.target)}, outer)
    if not isinstance(node, Function):
        return outer
    names: dict[str, list[Binding]] = {sub.arg: [] for sub in ast.walk(node.args) if isinstance(sub, ast.arg)}
    elsewhere: set[str] = set()
    if not isinstance(node, ast.Lambda):
        for bound in _bindings(node.body):
            if bound.how not in ("changes", "called"):
                names.setdefault(bound.name, []).append(bound.to)
        for sub in ast.walk(node):
            if isinstance(sub, ast.Global | ast.Nonlocal):
                elsewhere.update(sub.names)
    return Scope({name: found for name, found in names.items() if name not in elsewhere}, outer)


def _stored(target: ast.AST) -> Iterator[str]:
    for sub in ast.walk(target):
        if isinstance(sub, ast.Name) and isinstance(sub.ctx, ast.Store):
            yield sub.id


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _last_name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _is_getattr(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _last_name(node.func) == "getattr" and len(node.args) >= 2


def _constant_text(node: ast.AST, steps: int = 0) -> str | None:
    """The text of a constant expression: ``"a"``, ``"a" + "b"``, an f-string of constants."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    elif isinstance(node, ast.JoinedStr):
        parts = node.values
    elif isinstance(node, ast.FormattedValue):
        parts = [node.value]
    texts = [_constant_text(part, steps + 1) for part in parts] if steps < MAX_STEPS else []
    return "".join(map(str, texts)) if texts and None not in texts else None
