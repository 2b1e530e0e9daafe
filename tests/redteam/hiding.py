"""Having a finished function do the work, unseen: by other names, below Python, or behind a blinded watch."""

from __future__ import annotations

from functools import partial

from tests.engine import ATTENTION, attention
from tests.redteam.bank import START, Case

MULTI_HEAD = "multi_head_attention"
LOSS = "sequence_cross_entropy"

_case = partial(Case, family="hiding")
_seen = partial(_case, score=0.0, outcomes=("forbidden",))
"""What must be found out, however right its results are."""

_ARGUMENTS = (
    "query, key, value, num_heads, in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias, "
    "key_padding_mask=None, attn_mask=None"
)
_CALL = (
    "(*(x.transpose(0, 1) for x in (query, key, value)), query.shape[-1], num_heads, in_proj_weight, in_proj_bias, "
    "None, None, False, 0.0, out_proj_weight, out_proj_bias, key_padding_mask=key_padding_mask, attn_mask=attn_mask, "
    "average_attn_weights=False)"
)


def _attend(id: str, tries: str, body: str, before: str = "") -> Case:
    return _seen(id=id, tries=tries, answers={ATTENTION: attention(body, before)})


def _multi_head(id: str, tries: str, find: str, before: str = "") -> Case:
    """An answer that calls what `find` makes of `F`."""
    source = (
        f"import torch\nimport torch.nn.functional as F\n{before}\n"
        f"def {MULTI_HEAD}({_ARGUMENTS}):\n"
        f"{_indented(find)}\n"
        f"    output, weights = found{_CALL}\n"
        "    return output.transpose(0, 1), weights\n"
    )
    return _seen(id=id, tries=tries, assignment="multihead", exercise=MULTI_HEAD, answers={MULTI_HEAD: source})


def _loss(id: str, tries: str, body: str, before: str = "") -> Case:
    source = (
        f"import torch\nimport torch.nn.functional as F\n{before}\n"
        f"def {LOSS}(logits, targets, ignore_index=-100):\n{_indented(body)}\n"
    )
    return _seen(id=id, tries=tries, assignment="loss", exercise=LOSS, answers={LOSS: source})


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.strip().splitlines())


NAMES = (
    _attend("name-joined", "joins the name of the finished function from pieces",
            "return getattr(F, '_'.join(['scaled', 'dot', 'product', 'attention']))(Q, K, V), None",
            "import torch.nn.functional as F\n"),
    _attend("name-from-codes", "writes the name of the finished function in numbers",
            f"name = bytes({list(b'scaled_dot_product_attention')}).decode()\nreturn vars(F)[name](Q, K, V), None",
            "import torch.nn.functional as F\n"),
    _attend("private-operator", "calls the operator below the finished function, out of torch's own list of operators",
            "return torch.ops.aten._scaled_dot_product_attention_math(Q, K, V)[0], None"),
    _attend("module-passed-on", "hands the module to a helper, which calls what it finds in whatever it is given",
            "return ask(F, Q, K, V), None",
            "import torch.nn.functional as F\n"
            "def ask(m, *tensors): return m.scaled_dot_product_attention(*tensors)\n"),
    _multi_head("code-object", "runs a copy of the finished function's code",
                "whole = F.multi_head_attention_forward\n"
                "found = types.FunctionType(whole.__code__, vars(F), 'found', whole.__defaults__)", "import types\n"),
)  # fmt: skip

