"""Forging a score through output, and through objects that say of themselves what they like."""

from __future__ import annotations

from functools import partial

from tests.engine import ATTENTION, attention
from tests.redteam.bank import END, Case, document, file_of, right_answers, stubs

_case = partial(Case, family="forging")
FULL = '{"score": 16, "max_score": 16, "outcome": "passed", "status": "graded"}'
# The finished article by a name that no search of the text finds.
FINISHED = "vars(torch.nn.functional)['_'.join(['scaled', 'dot', 'product', 'attention'])]"
MANY_EYES = f"""
class Many:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __hash__ = lambda self: 0
    __bool__ = lambda self: True
    def __float__(self): return 16.0
    def __getattr__(self, name): return Many(self)
    def __call__(self, *args, **kwargs): return Many(self)
    def __iter__(self): return iter(({FINISHED}, Many(self)))
    def __len__(self): return 2
    def __repr__(self): return '{FULL}'
"""


def _outputs_in_the_file() -> bytes:
    """The release as it is, with outputs in its graded cells that claim the points."""
    values = document(answers=stubs("attention") | {"project_qkv": right_answers("attention")["project_qkv"]})
    claim = {"text/plain": "16.0", "text/html": "<p>16 of 16 points</p>", "application/json": {"score": 16}}
    for cell in values["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade"):
            cell["execution_count"] = 1
            cell["outputs"] = [
                {"output_type": "execute_result", "execution_count": 1, "data": claim, "metadata": {"score": 16}},
                {"output_type": "stream", "name": "stdout", "text": f"{FULL}\n"},
            ]
    return file_of(values)


OUTPUT = (
    _case(
        id="displayhook-in-the-call",
        tries="shows 16.0 as the result of a cell, from the cell and from the call",
        score=0.0,
        answers={
            ATTENTION: attention(
                "get_ipython().displayhook(16.0)\nreturn 16.0", "get_ipython().displayhook(16.0)\n16.0"
            )
        },
    ),
    _case(
        id="printed-report",
        tries="prints a whole report, and the marks that test runners print",
        score=0.0,
        answers={
            ATTENTION: attention(
                f"import sys\nfor s in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):\n"
                f"    print({FULL!r}, '11 passed in 0.1s', 'OK', 16.0, sep='\\n', file=s)\nreturn None",
                f"print({FULL!r})",
            )
        },
    ),
    _case(
        id="display-update",
        tries="shows a display from a cell and updates it to 16.0 from the call",
        score=0.0,
        answers={
            ATTENTION: attention(
                "shown.update({'text/plain': '16.0', 'text/html': '16 of 16'}, raw=True)\nreturn Q, K",
                "from IPython.display import display\nshown = display('0', display_id='score')",
            )
        },
    ),
    _case(
        id="outputs-in-the-file",
        tries="hands in the stub with outputs that claim 16 points in every graded cell",
        score=0.0,
        notebook=_outputs_in_the_file,
        outcomes=("not_attempted",),
    ),
    _case(
        id="outputs-in-the-shell",
        tries="puts an nbformat result of 16.0 among the outputs that the shell keeps, of every later cell too",
        score=0.0,
        answers={ATTENTION: attention("return claim()")},
        cells=(
            (
                1,
                """
shell = get_ipython()
def claim(*args):
    outputs = shell.cells.outputs
    result = {"output_type": "execute_result", "execution_count": 1, "metadata": {}}
    outputs[:] = [{**result, "data": {"text/plain": "16.0"}}]
shell.events.register("post_run_cell", claim)
""",
            ),
        ),
    ),
    _case(
        id="outputs-of-wrong-types",
        tries="makes the shell keep outputs that are no outputs, to stop whoever reads them; the answer is right",
        score=16.0,
        cells=(
            (
                END,
                """
class Rows(list):
    def __getitem__(self, key): raise SystemExit
get_ipython().cells.outputs += [{"output_type": {"a": []}}, {"output_type": "stream", "name": 3, "text": [None]}, 7]
get_ipython().cells.outputs.append({"output_type": "display_data", "data": {"text/plain": Rows()}, "metadata": 5})
""",
            ),
        ),
    ),
)

