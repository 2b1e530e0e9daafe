"""By which names an answer could hide what it calls: none of them is an offence, but a person should read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autograder.examiner.bindings import SETATTR, Cell

Hiding = tuple[str, int | None]
"""What is used, and the line of the answer that leads to it; None where it stands beside the answer."""

MODULES = (
    *("autograder", "ctypes", "dis", "marshal", "pickle", "code", "codeop", "runpy"),
    *("gc.get_objects", "gc.get_referrers", "gc.get_referents"),
    *("inspect.currentframe", "inspect.stack", "inspect.trace"),
    *("inspect.getinnerframes", "inspect.getouterframes", "inspect.getclosurevars", "inspect.getmembers"),
    *("sys._getframe", "sys._current_frames", "sys.modules", "sys.settrace", "sys.setprofile", "sys.addaudithook"),
    *("types.CodeType", "types.FunctionType", "importlib.reload", "importlib.util", "importlib.machinery"),
    *("torch._C", "torch.library", "torch.overrides", "torch.utils._python_dispatch", "torch._inductor"),
    *("builtins.get_ipython", "builtins.open", "IPython"),
)
PASSED_AROUND = ("gc", "inspect", "sys", "builtins", "importlib")
"""The modules that are innocent where one constant name is taken from them."""

ATTRIBUTES = frozenset(
    (
        *("__code__", "__globals__", "__closure__", "__builtins__", "__subclasses__", "__reduce_ex__"),
        *("f_back", "f_globals", "f_locals", "f_builtins", "f_code", "gi_frame", "cr_frame", "ag_frame", "tb_frame"),
    )
)
PASSED_ON = ("exec", "eval", "compile", "getattr", "__import__")
"""Built-in functions whose constant arguments are read where they are called; passed on, they could do anything."""

ANYWHERE = ("autograder", "ctypes", "unittest", "torch.library", "torch.overrides")
"""The modules by which another cell could change what looks on, or what is called; and torch's private ones."""

ANYWHERE_BY_NAME = frozenset(
    (
        *("_getframe", "get_objects", "get_referrers", "get_referents", "__dict__", "__class__"),
        *("_C", "_inductor", "_dynamo", "_decomp", "_refs", "_higher_order_ops"),
    )
)


class Hidings:
    """Collects them, each thing once."""

    def __init__(self) -> None:
        self._found: dict[str, int | None] = {}
        self._read_at: set[int | None] = set()
        self._covered: set[str] = set()

    def __iter__(self) -> Iterator[Hiding]:
        return iter(self._found.items())

    def add(self, what: str, line: int | None) -> None:
        """Something is used in a line."""
        self._found.setdefault(what.removeprefix("builtins."), line)

    def see_name(self, dotted: str, line: int | None, *, called: bool) -> None:
        """A dotted name is used; the built-in functions that run texts are innocent where they are called."""
        for module in MODULES:
            if dotted == module or dotted.startswith(module + "."):
                if line is not None and line in self._read_at:  # what was read of it is told
                    self._covered.add(module)
                else:
                    self.add(module, line)
        if not called and dotted.removeprefix("builtins.") in PASSED_ON and dotted.startswith("builtins."):
            self.add(dotted, line)

    def see_passed_on(self, dotted: str, line: int | None) -> None:
        """Something is passed on as it is."""
        if dotted in PASSED_AROUND:
            self.add(dotted, line)

    def see_attribute(self, attribute: str, line: int | None) -> None:
        """An attribute is read, of whatever."""
        if attribute in ATTRIBUTES and line not in self._read_at:
            self._read_at.add(line)
            self.add(attribute, line)

    def see_beside(self, cell: Cell, is_read: Callable[[str], bool]) -> None:
        """Any cell, which the answer may not reach; `is_read`: whether the answer reads an attribute of that name."""
        for what in (*_beside(cell), *(f".{name} = …" for name in sorted(cell.sets) if is_read(name))):
            if not any(seen.rpartition(".")[2] == what.rpartition(".")[2] for seen in (*self._found, *self._covered)):
                self.add(what, None)


def _beside(cell: Cell) -> Iterator[str]:
    for module in ANYWHERE:
        if any(f"{name}.".startswith(f"{module}.") for name in cell.modules):
            yield module
    yield from sorted(name for name in cell.modules if name.startswith("torch._"))
    if SETATTR in cell.sets:
        yield SETATTR
    yield from sorted(cell.attributes & ANYWHERE_BY_NAME)
    yield from sorted(cell.loaders)
