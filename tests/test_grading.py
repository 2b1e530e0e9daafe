"""The whole way, from a notebook to a report, through real confined workers."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from autograder import grading
from autograder.errors import GraderFault
from autograder.examiner.client import GRACE_SECONDS, LaneLost
from autograder.grading import Grader
from autograder.messages import message
from autograder.notebook import Notebook
from autograder.report import GradeReport
from tests.engine import (
    ATTENTION,
    GOOD,
    GOOD_BODY,
    PROJECTION,
    ROOT,
    SEED,
    answered,
    attention,
    course,
    exercise,
    first_message,
    outcomes,
    release,
    with_cell,
)


@pytest.fixture
def graded(grader: Grader):  # type: ignore[no-untyped-def]
    def grade(notebook: Notebook | Path, assignment: str | None = "attention") -> GradeReport:
        return grader.grade(notebook, assignment, SEED).report

    return grade


def scores(report: GradeReport) -> tuple[float | None, ...]:
    return tuple(one.score for one in report.exercises)


# What honest students get


def test_the_solution_earns_every_point(graded) -> None:
    report = graded(course().source_notebook("attention"), None)
    assert report.complete and report.score == report.max_score == 20
    assert report.assignment == "attention"
    assert report.seed == SEED and len(report.suite_hash) == 64
    assert report.confinement in ("namespaces+landlock+seccomp", "landlock+seccomp")


def test_the_release_notebook_scores_zero_and_nothing_is_held_against_it(graded) -> None:
    report = graded(release())
    assert scores(report) == (0, 0)
    assert outcomes(report) | outcomes(report, "project_qkv") == {"not_attempted"}


def test_half_the_work_earns_half_the_marks(graded) -> None:
    assert scores(graded(answered(project_qkv=PROJECTION))) == (4, 0)


def test_a_famous_mistake_is_named(graded) -> None:
    report = graded(answered(**{ATTENTION: attention(GOOD_BODY.replace(" / Q.shape[-1] ** 0.5", ""))}))
    assert exercise(report).mistake == "no-scale"
    assert 0 < exercise(report).score < 16
    assert [check.id for check in exercise(report).checks if check.mistake] == ["scale"]


def test_a_correct_but_unusual_answer_earns_full_marks_whatever_it_prints(graded) -> None:
    body = (
        "import warnings; warnings.warn('x'); print(Q)\n"
        + GOOD_BODY.replace("return ", "yield_ = ")
        + ("\nreturn [yield_[0], yield_[1]]")
    )
    assert exercise(graded(answered(**{ATTENTION: attention(body)}))).score == 16


def test_an_exception_is_shown_as_type_text_and_line(graded) -> None:
    report = graded(answered(**{ATTENTION: attention("weights = Q\nraise KeyError('weights')")}))
    assert re.fullmatch(
        r"your function, called with (\w+ \(3, 4, \d\)(, )?){3} in float32, "
        r"raised KeyError: “'weights'” \(line 5 of the cell\): `raise KeyError\('weights'\)`",
        first_message(report).replace("(3, 6,", "(3, 4,"),
    )
    assert "error" in outcomes(report)


def test_the_same_exception_is_told_once(graded) -> None:
    body = "if K.dtype == torch.float64:\n    raise KeyError('double')\n" + GOOD_BODY
    checks = exercise(graded(answered(**{ATTENTION: attention(body)}))).checks
    first, *others = [check for check in checks if check.outcome == "error"]
    assert others and first.message and "KeyError" in first.message.render()
    assert {check.message.render() for check in others if check.message} == {
        f'the same error as in "{first.title.render()}"'
    }


def test_a_syntax_error_is_told_with_its_line_and_spoils_nothing_else(graded) -> None:
    report = graded(answered(project_qkv=PROJECTION, **{ATTENTION: attention("return (")}))
    assert scores(report) == (4, 0)
    assert re.fullmatch(
        rf"the cell that defines {ATTENTION} stopped with SyntaxError: “.+” \(line 4 of the cell\): `return \(`",
        first_message(report),
    )


def test_a_deleted_answer_is_told(graded) -> None:
    report = graded(answered(**{ATTENTION: "pass"}))
    assert first_message(report) == f"there is no function {ATTENTION} after your notebook has run"


def test_something_that_is_no_function_is_told(graded) -> None:
    assert (
        first_message(graded(answered(**{ATTENTION: f"{ATTENTION} = 3"})))
        == f"{ATTENTION} is no function but of type int"
    )


def test_an_error_in_another_cell_costs_nothing(graded) -> None:
    report = graded(with_cell(answered(project_qkv=PROJECTION, **{ATTENTION: GOOD}), 4, "1 / 0"))
    assert report.complete
    [note] = [note.render() for note in report.notes]
    assert note.endswith("stopped with ZeroDivisionError: “division by zero”; nothing was taken off for it")


def test_what_could_hide_a_finished_function_is_for_a_person_to_read_and_costs_nothing(graded) -> None:
    report = graded(answered(**{ATTENTION: attention("import sys\nsys._getframe()\n" + GOOD_BODY)}))
    assert exercise(report).score == 16
    [doubt] = [doubt.render() for doubt in report.doubts]
    assert doubt.startswith(f"nothing was taken off, but a person should read the answer to {ATTENTION}: it may call")
    assert doubt.endswith("by way of sys._getframe (line 5)")
    assert graded(answered(**{ATTENTION: GOOD})).doubts == ()


@pytest.mark.parametrize(
    ("code", "trains"),
    [
        ("from torch import nn, optim\noptim.AdamW(x)", True),
        ("opt = torch.optim.SGD(x)", True),
        ("from torch.utils.tensorboard import SummaryWriter", True),
        ("optimal = 1\nx.sum().backward()", False),
    ],
)
def test_a_lesson_trains_where_it_names_an_optimiser_or_tensorboard(tmp_path, code: str, trains: bool) -> None:
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [{"source": code}]}))
    assert grading._trains(tmp_path / "a.ipynb") is trains


def test_what_cannot_be_read_trains_nothing(tmp_path) -> None:
    assert not grading._trains(tmp_path / "missing.ipynb")


PATCHES = {
    "alias": ("import torch as t\nt.softmax = t.softmax", ".softmax = …"),
    "loop": ("import torch\nfor one in [torch]: one.softmax = one.softmax", ".softmax = …"),
    "setattr": ("import torch as t\nsetattr(t, 'soft' + 'max', t.softmax)", "setattr"),
    "namespace": ("import torch as t\nt.__dict__['softmax'] = t.softmax", "__dict__"),
    "private": ("from torch._inductor.fx_passes import fuse_attention", "torch._inductor.fx_passes"),
    "watch": ("import torch as t\nt._C._len_torch_function_stack()", "_C"),
    "mock": ("from unittest import mock", "unittest"),
}


@pytest.mark.parametrize(("cell", "what"), PATCHES.values(), ids=PATCHES.keys())
def test_a_cell_that_sets_what_the_answer_calls_is_for_a_person_to_read(graded, cell: str, what: str) -> None:
    report = graded(with_cell(answered(**{ATTENTION: GOOD}), 3, cell))
    assert exercise(report).score == 16
    [doubt] = [doubt.render().rpartition(" way of ")[2] for doubt in report.doubts]
    assert what in doubt


def test_a_cell_that_sets_other_attributes_raises_no_doubt(graded) -> None:
    cell = "class Kept:\n    def __init__(self):\n        self.mine = 1\n\nkept = Kept()\nkept.other = 2"
    assert graded(with_cell(answered(**{ATTENTION: GOOD}), 3, cell)).doubts == ()


def test_a_finished_function_in_a_thread_of_another_cell_is_for_a_person_to_read(graded) -> None:
    thread = """
