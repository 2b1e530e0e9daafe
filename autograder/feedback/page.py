"""The page that a student receives after grading: one HTML file, without a script or anything from elsewhere."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from autograder.feedback.cells import Block, Cells, nbgrader_of, prose
from autograder.feedback.kept import kept_in
from autograder.feedback.mark import Mark
from autograder.feedback.rows import Row, Translations, marked, plain, rows, say, sentence
from autograder.messages import N_, Message
from autograder.notebook import TEST_PREFIX
from autograder.report import ExerciseReport, total
from autograder.wording import points, statement

# What the template says; it stands here, where the catalogue's tools look for sentences.
_WORDS = {
    "feedback": N_("Feedback"),
    "exercises": N_("Exercises"),
    "exercise": N_("exercise"),
    "points": N_("points"),
    "hint": N_("Hint"),
    "comment": N_("Comment on your answer"),
    "to_answer": N_("your answer"),
    "notebook": N_("Your notebook, as it ran"),
    "not_run": N_("The figures of the course itself are not drawn again here."),
    "untouched": N_("as it was released"),
    "empty": N_("This notebook has no cells."),
    "to_top": N_("to the top"),
}
_WITH_FIELDS = {
    "numbered": N_("Exercise {number}"),
    "answer": N_("Your answer to exercise {number}"),
    "cell": N_("cell {number}"),
    "one_course_cell": N_("a cell of the course's own, as released"),
    "course_cells": N_("the course's own cells ({count}), as released"),
    "repaired": N_("Repaired: {what}"),
    "late": N_("Handed in late: {points} points are taken off."),
    "made_from": N_("This page is about {file} as you handed it in (version {fingerprint})."),
}
# The folders of an absolute path.
_CELL_NUMBER = re.compile("\ue0f6(\\d+)\ue0f7")
"""A cell's number in a note that is to be linked; private characters stand around it."""
_FOLDERS = re.compile(r"(?<![\w./])/(?:[^\s/]+/)+")


@dataclass(frozen=True)
class _Exercise:
    """An exercise as the template shows it."""

    name: str
    number: int
    mark: Mark
    points: str
    tone: str
    said: tuple[str, ...] = ()
    statement: str = ""
    lost: tuple[Row, ...] = ()
    passed: tuple[Row, ...] = ()
    comments: tuple[Markup, ...] = ()
    answer: bool = False


def page(
    notebook: Mapping[str, Any],
    marks: Mapping[str, Mark],
    *,
    assignment_title: str,
    student: str | None = None,
    late_penalty: float = 0.0,
    translations: Translations = None,
) -> str:
    """The page about one graded notebook.

    Args:
        notebook: as it lies in ``autograded/``, in nbformat 4.
        marks: by grade_id; where one is missing, the report's own score stands.
        assignment_title: what the assignment is called.
        student: whose notebook it is.
        late_penalty: points taken off for handing it in late.
        translations: the language.
    """
    return _Page(notebook, marks, translations).html(assignment_title, student, late_penalty)


