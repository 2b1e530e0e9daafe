"""What an expression may stand for, without running it: dotted names of modules and functions, and constant values."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from autograder.examiner.bindings import STAR, Binding, Bound, Scope, statements

MAX_ALTERNATIVES = 8
MAX_LENGTH = 200
"""Of a text, and of a tuple."""
MAX_PARTS = 16
MAX_DEPTH = 100
MAX_STEPS = 40_000

NAMESPACE = "globals()"
"""The name for the notebook's own namespace."""

IMPORTERS = ("importlib.import_module", "importlib.__import__", "builtins.__import__", "pkgutil.resolve_name")
PICKERS = ("operator.attrgetter", "operator.methodcaller", "operator.itemgetter")
LOOK_UPS = ("get", "__getitem__", "pop", "setdefault")
TELLING = ("__name__", "__qualname__", "__doc__", "__module__")
"""The attributes of a function that tell of it and do not lead to it."""

_TEXT_METHODS = (
    *("join", "format", "replace", "lower", "upper", "casefold", "swapcase", "capitalize", "title"),
    *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "decode", "split"),
)
_PURE: dict[str, Callable[..., Any]] = {
    "builtins.chr": chr,
    "builtins.str": str,
    "builtins.bytes": lambda value: bytes(value) if isinstance(value, tuple) else None,
    "builtins.list": tuple,
    "builtins.tuple": tuple,
    "builtins.reversed": lambda value: tuple(reversed(value)),
    "builtins.sorted": lambda value: tuple(sorted(value)),
}


class Meaning(NamedTuple):
    """What an expression may stand for; a container stands for all that is in it.

    It is ``sure`` where it can't stand for anything else.
    """

    names: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    sure: bool = True

    @property
    def empty(self) -> bool:
        """Whether nothing is known of it."""
        return not self.names and not self.values

    @property
    def texts(self) -> tuple[str, ...]:
        """The constant texts, those inside of tuples too."""
        flat = (item for value in self.values for item in (value if isinstance(value, tuple) else (value,)))
        return tuple(item for item in flat if isinstance(item, str))


NOTHING = Meaning()
_NO_BOUND = ast.Constant(None)


