"""The gradebook on a PostgreSQL server: the rows are those of SQLite, and what goes wrong is told in a sentence."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import nbgrader.api
import psycopg
import pytest
import sqlalchemy
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde
from nbgrader.utils import temp_attrs
from traitlets.config import Config

from autograder import unchanged
from autograder.class_result import Result
from autograder.classroom import ClassRun
from autograder.cli import main
from autograder.course import Course, load_course
from autograder.errors import CourseError
from autograder.grading import Grader
from autograder.nbgrader import databases, preprocessors
from autograder.nbgrader.config import configure, nbgrader_of
from autograder.nbgrader.files import ClassFiles
from autograder.nbgrader.gradebook import ClassGradebook
from autograder.setting import keep_setting, setting_of
from autograder.submissions import submissions
from tests import courses
from tests.nbgrader.rows import TABLES, rows
from tests.nbgrader.server import ADMIN, PASSWORD, Server, newest
from tests.nbgrader.test_same_rows import CONCLUSION, LATE

REQUIRED = "AUTOGRADER_REQUIRE_POSTGRESQL"
SEED = 20261129
STUDENTS = ("amara", "dora", "emil")
TESTS = "test_scaled_dot_product_attention"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of this module's own."""
    programs = newest()
    if programs is None:
        reason = "the gradebook is not tried on PostgreSQL: Debian's package postgresql is not installed"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{reason}, and {REQUIRED} is set.")
        pytest.skip(reason)
    with Server(programs) as running:
        yield running


def course_with(root: Path, address: str) -> Course:
    """The course in a folder, with its gradebook at this address."""
    file = root / "course.yml"
    text = "".join(line for line in file.read_text().splitlines(True) if not line.startswith("database:"))
    file.write_text(f"{text}database: {json.dumps(address)}\n" if address else text)
    return load_course(root)


def prepared(root: Path) -> Path:
    """A class of three with a due date, a penalty, and an exercise for a human."""
    courses.copy_course(root, *STUDENTS)
    (root / ".autograder").mkdir(mode=0o700)
    (root / ".autograder" / "seed").write_text(f"{SEED}\n")
    with (root / "nbgrader_config.py").open("a") as config:
        config.write(LATE)
    rules = (root / "course.yml").read_text()
    before, after = rules.split("  attention:\n")
    after = after.replace("    minutes: 45\n", "    minutes: 45\n    due: 2026-12-01T12:00:00+08:00\n", 1)
    after = after.replace("      project_qkv:\n", "      conclusion:\n        manual: true\n      project_qkv:\n", 1)
    (root / "course.yml").write_text(f"{before}  attention:\n{after}")
    source = root / "source" / "attention" / "attention.ipynb"
    notebook = json.loads(source.read_text())
    notebook["cells"].append(CONCLUSION)
    source.write_text(json.dumps(notebook))
    (root / "submitted" / "dora" / "attention" / "timestamp.txt").write_text("2026-12-01 04:00:01 UTC")
    return root


def grade(course: Course, grader: Grader | None = None) -> list[Result]:
    """Grade the class; without a grader from kept results alone."""
    app = nbgrader_of(course)
    with ClassGradebook(course, app) as gradebook:
        files, found = ClassFiles(course, app), submissions(course.root / "submitted", "attention")
        keep_setting(course, files.setting(gradebook.path), None, None)
        run = ClassRun(course, gradebook, files, "attention", found, SEED)
        assert grader is not None or not run.new
        results = list(run.results(grader.grade_many(run.new, SEED) if grader else iter(())))
        run.told()
        return results