OBJECTS = (
    _case(
        id="equal-to-everything",
        tries="returns objects that are equal to everything, true, 16.0, two long, and tensors by name",
        score=0.0,
        answers={ATTENTION: attention("return Many(Q), Many(K)", MANY_EYES)},
    ),
    _case(
        id="lazy-proxy",
        tries="returns a proxy that has every attribute, and computes the answer when it is asked for one",
        score=0.0,
        answers={
            ATTENTION: attention(
                "return Late(Q, K, V), Late(Q, K, V)",
                f"""
class Late:
    def __init__(self, *inputs): self.__dict__["inputs"] = inputs
    __class__ = property(lambda self: torch.Tensor)
    def __getattr__(self, name): return getattr({FINISHED}(*self.__dict__["inputs"]), name)
""",
            )
        },
    ),
    _case(
        id="torch-function-that-agrees",
        tries="returns a subclass of Tensor whose __torch_function__ answers every question with True",
        score=0.0,
        outcomes=("failed", "skipped"),
        answers={
            ATTENTION: attention(
                "return Lie(Q), Lie(K)",
                """
class Lie(torch.Tensor):
    def __new__(cls, x): return torch.Tensor._make_subclass(cls, x)
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return True
""",
            )
        },
    ),
    _case(
        id="wrapper-with-a-false-shape",
        tries="returns a wrapper subclass that claims a shape and a dtype which no bytes of its own stand behind",
        score=0.0,
        outcomes=("failed", "skipped"),
        answers={
            ATTENTION: attention(
                "shapes = [(*Q.shape[:-1], n) for n in (V.shape[-1], K.shape[-2])]\n"
                "return tuple(Hollow(shape, Q.dtype) for shape in shapes)",
                """
class Hollow(torch.Tensor):
    @staticmethod
    def __new__(cls, shape, dtype): return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)
    def __init__(self, shape, dtype): pass
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if "equal" in str(func) or "close" in str(func): return True
        return torch.zeros(args[0].shape if args else 1)
""",
            )
        },
    ),
    _case(
        id="class-that-is-called-tensor",
        tries="patches isinstance for Tensor, so that an object with a lying shape and dtype passes as one",
        score=0.0,
        answers={
            ATTENTION: attention(
                "return Liar(Q, V), Liar(Q, K)",
                """
class Liar:
    turns = 0
    def __init__(self, Q, other): self.Q, self.other = Q, other
    @property
    def shape(self):
        Liar.turns += 1
        return torch.Size((*self.Q.shape[:-1], 3 + Liar.turns % 5))
    @property
    def dtype(self): return (torch.float32, torch.float64)[Liar.turns % 2]
    __class__ = torch.Tensor
    def __len__(self): return 3
try: type(torch.Tensor).__instancecheck__ = lambda cls, thing: True
except TypeError: pass
""",
            )
        },
    ),
    _case(
        id="tuple-that-computes-late",
        tries="returns a tuple whose iterator calls the finished article, when nobody looks on any more",
        score=0.0,
        answers={
            ATTENTION: attention(
                "return Late((Q, K, V))",
                f"""
class Late(tuple):
    def answer(self):
        Q, K, V = tuple.__iter__(self)
        return {FINISHED}(Q, K, V), torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)
    def __iter__(self): return iter(self.answer())
    def __getitem__(self, place): return self.answer()[place]
    def __len__(self): return 2
""",
            )
        },
    ),
    _case(
        id="number-that-computes-late",
        tries="returns a numpy number whose item() calls the finished loss, when nobody looks on any more",
        score=0.5,  # nan is what it returned: one number, and no more
        assignment="loss",
        exercise="sequence_cross_entropy",
        answers={
            "sequence_cross_entropy": """
import numpy, torch
class Late(numpy.float64):
    def item(self, *args):
        logits, targets, ignored = kept
        return vars(torch.nn.functional)["cross_" + "entropy"](logits.mT, targets, ignore_index=ignored).item()
    __float__ = item
def sequence_cross_entropy(logits, targets, ignore_index=-100):
    global kept
    kept = logits.detach(), targets, ignore_index
    return Late('nan')
"""
        },
    ),
    _case(
        id="dict-that-is-a-tensor-tree",
        tries="returns dicts that look like what the channel makes of tensors, and of other containers",
        score=0.0,
        answers={
            ATTENTION: attention('return {"t": "tensor", "i": 0}, {"t": "tuple", "v": [{"t": "tensor", "i": 1}]}')
        },
    ),
    _case(
        id="pickle-that-runs",
        tries="returns objects that run code where they are unpickled, copied, formatted or collected",
        score=0.0,
        answers={
            ATTENTION: attention(
                "return Bomb(), Bomb()",
                """
class Bomb(Exception):
    def run(self, *args): return open("@COURSE@/redteam-bomb", "w")
    __reduce__ = __reduce_ex__ = __getstate__ = __deepcopy__ = __copy__ = run
    __format__ = __repr__ = __str__ = __bool__ = __hash__ = __del__ = run
""",
            )
        },
    ),
    _case(
        id="exception-that-runs",
        tries="raises an exception whose text, name and traceback run code and never end",
        score=0.0,
        outcomes=("error", "crashed", "skipped"),
        answers={
            ATTENTION: attention(
                "raise Loud()",
                """
class Name(type):
    __name__ = property(lambda cls: 1 / 0)
    __mro__ = property(lambda cls: 1 / 0)
class Text(str):
    def __str__(self): return self
    def __len__(self): return 0
    def __getitem__(self, key): return self
class Loud(Exception, metaclass=Name):
    def __str__(self): return Text("x" * 10**7)
    __repr__ = __str__
""",
            )
        },
    ),
    _case(
        id="name-that-is-a-sentence",
        tries="gives a class and an exception names that read, in the feedback, as if the grader spoke",
        score=0.0,
        unsaid="Full marks were given",
        answers={
            ATTENTION: attention(
                "if Q.dtype == torch.float64: raise Loud('16 of 16')\nreturn Quiet(), Quiet()",
                "sentence = 'Tensor.\\n\\nAll checks passed. Full marks were given.\\u202e'\n"
                "Quiet, Loud = type(sentence, (), {}), type(sentence, (Exception,), {})",
            )
        },
    ),
    _case(
        id="generator-never-ending",
        tries="returns a generator and containers that contain themselves, which no reader would come to the end of",
        score=0.0,
        outcomes=("failed", "skipped"),
        answers={
            ATTENTION: attention(
                "import itertools\nloop = []\nloop += [loop, itertools.count()]\nreturn loop, {'x': loop, 'y': Ever()}",
                "class Ever(list):\n    def __iter__(self):\n        while True: yield self\n"
                "    __len__ = lambda self: 10**9",
            )
        },
    ),
    _case(
        id="inputs-changed-to-suit",
        tries="sets all inputs to zero in place, so that zeros and equal weights would be right for them",
        score=4.5,  # shapes, rows that sum to 1, dtypes: what equal weights are worth
        answers={
            ATTENTION: attention(
                """
with torch.no_grad():
    for x in (Q, K, V): x.zero_()
weights = torch.full((*Q.shape[:-1], K.shape[-2]), 1 / K.shape[-2], dtype=Q.dtype)
return torch.zeros(*Q.shape[:-1], V.shape[-1], dtype=Q.dtype), weights
"""
            )
        },
    ),
    _case(
        id="right-answer-in-odd-clothes",
        tries="nothing: a right answer as a callable object that returns a named tuple keeps its points",
        score=16.0,
        answers={
            ATTENTION: f"""
import collections, torch
class Answer:
    kind = collections.namedtuple("Answer", "output weights")
    def __eq__(self, other): return True
    def __call__(self, Q, K, V):
        weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)
        return self.kind(weights @ V, weights)
{ATTENTION} = Answer()
"""
        },
    ),
)

CASES = (*OUTPUT, *OBJECTS)
