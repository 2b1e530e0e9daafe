"""A class graded on a Dask cluster: real schedulers and workers on the loopback address, some of them killed."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dask
import msgspec
import psutil
import pytest
from distributed import Client
from msgspec.structs import replace

from autograder._class_commands import _told_ended
from autograder.cli import main
from autograder.cluster import Cluster
from autograder.cluster_worker import (
    COURSE_VARIABLE,
    Machine,
    Reply,
    Rules,
    Task,
    _Bench,
    _OtherRules,
    difference,
    packed,
)
from autograder.course import load_course, suite_hash
from autograder.errors import CourseError
from autograder.examiner.job import Examined
from autograder.grading import Graded
from autograder.messages import message
from autograder.report import GradeReport, without_score
from tests.nbgrader.rows import rows

from .conftest import COURSE, REPOSITORY, SOURCE, code, notebook

LESSON = "attention"
CONFIGURATION = """\
from autograder.nbgrader.config import configure
c = get_config()
configure(c, __file__)
"""
SUITE = {
    "test_double.py": """\
from autograder.suite import N_, check, fail


@check(points=4, title="It doubles", hint="Twice as much")
def test_value(student):
    if student(2) != 4:
        fail(N_("it does not double 2"))
""",
    "mistakes_double.py": """\
from autograder.suite import mistake


@mistake("same", caught_by="value", says="It changes nothing.")
def same(x):
    return x
""",
    "correct_double.py": """\
from autograder.suite import correct


@correct("sum")
def sum_of_two(x):
    return x + x
