"""seccomp: which system calls a worker may make. The filter is built by name, by the system's libseccomp.

`build()` runs once, in the zygote; every child loads the finished program with `load()`. All names and
constants are those of seccomp_init(3), seccomp_rule_add(3) and seccomp(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

from autograder.worker.syscalls import PR_SET_SECCOMP, check, libc

LIBRARY = "libseccomp.so.2"
ARCHITECTURES = ("x86_64", "aarch64")

_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_NOT_EQUAL, _MASKED_EQUAL = 1, 7
_ATTRIBUTE_WRONG_ARCHITECTURE = 2
_MODE_FILTER = 2
_INT = 0xFFFFFFFF  # the kernel reads these arguments as int: the upper half of the register must not count

# Every child may signal itself only. Its pid is put in place of this number when it loads the program.
_OWN_PID = 0x5E1F_0001


def _answer(number: int) -> int:
    return 0x00050000 | number


def _names(text: str) -> list[str]:
    return text.split()


REFUSED = _names("""
    execve execveat fork vfork uselib
    socket connect bind listen accept accept4 recvmmsg sendmmsg
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp get_robust_list
    pidfd_open pidfd_getfd pidfd_send_signal tkill
    perf_event_open bpf userfaultfd seccomp lookup_dcookie
    add_key request_key keyctl
    mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
    unshare setns
    init_module finit_module delete_module create_module kexec_load kexec_file_load
    reboot swapon swapoff settimeofday stime clock_settime clock_settime64
    clock_adjtime clock_adjtime64 adjtimex
    acct quotactl quotactl_fd syslog personality nfsservctl vhangup ustat sysfs sethostname setdomainname
    name_to_handle_at open_by_handle_at
    fanotify_init fanotify_mark inotify_init inotify_init1 inotify_add_watch
    mbind set_mempolicy set_mempolicy_home_node migrate_pages move_pages remap_file_pages
    modify_ldt ioperm iopl
    memfd_create memfd_secret shmget shmat shmctl msgget semget mq_open
    setpriority ioprio_set sched_setscheduler sched_setparam sched_setattr
    truncate truncate64 setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
    mknod mknodat sync syncfs vmsplice
    setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid setfsgid capset
""")
"""Answered with EPERM. What Landlock does not cover is here too: watching folders, attributes, `truncate`."""

MISSING = [
    "clone3",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "io_setup",
    "io_submit",
    "openat2",
]
"""Answered with ENOSYS: programs then take an older way, which the filter can look into.

`clone3` and `openat2` keep their flags in memory, where it cannot."""

IGNORED = _names("""
    chmod fchmod fchmodat chown lchown fchown fchownat
    utime utimes futimesat utimensat utimensat_time64
