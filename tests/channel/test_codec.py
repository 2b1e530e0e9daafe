"""Values as bytes: what is sent arrives the same, what can't be sent says why, and hostile tables are refused."""

from __future__ import annotations

import copy
import enum
import math
import random
import struct
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from autograder.channel import codec
from autograder.channel.codec import DTYPES, Decoder, Encoder, Unsupported
from autograder.channel.frames import ProtocolError
from tests.channel.endpoint import over_the_wire

MB = 1 << 20


def sent(value: Any, *, whole: bool = False) -> Any:
    """The value as it arrives on the other side."""
    return decoded(*encoded(value, whole=whole))


def encoded(value: Any, *, whole: bool = False) -> tuple[dict[str, Any], bytes]:
    encoder = Encoder(whole=whole)
    tree = encoder.value(value)
    tables, blobs = encoder.tables()
    return over_the_wire({"value": tree, **tables}, blobs)


def decoded(header: dict[str, Any], blob: bytes) -> Any:
    return Decoder(header, blob).value(header.get("value"))


def same(a: Tensor, b: Tensor) -> bool:
    if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
        return False
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a[~a.isnan()], b[~b.isnan()])


base = torch.arange(60.0).reshape(3, 4, 5)
TENSORS: dict[str, Tensor] = {
    "transposed": base.transpose(0, 2),
    "permuted": base.permute(2, 0, 1),
    "sliced": base[1:, ::2, 3],
    "one_element_far_inside": base[2, 3, 4],
    "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 7),
    "expanded_scalar": torch.tensor(3.0).expand(4, 4),
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(0),
    "empty_axis": torch.empty(3, 0, 2),
    "empty_slice_with_offset": torch.arange(10.0)[5:5],
    "empty_slice_at_the_end": torch.arange(10.0)[10:],
    "overlapping": torch.arange(6.0).as_strided((4, 3), (1, 1)),
    "nan_and_inf": torch.tensor([math.nan, math.inf, -math.inf, -0.0]),
    "many_axes": torch.zeros([1] * 16),
    "parameter": torch.nn.Parameter(torch.ones(2)).detach(),
}


@pytest.mark.parametrize("whole", [False, True], ids=["parts", "whole"])
@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_keeps_its_values_shape_and_strides(name: str, whole: bool) -> None:
    assert same(sent(TENSORS[name], whole=whole), TENSORS[name])


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_arrives(name: str) -> None:
    tensor = torch.tensor([0, 1, 1, 0, 1]).to(DTYPES[name])
    assert same(sent(tensor), tensor)
    assert same(sent(tensor[3:]), tensor[3:])
    assert same(sent(tensor.reshape(1, 5).T), tensor.reshape(1, 5).T)


def test_only_the_bytes_that_a_result_looks_at_are_sent() -> None:
    header, blob = encoded(torch.zeros(100_000)[5_000:5_004])
    assert len(blob) <= 32
    assert header["tensors"][0]["o"] * 4 < 32


def test_an_empty_tensor_beside_a_slice_sends_no_more_bytes() -> None:
    large = torch.arange(100_000.0)
    _, blob = encoded([large[90_000:90_004], large[0:0], large[50_000:50_000]])
    assert len(blob) <= 32
    here = sent([large[90_000:90_004], large[0:0]])
    assert same(here[0], large[90_000:90_004])


def test_inputs_are_sent_with_their_whole_storage() -> None:
    large = torch.arange(1000.0)
    arrived = sent(large[10:12], whole=True)
    assert arrived.untyped_storage().nbytes() == 4000
    assert arrived.storage_offset() == 10


def test_a_tensor_passed_three_times_arrives_as_one() -> None:
    x = torch.ones(2)
    a, (b, c) = sent([x, (x, x)])
    assert a is b is c


def test_equal_tensors_stay_apart() -> None:
    a, b = sent([torch.ones(2), torch.ones(2)])
    a.zero_()
    assert b.tolist() == [1, 1]


def test_views_of_one_storage_arrive_as_views_of_one_storage() -> None:
    whole = torch.arange(12.0)
    a, b, c = sent([whole[:6], whole[4:10].view(2, 3), whole[8:].view(torch.int32)])
    b.zero_()
    assert a.tolist() == [0, 1, 2, 3, 0, 0]
    assert c[:2].tolist() == [0, 0]
    assert c.dtype == torch.int32