import queue, threading, torch
asked, answered = queue.Queue(), queue.Queue()
def work():
    while True:
        q, k, v = asked.get()
        with torch.no_grad():
            answered.put(torch.nn.functional.scaled_dot_product_attention(q, k, v))
threading.Thread(target=work, daemon=True).start()
"""
    body = f"asked.put((Q, K, V))\nanswered.get()\n{GOOD_BODY}"
    report = graded(with_cell(answered(**{ATTENTION: attention(body)}), 3, thread))
    assert exercise(report).score == 16
    [doubt] = [doubt.render() for doubt in report.doubts]
    assert doubt.endswith("a thread that another cell has started called scaled_dot_product_attention")


def test_a_name_that_only_the_running_notebook_binds_is_for_a_person_to_read_and_a_slip_is_not(graded) -> None:
    late = attention(GOOD_BODY.replace("torch.softmax(", "share("))
    bound = with_cell(answered(**{ATTENTION: late}), 3, "exec('sha' + 're = torch.softmax')\nimport torch")
    bound = with_cell(bound, 3, "import torch")
    report = graded(bound)
    assert exercise(report).score == 16
    assert [doubt.render().rpartition(" way of ")[2] for doubt in report.doubts] == ["share (line 4)"]
    slip = attention("if Q.shape[0] == 1:\n    return shar(Q)\n" + GOOD_BODY)
    report = graded(answered(**{ATTENTION: slip}))
    assert 0 < exercise(report).score < 16
    assert report.doubts == ()


def test_an_answer_without_points_raises_no_doubts(graded) -> None:
    assert graded(answered(**{ATTENTION: attention("import sys\nreturn sys._getframe()")})).doubts == ()


def test_gradients_that_another_cell_has_switched_off_cost_nothing(graded) -> None:
    right = answered(project_qkv=PROJECTION, **{ATTENTION: GOOD})
    assert graded(with_cell(right, 4, "import torch\ntorch.set_grad_enabled(False)")).complete


def test_a_raise_line_that_was_left_is_told_and_is_not_called_untouched(graded) -> None:
    body = 'raise NotImplementedError("scaled_dot_product_attention is not written yet: replace")\n' + GOOD_BODY
    report = graded(answered(**{ATTENTION: attention(body)}))
    assert "error" in outcomes(report) and "not_attempted" not in outcomes(report)
    assert first_message(report).startswith("the line that raises NotImplementedError is still there (line 4")


LEANING = (
    "x, W = Q[..., :1], torch.ones(1, 1, dtype=Q.dtype)\nlike, _, _ = project_qkv(x, W, W, W)\n"
    + GOOD_BODY.replace("Q @", "(Q + like - x) @")
)
"""Right, if `project_qkv` is."""


def test_an_answer_that_calls_another_one_is_told_which_one_to_mend_first(graded) -> None:
    right = graded(answered(project_qkv=PROJECTION, **{ATTENTION: attention(LEANING)}))
    assert scores(right) == (4, 16)
    slip = PROJECTION.replace("x @ W_q", "2 * (x @ W_q)")
    report = exercise(graded(answered(project_qkv=slip, **{ATTENTION: attention(LEANING)})))
    assert report.score < 16 and report.mistake is None
    assert report.diagnosis.render() == (
        "your answer calls project_qkv, which does not have all its points: mend that one first"
    )


def test_a_name_that_is_only_mentioned_is_not_called(graded) -> None:
    body = '"""As project_qkv(x) does."""\n# project_qkv(x)\n' + GOOD_BODY.replace(" / Q.shape[-1] ** 0.5", "")
    report = exercise(
        graded(answered(project_qkv="def project_qkv(*a):\n    return a", **{ATTENTION: attention(body)}))
    )
    assert report.mistake == "no-scale"


def test_an_answer_that_calls_a_stub_is_told_so_and_not_of_a_line_of_its_own(graded) -> None:
    report = graded(answered(**{ATTENTION: attention(LEANING)}))
    assert first_message(report) == "your function calls project_qkv, which is not written yet"


def test_a_cell_that_stops_below_its_function_is_told_before_anything_else(graded) -> None:
    slipped = f"import torch\ndef {ATTENTION}(Q, K, V):\n    scores = Q @ K.mT\nweights = torch.softmax(scores, -1)\n"
    report = graded(answered(**{ATTENTION: slipped}))
    assert first_message(report) == (
        f"the cell that defines {ATTENTION} stopped with NameError: “name 'scores' is not defined” "
        "(line 4 of the cell): `weights = torch.softmax(scores, -1)`"
    )
    assert exercise(report).mistake is None


def test_a_hint_fits_what_went_wrong(graded) -> None:
    report = graded(answered(**{ATTENTION: attention("return torch.softmx(Q @ K.mT), Q")}))
    assert exercise(report).checks[0].hint == message("Did you mean `{name}`?", name="softmax")
    report = graded(answered(**{ATTENTION: attention("return Q.flibber(), Q")}))
    assert exercise(report).checks[0].hint is None
    report = graded(answered(**{ATTENTION: attention("return wieghts, Q")}))
    hint = exercise(report).checks[0].hint
    assert hint is not None and hint.render().startswith("Is the name spelt")


def test_a_slow_and_memory_hungry_answer_is_still_an_answer(graded) -> None:
    body = "import time; time.sleep(0.01); big = torch.ones(8 << 20)\n" + GOOD_BODY
    assert exercise(graded(answered(**{ATTENTION: attention(body)}))).score == 16


# What can't cross


@pytest.mark.parametrize(
    ("returned", "seen"),
    [
        ("None", "return"),
        ("weights @ V", "tensor"),
        ("(w for w in (weights @ V, weights))", "generator"),
        ("(weights @ V).numpy(), weights.numpy()", "numpy"),
        ("(weights @ V).to_sparse(), weights", "sparse"),
        ("torch.empty(3, 4, 7, device='meta'), weights", "meta"),
        ("Sub(weights @ V), weights", "Sub"),
        ("torch.zeros(1).expand(3, 4, 7, 10**9), weights", "large"),
        ("Liar(), weights", "Liar"),
    ],
)
def test_what_is_no_plain_tensor_fails_with_a_plain_reason(graded, returned: str, seen: str) -> None:
    before = """
