"""The rules of the system call filter: what a worker may call, and how each other call is answered.

Two lists, by name. What stands in neither `ALLOWED` nor `ALLOWED_IF` is answered with ENOSYS, as by a kernel
that does not know it: all that is newer than this file, and the numbers in between that mean something on
some kernels only. Before that comes what needs another answer, in `REFUSED`, `IGNORED`, `WITHOUT_SUPPORT`
and `REFUSED_IF`.

A comparison is (argument, operator, value or mask, value); those of one rule must all hold.
"""

from __future__ import annotations

Comparison = tuple[int, int, int, int]

NOT_EQUAL, EQUAL, MASKED_EQUAL = 1, 4, 7  # enum scmp_compare, seccomp.h
OWN_PID = 0x5E1F_0001  # stands for the worker's pid, which is known when the program is loaded
_INT = 0xFFFFFFFF  # the kernel reads these arguments as int: the upper half of the register must not count


def _names(text: str) -> list[str]:
    return text.split()


def _one_of(argument: int, values: tuple[int, ...]) -> list[tuple[Comparison, ...]]:
    return [((argument, MASKED_EQUAL, _INT, value),) for value in values]


ALLOWED = _names("""
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek sendfile
    open openat creat close close_range dup dup2 dup3 pipe pipe2 flock
    stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2
    getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
    getcwd chdir fchdir getdents getdents64 readlink readlinkat umask
    mkdir mkdirat rmdir rename renameat renameat2 unlink unlinkat link linkat symlink symlinkat
    ftruncate fsync fdatasync fadvise64 readahead
    poll ppoll select pselect6 eventfd eventfd2 signalfd signalfd4
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    recvfrom getsockname getpeername shutdown
    brk mmap munmap mprotect mremap madvise msync mincore mlock mlock2 munlock get_mempolicy
    pkey_alloc pkey_free pkey_mprotect membarrier
    futex futex_waitv set_robust_list set_tid_address rseq arch_prctl restart_syscall getcpu
    exit exit_group wait4 waitid pause
    rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
    rt_tgsigqueueinfo sigaltstack kill tgkill
    getpid gettid getppid getpgid getpgrp getsid getuid geteuid getresuid getgid getegid getresgid getgroups capget
    getrlimit prlimit64 getrusage getpriority ioprio_get sysinfo times uname getrandom
    sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_getparam sched_getscheduler
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval
    time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer
    timerfd_create timerfd_gettime timerfd_settime
""")
"""What Python, the C library, torch and matplotlib may need; `REFUSED_IF` holds for these too."""

_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE_MASK = 1, 1, 0xF
_SIGKILL = 9
_MSG_OOB = 1
_O_ACCMODE, _O_TRUNC, _O_TMPFILE = 0o3, 0o1000, 0o20000000

_FCNTL = (
    *range(8),  # duplicate, flags, locks
    9,  # F_GETOWN, but not F_SETOWN, F_SETSIG: a file's owner is sent signals, whoever that is
    *range(36, 39),  # locks of an open file
    1025,  # F_GETLEASE, but not F_SETLEASE: others would wait for the file; nor F_NOTIFY, which watches folders
    1030,  # F_DUPFD_CLOEXEC
    1032,  # F_GETPIPE_SZ, but not F_SETPIPE_SZ: a pipe's memory is nobody's
    1034,  # F_GET_SEALS
)
_IOCTL = (
    *(0x5401, 0x802C542A, 0x540F, 0x5413),  # TCGETS, TCGETS2, TIOCGPGRP, TIOCGWINSZ: is it a terminal, how wide
    *(0x541B, 0x5421, 0x5450, 0x5451),  # FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
)
_PRCTL = (
    *(3, 15, 16, 21, 23, 27, 39),  # GET_DUMPABLE, SET_NAME, GET_NAME, GET_SECCOMP, CAPBSET_READ, GET_SECUREBITS, …
    *(29, 30, 41, 42),  # SET_TIMERSLACK, GET_TIMERSLACK, SET_THP_DISABLE, GET_THP_DISABLE
    *(50, 51, 54, 55, 56, 63, 64),  # arm64's vectors, pointer keys and tags
    0x53564D41,  # PR_SET_VMA: names of memory
)
_GETSOCKOPT = (3, 4, 7, 8, 38, 39)  # SO_TYPE, _ERROR, _SNDBUF, _RCVBUF, _PROTOCOL, _DOMAIN: not who the other side is

