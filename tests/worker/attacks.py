"""What a hostile submission might try. Each function runs in a worker, alone: its source is sent there.

`about` tells it what there is to attack, more than a submission could know. Returning means that it came
through.
"""

from __future__ import annotations

from typing import Any

About = dict[str, Any]


def read_the_course(about: About) -> str:
    with open(about["secret"]) as file:
        return file.read()


def list_the_course(about: About) -> list[str]:
    import os

    return os.listdir(about["course"])


def read_another_submission(about: About) -> str:
    with open(about["submission"]) as file:
        return file.read()


def read_the_accounts(about: About) -> str:
    with open("/etc/passwd") as file:
        return file.read()


def read_through_proc(about: About) -> str:
    with open("/proc/self/root" + about["secret"]) as file:
        return file.read()


def read_its_process_environment(about: About) -> str:
    with open("/proc/self/environ") as file:
        return file.read()


def read_environment_of_the_client(about: About) -> str:
    with open(f"/proc/{about['client']}/environ") as file:
        return file.read()


def read_memory_of_the_client(about: About) -> bytes:
    with open(f"/proc/{about['client']}/mem", "rb") as file:
        return file.read(1)


def read_the_running_interpreter(about: About) -> bytes:
    with open("/proc/self/exe", "rb") as file:
        return file.read(4)


def see_its_environment(about: About) -> dict[str, str]:
    import os

    return dict(os.environ)


def see_its_module_path(about: About) -> list[str]:
    import sys

    return sys.path


def see_its_identity(about: About) -> dict[str, Any]:
    import os

    return {
        "uids": os.getresuid(),
        "gids": os.getresgid(),
        "groups": os.getgroups(),
        "session": os.getsid(0) == os.getpid(),
        "umask": os.umask(0o077),
    }


def see_open_descriptors(about: About) -> list[int]:
    import os

    def is_open(number: int) -> bool:
        try:
            os.fstat(number)
        except OSError:
            return False
        return True

    return [number for number in range(4096) if is_open(number)]


def see_where_the_standard_streams_lead(about: About) -> list[bool]:
    import os

    return [os.fstat(number).st_rdev == os.makedev(1, 3) for number in (0, 1, 2)]


def see_blocked_signals(about: About) -> list[int]:
    import signal

    return [*signal.pthread_sigmask(signal.SIG_BLOCK, [])]


def see_ignored_signals(about: About) -> list[str]:
    import signal

    return [signal.Signals(n).name for n in range(1, 32) if signal.getsignal(n) is signal.SIG_IGN]


def write_beside_the_course(about: About) -> None:
    with open(about["course"] + "/planted", "w") as file:
        file.write("x")


def write_to_the_common_folder(about: About) -> None:
    with open(about["common"] + "/planted", "w") as file:
        file.write("x")


def write_to_the_packages(about: About) -> None:
    import sysconfig

    with open(sysconfig.get_path("purelib") + "/planted.py", "w") as file:
        file.write("x")


def truncate_the_course(about: About) -> None:
    import os

    os.truncate(about["secret"], 0)


def change_mode_of_the_course(about: About) -> None:
    import os

    os.chmod(about["secret"], 0o777)
    os.utime(about["secret"], (0, 0))


def remove_the_course(about: About) -> None:
    import os

    os.unlink(about["secret"])


