"""The finished article is found in the source by whatever name the answer reaches it; what it doesn't reach is none."""

# ruff: noqa: E501 - a cell reads best on one line

from __future__ import annotations

import ast
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from autograder.channel.proxy import ForbiddenCall
from autograder.course import load_course
from autograder.examiner.forbidden import MAX_CHARACTERS, TOO_LARGE, Found, search
from autograder.examiner.hiding import Hiding
from tests.courses import REPOSITORY

COURSE = load_course(REPOSITORY)
LOSSES = COURSE.forbidden_names("loss", "sequence_cross_entropy")
SDPA = "torch.nn.functional.scaled_dot_product_attention"
MODULE = "torch.nn.MultiheadAttention"
NAMES = [SDPA, "torch.nn.functional.multi_head_attention_forward", MODULE]

HEAD = "import torch, math, importlib\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom torch import nn as net\n"


def found(*cells: str, names: Sequence[str] = NAMES) -> ForbiddenCall | None:
    return search([HEAD, *cells], "answer", names).breach


def find_hiding(cells: Sequence[str], exercise: str = "answer") -> list[Hiding]:
    return search(cells, exercise, NAMES).hidings


def answer(body: str) -> str:
    return "def answer(q, k, v):\n" + "\n".join("    " + line for line in body.split("\n"))


BODIES = {
    "plain": "return F.scaled_dot_product_attention(q, k, v)",
    "in_full": "return torch.nn.functional.scaled_dot_product_attention(q, k, v)",
    "module_alias": "return net.functional.scaled_dot_product_attention(q, k, v)",
    "local_import": "import torch.nn.functional as G\nreturn G.scaled_dot_product_attention(q, k, v)",
    "local_import_in_full": "import torch.nn.functional\nreturn torch.nn.functional.scaled_dot_product_attention(q, k, v)",
    "local_from_import": "from torch.nn.functional import scaled_dot_product_attention\nreturn scaled_dot_product_attention(q, k, v)",
    "local_from_import_as": "from torch.nn.functional import scaled_dot_product_attention as f\nreturn f(q, k, v)",
    "local_from_nn": "from torch.nn import functional\nreturn functional.scaled_dot_product_attention(q, k, v)",
    "import_in_a_branch": "if True:\n    from torch.nn import functional as G\nreturn G.scaled_dot_product_attention(q, k, v)",
    "getattr": "return getattr(F, 'scaled_dot_product_attention')(q, k, v)",
    "getattr_in_pieces": "return getattr(F, 'scaled_' + 'dot_' + 'product_attention')(q, k, v)",
    "getattr_f_string": "return getattr(F, f\"scaled_{'dot'}_product_attention\")(q, k, v)",
    "getattr_twice": "return getattr(getattr(nn, 'functional'), 'scaled_dot_product_attention')(q, k, v)",
    "getattr_with_default": "return getattr(F, 'scaled_dot_product_attention', None)(q, k, v)",
    "import_module": "return importlib.import_module('torch.nn.functional').scaled_dot_product_attention(q, k, v)",
    "dunder_import": "return __import__('torch').nn.functional.scaled_dot_product_attention(q, k, v)",
    "dunder_import_of_a_submodule": "return __import__('torch.nn').nn.functional.scaled_dot_product_attention(q, k, v)",
    "private_builtin": "return torch._C._nn.scaled_dot_product_attention(q, k, v)",
    "private_math": "return torch._scaled_dot_product_attention_math(q, k, v)[0]",
    "private_kernel": "return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]",
    "private_module_kernel": "return torch._native_multi_head_attention(q, k, v)",
    "operator": "return torch.ops.aten.scaled_dot_product_attention.default(q, k, v)",
    "class": "return nn.MultiheadAttention(8, 2)(q, k, v)[0]",
    "class_elsewhere": "return torch.nn.modules.activation.MultiheadAttention(8, 2)(q, k, v)[0]",
    "forward": "return F.multi_head_attention_forward(q, k, v)",
    "local_alias_of_the_module": "G = F\nH = G\nreturn H.scaled_dot_product_attention(q, k, v)",
    "local_alias_of_the_function": "f = F.scaled_dot_product_attention\nreturn f(q, k, v)",
    "local_alias_by_tuple": "G, scale = F, 2\nreturn G.scaled_dot_product_attention(q, k, v)",
    "local_module_by_import": "G = importlib.import_module('torch.nn.functional')\nreturn G.scaled_dot_product_attention(q, k, v)",
    "walrus": "return (f := F.scaled_dot_product_attention)(q, k, v)",
    "walrus_of_the_module": "return (G := F).scaled_dot_product_attention(q, k, v)",
    "lambda": "return (lambda *a: F.scaled_dot_product_attention(*a))(q, k, v)",
    "inner_function": "def inner():\n    return F.scaled_dot_product_attention(q, k, v)\nreturn inner()",
    "inner_function_with_outer_alias": "G = F\ndef inner():\n    return G.scaled_dot_product_attention(q, k, v)\nreturn inner()",
    "inner_argument_of_the_modules_name": "g = lambda F: F\nreturn F.scaled_dot_product_attention(q, k, v)",
    "with": "with torch.no_grad():\n    return F.scaled_dot_product_attention(q, k, v)",
    "partial": "import functools\nreturn functools.partial(F.scaled_dot_product_attention, q)(k, v)",
}


@pytest.mark.parametrize("name", BODIES)
def test_the_answers_own_call_is_found(name: str) -> None:
    call = found(answer(BODIES[name]))
    assert call is not None
    assert call.name in NAMES
    assert call.line is not None


