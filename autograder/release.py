"""From ``source/<a>/<a>.ipynb``, with solutions, to ``release/<a>/<a>.ipynb``, which students get.

The notebook goes through the preprocessors of ``nbgrader generate_assignment``, except the one that writes
the gradebook, with our `ClearSolutions` in place of the stock one; so both commands give the same bytes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode, ValidationError
from nbgrader import preprocessors as stock
from nbgrader import utils
from nbgrader.converters import GenerateAssignment
from nbgrader.nbgraderformat import ValidationError as MetadataError
from traitlets import Unicode
from traitlets.config import Config

from autograder.course import Course
from autograder.errors import CourseError, UnusableNotebook
from autograder.notebook import read_notebook


class ClearSolutions(stock.ClearSolutions):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's preprocessor that also understands a stub written beside its solution::

        ### BEGIN SOLUTION
        shapes = {"scores": (2, 5, 5)}
        ### END SOLUTION
        ### BEGIN STUB
        # shapes = {"scores": None}
        ### END STUB

    The commented lines become the release's code; a solution without them gets nbgrader's own stub.
    In ``nbgrader_config.py``: ``c.GenerateAssignment.preprocessors = release_preprocessors()``.
    """

    begin_stub_delimeter = Unicode(
        "BEGIN STUB", help="The delimiter marking the beginning of a stub (spelled as in nbgrader)"
    ).tag(config=True)
    end_stub_delimeter = Unicode("END STUB", help="The delimiter marking the end of a stub").tag(config=True)

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> tuple[NotebookNode, Any]:
        """Clear one cell.

        Raises:
            CourseError: one sentence with the notebook and the cell, where the marks do not fit together.
        """
        try:
            if self.enforce_metadata and not utils.is_solution(cell) and len(self._regions(cell.source)) > 1:
                raise CourseError("a solution stands here, but nbgrader has not marked the cell as a solution")
            cell, resources = super().preprocess_cell(cell, resources, cell_index)
        except CourseError as fault:
            notebook = resources.get("metadata", {}).get("name", "the notebook")
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            where = f"cell {cell_index + 1}" + (f" ({name})" if name else "")
            raise CourseError(f"{notebook}, {where}: {fault}.") from None
        return cell, resources

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        """Replace each solution by the stub that follows it, or by nbgrader's; tell whether there was one."""
        stock_stub = self.code_stub[language] if cell.cell_type == "code" else self.text_stub
        regions = self._regions(cell.source)
        lines: list[str] = []
        for place, region in enumerate(regions):
            if region.kind == "stub":
                lines += [_uncommented(line) for line in region.lines]
            elif region.kind == "text":
                lines += region.lines
            elif not _stub_follows(regions[place + 1 :]):
                lines += [region.indent + line for line in stock_stub.split("\n")]
        cell.source = "\n".join(lines)
        return any(region.kind == "solution" for region in regions)

    def _regions(self, source: str) -> list[_Region]:
        """The cell's lines, cut at the delimiters; none of its solutions and stubs is open or nested."""
        begins = {self.begin_solution_delimeter: "solution", self.begin_stub_delimeter: "stub"}
        ends = {self.end_solution_delimeter: "solution", self.end_stub_delimeter: "stub"}
        regions = [_Region("text")]
        for line in source.split("\n"):
            begin = next((kind for mark, kind in begins.items() if mark in line), None)
            end = next((kind for mark, kind in ends.items() if mark in line), None)
            within = regions[-1].kind
            if begin:
                if within != "text":
                    raise CourseError(f"BEGIN {begin.upper()} stands before the END {within.upper()} of another")
                if begin == "stub" and not _is_after_solution(regions):
                    raise CourseError("BEGIN STUB must follow the END SOLUTION that it stands for")
                regions.append(_Region(begin, indent=line[: len(line) - len(line.lstrip())]))
            elif end:
                if within != end:
                    raise CourseError(f"END {end.upper()} has no BEGIN {end.upper()}")
                regions.append(_Region("text"))
            else:
                regions[-1].lines.append(line)
        if regions[-1].kind != "text":
            raise CourseError(f"BEGIN {regions[-1].kind.upper()} has no END {regions[-1].kind.upper()}")
        return regions


