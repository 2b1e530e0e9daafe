"""The page through ``nbgrader generate_feedback``, with a real gradebook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.feedback.exporter import FeedbackExporter
from autograder.feedback.mark import Mark
from autograder.feedback.marks import class_marks, read_marks
from autograder.feedback.page import page
from autograder.nbgrader.config import provide_alembic
from autograder.nbgrader.rows import reading
from tests.feedback.graded import CELLS, DOUBLE, HALF, Page, notebook, report

OURS = {
    "exporter_class": "autograder.feedback.exporter.FeedbackExporter",
    "preprocessors": ["autograder.feedback.exporter.GetMarks"],
}
GRADED = notebook(report(DOUBLE, HALF))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course where dora's notebook is graded: one mark by a human with a comment, one by nobody yet, and late."""
    provide_alembic()
    root = tmp_path_factory.mktemp("course")
    path = root / "autograded" / "dora" / "attention" / "attention.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(GRADED))
    with Gradebook(f"sqlite:///{root}/gradebook.db") as gradebook:
        gradebook.add_assignment("attention")
        gradebook.add_notebook("attention", "attention")
        for name, points in (("double", 4), ("half", 2)):
            gradebook.add_solution_cell(name, "attention", "attention")
            gradebook.add_grade_cell(f"test_{name}", "attention", "attention", max_score=points, cell_type="code")
        gradebook.add_task_cell("essay", "attention", "attention", max_score=3, cell_type="markdown")
        gradebook.add_solution_cell("draft", "attention", "attention")  # it earns nothing
        gradebook.add_student("dora", first_name="Dora", last_name="Maar")
        gradebook.add_student("emil")
        gradebook.add_submission("attention", "emil")
        gradebook.find_comment("draft", "attention", "attention", "emil").manual_comment = "Well begun."
        submission = gradebook.add_submission("attention", "dora")
        [submitted] = submission.notebooks
        submitted.late_submission_penalty = 0.5
        grade = gradebook.find_grade("test_double", "attention", "attention", "dora")
        grade.auto_score, grade.manual_score, grade.extra_credit, grade.needs_manual_grade = 1.0, 3.0, 0.25, False
        gradebook.find_comment("double", "attention", "attention", "dora").manual_comment = "Nearly."
        gradebook.find_comment("half", "attention", "attention", "dora").auto_comment = "No response."
        gradebook.db.commit()
    return root


def generated(root: Path, **config: object) -> str:
    """What nbgrader writes for dora with this configuration of its converter and of the exporter."""
    settings = Config()
    settings.CourseDirectory.root = str(root)
    settings.CourseDirectory.db_url = f"sqlite:///{root}/gradebook.db"
    settings.GenerateFeedback.update({**OURS, **config})
    settings.FeedbackExporter.titles = {"attention": "Scaled dot-product attention"}
    api = NbGraderAPI(CourseDirectory(config=settings), config=settings)
    done = api.generate_feedback("attention", "dora", force=True)
    assert done["success"], done
    [file] = (root / "feedback" / "dora" / "attention").iterdir()
    assert file.name == "attention.html"
    return file.read_text(encoding="utf-8")


def test_nbgrader_writes_the_same_page(course: Path) -> None:
    marks = {
        "test_double": Mark(3.25, 4.0, manual=True, comment="Nearly."),
        "test_half": Mark(None, 2.0, needs_human=True),
        "essay": Mark(None, 3.0, needs_human=True),
    }
    title = "Scaled dot-product attention"
    assert generated(course) == page(GRADED, marks, assignment_title=title, student="Dora Maar", late_penalty=0.5)


def test_nbgraders_own_preprocessors_make_no_0_of_an_open_score(course: Path) -> None:
    stock = ["nbgrader.preprocessors.GetGrades", "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor"]
    html = generated(course, preprocessors=stock)
    assert html == generated(course)
    assert "not graded yet, out of 2" in Page(html).text


def test_remarks_that_no_human_wrote_are_not_shown_as_comments(course: Path) -> None:
    assert "No response." not in generated(course)


def test_marks_are_what_the_gradebook_says_now(course: Path) -> None:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        found = read_marks(gradebook, "attention", "attention", "dora")
    assert found.late_penalty == 0.5
    assert found.marks["test_double"] == Mark(3.25, 4.0, manual=True, comment="Nearly.")
    assert found.marks["test_half"] == Mark(None, 2.0, needs_human=True)


@pytest.mark.parametrize("student", ["dora", "emil"])
def test_marks_of_a_class_read_at_once_are_those_that_nbgrader_gives(course: Path, student: str) -> None:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        alone = read_marks(gradebook, "attention", "attention", student)
    with reading(course / "gradebook.db") as execute:
        found = class_marks(execute, "attention")
        assert class_marks(execute, "another") == {}
    assert found[student, "attention"] == alone
    assert list(found[student, "attention"].marks) == list(alone.marks)  # the page shows them in this order
    assert alone.marks["essay"].max_score == 3
    assert ("draft" in alone.marks) == (student == "emil")
    assert set(found) == {("dora", "attention"), ("emil", "attention")}


def test_without_a_gradebook_the_reports_own_scores_stand() -> None:
    import nbformat

    node = nbformat.from_dict(notebook(report(DOUBLE, HALF), *CELLS))  # type: ignore[arg-type]
    html, resources = FeedbackExporter().from_notebook_node(node)
    assert "3 of 6 points" in Page(html).text
    assert resources["output_extension"] == ".html"
