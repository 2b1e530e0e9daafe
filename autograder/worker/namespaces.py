"""Tier A's private view of the machine: own namespaces and a root that holds only what Python needs."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import struct
from collections.abc import Iterable

from autograder.worker.syscalls import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, check, libc, prctl

# sched.h
NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
ALL_BUT_USER_AND_PID = NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWNET

# sys/mount.h
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE, _DETACH = 2, 4, 8, 4096, 16384, 1 << 18, 2
# mount_setattr(2), the same number on every architecture, since Linux 5.12 (Landlock needs 5.13 anyway)
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
WORK = "/home/worker"
SCRATCH = {WORK: "work", "/tmp": "tmp", "/dev/shm": "shm"}
_SCRATCH_INODES = 20_000


def be_first_of_user_namespace(close: int) -> None:
    """Go on as the first process of a new user and pid namespace, where an ordinary user has root's rights.

    The calling process stays behind, closes the descriptor `close`, waits for the one that goes on, and ends
    as that has ended. If the former is killed, so is the latter. Raises `OSError` where that is not allowed.
    """
    reader, writer = os.pipe()
    _unshare_user(NEWPID)
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if _ended(reader):  # before that was said
            os._exit(0)
        os.close(reader)
        return
    os.close(close)
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    os._exit(abs(os.waitstatus_to_exitcode(status)))


def _ended(reader: int) -> bool:
    """Whether the other end of the pipe is closed."""
    poll = select.poll()
    poll.register(reader, 0)
    return bool(poll.poll(0))


def fork_into_pid_namespace(home: int) -> int:
    """Fork a child that is the first process of a new pid namespace. Needs CAP_SYS_ADMIN.

    `home` is the caller's own /proc/self/ns/pid, opened; the children forked afterwards by other means belong
    there.
    """
    check(libc.unshare(NEWPID), "unshare of the pid namespace")
    try:
        pid = os.fork()
    except OSError:
        check(libc.setns(home, NEWPID), "setns")
        raise
    if pid:
        check(libc.setns(home, NEWPID), "setns")
    return pid


def unshare(*, user: bool) -> None:
    """Leave the namespaces of mounts, network, IPC, host name and cgroups for new ones; unshare(2).

    `user`: a new user namespace too, in which one's own uid and gid are the only ones there are.
    """
    if user:
        _unshare_user(ALL_BUT_USER_AND_PID)
    else:
        check(libc.unshare(ALL_BUT_USER_AND_PID), "unshare")


def _unshare_user(others: int) -> None:
    uid, gid = os.geteuid(), os.getegid()
    prctl(PR_SET_DUMPABLE, 1)  # else the id maps belong to real root
    check(libc.unshare(NEWUSER | others), "unshare with a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def enter_private_root(mount_point: str, readable: Iterable[str], scratch_bytes: int, pivot_root: int) -> None:
    """Replace the root of a new mount namespace by one that is read-only but for `SCRATCH`.

    `mount_point` is any empty folder; only this namespace sees what is mounted there. `readable` are files
    and folders of the old root, kept at their paths; missing ones are left out. All scratch folders share
    `scratch_bytes` of memory. `pivot_root` is that system call's number. There is no /proc: it would show the
    worker things it has no use for, and cannot be had everywhere.
    """
    _mount("none", "/", None, _REC | _PRIVATE)
    _mount("tmpfs", mount_point, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=755,size=1m,nr_inodes=2000")
    _make_scratch(mount_point, scratch_bytes)  # first, for Python's folders may lie in /tmp
    for path in readable:
        _keep(mount_point, path, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV)
    for path in DEVICES:
        _keep(mount_point, path, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NOEXEC)
    _set_attributes(mount_point, _ATTR_RDONLY, recursive=False)
    os.chdir(mount_point)
    check(libc.syscall(pivot_root, b".", b"."), "pivot_root")  # the old root now lies over the new one
    check(libc.umount2(b".", _DETACH), "umount of the old root")
    os.chdir("/")


def _make_scratch(root: str, size: int) -> None:
    """One tmpfs behind all scratch folders, so that they share one bound."""
    whole = root + "/scratch"
    os.mkdir(whole)
    _mount(
        "tmpfs",
        whole,
        "tmpfs",
        _NOSUID | _NODEV | _NOEXEC,
        f"mode=755,size={size},nr_inodes={_SCRATCH_INODES}",
    )
    for path, name in SCRATCH.items():
        os.mkdir(f"{whole}/{name}")
        os.chmod(f"{whole}/{name}", 0o1777)
        os.makedirs(root + path, exist_ok=True)
        _mount(f"{whole}/{name}", root + path, None, _BIND)
    check(libc.umount2(os.fsencode(whole), 0), "umount of the scratch")
    os.rmdir(whole)


def _keep(root: str, path: str, attributes: int) -> None:
    """Show `path` of the old root in the new one. A link is copied: what it leads to is kept by itself."""
    target = root + path
    if not os.path.lexists(path) or os.path.lexists(target):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(path, target, None, _BIND | _REC)
    _set_attributes(target, attributes, recursive=True)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    def encode(text: str | None) -> bytes | None:
        return None if text is None else os.fsencode(text)

    result = libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(options))
    check(result, f"mount on {target}")


def _set_attributes(path: str, attributes: int, *, recursive: bool) -> None:
    structure = struct.pack("=4Q", attributes, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    result = libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, structure, ctypes.c_size_t(len(structure))
    )
    check(result, f"mount_setattr of {path}")
