"""The life of workers, seen from the trusted side."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.errors import ConfinementUnavailable, GraderFault
from autograder.examiner import scratch, zygotes
from autograder.examiner.zygotes import ConfinementFailed, Worker, Zygote, ZygoteDied, describe_exit
from autograder.worker import landlock
from autograder.worker.limits import Limits
from tests.examiner.conftest import STANDIN, run
from tests.worker import packages

Start = Callable[..., Zygote]
preloaded: dict[str, Any] = {}  # in the worker, what the stand-in has preloaded


def loop_deaf_to_all_signals(about: Any) -> None:
    import signal

    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        pass


def leave(status: int) -> None:
    import os

    os._exit(status)


def crash(about: Any) -> None:
    import ctypes

    ctypes.string_at(0)


def abort(about: Any) -> None:
    import os

    os.abort()


def answer(about: Any) -> str:
    return "here"


def import_late(about: Any) -> Any:
    import found_late  # type: ignore[import-not-found]

    return found_late.PLACE


def show_preloaded(about: Any) -> Any:
    return preloaded


def leave_a_trace(about: Any) -> str:
    import sys

    before = getattr(sys, "trace_left", "clean")
    sys.trace_left = "dirty"  # type: ignore[attr-defined]
    return before


def litter(about: Any) -> str:
    import os

    os.mkdir("closed", 0)
    for _ in range(2000):  # deeper than Python calls itself
        os.mkdir("deeper")
        os.chdir("deeper")
    return "done"


def send(worker: Worker, function: Callable[[Any], Any], about: Any = None) -> None:
    """Have `function` run in the worker without waiting for an answer."""
    import inspect
    import json

    source = "from typing import Any\n" + inspect.getsource(function)
    request = {"source": source, "name": function.__name__, "about": about}
    worker.sock.sendall(json.dumps(request).encode() + b"\n")


def ends_within(pidfd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def test_a_worker_tells_what_confines_it_before_it_runs_anything(zygote: Zygote) -> None:
    with zygote.spawn() as worker:
        assert worker.tier == zygote.tier
        expected = {"A": "namespaces+landlock+seccomp", "B": "landlock+seccomp"}
        assert worker.confinement == expected[worker.tier]
        assert worker.landlock_abi == landlock.abi()
        assert run(worker, answer) == "here"


def test_a_worker_deaf_to_all_signals_is_killed(zygote: Zygote) -> None:
    with zygote.spawn() as worker:
        send(worker, loop_deaf_to_all_signals)
        assert worker.wait(0.2) is None
        worker.kill()
        assert worker.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("deed", "about", "ending"),
    [(leave, 3, "exit status 3"), (crash, None, "SIGSEGV"), (abort, None, "SIGABRT")],
)
def test_how_a_worker_ended_is_known(zygote: Zygote, deed: Any, about: Any, ending: str) -> None:
    with zygote.spawn() as worker:
        send(worker, deed, about)
        code = worker.wait(5)
        assert code is not None
        # The first process of a pid namespace cannot end by a signal that it sends itself: it crashes
        # instead.
        assert describe_exit(code) in ({ending, "SIGSEGV"} if deed is abort else {ending})


def test_a_worker_that_burns_its_processor_time_is_ended(zygote: Zygote) -> None:
    with zygote.spawn(Limits(cpu_seconds=1)) as worker:
        send(worker, loop_deaf_to_all_signals)
        code = worker.wait(20)
        assert code is not None
        assert describe_exit(code) == "SIGKILL"


def test_a_worker_ends_when_its_channel_closes(zygote: Zygote) -> None:
    with zygote.spawn() as worker:
        worker.sock.close()
        assert worker.wait(5) == 0


def test_one_worker_leaves_nothing_to_the_next(zygote: Zygote) -> None:
    for _ in range(2):
        with zygote.spawn() as worker:
            assert run(worker, leave_a_trace) == "clean"


def test_the_death_of_the_zygote_ends_its_workers(zygote: Zygote) -> None:
    with zygote.spawn() as worker:
        send(worker, loop_deaf_to_all_signals)
        time.sleep(0.1)
        assert zygote.pid is not None
        os.kill(zygote.pid, signal.SIGKILL)
        assert worker.wait(5) == -signal.SIGKILL
    with pytest.raises(GraderFault, match="zygote"):
        zygote.spawn()


def test_a_zygote_that_hangs_is_waited_for_until_the_deadline(zygote: Zygote) -> None:
    assert zygote.pid is not None
    os.kill(zygote.pid, signal.SIGSTOP)
    started = time.monotonic()
    try:
        with pytest.raises(ZygoteDied, match="has not answered"):
            zygote.spawn(deadline=started + 0.5)
        assert time.monotonic() - started < 5
    finally:
        os.kill(zygote.pid, signal.SIGCONT)


class Interrupted(BaseException):
    pass


def test_a_close_that_was_broken_off_is_done_again(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = zygote.spawn()
    with monkeypatch.context() as patched:
        patched.setattr(worker, "kill", interrupted)
        with pytest.raises(Interrupted):
            worker.close()
    worker.close()
    until = time.monotonic() + 5
    while os.path.exists(f"/proc/{worker.pid}"):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert worker._folder is None or not worker._folder.exists()
    worker.close()


def interrupted() -> None:
    raise Interrupted


def test_a_closed_client_leaves_no_worker(start: Start) -> None:
    zygote = start()
    worker = zygote.spawn()
    send(worker, loop_deaf_to_all_signals)
    pidfd = os.pidfd_open(worker.pid)
    zygote.close()
    assert ends_within(pidfd, 5)
    os.close(pidfd)


def test_the_end_of_a_lane_ends_its_workers_and_no_others(zygote: Zygote) -> None:
    lane = zygote.attach()
    mine = zygote.spawn()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lane.adopt()
            worker = lane.spawn()
            send(worker, loop_deaf_to_all_signals)
            os.write(writer, str(worker.pid).encode())
            signal.pause()  # until killed: it tidies nothing up
        finally:
            os._exit(1)
    lane.abandon()
    pidfd = os.pidfd_open(int(os.read(reader, 20)))
    assert not ends_within(pidfd, 0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert ends_within(pidfd, 5)
    assert run(mine, answer) == "here"
    mine.close()
    for descriptor in (reader, writer, pidfd):
        os.close(descriptor)


def test_a_killed_client_leaves_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.Watch, "_is_too_full", lambda watch: False)  # so deep a folder is
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            zygote = start()
            tidy, hostile = zygote.spawn(), zygote.spawn()
            assert run(hostile, litter) == "done"
            send(hostile, loop_deaf_to_all_signals)
            os.write(writer, f"{zygote.pid} {tidy.pid} {hostile.pid} {zygote._scratch}".encode())
            signal.pause()  # until killed: it tidies nothing up
        finally:
            os._exit(1)
    *pids, folder = os.read(reader, 200).decode().split()
    left = [os.pidfd_open(int(pid)) for pid in pids]
    assert Path(folder).is_dir()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert all(ends_within(pidfd, 10) for pidfd in left)
    assert not Path(folder).exists()
    for descriptor in (reader, writer, *left):
        os.close(descriptor)


def test_a_client_works_in_the_process_that_it_belongs_to_alone(zygote: Zygote) -> None:
    child = os.fork()
    if child == 0:
        try:
            zygote.spawn()
        except RuntimeError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_kernel_would_end_a_worker_before_the_trusted_side(zygote: Zygote) -> None:
    with zygote.spawn() as worker:
        assert Path(f"/proc/{worker.pid}/oom_score_adj").read_text().strip() == "1000"
    assert Path("/proc/self/oom_score_adj").read_text().strip() != "1000"


def test_a_zygote_survives_that_it_cannot_fork(start: Start) -> None:
    with packages.package() as package:
        broken = """

