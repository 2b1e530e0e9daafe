"""Giving up what a process may do because of who started it."""

from __future__ import annotations

import os

from autograder.worker import syscalls

NOBODY = 65534
# Debian and systemd leave these ids to nobody (systemd: docs/UIDS-GIDS.md), so that each of root's workers
# can be a user of its own: it cannot touch its siblings, and has a count of threads to itself.
FREE_IDS = range(60706, 61184)


def may_drop_to(uid: int, gid: int) -> bool:
    """Whether ids exist here: a container often knows few of them; user_namespaces(7)."""
    return _is_mapped("/proc/self/uid_map", uid) and _is_mapped("/proc/self/gid_map", gid)


def _is_mapped(table: str, number: int) -> bool:
    with open(table) as file:
        ranges = [[int(word) for word in line.split()] for line in file]
    return any(first <= number < first + length for first, _, length in ranges)


def account(serial: int) -> int:
    """The uid (and gid) for the worker of that serial number, when it is root who starts it."""
    number = FREE_IDS[serial % len(FREE_IDS)]
    return number if may_drop_to(number, number) else NOBODY


def become(number: int) -> None:
    """Be user and group `number` and nothing else, for good. Needs root; clears PR_SET_PDEATHSIG."""
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
    if os.getresuid() != (number,) * 3 or os.getresgid() != (number,) * 3 or os.getgroups():
        raise OSError("the old user or groups are left")


def drop_everything() -> None:
    """No capability is left, and no exec can bring one back."""
    syscalls.drop_capabilities()
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