class Sub(torch.Tensor):
    def __new__(cls, data): return torch.Tensor._make_subclass(cls, data)
class Liar:
    shape = (3, 4, 7); dtype = torch.float32; __class__ = torch.Tensor
    def __eq__(self, other): return True
    def __len__(self): return 3
"""
    body = GOOD_BODY.rpartition("return ")[0] + f"return {returned}"
    report = graded(answered(**{ATTENTION: attention(body, before)}))
    assert outcomes(report) == {"failed", "skipped"}
    assert seen.lower() in first_message(report).lower()


def test_gigabytes_are_refused_and_the_next_exercise_is_graded(graded) -> None:
    huge = "def project_qkv(x, W_q, W_k, W_v):\n    import torch\n    return (torch.zeros(100 << 20),) * 3\n"
    report = graded(answered(project_qkv=huge, **{ATTENTION: GOOD}))
    assert scores(report) == (0, 16)


TWIST = "with torch.no_grad():\n    Q.transpose_(-1, -2)\nQ = Q.mT\n" + GOOD_BODY


def test_an_input_that_is_transposed_in_place_costs_harmlessness_alone(graded) -> None:
    report = graded(answered(**{ATTENTION: attention(TWIST)}))
    lost = [check for check in exercise(report).checks if check.outcome != "passed"]
    assert [check.outcome for check in lost] == ["failed"]
    assert first_message(report).startswith("your function changes what it is given")


# What must not pay


# What the answer's body does, and what its cell does before.
FORGERIES = {
    "the kernel's displayhook": ("return 16.0", "get_ipython().displayhook(16.0)\n16.0"),
    "printed markers": ('print(\'{"score": 16, "outcome": "passed"}\')', "print('16.0')"),
    "equality that is always true": (
        "return Yes(), Yes()",
        """