def watch_the_course(about: About) -> None:
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init()
    if descriptor < 0 or libc.inotify_add_watch(descriptor, about["course"].encode(), 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def work_in_its_folder(about: About) -> str:
    import os
    import tempfile

    os.makedirs("a/b")
    with open("a/b/file", "w") as file:
        file.write("kept")
    os.rename("a/b/file", "a/file")
    with tempfile.TemporaryDirectory() as folder, open(folder + "/t", "w") as file:
        file.write("x")
    with open("a/file") as file:
        return file.read()


def copy_with_mode_and_time(about: About) -> str:
    import shutil

    with open("one", "w") as file:
        file.write("kept")
    shutil.copy2("one", "two")
    with open("two") as file:
        return file.read()


def make_a_pipe_file(about: About) -> None:
    import os

    os.mkfifo("pipe")


def fill_its_folder(about: About) -> int:
    import os
    import time

    for number in range(1000):
        descriptor = os.open(f"filler{number}", os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, b"x" * (1 << 20))
        os.close(descriptor)
        time.sleep(0.005)
    return 1000


def fill_all_its_folders(about: About) -> int:
    written = 0
    try:
        for folder in (".", "/tmp", "/dev/shm"):
            for number in range(100):
                with open(f"{folder}/filler{number}", "wb", buffering=0) as file:
                    written += file.write(b"x" * (1 << 20))
    except OSError:
        pass
    try:
        with open("/dev/shm/more", "wb", buffering=0) as file:
            written += file.write(b"x" * (1 << 20))
    except OSError:
        pass
    return written


def write_a_large_file(about: About) -> int:
    with open("large", "wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    return 64


def connect_tcp(about: About) -> None:
    import socket

    socket.create_connection(("127.0.0.1", about["tcp"]), 2)


def send_udp(about: About) -> None:
    import socket

    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", about["udp"]))


def connect_unix(about: About) -> None:
    import socket

    socket.socket(socket.AF_UNIX).connect(about["unix"])


def connect_abstract(about: About) -> None:
    import socket

    socket.socket(socket.AF_UNIX).connect("\0" + about["abstract"])


def pair_of_internet_sockets(about: About) -> None:
    import socket

    socket.socketpair(socket.AF_INET)


def run_an_event_loop(about: About) -> str:
    import asyncio

    async def answer() -> str:
        await asyncio.sleep(0)
        return "done"

    return asyncio.run(answer())


def fork(about: About) -> None:
    import os

    if os.fork() == 0:
        os._exit(0)


def execute(about: About) -> None:
    import os

    os.execv("/bin/true", ["true"])


def run_a_program(about: About) -> None:
    import subprocess

    subprocess.run(["/bin/true"], check=True)


def use_a_thread(about: About) -> str:
    import threading

    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append("ran"))
    thread.start()
    thread.join()
    return found[0]


def start_many_threads(about: About) -> int:
    import threading

    threading.stack_size(65536)
    stop = threading.Event()
    started = 0
    try:
        for _ in range(5000):
            threading.Thread(target=stop.wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    stop.set()
    return started


def take_all_memory(about: About) -> int:
    kept = []
    for _ in range(64):
        kept.append(bytearray(1 << 27))
    return len(kept)


def signal_the_client(about: About) -> None:
    import os

    os.kill(about["client"], 0)


def signal_the_zygote(about: About) -> None:
    import os

    os.kill(about["zygote"], 0)


def signal_a_sibling(about: About) -> None:
    import os

    os.kill(about["sibling"], 0)


def signal_everybody(about: About) -> None:
    import os
    import signal

    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.kill(-1, signal.SIGUSR1)


def signal_its_group(about: About) -> None:
    import os

    os.kill(0, 0)


def signal_itself(about: About) -> str:
    import os
    import signal

    heard: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR1)
    return "heard" if len(heard) == 2 else "deaf"


def trace_the_client(about: About) -> None:
    call(about, "ptrace", 16, about["client"], 0, 0)


def trace_a_sibling(about: About) -> None:
    call(about, "ptrace", 16, about["sibling"], 0, 0)


def read_a_siblings_memory(about: About) -> None:
    call(about, "process_vm_readv", about["sibling"], 0, 0, 0, 0, 0)


def take_a_siblings_descriptor(about: About) -> None:
    import os

    os.pidfd_open(about["sibling"])


def limit_the_client(about: About) -> None:
    import resource

    resource.prlimit(about["client"], resource.RLIMIT_NOFILE, (3, 3))


def slow_the_client(about: About) -> None:
    import os

    os.setpriority(os.PRIO_PROCESS, about["client"], 19)


def pin_the_client(about: About) -> None:
    import os

    os.sched_setaffinity(about["client"], {0})


def raise_its_limits(about: About) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def outlive_the_zygote(about: About) -> None:
    import ctypes
    import os

    if ctypes.CDLL(None, use_errno=True).prctl(1, 0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def become_dumpable(about: About) -> None:
    import ctypes
    import os

    if ctypes.CDLL(None, use_errno=True).prctl(4, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def hide_an_option_in_the_upper_half(about: About) -> None:
    call(about, "prctl", 1 | 1 << 32, 0, 0, 0, 0)


def become_root(about: About) -> None:
    import os

    os.setresuid(0, 0, 0)


def make_a_user_namespace(about: About) -> None:
    call(about, "unshare", 0x10000000)


def clone_into_a_namespace(about: About) -> None:
    call(about, "clone", 0x10000000 | 0x00010000 | 0x100 | 0x800, 0, 0, 0, 0)


def clone3(about: About) -> None:
    call(about, "clone3", 0, 0)


def set_up_a_ring(about: About) -> None:
    call(about, "io_uring_setup", 4, 0)


def make_a_file_in_memory(about: About) -> None:
    import os

    os.memfd_create("x")


def make_a_nameless_file(about: About) -> None:
    import os

    os.close(os.open(".", os.O_TMPFILE | os.O_RDWR))


def make_shared_memory(about: About) -> None:
    call(about, "shmget", 0, 4096, 0o1600)


def make_a_message_queue(about: About) -> None:
    call(about, "mq_open", 0, 0, 0, 0)


def mount(about: About) -> None:
    call(about, "mount", 0, 0, 0, 0, 0)


def use_the_keyring(about: About) -> None:
    call(about, "keyctl", 0, -3, 0, 0, 0)


def make_a_call_of_tomorrow(about: About) -> None:
    call(about, 470)


def load_another_filter(about: About) -> None:
    call(about, "seccomp", 0, 0, 0)


def push_into_a_terminal(about: About) -> None:
    import fcntl

    fcntl.ioctl(0, 0x5412, b"x")


def signal_through_the_owner_of_a_pipe(about: About) -> None:
    import fcntl
    import os
    import signal
    import struct

    reader, _ = os.pipe()
    fcntl.fcntl(reader, 10, signal.SIGUSR1)  # F_SETSIG
    fcntl.fcntl(reader, 15, struct.pack("ii", 1, about["client"]))  # F_SETOWN_EX
    fcntl.fcntl(reader, fcntl.F_SETOWN, about["client"])


def own_a_socket_for_somebody(about: About) -> None:
    import fcntl
    import socket
    import struct

    ours, _ = socket.socketpair()
    fcntl.ioctl(ours, 0x8901, struct.pack("i", about["client"]))  # FIOSETOWN


def hold_a_library_for_itself(about: About) -> None:
    import fcntl
    import os

    fcntl.fcntl(os.open(os.__file__, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)


def watch_a_folder_of_libraries(about: About) -> None:
    import fcntl
    import os

    fcntl.fcntl(os.open(os.path.dirname(os.__file__), os.O_RDONLY), fcntl.F_NOTIFY, 1)


def send_a_datagram_to_a_file(about: About) -> None:
    import socket

    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"x", about["datagrams"])


def send_a_datagram_to_a_name(about: About) -> None:
    import socket

    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"x", "\0" + about["abstract"] + "-datagrams")


def address_its_own_socket(about: About) -> None:
    import socket

    ours, _ = socket.socketpair()
    ours.sendto(b"x", about["datagrams"])


def pass_a_descriptor(about: About) -> None:
    import socket

    ours, _ = socket.socketpair()
    socket.send_fds(ours, [b"x"], [0])


def ask_who_is_at_the_other_end(about: About) -> None:
    import socket

    ours, _ = socket.socketpair()
    ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)


def take_hold_of_the_other_end(about: About) -> None:
    import socket

    ours, _ = socket.socketpair()
    ours.getsockopt(socket.SOL_SOCKET, 77)  # SO_PEERPIDFD


def filter_a_socket(about: About) -> None:
    import socket

    ours, _ = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, 16, 1)  # SO_PASSCRED


