"""The feedback pages of a class, from its graded notebooks and its gradebook."""

from __future__ import annotations

import gettext
from collections.abc import Collection, Iterator
from pathlib import Path

from autograder.course import Course
from autograder.feedback.page import page
from autograder.nbgrader.files import ClassFiles, read_graded
from autograder.nbgrader.gradebook import ClassGradebook


def write_pages(
    gradebook: ClassGradebook,
    files: ClassFiles,
    course: Course,
    assignment: str,
    students: Collection[str] = (),
    translations: gettext.NullTranslations | None = None,
) -> Iterator[Path]:
    """Write ``feedback/<student>/<assignment>/<notebook>.html`` for each graded notebook; yields each path.

    Args:
        gradebook: of the course; a human's marks and comments in it are on the page.
        files: where the graded notebooks are, and the pages go.
        course: the course.
        assignment: which one.
        students: these alone; all by default.
        translations: the language of our sentences.
    """
    for student, path in files.notebooks(assignment):
        notebook = read_graded(path) if not students or student in students else None
        if notebook is None:
            continue
        marks = gradebook.marks(student, assignment, path.stem)
        title = course.assignment(assignment).title
        html = page(
            notebook,
            marks.marks,
            assignment_title=title if path.stem == assignment else f"{title}: {path.stem}",
            student=marks.name,
            late_penalty=marks.late_penalty,
            translations=translations,
        )
        target = files.feedback / student / assignment / f"{path.stem}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(".html.new")
        draft.write_text(html, encoding="utf-8")
        draft.replace(target)
        yield target
