"""What confinement this machine offers for student code, and what would give it more.

It is found out by trying, in throw-away processes that import no torch. `diagnose()` is the data,
`Diagnosis.lines()` the text that `autograder doctor` prints. What is Linux's is imported where it is used.
"""

from __future__ import annotations

import dataclasses
import getpass
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from autograder.examiner import zygotes
from autograder.examiner.zygotes import Tier
from autograder.worker import surroundings

_LAYERS = {
    "namespaces": "a private view of files, processes and network: the course is not there at all",
    "landlock": "the kernel refuses all files but Python's own and the worker's folder",
    "seccomp": "the kernel refuses programs, processes, sockets and rare system calls",
}
_USER_NAMESPACES = (
    # a setting, the value that forbids, what it means
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user namespaces are switched off (sysctl user.max_user_namespaces)",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "only root may make them (sysctl kernel.unprivileged_userns_clone)",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor allows them to listed programs only (sysctl kernel.apparmor_restrict_unprivileged_userns)",
    ),
)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What was found. `missing` says of each tier that cannot be had why; `advice` what to do about it."""

    tier: Tier
    missing: dict[Tier, str]
    advice: list[str]
    system: str
    user: str
    python: str
    landlock_abi: int
    seccomp: str
    user_namespaces: str

    @property
    def layers(self) -> list[str]:
        """The layers that hold student code here, the outermost first."""
        return surroundings.layers(self.tier)

    def lines(self) -> Iterator[str]:
        """The diagnosis in words, a fact a line."""
        held = ", ".join(self.layers) or "not confined, only bounded in time"
        yield f"Student code runs in tier {self.tier}: {held}."
        for layer in self.layers:
            yield f"  {layer}: {_LAYERS[layer]}"
        if self.tier == "C":
            yield "  Fit for checking one's own work. Grading the work of others is refused here."
        for tier, reason in self.missing.items():
            yield f"Tier {tier} cannot be had: {reason}"
        for advice in self.advice:
            yield f"  → {advice}"
        yield f"System: {self.system}"
        yield f"User: {self.user}"
        yield f"Python: {self.python}"
        yield f"Landlock: {f'ABI {self.landlock_abi}' if self.landlock_abi else 'not offered by this kernel'}"
        yield f"seccomp: {self.seccomp}"
        yield f"User namespaces: {self.user_namespaces}"


def diagnose() -> Diagnosis:
    """Look at this machine, as the user who calls, and with the Python that runs."""
    found = zygotes.probe()
    missing = {tier: reason for tier, reason in found.items() if reason is not None}
    tier: Tier = next((tier for tier in found if tier not in missing), "C")
    better = [reason for name, reason in missing.items() if name < tier]
    on_linux = sys.platform == "linux"
    return Diagnosis(
        tier=tier,
        missing=missing,
        advice=list(dict.fromkeys(advice for reason in better for advice in _advise(reason))),
        system=f"{platform.system()} {platform.release()} on {platform.machine()}",
        user=_user(),
        python=f"{platform.python_version()} at {sys.executable}",
        landlock_abi=_landlock_abi() if on_linux else 0,
        seccomp=_seccomp() if on_linux else "not on this system",
        user_namespaces=_user_namespaces() if on_linux else "not on this system",
    )


def _user() -> str:
    name = getpass.getuser()
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return name
    return f"root, {'with' if _may_mount() else 'but without'} CAP_SYS_ADMIN; student code never runs as root"


def _may_mount() -> bool:
    if sys.platform != "linux":
        return False
    from autograder.worker import syscalls

    return syscalls.has_capability(syscalls.CAP_SYS_ADMIN)


def _landlock_abi() -> int:
    from autograder.worker import landlock

    return landlock.abi()


def _seccomp() -> str:
    from autograder.worker import seccomp

    try:
        instructions = len(seccomp.build()) // 8
    except OSError as error:
        return str(error)
    return f"a filter of {instructions} instructions, built by {seccomp.LIBRARY}"


def _user_namespaces() -> str:
    for setting, forbidding, meaning in _USER_NAMESPACES:
        try:
            if Path(setting).read_text().strip() == forbidding:
                return meaning
        except OSError:
            continue  # the setting is not known to this kernel
    return "no setting forbids them; a container may"


def _advise(reason: str) -> Iterator[str]:
    """What to do about a reason that `zygotes.probe` gives: "<step>: <what went wrong>"."""
    step, _, _ = reason.partition(":")
    if step == "system":
        yield "Grade on Linux; a container or a virtual machine will do."
    elif step == "seccomp":
        yield "Install libseccomp: the package libseccomp2 (Debian, Ubuntu) or libseccomp (Fedora, Arch)."
    elif step == "Landlock":
        yield "Use Linux 5.13 or later, with landlock among the kernel's security modules (boot option lsm=)."
    elif step in ("namespaces", "private root"):
        yield f"User namespaces: {_user_namespaces()}."
        yield "In Docker, allow them: --security-opt seccomp=unconfined, or --cap-add SYS_ADMIN for root."
    elif step == "interpreter":
        yield "Install Python and the virtual environment where every user can read them, such as under /opt."
    elif step == "working folder":
        yield "Set TMPDIR to a folder that every user can pass through, such as /tmp."
