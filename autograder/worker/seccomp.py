"""seccomp: which system calls a worker may make. The filter is built by name, by the system's libseccomp.

`build()` runs once, in the zygote; every child loads the finished program by a `Loader`. The rules stand in
`autograder.worker.rules`. All names and constants are those of seccomp_init(3), seccomp_rule_add(3) and
seccomp(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import tempfile
from collections.abc import Iterable

from autograder.worker import rules
from autograder.worker.syscalls import PR_SET_SECCOMP, check, libc

LIBRARY = "libseccomp.so.2"
ARCHITECTURES = ("x86_64", "aarch64")

_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_ATTRIBUTE_WRONG_ARCHITECTURE, _ATTRIBUTE_OPTIMIZE = 2, 8
_BINARY_TREE = 2
_MODE_FILTER = 2
_JUMP, _RETURN = 0x05, 0x06  # linux/bpf_common.h
_INSTRUCTION = struct.Struct("=HBBI")  # code, two jumps and a value: struct sock_filter, linux/filter.h
_VALUE_AT = 4

# What is done with a system call, its name, and what its arguments must be.
Rule = tuple[int, str, tuple[rules.Comparison, ...]]


def _answer(number: int) -> int:
    return 0x00050000 | number


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

    def compile(self, default: int, wanted: Iterable[Rule]) -> bytes:
        """The filter as a classic BPF program; `default` is done with calls that no rule matches.

        Calls by another architecture's numbers (32 bits, x32) end the process.
        """
        context = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(default)))
        if not context:
            raise OSError("seccomp_init failed")
        try:
            self._call("seccomp_attr_set", context, _ATTRIBUTE_WRONG_ARCHITECTURE, ctypes.c_uint32(_KILL_PROCESS))
            # The kernel tries a filter out on all numbers when it is loaded. Libraries before 2.5 can't do it.
            self._library.seccomp_attr_set(context, _ATTRIBUTE_OPTIMIZE, ctypes.c_uint32(_BINARY_TREE))
            for action, name, comparisons in wanted:
                self._rule(context, name, action, *comparisons)
            return self._export(context)
        finally:
            self._library.seccomp_release(context)

    def _rule(self, context: ctypes.c_void_p, name: str, action: int, *comparisons: rules.Comparison) -> None:
        number = self.number(name)
        if number is None:
            return
        array = (_Comparison * len(comparisons))(*(_Comparison(*one) for one in comparisons)) if comparisons else None
        self._call(
            "seccomp_rule_add_array",
            context,
            ctypes.c_uint32(action),
            number,
            ctypes.c_uint(len(comparisons)),
            array,
        )

    def _export(self, context: ctypes.c_void_p) -> bytes:
        with tempfile.TemporaryFile() as file:
            self._call("seccomp_export_bpf", context, file.fileno())
            file.seek(0)
            return file.read()

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, name)(*arguments)
        if result < 0:
            raise OSError(-result, f"{name}: {os.strerror(-result)}")


def _answers() -> Iterable[Rule]:
    """What is answered otherwise than by "there is no such call"."""
    for names, action in (
        (rules.REFUSED, _answer(errno.EPERM)),
        (rules.IGNORED, _answer(0)),
        (rules.WITHOUT_SUPPORT, _answer(errno.EOPNOTSUPP)),
    ):
        for name in names:
            yield action, name, ()
    for name, comparison in rules.REFUSED_IF:
        yield _answer(errno.EPERM), name, (comparison,)


def _permissions() -> Iterable[Rule]:
    for name in rules.ALLOWED:
        yield _ALLOW, name, ()
    for name, kinds in rules.ALLOWED_IF.items():
        for comparisons in kinds:
            yield _ALLOW, name, comparisons


def _instructions(program: bytes) -> list[tuple[int, int, int, int]]:
    return list(_INSTRUCTION.iter_unpack(program))


def _assemble(instructions: Iterable[tuple[int, int, int, int]]) -> bytes:
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in instructions)


def _both(first: bytes, second: bytes) -> bytes:
    """One program that allows what both allow: where `first` would, it goes on to `second`."""
    ours = _instructions(first)
    for place, (code, _, _, value) in enumerate(ours):
        if (code, value) == (_RETURN, _ALLOW):
            ours[place] = (_JUMP, 0, 0, len(ours) - place - 1)
    return _assemble(ours) + second


def build() -> bytes:
    """The program that `Loader` takes. Raises `OSError` with the reason where this machine cannot build it."""
    library = Library()
    return _both(
        library.compile(_ALLOW, _answers()),
        library.compile(_answer(errno.ENOSYS), _permissions()),
    )


def pivot_root_number() -> int:
    """The number of pivot_root(2), which the C library does not wrap."""
    number = Library().number("pivot_root")
    assert number is not None
    return number


class Loader:
    """A finished program, ready to be loaded by many a child.

    Raises:
        OSError: the program has no place for the own pid.
    """

    def __init__(self, program: bytes) -> None:
        self._program = program
        # Looked for once, since each child would take longer for that than the kernel takes for the program.
        self._own_pid = [
            place * _INSTRUCTION.size + _VALUE_AT
            for place, (_, _, _, value) in enumerate(_instructions(program))
            if value == rules.OWN_PID
        ]
        if not self._own_pid:
            raise OSError("the filter has no place for the own pid")

    def load(self, pid: int) -> None:
        """Bind the calling thread to the program; `pid` is what it sees as its own. Needs no_new_privs."""
        buffer = ctypes.create_string_buffer(self._program, len(self._program))
        for place in self._own_pid:
            struct.pack_into("=I", buffer, place, pid)
        structure = _Program(len(self._program) // _INSTRUCTION.size, ctypes.addressof(buffer))
        # not through prctl(): its arguments are longs, this is a pointer
        result = libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(structure), 0, 0)
        check(result, "prctl(PR_SET_SECCOMP)")