class Yes:
    def __eq__(self, other): return True
    def __getattr__(self, name): return Yes()
    def __call__(self, *args, **kwargs): return Yes()
    def __bool__(self): return True
""",
    ),
    "a patched torch": (
        "return Q, K",
        """
torch.allclose = torch.equal = lambda *args, **kwargs: True
torch.Tensor.__eq__ = lambda self, other: True
""",
    ),
    "patched builtins": ("return Q, K", "import builtins\nbuiltins.abs = builtins.float = lambda x: 0.0"),
    "torch functions that lie": (
        "return Lie(Q), Lie(K)",
        """
class Lie(torch.Tensor):
    def __new__(cls, x): return torch.Tensor._make_subclass(cls, x)
    @classmethod
    def __torch_function__(cls, *args, **kwargs): return True
""",
    ),
    "frames on every descriptor": (
        """
import os, struct, json
head = json.dumps({"re": 5, "result": None, "storages": [], "tensors": [], "changed": []}).encode()
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack(">II", len(head), 0) + head)
    except OSError:
        pass
return Q, K
""",
        "",
    ),
    "a worker that says what it likes": (
        "return Q, K",
        """
from autograder.worker.calls import Callee
def answer(self, function, header, blob):
    return {"result": True, "outcome": "passed", "score": 16, "tensors": [], "storages": [], "changed": []}, []