""")
"""Answered with success, but not done: Landlock does not cover these, and `shutil.copy` makes them."""

NEWEST = "futex_waitv"
"""Calls newer than this one (Linux 5.16) are answered as by a kernel that does not know them yet."""

_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
_PRCTL_REFUSED = (
    1,  # PR_SET_PDEATHSIG: the worker dies with its zygote
    4,  # PR_SET_DUMPABLE: its memory stays closed to other processes of the same user
    8,  # PR_SET_KEEPCAPS
    22,  # PR_SET_SECCOMP
    28,  # PR_SET_SECUREBITS
    31,  # PR_TASK_PERF_EVENTS_DISABLE
    35,  # PR_SET_MM
    36,  # PR_SET_CHILD_SUBREAPER
    47,  # PR_CAP_AMBIENT
    62,  # PR_SCHED_CORE
    0x59616D61,  # PR_SET_PTRACER
)
_AF_UNIX = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_O_TMPFILE = 0o20000000

_CONDITIONAL: list[tuple[str, tuple[int, int, int, int]]] = [
    # (call, (argument, comparison, value or mask, value)): refused where the comparison holds
    ("clone", (0, _MASKED_EQUAL, _CLONE_THREAD, 0)),
    *(("clone", (0, _MASKED_EQUAL, flag, flag)) for flag in _CLONE_NAMESPACES),
    *((name, (0, _NOT_EQUAL, _OWN_PID, 0)) for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")),
    *(("prctl", (0, _MASKED_EQUAL, _INT, option)) for option in _PRCTL_REFUSED),
    *(("ioctl", (1, _MASKED_EQUAL, _INT, request)) for request in (_TIOCSTI, _TIOCLINUX)),
    ("socketpair", (0, _NOT_EQUAL, _AF_UNIX, 0)),  # asyncio wakes its loop through a pair of unix sockets
    *((name, (0, _NOT_EQUAL, 0, 0)) for name in ("prlimit64", "sched_setaffinity")),  # 0 means oneself
    (
        "open",
        (1, _MASKED_EQUAL, _O_TMPFILE, _O_TMPFILE),
    ),  # a file without a name escapes those who watch a folder
    ("openat", (2, _MASKED_EQUAL, _O_TMPFILE, _O_TMPFILE)),
]


class _Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Library:
    """A thin face of libseccomp. Raises `OSError` with a sentence to act on where it cannot be used."""

    def __init__(self) -> None:
        if platform.machine() not in ARCHITECTURES:
            raise OSError(f"no system call filter for {platform.machine()}, only for {' and '.join(ARCHITECTURES)}")
        try:
            self._library = ctypes.CDLL(LIBRARY, use_errno=True)
        except OSError:
            raise OSError(
                f"{LIBRARY} is missing: install the package libseccomp2 (Debian, Ubuntu) or libseccomp (Fedora, Arch)"
            ) from None
        self._library.seccomp_init.restype = ctypes.c_void_p

    def number(self, name: str) -> int | None:
        """The number of the system call `name` on this machine; None where it has none."""
        number = int(self._library.seccomp_syscall_resolve_name(name.encode()))
        return number if number >= 0 else None

    def compile(self) -> bytes:
        """The filter as a classic BPF program."""
        context = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(_ALLOW)))
        if not context:
            raise OSError("seccomp_init failed")
        try:
            self._call("seccomp_attr_set", context, _ATTRIBUTE_WRONG_ARCHITECTURE, ctypes.c_uint32(_KILL_PROCESS))
            for names, action in (
                (REFUSED, _answer(errno.EPERM)),
                (MISSING, _answer(errno.ENOSYS)),
                (IGNORED, _answer(0)),
            ):
                for name in names:
                    self._rule(context, name, action)
            for name, comparison in _CONDITIONAL:
                self._rule(context, name, _answer(errno.EPERM), _Comparison(*comparison))
            return self._export(context)
        finally:
            self._library.seccomp_release(context)

    def _rule(self, context: ctypes.c_void_p, name: str, action: int, *comparisons: _Comparison) -> None:
        number = self.number(name)
        if number is None:
            return
        array = (_Comparison * len(comparisons))(*comparisons) if comparisons else None
        self._call(
            "seccomp_rule_add_array",
            context,
            ctypes.c_uint32(action),
            number,
            ctypes.c_uint(len(comparisons)),
            array,
        )

    def _export(self, context: ctypes.c_void_p) -> bytes:
        reader, writer = os.pipe()  # a program has at most 4096 instructions of 8 bytes: it fits into the pipe
        try:
            self._call("seccomp_export_bpf", context, writer)
            return os.read(reader, 1 << 16)
        finally:
            os.close(reader)
            os.close(writer)

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, name)(*arguments)
        if result < 0:
            raise OSError(-result, f"{name}: {os.strerror(-result)}")


def _refuse_newer_calls(newest: int) -> bytes:
    """BPF that answers ENOSYS to numbers above `newest`, and leaves all others to the filter proper.

    Numbers from 0x40000000 on are those of the x32 ABI, which the filter proper kills.
    """
    load, jump_greater, jump_greater_equal, answer = 0x20, 0x25, 0x35, 0x06
    return b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (load, 0, 0, 0),
            (jump_greater, 0, 2, newest),
            (jump_greater_equal, 1, 0, 0x40000000),
            (answer, 0, 0, _answer(errno.ENOSYS)),
        )
    )


def build() -> bytes:
    """The program that `load` takes. Raises `OSError` with the reason where this machine cannot build it."""
    library = Library()
    newest = library.number(NEWEST)
    if newest is None:
        raise OSError(f"{LIBRARY} is too old: version 2.5.3 or later is needed")
    return _refuse_newer_calls(newest) + library.compile()


def pivot_root_number() -> int:
    """The number of pivot_root(2), which the C library does not wrap."""
    number = Library().number("pivot_root")
    assert number is not None
    return number


def load(program: bytes, pid: int) -> None:
    """Bind the calling thread to `program`; `pid` is what it sees as its own. Needs no_new_privs."""
    instructions = []
    for code, jump_true, jump_false, value in struct.iter_unpack("=HBBI", program):
        instructions.append(struct.pack("=HBBI", code, jump_true, jump_false, pid if value == _OWN_PID else value))
    if b"".join(instructions) == program:
        raise OSError("the filter has no place for the own pid")
    buffer = ctypes.create_string_buffer(b"".join(instructions))
    structure = _Program(len(instructions), ctypes.addressof(buffer))
    # not through prctl(): its arguments are longs, this is a pointer
    result = libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(structure), 0, 0)
    check(result, "prctl(PR_SET_SECCOMP)")