class Meanings:
    """Knows what the names of a notebook stand for when all its cells have run, and finds what expressions do.

    Attributes:
        cut: the expressions, by their identity, of which more could be said than is followed.
        cut_names: the names of the notebook of which that is so.
    """

    def __init__(self, bound: Sequence[Bound]) -> None:
        self.cut: set[int] = set()
        self.cut_names: set[str] = set()
        self._cutting = False  # whether what is looked at now is cut
        self._names: dict[str, Meaning] = {}
        self._attributes: dict[tuple[str, str], Meaning] = {}
        self._known: dict[int, Meaning] = {}  # by expression, all of which live as long as the cells' statements
        self._locals: dict[tuple[Scope, str], Meaning] = {}
        self._texts: dict[str, list[ast.stmt]] = {}
        self._depth = self._steps = 0
        for one in bound:
            self._bind(one)
        self._steps = 0

    def _bind(self, one: Bound) -> None:
        if one.how == "called":
            return
        self._cutting = False
        meaning = self._of_binding(one.to, None)
        if one.how == "changes" and one.attribute is not None:
            key = (one.name, one.attribute)
            self._attributes[key] = self._any([self._attributes.get(key, NOTHING), meaning])
        elif (one.how == "sets" and one.name != STAR) or one.name not in self._names:
            self._names[one.name] = meaning._replace(sure=meaning.sure and one.how == "sets")
            self.cut_names.discard(one.name)
        elif not meaning.empty or self._names[one.name].sure:
            self._names[one.name] = self._any([self._names[one.name], meaning])
        if self._cutting:
            self.cut_names.add(one.name)

    def of(self, node: ast.AST | None, scope: Scope | None) -> Meaning:
        """What an expression in a scope may stand for."""
        if node is None:
            return NOTHING
        known = self._known.get(id(node))
        if known is not None:
            return known
        self._steps += 1
        if self._depth > MAX_DEPTH or self._steps > MAX_STEPS:
            self._cutting = True
            self.cut.add(id(node))
            self._known[id(node)] = NOTHING
            return NOTHING
        self._depth += 1
        around, self._cutting = self._cutting, False
        try:
            self._known[id(node)] = found = self._look(node, scope)
        finally:
            self._depth -= 1
            if self._cutting:
                self.cut.add(id(node))
            self._cutting |= around
        return found

    def of_name(self, name: str, scope: Scope | None) -> Meaning:
        """What a name may stand for."""
        where = scope.find(name) if scope else None
        if where is not None:
            return self._of_local(where, name)
        if name in self._names:
            return self._names[name]
        builtin = [f"builtins.{name}"] if hasattr(builtins, name) or name == "get_ipython" else []
        self._cutting |= STAR in self.cut_names
        return self._names_of([*builtin, *(f"{star}.{name}" for star in self._names.get(STAR, NOTHING).names)])

    def parsed(self, text: str) -> list[ast.stmt]:
        """The statements of a text that is run; the same ones each time."""
        if text not in self._texts:
            self._texts[text] = statements(text)
        return self._texts[text]

    def _of_binding(self, to: Binding, scope: Scope | None) -> Meaning:
        return Meaning((to,)) if isinstance(to, str) else self.of(to, scope)

    def _of_local(self, scope: Scope, name: str) -> Meaning:
        """All that is bound to a name of a function; while that is looked for, what came before."""
        key = (scope, name)
        if key not in self._locals:
            self._locals[key] = NOTHING
            sure = name not in scope.given
            for to, where in scope.names[name]:
                found = self._of_binding(to, where)
                sure = sure and not found.empty
                if not found.empty and found != self._locals[key]:
                    before = [] if self._locals[key].empty else [self._locals[key]]
                    self._locals[key] = self._any([*before, found])
            self._locals[key] = self._locals[key]._replace(sure=sure and self._locals[key].sure)
        return self._locals[key]

    def _look(self, node: ast.AST, scope: Scope | None) -> Meaning:
        match node:
            case ast.Name():
                return self.of_name(node.id, scope)
            case ast.Constant():
                return Meaning((), (node.value,))
            case ast.Attribute():
                return self._of_attribute(node, scope)
            case ast.Subscript():
                return self._of_subscript(self.of(node.value, scope), self._of_key(node.slice, scope), scope)
            case ast.Call():
                return self._of_call(node, scope)
            case ast.NamedExpr() | ast.Starred() | ast.Await():
                return self.of(node.value, scope)
            case ast.IfExp():
                return self._any([self.of(node.body, scope), self.of(node.orelse, scope)])
            case ast.BoolOp():
                return self._any(self.of(one, scope) for one in node.values)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._of_items([self.of(one, scope) for one in node.elts])
            case ast.Dict():
                return self._any(self.of(one, scope) for one in (*node.keys, *node.values))._replace(sure=False)
            case ast.ListComp() | ast.GeneratorExp():
                return NOTHING
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return self._computed(_OPERATORS[type(node.op)], [node.left, node.right], scope)
            case ast.UnaryOp(op=ast.USub()):
                return self._computed(lambda value: -value, [node.operand], scope)
            case ast.JoinedStr():
                return self._computed(lambda *parts: "".join(map(str, parts)), node.values, scope)
            case ast.FormattedValue(format_spec=None):
                return self.of(node.value, scope)
        return NOTHING

    def _of_attribute(self, node: ast.AST, scope: Scope | None) -> Meaning:
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        attributes.reverse()
        if any(attribute in TELLING for attribute in attributes):
            return NOTHING
        base, own = self.of(node, scope), NOTHING
        if isinstance(node, ast.Name):
            own = self._attributes.get((node.id, attributes[0]), NOTHING)
        plain = [one for one in attributes[:MAX_PARTS] if one != "__dict__"]
        starts = [*((name, plain) for name in base.names), *((name, plain[1:]) for name in own.names)]
        return self._names_of((".".join([name, *rest]) for name, rest in starts), base.sure and not own.names)

    def _of_key(self, node: ast.AST, scope: Scope | None) -> Meaning:
        if isinstance(node, ast.Slice):
            bounds = [one or _NO_BOUND for one in (node.lower, node.upper, node.step)]
            return self._computed(slice, bounds, scope)
        return self.of(node, scope)

    def _of_subscript(self, base: Meaning, key: Meaning, scope: Scope | None) -> Meaning:
        """An item of a container, of a text, or of a module's or the notebook's namespace."""
        names = [] if base.sure and key.texts else list(base.names)  # where it is a namespace, it is that item of it
        for name, text in product(base.names, key.texts):
            if name == NAMESPACE:
                names += self.of_name(text, scope).names
            else:
                names.append(text if name == "sys.modules" else f"{name}.{text}")
        items = self._results(lambda value, item: value[item], [base.values, key.values])
        return self._names_of(names, base.sure and key.sure)._replace(values=items or _items(base.values))

    def _of_call(self, node: ast.Call, scope: Scope | None) -> Meaning:
        function = self.of(node.func, scope)
        arguments = [self.of(one, scope) for one in node.args]
        first = arguments[0] if arguments else NOTHING
        found: list[Meaning] = []
        for name in function.names:
            picker = name.partition("(")[0]
            if name in IMPORTERS:
                found.append(self._names_of(_imported(name, arguments)))
            elif name == "builtins.getattr" and len(arguments) >= 2:
                found.append(self._joined(first, arguments[1].texts))
            elif name in ("builtins.globals", "builtins.locals", "builtins.vars"):
                found.append(Meaning(first.names if arguments else (NAMESPACE,), (), first.sure))
            elif name in PICKERS:
                found.append(Meaning(tuple(f"{name}({text})" for text in first.texts), (), first.sure))
            elif picker in PICKERS:
                found.append(self._joined(first, [name[len(picker) + 1 : -1]]))
            elif name == "functools.partial":
                found.append(first)
            elif name == "builtins.eval":
                found += [self._evaluated(text, scope) for text in first.texts]
            elif name in _PURE and not node.keywords:
                found.append(self._computed(_PURE[name], node.args, scope))
        if isinstance(node.func, ast.Attribute):
            found.append(self._of_method(node, node.func, arguments, scope))
        result = self._any([one for one in found if not one.empty])
        return result._replace(sure=result.sure and function.sure and len(function.names) <= 1)

    def _of_method(
        self, node: ast.Call, function: ast.Attribute, arguments: Sequence[Meaning], scope: Scope | None
    ) -> Meaning:
        on = self.of(function.value, scope)
        if function.attr in LOOK_UPS and arguments:
            return self._of_subscript(on, arguments[0], scope)
        if function.attr in ("__getattribute__", "__getattr__") and arguments:
            return self._joined(on if len(arguments) == 1 else arguments[0], arguments[-1].texts)
        if function.attr in _TEXT_METHODS and on.values:
            names = tuple(one.arg or "" for one in node.keywords)
            given = [function.value, *node.args, *(one.value for one in node.keywords)]
            method = function.attr

            def apply(text: Any, *values: Any) -> Any:
                split = len(values) - len(names)
                return _text_method(text, method, values[:split], dict(zip(names, values[split:], strict=True)))

            return self._computed(apply, given, scope)
        return NOTHING

    def _evaluated(self, text: str, scope: Scope | None) -> Meaning:
        body = self.parsed(text)
        return self.of(body[0].value, scope) if len(body) == 1 and isinstance(body[0], ast.Expr) else NOTHING

    def _joined(self, base: Meaning, texts: Iterable[str]) -> Meaning:
        return self._names_of((f"{name}.{text}" for name, text in product(base.names, texts)), base.sure)

    def _of_items(self, items: Sequence[Meaning]) -> Meaning:
        """A literal container: its one constant value, if it has that, and the names inside."""
        together = self._any(items)
        together = together._replace(sure=together.sure and not together.names)
        if len(items) <= MAX_LENGTH and items and all(len(item.values) == 1 for item in items):
            return together._replace(values=(tuple(item.values[0] for item in items),))
        return together

    def _computed(self, function: Callable[..., Any], nodes: Sequence[ast.AST], scope: Scope | None) -> Meaning:
        given = [self.of(node, scope) for node in nodes]
        return Meaning((), self._results(function, [one.values for one in given]), all(one.sure for one in given))

    def _results(self, function: Callable[..., Any], arguments: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """What a function makes of constants, for each of their alternatives; nothing where one is not constant."""
        if not all(arguments) or len(arguments) > MAX_LENGTH:
            return ()
        if any(_size(value) > MAX_LENGTH for values in arguments for value in values):
            return ()
        found: list[Any] = []
        for number, values in enumerate(product(*arguments)):
            if number >= MAX_ALTERNATIVES:
                return ()
            try:
                value = function(*values)
            except Exception:  # noqa: BLE001 - what cannot be computed has no value
                continue
            if value is not None and _size(value) <= MAX_LENGTH and value not in found:
                found.append(value)
        return tuple(found)

    def _any(self, meanings: Iterable[Meaning]) -> Meaning:
        names: dict[str, None] = {}
        values: list[Any] = []
        sure = True
        for meaning in meanings:
            names |= dict.fromkeys(meaning.names)
            values += [value for value in meaning.values if value not in values]
            sure = sure and meaning.sure and not meaning.empty
            if len(names) > MAX_ALTERNATIVES:
                self._cutting, sure = True, False
                break
            if len(values) > MAX_ALTERNATIVES:  # then it is not a constant
                return Meaning(tuple(names), (), False)
        return Meaning(tuple(names)[:MAX_ALTERNATIVES], tuple(values), sure and not (names and values))

    def _names_of(self, names: Iterable[str], sure: bool = True) -> Meaning:
        found = tuple(dict.fromkeys(map(_shortened, names)))
        self._cutting |= len(found) > MAX_ALTERNATIVES
        return Meaning(found[:MAX_ALTERNATIVES], (), sure and len(found) <= MAX_ALTERNATIVES)


def _repeated(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return a * b if all(one <= MAX_LENGTH for one in (a, b) if isinstance(one, int)) else None


def _filled_in(a: Any, b: Any) -> Any:
    # A width in the text could ask for any size.
    return a % b if isinstance(a, int) or not any(sign.isdigit() or sign == "*" for sign in a) else None


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: _repeated,
    ast.Mod: _filled_in,
}


def _shortened(name: str) -> str:
    """A dotted name without what follows the sixteenth part: no module lies that deep."""
    return name if name.count(".") < MAX_PARTS else ".".join(name.split(".", MAX_PARTS)[:MAX_PARTS])


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | tuple):
        return len(value)
    return value.bit_length() if isinstance(value, int) else 0


def _items(values: Iterable[Any]) -> tuple[Any, ...]:
    flat = [item for value in values if isinstance(value, tuple) for item in value]
    return tuple(flat) if len(flat) <= MAX_ALTERNATIVES else ()


def _imported(importer: str, arguments: Sequence[Meaning]) -> Iterator[str]:
    for text in arguments[0].texts if arguments else ():
        if text.startswith("."):
            yield from (package + text for package in (arguments[1].texts if len(arguments) > 1 else ()))
        else:
            yield text.replace(":", ".")
            if importer.endswith("__import__"):  # of "a.b" it is a, unless names are asked for
                yield text.partition(".")[0]


def _text_method(text: Any, method: str, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
    if not isinstance(text, str | bytes) or (method == "format" and any(sign in str(text) for sign in ":!.[")):
        return None  # a format can ask for any width
    result = getattr(text, method)(*values, **named)
    return tuple(result) if isinstance(result, list) else result
