"""The sample class: 14 made-up students, each with some or all of the lessons; writes their notebooks.

    python examples/students.py [--check]

takes each release notebook, puts each student's `answers` into it, and writes ``submissions/<student>/<assignment>/``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from answers import attention, clinic, heads, loss, masking, multihead, sequences

COURSE = Path(__file__).resolve().parents[1]
# Of each assignment what its students answered, by grade_id; where they answered nothing, the release's cell stays.
ASSIGNMENTS: dict[str, dict[str, dict[str, str]]] = {
    "sequences": sequences.ANSWERS,
    "attention": attention.ANSWERS,
    "masking": masking.ANSWERS,
    "loss": loss.ANSWERS,
    "multihead": multihead.ANSWERS,
    "heads": heads.ANSWERS,
    "clinic": clinic.ANSWERS,
}


def submission(release: dict[str, Any], answers: dict[str, str]) -> str:
    """The text of a student's notebook: the release with these answers, by grade_id, in it."""
    notebook = json.loads(json.dumps(release))
    cells = {cell["metadata"].get("nbgrader", {}).get("grade_id"): cell for cell in notebook["cells"]}
    for grade_id, answer in answers.items():
        cells[grade_id]["source"] = answer.rstrip("\n").splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def submissions() -> Iterator[tuple[Path, str]]:
    """Every notebook of the class: where it lies, and its text."""
    for assignment, students in ASSIGNMENTS.items():
        name = f"{assignment}.ipynb"
        release = json.loads((COURSE / "release" / assignment / name).read_text(encoding="utf-8"))
        for student, answers in students.items():
            folder = COURSE / "examples" / "submissions" / student / assignment
            yield folder / name, submission(release, answers)


def main() -> int:
    """Write all notebooks; with ``--check``, only tell whether they are as they would be written."""
    check = "--check" in sys.argv
    stale = 0
    for path, text in submissions():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print("out of step:" if check else "wrote", path.relative_to(COURSE))
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
