"""Finds the finished article in the source: what the answer reaches, by whatever name, without running anything.

The answer's own function is followed into the helpers, aliases and imports of other cells. What it does not reach is
no offence: a comment, a string, a function of that name of one's own, a comparison beside the answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autograder.channel.proxy import ForbiddenCall

Binding = ast.AST | str
"""What a name of the notebook stands for: the definition, the assigned expression, or a dotted name."""


def find_forbidden(cells: Sequence[str], exercise: str, forbidden: Sequence[str]) -> ForbiddenCall | None:
    """The first forbidden thing that `exercise` reaches.

    Args:
        cells: the sources of the cells that run before the exercise is examined, in order.
        exercise: the name of the answer's function.
        forbidden: dotted names.

    Returns:
        Its dotted name and the line in its cell, or None.
    """
    names = _Names(forbidden)
    bindings: dict[str, list[Binding]] = {}
    for source in cells:
        for statement in _statements(source):
            for name, binding in _bindings(statement):
                bindings.setdefault(name, []).append(binding)
            for name in _mutated(statement):
                bindings.setdefault(name, []).append(statement)
    return _Search(names, bindings).reach(exercise)


class _Names:
    """The forbidden names; private builtins such as ``torch._C._nn.…`` share the last part."""

    def __init__(self, forbidden: Sequence[str]) -> None:
        self._stems = {name.rpartition(".")[2]: name for name in forbidden}

    def match(self, dotted: str) -> str | None:
        """The forbidden name that a resolved dotted name stands for, or None."""
        if dotted.partition(".")[0] != "torch":
            return None
        for part in dotted.split(".")[1:]:
            for stem, name in self._stems.items():
                if part.lstrip("_").startswith(stem):
                    return name
        return None

    def stem(self, name: str) -> str | None:
        """The forbidden name for a bare name that a star import of torch would bring."""
        return self._stems.get(name)


class _Search:
    def __init__(self, names: _Names, bindings: dict[str, list[Binding]]) -> None:
        self._names, self._bindings = names, bindings
        self._seen: set[str] = set()

    def reach(self, name: str, line: int | None = None) -> ForbiddenCall | None:
        """Follow a name of the notebook; `line` is where it was used."""
        if name in self._seen:
            return None
        self._seen.add(name)
        for binding in self._standing(name):
            if isinstance(binding, str):
                match = self._names.match(binding)
                if match:
                    return ForbiddenCall(match, line)
            elif found := self._inside(binding):
                return found
        return None

    def _standing(self, name: str) -> list[Binding]:
        """What a name stands for in the end: its last definition, and the statements that changed it since."""
        bound = self._bindings.get(name, [])
        last = max((place for place, one in enumerate(bound) if not _is_mutation(one, name)), default=0)
        return bound[last:]

    def _inside(self, node: ast.AST) -> ForbiddenCall | None:
        local = _local_names(node)
        imported = {name: [dotted] for sub in ast.walk(node) for name, dotted in _imports(sub)}
        for sub in _code(node):
            if isinstance(sub, ast.Name) and isinstance(sub.ctx, ast.Load):
                if sub.id in imported:
                    match = self._names.match(imported[sub.id][0])
                    if match:
                        return ForbiddenCall(match, sub.lineno)
                elif sub.id not in local:
                    if sub.id not in self._bindings and "*" in self._bindings and self._names.stem(sub.id):
                        return ForbiddenCall(self._names.stem(sub.id) or sub.id, sub.lineno)
                    if found := self.reach(sub.id, sub.lineno):
                        return found
            elif isinstance(sub, ast.Attribute | ast.Call):
                dotted = self._dotted(sub, local, {name: value[0] for name, value in imported.items()})
                match = self._names.match(dotted) if dotted else None
                if match:
                    return ForbiddenCall(match, sub.lineno)
        return None

    def _dotted(self, node: ast.AST, local: set[str], imported: dict[str, str]) -> str | None:
        """``F.softmax`` as ``torch.nn.functional.softmax``, through aliases and ``getattr`` with a known name."""
        if isinstance(node, ast.Name):
            if node.id in imported:
                return imported[node.id]
            for binding in self._standing(node.id) if node.id not in local else ():
                if isinstance(binding, str):
                    return binding
                if isinstance(binding, ast.Name | ast.Attribute) and node.id not in _names_in(binding):
                    return self._dotted(binding, set(), {})
            return None
        if isinstance(node, ast.Attribute):
            base = self._dotted(node.value, local, imported)
            return f"{base}.{node.attr}" if base else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2:
            if node.func.id == "getattr" and (name := _constant_text(node.args[1])):
                base = self._dotted(node.args[0], local, imported)
                return f"{base}.{name}" if base else None
        if isinstance(node, ast.Call) and node.args and (name := _constant_text(node.args[0])):
            if _last_name(node.func) in ("import_module", "__import__"):
                return name
        return None


def _statements(source: str) -> list[ast.stmt]:
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n")]
    try:
        return ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # a cell that can't be parsed defines nothing when it is run, either


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
    """The names that a top-level statement binds."""
    yield from _imports(statement)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name, statement
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value is not None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for name in _stored(target):
                yield name, statement.value
    elif isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
        for child in ast.walk(statement):
            if isinstance(child, ast.stmt) and child is not statement:
                yield from _bindings(child)


def _imports(statement: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname:
                yield alias.asname, alias.name
            else:
                root = alias.name.partition(".")[0]
                yield root, root
    elif isinstance(statement, ast.ImportFrom) and statement.module:
        for alias in statement.names:
            if alias.name != "*":
                yield alias.asname or alias.name, f"{statement.module}.{alias.name}"
            elif statement.module.partition(".")[0] == "torch":
                yield "*", statement.module


def _mutated(statement: ast.stmt) -> Iterator[str]:
    """Names whose object a statement changes: ``helpers["a"] = …``, ``helper.attend = …``, ``helpers.append(…)``."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and (root := _root(target)):
                yield root
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        if isinstance(statement.value.func, ast.Attribute) and (root := _root(statement.value.func)):
            yield root


