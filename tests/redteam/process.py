"""Turning the worker's own process against the grader: patches, hooks, walks and signals."""

from __future__ import annotations

from functools import partial

from tests.engine import ATTENTION, GOOD, attention
from tests.redteam.bank import END, START, Case

_case = partial(Case, family="process")
WRONG = "return Q, K"


def _wrong(id: str, tries: str, before: str, body: str = WRONG, **more: object) -> Case:
    """A worthless answer with a preparation that would make it pass, if it could."""
    return _case(id=id, tries=tries, score=0.0, answers={ATTENTION: attention(body, before)}, **more)  # type: ignore[arg-type]


def _beside(id: str, tries: str, source: str, place: int = START, **more: object) -> Case:
    """A cell of mischief beside right answers, which keep their points."""
    return _case(id=id, tries=tries, score=16.0, cells=((place, source),), **more)  # type: ignore[arg-type]


PATCHES = (
    _wrong(
        "comparisons-of-torch",
        "patches all that compares tensors, in torch, in its methods and in torch.testing",
        """
import torch.testing
yes = lambda *args, **kwargs: True
for name in ("allclose", "equal", "isclose", "eq", "isfinite", "is_tensor"): setattr(torch, name, yes)
for name in ("__eq__", "allclose", "equal", "isclose", "all", "any"): setattr(torch.Tensor, name, yes)
torch.testing.assert_close = yes
""",
    ),
    _wrong(
        "methods-of-tensors",
        "patches the methods by which a tensor is read, so that every tensor looks as a right one would",
        """
right = torch.full((3, 4, 7), 0.25)
for name in ("detach", "contiguous", "clone", "cpu", "numpy", "view", "resolve_conj"):
    setattr(torch.Tensor, name, lambda self, *args, **kwargs: right)
torch.Tensor.shape = property(lambda self: torch.Size((3, 4, 7)))
torch.Tensor.dtype = property(lambda self: torch.float32)
torch.Tensor.__float__ = lambda self: 16.0
""",
    ),
    _wrong(
        "builtins",
        "patches the builtins that decide, for all that runs after the call: abs, max, sum, all, any, float, len",
        """
import builtins
def patch():
    for name in ("abs", "max", "min", "sum", "round"): setattr(builtins, name, lambda *args, **kwargs: 0.0)
    builtins.all = builtins.any = builtins.callable = lambda *args: True
    builtins.float, builtins.len = (lambda *args: 16.0), (lambda *args: 2)
""",
        body="patch()\nreturn Q, K",
    ),
    _wrong(
        "numpy",
        "patches numpy's comparisons and conversions",
        """
import numpy
for name in ("allclose", "array_equal", "isclose", "all"): setattr(numpy, name, lambda *args, **kwargs: True)
numpy.testing.assert_allclose = numpy.testing.assert_array_equal = lambda *args, **kwargs: None
numpy.asarray = numpy.array = lambda *args, **kwargs: 16.0
""",
    ),
    _wrong(
        "module-table",
        "puts modules of its own in the place of the grader's, of pytest and of the suites",
        """
import sys, types
class Agreeing(types.ModuleType):
    def __getattr__(self, name): return lambda *args, **kwargs: True
for name in ("pytest", "_pytest", "autograder", "autograder.suite", "autograder.suite._tensors", "autograder.report",
             "autograder.examiner", "autograder.examiner.marking", "tests", "tests.hidden", "conftest"):
    sys.modules[name] = Agreeing(name)
sys.meta_path.insert(0, Agreeing("finder"))
""",
    ),
    _wrong(
        "callee-that-says-passed",
        "makes the worker answer every call with a verdict instead of a result",
        """
from autograder.worker.calls import Callee
Callee.call = Callee.backward = lambda self, *args: (
    {"result": True, "outcome": "passed", "passed": True, "score": 16, "tensors": [], "storages": [], "changed": []}, []
)
""",
        outcomes=("failed", "crashed", "skipped"),
    ),
    _wrong(
        "encoder-that-agrees",
        "makes the worker's encoder send a tensor for whatever is returned, and its handler report no error",
        """
from autograder.channel.codec import Encoder
honest = Encoder.value
Encoder.value = lambda self, value, depth=0: honest(self, value if depth else (torch.ones(3, 4, 7),) * 2, depth)
import autograder.worker.calls as calls
calls.describe_exception = lambda *args: {}
""",
    ),
    _wrong(
        "every-module-of-ours",
        "replaces every function of every module of the grader's that the worker holds by one that returns True",
        """
import sys, types
def patch():
    for name, module in list(sys.modules.items()):
        if name.startswith("autograder"):
            for key, thing in list(vars(module).items()):
                if isinstance(thing, types.FunctionType): setattr(module, key, lambda *args, **kwargs: True)
""",
        body="patch()\nreturn Q, K",
        outcomes=("crashed", "skipped", "error", "failed"),
    ),
)

