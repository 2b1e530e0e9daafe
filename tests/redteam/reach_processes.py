"""Attempts on other processes and their memory, and on having children."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from tests.redteam.attempts import foreign, kernel, refuse


def trace_another_process() -> Any:
    attach, seize = 16, 0x4206
    try:
        return kernel("ptrace", attach, foreign(), 0, 0)
    except PermissionError:
        return kernel("ptrace", seize, foreign(), 0, 0)


def be_traced() -> Any:
    return kernel("ptrace", 0, 0, 0, 0)


def read_the_memory_of_another_process() -> Any:
    return kernel("process_vm_readv", foreign(), 0, 0, 0, 0, 0)


def write_the_memory_of_another_process() -> Any:
    return kernel("process_vm_writev", foreign(), 0, 0, 0, 0, 0)


def compare_with_another_process() -> Any:
    return kernel("kcmp", os.getpid(), foreign(), 1, 0, 0)


def take_a_descriptor_of_another_process() -> Any:
    return kernel("pidfd_getfd", os.pidfd_open(foreign()), 3, 0)


def see_memory_of_another_process() -> Any:
    return open(f"/proc/{foreign()}/mem", "rb")


def see_maps_of_another_process() -> Any:
    return open(f"/proc/{foreign()}/maps").read()


def see_who_is_running() -> Any:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def see_descriptors_of_another_process() -> Any:
    return os.listdir(f"/proc/{foreign()}/fd")


def make_a_file_in_memory() -> Any:
    return os.memfd_create("redteam")


def make_secret_memory() -> Any:
    return kernel("memfd_secret", 0)


def share_memory_by_key() -> Any:
    return kernel("shmget", 0, 4096, 0o1600)


def share_a_semaphore() -> Any:
    return kernel("semget", 0, 1, 0o1600)


def share_a_queue() -> Any:
    return kernel("msgget", 0, 0o1600)


def open_a_message_queue() -> Any:
    return kernel("mq_open", ctypes.c_char_p(b"redteam"), 0o102, 0o600, 0)


def fork() -> Any:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def fork_a_terminal() -> Any:
    import pty

    try:
        pid, _ = pty.fork()
    except OSError as error:
        refuse("out of pty devices" in str(error))
        raise
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def clone_without_a_thread() -> Any:
    pid = kernel("clone", 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def clone_in_the_new_way() -> Any:
    return kernel("clone3", 0, 0)


def spawn() -> Any:
    return os.posix_spawn("/bin/true", ["true"], {})


def run_a_program() -> Any:
    import subprocess

    return subprocess.run(["/bin/true"], check=True)


def run_by_a_shell() -> Any:
    status = os.system("exit 7")
    refuse(status != 7 << 8)
    return status


def start_a_python_process() -> Any:
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(abs, [-1])


def fork_a_pool() -> Any:
    import concurrent.futures
    import multiprocessing

    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        return pool.submit(abs, -1).result(5)


def become_another_program() -> Any:
    return kernel("execve", 0, 0, 0)  # nowhere is no program: past the filter the answer is another one


def become_an_open_program() -> Any:
    return kernel("execveat", 0, 0, 0, 0, 0)