def rows_of(address: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a gradebook with a server, as SQLite has them."""
    with psycopg.connect(address) as connection:
        found = {name: [_plain(row) for row in connection.execute(query)] for name, query in TABLES.items()}
    return {name: sorted(each, key=lambda row: [str(value) for value in row]) for name, each in found.items()}


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    def plain(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.strftime("%Y-%m-%d %H:%M:%S.%f")
        return int(value) if isinstance(value, bool) else value

    return tuple(plain(value) for value in row)


class Both(NamedTuple):
    """One class in two gradebooks."""

    root: Path
    address: str

    def in_sqlite(self) -> Course:
        """The course with its gradebook in a file."""
        return course_with(self.root, "")

    def on_server(self) -> Course:
        """The course with its gradebook on the server."""
        return course_with(self.root, self.address)

    def rows(self) -> tuple[dict[str, list[tuple[Any, ...]]], ...]:
        """The rows of both."""
        return rows(self.root / "gradebook.db"), rows_of(self.address)


@pytest.fixture(scope="module")
def both(server: Server, grader: Grader, one_alembic: None, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Graded into SQLite, and then from the kept results into PostgreSQL."""
    class_ = Both(prepared(tmp_path_factory.mktemp("postgresql") / "course"), server.new("attention"))
    grade(class_.in_sqlite(), grader)
    grade(class_.on_server())
    return class_


@pytest.mark.parametrize("table", TABLES)
def test_the_rows_are_those_of_sqlite(both: Both, table: str) -> None:
    in_file, on_server = both.rows()
    assert on_server[table] == in_file[table]
    assert in_file[table]


def test_the_class_has_scores_a_penalty_and_a_due_date(both: Both) -> None:
    found = rows_of(both.address)
    scores = {student: rest for student, _, cell, *rest in found["grade"] if cell == TESTS}
    assert scores == {"amara": [16, None, None, 0], "dora": [13, None, None, 0], "emil": [5, None, None, 0]}
    assert [row[3] for row in found["submitted_notebook"]] == [None, 17, None]
    assert found["assignment"][0][1] == "2026-12-01 04:00:00.000000"


def test_an_unchanged_class_is_told_as_such(both: Both) -> None:
    assert [one.unchanged for one in grade(both.on_server())] == [True] * 3


def test_a_class_that_moves_to_a_server_is_not_taken_for_unchanged(both: Both) -> None:
    course = both.on_server()
    setting = setting_of(course, None, None)
    assert setting is not None and setting.database == ""
    found = {"attention": submissions(course.root / "submitted", "attention")}
    assert unchanged.unchanged_class(course, found, SEED, setting) is None
    course = both.in_sqlite()
    grade(course)
    setting = setting_of(course, None, None)
    assert setting is not None and unchanged.unchanged_class(course, found, SEED, setting) is not None
    assert unchanged.unchanged_class(both.on_server(), found, SEED, setting) is None


def test_marks_by_hand_survive_a_regrade_which_changes_the_rest(both: Both) -> None:
    by_hand = (
        f"""UPDATE grade SET manual_score = 3, extra_credit = 1
            WHERE cell_id IN (SELECT id FROM base_cell WHERE name IN ('{TESTS}', 'conclusion'))""",
        "UPDATE comment SET manual_comment = 'Well seen.'",
        "UPDATE student SET last_name = 'Diallo' WHERE id = 'amara'",
    )
    with sqlite3.connect(both.root / "gradebook.db") as database, psycopg.connect(both.address) as connection:
        for statement in by_hand:
            database.execute(statement)
            connection.execute(statement)  # type: ignore[call-overload] # no literal
    amara, emil = (both.root / "submitted" / name / "attention" / "attention.ipynb" for name in ("amara", "emil"))
    shutil.copy(amara, emil)
    changes = [[one.change for one in grade(place())] for place in (both.in_sqlite, both.on_server)]
    in_file, on_server = both.rows()
    assert on_server == in_file
    assert {tuple(rest) for student, _, cell, *rest in on_server["grade"] if (student, cell) == ("emil", TESTS)} == {
        (16, 3, 1, 1)
    }
    assert {row[4] for row in on_server["comment"]} == {"Well seen."}
    assert changes[0] == changes[1] and changes[0][2] is not None


def test_plain_nbgrader_writes_there_too(
    both: Both, server: Server, grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.new("plain")
    course = course_with(both.root, address)

    @contextmanager
    def warm(_: Path) -> Iterator[tuple[Course, Grader]]:
        yield course, grader

    monkeypatch.setattr(preprocessors, "grader_of", warm)
    app = nbgrader_of(course)
    with ClassGradebook(course, app) as gradebook:
        gradebook.prepare("attention")
    with temp_attrs(app.coursedir, assignment_id="attention", student_id="dora"):
        converter = Autograde(coursedir=app.coursedir, parent=app)
        converter.force = True
        converter.start()
    found = {(student, cell): rest for student, _, cell, *rest in rows_of(address)["grade"]}
    assert found["dora", TESTS] == [13, None, None, 0]


def test_feedback_and_export_are_those_of_sqlite(
    both: Both, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(both.root)
    left = []
    for place in (both.in_sqlite, both.on_server):
        place()
        assert [main(["feedback"]), main(["export", "--format", "json"])] == [0, 0]
        pages = {path: path.read_bytes() for path in (both.root / "feedback").rglob("*.html")}
        left.append((capsys.readouterr().out, pages))
    assert left[0] == left[1] and len(left[0][1]) == 3


def test_formgrader_finds_there_what_it_asks_for(both: Both) -> None:
    """Its own queries are more than ours, and grouped in ways that PostgreSQL is strict about."""
    seen = []
    for place in (both.in_sqlite, both.on_server):
        api = NbGraderAPI(nbgrader_of(place()).coursedir)
        seen.append(
            [
                *api.get_assignments(),
                *api.get_submissions("attention"),
                *api.get_notebooks("attention"),
                *api.get_notebook_submissions("attention", "attention"),
                *api.get_students(),
                *api.get_student_submissions("dora"),
                *api.get_student_notebook_submissions("dora", "attention"),
            ]
        )
    in_file, on_server = (
        sorted(json.dumps(one | {"id": "", "index": 0}, default=str) for one in each) for each in seen
    )
    assert on_server == in_file


def test_a_named_folder_is_sqlite_all_the_same(both: Both) -> None:
    into = both.root / "elsewhere"
    app = nbgrader_of(both.on_server(), db_url=f"sqlite:///{into}/gradebook.db")
    assert databases.database_of(app.coursedir.db_url, "").file == into / "gradebook.db"


def test_two_gradebooks_in_a_folder_leave_each_other_s_workshop_alone(tmp_path: Path) -> None:
    one, other = (databases.database_of(f"sqlite:///{tmp_path}/{name}[1].db", "") for name in ("autumn", "spring"))
    with one.workshop() as folder:
        other.take()
        assert folder.exists()
        one.take()
        assert not folder.exists()
        folder.mkdir()


class Fault(NamedTuple):
    """An address at which there is no gradebook for us, and what is told of it."""

    address: str
    said: tuple[str, ...]


def over_tcp(server: Server, database: str, password: str = "", user: str = ADMIN) -> str:
    """An address that the server asks for a password."""
    secret = f":{quote(password, safe='')}" if password else ""
    return f"postgresql://{user}{secret}@127.0.0.1:{server.port}/{database}"


FAULTS = {
    "away": lambda server: Fault(
        "postgresql://127.0.0.1:1/attention", ("Connection refused", "whether the server runs")
    ),
    "wrong-password": lambda server: Fault(
        over_tcp(server, "attention", f"{PASSWORD}!"), ("password authentication failed", "~/.pgpass")
    ),
    "no-password": lambda server: Fault(over_tcp(server, "attention"), ("no password supplied", "~/.pgpass")),
    "no-database": lambda server: Fault(server.url("nothing"), ('database "nothing" does not exist', "createdb")),
    "no-role": lambda server: Fault(server.url("attention", role="nobody"), ('role "nobody"', "name another role")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_server_that_does_not_let_us_in_is_told_in_a_sentence(
    both: Both, server: Server, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = FAULTS[name](server)
    course_with(both.root, fault.address)
    monkeypatch.chdir(both.root)
    assert main(["export"]) == 2
    out, told = capsys.readouterr()
    assert out == "" and told.count("\n") == 1 and told.startswith("autograder: the gradebook ")
    assert [part for part in fault.said if part not in told] == []
    assert not any(secret in told for secret in (PASSWORD, quote(PASSWORD, safe="")))


@pytest.fixture
def reader(both: Both, server: Server) -> Iterator[str]:
    """The address of the class for a role that may only read."""
    server.execute("CREATE ROLE reader LOGIN")
    server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", database="attention")
    yield server.url("attention", role="reader")
    server.execute("DROP OWNED BY reader", "DROP ROLE reader", database="attention")


def test_who_may_only_read_can_export_and_is_told_before_grading(
    both: Both, reader: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    course = course_with(both.root, reader)
    before = rows_of(both.address)
    with pytest.raises(CourseError, match=r"permission denied for table grade\); ask whoever keeps the server"):
        grade(course)
    monkeypatch.chdir(both.root)
    assert main(["export"]) == 0 and "amara" in capsys.readouterr().out
    assert rows_of(both.address) == before


def test_another_class_run_is_kept_out_until_the_first_has_ended(both: Both) -> None:
    course = both.on_server()
    first, second = (ClassGradebook(course, nbgrader_of(course)) for _ in range(2))
    with first, second:
        first.prepare("attention")
        first.prepare("attention")
        with pytest.raises(CourseError, match="another `autograder grade` is writing to attention on "):
            second.prepare("attention")
        first.__exit__(None, None, None)
        second.prepare("attention")


def test_a_server_that_ends_idle_sessions_ends_none_of_a_run(both: Both, server: Server) -> None:
    server.execute("ALTER DATABASE attention SET idle_session_timeout = '300ms'")
    try:
        course = both.on_server()
        first, second = (ClassGradebook(course, nbgrader_of(course)) for _ in range(2))
        with first, second:
            first.prepare("attention")
            time.sleep(1)
            with pytest.raises(CourseError, match="another `autograder grade` is writing to attention on "):
                second.prepare("attention")
            assert first.rows("attention")
    finally:
        server.execute("ALTER DATABASE attention RESET idle_session_timeout")


def test_a_run_whose_lock_is_gone_writes_nothing_more(both: Both, server: Server) -> None:
    course = both.on_server()
    before = rows_of(both.address)
    with ClassGradebook(course, nbgrader_of(course)) as gradebook:
        gradebook.prepare("attention")
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        for _ in range(2):
            with pytest.raises(CourseError, match=r"kept other runs out of the gradebook .*; run this again"):
                gradebook.record("amara", "attention", both.root / "submitted" / "amara" / "attention", {})
        with pytest.raises(CourseError, match="kept other runs out"):
            gradebook.prepare("attention")
    assert rows_of(both.address) == before


def test_databases_of_one_name_have_addresses_of_their_own_without_the_password() -> None:
    urls = [f"postgresql://{role}:{port}/attention" for role in ("a:s3cret@db", "b:s3cret@db") for port in (5432, 5433)]
    urls += [f"{urls[0]}?{more}" for more in ("options=-csearch_path%3Dspring", "password=s3cret")]
    addresses = [databases.database_of(url, "").address for url in urls]
    assert len({databases.database_of(url, "").name for url in urls}) == 1
    assert len(set(addresses)) == 5 and not any("s3cret" in address for address in addresses)


def test_what_waits_for_another_program_too_long_is_told_and_leaves_nothing(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    grade(both.on_server())
    before = rows_of(both.address)
    monkeypatch.setattr(databases, "LOCK_SECONDS", 1)
    course = both.on_server()
    with psycopg.connect(both.address) as other, ClassGradebook(course, nbgrader_of(course)) as gradebook:
        other.execute("SELECT * FROM grade FOR UPDATE")
        with pytest.raises(CourseError, match=r"lock timeout.*another program is writing to it"):
            gradebook.record("amara", "attention", both.root / "submitted" / "amara" / "attention", {})
        other.rollback()
    assert rows_of(both.address) == before


def test_nothing_of_the_database_is_held_between_two_submissions(both: Both) -> None:
    course = both.on_server()
    with ClassGradebook(course, nbgrader_of(course)) as gradebook, psycopg.connect(both.address) as other:
        assert gradebook.rows("attention") and gradebook.knows("amara", "attention")
        found = other.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = 'attention' AND pid <> pg_backend_pid()"
        )
        assert found.fetchall() == [("idle",)]


def test_what_only_reads_makes_no_gradebook(
    both: Both, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    course_with(both.root, server.new("empty"))
    monkeypatch.chdir(both.root)
    assert main(["export"]) == 2
    assert "there is no gradebook empty on " in capsys.readouterr().err
    assert server.execute("SELECT * FROM pg_tables WHERE schemaname = 'public'", database="empty") == []


def test_one_that_was_stopped_while_it_was_made_is_completed(both: Both, server: Server) -> None:
    course = course_with(both.root, server.new("half"))
    engine = sqlalchemy.create_engine(nbgrader_of(course).coursedir.db_url)
    nbgrader.api.Base.metadata.create_all(engine, tables=[nbgrader.api.Course.__table__])
    engine.dispose()
    with ClassGradebook(course, nbgrader_of(course)) as gradebook:
        assert gradebook.rows("attention") == {}
    versions = [server.execute("SELECT * FROM alembic_version", database=name) for name in ("half", "attention")]
    assert versions[0] == versions[1] and len(versions[0]) == 1


def test_several_first_runs_at_a_time_make_one_gradebook(server: Server) -> None:
    address = server.new("raced").replace("postgresql:", "postgresql+psycopg:")
    start = threading.Barrier(4)

    def open_it(_: int) -> None:
        start.wait()
        database = databases.database_of(address, "a-course")
        database.make()
        nbgrader.api.Gradebook(database.url, "a-course").close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(open_it, range(4))) == [None] * 4
    assert server.execute("SELECT count(*) FROM alembic_version", database="raced") == [(1,)]


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        ("columns", ["CREATE TABLE student (id varchar)"], r"student\.email, student\.first_name"),
        (
            "tables",
            [
                "CREATE TABLE alembic_version (version_num varchar)",
                "INSERT INTO alembic_version VALUES ('b6d005d67074')",
            ],
            "no table assignment",
        ),
    ],
)
def test_one_of_another_version_is_told_and_left_alone(
    both: Both, server: Server, name: str, made: list[str], said: str
) -> None:
    course = course_with(both.root, server.new(name))
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    server.execute(*made, database=name)
    before = server.execute(tables, database=name)
    with pytest.raises(CourseError, match=rf"another version of nbgrader \({said}.*`nbgrader db upgrade`"):
        ClassGradebook(course, nbgrader_of(course))
    assert server.execute(tables, database=name) == before


def test_nbgrader_s_own_commands_get_it_without_the_password(
    both: Both, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    course_with(both.root, over_tcp(server, "attention", PASSWORD))
    monkeypatch.setattr(sys, "argv", ["/usr/bin/nbgrader", "db", "upgrade"])  # which prints the address
    monkeypatch.setenv("PGPASSWORD", "of another server")
    config = Config()
    configure(config, both.root / "nbgrader_config.py")
    address = config.CourseDirectory.db_url
    assert address == f"postgresql+psycopg://{ADMIN}@127.0.0.1:{server.port}/attention"
    with nbgrader.api.Gradebook(address, "attention-by-hand") as gradebook:
        assert len(gradebook.students) == 3


def test_a_server_that_goes_away_is_told_and_the_next_run_goes_on(both: Both, server: Server) -> None:
    course = both.on_server()
    before = rows_of(both.address)
    with ClassGradebook(course, nbgrader_of(course)) as gradebook:
        gradebook.prepare("attention")
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'attention'")
        with pytest.raises(CourseError, match="run this again when the server is back; what was recorded stays"):
            gradebook.record("amara", "attention", both.root / "submitted" / "amara" / "attention", {})
    assert rows_of(both.address) == before
    grade(course)


def test_a_missing_driver_is_told_with_what_to_install(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    course = both.on_server()
    app = nbgrader_of(course)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CourseError, match=r"pip install 'attention-autograder\[postgresql\]'"):
        ClassGradebook(course, app)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://grader:s3cret@db/attention", "must begin with postgresql://"),
        ("postgresql://grader:s3cret@1@db/attention", "can't be understood"),
        ("postgresql://grader:s3cret/1@db/attention", "can't be understood"),
    ],
)
def test_an_address_of_no_use_is_told_with_its_line_and_without_its_password(
    tmp_path: Path, address: str, said: str
) -> None:
    shutil.copy(courses.REPOSITORY / "course.yml", tmp_path)
    with pytest.raises(CourseError, match=rf"course.yml, line \d+: database {said}") as raised:
        course_with(tmp_path, address)
    assert "s3cret" not in str(raised.value)
