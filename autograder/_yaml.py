"""A YAML file read into msgspec structs, whose errors name the line, the key, and what is expected there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

import msgspec

from autograder.errors import CourseError

if TYPE_CHECKING:
    import yaml

StructT = TypeVar("StructT", bound=msgspec.Struct)
Key = tuple[str, ...]


class YamlFile:
    """A YAML file turned into structs key by key, so that an error can name the key and its line.

    Each field's type is annotated with ``Meta(description=...)``, which completes "<key> must be ...".
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.node: yaml.Node | None = None
        self.values = self._read()

    def error(self, key: Key, problem: str) -> CourseError:
        """The sentence about a key."""
        line = self._line(key)
        where = f"{self.path}, line {line}" if line else str(self.path)
        return CourseError(f"{where}: {'.'.join(key)} {problem}.")

    def struct(self, kind: type[StructT], **given: Any) -> StructT:
        """The whole file as a struct of this kind; `given` are the fields that do not stand in the file."""
        return self._struct(self.values, kind, (), given)

    def _struct(self, values: Any, kind: type[StructT], key: Key, given: dict[str, Any]) -> StructT:
        if not isinstance(values, dict):
            raise self.error(key or ("the file",), f"must be a list of keys and values, not {_shown(values)}")
        fields = {f.name: f for f in msgspec.structs.fields(kind) if f.name not in given}
        given = dict(given)
        for name in values:
            if name not in fields:
                near = did_you_mean(name, fields) or f"; known keys: {', '.join(fields)}"
                raise self.error((*key, str(name)), f"is not a known key{near}")
        for name, field in fields.items():
            if name in values:
                given[name] = self._value(values[name], field.type, (*key, name))
            elif field.required:
                raise self.error((*key, name), "is missing")
        return kind(**given)

    def _value(self, value: Any, kind: Any, key: Key) -> Any:
        if get_origin(kind) is dict:
            return self._named(value, get_args(kind)[1], key)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._struct(value, kind, key, {})
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise self.error(key, f"must be {_description(kind)}, not {_shown(value)}") from None

    def _named(self, values: Any, kind: Any, key: Key) -> dict[str, Any]:
        """A mapping from names that the course chooses."""
        if not isinstance(values, dict):
            raise self.error(key, f"must be a list of names and values, not {_shown(values)}")
        named = {}
        for name, value in values.items():
            inner = (*key, str(name))
            if not isinstance(name, str):
                raise self.error(inner, "must be a name, in quotes where it is a number")
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                [name_field] = [f for f in msgspec.structs.fields(kind) if f.name == "name"]
                try:
                    msgspec.convert(name, name_field.type)
                except msgspec.ValidationError:
                    raise self.error(inner, f"must be {_description(name_field.type)}") from None
                named[name] = self._struct({} if value is None else value, kind, inner, {"name": name})
            else:
                named[name] = self._value(value, kind, inner)
        return named

    def _read(self) -> Any:
        import yaml

        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise CourseError(
                f"{self.path} does not exist; go into the course's folder, or name it with --course."
            ) from None
        except UnicodeDecodeError:
            raise CourseError(f"{self.path} is not UTF-8 text.") from None
        except OSError as fault:
            raise CourseError(f"{self.path} can't be read: {fault.strerror}.") from None
        try:
            loader = _loader()(text)
            try:
                self.node = loader.get_single_node()
                self._refuse_duplicates(self.node, ())
                return loader.construct_document(self.node) if self.node else None
            finally:
                loader.dispose()
        except yaml.MarkedYAMLError as fault:
            mark = fault.problem_mark or fault.context_mark
            line = f", line {mark.line + 1}" if mark else ""
            raise CourseError(f"{self.path}{line}: this is not YAML: {fault.problem}.") from None
        except yaml.YAMLError as fault:
            raise CourseError(f"{self.path}: this is not YAML: {str(fault).splitlines()[0]}.") from None
        except (ValueError, RecursionError) as fault:  # a tag such as !!int before a word; absurd nesting
            raise CourseError(f"{self.path}: this is not YAML: {fault}.") from None

    def _refuse_duplicates(self, node: yaml.Node | None, key: Key) -> None:
        """YAML lets the last of two equal keys win in silence."""
        import yaml

        if not isinstance(node, yaml.MappingNode):
            return
        seen: set[str] = set()
        for name, value in node.value:
            inner = (*key, str(name.value))
            if inner[-1] in seen:
                line = name.start_mark.line + 1
                raise CourseError(f"{self.path}, line {line}: {'.'.join(inner)} stands here a second time.")
            seen.add(inner[-1])
            self._refuse_duplicates(value, inner)

    def _line(self, key: Key) -> int | None:
        """The line of a key, or that of the nearest key above it."""
        import yaml

        node, line = self.node, None
        for part in key:
            if not isinstance(node, yaml.MappingNode):
                break
            for name, value in node.value:
                if str(name.value) == part:
                    node, line = value, name.start_mark.line + 1
                    break
            else:
                break
        return line


def _loader() -> type[yaml.SafeLoader]:
    """A safe loader that leaves dates as text: they are read, and complained about, with all other values."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


def _description(kind: Any) -> str:
    """What stands in the annotation's `Meta`; of ``X | None`` that of X."""
    for part in (kind, *get_args(kind)):
        for note in getattr(part, "__metadata__", ()):
            if note.description:
                return str(note.description)
    raise TypeError(f"{kind} has no description")  # a field of this module without one; the tests meet it


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or nothing where no known name is near."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
