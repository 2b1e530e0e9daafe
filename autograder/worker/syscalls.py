"""The few Linux calls that Python's standard library does not offer, through ctypes."""

from __future__ import annotations

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)

# prctl(2): linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

# capabilities(7): linux/capability.h
CAP_SETPCAP = 8
CAP_SYS_ADMIN = 21
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_POSSIBLE_CAPABILITY = 63


def check(result: int, what: str) -> int:
    """`result` of a C call if it is not negative; else an `OSError` that begins with `what`."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, *arguments: int) -> int:
    """prctl(2), missing arguments being 0."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    return check(libc.prctl(option, *(ctypes.c_ulong(value) for value in padded)), f"prctl({option})")


def effective_capabilities() -> int:
    """The calling thread's effective capabilities as a bit set; capget(2)."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    data = ctypes.create_string_buffer(24)
    check(libc.capget(header, data), "capget")
    low, _, _, high, _, _ = struct.unpack("=6I", data.raw)
    return int(low | high << 32)


def has_capability(number: int) -> bool:
    """Whether the calling thread may use the capability of that number now."""
    return bool(effective_capabilities() >> number & 1)


def drop_bounding_set() -> None:
    """Forget every capability that a later exec could bring back, if there are any to lose (CAP_SETPCAP)."""
    if not has_capability(CAP_SETPCAP):
        return
    for number in range(_LAST_POSSIBLE_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError:  # EINVAL: past the last capability that this kernel knows
            return


def drop_capabilities() -> None:
    """Empty the effective, permitted, inheritable and ambient sets, and look that they are empty."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, struct.pack("=6I", *[0] * 6)), "capset")
    if effective_capabilities():
        raise OSError(f"capabilities are left: {effective_capabilities():#x}")