Callee.call = answer
""",
    ),
    "an exit with success": ("import os\nos._exit(0)", ""),
    "a walk to the grader's objects": (
        """
import gc, sys
for thing in gc.get_objects():
    if isinstance(thing, dict) and "score" in thing:
        thing["score"] = 16
ours = ("autograder.examiner", "autograder.suite", "autograder.report", "_pytest")
assert not any(name.startswith(ours) for name in sys.modules)
return Q, K
""",
        "",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forging_changes_no_score(graded, forgery: str) -> None:
    body, before = FORGERIES[forgery]
    report = graded(answered(project_qkv=PROJECTION, **{ATTENTION: attention(body, before)}))
    assert scores(report)[0] == 4
    assert scores(report)[1] in (0, 0.5), "nothing but harmlessness may be earned by a forgery"
    assert report.status == "graded"


LIES = {
    "outputs that are no outputs": ('header["outputs"] = [1, 2, {"output_type": "stream", "name": 3}]', "outputs"),
    "an error that is none": ('header["error"] = {"type": {}, "line": 10**400, "x": [[]] * 10**5}', "outputs"),
    "gradients that are none": ('header["grads"] = 5', "grads"),
    "tables that are none": ('header["tensors"] = "nonsense"', "result"),
    "a sighting that is none": ('header["forbidden"] = 7', "result"),
}


@pytest.mark.parametrize("lie", LIES)
def test_no_lie_on_the_channel_makes_the_grader_fail(graded, lie: str) -> None:
    what, where = LIES[lie]
    before = f"""
import autograder.channel.frames as frames
honest = frames.send
def send(sock, header, blobs=(), **options):
    if "{where}" in header:
        {what}
    honest(sock, header, blobs, **options)
