"""Attempts on the files of a class: gradebook, suites, submissions, the grader's own."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Any

from tests.redteam.attempts import REPOSITORY, refuse
from tests.redteam.bank import COURSE


def read_the_gradebook() -> Any:
    return Path(COURSE, "gradebook.db").read_bytes()


def read_it_by_sqlite() -> Any:
    import sqlite3

    try:
        return sqlite3.connect(f"file:{COURSE}/gradebook.db?mode=ro", uri=True).execute("select 1").fetchall()
    except sqlite3.OperationalError as error:
        refuse("unable to open" in str(error) or "disk I/O" in str(error))
        raise


def read_it_through_c() -> Any:

    libc = ctypes.CDLL(None, use_errno=True)
    libc.fopen.restype = ctypes.c_void_p
    opened = libc.fopen(f"{COURSE}/gradebook.db".encode(), b"r")
    refuse(not opened and ctypes.get_errno() in (errno.EACCES, errno.ENOENT))
    return opened


def read_it_through_torch() -> Any:
    import torch

    try:
        return torch.from_file(f"{COURSE}/gradebook.db", shared=False, size=4, dtype=torch.uint8)
    except RuntimeError as error:
        refuse("unable to open" in str(error))
        raise


def read_it_through_numpy() -> Any:
    import numpy

    return numpy.memmap(f"{COURSE}/gradebook.db", mode="r")


def open_the_gradebook_to_write() -> Any:
    return open(f"{COURSE}/gradebook.db", "r+b")


def append_to_the_gradebook() -> Any:
    return open(f"{COURSE}/gradebook.db", "ab")


def put_a_journal_beside_it() -> Any:
    return Path(COURSE, "gradebook.db-journal").write_text("redteam")


def replace_the_gradebook() -> Any:
    Path("redteam-gradebook").write_text("all marks are mine")
    return os.replace("redteam-gradebook", f"{COURSE}/gradebook.db")


def link_over_the_gradebook() -> Any:
    return os.rename(f"{COURSE}/gradebook.db", "redteam-gradebook")


def truncate_the_gradebook() -> Any:
    return os.truncate(f"{COURSE}/gradebook.db", 1)


def make_it_readable() -> Any:
    before = os.stat(f"{COURSE}/gradebook.db").st_mode
    os.chmod(f"{COURSE}/gradebook.db", before ^ 0o001)
    refuse(os.stat(f"{COURSE}/gradebook.db").st_mode == before)


def change_its_time() -> Any:
    before = os.stat(f"{COURSE}/gradebook.db").st_mtime_ns
    os.utime(f"{COURSE}/gradebook.db", (1, 1))
    refuse(os.stat(f"{COURSE}/gradebook.db").st_mtime_ns == before)


def set_an_attribute() -> Any:
    return os.setxattr(f"{COURSE}/gradebook.db", "user.redteam", b"1")


def read_a_hidden_suite() -> Any:
    return Path(COURSE, "tests/hidden/attention/test_project_qkv.py").read_text()


def list_the_hidden_suites() -> Any:
    return os.listdir(f"{COURSE}/tests/hidden/attention")


def find_hidden_suites_anywhere() -> Any:
    import glob

    places = (f"{COURSE}/**/test_*.py", f"{REPOSITORY}/tests/**/test_*.py", "/home/*/test_*", "../*/*.py")
    found = [path for place in places for path in glob.glob(place, recursive=True)]
    refuse(not found)
    return found


def climb_up_to_the_suites() -> Any:
    return open("/".join([".."] * 40) + f"{COURSE}/tests/hidden/attention/test_project_qkv.py")


def reach_them_through_proc() -> Any:
    return open(f"/proc/self/root{COURSE}/tests/hidden/attention/test_project_qkv.py")


def reach_them_through_the_working_folder_of_others() -> Any:
    return os.listdir(f"/proc/{os.getppid()}/cwd")


def import_a_hidden_suite() -> Any:
    import sys

    sys.path.insert(0, f"{COURSE}/tests/hidden/attention")
    try:
        import test_project_qkv  # type: ignore[import-not-found]
    except ImportError:
        refuse(True)
    return test_project_qkv


def run_a_hidden_suite() -> Any:
    import runpy

    return runpy.run_path(f"{COURSE}/tests/hidden/attention/test_project_qkv.py")


def plant_a_conftest() -> Any:
    return Path(COURSE, "tests/hidden/attention/conftest.py").write_text("redteam = 1")


def change_a_suite() -> Any:
    return open(f"{COURSE}/tests/hidden/attention/test_project_qkv.py", "a")


def remove_a_suite() -> Any:
    return os.unlink(f"{COURSE}/tests/hidden/attention/test_project_qkv.py")


def read_the_solution() -> Any:
    return Path(COURSE, "source/attention/attention.ipynb").read_text()


def read_the_rules() -> Any:
    return Path(COURSE, "course.yml").read_text()


def change_the_rules() -> Any:
    return open(f"{COURSE}/course.yml", "r+")


def plant_a_notebook_in_the_release() -> Any:
    return Path(COURSE, "release/attention/redteam.ipynb").write_text("{}")


def list_the_class() -> Any:
    return os.listdir(f"{COURSE}/submitted")


def read_anothers_submission() -> Any:
    return Path(COURSE, "submitted/honest/attention/attention.ipynb").read_text()


def change_anothers_submission() -> Any:
    return open(f"{COURSE}/submitted/honest/attention/attention.ipynb", "r+")


def hand_in_for_another() -> Any:
    return os.mkdir(f"{COURSE}/submitted/redteam")


def list_the_results() -> Any:
    return os.listdir(COURSE)


def plant_a_result() -> Any:
    return os.mkdir(f"{COURSE}/redteam-autograded")


def plant_a_seed() -> Any:
    return Path(COURSE, ".autograder", "redteam").write_text("1")


def read_the_graders_source() -> Any:
    import autograder.worker

    package = os.path.dirname(os.path.dirname(autograder.worker.__file__ or ""))
    return Path(package, "examiner", "marking.py").read_text()


def import_the_examiner() -> Any:
    import importlib

    try:
        return importlib.import_module("autograder.examiner.marking")
    except ImportError:
        refuse(True)


def change_the_graders_source() -> Any:
    import autograder.worker

    return open(autograder.worker.__file__ or "", "r+")
