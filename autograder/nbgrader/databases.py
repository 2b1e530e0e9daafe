"""Where a gradebook lies, in a file of SQLite or with a PostgreSQL server: how it is made, and what its faults mean."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nbgrader.api import Base, Gradebook
from nbgrader.dbutil import ALEMBIC_DIR
from sqlalchemy import Connection, Engine, TextClause, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from autograder.errors import CourseError

LOCK_SECONDS = 120
"""How long to wait while formgrader or another command writes."""
CONNECT_SECONDS = 15
"""How long to wait for a server that does not answer."""
VERSION_TABLE = "alembic_version"
WORKSHOP = ".gradebook-"
"""What the name of a folder begins with in which a gradebook is made."""
WRITING, MAKING = 0x6175_746F, 0x6175_7470
"""The keys of our locks on a server's database, any two numbers that nobody else is likely to use."""

AWAKE = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"
"""Has the server (PostgreSQL 14 and later) keep a connection that idles, as all do while a class is examined."""

BUSY = "another program is writing to it: close that, and run this again; what was recorded stays"
FULL = "make room on its disk, and run this again; what was recorded stays"
UPGRADE = "after an update of nbgrader, make a copy of it and run `nbgrader db upgrade`"
SQLITE_ADVICE = {
    "locked": BUSY,
    "full": FULL,
    "disk I/O": "look whether its disk is full, and run this again; what was recorded stays",
}
"""What to do, by what SQLite says."""
BACK = "run this again when the server is back; what was recorded stays"
PASSWORD = "where `database` in course.yml has no password, it is read from ~/.pgpass or the variable PGPASSWORD"
RIGHTS = "ask whoever keeps the server to let you write there (SELECT alone is enough for `feedback` and `export`)"
STATES = {
    "22001": "shorten what is too long, such as the name of a student's folder",
    "23505": BUSY,
    "25006": RIGHTS,
    "40001": BUSY,
    "40P01": BUSY,
    "42501": RIGHTS,
    "53100": FULL,
    "55P03": BUSY,
    "57P01": BACK,
}
"""What to do, by PostgreSQL's code of the error (its documentation, appendix A)."""
SIGNS = {
    "duplicate key": BUSY,  # told by nbgrader, without the code
    "password": PASSWORD,
    'role "': "name another role in `database` in course.yml, or have it made",
    'database "': "have it made (`createdb` does it), or name another one in `database` in course.yml",
}
"""The same, by what it says where there is no code."""
UNREACHED = "look whether the server runs and lets you in from here, and at `database` in course.yml"


def database_of(url: str, course_id: str) -> Database:
    """The database at an address that nbgrader was given."""
    address = make_url(url)
    kind = KINDS.get(address.get_backend_name(), Database)
    return kind(address, course_id)


class Database:
    """A database of any kind that nbgrader can use.

    Attributes:
        url: for nbgrader.
        name: for people, and without a password.
        address: which database it is, where two have the same name; without a password too.
    """

    kind = ""

    def __init__(self, url: URL, course_id: str) -> None:
        self.url, self.course_id = url, course_id
        place = url.host or url.query.get("host")
        where = f" on {place}" if place else ""
        self.name = f"{url.database or 'of the default name'}{where} ({self.kind or url.get_backend_name()})"
        self.address = url.difference_update_query(["password"]).render_as_string(hide_password=True)

    @property
    def file(self) -> Path | None:
        """The file of one that is a file."""
        return None

    def expect_driver(self) -> None:
        """Refuse a database whose Python driver is not installed.

        Raises:
            CourseError: which is how it is told.
        """
        try:
            self.url.get_dialect().import_dbapi()
        except ImportError as fault:
            raise CourseError(
                f"the gradebook {self.name} needs a Python driver that can't be imported ({fault}); "
                "install the extra `postgresql` of this package: pip install 'attention-autograder[postgresql]'."
            ) from None

    def make(self) -> None:
        """Make it whole, where there is none yet."""

    def is_made(self) -> bool:
        """Whether there is a gradebook."""
        return True

    def opened(self, gradebook: Gradebook) -> None:
        """Prepare the connections of a gradebook that was opened here."""

    def rest(self, session: Session) -> None:
        """Hold nothing of the database while the caller is busy with something else."""

    def take(self) -> None:
        """Get ready to write a class: keep other runs out, remove what killed ones have left.

        Raises:
            CourseError: another run is at work.
        """

    def release(self) -> None:
        """Let other runs in."""

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        """A folder for temporary files, nbgrader's too."""
        with _temporary(None, WORKSHOP) as folder:
            yield folder

    def advice(self, fault: Exception, said: str) -> str:
        """What to do about what the database `said`."""
        return UPGRADE