BELOW = (
    _attend("written-for-onnx", "calls what torch wrote for the operator of another format",
            "q, k, v = (x.reshape(-1, 1, *x.shape[-2:]) for x in (Q, K, V))\n"
            "output, _, _, weights = found(q, k, v, qk_matmul_output_mode=3)\n"
            "return output.reshape(*Q.shape[:-1], V.shape[-1]), weights.reshape(*Q.shape[:-1], K.shape[-2])",
            "import torch.onnx.ops._impl as ops\n"
            "found = next(f for n, f in vars(ops).items() if n.startswith('attention_2'))._init_fn\n"),
    _attend("one-of-several", "keeps the finished function in a table of ways",
            "if ways:\n    return ways['torch'](Q, K, V), torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)",
            "import torch.nn.functional as F\nways = {'torch': F.scaled_dot_product_attention}\n"),
    _attend("thread", "calls the finished function in a thread, where no mode of this one looks on",
            "import threading\nkept = []\n"
            "run = threading.Thread(target=lambda: kept.append(found(Q, K, V)))\nrun.start(); run.join()\n"
            "return kept[0], torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)",
            "import torch.nn.functional as F\n"
            "found = next(f for n, f in sorted(vars(F).items()) if n.startswith('scaled'))\n"),
    _attend("disabled-overrides", "switches off what torch tells others of its calls",
            "with torch._C.DisableTorchFunction():\n"
            "    return found(Q, K, V), torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)",
            "import torch.nn.functional as F\n"
            "found = next(f for n, f in sorted(vars(F).items()) if n.startswith('scaled'))\n"),
    _multi_head("layer-in-a-thread", "calls the finished module inside of a finished layer, in a thread",
                "import threading\nkept = []\ndef found(*args, **kwargs):\n"
                "    run = threading.Thread(target=lambda: kept.append(forward(*args, **kwargs)))\n"
                "    run.start(); run.join()\n"
                "    return kept.pop()",
                "forward = next(f for n, f in sorted(vars(F).items()) if n.startswith('multi_h'))\n"),
    _multi_head("scripted", "compiles the finished function, so that no Python of it is run",
                "found = scripted",
                "finished = next(f for n, f in sorted(vars(F).items()) if n.startswith('multi_h'))\n"
                "scripted = torch.jit.script(finished)\n"),
    _loss("mapped", "calls the finished loss under vmap, with what torch tells others switched off",
          "with torch._C.DisableTorchFunction():\n"
          "    one = lambda x, y: found(x, y, ignore_index=ignore_index, reduction='sum')\n"
          "    each = torch.vmap(one)(logits, targets)\n"
          "return each.sum() / (targets != ignore_index).sum().clamp(min=1)",
          "found = next(f for n, f in sorted(vars(F).items()) if n.startswith('cross_e'))\n"),
    _loss("decomposed", "calls what torch's compiler puts in the place of the finished loss",
          "import torch._decomp.decompositions as pieces\n"
          "found = next(f for n, f in sorted(vars(pieces).items()) if n.startswith('nll_loss_f'))\n"
          "total, _ = found(torch.log_softmax(logits.flatten(0, 1), -1), targets.flatten(), None, 2, ignore_index)\n"
          "return total / (targets != ignore_index).sum().clamp(min=1)"),
)  # fmt: skip

BLINDED = (
    _case(
        id="watch-blinded",
        tries="blinds the watch in its own process, as an answer that has something to hide would: a person is told",
        score=16.0,
        answers={
            ATTENTION: attention(
                "watch = next(module for name, module in sys.modules.items() if name.endswith('.watch'))\n"
                "watch._watch = None\n"
                "weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)\n"
                "return weights @ V, weights",
                "import sys\n",
            )
        },
        says="a person should read the answer",
    ),
    _case(
        id="watch-blinded-beside",
        tries="blinds the watch in a cell of its own, which no answer reaches: a person is told",
        score=16.0,
        cells=((START, "import autograder.worker.watch as watch\nwatch._Watch.note_call = lambda *args: None"),),
        says="a person should read the answer",
    ),
    _case(
        id="watch-blinded-by-pieces-of-its-name",
        tries="blinds the watch beside the answer, by a name joined from pieces, and pushes the finished function",
        score=16.0,
        answers={
            ATTENTION: attention("return found(Q, K, V), torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)"),
        },
        cells=(
            (
                START,
                (
                    "import sys, torch\nwatch = sys.modules['auto' + 'grader.worker.watch']\n"
                    "watch._Watch.note_call = lambda *args: None\n"
                    "get_ipython().push({'found': torch.nn.functional.scaled_dot_product_attention})"
                ),
            ),
        ),
        says="a person should read the answer",
    ),
)

CASES = (*NAMES, *BELOW, *BLINDED)
