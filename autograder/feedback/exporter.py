"""The page through nbgrader: what ``nbgrader generate_feedback`` makes, once its configuration names these classes."""

from __future__ import annotations

from typing import Any, cast

from nbconvert.exporters import Exporter
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Dict, Unicode

from autograder.feedback.marks import Marks, read_marks
from autograder.feedback.page import page
from autograder.messages import translations


class GetMarks(NbGraderPreprocessor):  # type: ignore[misc] # nbgrader has no types
    """Reads what the gradebook says now into ``resources["nbgrader"]["marks"]``; the notebook stays as it is.

    It takes the place of nbgrader's `GetGrades`, which turns a score that nobody has given yet into 0.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Put the marks beside the notebook."""
        resources["nbgrader"]["marks"] = _marks(resources["nbgrader"])
        return nb, resources


class FeedbackExporter(Exporter):
    """Writes `autograder.feedback.page` for a graded notebook; for ``GenerateFeedback.exporter_class``."""

    titles = Dict(Unicode(), help="What each assignment is called; its own name where none is given.").tag(config=True)
    language = Unicode("en", help="The language of the page, such as zh_CN.").tag(config=True)

    export_from_notebook = "Feedback"
    output_mimetype = "text/html"

    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(  # type: ignore[override] # every exporter but the base class gives text
        self, nb: Any, resources: Any = None, **kwargs: Any
    ) -> tuple[str, Any]:
        """The page of a notebook that lies in ``autograded/``."""
        nb, resources = super().from_notebook_node(nb, resources, **kwargs)
        about = resources.get("nbgrader", {})
        found = _marks(about)
        name = str(about.get("assignment", ""))
        html = page(
            nb,
            found.marks,
            assignment_title=self.titles.get(name) or name or str(resources["metadata"]["name"]),
            student=found.name or about.get("student"),
            late_penalty=found.late_penalty,
            translations=translations(self.language),
        )
        return html, resources


def _marks(about: Any) -> Marks:
    """The marks that were read before, or else the gradebook's; none where there is no gradebook."""
    if "marks" in about:
        return cast(Marks, about["marks"])
    if "db_url" not in about:
        return Marks({})
    with Gradebook(about["db_url"]) as gradebook:
        return read_marks(gradebook, about["notebook"], about["assignment"], about["student"])
