"""Speaking on the worker's own channel: forged frames, and repeated, late, large, deep, cut and lying ones."""

from __future__ import annotations

from functools import partial

from tests.engine import ATTENTION, attention
from tests.redteam.bank import Case

_case = partial(Case, family="channel")
LOST = ("crashed", "timeout", "failed", "error", "skipped")

WRITE = """
import json, os, socket, struct, sys, threading, time
CLAIM = {"result": True, "outcome": "passed", "score": 16, "tensors": [], "storages": [], "changed": []}
def frame(header, blob=b""):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">II", len(head), len(blob)) + head + blob
def descriptors():
    try: return sorted({int(name) for name in os.listdir("/proc/self/fd")} | set(range(3, 64)))
    except OSError: return range(3, 64)
def everywhere(data):
    for fd in descriptors():
        try: os.write(fd, data)
        except (OSError, ValueError): pass
def asked():
    frame = sys._getframe()
    while frame is not None:
        header = frame.f_locals.get("header")
        if isinstance(header, dict) and header.get("op") == "call": return header["n"]
        frame = frame.f_back
"""
LIE = """
import autograder.channel.frames as frames
honest, kept = frames.send, []
def send(sock, header, blobs=(), **options):
    blobs = list(blobs)
    if "result" not in header or "tensors" not in header: return honest(sock, header, blobs, **options)
    {what}
    honest(sock, header, blobs, **options)
frames.send = send
"""


def _written(id: str, tries: str, body: str, before: str = "", **more: object) -> Case:
    """Something is written to every open descriptor where a check calls, and what is returned is worth nothing."""
    answer = attention(f"n = asked()\nif n is None: return\n{body}\nreturn Q, K", WRITE + before)
    return _case(id=id, tries=tries, score=0.0, answers={ATTENTION: answer}, outcomes=LOST, **more)  # type: ignore[arg-type]


def _lied(id: str, tries: str, what: str, body: str = "return Q, K", **more: object) -> Case:
    """The worker's own function that sends replies is replaced by one that lies."""
    answer = attention(body, LIE.format(what=what))
    return _case(id=id, tries=tries, score=0.0, answers={ATTENTION: answer}, outcomes=LOST, **more)  # type: ignore[arg-type]


FORGED = (
    _written(
        "forged-reply",
        "writes replies of guessed numbers, which claim success, to every descriptor",
        "for guess in range(60): everywhere(frame({'re': guess, **CLAIM}))",
    ),
    _written(
        "forged-reply-of-the-right-number",
        "finds the number of the request in its callers' frames, and answers it with a verdict before it returns",
        "everywhere(frame({'re': n, **CLAIM}))",
    ),
    _written(
        "reply-to-another-request",
        "answers the request before this one and those that are still to come",
        "for other in (n - 1, n + 1, n + 2, None, True, str(n), float(n)):\n"
        "    everywhere(frame({'re': other, **CLAIM}))",
    ),
    _written(
        "late-replies",
        "has a thread answer all requests to come, every millisecond, while other calls are under way",
        "if not late.ident: late.start()\ntime.sleep(0.01)",
        """
def flood():
    for n in range(10**5):
        everywhere(frame({"re": n % 50, **CLAIM}))
        time.sleep(0.001)
late = threading.Thread(target=flood, daemon=True)
""",
    ),
    _written(
        "frames-from-a-cell",
        "answers requests that nobody has made yet, from the cell that defines the function",
        "pass",
        "for n in range(100): everywhere(frame({'re': n, 'kind': 'callable', **CLAIM}))",
    ),
    _written(
        "oversized-frames",
        "announces four gigabytes of header and of blob, so that the grader would reserve them",
        "everywhere(struct.pack('>II', 2**32 - 1, 2**32 - 1) + b'x' * 10**6)",
    ),
    _written(
        "large-frames",
        "answers with a frame as large as may be: a hundred thousand changed inputs, of which none was sent",
        "everywhere(frame({'re': n, **CLAIM, 'changed': [*range(10**5)]}, b'\\0' * (16 << 20)))",
    ),
    _written(
        "nested-frames",
        "sends headers that are nested a hundred thousand deep, so that the reader's stack overflows",
        "everywhere(frame(b'[' * 10**5 + b']' * 10**5))\neverywhere(frame(b'{\"a\":' * 10**5 + b'1' + b'}' * 10**5))",
    ),
    _written(
        "absurd-numbers",
        "sends a header with a number of a hundred thousand digits",
        "everywhere(frame(b'{\"re\": ' + b'9' * 10**5 + b'}'))",
    ),
    _written(
        "repeated-keys",
        "sends headers whose keys are repeated, with NaN and infinities for a result",
        "head = json.dumps({'re': n, **CLAIM, 'result': [float('inf'), float('nan')]})\n"
        'everywhere(frame((\'{"re": NaN, "tensors": 5, \' + head[1:]).encode()))',
    ),
    _written(
        "truncated-frame",
        "begins a frame, byte by byte, and never ends it",
        "head = frame({'re': n, **CLAIM})\n"
        "for place in range(len(head) - 1):\n    everywhere(head[place:place + 1])\n    time.sleep(0.02)\n"
        "time.sleep(60)",
    ),
    _written(
        "truncated-frame-and-exit",
        "begins a frame and leaves",
        "everywhere(struct.pack('>II', 100, 100) + b'{')\nos._exit(0)",
    ),
    _written(
        "no-json",
        "sends bytes that are no frame at all: pickles, HTTP, notebooks",
        "import pickle\neverywhere(pickle.dumps(CLAIM) + b'HTTP/1.1 200 OK\\r\\n\\r\\n' + os.urandom(1000))",
    ),
    _written(
        "closed-channel",
        "closes every descriptor, and goes on",
        "os.closerange(0, 1024)\ntime.sleep(0.2)",
    ),
    _written(
        "half-closed-channel",
        "shuts the channel down for reading, puts other sockets and files in its place",
        "for fd in descriptors():\n"
        "    try:\n        socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RD)\n        os.dup2(0, fd)\n"
        "    except OSError: pass",
    ),
    _written(
        "requests-of-its-own",
        "sends requests in the other direction, and descriptors along with them",
        "everywhere(frame({'op': 'call', 'n': 1, 'name': 'exit', 'job': {}, 'known': {}, 'examined': CLAIM}))\n"
        "for fd in descriptors():\n"
        "    try: socket.send_fds(socket.socket(fileno=os.dup(fd)), [frame({'re': 1, **CLAIM})], [0, 1, 2])\n"
        "    except OSError: pass",
    ),
)

