"""Workers' folders, whatever was left in them."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from autograder.examiner import scratch


@pytest.fixture
def folder() -> Path:
    return scratch.make("test")


def test_a_new_folder_is_open_to_its_user_alone(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    scratch.remove(folder)


def test_removing_reaches_deeper_than_any_path(folder: Path) -> None:
    top = os.open(folder, os.O_RDONLY)
    for _ in range(620):  # more than 4096 characters
        os.mkdir("deeper", dir_fd=top)
        below = os.open("deeper", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.close(top)
    scratch.remove(folder)
    assert not folder.exists()


def test_removing_follows_no_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    (folder / "file").symlink_to(tmp_path / "kept")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "inner").mkdir()
    (folder / "inner" / "folder").symlink_to(tmp_path)
    scratch.remove(folder)
    assert not folder.exists()
    assert (tmp_path / "kept").read_text() == "x"


def test_removing_copes_with_closed_folders_and_odd_names(folder: Path) -> None:
    (folder / "closed" / "inner").mkdir(parents=True)
    (folder / "closed" / "inner" / "file").write_text("x")
    (folder / "closed" / "inner").chmod(0)
    (folder / "closed").chmod(0)
    os.close(os.open(os.fsencode(folder) + b"/\xff\xfe\n", os.O_CREAT | os.O_WRONLY))
    scratch.remove(folder)
    assert not folder.exists()


def test_removing_twice_is_no_error(folder: Path) -> None:
    scratch.remove(folder)
    scratch.remove(folder)


def test_what_vanishes_while_it_is_removed_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (folder / name / "deep").mkdir(parents=True)
        (folder / name / "deep" / "file").write_text("x")
    listed, listdir = [], os.listdir

    def list_and_lose(place: Any) -> list[str]:
        names = [*listdir(place), "gone"]
        listed.append(names)
        if len(listed) == 3:  # somebody else removes it as well, and is faster
            shutil.rmtree(folder)
        return names

    monkeypatch.setattr(os, "listdir", list_and_lose)
    scratch.remove(folder)
    assert len(listed) >= 3 and not folder.exists()


def test_removing_goes_on_after_an_error_and_tells_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (folder / name).mkdir()
        (folder / name / "file").write_text("x")
    with monkeypatch.context() as patched:
        chmod = os.chmod

        refused: list[str] = []

        def refuse_the_first(path: Any, mode: int, **options: Any) -> None:
            if not refused:
                refused.append(path)
                raise PermissionError(1, "not permitted")
            chmod(path, mode, **options)

        patched.setattr(os, "chmod", refuse_the_first)
        with pytest.raises(PermissionError):
            scratch.remove(folder)
    assert [path.name for path in folder.iterdir()] == refused


def test_size_counts_bytes_on_disk_and_empty_entries(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_bytes(b"x" * 100_000)
    with (folder / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert 100_000 <= scratch.size(folder) < 200_000
    scratch.remove(folder)


def test_size_stops_where_it_knows_enough(folder: Path) -> None:
    for number in range(100):
        (folder / str(number)).mkdir()
    assert 10_000 <= scratch.size(folder, 10_000) < 1_000_000
    scratch.remove(folder)


def test_a_folder_too_deep_to_be_looked_at_counts_as_full(folder: Path) -> None:
    folder.joinpath(*["d"] * 100).mkdir(parents=True)
    assert scratch.size(folder, 1 << 30) == 1 << 30
    scratch.remove(folder)


def test_a_folder_whose_path_is_too_long_counts_as_full(folder: Path) -> None:
    deepest = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=deepest)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=deepest)
        os.close(deepest)
        deepest = inner
    os.close(deepest)
    assert scratch.size(folder, 1 << 30) == 1 << 30
    scratch.remove(folder)


def test_a_watch_tells_once_that_a_folder_is_too_full(folder: Path) -> None:
    full = threading.Event()
    watch = scratch.Watch(folder, 50_000, full.set)
    assert not full.wait(0.3)
    (folder / "file").write_bytes(b"x" * 100_000)
    assert full.wait(5)
    watch.stop()
    scratch.remove(folder)
