"""The feedback pages of a class, from its graded notebooks and its gradebook."""

from __future__ import annotations

import gettext
from collections.abc import Collection, Iterator
from pathlib import Path

import nbformat

from autograder.course import Course
from autograder.feedback.page import page
from autograder.nbgrader.gradebook import ClassGradebook


def write_pages(
    gradebook: ClassGradebook,
    course: Course,
    assignment: str,
    students: Collection[str] = (),
    translations: gettext.NullTranslations | None = None,
) -> Iterator[Path]:
    """Write ``feedback/<student>/<assignment>/<assignment>.html`` for each graded notebook; yields each path.

    Args:
        gradebook: of the course; a human's marks and comments in it are on the page.
        course: the course.
        assignment: which one.
        students: these alone; all by default.
        translations: the language of our sentences.
    """
    for student, path in gradebook.graded(assignment):
        if students and student not in students:
            continue
        marks = gradebook.marks(student, assignment)
        html = page(
            nbformat.reads(path.read_text(encoding="utf-8"), as_version=4),
            marks.marks,
            assignment_title=course.assignment(assignment).title,
            student=marks.name,
            late_penalty=marks.late_penalty,
            translations=translations,
        )
        target = gradebook.feedback_root / student / assignment / f"{assignment}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(".html.new")
        draft.write_text(html, encoding="utf-8")
        draft.replace(target)
        yield target