@dataclass
class _Region:
    """Lines of a cell: a solution, a stub, or what is neither (text)."""

    kind: str
    indent: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def blank(self) -> bool:
        return self.kind == "text" and not any(line.strip() for line in self.lines)


def release_preprocessors() -> list[Any]:
    """The preprocessors of ``nbgrader generate_assignment``, with our `ClearSolutions` by its dotted name."""
    return [
        f"{ClearSolutions.__module__}.{ClearSolutions.__name__}" if kind is stock.ClearSolutions else kind
        for kind in GenerateAssignment().preprocessors
    ]


def make_release(source: Path) -> str:
    """The text of the release notebook; the same bytes for the same source.

    Raises:
        CourseError: one sentence that names the notebook, and the cell where it can.
    """
    _check_source(source)
    quiet = logging.Logger("release")  # nbgrader logs a traceback beside each exception
    quiet.addHandler(logging.NullHandler())
    exporter = NotebookExporter(log=quiet, config=Config({"Exporter": {"default_preprocessors": []}}))
    for preprocessor in release_preprocessors():
        if preprocessor is not stock.SaveCells:  # it would write the gradebook
            exporter.register_preprocessor(preprocessor, enabled=True)
    try:
        text, _ = exporter.from_filename(str(source))
    except (RuntimeError, ValidationError, MetadataError) as fault:
        cause = str(fault.__context__ or fault).strip().splitlines()[0].rstrip(".")
        raise CourseError(f"{source}: {cause}.") from None
    for mark in ("BEGIN SOLUTION", "END SOLUTION", "BEGIN STUB", "END STUB"):
        if mark in text:
            raise CourseError(f"{source}: the release would still hold '{mark}'; write it in solution cells only.")
    return str(text)


def write_release(course: Course, names: Iterable[str] = ()) -> list[Path]:
    """Write the release notebooks of these assignments (of all by default); returns those that changed."""
    changed = []
    for name in _known(course, names):
        text = make_release(course.source_notebook(name))
        target = course.release_notebook(name)
        if _text(target) != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_suffix(".ipynb.new")
            draft.write_text(text, encoding="utf-8", newline="\n")
            draft.replace(target)
            changed.append(target)
    return changed


def check_release(course: Course, names: Iterable[str] = ()) -> list[Path]:
    """The release notebooks of these assignments (of all by default) that are missing or out of step."""
    return [
        course.release_notebook(name)
        for name in _known(course, names)
        if _text(course.release_notebook(name)) != make_release(course.source_notebook(name))
    ]


def _known(course: Course, names: Iterable[str]) -> list[str]:
    return [course.assignment(name).name for name in names or course.assignments]


def _check_source(source: Path) -> None:
    """Refuse what nbformat would mend at random: cells without ids get new ones at each reading."""
    try:
        notebook = read_notebook(source)
    except UnusableNotebook as fault:
        raise CourseError(str(fault)) from None
    seen: set[str] = set()
    for cell in notebook.cells:
        if not cell.id or cell.id in seen:
            what = "has the id of an earlier cell" if cell.id else "has no id"
            raise CourseError(
                f"{source}: cell {cell.index + 1} {what}; open the notebook in JupyterLab and save it again."
            )
        seen.add(cell.id)


def _uncommented(line: str) -> str:
    """A stub's line as live code: without its first ``# `` or ``#``, its indentation kept."""
    if not line.strip():
        return ""
    indent, mark, code = re.fullmatch(r"(\s*)(# ?|)(.*)", line).groups()  # type: ignore[union-attr] # matches all
    if not mark:
        raise CourseError(f"a line of the stub is not commented out: {code}")
    return f"{indent}{code}".rstrip()


def _stub_follows(regions: list[_Region]) -> bool:
    return next((region.kind for region in regions if not region.blank), "") == "stub"


def _is_after_solution(regions: list[_Region]) -> bool:
    return next((r.kind for r in reversed(regions) if not r.blank), "") == "solution"


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
