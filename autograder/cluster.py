"""A class on more than one machine: submissions go to a Dask cluster's workers as bytes, results come back as bytes.

What crosses is MessagePack of the structs of `autograder.cluster_worker`, in both directions: Dask pickles the name of
a function and its bytes, and nothing that a student wrote is ever unpickled.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import msgspec

from autograder.cluster_worker import Reply, Rules, Task, all_rules, difference, perform, this_machine
from autograder.course import Course, suite_hash
from autograder.errors import ConfinementUnavailable, CourseError, GraderFault, UnusableNotebook
from autograder.grading import AHEAD, Graded
from autograder.messages import N_, Message, message
from autograder.notebook import file_content
from autograder.report import GradeReport, Status, without_score

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
WORKER_SECONDS = 30.0
"""How long a cluster may be without any worker, as while the last one is started again."""
LOOK_SECONDS = 1.0
"""How often is looked whether there still are workers while nothing comes back."""
FETCH_SECONDS = 60.0
"""How long results may take from their worker to this machine."""
MAX_BYTES_AHEAD = 256 << 20
"""Bytes of submissions that are on their way, with those that wait at a worker."""
MAX_GATHERED = 32
"""Results that are fetched in one go; half as many after each time that they came too late."""
MAX_LATE = 8
"""How often in a row results may come too late, the last times one by one."""
DONE = ("finished", "error")
FAULTS = {kind.__name__: kind for kind in (ConfinementUnavailable, CourseError, GraderFault)}
"""What a worker may tell by its name."""


class Cluster:
    """Grades a class as `autograder.grading.Grader` does, on the workers of a Dask cluster, which begin to warm up.

    Args:
        course: the course.
        address: of the scheduler, such as ``tcp://10.0.0.1:8786``; ``tls://`` as Dask's configuration says.
        assignments: what it will grade.

    Raises:
        CourseError: Dask is not installed, or there is no scheduler.
    """

    def __init__(self, course: Course, address: str, assignments: Sequence[str]) -> None:
        self._course, self._address = course, address
        suites = {name: suite_hash(course, name) for name in assignments}
        self._rules = Rules(suites, course.confinement.grade)
        self._client = _connected(address)
        self._points: Mapping[str, Mapping[str, float]] = {}
        self._threads: dict[str, int] = {}
        self._seen: set[str] = set()
        self._warming: dict[str, Future[bytes]] = {}
        self._gathered, self._late = MAX_GATHERED, 0
        try:
            self._warm_up()
        except BaseException:
            self.close()
            raise

    def wait(self) -> None:
        """Return when each worker that is there is warm.

        Raises:
            CourseError: there is no worker, or one would grade by other rules.
            ConfinementUnavailable, GraderFault: a worker can't grade.
        """
        until = time.monotonic() + CONNECT_SECONDS
        self._warm_up()  # others may have come meanwhile
        while not self._warming and time.monotonic() < until:
            time.sleep(0.1)
            self._warm_up()
        while self._warming:  # whoever refuses is told at once
            self._wait_for([*self._warming.values()])
            there = self._workers()
            for worker, future in [*self._warming.items()]:
                if future.status in DONE and (reply := self._warm(worker, future)) is not None:
                    self._points = reply.points
                    del self._warming[worker]
                elif worker not in there:
                    del self._warming[worker]
        threads = self._workers()
        if not self._points or not threads:
            raise CourseError(
                f"the scheduler at {self._address} has no worker; start some with `dask worker {self._address}` in "
                "their copies of the course."
            )
        self._threads = threads

    @property
    def how(self) -> str:
        """How many submissions are examined at a time, and on how many machines."""
        from distributed.comm.addressing import get_address_host

        machines = len({get_address_host(worker) for worker in self._threads})
        return f"on {machines} machine{'' if machines == 1 else 's'}, {sum(self._threads.values())} at a time"

    def ended(self) -> list[str]:
        """The addresses of workers that were there and are there no longer."""
        try:
            ask = self._client.scheduler.ncores  # type: ignore[union-attr]
            there = self._client.sync(ask, callback_timeout=CONNECT_SECONDS)
        except Exception:  # noqa: BLE001 - the scheduler has ended as well, when it was needed no more
            return []
        return sorted(self._seen.difference(there))

    def grade_many(self, submissions: Iterable[tuple[Path, str]], seed: int) -> Iterator[Graded]:
        """Grade many files; the results come in the order of `submissions`.

        Args:
            submissions: files, none of which may be a link, and which assignment each of them answers.
            seed: of the suites' random draws.

        Raises:
            CourseError: the scheduler or all workers are gone, or one that has come since would grade by other rules.
        """
        if not self._threads:
            self.wait()
        waiting, begun = iter(submissions), deque[_Begun]()
        while True:
            room = AHEAD * sum(self._threads.values()) - len(begun)
            size = sum(one.size for one in begun)
            while room > 0 and (size < MAX_BYTES_AHEAD or not begun):
                if (submission := next(waiting, None)) is None:
                    break
                begun.append(self._begun(*submission, seed))
                room, size = room - 1, size + begun[-1].size
            if not begun:
                return
            yield from self._done(begun)

    def close(self) -> None:
        """Leave the cluster; what it still examines for this class comes to its end there, and is dropped."""
        self._warming.clear()
        with contextlib.suppress(OSError, TimeoutError, RuntimeError, AssertionError):
            self._client.close(timeout=CONNECT_SECONDS)

    def _warm_up(self) -> None:
        """Have each worker begin that has not yet."""
        for worker in self._workers():
            if worker not in self._warming:
                self._warming[worker] = self._submit(Task(self._rules), [worker])

    def _begun(self, path: Path, assignment: str, seed: int) -> _Begun:
        try:
            content = file_content(path, follow=False)
        except UnusableNotebook as error:
            return _Begun(path, assignment, seed, why=str(error))
        future = self._submit(Task(self._rules, assignment, seed, content))
        return _Begun(path, assignment, seed, future, len(content))

    def _submit(self, task: Task, workers: Sequence[str] | None = None) -> Future[bytes]:
        try:
            return self._client.submit(perform, msgspec.msgpack.encode(task), workers=workers, pure=False)
        except Exception as fault:  # noqa: BLE001 - of the way, whatever Dask makes of it
            self._lose(fault)

    def _done(self, begun: deque[_Begun]) -> Iterator[Graded]:
        """The results of the first, when it is done, and of those behind it that are done as well."""
        if begun[0].future is not None:
            self._finish(begun[0].future)
            if begun[0].future.status == "error":
                yield self._lost(begun.popleft())
                return
        ready = list(itertools.takewhile(lambda one: one.is_finished, itertools.islice(begun, self._gathered)))
        fetched = self._fetched([one.future for one in ready if one.future is not None])
        if fetched is None:
            return
        results = iter(fetched)
        for one in ready:
            begun.popleft()
            yield self._graded(one, None if one.future is None else next(results))

    def _fetched(self, futures: Sequence[Future[bytes]]) -> list[bytes] | None:
        """The results of finished tasks; None where some are late, or gone with their worker and made again."""

        async def gathered() -> list[bytes]:
            return list(await self._client.gather(list(futures), asynchronous=True))

        try:
            # Dask waits for what is made again as long as it takes, without any worker too.
            results: list[bytes] = self._client.sync(gathered, callback_timeout=FETCH_SECONDS)
        except TimeoutError:
            self._gathered, self._late = max(1, self._gathered // 2), self._late + 1
            if self._late == MAX_LATE:
                self._lose(TimeoutError(f"{MAX_LATE} times no result came within {FETCH_SECONDS:.0f} s"))
            return None
        except Exception as fault:  # noqa: BLE001 - of the way, whatever Dask makes of it
            if any(future.status == "error" for future in futures):
                return None
            self._lose(fault)
        if futures:
            self._late, self._gathered = 0, min(2 * self._gathered, MAX_GATHERED)
        return results

    def _graded(self, begun: _Begun, content: bytes | None) -> Graded:
        if content is None:
            return Graded(self._without_score(begun, "unusable", Message("{why}", {"why": begun.why})))
        reply = self._usable(content)
        assert reply.graded is not None
        return _placed(reply.graded, reply.place, str(begun.path))

    def _lost(self, begun: _Begun) -> Graded:
        """One that no worker has brought back, though several were asked."""
        assert begun.future is not None
        fault = begun.future.exception()
        if type(fault).__name__ != "KilledWorker":
            raise CourseError(f"the workers at {self._address} can't run the grader ({_told(fault)}).") from None
        why = "each worker that was at work on it ended"
        return Graded(self._without_score(begun, "ungraded", message(N_("the grader failed: {fault}"), fault=why)))

    def _without_score(self, begun: _Begun, status: Status, error: Message) -> GradeReport:
        return without_score(
            begun.path,
            begun.assignment,
            status,
            error,
            max_score=float(sum(self._points.get(begun.assignment, {}).values())),
            seed=begun.seed,
            suite_hash=self._rules.suites[begun.assignment],
        )

    def _warm(self, worker: str, future: Future[bytes]) -> Reply | None:
        """The answer of a worker that was asked to be warm; None where it has just ended."""
        if future.status == "error":
            fault = future.exception()
            raise CourseError(f"the worker {worker} can't run the grader ({_told(fault)}); install it there.") from None
        fetched = self._fetched([future])
        return None if fetched is None else self._usable(fetched[0])

    def _usable(self, content: bytes) -> Reply:
        """An answer, where the worker could and may grade."""
        try:
            reply = msgspec.msgpack.decode(content, type=Reply)
        except msgspec.DecodeError:
            raise CourseError(
                f"the worker {_sender(content)} has another version of autograder than this machine, whose answers "
                "can't be read here; bring it in step or stop it, and run again."
            ) from None
        if reply.other is not None:
            differs = difference(this_machine(self._all_rules()), reply.other)
            raise CourseError(
                f"the worker {reply.worker} would grade by other rules than this machine: {differs}; bring it in step "
                "or stop it, and run again: what is recorded stays."
            )
        if reply.fault is not None:
            kind, said = reply.fault
            raise FAULTS.get(kind, GraderFault)(f"the worker {reply.worker}: {said}")
        return reply

    def _all_rules(self) -> Rules:
        """Of all assignments, which tell where another one lies; as far as they can be read here."""
        with contextlib.suppress(CourseError, OSError):
            return all_rules(self._course)
        return self._rules

    def _finish(self, future: Future[bytes]) -> None:
        """Wait for a task, as long as there are workers."""
        seen = time.monotonic()
        while True:
            self._wait_for([future])
            if future.status in DONE:
                return
            if self._workers():
                seen = time.monotonic()
            elif time.monotonic() - seen > WORKER_SECONDS:
                raise CourseError(
                    f"the scheduler at {self._address} has lost its last worker; what is recorded stays, and the next "
                    "run grades the rest."
                )

    def _wait_for(self, futures: Sequence[Future[bytes]]) -> None:
        """Wait a little until one of them is done."""
        from distributed import CancelledError, wait

        with contextlib.suppress(TimeoutError, CancelledError):
            wait(futures, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
        if any(future.status == "cancelled" for future in futures):  # as all are when the scheduler is gone
            self._lose()

    def _workers(self) -> dict[str, int]:
        """How many threads each worker has, by its address."""
        try:
            threads = dict(self._client.nthreads())
        except Exception as fault:  # noqa: BLE001 - of the way, whatever Dask makes of it
            self._lose(fault)
        self._seen |= threads.keys()
        return threads

    def _lose(self, fault: BaseException | None = None) -> NoReturn:
        how = f" ({_told(fault)})" if fault is not None else ""
        raise CourseError(
            f"the connection to the scheduler at {self._address} is lost{how}; what is recorded stays, and the next "
            "run grades the rest."
        ) from None


class _Begun(NamedTuple):
    """A submission on its way: a task of `size` bytes, or `why` its file can't be read."""

    path: Path
    assignment: str
    seed: int
    future: Future[bytes] | None = None
    size: int = 0
    why: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether there is a result, here or at a worker."""
        return self.future is None or self.future.status == "finished"


class _Sender(msgspec.Struct):
    """What a `Reply` of any version holds."""

    worker: str


def _sender(content: bytes) -> str:
    try:
        return msgspec.msgpack.decode(content, type=_Sender).worker
    except msgspec.DecodeError:
        return "(without a name)"


def _placed(graded: Graded, place: str, path: str) -> Graded:
    """The same, of the file at `path`, which the worker knew as `place`."""
    report = msgspec.structs.replace(graded.report, notebook=path)
    if report.error is not None:
        args = {
            name: said.replace(place, path) if isinstance(said, str) else said
            for name, said in report.error.args.items()
        }
        report = msgspec.structs.replace(report, error=msgspec.structs.replace(report.error, args=args))
    return replace(graded, report=report)


def _connected(address: str) -> Client:
    try:
        import distributed
    except ModuleNotFoundError:
        raise CourseError(
            "--scheduler needs Dask, which is not installed here; install the extra `cluster` of this package: "
            "pip install 'attention-autograder[cluster]'."
        ) from None
    if not address:
        raise CourseError("--scheduler needs an address: tcp://host:port, as `dask scheduler` says it.")
    # What goes wrong is told in one sentence, by us.
    warnings.filterwarnings("ignore", module="distributed")
    for name in [one for one in logging.root.manager.loggerDict if one.split(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS)
    except OSError as fault:
        raise CourseError(
            f"there is no scheduler at {address} ({_told(fault)}); start one with `dask scheduler`, which says its "
            "address."
        ) from None
    except ValueError as fault:
        raise CourseError(
            f"{address} is no address of a scheduler ({_told(fault)}); name it as `dask scheduler` says it: "
            "tcp://host:port."
        ) from None
    except (TypeError, RuntimeError) as fault:  # certificates are missing, or are required
        raise CourseError(
            f"Dask's settings for TLS do not go with {address} ({_told(fault)}); docs/scale.md says what they need."
        ) from None
    except Exception as fault:  # noqa: BLE001 - whatever Dask makes of what another program answers
        raise CourseError(
            f"what answers at {address} is no scheduler that this machine's Dask understands ({_told(fault)}); name "
            "it as `dask scheduler` says it, and have the same version of Dask everywhere."
        ) from None


def _told(fault: BaseException | None) -> str:
    """The first line of a fault, without its full stop."""
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0].rstrip(".")