def list_the_network(about: About) -> None:
    import fcntl
    import socket
    import struct

    ours, _ = socket.socketpair()
    fcntl.ioctl(ours, 0x8912, struct.pack("iP", 0, 0))  # SIOCGIFCONF


def lock_a_file_for_good(about: About) -> None:
    import fcntl
    import os
    import struct

    descriptor = os.open("attributed", os.O_CREAT | os.O_RDWR)
    fcntl.ioctl(descriptor, 0x40086602, struct.pack("l", 0x40))  # FS_IOC_SETFLAGS, no dump


def empty_a_library_by_reading(about: About) -> None:
    import os

    os.open(os.__file__, os.O_RDONLY | os.O_TRUNC)


def empty_a_library_by_doing_neither(about: About) -> None:
    import os

    os.open(os.__file__, 3 | os.O_TRUNC)


def take_the_disk_at_once(about: About) -> None:
    import os

    call(about, "fallocate", os.open("large", os.O_CREAT | os.O_RDWR), 1, 0, 1 << 30)  # FALLOC_FL_KEEP_SIZE


def reserve_a_little(about: About) -> int:
    import os

    descriptor = os.open("reserved", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(descriptor, 0, 8192)
    return os.fstat(descriptor).st_size


def empty_its_own_file(about: About) -> int:
    import os

    for _ in range(2):
        with open("own", "w") as file:
            file.write("x")
    os.truncate(os.open("own", os.O_RDWR), 0)
    return os.stat("own").st_size


def remove_a_queue_of_system_v(about: About) -> None:
    call(about, "msgctl", 0, 0, 0)  # IPC_RMID


def read_a_queue_of_system_v(about: About) -> None:
    call(about, "msgrcv", 0, 0, 0, 0, 0o4000)


def remove_semaphores_of_system_v(about: About) -> None:
    call(about, "semctl", 0, 0, 0, 0)


def remove_a_message_queue(about: About) -> None:
    import ctypes

    name = ctypes.create_string_buffer(b"nowhere")
    call(about, "mq_unlink", ctypes.addressof(name))


def make_a_call_between_the_known_ones(about: About) -> None:
    call(about, 400)


def splice_pipes(about: About) -> None:
    call(about, "splice", 0, 0, 0, 0, 0, 0)


def confine_itself_further(about: About) -> None:
    call(about, "landlock_create_ruleset", 0, 0, 1)


def dispatch_its_own_calls(about: About) -> None:
    call(about, "prctl", 59, 1, 0, 0, 0)  # PR_SET_SYSCALL_USER_DISPATCH


def kill_by_the_old_gate(about: About) -> None:
    import ctypes
    import mmap
    import platform

    if platform.machine() != "x86_64":
        raise PermissionError(1, "there is no such gate")
    # mov eax, 20 (getpid of 32 bits); int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def kill_by_the_numbers_of_x32(about: About) -> None:
    import platform

    if platform.machine() != "x86_64":
        raise PermissionError(1, "there are no such numbers")
    call(about, 0x40000000 + 39)


def dump_core(about: About) -> list[int]:
    import resource

    return [*resource.getrlimit(resource.RLIMIT_CORE)]


def call(about: About, name: str | int, *arguments: int) -> None:
    """A raw system call, by name; sent along with each attack."""
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    number = about["numbers"][name] if isinstance(name, str) else name
    ctypes.set_errno(0)
    if libc.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