def test_views_of_odd_dtypes_keep_their_places() -> None:
    whole = torch.arange(64, dtype=torch.uint8)
    bytes_, complex_ = whole[18:20], whole[32:48].view(torch.complex128)
    arrived = sent([bytes_, complex_])
    assert same(arrived[0], bytes_)
    assert same(arrived[1], complex_)


def test_a_conjugate_view_arrives_with_its_values_and_as_one_tensor() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j]).conj()
    a, b = sent([z, z])
    assert a is b
    assert a.tolist() == [1 - 2j, 3 + 1j]
    assert sent(z.imag).tolist() == [-2, 1]


class Colour(enum.IntEnum):
    RED = 3


class Word(str):
    pass


Point = namedtuple("Point", "x y")
Q = namedtuple("Q", "query key")


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (None, None),
        (True, True),
        (False, False),
        (0, 0),
        (-(2**200), -(2**200)),
        (1.5, 1.5),
        (math.inf, math.inf),
        (-0.0, -0.0),
        ("", ""),
        ("注意力 \ud800 \x00", "注意力 \ud800 \x00"),
        ([], []),
        ((), ()),
        ({}, {}),
        ([1, (2.0, "x"), [None]], [1, (2.0, "x"), [None]]),
        (Point(1, 2), (1, 2)),
        ({"a": 1, 2: [3], (1, "b"): None, None: True}, {"a": 1, 2: [3], (1, "b"): None, None: True}),
        (OrderedDict(a=1), {"a": 1}),
        (numpy.float32(0.5), 0.5),
        (numpy.int64(7), 7),
        (numpy.bool_(True), True),
        (numpy.float64(0.25), 0.25),
        (Colour.RED, 3),
        (Word("hi"), "hi"),
        (torch.bfloat16, torch.bfloat16),
        (torch.float8_e4m3fn, torch.float8_e4m3fn),
    ],
    ids=repr,
)
def test_plain_values_arrive(value: Any, arrives: Any) -> None:
    here = sent(value)
    assert here == arrives
    assert type(here) is type(arrives)
    assert math.copysign(1, here) == math.copysign(1, arrives) if isinstance(here, float) else True


def test_nan_arrives() -> None:
    assert math.isnan(sent(math.nan))


def test_the_order_of_a_dict_is_kept() -> None:
    assert list(sent({"b": 1, "a": 2})) == ["b", "a"]


class Tagged(Tensor):
    pass


def self_containing() -> list[Any]:
    loop: list[Any] = [1]
    loop.append(loop)
    return loop


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 0


def innermost(value: Any) -> Any:
    while isinstance(value, list | tuple | dict):
        value = list(value.values())[-1] if isinstance(value, dict) else value[-1]
    return value