frames.send = send
"""
    no_scale = attention(GOOD_BODY.replace(" / Q.shape[-1] ** 0.5", ""), before)
    report = graded(answered(project_qkv=PROJECTION, **{ATTENTION: no_scale}))
    assert report.status == "graded"
    assert report.exercises[1].score < 16


def test_a_sum_of_thousands_of_terms_is_an_answer_like_any_other(graded) -> None:
    deep = f"import torch\ndef {ATTENTION}(Q, K, V):\n    return {'+'.join('1' * 3000)}\n"
    assert graded(answered(project_qkv=PROJECTION, **{ATTENTION: deep})).exercises[0].score == 4


def test_megabytes_in_every_result_do_not_pile_up_in_the_grader(graded) -> None:
    body = GOOD_BODY.replace(
        "return weights @ V, weights",
        """
wide = torch.zeros(*weights.shape, 1 << 14, dtype=weights.dtype)
wide[..., 0] = weights
return weights @ V, wide[..., 0]""",
    )
    assert exercise(graded(answered(**{ATTENTION: attention(body)}))).score >= 10


READ = """
import os

def look(path):
    try:
        if os.path.isdir(path):
            return str(os.listdir(path))
        with open(path, "rb") as file:
            return str(file.read(100))
    except OSError as error:
        return None
"""


def test_no_byte_of_the_hidden_suites_or_of_another_submission_is_readable(graded) -> None:
    paths = [
        ROOT,
        ROOT / "course.yml",
        ROOT / "tests",
        ROOT / "tests" / "hidden" / "attention" / f"test_{ATTENTION}.py",
        ROOT / "examples" / "submissions" / "amara" / "attention" / "attention.ipynb",
        ROOT / "source" / "attention" / "attention.ipynb",
        ROOT / "autograder" / "suite" / "_checks.py",
        ROOT / ".autograder" / "seed",
        Path("/proc/1/root") / (ROOT / "course.yml").relative_to("/"),
        Path.home() / ".bashrc",
        Path("/etc/passwd"),
    ]
    assert paths[3].is_file() and paths[4].is_file(), "the test looks for files that exist"
    # In tier A the folders above the venv exist, with nothing else in them.
    body = (
        f"seen = [(p, look(p)) for p in {[str(path) for path in paths]!r}]\n"
        "seen = [(p, s) for p, s in seen if s not in (None, '[]', \"['.venv']\")]\n"
        "import glob\nseen += glob.glob('/**/test_scaled_dot_product_attention.py', recursive=True)\n"
        "if seen: raise RuntimeError(f'READ {seen}')\n" + GOOD_BODY
    )
    report = graded(answered(**{ATTENTION: attention(body, READ)}))
    assert exercise(report).score == 16, first_message(report)


def test_the_finished_article_is_forbidden_by_name_and_line(graded) -> None:
    before = "import torch.nn.functional as F\nhelper = F.scaled_dot_product_attention"
    report = graded(answered(**{ATTENTION: attention("o = helper(Q, K, V)\nreturn o, o", before)}))
    assert outcomes(report) == {"forbidden"} and exercise(report).score == 0
    assert "torch.nn.functional.scaled_dot_product_attention (line 5 of the cell)" in first_message(report)


NAME = "'_'.join(['scaled', 'dot', 'product', 'attention'])"
HIDDEN_CALLS = {
    "by a name that is put together": f"o = vars(F)[{NAME}](Q, K, V)",
    "from another thread": f"from concurrent.futures import ThreadPoolExecutor\n"
    f"o = ThreadPoolExecutor(1).submit(vars(F)[{NAME}], Q, K, V).result()",
    "with torch functions disabled": f"with torch._C.DisableTorchFunction():\n    o = vars(F)[{NAME}](Q, K, V)",
    "from a traced graph": "o = traced(Q, K, V)",
}
TRACED = f"""
import torch.nn.functional as F
traced = torch.jit.trace(vars(F)[{NAME}], (torch.ones(1, 2, 2),) * 3, check_trace=False)
"""


@pytest.mark.parametrize("how", HIDDEN_CALLS)
def test_a_call_hidden_from_the_source_is_seen_while_it_runs(graded, how: str) -> None:
    body = f"{HIDDEN_CALLS[how]}\nreturn o, torch.softmax(Q @ K.mT, -1)"
    assert outcomes(graded(answered(**{ATTENTION: attention(body, TRACED)}))) == {"forbidden"}


def test_a_comparison_beside_the_answer_is_no_offence(graded) -> None:
    compare = f"""
