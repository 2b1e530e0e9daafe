"""A notebook's cells as the course knows them: its own put back, answers in place, and what was done for that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from autograder.course import Assignment
from autograder.definitions import defined_by, definitions, tree
from autograder.matching import Matching, match
from autograder.messages import N_, Message, message
from autograder.notebook import TEST_PREFIX, Cell, Kind, Notebook
from autograder.runnable import cleared, joined, kept_of_changed, without_strays

ILLUSTRATION = "illustration"
MAX_NAMES = 8
"""How many names a sentence tells."""


@dataclass(frozen=True)
class MendedCell:
    """A cell of a mended notebook.

    Attributes:
        number: its place in the notebook that came in, from 0; negative for a cell that was added, or that the course
            has in the place of one of which something was kept, which has the number then.
        role: the course's cell that it stands for, whose metadata counts; None for one of the student's own.
        as_released: nothing that it shows is the student's.
        runs: whether it is run in grading.
        code: what is run, where that is not its text.
        answered_in: the number of the cell that holds its answer, where a cell had to be added for its place.
    """

    number: int
    kind: Kind
    source: str
    role: Cell | None = None
    as_released: bool = False
    runs: bool = False
    attachments: dict[str, Any] = field(default_factory=dict)
    code: str | None = None
    answered_in: int | None = None

    @property
    def text(self) -> str:
        """The code that is run."""
        return self.source if self.code is None else self.code

    @property
    def added(self) -> bool:
        """Whether the submission did not hold it."""
        return self.number < 0

    def plays(self, grade_id: str) -> bool:
        """Whether it stands for the course's cell of that name."""
        return self.role is not None and self.role.grade_id == grade_id


