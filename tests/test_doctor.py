"""The diagnosis says what this machine offers, and what to do for more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autograder import doctor
from autograder.doctor import diagnose
from autograder.examiner import zygotes
from autograder.examiner.zygotes import Tier


def with_tiers(monkeypatch: pytest.MonkeyPatch, a: str | None, b: str | None) -> None:
    found: dict[Tier, str | None] = {"A": a, "B": b}
    monkeypatch.setattr(zygotes, "probe", lambda: found)


def text() -> str:
    return "\n".join(diagnose().lines())


def test_the_best_tier_and_its_layers_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    with_tiers(monkeypatch, None, None)
    assert text().startswith("Student code runs in tier A: namespaces, landlock, seccomp.")
    assert not diagnose().missing


def test_a_missing_tier_is_explained_with_what_would_give_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with_tiers(monkeypatch, "namespaces: unshare: Operation not permitted", None)
    found = diagnose()
    assert found.tier == "B"
    assert "Tier A cannot be had: namespaces: unshare: Operation not permitted" in text()
    assert any("SYS_ADMIN" in advice for advice in found.advice)


def test_a_tier_below_the_best_is_told_but_needs_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    with_tiers(monkeypatch, None, "interpreter: /root/python cannot be read")
    found = diagnose()
    assert (found.tier, found.missing, found.advice) == (
        "A",
        {"B": "interpreter: /root/python cannot be read"},
        [],
    )


def test_without_any_tier_grading_others_is_said_to_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "seccomp: libseccomp.so.2 is missing"
    with_tiers(monkeypatch, reason, reason)
    assert diagnose().tier == "C"
    assert "Grading the work of others is refused here." in text()
    assert diagnose().advice == [
        "Install libseccomp: the package libseccomp2 (Debian, Ubuntu) or libseccomp (Fedora, Arch)."
    ]


@pytest.mark.parametrize(
    "step", ["system", "seccomp", "Landlock", "namespaces", "private root", "interpreter", "working folder"]
)
def test_every_reason_has_an_advice(step: str) -> None:
    assert list(doctor._advise(f"{step}: it failed"))


def test_this_machine_is_described_in_full() -> None:
    for word in ("System: ", "User: ", "Python: ", "Landlock: ", "seccomp: ", "User namespaces: "):
        assert word in text()


def test_the_diagnosis_needs_no_torch() -> None:
    program = "import sys; from autograder import doctor; doctor.diagnose(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
