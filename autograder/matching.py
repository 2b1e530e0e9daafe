"""Which submitted cell plays which of the course's cells: by grade_id, else by id, by what it defines, by its text."""

from __future__ import annotations

import difflib
import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from autograder.definitions import MAX_CODE, Definition, definitions, is_python, seems_to_define
from autograder.messages import N_, Message, message
from autograder.notebook import Cell

Rule = Literal["grade_id", "id", "definition", "text"]
ALIKE = 0.6
MARGIN = 0.15
"""How alike two texts must be, in lines, and how much more than the second best.

No two cells of a lesson are more alike than 0.55, and a lesson's cell is as a rule 0.7 to 0.95 like its earlier
releases. Cells that open two lessons are up to 0.7 alike: where both are in one notebook, the margin decides.
"""
MAX_LONGER = 4
"""How many times as long a text may be and still be compared: no longer one could be as much alike."""
MAX_NAMED = 8
"""How many cells are named that answer the same, beside the last one."""
MAX_COMPARED = 20
"""How many texts are compared line by line for one cell: those that share most lines with it."""


@dataclass(frozen=True)
class Matching:
    """Who plays whom.

    Attributes:
        roles: the course's cell that a submitted one stands for, by the index of that.
        rules: how each was found, by grade_id.
        elsewhere: answers that stand in a cell that plays another role already, by grade_id.
        given: the exercises that each cell's code answers otherwise than the course itself did, by index.
        doubts: what a person has to decide.
        told: what was decided here, and may surprise.
    """

    roles: Mapping[int, Cell]
    rules: Mapping[str, Rule]
    elsewhere: Mapping[str, int]
    given: Mapping[int, frozenset[str]]
    doubts: tuple[Message, ...]
    told: tuple[Message, ...] = ()

    def places(self) -> dict[str, int]:
        """The cell that answers or holds each of the course's, by grade_id."""
        return {role.grade_id or "": index for index, role in self.roles.items()} | dict(self.elsewhere)

    def repairs(self, released: Sequence[Cell]) -> list[Message]:
        """What was found by something else than its grade_id, in the course's order."""
        told, places = [], self.places()
        for cell in released:
            rule = self.rules.get(cell.grade_id or "", "grade_id")
            if rule != "grade_id":
                found = ANSWER_FOUND[rule] if cell.is_solution else CELL_FOUND[rule]
                told.append(message(found, name=cell.grade_id, cell=places[cell.grade_id or ""] + 1))
        return [*told, *self.told]


ANSWER_FOUND: dict[Rule, str] = {
    "id": N_("the answer to {name} was found in cell {cell} by the cell's id"),
    "definition": N_("the answer to {name} was found in cell {cell} by what it defines"),
    "text": N_("the answer to {name} was found in cell {cell} by its text"),
}
CELL_FOUND: dict[Rule, str] = {
    "id": N_("the course's cell {name} was found in cell {cell} by the cell's id"),
    "text": N_("the course's cell {name} was found in cell {cell} by its text"),
}


def match(cells: Sequence[Cell], released: Sequence[Cell], answers: Mapping[str, str]) -> Matching:
    """Match submitted cells with the course's; a cell plays one role at most.

    Args:
        cells: those that came in.
        released: the course's, as students got them.
        answers: what each exercise's answer is called in code, by the exercise's grade_id.
    """
    matcher = _Matcher(cells, released, answers)
    matcher.answers()
    matcher.locked()
    return Matching(
        matcher.roles, matcher.rules, matcher.elsewhere, matcher.given, tuple(matcher.doubts), tuple(matcher.told)
    )


def with_code(cells: Iterable[Cell], names: Collection[str]) -> Iterator[Cell]:
    """The cells that may hold answers, which have these names in code: code, and what was code by its look.

    That is a text or a raw cell: one key turns a cell into either, and neither takes the answer back.
    """
    room = MAX_CODE
    for cell in cells:
        if cell.kind == "code":
            yield cell
        elif (room := room - len(cell.source)) > 0:
            if any(seems_to_define(name, cell.source) for name in names):
                yield cell


