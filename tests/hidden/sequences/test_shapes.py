"""Proves that a ledger of shapes is right: a dict of tuples, one check for every entry.

A wrong entry is explained by what the thing *is*: which axis counts what, and what the shape that was written down
would belong to. No sentence tells the shape that is due.
"""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from autograder.messages import Message
from autograder.suite import (
    N_,
    Draws,
    Student,
    check,
    described,
    fail,
    shortened,
)

LENGTHS, E, H = (7, 4, 5), 12, 4
B, T, WORDS = len(LENGTHS), max(LENGTHS), sum(LENGTHS)
TQ, TK, DIM, DV = 6, T, 8, 10
"""Cross-attention: queries, keys, the width of both, and the width of a value."""
MAX_TEXT = 40
"""Characters of a student's own text that a sentence repeats."""

Shape = tuple[int, ...]

SENTENCES, PLACES, HEADS = N_("sentences"), N_("places of the padded batch"), N_("heads")
QUERIES, KEYS, WIDTH = N_("queries"), N_("keys"), N_("numbers of one word")
LOOKING, LOOKED_AT = N_("places that look"), N_("places that are looked at")
NUMBER_WORDS = {0: N_("no axis"), 1: N_("one axis"), 2: N_("two axes"), 3: N_("three axes"), 4: N_("four axes")}


class Entry(NamedTuple):
    """One line of the ledger.

    Attributes:
        sizes: of each axis, in order, what it counts, and how many there are.
        known: what shapes that are often written down instead would belong to.
    """

    sizes: tuple[tuple[str, int], ...]
    known: dict[Shape, str]

    @property
    def shape(self) -> Shape:
        return tuple(size for _, size in self.sizes)


PER_QUERY_AND_KEY = (SENTENCES, B), (QUERIES, TQ), (KEYS, TK)
TRANSPOSED = N_("the rows and the columns have changed places; a row belongs to the one who looks, which is a query")
ONE_SENTENCE = N_("that is one sentence by itself, and all sentences of the batch are in here")
SUMMED_AWAY = N_("an axis is missing; sharing out turns numbers into shares, one for one, and sums nothing away")
ONE_SHARE = N_("each query has a single share there; sharing out gives a share to each of those that it looks at")
FROM_ELSEWHERE = N_(
    "those who look are others here than in scores, whose queries come from a translation: in mha(x, x, x) the places "
    "of the padded batch look at one another"
)
AVERAGED = N_("that is the average over the heads, and here every head is asked for by itself")
HEADS_IN_THE_BATCH = N_("sentences and heads are counted along one axis there, and each of them has an axis of its own")

