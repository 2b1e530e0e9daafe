"""A class in which each student hands in a right answer and a family of attempts, as it lies there after grading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from autograder.autograded import autograded
from autograder.course import Course, load_course
from autograder.examiner.job import Examined
from autograder.feedback.pages import write_pages
from autograder.grading import Graded
from autograder.mend import mend
from autograder.messages import Message
from autograder.nbgrader.config import nbgrader_of
from autograder.nbgrader.files import ClassFiles
from autograder.nbgrader.gradebook import ClassGradebook
from autograder.notebook import notebook_of
from autograder.report import CheckReport, ExerciseReport, GradeReport
from tests import courses
from tests.browser.attempt import Attempt
from tests.courses import ASSIGNMENT

HONEST = "amara"
COMMENTED = "scaled_dot_product_attention"
WORDS = "the student's own words"


def write_class(root: Path, tried: Mapping[str, Iterable[Attempt]]) -> Path:
    """Write a class into `root`: graded notebooks, gradebook and pages of these students; returns its folder.

    The outputs are put where a run would have left them, so that they can be anything.
    """
    folder = courses.copy_course(root / "course", HONEST)
    course = load_course(folder)
    honest = (folder / "submitted" / HONEST / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_text()
    with ExitStack() as until_done:
        app = nbgrader_of(course)
        gradebook = until_done.enter_context(ClassGradebook(course, app))
        files = ClassFiles(course, app)
        gradebook.prepare(ASSIGNMENT)
        for student, attempts in tried.items():
            submitted = folder / "submitted" / student / ASSIGNMENT
            submitted.mkdir(parents=True, exist_ok=True)
            notebook = {ASSIGNMENT: autograded(graded(course, json.loads(honest), list(attempts)), course, ASSIGNMENT)}
            files.write(student, ASSIGNMENT, submitted, notebook)
            gradebook.record(student, ASSIGNMENT, submitted, notebook)
            comment = gradebook.nbgrader.find_comment(COMMENTED, ASSIGNMENT, ASSIGNMENT, student)
            comment.manual_comment = "\n\n".join(attempt.text for attempt in attempts if attempt.place == "html")
        gradebook.nbgrader.db.commit()
        list(write_pages(gradebook, files, course, ASSIGNMENT))
    return folder


def graded(course: Course, document: dict[str, Any], attempts: list[Attempt]) -> Graded:
    """What grading leaves of the honest notebook with these attempts behind it; they cost it a check."""
    document["cells"].append(_words(WORDS))
    for attempt in attempts:
        document["cells"] += cells(attempt)
        document["metadata"]["title"] = attempt.text
    document["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}, "version_major": 2}}
    names = [attempt.text for attempt in attempts if attempt.place == "file"] or [f"{ASSIGNMENT}.ipynb"]
    mended = mend(notebook_of(document, Path(names[0])), course, ASSIGNMENT)
    outputs = {place: cell["outputs"] for place, cell in enumerate(document["cells"]) if cell["cell_type"] == "code"}
    said = [Message("your function raised ValueError: {text}", {"text": one.text}) for one in attempts]
    exercises = (_exercise("project_qkv", 4), _exercise(COMMENTED, 16, said))
    report = GradeReport(
        notebook=names[0],
        assignment=ASSIGNMENT,
        status="graded",
        score=sum(one.score or 0 for one in exercises),
        max_score=20,
        seed=1,
        suite_hash="",
        confinement="A",
        repairs=(*mended.repairs, Message("graded {name}", {"name": names[0]})),
        notes=tuple(said[:3]),
        exercises=exercises,
    )
    return Graded(report, mended, Examined(exercises, outputs))


def cells(attempt: Attempt) -> list[dict[str, Any]]:
    """The cells by which a student tries it."""
    text = attempt.text
    match attempt.place:
        case "html":
            return [_shows({"text/html": text}), _words(text)]
        case "data":
            return [_shows(attempt.filled)]
        case "outputs":
            return [_code("1", *attempt.filled)]
        case "markdown":
            return [_words(text)]
        case "raw":
            return [{"cell_type": "raw", "metadata": {"format": "text/html"}, "source": text}]
        case "code":
            return [_code(text)]
        case "stream":
            return [_code("1", {"output_type": "stream", "name": "stdout", "text": text})]
        case "exception":
            raised = {"output_type": "error", "ename": "ValueError", "evalue": text, "traceback": [text, text]}
            return [_code("1", raised)]
        case "attachment":
            [name] = attempt.filled
            words = f"![x](attachment:{name})\n\n![y][z]\n\n[z]: <attachment:{name}>"
            return [_words(words) | {"attachments": attempt.filled}]
        case "id":
            return [_words("words") | {"id": text}, _code("1") | {"id": f"{text}2"}]
        case "metadata":
            return [_code("1") | {"metadata": attempt.filled}, _words("words") | {"metadata": attempt.filled}]
        case "file":
            return []


def _exercise(name: str, most: float, said: Iterable[Message] = ()) -> ExerciseReport:
    """An exercise of which one point is lost for each thing that is said."""
    passed = CheckReport("right", Message("It is right"), "passed", most, most)
    lost = [
        CheckReport(f"lost_{place}", Message("It is not"), "failed", 0.0, 0.0, message=message, hint=message)
        for place, message in enumerate(said)
    ]
    return ExerciseReport(name, most, most, (passed, *lost))


def _shows(data: dict[str, Any]) -> dict[str, Any]:
    about = {kind: {"width": '1" onload="x', "needs_background": '"><b>'} for kind in data}
    return _code("show()", {"output_type": "display_data", "data": data, "metadata": about})


def _code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": source, "outputs": list(outputs)}


def _words(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}
