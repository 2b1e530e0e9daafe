"""What learners get wrong in the ledger of shapes, each with the check that catches it."""

from autograder.suite import N_, mistake


def ledger(**wrong):
    right = {
        "scores": (3, 6, 7),
        "weights": (3, 6, 7),
        "output": (3, 6, 10),
        "padded_batch": (3, 7, 12),
        "lengths": (3,),
        "mha_output": (3, 7, 12),
        "mha_weights_default": (3, 7, 7),
        "mha_weights_per_head": (3, 4, 7, 7),
    }
    return {**right, **wrong}


@mistake(
    "keys-before-queries",
    caught_by="scores",
    says=N_(
        "You give every key a row and every query a column, in scores and weights alike. In this course, and in "
        "PyTorch, a row is one query, and the keys that it looks at stand side by side."
    ),
)
def keys_before_queries():
    return ledger(scores=(3, 7, 6), weights=(3, 7, 6))


@mistake(
    "one-sentence-alone",
    caught_by="scores",
    says=N_(
        "You wrote scores, weights and output down for one sentence. The batch has several, which are computed side by "
        "side, and their number stands in front."
    ),
)
def one_sentence_alone():
    return ledger(scores=(6, 7), weights=(6, 7), output=(6, 10))


@mistake(
    "keys-summed-away",
    caught_by="weights",
    says=N_(
        "You let the axis of the keys vanish, as a sum would. Sharing out takes seven scores and gives seven weights."
    ),
)
def keys_summed_away():
    return ledger(weights=(3, 6))


@mistake(
    "output-as-wide-as-a-query",
    caught_by="output",
    says=N_(
        "You gave the output the width of a query. Queries and keys only decide how much of each value is taken; what "
        "is taken are values."
    ),
)
def output_as_wide_as_a_query():
    return ledger(output=(3, 6, 8))


@mistake(
    "output-for-every-key",
    caught_by="output",
    says=N_(
        "You gave the output a row for every key. Who looks gets something, so that there are as many rows as queries; "
        "the keys are what is summed over."
    ),
)
def output_for_every_key():
    return ledger(output=(3, 7, 10))


@mistake(
    "room-for-all-words",
    caught_by="padded_batch",
    says=N_(
        "You added the three lengths up. Each sentence has a row of its own in the batch, and the rows are as long as "
        "the longest sentence needs."
    ),
)
def room_for_all_words():
    return ledger(padded_batch=(3, 16, 12))


@mistake(
    "the-lengths-themselves",
    caught_by="lengths",
    says=N_(
        "You wrote down the lengths of the sentences. What is asked for is the shape of the tensor that holds them, "
        "which would be the same for other lengths."
    ),
)
def the_lengths_themselves():
    return ledger(lengths=(7, 4, 5))


@mistake(
    "parentheses-without-a-comma",
    caught_by="lengths",
    says=N_("You have the right number, and no tuple around it: it is the comma that makes a tuple of one entry."),
)
def parentheses_without_a_comma():
    return ledger(lengths=(3))  # fmt: skip


@mistake(
    "output-head-by-head",
    caught_by="mha_output",
    says=N_(
        "You wrote the output down head by head. nn.MultiheadAttention puts the heads side by side before it returns, "
        "and nobody outside sees them in the output."
    ),
)
def output_head_by_head():
    return ledger(mha_output=(3, 4, 7, 3))


@mistake(
    "queries-from-elsewhere",
    caught_by="mha_output",
    says=N_(
        "You let the queries of scores look in nn.MultiheadAttention, too. In mha(x, x, x) x is all three: its own "
        "places look, at one another."
    ),
)
def queries_from_elsewhere():
    return ledger(mha_output=(3, 6, 12), mha_weights_default=(3, 6, 7), mha_weights_per_head=(3, 4, 6, 7))


@mistake(
    "heads-by-default",
    caught_by="mha_weights_default",
    says=N_(
        "You expect a table for every head from the plain call. nn.MultiheadAttention averages over the heads unless "
        "it is told not to: the commonest surprise with it, and one that has got into print."
    ),
)
def heads_by_default():
    return ledger(mha_weights_default=(3, 4, 7, 7))


@mistake(
    "averages-swapped",
    caught_by="mha_weights_per_head",
    says=N_(
        "You have the two calls of nn.MultiheadAttention the wrong way round: averaged is what it does by default, and "
        "average_attn_weights=False keeps the heads apart."
    ),
)
def averages_swapped():
    return ledger(mha_weights_default=(3, 4, 7, 7), mha_weights_per_head=(3, 7, 7))


@mistake(
    "never-a-head",
    caught_by="mha_weights_per_head",
    says=N_(
        "You expect the averaged table from both calls. With average_attn_weights=False each head keeps its own, and "
        "they get an axis."
    ),
)
def never_a_head():
    return ledger(mha_weights_per_head=(3, 7, 7))
