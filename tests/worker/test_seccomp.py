"""The system call filter, as far as it can be looked at without loading it; test_confine.py attacks it."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Callable

import pytest

from autograder.worker import rules, seccomp

try:
    LIBRARY = seccomp.Library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)

OF_OTHER_ARCHITECTURES = {
    "umount",
    "stime",
    "clock_settime64",
    "clock_adjtime64",
    "truncate64",
    "utimensat_time64",
}
ANSWERED = [*rules.REFUSED, *rules.IGNORED, *rules.WITHOUT_SUPPORT]
NAMED = {*ANSWERED, *rules.ALLOWED, *rules.ALLOWED_IF, *(name for name, _ in rules.REFUSED_IF)}

# Never named, so that they do not exist: their arguments lie in memory, where no filter sees them, they have
# had many a hole, or no kernel has them.
UNNAMED = {
    *rules._names("""
    clone3 openat2 io_uring_setup io_uring_enter io_uring_register
    io_setup io_submit io_cancel io_destroy io_getevents io_pgetevents copy_file_range
    _sysctl afs_syscall epoll_ctl_old epoll_wait_old get_kernel_syms get_thread_area set_thread_area
    getpmsg putpmsg query_module security tuxcall vserver
    """)
}

# elf.h and asm-generic/unistd.h, by hand: what libseccomp says is what is to be tested
X86_64, AARCH64 = 0xC000003E, 0xC00000B7
NUMBERS = {
    X86_64: {"read": 0, "open": 2, "ioctl": 16, "clone": 56, "fork": 57, "execve": 59, "kill": 62, "ptrace": 101},
    AARCH64: {"read": 63, "openat": 56, "ioctl": 29, "clone": 220, "execve": 221, "kill": 129, "ptrace": 117},
}
NUMBERS[X86_64] |= {"prlimit64": 302, "setrlimit": 160, "timer_create": 222, "timer_settime": 223}
NUMBERS[X86_64] |= {"rt_sigqueueinfo": 129, "sendto": 44, "recvfrom": 45, "tgkill": 234, "rt_tgsigqueueinfo": 297}
NUMBERS[AARCH64] |= {"prlimit64": 261, "setrlimit": 164, "timer_create": 107, "timer_settime": 110}
NUMBERS[AARCH64] |= {"rt_sigqueueinfo": 138, "sendto": 206, "recvfrom": 207, "tgkill": 131, "rt_tgsigqueueinfo": 240}
NUMBERS[X86_64] |= {"openat": 257, "clone3": 435, "io_uring_setup": 425, "prctl": 157, "fcntl": 72, "socket": 41}
NUMBERS[AARCH64] |= {"clone3": 435, "io_uring_setup": 425, "prctl": 167, "fcntl": 25, "socket": 198}

KILLED = -1
PID = 77

Ask = Callable[..., int]


@pytest.fixture(params=[X86_64, AARCH64], ids=["x86-64", "arm64"])
def architecture(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def ask(architecture: int, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """How the filter of that architecture answers: 0, an errno, or `KILLED`."""
    begin = LIBRARY._library.seccomp_init

    def begin_for_architecture(default: ctypes.c_uint32) -> int:
        context = begin(default)
        LIBRARY._library.seccomp_arch_add(ctypes.c_void_p(context), ctypes.c_uint32(architecture))
        for other in {X86_64, AARCH64} - {architecture}:
            LIBRARY._library.seccomp_arch_remove(ctypes.c_void_p(context), ctypes.c_uint32(other))
        return int(context)

    monkeypatch.setattr(LIBRARY._library, "seccomp_init", begin_for_architecture)
    monkeypatch.setattr(seccomp, "Library", lambda: LIBRARY)
    program = seccomp.build()

    def answer(call: str | int, *arguments: int, by: int = architecture) -> int:
        number = NUMBERS[architecture][call] if isinstance(call, str) else call
        return run(program, number, by, arguments)

    return answer


def run(program: bytes, number: int, architecture: int, arguments: tuple[int, ...]) -> int:
    """What the kernel would do: an interpreter of classic BPF, as far as seccomp filters use it."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<iIQ6Q", number, architecture, 0, *padded)
    instructions = list(struct.iter_unpack("=HBBI", program))
    place = value = 0
    while True:
        code, jump_true, jump_false, constant = instructions[place]
        constant = PID if constant == rules.OWN_PID else constant
        place += 1
        match code:
            case 0x20:
                value = struct.unpack_from("<I", data, constant)[0]
            case 0x54:
                value &= constant
            case 0x05:
                place += constant
            case 0x15 | 0x25 | 0x35 | 0x45:
                holds = {0x15: value == constant, 0x25: value > constant, 0x35: value >= constant}
                place += jump_true if holds.get(code, bool(value & constant)) else jump_false
            case 0x06:
                kind, number = constant & 0xFFFF0000, constant & 0xFFFF
                return {0x7FFF0000: 0, 0x00050000: number, 0x80000000: KILLED}[kind]
            case _:
                raise NotImplementedError(hex(code))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the names are compared with those of x86-64")
def test_no_name_is_misspelt() -> None:
    assert {name for name in NAMED if LIBRARY.number(name) is None} == OF_OTHER_ARCHITECTURES