LIES = (
    _lied(
        "duplicated-replies",
        "sends every reply twice",
        "honest(sock, header, blobs, **options)",
    ),
    _lied(
        "reordered-replies",
        "holds every reply back, and sends the one before it",
        "kept.append((header, blobs)); header, blobs = kept[max(0, len(kept) - 2)]",
    ),
    _lied("dropped-replies", "never replies", "return"),
    _lied(
        "replies-that-dribble",
        "sends a megabyte a byte at a time, so that each read succeeds and none comes to an end",
        "import time; data = frames.PREFIX.pack(1 << 20, 0)\n"
        "    for _ in range(10**6): sock.sendall(data[:1]); data = data[1:] or b' '; time.sleep(0.01)",
    ),
    _lied(
        "negative-strides",
        "describes its result by strides, offsets and shapes below zero",
        "[row.update(k=[-1] * len(row['k']), o=-8, n=[-n for n in row['n']]) for row in header['tensors']]",
        body="return Q * 1.0, K * 1.0",
    ),
    _lied(
        "huge-offsets",
        "describes its result by an offset and strides far beyond its bytes, so that the grader's memory shows",
        "[row.update(o=2**61, k=[2**40] * len(row['k'])) for row in header['tensors']]",
        body="return Q * 1.0, K * 1.0",
    ),
    _lied(
        "one-byte-too-many",
        "describes its result as one row longer than the bytes that come with it",
        "[row.update(n=[n + 1 for n in row['n']]) for row in header['tensors']]",
        body="return Q * 1.0, K * 1.0",
    ),
    _lied(
        "numbers-of-wrong-types",
        "describes its result by booleans, floats, NaN, texts and numbers beyond 64 bits",
        "[row.update(n=[True, 2.0, float('nan'), '4', 2**64], k=[1] * 5, s=False, g=1) for row in header['tensors']]",
        body="return Q * 1.0, K * 1.0",
    ),
    _lied(
        "billions-from-one-byte",
        "describes results that are expanded to billions of elements, a thousand times",
        "header['tensors'] = [dict(s=0, d='float64', n=[2**20, 2**20], k=[0, 0], o=0, g=True)] * 1000",
        body="return Q * 1.0, K * 1.0",
    ),
    _lied(
        "dtypes-that-are-none",
        "names dtypes that are none, attributes of torch, and types that the reader must not make",
        "[row.update(d=d) for row, d in zip(header['tensors'], ['__class__', {'a': []}] * 9)]",
        body="return Q * 1.0, K * 1.0",
    ),
    _lied(
        "bools-of-other-bytes",
        "sends bool tensors whose bytes are neither 0 nor 1",
        "[row.update(d='bool') for row in header['tensors']]",
        body="return torch.full(Q.shape, 7, dtype=torch.uint8), torch.full(Q.shape, 255, dtype=torch.uint8)",
    ),
    _lied(
        "overlapping-storages",
        "lets both results look into one storage, that of an input",
        "[row.update(s=0) for row in header['tensors']]; header['storages'] = []; blobs = []",
        body="return Q * 1.0, Q + 1.0",
    ),
    _lied(
        "changes-of-what-was-not-sent",
        "claims to have changed inputs that were never sent",
        "header['changed'] = [0, 99, -1]",
        body="return Q * 1.0, K * 1.0",
    ),
    _lied(
        "tree-without-an-end",
        "sends a result as a tree of a million leaves, and one that is nested too deep",
        "header['result'] = {'t': 'list', 'v': [{'t': 'tensor', 'i': 0}] * 10**5}\n"
        "    for _ in range(200): header['result'] = {'t': 'tuple', 'v': [header['result']]}",
        body="return Q * 1.0, K * 1.0",
    ),
    _lied(
        "unhashable-keys",
        "sends dicts whose keys are lists, dicts and tensors",
        "keys = [{'t': 'list', 'v': []}, {'t': 'tuple', 'v': [{'t': 'list', 'v': []}]}]\n"
        "    header['result'] = {'t': 'dict', 'v': [[key, 1] for key in keys]}",
    ),
    _lied(
        "verdicts-beside-the-result",
        "adds a verdict, a score, and an exercise to every reply",
        "header.update(outcome='passed', score=16, passed=True, skipped=True, exercise={'score': 16})",
    ),
    _lied(
        "exception-that-is-none",
        "describes an exception by lists, numbers and megabytes, of builtin bases that it has not",
        "header['raised'] = dict(type=['x'] * 10**5, bases=[{}] * 10**5, text='y' * 10**6, line=True, code=5)",
    ),
)

CASES = (*FORGED, *LIES)
