"""What the source of a notebook's cells binds: each name, and the expressions and definitions that it may stand for."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch.nn import functional

SETATTR = "setattr"
_OF_TENSORS = ("data", "grad", "requires_grad")
"""What honest code sets, too."""

Binding = ast.AST | str
"""What a name stands for: the definition, the assigned expression, or a dotted name."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

STAR = "*"
"""The name under which stands whatever binds names that it doesn't tell: ``from … import *``."""

MAX_KEPT = 128
MAX_KEPT_CHARACTERS = 8_000
"""Of a cell that is kept: a tree takes a hundred times as much as its source."""

_NAMESPACES = ("globals", "locals", "vars")
_RUNNERS = ("exec", "eval")
_UNKNOWN = ast.Constant(None)


class Bound(NamedTuple):
    """A name and what a statement makes of it.

    It ``sets`` it, ``may_set`` it, ``changes`` what stands there (one attribute of it, if that has a name), or has
    ``called`` a method of that, which may.
    """

    name: str
    to: Binding
    how: str
    attribute: str | None = None


@dataclass(eq=False)
class Scope:
    """What the names inside a function stand for, each with the scope where that is to be looked up."""

    names: dict[str, list[tuple[Binding, Scope | None]]]
    outer: Scope | None
    given: frozenset[str] = frozenset()
    """Those whose value is given from outside: of a parameter the default is known alone."""

    def find(self, name: str) -> Scope | None:
        """The scope of this or of the functions around that has the name; none where it is the notebook's."""
        scope: Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.outer
        return scope


class Cell(NamedTuple):
    """A cell as it is searched.

    Attributes:
        body: its statements.
        bound: all that they bind.
        modules: the names of modules that it imports, or has as texts.
        attributes: the attributes that it names, of whatever.
        loaders: by what it gets at modules that no constant names.
        sets: the attributes that it gives a value, of whatever; `SETATTR` where no constant names one.
    """

    body: Sequence[ast.stmt]
    bound: Sequence[Bound]
    modules: frozenset[str]
    attributes: frozenset[str]
    loaders: frozenset[str]
    sets: frozenset[str]


def read(source: str) -> Cell:
    """What is in a cell. Those of the lesson come with every submission, and are read once."""
    return _read_once(source) if len(source) <= MAX_KEPT_CHARACTERS else _read(source)


def _read(source: str) -> Cell:
    body = statements(source)
    nodes = [node for statement in body for node in ast.walk(statement)]
    attributes = frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute))
    bound = [*_with_globals(bindings(body))]
    return Cell(
        body, bound, frozenset(_modules(nodes)), attributes, frozenset(_loaders(nodes)), frozenset(_sets(nodes))
    )


def _modules(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.Constant(value=str(text)) if "." in text[:40] and text[:40].replace(".", "").isidentifier():
                yield text[:40]


def _loaders(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """A module may be asked for ``modules()``; it is `sys.modules` that is read without a call."""
    importers = {"__import__", "import_module", "resolve_name"}
    called = set()
    for node in nodes:
        match node:
            case ast.ImportFrom(module="importlib" | "pkgutil" | "sys"):
                importers |= {one.asname for one in node.names if one.asname and one.name in importers}
                if any(one.name == "modules" for one in node.names):
                    yield "sys.modules"
            case ast.Call():
                called.add(id(node.func))
    for node in nodes:
        match node:
            case ast.Attribute(attr="modules", value=on) if id(node) not in called and last_name(on) != "self":
                yield "sys.modules"
            case ast.Call(args=[one, *_]) if last_name(node.func) in importers and constant_text(one) is None:
                yield "importlib.import_module"


def _sets(nodes: Sequence[ast.AST]) -> Iterator[str]:
    kept = set(_kept_by_classes(nodes))
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()) if id(node) not in kept and name not in _OF_TENSORS:
                yield name
            case ast.Call(args=[_, name, *_]) if last_name(node.func) in (SETATTR, "__setattr__"):
                yield constant_text(name) or SETATTR


def _kept_by_classes(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """What classes give their own objects: in `__init__`, or under names that mean nothing to torch."""
    for method in (one for node in nodes if isinstance(node, ast.ClassDef) for one in node.body):
        if isinstance(method, ast.FunctionDef) and method.args.args:
            for node in ast.walk(method):
                match node:
                    case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id=on)):
                        is_plain = not hasattr(torch, name) and not hasattr(functional, name)
                        if on == method.args.args[0].arg and (method.name == "__init__" or is_plain):
                            yield id(node)