@dataclass
class _Matcher:
    cells: Sequence[Cell]
    released: Sequence[Cell]
    names: Mapping[str, str]
    roles: dict[int, Cell] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)
    doubts: list[Message] = field(default_factory=list)
    told: list[Message] = field(default_factory=list)
    given: dict[int, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = {cell.grade_id: cell for cell in self.released if cell.grade_id}
        self.texts = {cell.source.strip() for cell in self.released}
        self.stripped = {cell.index: cell.source.strip() for cell in self.cells}
        answers = {self.names.get(name, name): cell for name, cell in self.known.items() if cell.is_solution}
        self.stubs = {name: (cell, definitions(cell.source).get(name)) for name, cell in answers.items()}
        self.given = dict.fromkeys(self.stripped, frozenset())
        self.given |= {cell.index: frozenset(self._gives(cell)) for cell in with_code(self.cells, self.stubs)}

    def _gives(self, cell: Cell) -> Iterator[str]:
        """The exercises that its code answers, otherwise than the course itself did."""
        if self.stripped[cell.index] in self.texts:
            return
        for name, defined in definitions(cell.source).items():
            role, stub = self.stubs.get(name, (None, None))
            if role is not None and not defined.empty and not _same_shape(defined, stub):
                yield role.grade_id or ""

    def answers(self) -> None:
        """Find the answers; a cell that claims one and gives it comes before all else."""
        found = {name: self._answer(role) for name, role in self.known.items() if role.is_solution}
        order: dict[Rule, int] = {"grade_id": 0, "id": 1, "definition": 2, "text": 3}
        for name, (cell, rule) in sorted(
            ((name, one) for name, one in found.items() if one), key=lambda item: order[item[1][1]]
        ):
            self.rules[name] = rule
            if cell.index in self.roles:
                self.elsewhere[name] = cell.index
            else:
                self.roles[cell.index] = self.known[name]

    def locked(self) -> None:
        """Find the course's own cells among the rest."""
        for name, role in self.known.items():
            if role.is_solution:
                continue
            found = self._locked(role)
            if found is not None and not self._would_lose(found[0], role):
                cell, self.rules[name] = found
                self.roles[cell.index] = role

    def _answer(self, role: Cell) -> tuple[Cell, Rule] | None:
        name = role.grade_id or ""
        claiming, named = self._claiming(role), self._of_the_same_id(role)
        given = [cell for cell in self.cells if name in self.given[cell.index] and role.kind == "code"]
        code = [cell for cell in given if cell.kind == "code"]
        own = [cell for cell in code if not self._is_locked(cell)]
        if found := _chosen(code, claiming, named, own):
            self._tell_which_counts(role, [cell for cell in code if cell is found[0] or not self._is_locked(cell)])
            return found
        texts = [cell for cell in given if cell.kind != "code"]
        if found := _chosen(texts, claiming, named, texts):
            self._expect_alike(role, _among(texts, claiming) or texts)
            return found
        # Nobody gives it: what was tried, then what was left as it came.
        tried, left = self._attempts(role)
        by: Rule = "definition" if role.kind == "code" else "text"
        return _last(
            ("grade_id", [cell for cell in claiming if not self._is_as_released(cell, role)]),
            ("id", [cell for cell in named if not self._is_as_released(cell, role)]),
            ("definition", tried),
            ("grade_id", claiming),
            ("id", named),
            (by, left),
        )

    def _attempts(self, role: Cell) -> tuple[list[Cell], list[Cell]]:
        """The cells that look like an answer and are no Python, and those that hold what was released."""
        name = self.names.get(role.grade_id or "", role.grade_id or "")
        of_its_kind = [cell for cell in self.cells if cell.kind == role.kind]
        if role.kind != "code":
            return [], [cell for cell in of_its_kind if self._is_as_released(cell, role)]
        broken = (cell for cell in of_its_kind if not is_python(cell.source))
        tried = [cell for cell in broken if seems_to_define(name, cell.source)]
        return tried, [cell for cell in of_its_kind if name in definitions(cell.source)]

    def _locked(self, role: Cell) -> tuple[Cell, Rule] | None:
        free = [cell for cell in self.cells if cell.index not in self.roles]
        claiming = [cell for cell in self._claiming(role) if cell.index not in self.roles]
        alike = [cell for cell in free if self._is_as_released(cell, role)]
        if claiming:
            return next(iter(_among(claiming, alike)), claiming[0]), "grade_id"
        if named := [cell for cell in self._of_the_same_id(role) if cell.index not in self.roles]:
            return next(iter(_among(named, alike)), named[0]), "id"
        if alike:
            return alike[0], "text"
        strange = [
            cell for cell in free if cell.grade_id not in self.known and self.stripped[cell.index] not in self.texts
        ]
        best = most_alike(role.source, strange)
        return None if best is None else (best, "text")

    def _claiming(self, role: Cell) -> list[Cell]:
        """The cells that carry its grade_id, and that do not hold the text of another of the course's cells."""
        return [cell for cell in self.cells if cell.grade_id == role.grade_id and not self._is_another(cell, role)]

    def _of_the_same_id(self, role: Cell) -> list[Cell]:
        return [
            cell
            for cell in self.cells
            if role.id and cell.id == role.id and cell.grade_id not in self.known and not self._is_another(cell, role)
        ]

    def _is_locked(self, cell: Cell) -> bool:
        role = self.known.get(cell.grade_id or "")
        return role is not None and not role.is_solution

    def _is_another(self, cell: Cell, role: Cell) -> bool:
        return self.stripped[cell.index] in self.texts and not self._is_as_released(cell, role)

    def _is_as_released(self, cell: Cell, role: Cell) -> bool:
        return self.stripped[cell.index] == role.source.strip()

    def _tell_which_counts(self, role: Cell, cells: Sequence[Cell]) -> None:
        """Of several cells that give an answer and differ the last one counts, as it does when they are run."""
        answer = self.names.get(role.grade_id or "", role.grade_id or "")
        cells = [cell for cell in cells if not cell.source.lstrip().startswith("%%writefile")]
        claims = [cell for cell in cells if cell.grade_id == role.grade_id]
        differ = any(not _alike_in(cells[-1], cell, answer) for cell in cells)
        if differ or any(not _alike(claims[-1], cell) for cell in claims):
            said = N_("cells {cells} all answer {name}; the last one counts, as it does when the notebook is run")
            first = ", ".join(str(cell.index + 1) for cell in cells[:-1][:MAX_NAMED])
            numbers = f"{first}, {'… ' if len(cells) > MAX_NAMED + 1 else ''}{cells[-1].index + 1}"
            self.told.append(message(said, cells=numbers, name=role.grade_id))

    def _expect_alike(self, role: Cell, cells: Sequence[Cell]) -> None:
        """Several texts that are no code may stand for an answer, if they give the same one."""
        for cell in cells[1:]:
            if not _alike(cells[0], cell):
                said = N_(
                    "cells {first} and {second} both stand for the answer to {name}, and they differ; somebody has to "
                    "say which of them counts"
                )
                doubt = message(said, first=cells[0].index + 1, second=cell.index + 1, name=role.grade_id)
                self.doubts.append(doubt)
                return

    def _would_lose(self, cell: Cell, role: Cell) -> bool:
        """Whether a cell in whose place the course's own would be put gives an answer that no other cell repeats."""
        places = {role.grade_id: index for index, role in self.roles.items()} | self.elsewhere
        for name in sorted(self.given[cell.index]):
            kept = next((one for one in self.cells if one.index == places.get(name)), None)
            if kept is not None and not _alike_in(cell, kept, self.names.get(name, name)):
                said = N_(
                    "cell {first} gives another answer to {name} than cell {second}, and stands in the place of the "
                    "course's cell {cell}; somebody has to say which of them counts"
                )
                first, second = cell.index + 1, kept.index + 1
                self.doubts.append(message(said, first=first, name=name, second=second, cell=role.grade_id))
                return True
        return False


def most_alike(text: str, cells: Sequence[Cell]) -> Cell | None:
    """The cell whose text is most like this one, if it is like it and no other nearly as much."""
    wanted = _lines(text)
    if not wanted:
        return None
    counted = Counter(wanted)
    bounds = []
    for place, cell in enumerate(cells):
        if len(cell.source) > MAX_LONGER * len(text):
            continue
        lines = _lines(cell.source)
        shared = sum((counted & Counter(lines)).values())
        bounds.append((2 * shared / (len(wanted) + len(lines)), -place))
    ranked = []
    for bound, place in heapq.nlargest(MAX_COMPARED, bounds):
        if bound >= ALIKE - MARGIN:
            matcher = difflib.SequenceMatcher(None, wanted, _lines(cells[-place].source), autojunk=False)
            ranked.append((matcher.ratio(), place))
    ranked.sort(reverse=True)
    if not ranked or ranked[0][0] < ALIKE or (len(ranked) > 1 and ranked[0][0] - ranked[1][0] < MARGIN):
        return None
    return cells[-ranked[0][1]]


def _same_shape(one: Definition, other: Definition | None) -> bool:
    return other is not None and one.shape is not None and one.shape == other.shape


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _last(*found: tuple[Rule, Sequence[Cell]]) -> tuple[Cell, Rule] | None:
    """The last cell of the first that are not empty."""
    return next(((cells[-1], rule) for rule, cells in found if cells), None)


def _among(cells: Iterable[Cell], others: Iterable[Cell]) -> list[Cell]:
    """Those of the cells that are among others too."""
    places = {cell.index for cell in others}
    return [cell for cell in cells if cell.index in places]


def _chosen(
    giving: Sequence[Cell], claiming: Sequence[Cell], named: Sequence[Cell], own: Sequence[Cell]
) -> tuple[Cell, Rule] | None:
    """The cell that stands for an answer, of those that give it."""
    return _last(
        ("grade_id", _among(giving, claiming)),
        ("id", _among(giving, named)),
        ("definition", own),
        ("definition", giving),
    )


def _alike(one: Cell, other: Cell) -> bool:
    """Whether two cells define the same, whatever their comments and layout."""
    return one.source.strip() == other.source.strip() or definitions(one.source) == definitions(other.source)


def _alike_in(one: Cell, other: Cell, name: str) -> bool:
    return definitions(one.source).get(name) == definitions(other.source).get(name)