import numpy as np, torch.nn.functional as F
x = torch.ones(1, 2, 3)
F.scaled_dot_product_attention(x, x, x)
torch.testing.assert_close({ATTENTION}(x, x, x)[0], F.scaled_dot_product_attention(x, x, x))
np.testing.assert_allclose({ATTENTION}(x, x, x)[0], F.scaled_dot_product_attention(x, x, x))
"""
    assert exercise(graded(answered(**{ATTENTION: GOOD + compare}))).score == 16


# What hangs, dies or floods


@pytest.fixture
def hasty(grader: Grader, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    limits = msgspec.structs.replace(course().limits, call_seconds=1.0, cell_seconds=1.0, restarts=2)
    monkeypatch.setattr(grader, "_course", msgspec.structs.replace(course(), limits=limits))
    return lambda notebook: grader.grade(notebook, "attention", SEED).report


def test_a_hang_costs_its_own_exercise_and_the_deadline_holds(hasty) -> None:
    started = time.monotonic()
    report = hasty(answered(project_qkv=PROJECTION, **{ATTENTION: attention("while True: pass")}))
    assert time.monotonic() - started < 20
    assert scores(report) == (4, 0)
    assert first_message(report).startswith("your function gave no answer within 1 seconds")


def test_a_call_that_hangs_costs_its_own_check_alone(hasty) -> None:
    body = "if Q.dtype == torch.bfloat16:\n    while True: pass\n" + GOOD_BODY
    report = hasty(answered(**{ATTENTION: attention(body)}))
    lost = {check.id: check.outcome for check in exercise(report).checks if check.outcome != "passed"}
    assert lost == {"dtypes": "timeout"}


def test_a_call_that_ends_the_process_costs_its_own_check_alone(hasty) -> None:
    body = "if Q.dtype == torch.bfloat16:\n    import os; os._exit(0)\n" + GOOD_BODY
    report = hasty(answered(**{ATTENTION: attention(body)}))
    lost = {check.id: check.outcome for check in exercise(report).checks if check.outcome != "passed"}
    assert lost == {"dtypes": "crashed"}


def test_a_cell_that_kills_the_process_costs_nothing_but_itself(hasty) -> None:
    notebook = with_cell(answered(project_qkv=PROJECTION, **{ATTENTION: GOOD}), 4, "import os; os._exit(3)")
    assert hasty(with_cell(notebook, 5, "while True: pass")).complete


def test_dying_again_and_again_ends(hasty) -> None:
    body = "import os, torch\nif torch.rand(()) >= 0: os._exit(1)"
    report = hasty(answered(project_qkv=PROJECTION, **{ATTENTION: attention(body)}))
    assert scores(report) == (4, 0) and outcomes(report) == {"crashed", "skipped"}


def test_a_hundred_megabytes_of_prints_cost_nothing(grader: Grader) -> None:
    flood = PROJECTION + "for _ in range(100): print('x' * 2**20)\n"
    graded = grader.grade(answered(project_qkv=flood, **{ATTENTION: GOOD}), "attention", SEED)
    assert graded.report.complete
    assert graded.examined is not None
    assert sum(len(str(outputs)) for outputs in graded.examined.outputs.values()) < 3 << 20


def test_a_hunger_for_memory_is_out_of_memory(graded) -> None:
    report = graded(answered(**{ATTENTION: attention("return torch.ones(1 << 40), Q")}))
    assert exercise(report).checks[0].outcome == "out_of_memory"


# One submission after the other


def test_a_report_holds_nothing_of_an_earlier_submission(grader: Grader) -> None:
    marker = "XYZZY"
    bad = attention(f"print('{marker}')\nraise ValueError('{marker}')", f"{marker} = 1")
    good = answered(project_qkv=PROJECTION, **{ATTENTION: GOOD})
    before = grader.grade(good, "attention", SEED)
    dirty = grader.grade(answered(**{ATTENTION: bad}), "attention", SEED)
    after = grader.grade(good, "attention", SEED)
    assert marker in str(dirty.report)
    assert marker not in str(after.report) + str(after.examined)
    assert after.report == before.report


def test_the_same_seed_gives_the_same_report_and_another_seed_other_draws(grader: Grader) -> None:
    wrong = answered(**{ATTENTION: attention(GOOD_BODY.replace("return weights @ V", "return weights @ V + Q.sum()"))})
    first, again, other = (grader.grade(wrong, "attention", seed).report for seed in (1, 1, 2))
    assert first == again
    assert replace_seed(other, 1) != first


def replace_seed(report: GradeReport, seed: int) -> GradeReport:
    return msgspec.structs.replace(report, seed=seed)


def test_a_class_is_graded_in_order_by_two_workers(grader: Grader) -> None:
    class_ = [
        release(),
        answered(project_qkv=PROJECTION),
        Path("nowhere.ipynb"),
        course().source_notebook("attention"),
    ]
    reports = [graded.report for graded in grader.grade_many([(one, "attention") for one in class_], SEED)]
    assert [(report.status, report.score) for report in reports] == [
        ("graded", 0), ("graded", 4), ("unusable", None), ("graded", 20),
    ]  # fmt: skip


# Faults of ours


def test_a_fault_of_the_grader_leaves_the_score_empty(grader: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: object) -> None:
        raise GraderFault("the disk is full")

    monkeypatch.setattr(grader, "_examine", broken)
    report = grader.grade(release(), "attention", SEED).report
    assert report.status == "ungraded" and report.score is None and not report.complete
    assert [one.score for one in report.exercises] == [None, None]
    assert report.error is not None and "the disk is full" in report.error.render()


def test_a_lane_that_dies_costs_a_retry_and_no_result(grader: Grader) -> None:
    import os
    import signal

    grader.grade(release(), "attention", SEED)
    os.kill(grader._lanes.lane._pid, signal.SIGKILL)
    assert grader.grade(answered(project_qkv=PROJECTION), "attention", SEED).report.score == 4


@pytest.mark.parametrize(("fault", "attempts"), [(LaneLost("killed"), 1), (GraderFault("no process"), 2)])
def test_a_submission_that_has_cost_a_lane_is_not_handed_in_again(
    grader: Grader, monkeypatch: pytest.MonkeyPatch, fault: GraderFault, attempts: int
) -> None:
    deadlines = []

    class Fails:
        def examine(self, job: object, deadline: float) -> None:
            deadlines.append(deadline)
            raise fault

        def close(self) -> None:
            pass

    monkeypatch.setattr(grader, "_new_lane", Fails)
    monkeypatch.setattr(grader._lanes, "lane", None, raising=False)
    assert grader.grade(release(), "attention", SEED).report.status == "ungraded"
    assert len(deadlines) == attempts and len(set(deadlines)) == 1
    assert deadlines[0] - time.monotonic() <= course().limits.submission_seconds + GRACE_SECONDS


def test_a_file_that_is_no_notebook_is_unusable_with_one_sentence(graded, tmp_path: Path) -> None:
    path = tmp_path / "essay.txt"
    path.write_text("Attention is all you need.\n")
    report = graded(path, None)
    assert report.status == "unusable" and report.score is None
    assert report.error is not None and str(path) in report.error.render()


def test_a_notebook_with_nothing_of_the_assignment_is_unusable_and_no_zero(graded) -> None:
    report = graded(replace(release(), cells=()))
    assert report.status == "unusable" and report.score is None
    assert report.error is not None and "holds none of the exercises of attention" in report.error.render()
