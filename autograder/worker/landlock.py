"""Landlock: which files a worker may touch, and that it reaches no TCP port or foreign process.

Format of the structures: linux/landlock.h and https://docs.kernel.org/userspace-api/landlock.html.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from autograder.worker.syscalls import check, libc

# These three have the same number on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_QUERY_VERSION = 1
_RULE_PATH_BENEATH = 1

WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, MAKE_SYM = 1 << 7, 1 << 8, 1 << 12
REFER, TRUNCATE = 1 << 13, 1 << 14
_RIGHTS_OF_ABI_1 = (1 << 13) - 1
_IOCTL_DEV = 1 << 15

# Nobody gets the right to execute, to make sockets, pipes or device nodes, or to use a device's ioctls.
READ = READ_FILE | READ_DIR
READ_AND_WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER
_RIGHTS_OF_A_FILE = READ_FILE | WRITE_FILE | TRUNCATE


def abi() -> int:
    """The Landlock ABI version of the running kernel; 0 where it has none or does not enable it."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_QUERY_VERSION))
    return max(int(version), 0)


def _handled(version: int) -> tuple[int, bytes]:
    """The file rights that this ABI can refuse, and the ruleset's attributes: it refuses all that it can."""
    files = _RIGHTS_OF_ABI_1
    if version >= 2:
        files |= REFER
    if version >= 3:
        files |= TRUNCATE
    if version >= 5:
        files |= _IOCTL_DEV
    attributes = [files]
    if version >= 4:
        attributes.append(0b11)  # binding and connecting TCP sockets
    if version >= 6:
        attributes.append(0b11)  # abstract unix sockets and signals beyond this domain
    return files, struct.pack(f"={len(attributes)}Q", *attributes)


def restrict(readable: Iterable[str], writable: Iterable[str]) -> int:
    """Confine the calling process, for good, to reading beneath `readable` and to working beneath `writable`.

    Paths that do not exist are left out. Needs no_new_privs. Returns the ABI used; raises `OSError` if
    Landlock is missing or refuses.
    """
    version = abi()
    if not version:
        raise OSError("this kernel offers no Landlock (it takes Linux 5.13 with landlock in its list of LSMs)")
    handled, attributes = _handled(version)
    ruleset = check(
        libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    try:
        for paths, rights in ((readable, READ), (writable, READ_AND_WRITE)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        check(libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _RIGHTS_OF_A_FILE
        rule = struct.pack("=Qi", rights, descriptor)
        check(
            libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, ctypes.c_uint32(0)),
            f"landlock_add_rule {path}",
        )
    finally:
        os.close(descriptor)