HOOKS = (
    _wrong(
        "ast-transformer",
        "rewrites the syntax tree of every later cell, the graded ones too, to nothing but `16.0`",
        """
import ast
class Nothing(ast.NodeTransformer):
    def visit_Module(self, node): return ast.parse("16.0")
get_ipython().ast_transformers.append(Nothing())
""",
    ),
    _wrong(
        "input-transformers",
        "rewrites the text of every later cell, cleans it up to a forged result",
        """
for transformers in (get_ipython().input_transformers_post, get_ipython().input_transformer_manager.cleanup_transforms):
    transformers.insert(0, lambda lines: ["print('11 passed')\\n", "16.0\\n"])
""",
    ),
    _wrong(
        "custom-exceptions",
        "takes over every exception of the shell, and calls it a success",
        """
def fine(shell, kind, error, trace, tb_offset=None): return ["16.0"]
get_ipython().set_custom_exc((BaseException,), fine)
get_ipython().showtraceback = lambda *args, **kwargs: None
""",
        body="raise ValueError('nothing')",
        outcomes=("error", "skipped"),
    ),
    _wrong(
        "another-run-cell",
        "replaces the shell's run_cell, its namespace and its result",
        """
import types
shell = get_ipython()
good = types.SimpleNamespace(success=True, error_before_exec=None, error_in_exec=None, result=16.0)
shell.run_cell = lambda *args, **kwargs: good
class Space(dict):
    def get(self, name, default=None): return lambda *args, **kwargs: 16.0
shell.user_ns = Space(shell.user_ns)
""",
    ),
    _wrong(
        "exit-with-a-message",
        "writes a reply in an atexit handler, and leaves with success from within the call",
        """
import atexit, os, sys
def last_words():
    for fd in range(1, 64):
        try: os.write(fd, b'{"outcome": "passed", "score": 16}')
        except OSError: pass
atexit.register(last_words)
""",
        body="try: exit()\nfinally: sys.exit(0)",
        outcomes=("error", "crashed", "skipped"),
    ),
    _wrong(
        "exit-at-once",
        "ends the process with success from within the call",
        "import os",
        body="os._exit(0)",
        outcomes=("crashed", "skipped"),
    ),
    _wrong(
        "kill-itself",
        "sends itself signals that end or stop it",
        "import os, signal",
        body="os.kill(os.getpid(), signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGKILL)",
        # The first process of a namespace is deaf to its own signals, and the second one is refused.
        outcomes=("crashed", "timeout", "error", "skipped"),
    ),
    _wrong(
        "signal-handlers",
        "has a timer interrupt the grader's code every millisecond, to change what that is about to send",
        """
import signal, sys
def meddle(number, frame):
    while frame is not None:
        for name in ("reply", "header", "seen"):
            thing = frame.f_locals.get(name)
            if isinstance(thing, dict) and "changed" in thing: thing.update(result=True, outcome="passed", score=16)
        frame = frame.f_back
for name in ("ALRM", "TERM", "INT", "USR1", "PIPE"): signal.signal(getattr(signal, "SIG" + name), meddle)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
""",
        outcomes=("failed", "error", "crashed", "skipped"),
    ),
    _wrong(
        "trace-functions",
        "traces and profiles the grader's code in the worker, and changes replies as they pass",
        """
import sys, threading
def meddle(frame, event, argument):
    for name in ("reply", "header"):
        thing = frame.f_locals.get(name)
        if isinstance(thing, dict) and "changed" in thing: thing.update(result=True, outcome="passed", score=16)
    return meddle
""",
        body="sys.settrace(meddle)\nsys.setprofile(meddle)\nthreading.setprofile(meddle)\nreturn Q, K",
        outcomes=("failed", "error", "crashed", "skipped"),
    ),
    _wrong(
        "audit-hook",
        "listens to every event of the interpreter for paths of suites, and answers from what it hears",
        """
import sys
heard = []
def listen(event, args):
    telling = "hidden" in str(args) or "test_" in str(args)
    if telling and event in ("open", "import", "os.listdir", "os.scandir"): heard.append(args)
sys.addaudithook(listen)
""",
        body="if heard: raise LookupError(str(heard))\nreturn Q, K",
        outcomes=("failed", "skipped"),
    ),
)

