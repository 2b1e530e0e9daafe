"""Which folders are submissions."""

from __future__ import annotations

import os
from pathlib import Path

from autograder.submissions import strange_folders, submissions


def test_a_student_s_folder_whose_name_is_no_text_is_left_out(tmp_path: Path) -> None:
    for name in (b"ada", b"b\xffd"):
        (tmp_path / os.fsdecode(name) / "attention").mkdir(parents=True)
    assert [one.student for one in submissions(tmp_path, "attention")] == ["ada"]
    assert strange_folders(tmp_path, ["masking"]) == [("ada", "attention")]