UNSUPPORTED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "array": (lambda: numpy.ones(3), "numpy.ndarray", "numpy"),
    "array_scalar": (lambda: numpy.array(1.0), "numpy.ndarray", "numpy"),
    "generator": (lambda: (i for i in range(3)), "generator", "generator"),
    "map": (lambda: map(abs, [1]), "map", "generator"),
    "sparse": (lambda: torch.eye(2).to_sparse(), "torch.Tensor", "sparse"),
    "mkldnn": (lambda: torch.eye(2).to_mkldnn(), "torch.Tensor", "sparse"),
    "meta": (lambda: torch.ones(2, device="meta"), "torch.Tensor", "meta"),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8), "torch.Tensor", "quantized",
    ),
    "float8": (lambda: torch.ones(2).to(torch.float8_e4m3fn), "torch.Tensor", "dtype"),
    "subclass": (lambda: torch.ones(2).as_subclass(Tagged), f"{__name__}.Tagged", "subclass"),
    "module": (lambda: torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear", "other"),
    "function": (lambda: abs, "builtin_function_or_method", "other"),
    "object": (object, "object", "other"),
    "set": (lambda: {1}, "set", "other"),
    "bytes": (lambda: b"x", "bytes", "other"),
    "complex": (lambda: 1j, "complex", "other"),
    "huge_number": (lambda: 10**100, "int", "too_large"),
    "expand": (lambda: torch.zeros(1).expand(1 << 40), "torch.Tensor", "too_large"),
    "gigabytes": (lambda: torch.empty(codec.MAX_BLOB + 1, dtype=torch.uint8), "torch.Tensor", "too_large"),
    "far_apart": (
        lambda: torch.empty(2 * codec.MAX_BLOB, dtype=torch.uint8)[:: 2 * codec.MAX_BLOB - 1],
        "torch.Tensor",
        "too_large",
    ),
    "empty_but_endless": (lambda: torch.empty(0, 1 << 40), "torch.Tensor", "too_large"),
    "text": (lambda: "x" * (codec.MAX_TEXT + 1), "str", "too_large"),
    "many": (lambda: [0] * 10_000_000, "list", "too_large"),
    "many_pairs": (lambda: dict.fromkeys(range(9_000)), "dict", "too_large"),
    "deep": (lambda: nested(30), "list", "too_deep"),
    "loop": (self_containing, "list", "too_deep"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_cannot_cross_says_why(name: str) -> None:
    make, type_name, reason = UNSUPPORTED[name]
    assert innermost(sent(make())) == Unsupported(type_name, reason)


def test_an_unsupported_item_leaves_the_others_alone() -> None:
    a, b, c = sent((torch.ones(1), numpy.ones(1), 3))
    assert (a.tolist(), b.reason, c) == ([1], "numpy", 3)


def test_a_wide_list_that_contains_itself_ends() -> None:
    loop: list[Any] = []
    loop.extend([loop] * 5_000)
    header, _ = encoded(loop)
    assert len(str(header)) < 4 * MB


def test_two_far_views_of_a_large_storage_do_not_make_a_frame_too_large_to_send() -> None:
    large = torch.empty(2 * codec.MAX_BLOB, dtype=torch.uint8)  # never touched, so it costs no memory
    header, blob = encoded([large[:4], large[-4:]])
    assert len(blob) <= 16
    first, second = decoded(header, blob)
    assert isinstance(first, Tensor)
    assert second == Unsupported("torch.Tensor", "too_large")


def test_many_views_of_one_input_are_counted_once_in_the_frame() -> None:
    large = torch.zeros(30 * MB, dtype=torch.uint8)
    views = sent([large[n : n + 1] for n in range(20)], whole=True)
    assert all(isinstance(view, Tensor) for view in views)


def test_a_container_with_a_mind_of_its_own_is_read_by_its_base_class() -> None:
    class Liar(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise RuntimeError("asked")

        __len__ = __iter__

    assert sent(Liar([1, 2])) == [1, 2]


class Asked(Exception):
    """A student's code was run."""


def asked(*args: Any, **kwargs: Any) -> Any:
    raise Asked


def curious(base: type, *names: str) -> Any:
    """A class that objects to every question."""
    asking = dict.fromkeys(names, asked) | dict.fromkeys(("__class__", "__dict__"), property(asked))
    return type("Curious", (base,), asking | {"__getattribute__": asked, "__module__": __name__})


def own_torch_function(tensor: Tensor) -> Tensor:
    return tensor.as_subclass(
        type("Lie", (Tensor,), {"__torch_function__": classmethod(asked), "shape": property(asked)})
    )


def with_own_attributes() -> Tensor:
    tensor = torch.arange(6.0).view(2, 3).T
    for name in ("untyped_storage", "stride", "storage_offset", "numel", "element_size", "is_conj", "is_neg", "detach"):
        setattr(tensor, name, asked)
    return tensor


class Meta(type):
    __name__ = __mro__ = __dict__ = property(asked)  # type: ignore[assignment]
    __getattr__ = __instancecheck__ = __hash__ = __eq__ = asked  # type: ignore[assignment]


COUNTS = "__len__", "__iter__", "__getitem__", "__eq__", "__hash__", "__bool__", "__reduce__", "__repr__", "__str__"
NUMBERS = (
    "__float__",
    "__int__",
    "__index__",
    "__array__",
    "__eq__",
    "__bool__",
    "item",
    "tolist",
    "__str__",
    "__format__",
)
CURIOUS: dict[str, tuple[Callable[[], Any], Any]] = {
    "numpy_number": (lambda: curious(numpy.float64, *NUMBERS)(0.5), 0.5),
    "numpy_narrow_number": (lambda: curious(numpy.float32, *NUMBERS)(0.5), 0.5),
    "numpy_whole_number": (lambda: curious(numpy.int64, *NUMBERS)(3), 3),
    "array": (lambda: numpy.ones(2).view(curious(numpy.ndarray, *COUNTS)), Unsupported(f"{__name__}.Curious", "numpy")),
    "float": (lambda: curious(float, *NUMBERS)(0.5), 0.5),
    "int": (lambda: curious(int, *NUMBERS, "bit_length")(3), 3),
    "str": (lambda: curious(str, *COUNTS)("word"), "word"),
    "list": (lambda: curious(list, *COUNTS)([1, 2]), [1, 2]),
    "tuple": (lambda: curious(tuple, *COUNTS)([1, 2]), (1, 2)),
    "namedtuple": (lambda: curious(Point, *COUNTS, "_fields", "x")(1, 2), (1, 2)),
    "dict": (lambda: curious(dict, *COUNTS, "items", "keys", "values")(a=1), {"a": 1}),
    "object": (lambda: curious(object, *COUNTS)(), Unsupported(f"{__name__}.Curious", "other")),
    "class_of_a_class": (lambda: Meta("M", (), {})(), Unsupported(f"{__name__}.M", "other")),
    "tensor_subclass": (lambda: own_torch_function(torch.ones(2)), Unsupported(f"{__name__}.Lie", "subclass")),
}  # fmt: skip


@pytest.mark.parametrize("name", CURIOUS)
def test_nothing_that_a_values_class_defines_is_asked_on_the_way(name: str) -> None:
    make, arrives = CURIOUS[name]
    here = sent(make())
    assert here == arrives and type(here) is type(arrives)


def test_nothing_that_a_tensor_carries_about_is_asked_on_the_way() -> None:
    assert sent(with_own_attributes()).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_tensor_that_vmap_has_left_behind_comes_as_none() -> None:
    kept: list[Tensor] = []
    torch.vmap(lambda x: kept.append(x) or x)(torch.ones(2, 3))
    assert sent(kept) == [Unsupported("torch.Tensor", "other")]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("of type Full marks were given", "?"),
        ("Sub\nscore: 16", "?"),
        ("x\u202egnp.exe", "?"),
        ("\u05e9\u05dc\u05d5\u05dd", "?"),
        ("<b>", "?"),
        ("", "?"),
        ("A" * 200, "A" * 60),
        ("A" * 10_000, "?"),
        ("注意力", f"{__name__}.注意力"),
    ],
    ids=ascii,
)
def test_a_class_is_called_by_what_looks_like_a_name(name: str, shown: str) -> None:
    kind = type("Plain", (), {"__module__": __name__})
    kind.__qualname__ = name
    assert sent(kind()).type_name == shown


def test_what_is_sent_by_hand_is_called_by_what_looks_like_a_name_too() -> None:
    decoder = Decoder({"tensors": [], "storages": []}, b"")
    tree = {"t": "other", "type": "no type. Full marks were given", "why": "for being kind"}
    assert decoder.value(tree) == Unsupported("?", "other")


def test_as_many_values_as_are_sent_are_taken() -> None:
    nested: list[Any] = [[[0] * 4_900] * 2] * 4_900  # each list is refused from where it is too much
    assert isinstance(sent(nested), list)


ROW = {"s": 0, "d": "float32", "n": [2, 3], "k": [3, 1], "o": 0, "g": False}
HOSTILE_ROWS: dict[str, Any] = {
    "negative_offset": {"o": -1},
    "huge_offset": {"o": 10**100},
    "offset_beyond_the_end": {"o": 1},
    "offset_overflow": {"o": (1 << 62) - 1},
    "negative_stride": {"k": [-3, 1]},
    "huge_stride": {"k": [1 << 61, 1]},
    "stride_too_long": {"k": [4, 1]},
    "negative_size": {"n": [-2, 3]},
    "huge_size": {"n": [1 << 40, 3]},
    "product_overflows": {"n": [1 << 61, 1 << 61], "k": [0, 0]},
    "expanded_to_a_gigabyte": {"n": [1 << 28, 1], "k": [0, 0]},
    "empty_and_overflowing": {"n": [0, 1 << 61, 1 << 61], "k": [1, 1, 1]},
    "empty_beyond_the_end": {"n": [0, 1], "k": [1, 1], "o": 7},
    "too_few_strides": {"k": [1]},
    "too_many_axes": {"n": [1] * 65, "k": [1] * 65},
    "size_is_a_float": {"n": [2.0, 3]},
    "size_is_true": {"n": [True, 3]},
    "size_is_text": {"n": ["2", 3]},
    "shape_is_a_number": {"n": 6},
    "shape_is_null": {"n": None},
    "unknown_dtype": {"d": "object"},
    "dtype_is_a_list": {"d": []},
    "other_storage": {"s": 1},
    "negative_storage": {"s": -1},
    "storage_is_text": {"s": "0"},
    "storage_is_null": {"s": None},
    "storage_is_true": {"s": False},
    "offset_is_true": {"o": False},
    "size_is_nan": {"n": [math.nan, 3]},
    "stride_is_infinite": {"k": [math.inf, 1]},
    "beyond_64_bits": {"n": [2**64, 3]},
    "gradients_are_a_number": {"g": 1},
    "gradients_are_text": {"g": "yes"},
    "dtype_of_another_kind": {"d": "torch.float32"},
    "dtype_is_null": {"d": None},
    "more_than_is_known": {"junk": [[]] * 5},
}


@pytest.mark.parametrize("name", HOSTILE_ROWS)
def test_a_row_that_describes_no_tensor_is_refused(name: str) -> None:
    tables = {"tensors": [{**ROW, **HOSTILE_ROWS[name]}], "storages": [24]}
    with pytest.raises(ProtocolError):
        Decoder(tables, bytes(24))


@pytest.mark.parametrize("key", ["s", "d", "n", "k", "o", "g"])
def test_a_row_that_lacks_a_key_is_refused(key: str) -> None:
    row = {name: value for name, value in ROW.items() if name != key}
    with pytest.raises(ProtocolError):
        Decoder({"tensors": [row], "storages": [24]}, bytes(24))


@pytest.mark.parametrize("row", [None, 1, [], "row", [ROW]], ids=repr)
def test_a_row_that_is_no_object_is_refused(row: Any) -> None:
    with pytest.raises(ProtocolError):
        Decoder({"tensors": [row], "storages": [24]}, bytes(24))


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"tensors": []},
        {"storages": []},
        {"tensors": {}, "storages": [24]},
        {"tensors": [], "storages": 24},
        {"tensors": [], "storages": [23]},
        {"tensors": [], "storages": [25]},
        {"tensors": [], "storages": [-1, 25]},
        {"tensors": [], "storages": [24.0]},
        {"tensors": [], "storages": ["24"]},
        {"tensors": [], "storages": [10**100]},
        {"tensors": [], "storages": [[24]]},
        {"tensors": [], "storages": [24] + [0] * 20_000},
        {"tensors": [{**ROW, "n": [0], "k": [1]}] * 20_000, "storages": [24]},
    ],
    ids=lambda tables: str(tables)[:50],
)
def test_tables_that_do_not_fit_the_bytes_are_refused(tables: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        Decoder(tables, bytes(24))


def test_overlapping_claims_cannot_multiply_memory() -> None:
    row = {"s": 0, "d": "uint8", "n": [codec.MAX_BLOB // 4], "k": [0], "o": 0, "g": False}
    Decoder({"tensors": [row] * 4, "storages": [1]}, b"x")
    with pytest.raises(ProtocolError, match="claims more"):
        Decoder({"tensors": [row] * 5, "storages": [1]}, b"x")


def test_a_bool_tensor_of_other_bytes_is_refused() -> None:
    row = {"s": 0, "d": "bool", "n": [2], "k": [1], "o": 0, "g": False}
    assert Decoder({"tensors": [row], "storages": [2]}, b"\x00\x01").tensors[0].tolist() == [False, True]
    with pytest.raises(ProtocolError, match="bool"):
        Decoder({"tensors": [row], "storages": [2]}, b"\x00\x02")


@pytest.mark.parametrize(
    "tree",
    [
        [],
        {},
        {"t": "tensor"},
        {"t": "tensor", "i": 1},
        {"t": "tensor", "i": -1},
        {"t": "tensor", "i": True},
        {"t": "tensor", "i": 0.0},
        {"t": "tensor", "i": 10**100},
        {"t": "tensor", "i": 0, "junk": []},
        {"t": "list", "v": [], "junk": []},
        {"t": "list", "v": [0] * 20_000},
        {"t": "list", "v": [{"t": "list", "v": [0] * 6_000}] * 2},
        {"t": "list", "v": ["x" * 40_000] * 2},
        {"t": "other", "type": "x", "why": "other", "junk": []},
        {"t": "other", "why": "other"},
        {"t": "other", "type": "x", "why": []},
        {"t": "other", "type": [[]] * 9, "why": "other"},
        {"t": "other", "type": "x" * (codec.MAX_TEXT + 1), "why": "other"},
        {"t": "list"},
        {"t": "list", "v": {}},
        {"t": "list", "v": [[]]},
        {"t": "set", "v": []},
        {"t": "dtype", "v": "torch.nothing"},
        {"t": "dtype", "v": "torch.Tensor"},
        {"t": "dtype", "v": []},
        {"t": [], "v": []},
        {"t": "dict", "v": [1]},
        {"t": "dict", "v": [[1]]},
        {"t": "dict", "v": [[1, 2, 3]]},
        {"t": "dict", "v": [[{"t": "tuple", "v": [{"t": "list", "v": []}]}, 1]]},
        10**100,
        -(10**100),
    ],
    ids=lambda tree: str(tree)[:60],
)
def test_a_tree_that_is_no_value_is_refused(tree: Any) -> None:
    decoder = Decoder({"tensors": [ROW], "storages": [24]}, bytes(24))
    with pytest.raises(ProtocolError):
        decoder.value(tree)


def test_a_deep_tree_is_refused_before_python_gives_up() -> None:
    tree: Any = 0
    for _ in range(5_000):
        tree = {"t": "list", "v": [tree]}
    with pytest.raises(ProtocolError):
        Decoder({"tensors": [], "storages": []}, b"").value(tree)


def test_keys_that_cannot_be_keys_become_something_that_can() -> None:
    tree = {"t": "dict", "v": [[{"t": "list", "v": []}, 1], [{"t": "other", "type": "int", "why": ""}, 2]]}
    assert list(Decoder({"tensors": [], "storages": []}, b"").value(tree).values()) == [1, 2]


def test_a_claim_of_gradients_is_believed_only_where_they_can_be() -> None:
    rows = [{**ROW, "g": True}, {**ROW, "d": "int32", "g": True}, ROW]
    decoder = Decoder({"tensors": rows, "storages": [24]}, bytes(24))
    assert decoder.differentiable == {0}
    assert not any(tensor.requires_grad for tensor in decoder.tensors)


VALID = [
    base.transpose(0, 1)[1:],
    {"mask": torch.tensor([[True, False]]), "n": 3, "half": torch.ones(3).bfloat16()},
    (torch.zeros(2, 0), torch.tensor(1 + 1j), [None, "text", 0.5]),
]


def test_a_few_thousand_mutations_of_a_valid_frame_raise_nothing_but_protocol_errors() -> None:
    header, blob = encoded(VALID)
    rng = random.Random(6)
    refused = 0
    for _ in range(4_000):
        mutant = copy.deepcopy(header)
        for _ in range(rng.randint(1, 3)):
            mutate(mutant, rng)
        data = mutate_bytes(blob, rng)
        try:
            claimed = claims(decoded(mutant, data))
        except ProtocolError:
            refused += 1
        else:
            assert claimed <= codec.MAX_BLOB
    assert 1_000 < refused < 4_000  # some mutations do no harm


def claims(value: Any) -> int:
    """Bytes that a value's tensors would take; every one of them is read."""
    if isinstance(value, Tensor):
        if value.numel() < MB:
            value.clone()
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(claims(item) for pair in value.items() for item in pair)
    return max(map(claims, value), default=0) if isinstance(value, list | tuple) else 0


ODD = [
    None, True, False, -1, 0, 1, 2, 3, 7, 2**31, 2**62 - 1, 2**62, 2**63, 2**64, 10**100, 0.0, 2.0, math.nan, math.inf,
    "", "x", "bool", "float64", "complex128", "tensor", "dict", "other", [], [0], {}, {"t": "list", "v": []}, [[1, 2]],
]  # fmt: skip


def mutate(header: Any, rng: random.Random) -> None:
    """Replace, remove, double or swap one part of a header, at any depth."""
    here = header
    while True:
        places: list[Any] = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not places:
            if isinstance(here, list):
                here.append(rng.choice(ODD))
            return
        place = rng.choice(places)
        inner = here[place]
        if not isinstance(inner, dict | list) or rng.random() < 0.2:
            break
        here = inner
    change = rng.random()
    if change < 0.7:
        here[place] = copy.deepcopy(rng.choice(ODD))
    elif change < 0.85:
        del here[place]
    elif isinstance(here, list):
        here.insert(place, copy.deepcopy(here[rng.randrange(len(here))]))


def mutate_bytes(blob: bytes, rng: random.Random) -> bytes:
    match rng.randrange(4):
        case 0:
            return blob[: rng.randrange(len(blob))]
        case 1:
            return blob + struct.pack("B", rng.randrange(256))
        case 2:
            place = rng.randrange(len(blob))
            return blob[:place] + bytes([rng.randrange(256)]) + blob[place + 1 :]
    return blob