ALLOWED_IF: dict[str, list[tuple[Comparison, ...]]] = {
    "clone": [((0, MASKED_EQUAL, _CLONE_THREAD | sum(_CLONE_NAMESPACES), _CLONE_THREAD),)],
    "fcntl": _one_of(1, _FCNTL),
    "ioctl": _one_of(1, _IOCTL),
    "prctl": _one_of(0, _PRCTL),
    "getsockopt": _one_of(2, _GETSOCKOPT),
    # asyncio wakes its loop through a pair of these; datagrams could be sent to any other socket
    "socketpair": [((0, EQUAL, _AF_UNIX, 0), (1, MASKED_EQUAL, _SOCK_TYPE_MASK, _SOCK_STREAM))],
    "sendto": [((4, EQUAL, 0, 0),)],  # without an address; and no sendmsg, which passes descriptors
}
"""Calls that come in good and bad kinds, each with its good ones."""

REFUSED = _names("""
    execve execveat fork vfork uselib
    socket connect bind listen accept accept4 sendmsg recvmsg recvmmsg sendmmsg setsockopt
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp get_robust_list
    pidfd_open pidfd_getfd pidfd_send_signal tkill setpgid setsid
    perf_event_open bpf userfaultfd seccomp lookup_dcookie
    landlock_create_ruleset landlock_add_rule landlock_restrict_self
    add_key request_key keyctl
    mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
    unshare setns
    init_module finit_module delete_module create_module kexec_load kexec_file_load
    reboot swapon swapoff settimeofday stime clock_settime clock_settime64
    clock_adjtime clock_adjtime64 adjtimex
    acct quotactl quotactl_fd syslog personality nfsservctl vhangup ustat sysfs sethostname setdomainname
    name_to_handle_at open_by_handle_at
    fanotify_init fanotify_mark inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
    mbind set_mempolicy migrate_pages move_pages remap_file_pages mlockall munlockall
    modify_ldt ioperm iopl
    memfd_create memfd_secret shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semtimedop semctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    setrlimit timer_create timer_delete timer_getoverrun timer_gettime timer_settime
    setpriority ioprio_set sched_setscheduler sched_setparam sched_setattr
    truncate truncate64 setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
    mknod mknodat sync syncfs sync_file_range vmsplice splice tee
    setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid setfsgid capset
""")
"""Answered with EPERM. What Landlock does not cover is here too: watching folders, attributes, queues."""

IGNORED = _names("""
    chmod fchmod fchmodat chown lchown fchown fchownat
    utime utimes futimesat utimensat utimensat_time64
""")
"""Answered with success, but not done: Landlock does not cover these, and `shutil.copy` makes them."""

WITHOUT_SUPPORT = ["fallocate"]
"""Answered with EOPNOTSUPP: the C library then writes zeros. It could take a disk at once, past RLIMIT_FSIZE."""

_OPENING = [
    (_O_TMPFILE, _O_TMPFILE),  # a file without a name escapes those who watch a folder
    (_O_ACCMODE | _O_TRUNC, _O_TRUNC),  # empties what is opened for reading: Landlock sees it from ABI 3 on only
    (_O_ACCMODE, _O_ACCMODE),  # neither reads nor writes, and Landlock asks for nothing
]

REFUSED_IF: list[tuple[str, Comparison]] = [
    ("clone", (0, MASKED_EQUAL, _CLONE_THREAD, 0)),
    *(("clone", (0, MASKED_EQUAL, flag, flag)) for flag in _CLONE_NAMESPACES),
    *((name, (0, NOT_EQUAL, OWN_PID, 0)) for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")),
    *((name, (0, NOT_EQUAL, 0, 0)) for name in ("prlimit64", "sched_setaffinity")),  # 0 means oneself
    # Who could have himself killed as from outside would be examined once more, in the hope of better luck.
    ("prlimit64", (2, NOT_EQUAL, 0, 0)),  # limits are read, and not set
    *((name, (1, MASKED_EQUAL, _INT, _SIGKILL)) for name in ("kill", "rt_sigqueueinfo")),
    *((name, (2, MASKED_EQUAL, _INT, _SIGKILL)) for name in ("tgkill", "rt_tgsigqueueinfo")),
    ("socketpair", (0, NOT_EQUAL, _AF_UNIX, 0)),
    ("sendto", (4, NOT_EQUAL, 0, 0)),
    # Bytes out of band are seen by nobody here, and have been a hole in the kernel (CVE-2025-38236).
    *((name, (3, MASKED_EQUAL, _MSG_OOB, _MSG_OOB)) for name in ("sendto", "recvfrom")),
    *(("open", (1, MASKED_EQUAL, mask, value)) for mask, value in _OPENING),
    *(("openat", (2, MASKED_EQUAL, mask, value)) for mask, value in _OPENING),
]
"""Answered with EPERM where the comparison holds."""
