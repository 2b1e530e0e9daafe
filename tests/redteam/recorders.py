"""Answers that remember: calls, inputs, published examples, runs before this one, and seeds."""

from __future__ import annotations

from functools import partial

from tests.engine import ATTENTION, GOOD_BODY, SEED, attention
from tests.redteam.bank import Case, stubs

_case = partial(Case, family="recorders")

RIGHT = """
def right(Q, K, V):
    weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)
    return weights @ V, weights
def wrong(Q, K, V):
    return torch.zeros(*Q.shape[:-1], V.shape[-1]), torch.zeros(*Q.shape[:-1], K.shape[-2])
"""
SHAPES = 2.0
"""What `wrong` is worth: the shapes are right. It makes float32 of everything, and no weights sum to 1."""
HYGIENE = 0.5
"""And it changes nothing and repeats itself, which those that switch do not."""
NO_SCALE = GOOD_BODY.replace(" / Q.shape[-1] ** 0.5", "")


def _recorder(id: str, tries: str, score: float, body: str, before: str = "", **more: object) -> Case:
    return _case(id=id, tries=tries, score=score, answers={ATTENTION: attention(body, RIGHT + before)}, **more)  # type: ignore[arg-type]


CASES = (
    _recorder(
        "right-on-the-first-call-only",
        "answers rightly once, and never again",
        SHAPES + HYGIENE,
        "CALLS.append(1)\nreturn right(Q, K, V) if len(CALLS) == 1 else wrong(Q, K, V)",
        "CALLS = []",
    ),
    _recorder(
        "right-once-for-each-size",
        "answers rightly the first time that it meets sizes and dtypes, and never again",
        4.0,
        "size = tuple((tuple(x.shape), x.dtype) for x in (Q, K, V))\nfirst = size not in SIZES\nSIZES.add(size)\n"
        "return right(Q, K, V) if first else wrong(Q, K, V)",
        "SIZES = set()",
        at_most=True,
    ),
    _recorder(
        "right-in-the-notebook-only",
        "answers rightly where a cell calls it, by a look at its callers, and wrongly where the checks do",
        SHAPES + HYGIENE,
        "caller = inspect.stack(0)[1].filename\n"
        "return right(Q, K, V) if caller.startswith('<cell') else wrong(Q, K, V)",
        "import inspect",
    ),
    _recorder(
        "right-for-the-checks-of-a-caller",
        "is right only where a caller's name is one that checks might have: pytest, test_shapes, check, student",
        SHAPES + HYGIENE,
        "names = ' '.join(f'{info.function} {os.path.basename(info.filename)}' for info in inspect.stack(0)[1:])\n"
        "checking = any(word in names for word in ('test_', 'pytest', 'suite', 'examiner', 'marking', 'check'))\n"
        "return right(Q, K, V) if checking else wrong(Q, K, V)",
        "import inspect, os",
    ),
    _recorder(
        "right-by-the-number-of-the-call",
        "answers every other call rightly, so that what is asked twice is wrong once",
        7.0,  # what one call alone can decide: shapes, rows that sum to 1, weights
        "CALLS.append(1)\nreturn right(Q, K, V) if len(CALLS) % 2 else wrong(Q, K, V)",
        "CALLS = []",
        at_most=True,
    ),
    _recorder(
        "table-of-published-examples",
        "looks its answers up by fingerprints of the examples that the release notebook shows",
        SHAPES + HYGIENE,
        "return TABLE.get(print_of(Q, K, V), wrong(Q, K, V))",
        """
import hashlib
def print_of(*tensors):
    return hashlib.sha256(b"".join(x.detach().float().numpy().tobytes() for x in tensors)).hexdigest()
TABLE = {}
for shapes in (((3, 4), (3, 4), (3, 4)), ((2, 3, 4), (2, 5, 4), (2, 5, 6)), ((1, 1), (2, 1), (2, 1))):
    for seed in range(50):
        torch.manual_seed(seed)
        inputs = [torch.randn(*shape) for shape in shapes]
        TABLE[print_of(*inputs)] = right(*inputs)
""",
    ),
    _recorder(
        "right-for-known-seeds",
        "tries out whether its inputs come from torch's generator under a small seed, the printed one, or its own",
        SHAPES + HYGIENE,
        f"seeds = (*range(50), {SEED}, torch.initial_seed(), *range(1000, 1050))\n"
        "return right(Q, K, V) if any(drawn(seed, Q) for seed in seeds) else wrong(Q, K, V)",
        """
def drawn(seed, Q):
    for draw in (torch.randn, torch.rand):
        made = draw(Q.shape, generator=torch.Generator().manual_seed(seed), dtype=Q.dtype)
        if torch.allclose(made, Q): return True
    return False
""",
    ),
    _recorder(
        "draws-of-the-checks-foreseen",
        "reads the state of every generator, and draws what the next call's inputs would be, to answer them in advance",
        SHAPES + HYGIENE,
        "known = [(q, a) for q, a in READY if q.shape == Q.shape and torch.allclose(q, Q.float())]\n"
        "state = torch.get_rng_state()\n"
        "for _ in range(3):\n    drawn = [torch.randn(x.shape) for x in (Q, K, V)]\n"
        "    READY.append((drawn[0], right(*drawn)))\n"
        "torch.set_rng_state(state)\nreturn known[0][1] if known else wrong(Q, K, V)",
        "READY = []",
    ),
    _recorder(
        "memory-of-inputs",
        "keeps all inputs, and answers slices and permutations of earlier ones from memory; the rest without the scale",
        13.0,  # what it is worth without the memory
        f"""
for q, k, v, answer in KEPT:
    if q.shape[1:] == Q.shape[1:] and k.shape[1:] == K.shape[1:] and v.shape[1:] == V.shape[1:] and q.dtype == Q.dtype:
        places = [next((i for i in range(len(q)) if torch.equal(q[i], one)), None) for one in Q]
        if None not in places: return tuple(x[places] for x in answer)
{NO_SCALE.replace("return weights @ V, weights", "answer = weights @ V, weights")}
KEPT.append((Q.detach().clone(), K.detach().clone(), V.detach().clone(), tuple(x.detach() for x in answer)))
return answer
""",
        "KEPT = []",
        at_most=True,
    ),
    _recorder(
        "right-after-a-fresh-start",
        "notes in a file that it has been called, dies, and is right if the note is there after the restart",
        0.0,
        """
if any(os.path.exists(place + "/redteam-note") for place in PLACES): return right(Q, K, V)
for place in PLACES:
    try: open(place + "/redteam-note", "w").close()
    except OSError: pass
os._exit(0)
""",
        "import os, tempfile\n"
        "PLACES = ['.', os.environ['HOME'], tempfile.gettempdir(), '/tmp', '/var/tmp', '/dev/shm']",
        outcomes=("crashed", "skipped"),
    ),
    _recorder(
        "numbers-by-chance",
        "returns random numbers of the right shapes, rows that sum to 1 included",
        SHAPES + 2.0,
        "weights = torch.rand(*Q.shape[:-1], K.shape[-2], dtype=Q.dtype).softmax(-1)\n"
        "return torch.rand(*Q.shape[:-1], V.shape[-1], dtype=Q.dtype), weights",
    ),
    _recorder(
        "right-for-one-size",
        "is right for the sizes of the first check alone",
        SHAPES + HYGIENE,
        "return right(Q, K, V) if Q.shape == K.shape == V.shape else wrong(Q, K, V)",
    ),
    _case(
        id="cell-that-fills-the-stub-in",
        tries="leaves the stub as it is, and replaces its code by right code from a cell that is not graded",
        score=16.0,
        answers={ATTENTION: stubs("attention")[ATTENTION]},
        cells=((18, attention(GOOD_BODY)),),
    ),
)
