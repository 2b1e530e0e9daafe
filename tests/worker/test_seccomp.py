"""The system call filter, as far as it can be looked at without loading it; test_confine.py attacks it."""

from __future__ import annotations

import platform
import struct

import pytest

from autograder.worker import seccomp

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


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the names are compared with those of x86-64")
def test_no_name_is_misspelt() -> None:
    names = {
        *seccomp.REFUSED,
        *seccomp.MISSING,
        *seccomp.IGNORED,
        *(name for name, _ in seccomp._CONDITIONAL),
    }
    assert {name for name in names if LIBRARY.number(name) is None} == OF_OTHER_ARCHITECTURES


def test_no_call_is_named_twice() -> None:
    names = [*seccomp.REFUSED, *seccomp.MISSING, *seccomp.IGNORED]
    assert len(names) == len({*names})


def test_the_program_fits_into_what_the_kernel_takes() -> None:
    program = seccomp.build()
    assert len(program) % 8 == 0
    assert len(program) // 8 < 4096


def test_the_program_has_a_place_for_the_own_pid() -> None:
    values = [value for *_, value in struct.iter_unpack("=HBBI", seccomp.build())]
    assert seccomp._OWN_PID in values


def test_a_program_without_that_place_is_not_loaded() -> None:
    with pytest.raises(OSError, match="own pid"):
        seccomp.load(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000), 1)


def test_other_architectures_are_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(OSError, match="no system call filter for vax"):
        seccomp.build()