_counts = iter(range(100))
_spawn = spawn


def spawn(*arguments):
    if next(_counts) == 1:
        raise OSError("no more processes")
    return _spawn(*arguments)
"""
        with (package / "autograder" / "worker" / "spawn.py").open("a") as file:
            file.write(broken)
        zygote = start(package)  # tries one worker
        with pytest.raises(ConfinementFailed, match="fork: no more processes"):
            zygote.spawn()
        with zygote.spawn() as worker:
            assert run(worker, answer) == "here"


STEPS = [
    ("limits", "apply", "limits"),
    ("privileges", "drop_everything", "capabilities"),
    ("landlock", "restrict", "Landlock"),
    ("seccomp", "check", "seccomp"),
    ("confine", "become_ordinary_process", "session"),
    ("confine", "die_with_zygote", "death signal"),
    ("confine", "_become_nobody", "user"),
    ("confine", "_clean_environment", "environment"),
]
STEPS_OF_A = [
    ("namespaces", "unshare", "namespaces"),
    ("namespaces", "enter_private_root", "private root"),
]


@pytest.mark.parametrize(("module", "function", "step"), STEPS + STEPS_OF_A)
def test_if_a_step_fails_no_student_code_runs(start: Start, tier: str, module: str, function: str, step: str) -> None:
    if tier == "B" and (module, function, step) in STEPS_OF_A:
        pytest.skip("tier B has no such step")
    with packages.package() as package:
        worker = package / "autograder" / "worker"
        with (worker / f"{module}.py").open("a") as file:
            file.write(f"\n\ndef {function}(*a, **k):\n    raise OSError('broken on purpose')\n")
        served = package / "served"
        with (worker / "standin.py").open("a") as file:
            file.write(f"\n\ndef serve(*a):\n    open({str(served)!r}, 'w')\n")
        with pytest.raises(ConfinementUnavailable, match=f"{step}: broken on purpose"):
            start(package)
        assert not served.exists()


def test_without_libseccomp_nothing_runs_and_the_package_is_named(start: Start) -> None:
    with packages.package() as package:
        seccomp = package / "autograder" / "worker" / "seccomp.py"
        seccomp.write_text(seccomp.read_text().replace("libseccomp.so.2", "libnowhere.so.2"))
        with pytest.raises(ConfinementUnavailable, match="install the package libseccomp2"):
            start(package)


def test_a_course_within_the_packages_is_refused(start: Start) -> None:
    hidden = Path(os.__file__).parent / "json"
    with pytest.raises(ConfinementUnavailable, match="move the course"):
        start(hidden=[hidden])


def test_a_failing_preload_is_the_graders_fault(start: Start) -> None:
    with packages.package() as package:
        with (package / "autograder" / "worker" / "standin.py").open("a") as file:
            file.write("\n\ndef preload():\n    raise ValueError('no torch here')\n")
        with pytest.raises(GraderFault, match="no torch here"):
            start(package)


def test_a_preload_that_leaves_a_thread_is_refused(start: Start) -> None:
    thread = "import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    with packages.package() as package:
        with (package / "autograder" / "worker" / "standin.py").open("a") as file:
            file.write(f"\n\ndef preload():\n    {thread}\n")
        with pytest.raises(GraderFault, match="2 threads"):
            start(package)


def test_a_zygote_that_ends_at_once_says_why(start: Start) -> None:
    with pytest.raises(GraderFault, match="ModuleNotFoundError"):
        start(module="autograder.worker.nowhere")


def test_the_zygote_is_given_nothing_secret(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADER_SECRET", "hush")
    with socket.socket() as ours:  # an open descriptor of the caller's
        os.set_inheritable(ours.fileno(), True)
        with start().spawn() as worker:
            given = run(worker, show_preloaded)
    assert "GRADER_SECRET" not in given["environment"]
    assert len(given["descriptors"]) <= 8  # 0, 1, 2, the control socket, its own pipe and namespace, the listing
    assert "autograder-zygote-" in given["folder"]


def test_many_workers_leave_nothing_behind(start: Start) -> None:
    zygote = start()
    zygote.spawn().close()
    before = _traces(zygote)
    for _ in range(50):
        with zygote.spawn() as worker:
            assert run(worker, answer) == "here"
    deadline = time.monotonic() + 5
    while _traces(zygote) != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _traces(zygote) == before


def _traces(zygote: Zygote) -> dict[str, Any]:
    assert zygote.pid is not None
    assert zygote._scratch is not None
    family = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    children = [pid for pid in family if _descends_from(pid, zygote.pid)]
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "processes": len(children),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "folders": sorted(path.name for path in zygote._scratch.iterdir()),
        "zygote": [_open_files(pid) for pid in children],
    }


def _descends_from(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def _open_files(pid: int) -> int | None:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:  # an ordinary user cannot look into a process that is closed to it
        return None


def test_packages_are_found_even_where_the_scratch_is(tier: Any, python: str, worker_package: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        folder.chmod(0o755)
        venv = folder / "venv"
        subprocess.run([python, "-m", "venv", "--without-pip", str(venv)], check=True)
        packages_of_venv = next((venv / "lib").glob("python*/site-packages"))
        (packages_of_venv / "found_late.py").write_text("PLACE = 'here'\n")
        source = Zygote.start((tier,), module=STANDIN, python=str(venv / "bin" / "python"), package=worker_package)
        with source, source.spawn() as worker:
            assert run(worker, import_late) == "here"
    finally:
        shutil.rmtree(folder)


def test_tier_c_serves_without_a_zygote(worker_package: Path) -> None:
    with Zygote.start(("C",), module=STANDIN, package=worker_package) as source, source.spawn() as worker:
        assert (source.tier, worker.tier, worker.confinement) == ("C", "C", "none")
        assert run(worker, answer) == "here"
        folder = Path(run(worker, show_preloaded)["folder"])
        assert folder.is_dir()
        send(worker, loop_deaf_to_all_signals)
        assert worker.wait(0.2) is None
        worker.kill()
        assert worker.wait(5) == -signal.SIGKILL
    assert not folder.exists()


def test_tier_c_is_told_nothing_secret(worker_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADER_SECRET", "hush")
    with Zygote.start(("C",), module=STANDIN, package=worker_package) as source, source.spawn() as worker:
        assert "GRADER_SECRET" not in run(worker, show_preloaded)["environment"]


def test_tier_c_needs_nothing_that_only_unix_has(worker_package: Path) -> None:
    program = f"""
import sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
from pathlib import Path
import autograder.doctor
from autograder.examiner.zygotes import Zygote
with Zygote.start(("C",), module={STANDIN!r}, package=Path({str(worker_package)!r})) as source:
    with source.spawn() as worker:
        print(worker.confinement)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "none\n"


def test_a_lesser_tier_is_never_taken_unasked(monkeypatch: pytest.MonkeyPatch, worker_package: Path) -> None:
    with packages.package() as package:
        with (package / "autograder" / "worker" / "landlock.py").open("a") as file:
            file.write("\n\ndef restrict(*a, **k):\n    raise OSError('broken on purpose')\n")
        with pytest.raises(ConfinementUnavailable, match=r"tier A: .*tier B: "):
            Zygote.start(("A", "B"), module=STANDIN, package=package)
        with Zygote.start(("A", "B", "C"), module=STANDIN, package=package) as source:
            assert source.tier == "C"
            assert {*source.refused} == {"A", "B"}


def test_other_systems_have_tier_c_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ConfinementUnavailable, match="Linux"):
        Zygote.start(("A", "B"))


def test_a_probe_gives_a_reason_for_each_tier_that_is_missing() -> None:
    found = zygotes.probe()
    assert {*found} == {"A", "B"}
    for reason in found.values():
        assert reason is None or ": " in reason


def test_a_failure_is_reported_as_unavailable_confinement() -> None:
    assert issubclass(ConfinementFailed, ConfinementUnavailable)