class SQLite(Database):
    """A file of SQLite."""

    def __init__(self, url: URL, course_id: str) -> None:
        super().__init__(url, course_id)
        self.name = self.address = url.database or ""
        if url.drivername == "sqlite" and "timeout" not in url.query:
            self.url = url.update_query_dict({"timeout": str(LOCK_SECONDS)})

    @property
    def file(self) -> Path:
        """Where it is."""
        return Path(self.url.database or "")

    def make(self) -> None:
        """Make the file beside its place, and then put it there.

        nbgrader takes a second for it, and one that is stopped in the middle lacks its version for good.
        """
        if not self.is_made():
            with self.workshop() as folder:
                draft = folder / self.file.name
                Gradebook(self.url.set(database=str(draft)), self.course_id).close()
                draft.replace(self.file)

    def is_made(self) -> bool:
        """Whether there is such a file."""
        return self.file.exists()

    def take(self) -> None:
        """Remove what killed runs have left; no other run is at work, or it would not have let us in."""
        for leftover in self.file.parent.glob(f"{glob.escape(self._workshop)}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        """A folder for temporary files, where the next run finds what a killed one has left."""
        with _temporary(self.file.parent, self._workshop) as folder:
            yield folder

    @property
    def _workshop(self) -> str:
        """What its workshops' names begin with; another course's gradebook may lie beside it, and be made now."""
        return f"{WORKSHOP}{self.file.name}-"

    def advice(self, fault: Exception, said: str) -> str:
        """What to do about what SQLite `said`."""
        return next((advice for sign, advice in SQLITE_ADVICE.items() if sign in said), UPGRADE)


class PostgreSQL(Database):
    """A database of a PostgreSQL server. It is there already, made by whoever keeps the server; we make its tables."""

    kind = "PostgreSQL"

    def __init__(self, url: URL, course_id: str) -> None:
        super().__init__(url, course_id)
        if "connect_timeout" not in url.query and "PGCONNECT_TIMEOUT" not in os.environ:
            self.url = url.update_query_dict({"connect_timeout": str(CONNECT_SECONDS)})
        self._lock: ExitStack | None = None
        self._locking: Connection | None = None

    def is_made(self) -> bool:
        """Whether there are all tables."""
        with self._engine().begin() as connection:
            return not self._missing(connection)

    def make(self) -> None:
        """Make the tables that are missing, their version and the course, all in one transaction.

        nbgrader makes them one after the other; where it was stopped in the middle, the version is missing for good.

        Raises:
            CourseError: they are another version's.
        """
        with self._engine().begin() as connection:
            if not self._missing(connection):
                return
            connection.execute(_locked("pg_advisory_xact_lock", MAKING))
            if missing := self._missing(connection):  # no other run was first
                self._expect_own(connection, missing)
                Base.metadata.create_all(connection)
                self._set_version(connection)
                course = text("INSERT INTO course (id) VALUES (:id) ON CONFLICT DO NOTHING")
                connection.execute(course, {"id": self.course_id})

    def opened(self, gradebook: Gradebook) -> None:
        """Wait for others' locks as long as for SQLite's, and not for ever; and write only while the lock is ours."""

        def limit(session: Session, transaction: object, connection: Connection) -> None:
            self._expect_lock()
            connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))

        event.listen(gradebook.db, "after_begin", limit)
        event.listen(gradebook.engine, "connect", _stay_awake)
        gradebook.db.rollback()
        gradebook.engine.dispose()  # it has connected already

    def rest(self, session: Session) -> None:
        """End the transaction that reading began: servers end the connections of those that do nothing for long."""
        session.rollback()

    def take(self) -> None:
        """Keep other class runs out, on this machine or another, until `release` or the end of the process."""
        if self._lock is not None:
            self._expect_lock()
            return
        with ExitStack() as held:
            connection = held.enter_context(self._engine().connect())
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.execute(text("SET tcp_keepalives_idle = 60"))  # the lock of a machine that vanished goes soon
            connection.execute(text(f"SET lock_timeout = '{LOCK_SECONDS}s'"))
            if not connection.scalar(_locked("pg_try_advisory_lock", WRITING)):
                raise CourseError(f"another `autograder grade` is writing to {self.name}; wait until it has ended.")
            # Nothing is changed by it; whoever may not write is told before minutes are spent.
            connection.execute(text("UPDATE grade SET auto_score = auto_score WHERE false"))
            connection.execute(text("INSERT INTO student SELECT * FROM student WHERE false"))
            self._lock, self._locking = held.pop_all(), connection

    def release(self) -> None:
        """Let other runs in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = self._locking = None

    def _expect_lock(self) -> None:
        """Refuse to go on where the connection was ended that keeps other runs out: one may have begun."""
        if self._locking is None:
            return
        try:
            self._locking.execute(text("SELECT 1"))
        except SQLAlchemyError as fault:
            said = str(getattr(fault, "orig", None) or fault).splitlines()[0]
            raise CourseError(
                f"the connection has ended that kept other runs out of the gradebook {self.name} ({said}); {BACK}."
            ) from None

    def advice(self, fault: Exception, said: str) -> str:
        """What to do about what the server or its client library `said`."""
        state = getattr(getattr(fault, "orig", None), "sqlstate", None)
        if state is not None:
            return STATES.get(state, UPGRADE)
        other = UNREACHED if isinstance(fault, OperationalError) else UPGRADE
        return next((advice for sign, advice in SIGNS.items() if sign in said), other)

    def _engine(self) -> Engine:
        engine = create_engine(self.url, poolclass=NullPool)
        event.listen(engine, "connect", _stay_awake)
        return engine

    def _missing(self, connection: Connection) -> set[str]:
        """The tables that are not there, and the one of the version where it holds none."""
        known = set(inspect(connection).get_table_names())
        missing = {*Base.metadata.tables, VERSION_TABLE} - known
        if VERSION_TABLE in known and self._version(connection) is None:
            missing.add(VERSION_TABLE)
        return missing

    def _version(self, connection: Connection) -> str | None:
        version: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
        return version

    def _expect_own(self, connection: Connection, missing: set[str]) -> None:
        """Refuse another version's tables: `nbgrader db upgrade` could not complete them after us."""
        # nbgrader notes the version last: where it is known, all of that version's tables are there.
        odd = [] if VERSION_TABLE in missing else [f"no table {name}" for name in sorted(missing)]
        found = inspect(connection).get_multi_columns(filter_names=[*Base.metadata.tables])
        for (_, table), columns in found.items():
            others = {column["name"] for column in columns} ^ {*Base.metadata.tables[table].columns.keys()}
            odd += [f"{table}.{name}" for name in sorted(others)]
        if odd:
            raise CourseError(
                f"the gradebook {self.name} is of another version of nbgrader ({', '.join(odd)}); {UPGRADE}."
            )

    def _set_version(self, connection: Connection) -> None:
        """Note the version of the tables, where it is not known, as nbgrader does."""
        from alembic.script import ScriptDirectory

        connection.execute(text(f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)"))
        if self._version(connection) is None:
            head = ScriptDirectory(ALEMBIC_DIR).get_current_head()
            connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES (:head)"), {"head": head})


KINDS: dict[str, type[Database]] = {"sqlite": SQLite, "postgresql": PostgreSQL}


def _locked(function: str, key: int) -> TextClause:
    """A lock on one schema of a database; two courses may share a server, and a database."""
    return text(f"SELECT {function}({key}, hashtext(current_schema()))")


def _stay_awake(connection: DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute(AWAKE)
    cursor.close()
    connection.commit()  # a later rollback would take it back


@contextmanager
def _temporary(beside: Path | None, prefix: str) -> Iterator[Path]:
    usual = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix=prefix, dir=beside) as folder:
        tempfile.tempdir = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = usual