WALKS = (
    _wrong(
        "collector-walk",
        "looks among all objects of the process for tensors and texts that it was not given: a reference, a suite",
        """
import gc, sys
OWN = [thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor)]
def strangers(*given):
    known = {id(tensor) for tensor in (*given, *OWN)}
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor) and id(thing) not in known:
            if thing.shape[:2] == given[0].shape[:2]: yield thing
        if isinstance(thing, dict) and {"expected", "outcome"} & {key for key in thing if isinstance(key, str)}:
            thing.update(score=16, outcome="passed")
""",
        body="found = list(strangers(Q, K, V))[:2]\nif len(found) < 2: raise LookupError('nothing')\nreturn found",
        outcomes=("error", "failed", "skipped"),
    ),
    _wrong(
        "stack-walk",
        "looks in all callers' frames for what is expected of it, and for tensors beside its inputs",
        """
import inspect
def above(*given):
    known = {id(tensor) for tensor in given}
    for info in inspect.stack(0)[2:]:
        for name, thing in info.frame.f_locals.items():
            if name in ("expected", "reference", "wanted", "rng") and name not in info.frame.f_globals: yield thing
            for one in thing if isinstance(thing, (list, tuple)) else [thing]:
                if isinstance(one, torch.Tensor) and id(one) not in known: yield one
""",
        body="found = list(above(Q, K, V))\nif len(found) < 2: raise LookupError('nothing')\nreturn found[0], found[1]",
        outcomes=("error", "skipped"),
    ),
    _wrong(
        "module-walk",
        "looks in the source of every module that the worker holds for a check, a reference or a path of the course",
        """
import inspect, sys
def sources():
    for name, module in list(sys.modules.items()):
        if name.startswith("autograder") and name.count("."):
            if name.split(".")[1] not in ("worker", "channel"): yield name
    for name in list(sys.modules):
        if "hidden" in name or name.startswith(("_pytest", "pytest", "nbgrader", "tests")): yield name
    yield from (path for path in sys.path + sys.argv if "hidden" in path)
""",
        body="if (found := list(sources())): return tuple(found)\nraise LookupError('nothing')",
        outcomes=("error", "skipped"),
        says="LookupError",
    ),
)

MISCHIEF = (
    _beside(
        "streams-replaced",
        "puts None and an object that raises in the place of the streams; right answers keep their points",
        """
import io, sys
class Broken:
    def write(self, text): raise MemoryError
    flush = fileno = isatty = write
sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, sys.stdin = Broken(), None, None, Broken(), None
get_ipython().display_pub.publish = get_ipython().displayhook.flush = None
""",
    ),
    _beside(
        "warnings-as-errors",
        "turns every warning into an error, for good, and breaks the module that warns",
        """
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("error", append=True)
warnings.showwarning = warnings.formatwarning = None
""",
    ),
    _beside(
        "defaults-of-torch",
        "changes torch's default dtype, seeds, threads, printing and determinism for the calls that come",
        """
import torch
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
torch.set_num_threads(64)
torch.set_printoptions(threshold=10**9, precision=40)
torch.use_deterministic_algorithms(True)
torch.autograd.set_detect_anomaly(True)
""",
    ),
    _beside(
        "limits-of-the-interpreter",
        "sets limits of the interpreter to absurd values: switch interval, digits, hash seed, collector off, frozen",
        """
import gc, sys, os
sys.setswitchinterval(1e-9)
sys.set_int_max_str_digits(0)
sys.setrecursionlimit(10**6)
gc.disable(); gc.freeze(); gc.set_debug(gc.DEBUG_SAVEALL)
os.environ.clear()
os.chdir("/")
""",
    ),
    _beside(
        "events-and-magics",
        "registers events, magics and a shutdown hook that end the process or swallow the next cells",
        """
shell = get_ipython()
shell.register_magic_function(lambda line: None, "line", "matplotlib")
shell.events.register("pre_run_cell", lambda *args: 1 / 0)
shell.events.register("post_execute", lambda *args: 1 / 0)
shell.set_hook("shutdown_hook", lambda *args: 1 / 0)
shell.ask_exit()
""",
    ),
    _beside(
        "exit-between-the-cells",
        "leaves the process from a cell between the exercises; what is around it keeps its points",
        "import os\nexit\nos._exit(0)",
        place=12,
    ),
    _case(
        id="recursion-without-a-limit",
        tries="lifts the limit of recursion and overflows the stack of C, in the call",
        score=0.0,
        outcomes=("crashed", "error", "out_of_memory", "skipped"),
        answers={
            ATTENTION: attention(
                "return deep(Q)",
                "import sys\nsys.setrecursionlimit(10**9)\n"
                "class Deep:\n    def __getattr__(self, name): return repr(self)\n"
                "    def __repr__(self): return self.more + repr([self])\n"
                "def deep(x):\n    return repr(Deep()) + str(deep([x]))",
            )
        },
    ),
    _case(
        id="generator-of-random-numbers",
        tries="breaks the generator that the worker seeds before each call, so that no call begins; others are graded",
        score=0.0,
        answers={
            ATTENTION: GOOD + "class Broken:\n    def manual_seed(self, seed): raise SystemExit(0)\n"
            "torch.default_generator = Broken()\n"
        },
        outcomes=("crashed", "error", "skipped"),
    ),
    _case(
        id="answer-that-removes-itself",
        tries="replaces itself in the namespace by None, once it has been right",
        score=0.0,
        outcomes=("error", "skipped"),
        answers={ATTENTION: GOOD.replace("    return", f"    globals()['{ATTENTION}'] = None\n    return")},
    ),
    _beside(
        "answers-deleted-at-the-end",
        "deletes all that it has defined and imported, and leaves, when every exercise has been examined",
        "import sys\nglobals().clear()\n__import__('sys').modules.clear()\nraise SystemExit",
        place=END,
    ),
)

CASES = (*PATCHES, *HOOKS, *WALKS, *MISCHIEF)
