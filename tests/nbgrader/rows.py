"""What a gradebook holds, without the random ids of its rows, so that two gradebooks can be compared."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

TABLES = {
    "course": "SELECT id FROM course",
    "assignment": "SELECT name, duedate, course_id FROM assignment",
    "notebook": """
        SELECT assignment.name, notebook.name, notebook.kernelspec
        FROM notebook JOIN assignment ON assignment.id = notebook.assignment_id""",
    "source_cell": """
        SELECT notebook.name, source_cell.name, source_cell.cell_type, source, locked, checksum
        FROM source_cell JOIN notebook ON notebook.id = source_cell.notebook_id""",
    "cell": """
        SELECT notebook.name, base_cell.name, base_cell.type, grade_cells.max_score, grade_cells.cell_type
        FROM base_cell JOIN notebook ON notebook.id = base_cell.notebook_id
        LEFT JOIN grade_cells ON grade_cells.id = base_cell.id""",
    "student": "SELECT id, first_name, last_name, email FROM student",
    "submitted_assignment": """
        SELECT student_id, assignment.name, timestamp, extension
        FROM submitted_assignment JOIN assignment ON assignment.id = submitted_assignment.assignment_id""",
    "submitted_notebook": """
        SELECT student_id, notebook.name, flagged, late_submission_penalty
        FROM submitted_notebook JOIN notebook ON notebook.id = submitted_notebook.notebook_id
        JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id""",
    "grade": """
        SELECT student_id, notebook.name, base_cell.name, auto_score, manual_score, extra_credit, needs_manual_grade
        FROM grade JOIN base_cell ON base_cell.id = grade.cell_id
        JOIN submitted_notebook ON submitted_notebook.id = grade.notebook_id
        JOIN notebook ON notebook.id = submitted_notebook.notebook_id
        JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id""",
    "comment": """
        SELECT student_id, notebook.name, base_cell.name, auto_comment, manual_comment
        FROM comment JOIN base_cell ON base_cell.id = comment.cell_id
        JOIN submitted_notebook ON submitted_notebook.id = comment.notebook_id
        JOIN notebook ON notebook.id = submitted_notebook.notebook_id
        JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id""",
}


def rows(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a gradebook, by table."""
    with sqlite3.connect(database) as connection:
        return {
            table: sorted(connection.execute(query), key=lambda row: [str(value) for value in row])
            for table, query in TABLES.items()
        }