def _is_mutation(binding: Binding, name: str) -> bool:
    return isinstance(binding, ast.Assign | ast.Expr)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: everything but annotations."""
    stack: list[ast.AST] = [node]
    while stack:
        current = stack.pop()
        yield current
        for name, value in reversed(list(ast.iter_fields(current))):
            if name in ("annotation", "returns"):
                continue
            children = value if isinstance(value, list) else [value]
            stack.extend(child for child in reversed(children) if isinstance(child, ast.AST))


def _local_names(node: ast.AST) -> set[str]:
    """Names that a function binds itself: arguments, assignments and inner functions."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return set()
    names: set[str] = set()
    declared_global: set[str] = set()
    for sub in ast.walk(node):
        if isinstance(sub, ast.arg):
            names.add(sub.arg)
        elif isinstance(sub, ast.Name) and isinstance(sub.ctx, ast.Store):
            names.add(sub.id)
        elif isinstance(sub, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and sub is not node:
            names.add(sub.name)
        elif isinstance(sub, ast.Global):
            declared_global.update(sub.names)
    return names - declared_global


def _stored(target: ast.AST) -> Iterator[str]:
    for sub in ast.walk(target):
        if isinstance(sub, ast.Name) and isinstance(sub.ctx, ast.Store):
            yield sub.id


def _names_in(node: ast.AST) -> set[str]:
    return {sub.id for sub in ast.walk(node) if isinstance(sub, ast.Name)}


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _last_name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _constant_text(node: ast.AST) -> str | None:
    """The text of a constant expression: ``"a"``, ``"a" + "b"``, an f-string of constants."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _constant_text(node.left), _constant_text(node.right)
        return left + right if left is not None and right is not None else None
    if isinstance(node, ast.JoinedStr):
        parts = [_constant_text(value) for value in node.values]
        return "".join(part for part in parts if part is not None) if None not in parts else None
    return None