REACHED = {
    "from_import": ["from torch.nn.functional import scaled_dot_product_attention as attend", answer("return attend(q, k, v)")],
    "star_import": ["from torch.nn.functional import *", answer("return scaled_dot_product_attention(q, k, v)")],
    "helper": ["def helper(*a):\n    return F.scaled_dot_product_attention(*a)", answer("return helper(q, k, v)")],
    "helper_of_a_helper": [
        "def a(*x):\n    return F.scaled_dot_product_attention(*x)",
        "def b(*x):\n    return a(*x)",
        answer("return b(q, k, v)"),
    ],
    "helper_defined_later": [answer("return helper(q, k, v)"), "def helper(*a):\n    return F.scaled_dot_product_attention(*a)"],
    "alias": ["attend = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "alias_of_the_module": ["G = torch.nn\nH = G.functional", answer("return H.scaled_dot_product_attention(q, k, v)")],
    "alias_by_tuple": ["attend, scale = F.scaled_dot_product_attention, 2", answer("return attend(q, k, v)")],
    "annotated": ["attend: object = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "chained_assignment": ["a = b = F.scaled_dot_product_attention", answer("return a(q, k, v)")],
    "walrus": ["print(attend := F.scaled_dot_product_attention)", answer("return attend(q, k, v)")],
    "lambda": ["attend = lambda *a: F.scaled_dot_product_attention(*a)", answer("return attend(q, k, v)")],
    "answer_is_a_lambda": ["answer = lambda q, k, v: F.scaled_dot_product_attention(q, k, v)"],
    "answer_is_the_function": ["answer = F.scaled_dot_product_attention"],
    "answer_is_imported": ["from torch.nn.functional import scaled_dot_product_attention as answer"],
    "answer_is_a_partial": ["import functools\nanswer = functools.partial(F.scaled_dot_product_attention, scale=1)"],
    "with": ["with torch.no_grad():\n    attend = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "redefined": [answer("return q"), answer("return F.scaled_dot_product_attention(q, k, v)")],
    "module_object": ["mha = nn.MultiheadAttention(8, 2)", answer("return mha(q, k, v)[0]")],
    "with_magics": ["%matplotlib inline\n!pip list\nattend = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "indented_magic": ["if True:\n    %matplotlib inline\nattend = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "cell_magic": ["%%time\nattend = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "a_line_that_begins_with_a_percent_sign": ["x = (7\n     % 4)\nattend = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "async": ["async def helper(*a):\n    return F.scaled_dot_product_attention(*a)", answer("return helper(q, k, v)")],
    "a_cell_beside_it_is_broken": ["def broken(:\n", answer("return F.scaled_dot_product_attention(q, k, v)")],
}  # fmt: skip


BY_TEXT = {
    "vars": "return vars(F)['scaled_dot_product_attention'](q, k, v)",
    "dict": "return F.__dict__['scaled_dot_product_attention'](q, k, v)",
    "dict_get": "return F.__dict__.get('scaled_dot_product_attention')(q, k, v)",
    "attrgetter": "from operator import attrgetter as get\nreturn get('scaled_dot_product_attention')(F)(q, k, v)",
    "attrgetter_deep": "import operator\nreturn operator.attrgetter('nn.functional.scaled_dot_product_attention')(torch)(q, k, v)",
    "itemgetter": "import operator\nreturn operator.itemgetter('scaled_dot_product_attention')(vars(F))(q, k, v)",
    "name_of_a_text": "name = 'scaled_dot_product_attention'\nreturn getattr(F, name)(q, k, v)",
    "getattr_by_alias": "g = getattr\nreturn g(F, 'scaled_dot_product_attention')(q, k, v)",
    "getattribute": "return F.__getattribute__('scaled_dot_product_attention')(q, k, v)",
    "getattribute_of_object": "return object.__getattribute__(F, 'scaled_dot_product_attention')(q, k, v)",
    "join": "return getattr(F, '_'.join(['scaled', 'dot', 'product_attention']))(q, k, v)",
    "percent": "return getattr(F, 'scaled_%s_attention' % 'dot_product')(q, k, v)",
    "format": "return getattr(F, 'scaled_{}_{b}'.format('dot', b='product_attention'))(q, k, v)",
    "f_string_of_a_name": "a = 'scaled'\nreturn getattr(F, f'{a}_dot_product_attention')(q, k, v)",
    "slice": "return getattr(F, 'xxscaled_dot_product_attention'[2:])(q, k, v)",
    "reversal": "return getattr(F, 'noitnetta_tcudorp_tod_delacs'[::-1])(q, k, v)",
    "reversed": "return getattr(F, ''.join(reversed('noitnetta_tcudorp_tod_delacs')))(q, k, v)",
    "characters": "return getattr(F, chr(115) + 'caled_dot_product_attention')(q, k, v)",
    "bytes": "return getattr(F, b'scaled_dot_product_attention'.decode())(q, k, v)",
    "replace": "return getattr(F, 'scaled-dot-product-attention'.replace('-', '_'))(q, k, v)",
    "lower": "return getattr(F, 'SCALED_DOT_PRODUCT_ATTENTION'.lower())(q, k, v)",
    "eval": "return eval('F.scaled_dot_' + 'product_attention(q, k, v)')",
    "eval_of_a_function": "return eval('F.scaled_dot_product_attention')(q, k, v)",
    "exec": "exec('import torch.nn.functional as G\\nout = G.scaled_dot_product_attention(q, k, v)')\nreturn locals()['out']",
    "sys_modules": "import sys\nreturn sys.modules['torch.nn.functional'].scaled_dot_product_attention(q, k, v)",
    "sys_modules_get": "import sys\nreturn sys.modules.get('torch.nn.functional').scaled_dot_product_attention(q, k, v)",
    "relative_import": "return importlib.import_module('.functional', 'torch.nn').scaled_dot_product_attention(q, k, v)",
    "resolve_name": "import pkgutil\nreturn pkgutil.resolve_name('torch.nn.functional:scaled_dot_product_attention')(q, k, v)",
    "globals": "return globals()['F'].scaled_dot_product_attention(q, k, v)",
    "patterns_of_the_compiler": "from torch._inductor.fx_passes.fuse_attention import _sfdp_pattern_1 as f\nreturn f(q, k, v, 2)",
}
PASSED_ON = {
    "step_by_step": ["G = torch\nG = G.nn\nG = G.functional", answer("return G.scaled_dot_product_attention(q, k, v)")],
    "through_300_names": ["a0 = torch.nn\n" + "".join(f"a{n + 1} = a{n}\n" for n in range(300)), answer("return a300.functional.scaled_dot_product_attention(q, k, v)")],
    "through_80_names_of_its_own": [answer("a0 = F\n" + "".join(f"a{n + 1} = a{n}\n" for n in range(80)) + "return a80.scaled_dot_product_attention(q, k, v)")],
    "globals_updated_by_a_module": ["globals().update(vars(F))", answer("return scaled_dot_product_attention(q, k, v)")],
    "exec_in_a_cell": ["exec('from torch.nn.functional import scaled_dot_product_attention as attend')", answer("return attend(q, k, v)")],
}  # fmt: skip


@pytest.mark.parametrize("name", BY_TEXT)
def test_a_name_that_is_put_together_from_constant_texts_is_found(name: str) -> None:
    call = found(answer(BY_TEXT[name]))
    assert call is not None
    assert call.name in NAMES
    assert call.line is not None


@pytest.mark.parametrize("name", PASSED_ON)
def test_what_is_passed_on_or_stored_is_found_where_it_is_used(name: str) -> None:
    call = found(*PASSED_ON[name])
    assert call is not None
    assert call.name in NAMES


REACHED_PERHAPS = {
    "walrus_before": [answer("if (G := F):\n    return G.scaled_dot_product_attention(q, k, v)")],
    "comprehension": [answer("return [f(q, k, v) for f in [F.scaled_dot_product_attention]][0]")],
    "dict": [answer("return {'f': F.scaled_dot_product_attention}['f'](q, k, v)")],
    "unreached_branch": [answer("if False:\n    return F.scaled_dot_product_attention(q, k, v)")],
    "for": ["for attend in [F.scaled_dot_product_attention]:\n    pass", answer("return attend(q, k, v)")],
    "answer_is_an_object": ["class A:\n    def __call__(self, q, k, v):\n        return F.scaled_dot_product_attention(q, k, v)\nanswer = A()"],
    "class_attribute": ["class H:\n    attend = F.scaled_dot_product_attention", answer("return H.attend(q, k, v)")],
    "attribute_set_later": ["class H: pass\nH.attend = F.scaled_dot_product_attention", answer("return H.attend(q, k, v)")],
    "dict_of_another_cell": ["fs = {'a': F.scaled_dot_product_attention}", answer("return fs['a'](q, k, v)")],
    "dict_filled_later": ["fs = {}", "fs['a'] = F.scaled_dot_product_attention", answer("return fs['a'](q, k, v)")],
    "list_filled_later": ["fs = []\nfs.append(F.scaled_dot_product_attention)", answer("return fs[0](q, k, v)")],
    "list_extended": ["fs = [F.scaled_dot_product_attention]\nfs += [abs]", answer("return fs[0](q, k, v)")],
    "default_argument": ["def answer(q, k, v, attend=F.scaled_dot_product_attention):\n    return attend(q, k, v)"],
    "default_argument_named_like_the_module": ["def answer(q, k, v, *, F=F.scaled_dot_product_attention):\n    return F(q, k, v)"],
    "decorator": [
        "def instead(f):\n    return F.scaled_dot_product_attention",
        "@instead\ndef answer(q, k, v):\n    return q",
    ],
    "global": ["def setup():\n    global attend\n    attend = F.scaled_dot_product_attention\nsetup()", answer("return attend(q, k, v)")],
    "try": ["try:\n    from torch.nn.functional import scaled_dot_product_attention as attend\nexcept ImportError:\n    attend = None", answer("return attend(q, k, v)")],
    "branch": ["attend = None\nif torch:\n    attend = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "branch_before": ["attend = F.scaled_dot_product_attention\nif not torch:\n    attend = None", answer("return attend(q, k, v)")],
    "inherited": ["class M(nn.MultiheadAttention): pass", answer("return M(8, 2)(q, k, v)[0]")],
    "methodcaller": [answer("import operator\nreturn operator.methodcaller('scaled_dot_product_attention', q, k, v)(F)")],
    "name_in_two_steps": [answer("name = 'scaled_'\nname = name + 'dot_product_attention'\nreturn getattr(F, name)(q, k, v)")],
    "name_of_a_loop": [answer("for name in ['scaled_dot_product_attention']:\n    return getattr(F, name)(q, k, v)")],
    "name_of_a_comprehension": [answer("return [getattr(F, name) for name in ('scaled_dot_product_attention',)][0](q, k, v)")],
    "as_a_default": ["def answer(q, k, v, m=F):\n    return m.scaled_dot_product_attention(q, k, v)"],
    "in_a_list": ["ms = [F]", answer("return ms[0].scaled_dot_product_attention(q, k, v)")],
    "in_a_dict": ["ms = {'a': (F, 1)}", answer("return ms['a'][0].scaled_dot_product_attention(q, k, v)")],
    "in_a_namespace": ["import types\nns = types.SimpleNamespace()\nns.m = F", answer("return ns.m.scaled_dot_product_attention(q, k, v)")],
    "by_one_of_two_names": ["if not torch:\n    G = math\nelse:\n    G = F", answer("return G.scaled_dot_product_attention(q, k, v)")],
    "by_a_choice": ["G = math if not torch else F", answer("return G.scaled_dot_product_attention(q, k, v)")],
    "setattr": ["class H: pass\nsetattr(H, 'attend', F.scaled_dot_product_attention)", answer("return H.attend(q, k, v)")],
    "attribute_of_the_answer": [answer("return answer.attend(q, k, v)"), "answer.attend = F.scaled_dot_product_attention"],
    "attribute_of_the_answer_by_text": [answer("return getattr(answer, 'att' + 'end')(q, k, v)"), "answer.attend = F.scaled_dot_product_attention"],
    "attribute_of_the_answer_by_any_text": [answer("return vars(answer)[min(vars(answer))](q, k, v)"), "answer.attend = F.scaled_dot_product_attention"],
    "code_of_the_answer": [answer("return q"), "answer.__code__ = F.multi_head_attention_forward.__code__"],
    "globals_set": ["globals()['attend'] = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "globals_updated": ["globals().update(attend=F.scaled_dot_product_attention)", answer("return attend(q, k, v)")],
    "globals_updated_by_a_dict": ["globals().update({'attend': F.scaled_dot_product_attention})", answer("return attend(q, k, v)")],
    "compared": [answer("return q == F.scaled_dot_product_attention")],
    "compared_kind": [answer("assert type(q) != F.scaled_dot_product_attention\nreturn F.scaled_dot_product_attention if q is k else q")],
    "passed_on": [answer("isinstance = lambda f, *a: f(*a)\nreturn isinstance(F.scaled_dot_product_attention, q, k, v)")],
    "by_vmap": [answer("return torch.vmap(F.scaled_dot_product_attention)(q, k, v)")],
    "by_a_flag": ["def answer(q, k, v, use_torch=True):\n    if use_torch:\n        return F.scaled_dot_product_attention(q, k, v)\n    return q"],
    "behind_a_return": ["def answer(q, k, v, own=False):\n    if own:\n        return q\n    return F.scaled_dot_product_attention(q, k, v)"],
    "by_either": [answer("return False or F.scaled_dot_product_attention(q, k, v)")],
    "after_an_error": [answer("try:\n    q.no_such\nexcept AttributeError:\n    return F.scaled_dot_product_attention(q, k, v)")],
    "by_one_of_several": ["def mine(*a):\n    return a", "ways = {'mine': mine, 'torch': F.scaled_dot_product_attention}", answer("return ways['torch'](q, k, v)")],
    "by_a_decorator": ["import functools", "def instead(f):\n    return lambda g: f", "@instead(F.scaled_dot_product_attention)\ndef answer(q, k, v):\n    return q"],
    "by_a_method": ["class M:\n    def run(self, *a):\n        return F.scaled_dot_product_attention(*a)", answer("return M().run(q, k, v)")],
    "by_a_module": ["class M(nn.Module):\n    def forward(self, *a):\n        return F.scaled_dot_product_attention(*a)\nm = M()", answer("return m(q, k, v)")],
    "by_a_global": ["def set():\n    global attend\n    attend = F.scaled_dot_product_attention\nset()", answer("global attend\nreturn attend(q, k, v)")],
}  # fmt: skip
NEVER_CALLED = ("unreached_branch", "compared", "compared_kind", "code_of_the_answer")


@pytest.mark.parametrize("name", REACHED_PERHAPS)
def test_what_is_reached_perhaps_costs_nothing_and_is_for_a_person_to_read(name: str) -> None:
    # tests/worker/test_watch.py shows that those that are really called are seen then.
    assert found(*REACHED_PERHAPS[name]) is None
    hidings = dict(find_hiding([HEAD, *REACHED_PERHAPS[name]]))
    assert {"scaled_dot_product_attention", "MultiheadAttention", "multi_head_attention_forward"} & set(hidings)


PERHAPS = {
    "getattr_in_part": [answer("import functools\nreturn functools.partial(getattr, F)('scaled_dot_product_attention')(q, k, v)")],
    "to_a_helper": ["def helper(m, *a):\n    return m.scaled_dot_product_attention(*a)", answer("return helper(F, q, k, v)")],
    "from_a_helper": ["def helper():\n    return F", answer("return helper().scaled_dot_product_attention(q, k, v)")],
    "in_an_object": ["class A:\n    def __init__(self):\n        self.m = F\n    def __call__(self, q, k, v):\n        return self.m.scaled_dot_product_attention(q, k, v)\nanswer = A()"],
    "of_something_else": ["def helper(m, q):\n    return m.softmax(q, -1)", answer("return helper(F, q) + k['scaled_dot_product_attention']")],
}  # fmt: skip


@pytest.mark.parametrize("name", PERHAPS)
def test_what_a_module_that_is_passed_on_may_be_asked_for_is_for_a_person_to_read(name: str) -> None:
    # Whether it was called is what the watch sees.
    assert found(*PERHAPS[name]) is None
    hidings = dict(find_hiding([HEAD, *PERHAPS[name]]))
    assert "scaled_dot_product_attention" in hidings


MENTIONED = {
    "name": [answer("told = 'like ' + F.scaled_dot_product_attention.__name__\nreturn q")],
    "documentation_of_an_alias": ["attend = F.scaled_dot_product_attention", answer("told = attend.__doc__\nreturn q")],
    "statement": [answer("F.scaled_dot_product_attention\nreturn q")],
    "kind": [answer("if isinstance(q, nn.MultiheadAttention):\n    return k\nreturn q")],
    "one_of_two_kinds": [answer("assert not isinstance(q, (nn.Linear, nn.MultiheadAttention)), 'no'\nreturn q")],
    "kind_or_another": [answer("return isinstance(q, nn.Linear | nn.MultiheadAttention)")],
    "identity": [answer("return k if q is F.scaled_dot_product_attention else q")],
    "truth": [answer("if F.scaled_dot_product_attention:\n    return q")],
    "help": [answer("help(F.scaled_dot_product_attention)\nreturn q")],
    "whether_it_exists": [answer("return hasattr(F, 'scaled_dot_product_attention')")],
    "note_beside_the_answer": [answer("return answer(q, k, v)"), "answer.note = F.scaled_dot_product_attention"],
    "note_by_setattr": [answer("return q"), "setattr(answer, 'note', F.scaled_dot_product_attention)"],
    "own_method_while_a_module_is_passed_on": [
        "class M:\n    def scaled_dot_product_attention(self, q):\n        return q",
        answer("softmax = getattr(F, 'softmax')\nreturn M().scaled_dot_product_attention(q)"),
    ],
    "module_passed_on_for_something_else": ["def answer(q, k, v, xp=torch):\n    return xp.softmax(q @ k.mT, -1) @ v"],
}  # fmt: skip


@pytest.mark.parametrize("name", MENTIONED)
def test_a_mention_that_is_neither_called_nor_passed_on_is_no_offence(name: str) -> None:
    assert found(*MENTIONED[name]) is None


@pytest.mark.parametrize(
    "body",
    [
        "return isinstance(q, F.scaled_dot_product_attention(q, k, v))",
        "F.scaled_dot_product_attention(q, k, v)",
        "if F.scaled_dot_product_attention(q, k, v) is q: return q",
        "return F.scaled_dot_product_attention.__call__(q, k, v)",
    ],
)
def test_a_call_in_the_place_of_a_mention_is_found(body: str) -> None:
    assert found(answer(body)) is not None


@pytest.mark.parametrize("name", REACHED)
def test_a_call_by_way_of_other_cells_is_found(name: str) -> None:
    call = found(*REACHED[name])
    assert call is not None
    assert call.name in NAMES


INNOCENT = {
    "comment": [answer("# F.scaled_dot_product_attention(q, k, v)\nreturn q")],
    "string": [answer("print('F.scaled_dot_product_attention(q, k, v)')\nreturn q")],
    "docstring": [answer("'''Like torch.nn.functional.scaled_dot_product_attention.'''\nreturn q")],
    "annotation": ["def answer(q: nn.MultiheadAttention, k, v) -> 'F.scaled_dot_product_attention':\n    x: nn.MultiheadAttention = q\n    return x"],
    "own_function_of_that_name": ["def scaled_dot_product_attention(q, k, v):\n    return q", answer("return scaled_dot_product_attention(q, k, v)")],
    "own_class_of_that_name": ["class MultiheadAttention(nn.Module):\n    pass", answer("return MultiheadAttention()(q)")],
    "own_method_of_that_name": ["class M:\n    def scaled_dot_product_attention(self, q):\n        return q", answer("return M().scaled_dot_product_attention(q)")],
    "own_function_after_the_import": [
        "from torch.nn.functional import scaled_dot_product_attention as attend",
        "def attend(q, k, v):\n    return q",
        answer("return attend(q, k, v)"),
    ],
    "own_function_after_a_star_import": [
        "from torch.nn.functional import *",
        "def scaled_dot_product_attention(q, k, v):\n    return q",
        answer("return scaled_dot_product_attention(q, k, v)"),
    ],
    "star_import_of_something_else": ["from math import *", answer("return scaled_dot_product_attention(q, k, v)")],
    "unreached_helper": ["def helper(*a):\n    return F.scaled_dot_product_attention(*a)", answer("return q")],
    "comparison_outside": [answer("return q"), "q = torch.ones(1, 2, 2)\nassert torch.allclose(answer(q, q, q), F.scaled_dot_product_attention(q, q, q))"],
    "comparison_function": [answer("return q"), "def compare(q):\n    return answer(q, q, q) - F.scaled_dot_product_attention(q, q, q)"],
    "local_variable_named_F": [answer("F = q @ k\nreturn F.scaled_dot_product_attention")],
    "argument_named_F": ["def answer(q, k, F):\n    return F.scaled_dot_product_attention"],
    "argument_named_like_an_alias": ["attend = F.scaled_dot_product_attention", "def answer(q, attend, v):\n    return attend"],
    "method_argument_named_like_an_alias": ["attend = F.scaled_dot_product_attention", "class A:\n    def __call__(self, q, attend, v):\n        return attend\nanswer = A()"],
    "comprehension_variable_named_like_an_alias": ["attend = F.scaled_dot_product_attention", answer("return [attend for attend in q]")],
    "local_function_named_like_an_alias": ["attend = F.scaled_dot_product_attention", answer("def attend(q):\n    return q\nreturn attend(q)")],
    "local_of_another_function": ["if True:\n    def other():\n        helper = F.scaled_dot_product_attention", "def helper(q):\n    return q", answer("return helper(q)")],
    "dead_import": ["from torch.nn.functional import scaled_dot_product_attention", answer("return q")],
    "dead_local_import": [answer("from torch.nn.functional import scaled_dot_product_attention\nreturn q")],
    "the_other_half_of_a_tuple": ["mine, theirs = abs, F.scaled_dot_product_attention", answer("return mine(q)")],
    "other_functions": [answer("return F.softmax(q @ k.mT / math.sqrt(2), dim=-1) @ v")],
    "keyword_of_that_name": [answer("return dict(scaled_dot_product_attention=q)")],
    "no_answer": ["x = F.scaled_dot_product_attention"],
    "answer_by_recursion": [answer("return answer(q, k, v)")],
    "aliases_in_a_circle": ["a = b\nb = a", answer("return a.scaled_dot_product_attention(q)")],
    "an_alias_of_itself": ["a = a.b", answer("return a.scaled_dot_product_attention(q)")],
}  # fmt: skip


@pytest.mark.parametrize("name", INNOCENT)
def test_what_the_answer_does_not_call_is_no_offence(name: str) -> None:
    assert found(*INNOCENT[name]) is None


COUNTERPARTS = {
    "scaled_dot_product_attention": ["cross_entropy", "nll_loss", "linear_cross_entropy"],
    "MultiheadAttention": ["CrossEntropyLoss", "NLLLoss", "LinearCrossEntropyLoss"],
}


def with_losses(ways: dict[str, list[str]]) -> list[object]:
    """The same cells, each with a loss in the place of attention."""
    return [
        pytest.param(loss, [cell.replace(attention, loss) for cell in cells], id=f"{name}-{loss}")
        for name, cells in ways.items()
        for attention, losses in COUNTERPARTS.items()
        for loss in losses
        if any(attention in cell for cell in cells)
    ]


@pytest.mark.parametrize(
    ("loss", "cells"), with_losses({name: [answer(body)] for name, body in BODIES.items()} | REACHED)
)
def test_a_loss_is_found_by_whatever_way_attention_is(loss: str, cells: list[str]) -> None:
    call = found(*cells, names=LOSSES)
    assert call is not None
    assert call.name.rpartition(".")[2] == loss


@pytest.mark.parametrize(("loss", "cells"), with_losses(INNOCENT))
def test_a_loss_that_the_answer_does_not_call_is_no_offence_either(loss: str, cells: list[str]) -> None:
    assert found(*cells, names=LOSSES) is None


LOSS_CALLS = {
    "F.cross_entropy(q, k)": "functional.cross_entropy",
    "getattr(F, 'cross_' + 'entropy')(q, k)": "functional.cross_entropy",
    "getattr(F, f\"{'cross'}_entropy\")(q, k)": "functional.cross_entropy",
    "importlib.import_module('torch.nn.functional').cross_entropy(q, k)": "functional.cross_entropy",
    "torch._C._nn.cross_entropy_loss(q, k)": "functional.cross_entropy",
    "torch.ops.aten.cross_entropy_loss.default(q, k)": "functional.cross_entropy",
    "F.nll_loss(q.log_softmax(-1), k)": "functional.nll_loss",
    "torch._C._nn.nll_loss(q, k)": "functional.nll_loss",
    "torch._C._nn.nll_loss_nd(q, k)": "functional.nll_loss",
    "torch._C._nn.nll_loss2d(q, k)": "functional.nll_loss",
    "torch.ops.aten.nll_loss_forward(q, k, None, 1, -100)[0]": "functional.nll_loss",
    "torch.ops.aten.nll_loss2d_forward.default(q, k, None, 1, -100)[0]": "functional.nll_loss",
    "torch._refs.nn.functional.nll_loss(q, k)": "functional.nll_loss",
    "torch._decomp.decompositions._nll_loss_forward(q, k, None, 1, -100)[0]": "functional.nll_loss",
    "F.linear_cross_entropy(q, v, k)": "functional.linear_cross_entropy",
    "nn.modules.linear_cross_entropy._linear_cross_entropy_batch_chunked(q, k)": "functional.linear_cross_entropy",
    "nn.CrossEntropyLoss(ignore_index=0)(q, k)": "CrossEntropyLoss",
    "nn.CrossEntropyLoss.forward(v, q, k)": "CrossEntropyLoss",
    "nn.modules.loss.CrossEntropyLoss()(q, k)": "CrossEntropyLoss",
    "torch.jit.script(nn.CrossEntropyLoss())(q, k)": "CrossEntropyLoss",
    "net.NLLLoss()(q, k)": "NLLLoss",
    "nn.NLLLoss2d()(q, k)": "NLLLoss",
    "nn.LinearCrossEntropyLoss(4, 5)(q, k)": "LinearCrossEntropyLoss",
}


@pytest.mark.parametrize("call", LOSS_CALLS)
def test_every_form_of_a_finished_cross_entropy_is_found(call: str) -> None:
    expected = ForbiddenCall(f"torch.nn.{LOSS_CALLS[call]}", 3)
    assert found(answer(f"x = 1\nreturn {call}"), names=LOSSES) == expected
    helper = f"def helper(q, k, v):\n    return {call}"
    assert found(helper, answer("x = 1\nreturn helper(q, k, v)"), names=LOSSES) == expected


ACCEPTED_LOSSES = [
    "-F.log_softmax(q, -1).gather(-1, k[..., None]).mean()",
    "(q.logsumexp(-1) - torch.take_along_dim(q, k[..., None], -1)[..., 0]).mean()",
    "-(F.one_hot(k, 5) * torch.log_softmax(q, -1)).sum()",
    "F.kl_div(F.log_softmax(q, -1), F.one_hot(k, 5).float(), reduction='batchmean')",
    "nn.KLDivLoss()(nn.LogSoftmax(-1)(q), v)",
    "-torch.distributions.Categorical(logits=q).log_prob(k).mean()",
    "F.binary_cross_entropy(q, k) + F.binary_cross_entropy_with_logits(q, k) + torch.binary_cross_entropy_with_logits(q, k)",
    "F.gaussian_nll_loss(q, k, v) + F.poisson_nll_loss(q, k) + torch.poisson_nll_loss(q, k, True, False, 1, 1)",
    "nn.GaussianNLLLoss()(q, k, v) + nn.PoissonNLLLoss()(q, k) + nn.BCELoss()(q, k)",
    "F.multi_margin_loss(q, k) + F.ctc_loss(q, k, v, v)",
    "nll_loss(q, k)",
    "cross_entropy(q, k)",
    "Losses.cross_entropy(q, k) + Losses().nll_loss(q, k)",
    "CrossEntropyLoss()(q, k)",
    "[nll_loss for nll_loss in q][0]",
    "dict(cross_entropy=q)['cross_entropy']",
]


@pytest.mark.parametrize("call", ACCEPTED_LOSSES)
def test_accepted_ways_and_look_alikes_of_a_cross_entropy_are_no_offence(call: str) -> None:
    own = (
        "def nll_loss(q, k):\n    'Like F.nll_loss.'\n    return -q.gather(1, k)\n"
        "cross_entropy = lambda q, k: nll_loss(q.log_softmax(-1), k)  # as F.cross_entropy does\n"
        "class Losses:\n    cross_entropy = nll_loss = staticmethod(nll_loss)\n"
        "class CrossEntropyLoss(nn.Module):\n    def forward(self, q, k):\n        return nll_loss(q, k)\n"
    )
    compared = "assert torch.allclose(answer(q, k, v), F.cross_entropy(q, k))\nnll_loss(q, k) - F.nll_loss(q, k)"
    assert found(own, answer(f"nll = 0\nreturn nll + {call}"), compared, names=LOSSES) is None


SEQUENCES = COURSE.forbidden_names("sequences", "rnn") + COURSE.forbidden_names("sequences", "pad_sequences")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("nn.RNN(4, 5)(q)", "torch.nn.RNN"),
        ("nn.RNNCell(4, 5)(q)", "torch.nn.RNNCell"),
        ("torch.nn.modules.rnn.RNNCell(4, 5)(q)", "torch.nn.RNNCell"),
        ("torch.rnn_tanh_cell(q, k, v, v)", "torch.rnn_tanh_cell"),
        ("torch._VF.rnn_tanh(q, k, [v, v], True, 1, 0.0, False, False, True)", "torch.rnn_tanh"),
        ("nn.utils.rnn.pad_sequence(q, True)", "torch.nn.utils.rnn.pad_sequence"),
        ("torch._C._nn.pad_sequence(q, True, 0.0)", "torch.nn.utils.rnn.pad_sequence"),
        ("torch.nested.nested_tensor(q)", "torch.nested.nested_tensor"),
    ],
)
def test_a_finished_rnn_and_finished_padding_are_found_by_their_names(call: str, name: str) -> None:
    assert found(HEAD, answer(f"y = 1\nreturn {call}"), names=SEQUENCES) == ForbiddenCall(name, 3)


@pytest.mark.parametrize("call", ["F.pad(q, (0, 1))", "nn.LSTM(4, 5)(q)", "pad_sequences(q)", "rnn(q)", "q.rnn"])
def test_look_alikes_of_an_rnn_and_of_padding_are_no_offence(call: str) -> None:
    own = "def pad_sequences(q):\n    return q\ndef rnn(q):\n    return q\n"
    assert found(HEAD, own, answer(f"return {call}"), names=SEQUENCES) is None


def test_a_finished_loss_and_attention_may_be_used_where_only_multi_head_attention_is_forbidden() -> None:
    names = COURSE.forbidden_names("loss", "tagging_loss")
    losses = " + ".join(LOSS_CALLS)
    assert found(answer(f"return F.scaled_dot_product_attention(q, k, v) + {losses}"), names=names) is None
    assert (
        found(answer("return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)"), names=names) is None
    )
    for call, name in {
        "F.multi_head_attention_forward": "functional.multi_head_attention_forward",
        "nn.MultiheadAttention": "MultiheadAttention",
    }.items():
        assert found(answer(f"return {call}(q, k, v)"), names=names) == ForbiddenCall(f"torch.nn.{name}", 2)
        assert found(answer(f"return {call}(q, k, v)"), names=[SDPA]) is None


def test_the_name_and_the_answer_s_own_line_are_told() -> None:
    helper = "x = 1\ndef helper(*a):\n    y = 2\n    return F.scaled_dot_product_attention(*a)"
    assert found(helper, answer("return helper(q, k, v)")) == ForbiddenCall(SDPA, 2)
    assert found("attend = nn.MultiheadAttention", answer("z = 1\nreturn attend(8, 2)(q)")) == ForbiddenCall(MODULE, 3)


def test_only_what_is_forbidden_is_found() -> None:
    body = answer("return F.scaled_dot_product_attention(q, k, v)")
    assert found(body, names=[]) is None
    assert found(body, names=["torch.bmm"]) is None
    assert found(answer("return torch.bmm(q, k)"), names=["torch.bmm"]) == ForbiddenCall("torch.bmm", 2)


def test_other_packages_can_be_forbidden() -> None:
    source = answer("import flash_attn\nreturn flash_attn.flash_attn_func(q, k, v)")
    assert found(source, names=["flash_attn.flash_attn_func"]) == ForbiddenCall("flash_attn.flash_attn_func", 3)


HOSTILE = {
    "brackets": "[" * 1_000_000,
    "balanced_brackets": "x = " + "[" * 90 + "]" * 90,
    "minus_signs": "x = " + "-" * 500_000 + "1",
    "nuls": "\0" * 1000,
    "surrogates": "x = '\ud800'\ny = \udfff",
    "attributes": "def answer(q):\n    return q" + ".a" * 2_000,
    "many_attributes": "def answer(q):\n    return q" + ".a" * 200_000,
    "calls": "def answer(q):\n    return q" + "()" * 2_000,
    "additions": "def answer(q):\n    return getattr(q, " + "+".join(["'a'"] * 900) + ")",
    "many_additions": "x = " + "+".join(["'a'"] * 100_000),
    "getattrs": "def answer(q):\n    return " + "getattr(" * 80 + "q" + ", 'a')" * 80,
    "lambdas": "answer = " + "lambda: " * 900 + "1",
    "elifs": "def answer(q):\n    if q: pass\n" + "    elif q: pass\n" * 900,
    "nested_ifs": "".join("  " * n + "if x:\n" for n in range(45)) + "  " * 45 + "answer = x",
    "nested_functions": "".join("  " * n + f"def answer{n or ''}(q):\n" for n in range(45)) + "  " * 45 + "pass",
    "aliases": "a0 = x\n" + "".join(f"a{n + 1} = a{n}\n" for n in range(5_000)) + "answer = lambda: a5000.b",
    "aliases_in_branches": "if x:\n" + "    a = a.b, a.c\n" * 3_000 + "answer = lambda: [" + "a.d, " * 3_000 + "]",
    "circles_in_branches": "if x:\n" + "    a = b.c\n    b = a.c\n" * 40 + "answer = lambda: a.d",
    "helpers": "".join(f"def f{n}(): f{n + 1}()\n" for n in range(5_000)) + "answer = f0",
    "everything_reaches_everything": "".join(
        f"def f{n}(): {', '.join(f'f{m}' for m in range(100))}\n" for n in range(100)
    )
    + "answer = f0",
    "odd_escapes": r"answer = '\d\q'",
    "form_feeds": "\f\f answer = 1\r\n\x1a",
    "huge_number": "answer = " + "9" * 10_000,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_source_raises_nothing_and_takes_no_time(name: str) -> None:
    started = time.process_time()
    assert found(HOSTILE[name]) is None
    assert time.process_time() - started < 5


def test_a_function_behind_thousands_of_names_is_looked_at_once() -> None:
    names = ", ".join(f"n{number}" for number in range(4000))
    helper = f"def helper():\n    global {names}\n    [{names}]\n"
    started = time.process_time()
    assert found(helper, answer("helper()\nreturn q")) is None
    assert time.process_time() - started < 5  # each name for itself took a minute


HIDING = {
    "sys._getframe": "import sys\nreturn sys._getframe(1)",
    "f_back": "import sys\nreturn sys._getframe(1).f_back",
    "sys.modules": "import sys\nreturn sys.modules['math'].sqrt(2)",
    "gc.get_objects": "import gc\nreturn gc.get_objects()",
    "inspect.currentframe": "import inspect\nreturn inspect.currentframe()",
    "ctypes": "import ctypes\nreturn ctypes.pythonapi",
    "autograder": "import autograder.worker.watch as w\nw._watch = None",
    "torch._C": "with torch._C.DisableTorchFunction():\n    return q",
    "torch.library": "torch.library.Library('aten', 'IMPL')",
    "exec": "exec(q)",
    "eval": "return eval(input())",
    "compile": "return compile(q, '', 'exec')",
    "getattr": "return getattr(F, q)(k)",
    "importlib.import_module": "return importlib.import_module(q)",
    "__import__": "return __import__(q)",
    "operator.attrgetter": "import operator\nreturn operator.attrgetter(q)(F)",
    "vars": "return [f for f in vars(F).values()]",
    "__dict__": "return F.__dict__[q]",
    "__code__": "return answer.__code__",
    "__globals__": "return answer.__globals__",
    "__subclasses__": "return nn.Module.__subclasses__()",
    "get_ipython": "return get_ipython().run_cell(q)",
    "types.FunctionType": "import types\nreturn types.FunctionType",
}


@pytest.mark.parametrize("what", HIDING)
def test_what_could_hide_a_call_is_told_with_its_line(what: str) -> None:
    hidings = find_hiding([HEAD, answer("x = 1\n" + HIDING[what])])
    line = dict(hidings)[what]
    assert line in (3, 4)
    helper = "def helper(q, k=0):\n    " + HIDING[what].replace("\n", "\n    ").replace("answer", "helper")
    assert dict(find_hiding([HEAD, helper, answer("x = 1\nreturn helper(q)")]))[what] == 3
    beside = find_hiding([HEAD, helper, answer("return q")])
    assert what not in dict(beside) or dict(beside)[what] is None


@pytest.mark.parametrize(
    "body",
    [
        "return getattr(map, 'x', 1)(getattr, [F], [q])",
        "return list(map(eval, [q]))",
        "f = exec\nf(q)",
        "return getattr(q, '__' + 'code' + '__')",
    ],
)
def test_what_could_hide_a_call_is_told_behind_an_alias_or_a_text(body: str) -> None:
    assert find_hiding([HEAD, answer(body)]) != []


def test_what_could_change_the_watch_is_told_wherever_it_stands() -> None:
    for source in (
        "import autograder.worker.watch as w\nw._note = print",
        "from autograder.worker import watch",
        "w = importlib.import_module('autograder.worker.watch')",
        "import sys\nsys._getframe(3).f_locals.clear()",
    ):
        assert [line for _, line in find_hiding([HEAD, source, answer("return q")])] == [None]


def honest() -> Iterator[tuple[str, list[str]]]:
    """Answers and notebooks of the course, each with the sources of its cells."""
    for path in sorted((REPOSITORY / "examples" / "answers").glob("*.py")):
        yield f"{path.parent.name}/{path.name}", [path.read_text()]
    for path in sorted((REPOSITORY / "tests" / "hidden").glob("*/correct_*.py")):
        yield from ((f"{path.stem}:{number}", cells) for number, cells in enumerate(correct_answers(path)))
    for folder in ("release", "source"):
        for path in sorted((REPOSITORY / folder).glob("*/*.ipynb")):
            cells = json.loads(path.read_text())["cells"]
            yield f"{folder}/{path.name}", ["".join(one["source"]) for one in cells if one["cell_type"] == "code"]


def correct_answers(path: Path) -> Iterator[list[str]]:
    """The answers that a module of correct ones holds: texts, and the module's own functions."""
    tree = ast.parse(path.read_text())
    for statement in tree.body:
        match statement:
            case ast.Assign(value=ast.Call(func=ast.Name(id="correct_source"), args=[_, ast.Constant(value=text)])):
                yield [str(text)]
            case ast.FunctionDef():
                statement.decorator_list = []
    own = [
        one
        for one in tree.body
        if "autograder" not in ast.unparse(one)[:30] and "correct_source" not in ast.unparse(one)
    ]
    yield [ast.unparse(ast.Module(own, []))]


HONEST = dict(honest())


@pytest.mark.parametrize("name", HONEST)
def test_honest_answers_and_notebooks_hide_nothing(name: str) -> None:
    cells = HONEST[name]
    defined = {
        one.name
        for source in cells
        for one in ast.walk(ast.parse(plain(source)))
        if isinstance(one, ast.FunctionDef | ast.ClassDef)
    }
    exercises = {exercise: name for name in COURSE.assignments for exercise in COURSE.assignment(name).exercises}
    for exercise, assignment in exercises.items():
        assert search(cells, exercise, COURSE.forbidden_names(assignment, exercise)) == Found()
    # A lesson's own comparison reaches the finished article, and nothing that hides it.
    for helper in defined - set(exercises):
        assert {what for what, _ in find_hiding(cells, helper)} <= {
            "scaled_dot_product_attention",
            "MultiheadAttention",
            "multi_head_attention_forward",
        }


def plain(source: str) -> str:
    return "\n".join(line for line in source.split("\n") if not line.startswith(("%", "!")))


def wide(line: str, characters: int = MAX_CHARACTERS - 3_000) -> str:
    return line * (characters // len(line))


EXHAUSTING = {
    "chains": "import torch\ndef answer(q):\n" + wide("    torch" + ".a" * 2_500 + "\n"),
    "short_chains": "import torch\ndef answer(q):\n" + wide("    torch.a.b.c.d.e\n"),
    "steps": "import torch\nx = torch\n" + wide("x = x.y\n") + "def answer(q):\n    return x.z(q)",
    "steps_of_its_own": "import torch\ndef answer(q):\n    x = torch\n" + wide("    x = x.y\n") + "    return x.z(q)",
    "steps_in_a_branch": "import torch\nx = torch\nif x:\n" + wide("    x = x.y\n", 70_000) + "answer = lambda: [" + wide("x.z, ", 70_000) + "]",
    "lambdas": "answer = " + "lambda x: " * 1_500 + "[" + "x.y, " * 25_000 + "]",
    "nested_functions": "".join("  " * n + f"def answer{n or ''}(q):\n" for n in range(90)) + ("  " * 90 + "x = q.a.b\n") * 700,
    "additions": "import torch\ndef answer(q):\n" + wide("    getattr(torch, " + "+".join(["q"] * 900) + ")\n"),
    "subscripts": "import torch\ndef answer(q):\n" + wide("    torch" + "['a']" * 1_500 + "\n"),
    "calls": "import torch\ndef answer(q):\n" + wide("    torch" + "()" * 1_500 + "\n"),
    "alternatives": "import torch\n" + "".join(f"if x: n = 'a{n}'\n" for n in range(7_500)) + "def answer(q): return getattr(torch, n)",
    "stars": "".join(f"from torch.m{n} import *\n" for n in range(2_500)) + "answer = lambda: [" + "".join(f"n{n}, " for n in range(9_000)) + "]",
    "mutual": "import torch\ndef answer(q):\n    if q:\n" + "".join(f"        a{n} = a{n * 7 % 900}.x, a{n * 13 % 900}.y\n" for n in range(4_500)) + "    return a1.z",
    "comment": "# " + "x" * 5_000_000,
    "width": "import torch\nanswer = lambda: getattr(torch, 'a' * 10**10 + '%10000000000d' % 1 + '{:10000000000}'.format(1) + f'{1:10000000000}' + str(bytes(10**10)))",
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", EXHAUSTING)
def test_no_source_of_any_size_keeps_the_search_busy(name: str) -> None:
    started = time.process_time()
    search([EXHAUSTING[name]], "answer", NAMES)
    assert time.process_time() - started < 5


def test_what_is_not_searched_to_the_end_is_told() -> None:
    for name in ("short_chains", "calls", "stars", "comment"):
        assert (TOO_LARGE, None) in find_hiding([EXHAUSTING[name]])


def test_the_small_cells_are_searched_beside_one_that_is_too_large() -> None:
    cells = [EXHAUSTING["comment"], answer("return F.scaled_dot_product_attention(q, k, v)")]
    assert found(*cells) == ForbiddenCall(SDPA, 2)
    assert (TOO_LARGE, None) in find_hiding([HEAD, EXHAUSTING["comment"], answer("return q")])


FALSE_ALARMS = {
    "class_with_a_comparison": ["class A(nn.Module):\n    def forward(self, q, k, v):\n        return q\n    def compare(self, *a):\n        return F.scaled_dot_product_attention(*a)\na = A()", answer("return a(q, k, v)")],
    "base_class": ["class B:\n    def reference(self, *a):\n        return F.scaled_dot_product_attention(*a)\nclass A(B):\n    def __call__(self, q, k, v):\n        return q\nanswer = A()"],
    "register": ["REG = {}\ndef register(f):\n    REG[f.__name__] = f\n    return f", "@register\n" + answer("return q"), "REG['torch'] = F.scaled_dot_product_attention"],
    "one_of_several": ["def mine(q, k, v):\n    return q\nways = {'mine': mine, 'torch': F.scaled_dot_product_attention}", answer("return ways['mine'](q, k, v)")],
    "check_that_is_off": ["class A:\n    def __init__(self, check=False):\n        if check:\n            self.reference = nn.MultiheadAttention(8, 2)\n    def __call__(self, q):\n        return q", answer("return A()(q)")],
    "debug": ["DEBUG = False", answer("if DEBUG:\n    print(F.scaled_dot_product_attention(q, k, v))\nreturn q")],
    "flag": ["def answer(q, k, v, use_torch=False):\n    if use_torch:\n        return F.scaled_dot_product_attention(q, k, v)\n    return q"],
    "return_before": ["def answer(q, k, v, use_torch=False):\n    if not use_torch:\n        return q\n    return F.scaled_dot_product_attention(q, k, v)"],
    "wraps": ["import functools\n@functools.wraps(F.scaled_dot_product_attention)\n" + answer("return q")],
    "kind": [answer("assert type(q) != nn.MultiheadAttention\nreturn q")],
    "global": [answer("global weights\nweights = q\nreturn weights"), "weights = F.scaled_dot_product_attention(q, q, q)"],
    "shared_list": ["losses = []", answer("losses.append(q)\nreturn q"), "losses.append(F.scaled_dot_product_attention(q, q, q))"],
    "helper_that_is_not_called": [answer("def check():\n    return F.scaled_dot_product_attention(q, k, v)\nreturn q")],
    "fallback": ["def mine(*a):\n    return a\nattend = mine\nif torch is None:\n    attend = F.scaled_dot_product_attention", answer("return attend(q, k, v)")],
    "choice": [answer("f = abs\nif q is None:\n    f = F.scaled_dot_product_attention\nreturn f(q)")],
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE_ALARMS)
def test_what_the_answer_need_not_call_is_no_breach(name: str) -> None:
    assert found(*FALSE_ALARMS[name]) is None
    assert [line for _, line in find_hiding([HEAD, *FALSE_ALARMS[name]])] != []


@pytest.mark.parametrize(
    "call",
    ["torch.onnx.ops.attention(q, k, v)", "torch.onnx.ops._impl.attention_23(q, k, v)", "ops.attention_23._init_fn(q, k, v)"],
)  # fmt: skip
def test_what_torch_wrote_for_onnx_is_found(call: str) -> None:
    names = COURSE.forbidden_names("attention", "scaled_dot_product_attention")
    call_found = found("import torch.onnx.ops._impl as ops", answer(f"return {call}"), names=names)
    assert call_found == ForbiddenCall("torch.onnx.ops.attention", 2)
    allowed = answer("with torch.nn.attention.sdpa_kernel(q):\n    return k")
    assert search([HEAD, allowed], "answer", names) == Found()


@pytest.mark.parametrize(
    "beside",
    [
        "%run fn.py",
        "get_ipython().push({'to' + 'ol': 1})",
        "exec(''.join(map(chr, [116])) + 'ool = 1')",
        "%load_ext mine",
    ],
)
def test_a_name_that_no_cell_binds_is_told(beside: str) -> None:
    assert find_hiding([HEAD, beside, answer("return tool(q)")]) == [("tool", 2)]


BOUND = {
    "in_a_handler": "try:\n    return q\nexcept ValueError as error:\n    raise KeyError from error",
    "in_a_match": "match q:\n    case [first, *rest]:\n        return first, rest\n    case {'a': one, **more}:\n        return one, more",
    "in_a_class": "class A:\n    x = 1\n    y = x\nreturn A",
    "in_an_expression": "return [(y := one) for one in q if (z := one)], [y for y in q]",
    "by_unpacking": "(a, *b), c = q\nfor d, (e, f) in k:\n    pass\nwith v as (g, h):\n    return a, b, c, d, e, f, g, h",
    "by_a_star": "return sqrt(len(q))",
    "by_the_notebook": "display(q, In, Out, _, __name__)\nreturn q",
    "by_a_loop_elsewhere": "return number",
}


@pytest.mark.parametrize("name", BOUND)
def test_names_that_are_bound_in_any_way_are_no_doubt(name: str) -> None:
    cells = [HEAD, "from math import *", "for number in range(3): pass", answer(BOUND[name])]
    assert find_hiding(cells) == []


@pytest.mark.parametrize(
    ("beside", "what"),
    [
        ("import sys\nw = sys.modules['auto' + 'grader.worker.watch']", "sys.modules"),
        ("import sys\nfor name, m in list(sys.modules.items()): print(m)", "sys.modules"),
        ("from sys import modules as m\nm['a' + 'b']", "sys.modules"),
        ("from importlib import import_module as im\nim('.'.join(['auto' + 'grader']))", "importlib.import_module"),
        ("__import__('auto' + 'grader')", "importlib.import_module"),
    ],
)
def test_what_gets_at_any_module_is_told_wherever_it_stands(beside: str, what: str) -> None:
    assert (what, None) in find_hiding([HEAD, beside, answer("return q")])


@pytest.mark.parametrize(
    "beside",
    [
        "for m in nn.Linear(1, 1).modules(): print(m)",
        "importlib.import_module('math')",
        "for dtype in (" + ", ".join(f"torch.int{n}" for n in range(12)) + "):\n    print(dtype)",
        "def plot():\n    for f in [" + ", ".join(f"F.act{n}" for n in range(12)) + "]:\n        f(1)",
        "png = '" + "A" * 160_000 + "'",
        "import gc, inspect\ngc.collect(); inspect.signature(print)",
    ],
)
def test_what_stands_beside_the_answer_and_hides_nothing_is_not_told(beside: str) -> None:
    assert find_hiding([HEAD, beside, answer("return q")]) == []


def test_what_hides_nothing_is_not_told_of_the_answer_either() -> None:
    assert find_hiding([HEAD, answer("import gc, inspect\ngc.collect()\ngc.disable()\ninspect.getsource(q)")]) == []
    assert find_hiding([HEAD, answer("import gc\nprint(gc)\nlist(map(q, [gc]))")]) == [("gc", 4)]


def test_one_line_is_told_once() -> None:
    told = find_hiding([HEAD, answer("import sys\nreturn sys._getframe(0).f_code.co_name")])
    assert told == [("f_code", 3)]


def test_more_than_is_followed_is_told_where_the_answer_reaches_it() -> None:
    many = "ways = [" + ", ".join(f"F.act{n}" for n in range(12)) + "]"
    assert (TOO_LARGE, None) in find_hiding([HEAD, many, answer("return ways[0](q)")])
    assert find_hiding([HEAD, many, answer("return q")]) == []