class Restoration:
    """A notebook on its way to the one that the course knows, step by step.

    Attributes:
        cells: those that came in, and those that were added.
        repairs: what was done, in the order in which it was done.
        matching: which of the cells that came in plays which role.
    """

    def __init__(self, notebook: Notebook, released: Notebook, assignment: Assignment) -> None:
        self._released = released.cells
        self._texts = {(cell.kind, cell.source.strip()): cell for cell in reversed(released.cells)}
        self._names = {one.name: one.answer for one in assignment.exercises.values()}
        self.repairs: list[Message] = [*notebook.repairs]
        clear, told = cleared(notebook.cells)
        self.repairs += told
        self._code, told = joined(clear, list(self._names.values()))
        self.repairs += told
        self.matching: Matching = match(self._code, released.cells, self._names)
        self.repairs += self.matching.repairs(released.cells)
        self._kept = self._kept_of_changed()
        self.cells = [one for pair in zip(notebook.cells, self._code, strict=True) for one in self._cell(*pair)]
        self._add_missing()
        self._put_first_what_answers_need()
        self._silence_stubs()
        self._leave_strays_out()

    def unanswered(self) -> list[str]:
        """The exercises that no cell answers, not even by what it was released with."""
        return [
            cell.role.grade_id or ""
            for cell in self.cells
            if cell.added and cell.role is not None and cell.role.is_solution and cell.answered_in is None
        ]

    def _tell(self, said: str, **args: Any) -> None:
        self.repairs.append(message(said, **args))

    def _cell(self, cell: Cell, code: Cell) -> list[MendedCell]:
        """One of the cells that came in, as one or two of the mended ones; `code` holds what there is to run of it."""
        role = self.matching.roles.get(cell.index)
        if role is None:
            return [self._own(cell, code)]
        return [self._answer(cell, code, role)] if role.is_solution else self._of_the_course(cell, role)

    def _answer(self, cell: Cell, code: Cell, role: Cell) -> MendedCell:
        as_released = not _differs(cell, role)
        kind: Kind = self._kind_of_answer(cell, role)
        attachments = role.attachments if as_released else cell.attachments
        other = None if code.source == cell.source else code.source
        runs = kind == "code" and bool(code.source.strip())
        return MendedCell(cell.index, kind, cell.source, role, as_released, runs, attachments, other)

    def _own(self, cell: Cell, code: Cell) -> MendedCell:
        """A cell of the student's, or one of the course's that has no grade_id."""
        text = cell.source.strip()
        same = self._texts.get((cell.kind, text))
        if same is None and cell.kind == "code" and (prose := self._texts.get(("markdown", text))):
            self._tell(N_("cell {cell} was a text cell of the course, and is one again"), cell=cell.index + 1)
            return MendedCell(cell.index, "markdown", prose.source, None, True, attachments=prose.attachments)
        shown = same is not None and ILLUSTRATION in same.tags
        runs = cell.kind == "code" and bool(code.source.strip()) and not shown
        attachments = cell.attachments if same is None else same.attachments
        other = None if code.source == cell.source else code.source
        return MendedCell(cell.index, cell.kind, cell.source, None, same is not None, runs, attachments, other)

    def _of_the_course(self, cell: Cell, role: Cell) -> list[MendedCell]:
        """The course's own cell in the place of one that came in, and what is kept of that as one of the student's.

        It stands where it can be used: behind what the course gives, and before an exercise is examined.
        """
        runs = role.kind == "code" and bool(role.source.strip())
        own = MendedCell(cell.index, role.kind, role.source, role, True, runs, role.attachments)
        if not _differs(cell, role):
            return [own]
        self._tell(N_("put the course's own cell {cell} in place of one that differs from it"), cell=role.grade_id)
        if cell.index not in self._kept:
            return [own]
        text, names = self._kept[cell.index]
        said = N_("kept {names} of the changed cell {cell}, for other cells use it")
        more = [f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
        self._tell(said, names=", ".join([*names[:MAX_NAMES], *more]), cell=role.grade_id)
        own = replace(own, number=-1 - len(self._released) - cell.index)
        kept = MendedCell(cell.index, "code", text, runs=True)
        return [kept, own] if role.is_grade else [own, kept]

    def _kept_of_changed(self) -> dict[int, tuple[str, list[str]]]:
        """What is kept of the course's cells that were changed, and the names that other cells need of it."""
        changed, own = {}, []
        for cell in self._code:
            role = self.matching.roles.get(cell.index)
            if role is not None and not role.is_solution:
                if role.kind == cell.kind == "code" and _differs(cell, role):
                    changed[cell.index] = (cell.source, role.source)
            elif (cell.kind, cell.source.strip()) not in self._texts:
                is_answer = role is not None and role.grade_id in self.matching.given[cell.index]
                own += [cell.source] if cell.kind == "code" or is_answer else []
        return kept_of_changed(changed, own) if changed else {}

    def _kind_of_answer(self, cell: Cell, role: Cell) -> Kind:
        """Answers in code are code, answers in words are words, whatever their cell was turned into."""
        if cell.kind == role.kind:
            return cell.kind
        if role.kind == "code" and role.grade_id in self.matching.given[cell.index]:
            said = N_("cell {cell} is no code cell; the answer to {name} that it holds was run as code")
        elif role.kind == "markdown" and cell.kind == "code":
            said = N_("cell {cell} is a code cell; the answer to {name} that it holds was taken for words")
        else:
            return cell.kind
        self._tell(said, cell=cell.index + 1, name=role.grade_id)
        return role.kind

    def _add_missing(self) -> None:
        """Add the course's cells that are lacking: what code relies on first, answers and graded cells at the end.

        Those at the end are not run: they are there so that each has its place in the gradebook and on the page.
        """
        met = {cell.role.grade_id for cell in self.cells if cell.role is not None}
        missing = [cell for cell in self._released if cell.grade_id and cell.grade_id not in met]
        first = [cell for cell in missing if cell.is_locked and not cell.is_grade]
        for place, cell in enumerate(missing, start=1):
            added = MendedCell(-place, cell.kind, cell.source, cell, True, False, cell.attachments)
            if cell in first:
                self.cells.insert(first.index(cell), replace(added, runs=cell.kind == "code"))
                self._tell(N_("added the cell {cell}, which belongs to the course"), cell=cell.grade_id)
            elif (other := self.matching.elsewhere.get(cell.grade_id or "")) is not None:
                self.cells.insert(self._behind(other), replace(added, answered_in=other))
            elif cell.is_grade and not cell.is_solution:
                self.cells.insert(self._place_for(cell), added)
                said = N_("the cell {cell} is missing; the exercise was checked all the same")
                self._tell(said, cell=cell.grade_id)
            else:
                self.cells.append(added)
                self._tell(N_("the cell {cell} is missing, and no other cell answers it"), cell=cell.grade_id)

    def _place_for(self, graded: Cell) -> int:
        """Where to add a graded cell: behind its answer, else at the end."""
        exercise = (graded.grade_id or "").removeprefix(TEST_PREFIX)
        plays = (place + 1 for place, cell in enumerate(self.cells) if cell.plays(exercise))
        return next(plays, len(self.cells))

    def _behind(self, number: int) -> int:
        return next(place + 1 for place, cell in enumerate(self.cells) if cell.number == number)

    def _put_first_what_answers_need(self) -> None:
        """Move cells that code relies on before the exercises that would be examined, or run, without them."""
        order = {cell.grade_id or "": place for place, cell in enumerate(self._released)}
        for helper in (cell for cell in self._released if cell.is_locked and not cell.is_grade and cell.kind == "code"):
            place = next((at for at, cell in enumerate(self.cells) if cell.plays(helper.grade_id or "")), 0)
            exercises = [name for name in self._names if order.get(name, -1) > order[helper.grade_id or ""]]
            firsts = [min(places) for name in exercises if (places := self._needs(name)) and max(places) < place]
            if firsts:
                end = place + 2 if self._is_followed_by_kept(place) else place + 1
                moved, self.cells[place:end] = self.cells[place:end], []
                self.cells[min(firsts) : min(firsts)] = moved
                self._tell(N_("moved the cell {cell} before the exercises that rely on it"), cell=helper.grade_id)

    def _is_followed_by_kept(self, place: int) -> bool:
        """Whether what was kept of a changed cell stands behind the course's own."""
        pair = self.cells[place : place + 2]
        return len(pair) == 2 and pair[1].role is None and pair[1].number in self._kept

    def _needs(self, name: str) -> list[int]:
        """The places of the cells with which an exercise is done: a value when it is given, a function when called."""
        is_value = self._names[name] != name
        players = (name,) if is_value else (name, TEST_PREFIX + name)
        return [at for at, cell in enumerate(self.cells) if cell.runs and any(map(cell.plays, players))]

    def _silence_stubs(self) -> None:
        """An answer is not undone by a later cell that holds it as it was released."""
        for name, answer in self._names.items():
            defining = [
                place for place, cell in enumerate(self.cells) if cell.runs and answer in definitions(cell.text)
            ]
            given = [place for place in defining if name in self.matching.given.get(self.cells[place].number, ())]
            for place in defining:
                cell = self.cells[place]
                if given and place > given[-1] and self._holds_answers_alone(cell):
                    self.cells[place] = replace(cell, runs=False)
                    said = N_("cell {cell} was not run: it holds {name} without the answer, which cell {other} gives")
                    other = self.cells[given[-1]].number + 1
                    self._tell(said, cell=cell.number + 1, name=name, other=other)

    def _holds_answers_alone(self, cell: MendedCell) -> bool:
        names = set(self._names.values())
        defined = [{name for name, _ in defined_by(statement)} for statement in tree(cell.text) or ()]
        return all(one and one <= names for one in defined)

    def _leave_strays_out(self) -> None:
        run = [Cell(cell.number, "code", cell.text, "") for cell in self.cells if cell.runs]
        answers = [cell for cell in run if self.matching.given.get(cell.index)]
        others = [cell for cell in run if not self.matching.given.get(cell.index)]
        own_modules = any("writefile" in cell.source for cell in others)
        changed, told = without_strays(answers, others, set(self._names.values()), own_modules)
        self.cells = [
            replace(cell, code=changed[cell.number]) if cell.number in changed else cell for cell in self.cells
        ]
        self.repairs += told


def _differs(cell: Cell, role: Cell) -> bool:
    """Whether a cell is not as the course released it."""
    return (role.kind, role.source.strip()) != (cell.kind, cell.source.strip())