class _Page:
    def __init__(self, notebook: Mapping[str, Any], marks: Mapping[str, Mark], translations: Translations) -> None:
        self._marks, self._translations = marks, translations
        self._cells: list[Mapping[str, Any]] = list(notebook.get("cells", ()))
        kept = kept_in(notebook)
        self._report = kept.report if kept else None
        self._submission = kept.submission if kept else ""
        # In place of a notebook that can't be read stands the course's own, which its author has seen.
        shown = [] if self._unusable else self._cells
        self._blocks = Cells(translations, reported=self._report is not None).blocks(shown)
        self._numbers = {block.number for block in _flat(self._blocks) if block.number and block.kind != "result"}
        self._exercises = [self._exercise(*one) for one in enumerate(self._graded(), start=1)]

    def html(self, title: str, student: str | None, late_penalty: float) -> str:
        """The whole page."""
        report, exercises = self._report, self._exercises
        scores = [exercise.mark.score for exercise in exercises]
        known = sum(score for score in scores if score is not None)
        score = max(0.0, known - late_penalty) if any(score is not None for score in scores) else None
        most = sum(exercise.mark.max_score for exercise in exercises)
        return _template().render(
            css=_css(),
            policy=_policy(),
            lang=_lang(self._translations),
            words={name: self._say(id) for name, id in _WORDS.items()},
            say=self._say,
            sentences=_WITH_FIELDS,
            points=points,
            title=plain(title),
            student=plain(student or ""),
            total=self._total(score, most, total(scores) is None),
            score=score,
            most=most,
            summary=self._summary(),
            error=self._error(),
            penalty=points(late_penalty) if late_penalty > 0 else "",
            repairs=[sentence(repair, self._translations) for repair in report.repairs] if report else [],
            notes=[self._note(note) for note in report.notes] if report else [],
            marked=marked,
            not_run=any(block.kind == "code" and not block.ran for one in self._blocks for block in one.course),
            numbers=set(self._numbers),
            exercises=exercises,
            by_grade_id={grade_id: one for one in exercises for grade_id in (one.name, TEST_PREFIX + one.name)},
            notebook=not self._unusable,
            blocks=self._blocks,
            strays=self._strays(),
            file=plain(report.notebook) if report else "",
            fingerprint=self._submission[:12],
        )

    def _say(self, id: str, **args: object) -> str:
        return say(id, self._translations, **args)

    def _graded(self) -> Iterable[tuple[str, ExerciseReport | None, Mark, bool]]:
        """All that earns points, as (name, report, mark, whether a human grades it): the report's, then the rest."""
        met: set[str] = set()
        for exercise in self._report.exercises if self._report else ():
            name, test = exercise.id, TEST_PREFIX + exercise.id
            met |= {name, test}
            automatic = Mark(exercise.score, exercise.max_score, needs_human=exercise.score is None)
            mark = self._marks.get(name if exercise.manual else test, automatic)
            yield name, exercise, mark, exercise.manual
        for cell in self._cells:
            nbgrader = nbgrader_of(cell)
            key = str(nbgrader.get("grade_id"))
            if key not in met and (nbgrader.get("grade") is True or nbgrader.get("task") is True):
                met.add(key)
                mark = self._marks.get(key) or Mark(None, float(nbgrader.get("points") or 0), needs_human=True)
                by_hand = nbgrader.get("solution") is True or nbgrader.get("task") is True
                yield key.removeprefix(TEST_PREFIX), None, mark, by_hand
        for key, mark in self._marks.items():
            if key not in met and mark.max_score:
                yield key.removeprefix(TEST_PREFIX), None, mark, False

    def _exercise(self, number: int, graded: tuple[str, ExerciseReport | None, Mark, bool]) -> _Exercise:
        name, report, mark, by_hand = graded
        shown = rows(report, self._translations) if report else []
        own = (self._marks.get(key) for key in (TEST_PREFIX + name, name))
        comments = dict.fromkeys(one.comment.strip() for one in own if one and one.comment and one.comment.strip())
        return _Exercise(
            name=name,
            number=number,
            mark=mark,
            points=self._points(mark.score, mark.max_score),
            tone=_tone(mark),
            said=tuple(self._said(report, mark, by_hand)),
            statement=sentence(statement(report), self._translations) if report else "",
            lost=tuple(row for row in shown if row.tone != "passed"),
            passed=tuple(row for row in shown if row.tone == "passed"),
            comments=tuple(prose(comment) for comment in comments),
            answer=any(block.grade_id == name for block in self._blocks if block.kind != "result"),
        )

    def _said(self, report: ExerciseReport | None, mark: Mark, by_hand: bool) -> Iterable[str]:
        """Where the points come from, if not from the checks below, and what is still to come."""
        automatic = report.score if report else None
        if mark.score is None and self._unusable:
            yield self._say(N_("A person will look at it."))
        elif mark.score is None and by_hand:
            yield self._say(N_("A person reads this answer; its points come later."))
        elif mark.score is None:
            yield self._say(N_("The grader could not decide this; that is no fault of yours, and a person will."))
        elif mark.manual and automatic is not None and automatic != mark.score:
            said = N_("A person has given these points; the checks alone came to {score}.")
            yield self._say(said, score=points(automatic))
        elif mark.manual and not by_hand:
            yield self._say(N_("A person has given these points."))
        elif automatic is not None and automatic < mark.score:
            yield self._say(N_("Extra credit is among them: {score}."), score=points(mark.score - automatic))
        if mark.score is not None and mark.needs_human:
            yield self._say(N_("A person will look at it again."))

    def _points(self, score: float | None, most: float) -> str:
        if score is None:
            return self._say(N_("not graded yet, out of {most}"), most=points(most))
        return self._say(N_("{score} of {most} points"), score=points(score), most=points(most))

    def _total(self, score: float | None, most: float, is_open: bool) -> str:
        if not self._exercises:
            return ""
        if score is None:
            return self._say(N_("Not graded yet"))
        said = N_("{score} of {most} points so far") if is_open else N_("{score} of {most} points")
        return self._say(said, score=points(score), most=points(most))

    def _summary(self) -> str:
        """What to do next, in a sentence or two."""
        exercises = self._exercises
        still_open = [one for one in exercises if one.mark.score is None]
        if self._unusable:
            return self._say(N_("This notebook could not be graded."))
        if not exercises:
            return self._say(N_("There is nothing to grade in this notebook."))
        if len(still_open) == len(exercises):
            return self._say(N_("Nothing is lost: a person will look at it."))
        said = []
        if all(one.tone == "full" for one in exercises):
            said.append(self._say(N_("Everything is right. Well done!")))
        elif self._untouched:
            said.append(self._say(N_("No exercise is written yet.")))
        else:
            lost = [one.number for one in exercises if _lost(one.mark)]
            if len(lost) > 1:
                said.append(self._say(N_("Look at exercise {number} first."), number=lost[0]))
        if still_open:
            names = ", ".join(one.name for one in still_open[:3]) + (", …" if len(still_open) > 3 else "")
            said.append(self._say(N_("Not graded yet: {exercises}."), exercises=names))
        return " ".join(said)

    def _error(self) -> str:
        """Why a notebook could not be read. A fault of the grader is for instructors, and no path is for students."""
        if not self._unusable or self._report is None:
            return ""
        said, name = sentence(self._report.error, self._translations), self._report.notebook
        if name and name in said:
            before, _, after = said.partition(name)
            said = name + after if _FOLDERS.search(before) else said
        return _FOLDERS.sub("", said)

    def _note(self, note: Message) -> Markup:
        """A note, in which the number of a cell leads to that cell."""
        place = note.args.get("place")
        if type(place) is not int or place not in self._numbers:
            return marked(sentence(note, self._translations))
        bare = {name: _CELL_NUMBER.sub("", arg) if isinstance(arg, str) else arg for name, arg in note.args.items()}
        said = sentence(Message(note.id, {**bare, "place": f"\ue0f6{place}\ue0f7"}), self._translations)
        return Markup(_CELL_NUMBER.sub(r'<a href="#cell-\1">\1</a>', str(marked(said))))

    def _strays(self) -> dict[str, Markup]:
        """Comments on cells that earn no points of their own, by grade_id."""
        own = {key for one in self._exercises for key in (one.name, TEST_PREFIX + one.name)}
        return {key: prose(mark.comment) for key, mark in self._marks.items() if mark.comment and key not in own}

    @property
    def _unusable(self) -> bool:
        return self._report is not None and self._report.status == "unusable"

    @property
    def _untouched(self) -> bool:
        checks = [check for exercise in self._report.exercises for check in exercise.checks] if self._report else []
        return bool(checks) and all(check.outcome == "not_attempted" for check in checks)


def _flat(blocks: Iterable[Block]) -> Iterable[Block]:
    for block in blocks:
        yield from block.course or (block,)


def _tone(mark: Mark) -> str:
    if mark.score is None:
        return "open"
    return "full" if mark.score >= mark.max_score else "part"


def _lost(mark: Mark) -> float:
    return 0.0 if mark.score is None else max(0.0, mark.max_score - mark.score)


def _lang(translations: Translations) -> str:
    return (translations.info().get("language") or "en").replace("_", "-") if translations else "en"


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


@functools.cache
def _css() -> Markup:
    return Markup(_file("page.css"))


@functools.cache
def _policy() -> str:
    """Nothing may run or be fetched, and no style but ours holds, by its hash (https://www.w3.org/TR/CSP3/)."""
    digest = base64.b64encode(hashlib.sha256(_css().encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
