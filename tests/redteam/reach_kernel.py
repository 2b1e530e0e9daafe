"""Attempts on the kernel itself: namespaces, rings, signals, limits, identity, mounts, terminals, the machine."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

from tests.redteam.attempts import TRUSTED, foreign, kernel, refuse


def leave_the_namespaces() -> Any:
    left = []
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80, 0x400, 0x200):
        try:
            left.append(kernel("unshare", flag))
        except PermissionError:
            continue
    refuse(not left)
    return left


def enter_other_namespaces() -> Any:
    return kernel("setns", 0, 0)


def thread_in_a_namespace() -> Any:
    # As a thread, which is allowed, and in a new namespace, which is not.
    thread, memory, signals, files = 0x10000, 0x100, 0x800, 0x400
    return kernel("clone", thread | memory | signals | files | 0x10000000, 0, 0, 0, 0)


def set_up_a_ring() -> Any:
    return kernel("io_uring_setup", 4, 0)


def use_the_ring_of_nobody() -> Any:
    try:
        return kernel("io_uring_enter", 3, 1, 0, 0, 0, 0)
    except OSError as error:
        refuse(error.errno == errno.ENOSYS)
        raise


def set_up_asynchronous_files() -> Any:
    return kernel("io_setup", 1, 0)


def handle_page_faults() -> Any:
    return kernel("userfaultfd", 0)


def load_a_program_into_the_kernel() -> Any:
    return kernel("bpf", 0, 0, 0)


def count_events() -> Any:
    return kernel("perf_event_open", 0, 0, -1, -1, 0)


def read_a_key() -> Any:
    return kernel("keyctl", 0, -3, 0, 0, 0)


def add_a_key() -> Any:
    return kernel("add_key", 0, 0, 0, 0, 0)


def load_a_module() -> Any:
    return kernel("init_module", 0, 0, ctypes.c_char_p(b""))


def load_another_filter() -> Any:
    return kernel("seccomp", 1, 0, 0)


def signal_another_process() -> Any:
    return os.kill(foreign(), 0)


def signal_everybody() -> Any:
    return os.kill(-1, 0)


def signal_a_group() -> Any:
    return os.kill(0, 0)


def signal_who_asked() -> Any:
    return os.kill(TRUSTED, 0)


def signal_in_other_ways() -> Any:
    done = []
    for call in (
        ("tkill", foreign(), 0),
        ("tgkill", foreign(), foreign(), 0),
        ("rt_sigqueueinfo", foreign(), 0, 0),
        ("rt_tgsigqueueinfo", foreign(), foreign(), 0, 0),
        ("pidfd_send_signal", 0, 0, 0, 0),
    ):
        try:
            done.append(kernel(*call))
        except PermissionError:
            continue
    refuse(not done)
    return done


def limit_another_process() -> Any:
    import resource

    return resource.prlimit(foreign(), resource.RLIMIT_NOFILE)


def raise_own_limits() -> Any:
    import resource

    raised = []
    for name in ("AS", "CPU", "FSIZE", "NOFILE", "NPROC", "CORE", "MEMLOCK"):
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        try:
            resource.setrlimit(number, (hard, hard + 1 if hard >= 0 else hard))
            raised.append((name, hard))
        except (ValueError, OSError):
            continue
    refuse(not raised)
    return raised


def be_without_a_memory_limit() -> Any:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    refuse(0 < hard < 1 << 33)
    return hard


def become_root() -> Any:
    return os.setresuid(0, 0, 0)


def be_root_already() -> Any:
    refuse(0 not in (*os.getresuid(), *os.getresgid(), *os.getgroups()))
    return os.getresuid()


def change_identity_in_other_ways() -> Any:
    done = []
    for call in (
        *((name, 0) for name in ("setuid", "setgid", "setfsuid", "setfsgid")),
        ("setreuid", 0, 0),
        ("setregid", 0, 0),
        ("setgroups", 0, 0),
        ("capset", 0, 0),
    ):
        try:
            done.append(kernel(*call))
        except PermissionError:
            continue
    refuse(not done)
    return done


def hold_capabilities() -> Any:
    # PR_CAPBSET_READ and, for the ambient set, PR_CAP_AMBIENT_IS_SET
    libc = ctypes.CDLL(None)
    held = [number for number in range(41) if libc.prctl(23, number, 0, 0, 0) == 1]
    refuse(not held)
    return held


def take_off_no_new_privileges() -> Any:
    libc = ctypes.CDLL(None)
    libc.prctl(38, 0, 0, 0, 0)
    refuse(libc.prctl(39, 0, 0, 0, 0) == 1)
    return "off"


def change_the_root() -> Any:
    return os.chroot(".")


def mount_something() -> Any:
    return kernel("mount", 0, ctypes.c_char_p(b"."), ctypes.c_char_p(b"tmpfs"), 0, 0)


def unmount_something() -> Any:
    return kernel("umount2", ctypes.c_char_p(b"/tmp"), 2)


def mount_in_the_new_way() -> Any:
    done = []
    for call in (
        ("fsopen", ctypes.c_char_p(b"proc"), 0),
        ("open_tree", -100, ctypes.c_char_p(b"/"), 1),
        ("move_mount", -1, 0, -1, 0, 0),
        ("mount_setattr", -100, ctypes.c_char_p(b"/"), 0, 0, 0),
        ("pivot_root", ctypes.c_char_p(b"."), ctypes.c_char_p(b".")),
    ):
        try:
            done.append(kernel(*call))
        except PermissionError:
            continue
    refuse(not done)
    return done


def push_into_a_terminal() -> Any:
    import fcntl

    return fcntl.ioctl(0, 0x5412, b"x")


def paste_into_a_console() -> Any:
    import fcntl

    return fcntl.ioctl(0, 0x541C | 1 << 40, b"\3")


def outlive_the_grader() -> Any:
    return kernel("prctl", 1, 0, 0, 0, 0)


def be_open_to_tracers() -> Any:
    return kernel("prctl", 4, 1, 0, 0, 0)


def hide_an_option_in_the_upper_half() -> Any:
    return kernel("prctl", 1 | 1 << 32, 0, 0, 0, 0)


def switch_the_personality() -> Any:
    return kernel("personality", 0x0040000)


def go_before_others() -> Any:
    refuse(os.nice(0) >= 0)
    return os.nice(-5)


def slow_another_process() -> Any:
    return os.setpriority(os.PRIO_PROCESS, foreign(), 19)


def be_scheduled_first() -> Any:
    return os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def pin_another_process() -> Any:
    return os.sched_setaffinity(foreign(), os.sched_getaffinity(0))


def read_before_others() -> Any:
    return kernel("ioprio_set", 1, 0, 0)


def watch_folders() -> Any:
    return kernel("inotify_init1", 0)


def watch_everything() -> Any:
    return kernel("fanotify_init", 0, 0)


def open_by_handle() -> Any:
    return kernel("open_by_handle_at", -100, 0, 0)


def change_the_clock() -> Any:
    return kernel("clock_settime", 0, 0)


def read_the_kernels_log() -> Any:
    return kernel("syslog", 3, 0, 0)


def turn_the_machine_off() -> Any:
    return kernel("reboot", 0, 0, 0, 0)  # without the magic numbers, for which the kernel would do it


def rename_the_machine() -> Any:
    return kernel("sethostname", 0, -1)


def call_what_is_not_known_yet() -> Any:
    done: list[Any] = []
    for number in range(450, 600):
        try:
            done.append((number, kernel(number, 0, 0, 0, 0, 0, 0)))
        except OSError as error:
            if error.errno != errno.ENOSYS:
                done.append((number, error.errno))
    refuse(not done)
    return done


def move_pages_of_another_process() -> Any:
    return kernel("move_pages", foreign(), 0, 0, 0, 0, 0)


def have_a_signal_sent_to_another_process() -> Any:
    # Past every filter on kill(2): the owner of a descriptor is told by a signal of our choice. Were it sent, the
    # parent, from which all workers come, would be gone, and with it this submission's grade.
    import contextlib
    import fcntl
    import signal
    import socket

    set_signal = 10
    for owner in {foreign(), TRUSTED, os.getppid()} - {0, os.getpid()}:
        one, other = socket.socketpair()
        with contextlib.suppress(PermissionError, ProcessLookupError):
            fcntl.fcntl(one, set_signal, signal.SIGKILL)
            fcntl.fcntl(one, fcntl.F_SETOWN, owner)
            fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | os.O_ASYNC)
            other.send(b"x")
    return refuse(True)
