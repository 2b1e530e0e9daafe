"""What ``nbgrader export`` writes, in the shapes of `autograder.export`.

In ``nbgrader_config.py``: ``c.ExportApp.plugin_class = "autograder.nbgrader.plugins.CsvExport"``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin

from autograder import export
from autograder.errors import AutograderError


class _Export(ExportPlugin):  # type: ignore[misc] # nbgrader ships no types
    default = ""
    text: Callable[[Iterable[export.Row]], str]

    def export(self, gradebook: Gradebook) -> None:
        """Write the rows of ``--assignment`` and ``--student`` to ``--to``."""
        target = Path(self.to or self.default)
        try:
            rows = export.rows(gradebook, [*map(str, self.assignment)], [*map(str, self.student)])
            export.write(target, type(self).text(rows))
        except AutograderError as fault:
            self.log.error("%s", fault)
            sys.exit(1)
        self.log.info("Exported %d rows to %s", len(rows), target)


class CsvExport(_Export):
    """Grades as CSV, in ``grades.csv`` by default; see `autograder.export.to_csv`."""

    default = "grades.csv"
    text = staticmethod(export.to_csv)


class JsonExport(_Export):
    """Grades as JSON with each exercise, in ``grades.json`` by default; see `autograder.export.to_json`."""

    default = "grades.json"
    text = staticmethod(export.to_json)
