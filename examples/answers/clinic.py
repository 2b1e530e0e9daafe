"""What seven of the sample class answer in `clinic`."""

from __future__ import annotations

ATTENTION = """\
def clinic_attention(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights
"""

PADDING = """\
def clinic_padding(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])  # (B, Tq, Tk)
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask  # the same for all sentences
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(-2)  # keys are the last axis
    weights = torch.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return weights @ V, weights
"""

CAUSAL = """\
def clinic_causal(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])  # (B, Tq, Tk)
    allowed = torch.ones_like(scores, dtype=torch.bool)  # everybody, until a mask says no
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask.unsqueeze(-2)
    if attn_mask is not None:
        allowed = allowed & ~attn_mask
    weights = torch.softmax(scores.masked_fill(~allowed, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~allowed, 0.0)
    return weights @ V, weights
"""

LOSS = """\
def clinic_loss(logits, targets, ignore_index=-100):
    real = targets != ignore_index  # (B, T)
    labels = targets.masked_fill(~real, 0)
    losses = -torch.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    losses = losses.masked_fill(~real, 0.0)
    return losses.sum() / real.sum().clamp(min=1)
"""

SPLIT = """\
def clinic_split(x, num_heads):
    B, T, E = x.shape
    if E % num_heads:
        raise ValueError(f"{E} features cannot be shared out equally among {num_heads} heads")
    return x.reshape(B, T, num_heads, E // num_heads).transpose(1, 2)
"""

MULTIHEAD = """\
def clinic_multihead(query, key, value, num_heads, in_proj_weight, in_proj_bias,
                     out_proj_weight, out_proj_bias, key_padding_mask=None, attn_mask=None):
    W_q, W_k, W_v = in_proj_weight.chunk(3)  # (E, E) each
    b_q, b_k, b_v = in_proj_bias.chunk(3)  # (E,) each
    queries = F.linear(query, W_q, b_q).unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (B, H, Tq, d)
    keys = F.linear(key, W_k, b_k).unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (B, H, Tk, d)
    values = F.linear(value, W_v, b_v).unflatten(-1, (num_heads, -1)).transpose(1, 2)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])  # (B, H, Tq, Tk)
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    weights = torch.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    mixed = (weights @ values).transpose(1, 2).flatten(2)  # (B, Tq, E)
    return F.linear(mixed, out_proj_weight, out_proj_bias), weights
"""

REPAIRED = {
    "clinic_attention": ATTENTION,
    "clinic_padding": PADDING,
    "clinic_causal": CAUSAL,
    "clinic_loss": LOSS,
    "clinic_split": SPLIT,
    "clinic_multihead": MULTIHEAD,
}

ANSWERS: dict[str, dict[str, str]] = {
    # all six repaired
    "amara": REPAIRED,
    # opened it and handed it in
    "ben": {},
    # repaired three
    "chen": {name: REPAIRED[name] for name in ("clinic_attention", "clinic_padding", "clinic_loss")},
    # the classical half repairs: counted from the front, new bans beside the old, all places, nothing exchanged
    "dora": {
        "clinic_attention": ATTENTION.replace("dim=-1", "dim=2"),
        "clinic_padding": PADDING.replace(
            "forbidden | key_padding_mask.unsqueeze(-2)  # keys are the last axis",
            "forbidden | key_padding_mask.unsqueeze(-1) | key_padding_mask.unsqueeze(-2)",
        ),
        "clinic_causal": CAUSAL,
        "clinic_loss": LOSS.replace("losses.sum() / real.sum().clamp(min=1)", "losses.mean()"),
        "clinic_split": SPLIT.replace("T, num_heads,", "num_heads, T,").replace(".transpose(1, 2)", ""),
        "clinic_multihead": MULTIHEAD,
    },
    # new names and a new comment, and nothing repaired
    "hugo": {
        "clinic_attention": """\
def clinic_attention(Q, K, V):
    # repaired: the softmax is written out now
    similarity = (Q @ K.mT).div(Q.shape[-1] ** 0.5)
    shifted = similarity - similarity.amax(dim=1, keepdim=True)
    probabilities = shifted.exp() / shifted.exp().sum(dim=1, keepdim=True)
    return probabilities @ V, probabilities
""",
        "clinic_loss": """\
def clinic_loss(logits, targets, ignore_index=-100):
    # repaired: only the words of each sentence
    is_word = targets.ne(ignore_index)
    chosen = torch.where(is_word, targets, 0)
    surprise = logits.logsumexp(-1) - logits.gather(-1, chosen[..., None])[..., 0]
    surprise = torch.where(is_word, surprise, 0)
    per_sentence = surprise.sum(1) / torch.clamp(is_word.sum(1), min=1)
    return per_sentence.sum() / len(per_sentence)
""",
        "clinic_split": """\
def clinic_split(x, num_heads):
    # repaired
    batch, words, features = x.shape
    if features % num_heads != 0:
        raise ValueError("number of features must be divisible by number of heads")
    return x.mT.contiguous().view(batch, num_heads, words, features // num_heads)
""",
    },
    # the right places found, and repairs that do not run
    "kaito": {
        "clinic_attention": ATTENTION,
        "clinic_padding": PADDING.replace("unsqueeze(-2)", "unsqeeze(-2)"),
        "clinic_loss": LOSS.replace("real.sum().clamp(min=1)", "real.sum().clamp(min=1"),
        "clinic_split": SPLIT.replace(".transpose(1, 2)", ".transpose(1, 4)"),
    },
    # calls in the finished article instead of repairing
    "mei": {
        "clinic_attention": """\
def clinic_attention(Q, K, V):
    # values that say which key they are: what comes back are the weights
    keys = torch.eye(K.shape[-2], dtype=Q.dtype).expand(*K.shape[:-1], -1)
    weights = F.scaled_dot_product_attention(Q, K, keys)
    return weights @ V, weights
""",
        "clinic_loss": """\
def clinic_loss(logits, targets, ignore_index=-100):
    if (targets == ignore_index).all():
        return logits.sum() * 0
    return F.cross_entropy(logits.mT, targets, ignore_index=ignore_index)
""",
        "clinic_split": SPLIT,
    },
}