def test_no_call_is_named_twice() -> None:
    names = [*ANSWERED, *rules.ALLOWED, *rules.ALLOWED_IF]
    assert len(names) == len({*names})


def test_every_call_that_a_kernel_has_had_was_thought_of(architecture: int) -> None:
    name_of = LIBRARY._library.seccomp_syscall_resolve_num_arch
    name_of.restype = ctypes.c_void_p
    known = {
        ctypes.string_at(found).decode()
        for number in range(450)  # up to Linux 5.16: all later ones do not exist for a worker
        if (found := name_of(ctypes.c_uint32(architecture), number))
    }
    assert len(known) > 250
    assert known - NAMED - UNNAMED == set()
    assert not NAMED & UNNAMED


def test_ordinary_calls_pass(ask: Ask) -> None:
    assert ask("read") == 0
    assert ask("openat", 0, 0, 0o1102) == 0  # read and write, create, empty
    assert ask("ioctl", 0, 0x5401) == 0
    assert ask("fcntl", 0, 3) == 0


@pytest.mark.parametrize("call", ["execve", "ptrace", "socket"])
def test_dangerous_calls_are_refused_by_number(ask: Ask, call: str) -> None:
    assert ask(call) == errno.EPERM


def test_a_clone_is_a_thread_and_in_no_new_namespace(ask: Ask) -> None:
    thread = 0x3D0F00  # as the C library starts one
    assert ask("clone", thread) == 0
    assert ask("clone", 17) == errno.EPERM  # a fork
    for shift in (7, 17, 25, 26, 27, 28, 29, 30):
        assert ask("clone", thread | 1 << shift) == errno.EPERM


def test_only_the_own_process_is_signalled(ask: Ask) -> None:
    assert ask("kill", PID) == 0
    for pid in (PID + 1, 0, 0xFFFFFFFF, 2**64 - 1, PID | 1 << 32):
        assert ask("kill", pid) == errno.EPERM


def test_no_byte_goes_out_of_band(ask: Ask) -> None:
    out_of_band, no_wait = 1, 0x40
    assert ask("sendto", 3, 0, 1, no_wait) == ask("recvfrom", 3, 0, 1, no_wait) == 0
    assert ask("sendto", 3, 0, 1, no_wait | out_of_band) == ask("recvfrom", 3, 0, 1, out_of_band) == errno.EPERM


def test_nobody_has_himself_killed_as_if_from_outside(ask: Ask) -> None:
    killed = 9
    for call, before in (("kill", 1), ("rt_sigqueueinfo", 1), ("tgkill", 2), ("rt_tgsigqueueinfo", 2)):
        asked = [call, *[PID] * before]
        assert ask(*asked, killed + 1) == 0
        assert ask(*asked, killed) == ask(*asked, killed | 1 << 32) == errno.EPERM
    assert ask("setrlimit") == ask("timer_create") == ask("timer_settime") == errno.EPERM
    limits = 0x7FFF_0000_1000
    assert ask("prlimit64", 0, 0, 0, limits) == 0
    assert ask("prlimit64", 0, 0, limits, 0) == errno.EPERM


@pytest.mark.parametrize(("call", "place"), [("prctl", 0), ("fcntl", 1), ("ioctl", 1)])
def test_of_calls_of_many_kinds_few_pass(ask: Ask, call: str, place: int) -> None:
    def passes(kind: int) -> bool:
        return ask(call, *[0] * place, kind) == 0

    looked_at = (*range(0x60), *range(0x400, 0x410), *range(0x5400, 0x5460), *range(0x8900, 0x8920))
    kinds = {kind for kind in looked_at if passes(kind)}
    allowed = {"prctl": rules._PRCTL, "fcntl": rules._FCNTL, "ioctl": rules._IOCTL}[call]
    assert kinds == {kind for kind in allowed if kind < 0x8920}
    # The kernel looks at the lower half alone.
    assert all(ask(call, *[0] * place, kind | 1 << 32) == 0 for kind in allowed)
    assert not any(passes(kind | 1 << 32) for kind in {*range(100)} - {*allowed})


def test_numbers_that_nobody_knows_do_not_exist(ask: Ask) -> None:
    assert {ask(number) for number in (*range(336, 424), *range(450, 600))} == {errno.ENOSYS}
    assert ask("clone3") == ask("io_uring_setup") == errno.ENOSYS


def test_numbers_of_another_architecture_end_the_process(ask: Ask, architecture: int) -> None:
    i386, arm = 0x40000003, 0x40000028
    for other in {X86_64, AARCH64, i386, arm} - {architecture}:
        assert ask("read", by=other) == KILLED
    if architecture == X86_64:
        assert ask(0x40000000) == KILLED  # x32


def test_the_program_fits_into_what_the_kernel_takes() -> None:
    program = seccomp.build()
    assert len(program) % 8 == 0
    assert len(program) // 8 < 4096


def test_a_program_without_a_place_for_the_own_pid_is_not_loaded() -> None:
    with pytest.raises(OSError, match="own pid"):
        seccomp.Loader(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))


def test_other_architectures_are_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(OSError, match="no system call filter for vax"):
        seccomp.build()