def own_names(cells: Iterable[Cell]) -> Iterator[str]:
    """What the notebook defines itself, under which an attribute of something unknown may be known."""
    for node in (sub for cell in cells for statement in cell.body for sub in ast.walk(statement)):
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
                yield from (text for key in node.keys if key and (text := constant_text(key)))


_read_once = lru_cache(MAX_KEPT)(_read)


def _with_globals(bound: Iterable[Bound]) -> Iterator[Bound]:
    """What is bound, and what functions may bind that say ``global``."""
    for one in bound:
        yield one
        if isinstance(one.to, ast.stmt):
            yield from (Bound(name, one.to, "changes") for name in globals_of(one.to))


def statements(source: str) -> list[ast.stmt]:
    """A cell's statements; none where it can't be parsed, since it defines nothing when it is run, either."""
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
    return []


def bindings(body: Sequence[ast.stmt]) -> Iterator[Bound]:
    """The names that statements bind, in order; those inside of functions and classes are their own."""
    stack = [(statement, "sets") for statement in reversed(body)]
    while stack:
        statement, how = stack.pop()
        yield from _bound_by(statement, how)
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            sure = isinstance(statement, ast.With | ast.AsyncWith)
            stack += [(child, how if sure else "may_set") for child in reversed(list(_blocks(statement)))]


def globals_of(definition: ast.stmt) -> Iterator[str]:
    """The names of the notebook that a function, or one inside of it, binds."""
    if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for sub in ast.walk(definition):
            if isinstance(sub, ast.Global):
                yield from sub.names


def scope_of(node: ast.AST, outer: Scope | None) -> Scope | None:
    """The scope of what is inside a node: a new one for a function or a comprehension."""
    if isinstance(node, Comprehension):
        return Scope({name: [(part.iter, outer)] for part in node.generators for name in stored(part.target)}, outer)
    if not isinstance(node, Function):
        return outer
    parameters = dict(_parameters(node.args, outer))
    inner = Scope(parameters, outer, frozenset(parameters))
    if not isinstance(node, ast.Lambda):
        elsewhere = set(_declared(node.body))
        for bound in bindings(node.body):
            if bound.how not in ("changes", "called") and bound.name not in elsewhere:
                inner.names.setdefault(bound.name, []).append((bound.to, inner))
    return inner


def scope_of_text(body: Sequence[ast.stmt], outer: Scope | None) -> Scope:
    """The scope of a text that is run inside a function."""
    inner = Scope({}, outer)
    for bound in bindings(body):
        inner.names.setdefault(bound.name, []).append((bound.to, inner))
    return inner


def stored(target: ast.AST) -> Iterator[str]:
    """The names that an assignment to a target binds."""
    for sub in ast.walk(target):
        if isinstance(sub, ast.Name) and isinstance(sub.ctx, ast.Store):
            yield sub.id


def _parameters(args: ast.arguments, outer: Scope | None) -> Iterator[tuple[str, list[tuple[Binding, Scope | None]]]]:
    """Nothing is known of an argument but its default."""
    positional = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(positional) - len(args.defaults)), *args.defaults]
    for arg, default in [
        *zip(positional, defaults, strict=True),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        *((arg, None) for arg in (args.vararg, args.kwarg) if arg),
    ]:
        yield arg.arg, [(default, outer)] if default else []


def _declared(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The names that a function's own statements declare to be bound elsewhere."""
    stack = list(body)
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.Global | ast.Nonlocal):
            yield from statement.names
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            stack += _blocks(statement)