EXPECTED = {
    "scores": Entry(
        PER_QUERY_AND_KEY,
        {
            (B, TK, TQ): TRANSPOSED,
            (TQ, TK): ONE_SENTENCE,
            (B, TQ, DIM): N_(
                "those are the queries themselves; a score compares a query with a key, and is a single number, "
                "however wide the two are"
            ),
            (B, TQ, TK, DIM): N_(
                "the products of a query's and a key's numbers are summed, so that one number is left of each pair"
            ),
            (B, TQ, TQ): N_("every query would be compared with every query there, and it looks at the keys"),
            (B, TK, TK): N_("every key would be compared with every key there, and it is the queries that look"),
        },
    ),
    "weights": Entry(
        PER_QUERY_AND_KEY,
        {
            (B, TK, TQ): TRANSPOSED,
            (TQ, TK): ONE_SENTENCE,
            (B, TQ): SUMMED_AWAY,
            (B, TK): SUMMED_AWAY,
            (B, TQ, 1): ONE_SHARE,
            (B, TQ, DV): N_("those are the outputs; weights tell how much of each value goes into them"),
            (B, TQ, TQ): N_("each query shares its attention out among queries there, and it looks at the keys"),
            (B, TK, TK): N_("each key shares its attention out among keys there, and it is the queries that look"),
        },
    ),
    "output": Entry(
        ((SENTENCES, B), (QUERIES, TQ), (N_("numbers of one value"), DV)),
        {
            (TQ, DV): ONE_SENTENCE,
            (B, TQ, DIM): N_(
                "an output is a mixture of values, and is as wide as they are; what the queries' width was is "
                "forgotten once the scores are there"
            ),
            (B, TK, DV): N_("those are the values; each query takes one mixture of them away, however many they are"),
            (B, TQ, TK): N_("those are the weights, before they are used to mix the values"),
            (B, DV, TQ): N_("the last two axes have changed places; each mixture is a row"),
            (B, TQ, E): N_("E is the width of a word, and what is mixed here are values, which have a width of their "
                           "own"),
            (B, TQ, TK, DV): N_("the weighted values are summed over the keys, so that one row is left of them all"),
        },
    ),
    "padded_batch": Entry(
        ((SENTENCES, B), (PLACES, T), (WIDTH, E)),
        {
            (B, WORDS, E): N_(
                "that is room for the words of all sentences in every row, and a row holds one sentence; it has to "
                "be as long as the longest"
            ),
            (WORDS, E): N_("there the sentences are laid end to end, and nobody can tell where one ends"),
            (B, min(LENGTHS), E): N_("words of the longer sentences are cut off there; padding makes the short ones "
                                     "longer"),
            (T, B, E): N_("places come before sentences there, and this course has the batch first"),
            (B, E, T): N_("the last two axes have changed places; a word is a row, with its numbers side by side"),
            (B, T): N_("a word is a single number there, such as its place in the dictionary, and here it has numbers "
                       "of its own"),
            (T, E): ONE_SENTENCE,
            (B * T, E): N_("sentences and places are counted along one axis there, and each has an axis of its own"),
        },
    ),
    "lengths": Entry(
        ((SENTENCES, B),),
        {
            LENGTHS: N_("those are the lengths themselves; how many numbers are these, and along how many axes?"),
            (B, 1): N_("one number for a sentence needs no axis of its own"),
            (1, B): N_("one number for each sentence stands in a plain row, without an axis around it"),
            (B, T): N_("that is one entry for each place, such as a mask has, and the length of a sentence is one "
                       "number"),
            (B, T, 1): N_("that is one entry for each place, and the length of a sentence is one number"),
            (WORDS,): N_("that is one entry for each word, and the length of a sentence is one number"),
            (T,): N_("that is the longest of the lengths, or one entry for each place; how many lengths are there?"),
            (): N_("a tensor without axes holds a single number, and every sentence has a length of its own"),
        },
    ),
    "mha_output": Entry(
        ((SENTENCES, B), (PLACES, T), (WIDTH, E)),
        {
            (B, H, T, E // H): N_("that is what the heads found, before they are put side by side again"),
            (B, T, H, E // H): N_("that is what the heads found, before they are put side by side again"),
            (B, H, T, E): N_("each head has a share of the numbers of a word, and they come back put together"),
            (B, T, E // H): N_("that is what one head found, and what comes back is all of them, side by side"),
            (B, T, E * H): N_("heads share the width out among them; more of them make it no wider"),
            (T, B, E): N_("places come before sentences there; what does batch_first=True say?"),
            (B, T, T): N_("those are weights, and the output is made of words"),
            (B, TQ, E): FROM_ELSEWHERE,
            (B, E, T): N_("the last two axes have changed places; a word is a row, with its numbers side by side"),
            (T, E): ONE_SENTENCE,
        },
    ),
    "mha_weights_default": Entry(
        ((SENTENCES, B), (LOOKING, T), (LOOKED_AT, T)),
        {
            (B, H, T, T): N_(
                "those are the weights of every head by itself, which many a textbook prints here, and PyTorch gives "
                "them only when it is asked to; what does it do with the heads otherwise?"
            ),
            (H, T, T): N_("PyTorch gives one table for each sentence here; what has become of the heads?"),
            (B * H, T, T): HEADS_IN_THE_BATCH,
            (B, TQ, T): FROM_ELSEWHERE,
            (B, TQ, TQ): FROM_ELSEWHERE,
            (B, T, E): N_("that is the output, which comes back before the weights"),
            (T, T): ONE_SENTENCE,
            (B, T): N_("weights tell of pairs, who looks and who is looked at, and that is one word alone"),
            (B, E, E): N_("places look at places, and not the numbers of a word at one another"),
        },
    ),
    "mha_weights_per_head": Entry(
        ((SENTENCES, B), (HEADS, H), (LOOKING, T), (LOOKED_AT, T)),
        {
            (B, T, T): AVERAGED,
            (B, H, TQ, T): FROM_ELSEWHERE,
            (B, H, TQ, TQ): FROM_ELSEWHERE,
            (B * H, T, T): HEADS_IN_THE_BATCH,
            (H, T, T): ONE_SENTENCE,
            (H, B, T, T): N_("heads come before sentences there, and the batch is always first"),
            (B, T, T, H): N_("the heads come last there; each head has a table of its own, and a table is the last two "
                             "axes"),
            (B, T, H, T): N_("each head has a table of its own, and a table is the last two axes"),
            (B, H, T, E // H): N_("that is what each head found, and its weights tell where it looked"),
            (B, H, T, E): N_("weights tell who looks at whom, and the width of a word is not among that"),
        },
    ),
}  # fmt: skip
FIRST = next(iter(EXPECTED))
EXAMPLE: dict[str, Shape] = {
    "scores": (2, 5, 9),
    "weights": (2, 5, 9),
    "output": (2, 5, 3),
    "padded_batch": (2, 9, 6),
    "lengths": (2,),
    "mha_output": (2, 9, 6),
    "mha_weights_per_head": (2, 3, 9, 9),
}
"""What the lesson works out for other sizes."""


def expect_entry(student: Student, key: str) -> None:
    """The ledger's line `key` holds the right tuple."""
    ledger = _ledger(student(), key)
    if key not in ledger:
        _fail_for_missing(ledger, key)
    seen, due = shape_in(ledger[key], key), EXPECTED[key]
    if seen != due.shape:
        fail(N_("your shape of {key} is {seen}: {why}"), says_all=seen in due.known or seen == EXAMPLE.get(key),
             key=key, seen=shortened(str(seen)), why=explanation(seen, due, key))  # fmt: skip


def explanation(seen: Shape, due: Entry, key: str = "") -> Message:
    """What is wrong with a shape, without the right one."""
    if seen == EXAMPLE.get(key):
        return Message(N_("that is its shape in the lesson's example; the sizes of the exercise are other ones"))
    if seen in due.known:
        return Message(due.known[seen])
    if sorted(seen) == sorted(due.shape):
        return Message(N_("those are the right sizes in another order: it should count {axes}"),
                       {"axes": _in_order(due)})  # fmt: skip
    if len(seen) != len(due.shape):
        return Message(N_("that has {seen}, and it should have {count}: {axes}"),
                       {"seen": _axes(len(seen)), "count": _axes(len(due.shape)),
                        "axes": _in_order(due)})  # fmt: skip
    place = next(place for place, (size, wanted) in enumerate(zip(seen, due.shape, strict=True)) if size != wanted)
    said = {"place": place, "what": Message(due.sizes[place][0]), "size": shortened(str(seen[place]))}
    return Message(N_("axis {place} should count {what}, and those are not {size}"), said)


def shape_in(value: Any, key: str) -> Shape:
    """A line of the ledger as a tuple of whole numbers; a list will do as well."""
    if value is None:
        fail(N_("{key} is not filled in yet"), says_all=True, key=key)
    if _is_whole(value):
        fail(N_("{key} is the number {seen}, expected a tuple: parentheses around one number make no tuple, and a "
                "comma behind it does, as in (9,)"), says_all=True, key=key, seen=shortened(str(value)))  # fmt: skip
    if not isinstance(value, list | tuple):
        fail(N_("{key} is {seen}, expected a tuple of whole numbers, such as (9, 2)"),
             says_all=True, key=key, seen=described(value))  # fmt: skip
    for item in value:
        if not _is_whole(item):
            fail(N_("{key} has {seen} among its sizes, expected whole numbers only, such as (9, 2)"),
                 says_all=True, key=key, seen=described(item))  # fmt: skip
    return tuple(value)


def _ledger(value: Any, key: str) -> dict[Any, Any]:
    if not isinstance(value, dict) and key == FIRST:
        fail(N_("your shapes is {seen}, expected a dict: a name for each entry, and its shape as a tuple, as the cell "
                "had it when it came"), says_all=True, seen=described(value))  # fmt: skip
    if not isinstance(value, dict):  # said once, and at length, above
        fail(N_("{key} can't be looked up, since shapes is no dict"), says_all=True, key=key)
    return value


def _fail_for_missing(ledger: dict[Any, Any], key: str) -> None:
    others = [name for name in ledger if isinstance(name, str) and len(name) <= MAX_TEXT and name not in EXPECTED]
    close = difflib.get_close_matches(key, others, n=1)
    if close:
        fail(N_("shapes has no entry {key}, and it has one called {other}"),
             says_all=True, key=repr(key), other=repr(close[0]))  # fmt: skip
    fail(N_("shapes has no entry {key}"), says_all=True, key=repr(key))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _axes(count: int) -> Message:
    known = NUMBER_WORDS.get(count)
    return Message(known) if known else Message(N_("{count} axes"), {"count": count})


def _in_order(due: Entry) -> Message:
    axes = Message(due.sizes[0][0])
    for what, _ in due.sizes[1:]:
        axes = Message(N_("{axes}, then {next}"), {"axes": axes, "next": Message(what)})
    return axes


@check(
    points=0.5,
    title=N_("scores: one number for every query and every key"),
    hint=N_(
        "Write a table for one sentence: a row for each query, a column for each key. How many rows and columns has "
        "it, and how many such tables are there?"
    ),
)
def test_scores(student: Student, rng: Draws) -> None:
    expect_entry(student, "scores")


@check(
    points=0.5,
    title=N_("weights: for every query, how its attention is shared out"),
    hint=N_("A query has one share for each key that it looks at. How many queries share out, in how many sentences?"),
)
def test_weights(student: Student, rng: Draws) -> None:
    expect_entry(student, "weights")


@check(
    points=0.5,
    title=N_("output: for every query, the mixture of values that it takes away"),
    hint=N_("Mix seven rows to a single one: how wide is it? And how many queries take such a mixture away?"),
)
def test_output(student: Student, rng: Draws) -> None:
    expect_entry(student, "output")


@check(
    points=0.5,
    title=N_("padded_batch: all sentences, made equally long"),
    hint=N_("Every row of the batch holds one sentence. Which sentence says how much room they all get?"),
)
def test_padded_batch(student: Student, rng: Draws) -> None:
    expect_entry(student, "padded_batch")


@check(
    points=0.5,
    title=N_("lengths: one whole number for every sentence"),
    hint=N_("What does torch.tensor([2, 9]).shape give, whatever the two numbers are?"),
)
def test_lengths(student: Student, rng: Draws) -> None:
    expect_entry(student, "lengths")


@check(
    points=0.5,
    title=N_("mha_output: for every word of the batch, its new numbers"),
    hint=N_(
        "Each place of the padded batch gets a new row, as wide as embed_dim says. Go through the axes one by one: "
        "what does each of them count?"
    ),
)
def test_mha_output(student: Student, rng: Draws) -> None:
    expect_entry(student, "mha_output")


@check(
    points=0.5,
    title=N_("mha_weights_default: what PyTorch tells of the weights, unless it is asked for more"),
    hint=N_(
        "Draw the table of one sentence, with a row for each place that looks, and a column for each that is looked "
        "at. How many such tables come back?"
    ),
)
def test_mha_weights_default(student: Student, rng: Draws) -> None:
    expect_entry(student, "mha_weights_default")


@check(
    points=0.5,
    title=N_("mha_weights_per_head: the weights of every head by itself"),
    hint=N_(
        "One head makes one table for each sentence, of those who look and those who are looked at. Go through the "
        "axes one by one: what does each of them count?"
    ),
)
def test_mha_weights_per_head(student: Student, rng: Draws) -> None:
    expect_entry(student, "mha_weights_per_head")
