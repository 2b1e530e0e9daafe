"""Attacks out of a confined worker, in each tier, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker import packages

EPERM, EACCES, ENOENT, ENOSYS, EROFS, ENOSPC, EFBIG, EXDEV, EOPNOTSUPP = 1, 13, 2, 38, 30, 28, 27, 18, 95
SIGSYS, SIGSEGV = 31, 11

Outcomes = dict[str, Any]


@pytest.fixture(scope="session")
def whole_package() -> Iterator[Path]:
    with packages.package(client=True) as folder:
        yield folder


@pytest.fixture(scope="session")
def least_package() -> Iterator[Path]:
    """Sees what the least of machines offers: Landlock of Linux 5.13, and no namespaces for users."""
    with packages.package(client=True) as folder:
        worker = folder / "autograder" / "worker"
        with (worker / "landlock.py").open("a") as file:
            file.write("\n\ndef abi():\n    return 1\n")
        with (worker / "zygote.py").open("a") as file:
            file.write("\n\ndef _seek_rights(control):\n    return 'denied on purpose'\n")
        yield folder


WAYS = ["A as root", "B as root", "A as a user", "B as a user", "B as a user where least is offered"]


@pytest.fixture(scope="session", params=WAYS)
def outcomes(request: pytest.FixtureRequest, whole_package: Path, least_package: Path) -> Outcomes:
    """What came of every attack."""
    tier, _, user = request.param.split(maxsplit=2)
    package = least_package if user.endswith("least is offered") else whole_package
    return attack(package, tier, as_root=user == "root")


def attack(package: Path, tier: str, *, as_root: bool) -> Outcomes:
    if as_root and os.geteuid() != 0:
        pytest.skip("these tests do not run as root")
    uid = 0 if as_root else (os.geteuid() or packages.NOBODY)
    # Root's workers of tier B are ordinary users, who must reach the interpreter.
    python = packages.interpreter(packages.NOBODY if as_root and tier == "B" else uid)
    if python is None:
        pytest.skip(f"no Python 3.11 that user {uid} can run")
    command = [python, "-B", str(package / "driver.py"), str(package), tier]
    run = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, cwd="/", **packages.as_user(uid)
    )
    assert run.returncode == 0, run.stderr
    found: Outcomes = json.loads(run.stdout)
    if "unavailable" in found:
        pytest.skip(found["unavailable"])
    return found


def assert_refused(outcome: dict[str, Any], *numbers: int) -> None:
    assert outcome.get("errno") in numbers, outcome


READING = [
    "read_the_course",
    "list_the_course",
    "read_another_submission",
    "read_the_accounts",
    "read_through_proc",
    "read_its_process_environment",
    "read_environment_of_the_client",
    "read_memory_of_the_client",
    "read_the_running_interpreter",
]


@pytest.mark.parametrize("name", READING)
def test_a_submission_cannot_read_what_is_not_its_own(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EACCES, ENOENT)


def test_with_a_private_root_the_course_is_not_there_at_all(outcomes: Outcomes) -> None:
    if not outcomes["confinement"].startswith("namespaces"):
        pytest.skip("tier B has no private root")
    for name in READING:
        assert_refused(outcomes[name], ENOENT)


@pytest.mark.parametrize("name", ["watch_the_course", "watch_a_folder_of_libraries"])
def test_a_submission_cannot_watch_folders(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EPERM, ENOSYS)


WRITING = [
    "write_beside_the_course",
    "write_to_the_common_folder",
    "write_to_the_packages",
    "truncate_the_course",
    "remove_the_course",
    "make_a_pipe_file",
]


@pytest.mark.parametrize("name", WRITING)
def test_a_submission_cannot_write_outside_of_its_folder(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EACCES, ENOENT, EROFS, EPERM)


LIBRARIES = ["empty_a_library_by_reading", "empty_a_library_by_doing_neither", "hold_a_library_for_itself"]


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_submission_cannot_harm_what_it_may_read(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EPERM, ENOSYS)


@pytest.mark.parametrize("name", ["lock_a_file_for_good"])
def test_what_a_submission_writes_can_be_removed(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EPERM, ENOSYS)


def test_nothing_has_changed_after_all_attacks(outcomes: Outcomes) -> None:
    assert outcomes["course"] == {
        "secret": "the hidden suite",
        "mode": "0o644",
        "aged": False,
        "files": ["secret"],
    }


def test_a_submission_can_work_in_its_folder(outcomes: Outcomes) -> None:
    if outcomes["landlock"] == 1:  # which lets nobody move a file from folder to folder
        assert_refused(outcomes["work_in_its_folder"], EXDEV)
    else:
        assert outcomes["work_in_its_folder"] == {"value": "kept"}
    assert outcomes["copy_with_mode_and_time"] == {"value": "kept"}
    assert outcomes["empty_its_own_file"] == {"value": 0}
    assert outcomes["reserve_a_little"] == {"value": 8192}


def test_what_a_submission_writes_is_bounded(outcomes: Outcomes) -> None:
    filled = outcomes["fill_its_folder"]
    if outcomes["confinement"].startswith("namespaces"):
        assert_refused(filled, ENOSPC)
        assert outcomes["fill_all_its_folders"] == {"value": 8 << 20}
    else:
        assert filled == {"died": -9, "overflowed": True}


def test_one_file_is_bounded(outcomes: Outcomes) -> None:
    assert_refused(outcomes["write_a_large_file"], EFBIG)


def test_the_disk_cannot_be_taken_at_once(outcomes: Outcomes) -> None:
    assert_refused(outcomes["take_the_disk_at_once"], EOPNOTSUPP)


NETWORK = [
    "connect_tcp",
    "send_udp",
    "connect_unix",
    "connect_abstract",
    "pair_of_internet_sockets",
    "send_a_datagram_to_a_file",
    "send_a_datagram_to_a_name",
    "address_its_own_socket",
    "list_the_network",
]


@pytest.mark.parametrize("name", NETWORK)
def test_a_submission_has_no_network(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EPERM, ENOSYS)


CHANNEL = ["pass_a_descriptor", "ask_who_is_at_the_other_end", "take_hold_of_the_other_end", "filter_a_socket"]


@pytest.mark.parametrize("name", CHANNEL)
def test_a_channel_carries_bytes_and_nothing_else(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EPERM, ENOSYS)


def test_an_event_loop_still_runs(outcomes: Outcomes) -> None:
    assert outcomes["run_an_event_loop"] == {"value": "done"}


@pytest.mark.parametrize("name", ["fork", "execute", "run_a_program"])
def test_a_submission_starts_no_process(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EPERM)


def test_a_submission_may_use_a_thread_but_not_very_many(outcomes: Outcomes) -> None:
    assert outcomes["use_a_thread"] == {"value": "ran"}
    assert 8 <= outcomes["start_many_threads"]["value"] < 1500


def test_a_submission_cannot_take_all_memory(outcomes: Outcomes) -> None:
    assert outcomes["take_all_memory"]["error"] == "MemoryError"


OTHERS = [
    "signal_the_client",
    "signal_the_zygote",
    "signal_a_sibling",
    "signal_everybody",
    "signal_its_group",
    "trace_the_client",
    "trace_a_sibling",
    "read_a_siblings_memory",
    "take_a_siblings_descriptor",
    "limit_the_client",
    "slow_the_client",
    "pin_the_client",
    "signal_through_the_owner_of_a_pipe",
    "own_a_socket_for_somebody",
    "remove_a_queue_of_system_v",
    "read_a_queue_of_system_v",
    "remove_semaphores_of_system_v",
    "remove_a_message_queue",
]


@pytest.mark.parametrize("name", OTHERS)
def test_a_submission_cannot_touch_other_processes(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EPERM, ENOSYS)


def test_a_submission_may_signal_itself(outcomes: Outcomes) -> None:
    assert outcomes["signal_itself"] == {"value": "heard"}


KERNEL = [
    "outlive_the_zygote",
    "become_dumpable",
    "hide_an_option_in_the_upper_half",
    "become_root",
    "make_a_user_namespace",
    "clone_into_a_namespace",
    "make_a_file_in_memory",
    "make_a_nameless_file",
    "make_shared_memory",
    "make_a_message_queue",
    "mount",
    "use_the_keyring",
    "load_another_filter",
    "push_into_a_terminal",
    "splice_pipes",
    "confine_itself_further",
    "dispatch_its_own_calls",
]


@pytest.mark.parametrize("name", KERNEL)
def test_a_submission_cannot_escape_through_the_kernel(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], EPERM, ENOSYS)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other architectures have one set of numbers")
@pytest.mark.parametrize("name", ["kill_by_the_old_gate", "kill_by_the_numbers_of_x32"])
def test_calls_by_other_numbers_end_the_worker(outcomes: Outcomes, name: str) -> None:
    assert outcomes[name]["died"] in (-SIGSYS, -SIGSEGV)  # the latter where the kernel has no such gate


UNKNOWN = ["set_up_a_ring", "clone3", "make_a_call_of_tomorrow", "make_a_call_between_the_known_ones"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_calls_that_no_filter_can_look_into_do_not_exist(outcomes: Outcomes, name: str) -> None:
    assert_refused(outcomes[name], ENOSYS)


def test_a_submission_cannot_loosen_its_limits(outcomes: Outcomes) -> None:
    assert outcomes["raise_its_limits"]["error"] == "ValueError"
    assert outcomes["dump_core"] == {"value": [0, 0]}


def test_there_is_nothing_secret_in_its_environment(outcomes: Outcomes) -> None:
    environment = outcomes["see_its_environment"]["value"]
    assert "GRADER_SECRET" not in environment
    assert environment["USER"] == "worker"
    assert environment["CUDA_VISIBLE_DEVICES"] == ""


def test_only_its_channel_is_open(outcomes: Outcomes) -> None:
    assert outcomes["see_open_descriptors"] == {"value": [0, 1, 2, 3]}
    assert outcomes["see_where_the_standard_streams_lead"] == {"value": [True, True, True]}


def test_it_is_nobody_in_no_group_and_alone_in_its_session(outcomes: Outcomes) -> None:
    identity = outcomes["see_its_identity"]["value"]
    assert 0 not in identity["uids"] + identity["gids"]
    assert 0 not in identity["groups"]
    assert identity["session"]
    assert identity["umask"] == 0o077


def test_it_knows_no_module_path_beyond_the_packages(outcomes: Outcomes) -> None:
    assert all("/lib/" in path for path in outcomes["see_its_module_path"]["value"])


def test_signals_are_as_in_any_other_python(outcomes: Outcomes) -> None:
    assert outcomes["see_blocked_signals"] == {"value": []}
    assert outcomes["see_ignored_signals"] == {"value": ["SIGPIPE", "SIGXFSZ"]}


def test_every_attack_is_looked_at(outcomes: Outcomes, request: pytest.FixtureRequest) -> None:
    text = Path(__file__).read_text()
    assert [name for name in outcomes if f'"{name}"' not in text and name != "change_mode_of_the_course"] == []