def _bound_by(statement: ast.stmt, how: str) -> Iterator[Bound]:
    for name, dotted in _imports(statement):
        yield Bound(name, dotted, how)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield Bound(statement.name, statement, how)
        return
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _assigned(target, statement.value, how)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _assigned(statement.target, statement.value, how)
    elif isinstance(statement, ast.AugAssign):
        yield from _assigned(statement.target, statement.value, "may_set")
    elif isinstance(statement, ast.For | ast.AsyncFor):
        yield from _assigned(statement.target, statement.iter, "may_set")
    elif isinstance(statement, ast.With | ast.AsyncWith):
        for item in statement.items:
            if item.optional_vars is not None:
                yield from _assigned(item.optional_vars, item.context_expr, how)
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield from _called(statement.value, how)
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            for sub in ast.walk(child):
                if isinstance(sub, ast.NamedExpr):
                    yield Bound(sub.target.id, sub.value, how)
        elif isinstance(child, ast.ExceptHandler) and child.name:
            yield Bound(child.name, _UNKNOWN, "may_set")
        elif isinstance(child, ast.match_case):
            yield from (Bound(name, _UNKNOWN, "may_set") for name in _captured(child.pattern))


def _captured(pattern: ast.AST) -> Iterator[str]:
    for sub in ast.walk(pattern):
        name = getattr(sub, "rest", None) if isinstance(sub, ast.MatchMapping) else getattr(sub, "name", None)
        if isinstance(sub, ast.MatchMapping | ast.MatchAs | ast.MatchStar) and name:
            yield name


def _assigned(target: ast.AST, value: ast.expr, how: str) -> Iterator[Bound]:
    if isinstance(target, ast.Subscript) and _is_namespace(target.value):  # globals()["helper"] = …
        if (name := constant_text(target.slice)) is not None:
            yield Bound(name, value, "may_set")
    elif isinstance(target, ast.Attribute | ast.Subscript):  # helpers["a"] = …, helper.attend = …
        if root := root_of(target):
            attribute = target.attr if isinstance(target, ast.Attribute) else None
            yield Bound(root, value, "changes", attribute)
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        if len(target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                yield from _assigned(one, its, how)
            return
    for name in stored(target):
        yield Bound(name, value, how)


def _called(call: ast.Call, how: str) -> Iterator[Bound]:
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "update" and _is_namespace(function.value):
        yield from (Bound(one.arg, one.value, "may_set") for one in call.keywords if one.arg)
        for one in call.args:
            pairs = zip(one.keys, one.values, strict=True) if isinstance(one, ast.Dict) else ()
            for key, value in pairs:
                yield Bound((key and constant_text(key)) or STAR, value, "may_set")
            if not isinstance(one, ast.Dict):
                yield Bound(STAR, one, "may_set")
    elif isinstance(function, ast.Attribute):  # helpers.append(…)
        if root := root_of(function):
            yield Bound(root, call, "called")
    elif isinstance(function, ast.Name) and function.id == "setattr" and len(call.args) == 3:
        if root := root_of(call.args[0]):
            yield Bound(root, call.args[2], "changes", constant_text(call.args[1]))
    elif isinstance(function, ast.Name) and function.id in _RUNNERS and call.args:
        if (text := constant_text(call.args[0])) is not None:
            yield from (one._replace(how=one.how if how == "sets" else "may_set") for one in bindings(statements(text)))


def _is_namespace(node: ast.AST) -> bool:
    """Whether an expression is the notebook's own namespace."""
    return isinstance(node, ast.Call) and not node.args and last_name(node.func) in _NAMESPACES


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
            dotted = statement.module if alias.name == STAR else f"{statement.module}.{alias.name}"
            yield alias.asname or alias.name, dotted


def root_of(node: ast.AST) -> str | None:
    """The name that an expression of attributes, subscripts and calls begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def last_name(node: ast.AST) -> str | None:
    """The last part of a dotted expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def constant_text(node: ast.AST) -> str | None:
    """The text of a literal."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