""",
}
ANSWERS = {
    "ada": "def double(x):\n    return 2 * x",
    "bob": "def double(x):\n    return x",
    "cleo": "def double(x):\n    raise ValueError(x)",
    **{f"slow-{n}": f"import time\ntime.sleep(0.4)\ndef double(x):\n    return {n % 2 + 1} * x" for n in range(6)},
}
WAIT = 30.0
"""Seconds in which a process has to do what is waited for."""


class Running:
    """A scheduler and its workers, all at work in `folder`; `workers` are their processes by address."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self._folder, self._variables = folder, variables
        self._own = Path(tempfile.mkdtemp(prefix="dask-", dir=folder.parent))
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        file = self._own / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        self.address, until = "", time.monotonic() + WAIT
        while not self.address and time.monotonic() < until:
            time.sleep(0.05)
            with contextlib.suppress(OSError, ValueError):
                self.address = json.loads(file.read_text())["address"]
        if not self.address:
            self.close()
            pytest.fail((self._own / "log").read_text())

    def more(self, count: int, **variables: str) -> list[str]:
        """Start as many workers; their addresses."""
        before = set(self.workers)
        started = {}
        for number in range(len(before), len(before) + count):
            words = ["--no-nanny", "--nthreads", "1", "--name", str(number)]
            started[number] = self._start(
                "worker", self.address, *words, "--local-directory", str(self._own), **variables
            )
        until = time.monotonic() + WAIT
        with connected(self.address) as client:
            while len(self.workers) < len(before) + count and time.monotonic() < until:
                time.sleep(0.05)
                for address, told in client.scheduler_info()["workers"].items():
                    if int(told["name"]) in started:
                        self.workers[address] = started[int(told["name"])]
        assert len(self.workers) == len(before) + count, (self._own / "log").read_text()
        return [address for address in self.workers if address not in before]

    def close(self) -> None:
        """End all of them, whatever they do."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()

    def _start(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        with (self._own / "log").open("ab") as log:
            command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
            path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
            environment = {**os.environ, "PYTHONPATH": path, **self._variables, **variables}
            process = subprocess.Popen(command, cwd=self._folder, env=environment, stdout=log, stderr=log)
        self._processes.append(process)
        return process


def hand_in(root: Path, student: str, text: str) -> Path:
    path = root / "submitted" / student / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course of one small lesson, with a class."""
    root = tmp_path_factory.mktemp("cluster") / "course"
    hidden, source = root / "tests" / "hidden" / LESSON, root / "source" / LESSON / f"{LESSON}.ipynb"
    hidden.mkdir(parents=True)
    source.parent.mkdir(parents=True)
    (root / "course.yml").write_text(COURSE.replace("      half:\n", ""))
    (root / "nbgrader_config.py").write_text(CONFIGURATION)
    source.write_text(json.dumps(notebook(*SOURCE["cells"])))
    for name, text in SUITE.items():
        (hidden / name).write_text(text)
    for student, answer in ANSWERS.items():
        cell = code(answer, grade_id="double", solution=True)
        path = hand_in(root, student, json.dumps(notebook(cell, SOURCE["cells"][2])))
    hand_in(root, "torn", "no notebook")
    link = hand_in(root, "vera", "")
    link.unlink()
    link.symlink_to(path)
    return root


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """A look at what a cluster does."""
    with Client(address, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def cluster(root: Path) -> Iterator[Running]:
    """Two workers that grade."""
    with contextlib.closing(Running(root)) as running:
        running.more(2)
        yield running
    until = time.monotonic() + WAIT
    while (left := processes_of(root.parent)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left, "a worker has left processes behind"


def processes_of(folder: Path) -> list[list[str]]:
    """The command lines that name a folder."""
    lines = (one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"]))
    return [line for line in lines if str(folder) in " ".join(line)]


@pytest.fixture(scope="module")
def alone(root: Path) -> Path:
    """The class, graded by this machine alone."""
    assert main(["--course", str(root), "grade", "--workers", "2", "--into", str(root.parent / "alone")]) == 0
    return root.parent / "alone"


def graded(root: Path, into: Path, *options: str) -> int:
    """The exit code of ``autograder grade``."""
    return main(["--course", str(root), "grade", "--fresh", "--into", str(into), *options])


def everything(into: Path) -> dict[str, Any]:
    """What a class run has left: rows and files."""
    folder = into / "autograded"
    return {
        **rows(into / "gradebook.db"),
        "files": {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()},
    }


@pytest.fixture
def course(root: Path, one_alembic: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(root)
    return root


def test_a_cluster_leaves_what_this_machine_alone_leaves(
    course: Path, cluster: Running, alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert graded(course, tmp_path / "into", "--scheduler", cluster.address) == 0
    assert "on 1 machine, 2 at a time, after" in " ".join(capsys.readouterr().out.split())
    found, right = everything(tmp_path / "into"), everything(alone)
    assert found == right
    assert len({row[0] for row in found["grade"] if row[3] is not None}) == len(ANSWERS)


def reports(running: Running, course: Path, ended: list[str] | None = None) -> Iterator[GradeReport]:
    """The reports of a class on a cluster, as they come; at last the workers that have ended."""
    files = sorted((course / "submitted").glob(f"*/{LESSON}/{LESSON}.ipynb"))
    with contextlib.closing(Cluster(load_course(course), running.address, [LESSON])) as cluster:
        cluster.wait()
        for one in cluster.grade_many([(path, LESSON) for path in files], 1):
            yield one.report
        if ended is not None:
            ended += cluster.ended()


def test_a_worker_without_its_examiner_starts_another(course: Path, cluster: Running) -> None:
    before = list(reports(cluster, course))
    assert [report.status for report in before].count("graded") == len(ANSWERS)
    worker = next(iter(cluster.workers.values()))
    [examiner] = (one for one in psutil.Process(worker.pid).children() if "autograder.examiner" in one.cmdline())
    examiner.kill()
    assert list(reports(cluster, course)) == before


def test_a_worker_killed_in_the_middle_costs_no_result(course: Path, cluster: Running) -> None:
    [address] = cluster.more(1)  # so that the two of other tests stay
    before, ended = list(reports(cluster, course)), list[str]()
    coming = reports(cluster, course, ended)
    found = [next(coming)]
    worker = cluster.workers[address]
    with connected(cluster.address) as client:
        assert client.processing()[address], "the worker has nothing to lose"
    worker.kill()
    worker.wait()
    found += coming
    assert found == before
    assert ended == [address]


def test_a_worker_with_other_suites_is_refused(
    course: Path, cluster: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(course, other, ignore=shutil.ignore_patterns(".autograder", "submitted"))
    suite = other / "tests" / "hidden" / LESSON / "test_double.py"
    suite.write_text(suite.read_text().replace("!= 4", "!= 5"))
    [address] = cluster.more(1, **{COURSE_VARIABLE: str(other)})
    try:
        assert graded(course, tmp_path / "into", "--scheduler", cluster.address) == 2
    finally:
        cluster.workers[address].kill()
    said = capsys.readouterr().err
    assert f"({address}) would grade by other rules than this machine: its copy of the course" in said
    assert not rows(tmp_path / "into" / "gradebook.db")["submitted_notebook"]


# The way there, without an examiner


def stand_in(task: bytes) -> bytes:
    """Takes the place of `autograder.cluster_worker.perform`, and grades nothing; a file can end its worker."""
    asked = msgspec.msgpack.decode(task, type=Task)
    if asked.content is None:
        return msgspec.msgpack.encode(Reply("one", points={LESSON: {"double": 4.0}}))
    if b"perish" in asked.content:
        os._exit(1)
    time.sleep(0.3)
    error = message("{name} is odd", name="/there")
    report = without_score(Path("/there"), LESSON, "ungraded", error, max_score=4.0, seed=1, suite_hash="")
    return msgspec.msgpack.encode(Reply("one", graded=Graded(report), place="/there"))


@pytest.fixture
def door(course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Iterator[GradeReport]]:
    """A function that gives files of such content to a cluster whose workers have a stand-in."""
    monkeypatch.setattr("autograder.cluster.perform", stand_in)

    def grade(address: str, *contents: str) -> Iterator[GradeReport]:
        files = []
        for number, content in enumerate(contents):
            files.append(tmp_path / f"{number}.ipynb")
            files[-1].write_text(content)
        with contextlib.closing(Cluster(load_course(course), address, [LESSON])) as cluster:
            cluster.wait()
            yield from (one.report for one in cluster.grade_many([(path, LESSON) for path in files], 1))

    return grade


@pytest.fixture
def hollow(root: Path) -> Iterator[Running]:
    """A scheduler without workers, which tries no task again; each test ends what it likes of it."""
    with contextlib.closing(Running(root, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")) as running:
        yield running


def test_a_scheduler_without_workers_is_told(
    course: Path,
    hollow: Running,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("autograder.cluster.CONNECT_SECONDS", 3.0)
    assert graded(course, tmp_path / "into", "--scheduler", hollow.address) == 2
    assert f"the scheduler at {hollow.address} has no worker; start some" in capsys.readouterr().err


def test_a_submission_whose_workers_all_end_is_nobodys_zero(
    hollow: Running, door: Callable[..., Iterator[GradeReport]], tmp_path: Path
) -> None:
    hollow.more(2)
    [report] = door(hollow.address, "perish")
    assert (report.status, report.score, report.max_score) == ("ungraded", None, 4.0)
    assert report.error is not None
    assert report.error.render() == "the grader failed: each worker that was at work on it ended"
    [report] = door(hollow.address, "fine")
    assert report.notebook == str(tmp_path / "0.ipynb")
    assert report.error is not None
    assert report.error.render() == f"{tmp_path / '0.ipynb'} is odd"


@pytest.mark.parametrize(
    ("what", "said"), [("workers", "has lost its last worker"), ("scheduler", "the connection to the scheduler at")]
)
def test_a_cluster_that_is_gone_in_the_middle_is_told(
    door: Callable[..., Iterator[GradeReport]],
    monkeypatch: pytest.MonkeyPatch,
    hollow: Running,
    what: str,
    said: str,
) -> None:
    monkeypatch.setattr("autograder.cluster.WORKER_SECONDS", 1.0)
    monkeypatch.setattr("autograder.cluster.FETCH_SECONDS", 2.0)
    hollow.more(1)
    coming = door(hollow.address, *(["fine"] * 12))
    next(coming)
    for process in [hollow.scheduler] if what == "scheduler" else hollow.workers.values():
        process.kill()
    with pytest.raises(CourseError, match=f"{said}.*; what is recorded stays, and the next run grades the rest"):
        list(coming)


def test_results_that_do_not_come_are_fetched_by_fewer_and_then_given_up(
    hollow: Running, door: Callable[..., Iterator[GradeReport]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hollow.more(1)
    asked: list[int] = []

    async def never(self: Client, futures: list[Any], **_: Any) -> list[bytes]:
        asked.append(len(futures))
        await asyncio.sleep(WAIT)
        raise AssertionError

    coming = door(hollow.address, *(["fine"] * 4))
    next(coming)
    with connected(hollow.address) as client:
        while sum(map(len, client.processing().values())):
            time.sleep(0.05)
    monkeypatch.setattr("autograder.cluster.FETCH_SECONDS", 0.05)
    monkeypatch.setattr(Client, "_gather", never)
    with pytest.raises(CourseError, match="8 times no result came"):
        list(coming)
    assert len(asked) == 8 and asked[0] > 1 and asked[-3:] == [1, 1, 1]


def another_version(_: bytes) -> bytes:
    """As `stand_in`, of a version that answers in another way."""
    return msgspec.msgpack.encode({"worker": "one", "points": 4})


def test_a_worker_whose_answers_cannot_be_read_is_told(
    hollow: Running, door: Callable[..., Iterator[GradeReport]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hollow.more(1)
    monkeypatch.setattr("autograder.cluster.perform", another_version)
    with pytest.raises(CourseError, match="the worker one has another version of autograder"):
        list(door(hollow.address, "fine"))


def test_a_cluster_that_can_not_begin_leaves_no_connection(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Mock(nthreads=Mock(side_effect=OSError("gone")))
    monkeypatch.setattr("autograder.cluster._connected", lambda _: client)
    with pytest.raises(CourseError, match="is lost"):
        Cluster(load_course(course), "tcp://127.0.0.1:1", [LESSON])
    client.close.assert_called_once()


def test_a_course_that_changes_in_the_middle_is_noticed(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    shutil.copytree(course, other, ignore=shutil.ignore_patterns(".autograder", "submitted"))
    monkeypatch.setenv(COURSE_VARIABLE, str(other))
    report = without_score(Path("/there"), LESSON, "graded", None, max_score=4.0, seed=1, suite_hash="")
    made = Mock(side_effect=lambda *_: Mock(grade=Mock(return_value=Graded(report))))
    monkeypatch.setattr("autograder.cluster_worker.Grader", made)
    monkeypatch.setattr("distributed.get_worker", Mock())
    loaded = load_course(other)
    asked, bench = Task(Rules({LESSON: suite_hash(loaded, LESSON)}, loaded.confinement.grade), LESSON), _Bench()
    suite = other / "tests" / "hidden" / LESSON / "test_double.py"
    bench.grade(asked, b"")
    os.utime(suite, (1, 1))
    bench.grade(asked, b"")
    assert made.call_count == 1, "another time alone is no other rule"
    suite.write_text(suite.read_text().replace("!= 4", "!= 5"))
    with pytest.raises(_OtherRules):
        bench.grade(asked, b"")


def test_no_scheduler_is_told(
    course: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autograder.cluster.CONNECT_SECONDS", 1.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        assert graded(course, tmp_path / "into", "--scheduler", address) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"autograder: there is no scheduler at {address} (") and said.count("\n") == 1
    assert graded(course, tmp_path / "into", "--scheduler", "udp:nowhere") == 2
    assert "udp:nowhere is no address of a scheduler (" in capsys.readouterr().err
    assert graded(course, tmp_path / "into", "--scheduler", "") == 2
    assert "--scheduler needs an address: tcp://host:port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "setting", "told"),
    [
        ("tls://127.0.0.1:1", {}, "Dask's settings for TLS do not go with tls://127.0.0.1:1 ("),
        (
            "tcp://127.0.0.1:1",
            {"distributed.comm.require-encryption": True},
            "Dask's settings for TLS do not go with tcp://127.0.0.1:1 (",
        ),
    ],
)
def test_settings_for_tls_that_do_not_fit_are_told(
    course: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    address: str,
    setting: dict[str, bool],
    told: str,
) -> None:
    with dask.config.set(setting):
        assert graded(course, tmp_path / "into", "--scheduler", address) == 2
    assert told in capsys.readouterr().err


def test_another_program_at_the_scheduler_s_address_is_told(
    course: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("distributed.Client", Mock(side_effect=MemoryError("3 EiB")))
    assert graded(course, tmp_path / "into", "--scheduler", "tcp://127.0.0.1:80") == 2
    said = capsys.readouterr().err
    assert said.startswith("autograder: what answers at tcp://127.0.0.1:80 is no scheduler") and said.count("\n") == 1


def test_workers_that_ended_are_named_with_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Mock(ended=Mock(return_value=["tcp://10.0.0.7:4711"]))
    for as_json in (False, True):
        [line] = _told_ended(cluster, argparse.Namespace(json=as_json))
        assert line == (
            "workers that have ended meanwhile: tcp://10.0.0.7:4711; what they had not finished went to others"
        )
        assert capsys.readouterr().err == (f"{line}\n" if as_json else "")


def test_what_has_to_be_installed_is_told(
    course: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert graded(course, tmp_path / "into", "--scheduler", "tcp://127.0.0.1:1") == 2
    assert "pip install 'attention-autograder[cluster]'" in capsys.readouterr().err


def test_a_worker_in_a_folder_without_a_course_is_told_what_it_can_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(COURSE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CourseError, match=f"start it in its copy of the course, or with {COURSE_VARIABLE}="):
        _Bench().grade(Task(Rules({LESSON: ""}, "B"), LESSON), b"")


def test_a_result_that_cannot_be_sent_is_a_human_s() -> None:
    report = without_score(Path("/there"), LESSON, "ungraded", message("odd"), max_score=4.0, seed=1, suite_hash="")
    graded = Graded(replace(report, status="graded", score=4.0), examined=Examined((), {0: [{"huge": 1 << 70}]}))
    sent = msgspec.msgpack.decode(packed("one", graded, "/there"), type=Reply).graded
    assert sent is not None and sent.report.error is not None
    assert (sent.report.status, sent.report.score) == ("ungraded", None)
    assert "the result can't be sent (OverflowError)" in sent.report.error.render()


def test_a_difference_is_told_by_what_it_is() -> None:
    here = Machine("1.0", "3.11.7 (gcc)", ("numpy 2.3.0", "torch 2.13.0"), "B", suites={"one": "1", "two": "2"})
    for there, said in (
        (replace(here, version="0.9"), "it has autograder 0.9, and this machine 1.0"),
        (replace(here, python="3.12.1 (gcc)"), "it has Python 3.12.1, and this machine 3.11.7"),
        (replace(here, tier="A"), "its course.yml requires the confinement A, and this machine's B"),
        (replace(here, packages=("numpy 2.3.0", "torch 2.12.0")), "it has torch 2.12.0, and this machine torch 2.13.0"),
        (replace(here, packages=("numpy 2.3.0",)), "it has no such package, and this machine torch 2.13.0"),
        (
            replace(here, suites={"one": "3", "two": "2"}),
            "its hidden tests, source notebook or rules in course.yml are others (seen in: one)",
        ),
        (replace(here, suites={"one": "1"}), "its course has no two"),
        (replace(here, suites={"one": "3", "two": "4"}), "its copy of the course or of autograder is another"),
        (replace(here, changed=True), "autograder was changed there since that worker began"),
    ):
        assert difference(here, there).startswith(said)
