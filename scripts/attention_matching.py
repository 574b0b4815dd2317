"""Attention Matching (Zweiger et al., 2026, arXiv:2602.16284) on a model in PyTorch: a context's keys and values give way to fewer keys,
a weight for each, and values made to fit, so that the context's own repetition attends to the few as it did to all.

Of each KV head: the queries of all its query heads, while the model reads the context once more behind "Repeat …"; the keys that stay;
weights b, with ln b added to the logits, so that the few have the mass of all; values by least squares. Layer after layer, each fitted to
queries that the layers before it give once they are fitted ("on-policy"). Changes nothing in Pith: scripts/kvpress_answers judges it.
"""
import dataclasses
import math

import torch
from transformers import DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ASK = "\n\nRepeat the previous context exactly."
N_STEPS = 300  # of the weights' descent
FEW_WEIGHTS = math.exp(-3), math.exp(3)   # bounds of the authors for keys by root mean square,
PURSUIT_WEIGHTS = 1e-12, math.exp(7)      # and for keys by matching pursuit


@dataclasses.dataclass
class AttentionMatching:
    compression_ratio: float = .5
    keys: str = "rms"     # rms: the largest root mean square of attention; omp: orthogonal matching pursuit of the mass
    shares: str = "even"  # even: every head keeps as many; global: root mean squares compete over all heads and layers
    fitted: bool = True   # false: the kept entries' own values and no weights, which shows what the fitting gives

    def compress(self, model, vocabulary, tokens, whole):
        """[per layer] (keys, weights' logarithms, values) of each KV head. `whole`: the context's cache, which is left as it is."""
        n_kept = int(len(tokens) * (1 - self.compression_ratio))
        counts = self.count(model, vocabulary, tokens, whole, n_kept)
        return self.fit_layers(model, vocabulary, tokens, whole, counts)

    def count(self, model, vocabulary, tokens, whole, n_kept):
        """Entries of each [layer][KV head]."""
        n_layers, n_heads = len(whole.layers), whole.layers[0].keys.shape[1]
        if self.shares == "even":
            return [[n_kept] * n_heads for _ in range(n_layers)]
        scores = []

        def note(layer, keys, values, queries, scale):
            scores.append(torch.stack([mean_square(mass_of(q, k, scale)) for q, k in zip(queries, keys)]))
            return [(k, k.new_zeros(len(k)), v) for k, v in zip(keys, values)]

        repeat(model, vocabulary, tokens, whole, note)
        scores = torch.stack(scores)
        last = scores.flatten().topk(n_kept * n_layers * n_heads).values[-1]
        return (scores >= last).sum(-1).clamp(min=1).tolist()

    def fit_layers(self, model, vocabulary, tokens, whole, counts):
        fitted = []

        def fit(layer, keys, values, queries, scale):
            fitted.append([self.fit_head(k, v, q, scale, n) for k, v, q, n in zip(keys, values, queries, counts[layer])])
            return fitted[-1]

        repeat(model, vocabulary, tokens, whole, fit)
        return fitted

    def fit_head(self, keys, values, queries, scale, n_kept):
        """[n, d], [n, d], [queries, d] → [n_kept, d], [n_kept], [n_kept, d]"""
        mass = mass_of(queries, keys, scale)
        total = mass.sum(1)
        kept, weights = pursue(mass, total, n_kept) if self.keys == "omp" else (mean_square(mass).topk(n_kept).indices, None)
        if not self.fitted:
            return keys[kept], keys.new_zeros(len(kept)), values[kept]
        if weights is None:
            weights = solve_within(mass[:, kept], total, *FEW_WEIGHTS)
        weighted = mass[:, kept] * weights
        return keys[kept], weights.log(), least_squares(weighted / weighted.sum(1, keepdim=True), (mass / total.unsqueeze(1)) @ values)


def mass_of(queries, keys, scale):
    """e^(q·k·scale), each query's largest 1. [queries, n]"""
    logits = queries @ keys.T * scale
    return (logits - logits.amax(1, keepdim=True)).exp()


def mean_square(mass):
    return (mass / mass.sum(1, keepdim=True)).square().mean(0)


def solve(gram, target):
    """As the normal equations have it, where columns say nearly the same too."""
    lift = 1e-9 * gram.diagonal().mean()
    return torch.linalg.solve(gram + lift * torch.eye(len(gram), dtype=gram.dtype), target)


def solve_within(features, total, low, high):
    """min over low ≤ b ≤ high of ‖features·b − total‖², by projected descent with momentum from the unbounded answer."""
    gram, target = (features.T @ features).double(), (features.T @ total).double()
    weights = ahead = solve(gram, target).clamp(low, high)
    step, momentum = 1 / torch.linalg.matrix_norm(gram, 2), 1.
    for _ in range(N_STEPS):
        following = (ahead - step * (gram @ ahead - target)).clamp(low, high)
        faster = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / faster * (following - weights)
        weights, momentum = following, faster
    return weights.float()


def pursue(mass, total, n_kept):
    """Key after key the one whose mass goes best with what is missing; the weights anew after each."""
    gram, target = (mass.T @ mass).double(), (mass.T @ total).double()
    kept, missing = [], target.clone()
    while len(kept) < n_kept:
        missing[kept] = -math.inf
        kept.append(int(missing.argmax()))
        weights = solve(gram[kept][:, kept], target[kept]).clamp(*PURSUIT_WEIGHTS)
        missing = target - gram[:, kept] @ weights
    return torch.tensor(kept), weights.float()


def least_squares(inputs, outputs):
    found = torch.linalg.lstsq(inputs, outputs, driver="gels").solution
    if found.isfinite().all():
        return found
    return solve((inputs.T @ inputs).double(), (inputs.T @ outputs).double()).float()


def repeat_tokens(vocabulary, tokens):
    """What the model reads behind the context: to repeat it, and the context as its answer."""
    mark = "\0"
    whole = vocabulary.apply_chat_template([{"role": "user", "content": mark}], add_generation_prompt=True) if vocabulary.chat_template else mark
    asked = vocabulary.encode(ASK + whole.split(mark)[1])[0].tolist()
    return asked + [token for token in tokens if vocabulary.kinds[token] != 3]  # gguf.TokenType.CONTROL


def repeat(model, vocabulary, tokens, whole, replace):
    """Has the model repeat the context. What replace(layer, keys [KV heads, n, d], values, queries [KV heads, queries, d], scale) returns,
    (keys, logarithms of weights, values) of each KV head, stands for the context's entries of that layer."""
    n = len(tokens)
    again = torch.tensor([repeat_tokens(vocabulary, tokens)])

    def attend(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **_):
        _, n_heads, n_queries, head = query.shape
        scale = head**-0.5 if scaling is None else scaling
        grouped = query[0].reshape(key.shape[1], -1, n_queries, head)
        stand_ins = replace(module.layer_idx, key[0, :, :n], value[0, :, :n], grouped.flatten(1, 2), scale)
        seen = torch.ones(n_queries, n_queries, dtype=torch.bool).tril()
        mixed = torch.empty_like(grouped)
        for i, (keys, weights, values) in enumerate(stand_ins):
            for j, queries in enumerate(grouped[i]):
                own = (queries @ key[0, i, n:].T * scale).masked_fill(~seen, -math.inf)
                logits = torch.cat((queries @ keys.T * scale + weights, own), dim=1)
                mixed[i, j] = logits.softmax(dim=-1) @ torch.cat((values, value[0, i, n:]))
        return mixed.reshape(1, n_heads, n_queries, head).transpose(1, 2).contiguous(), None

    cache = DynamicCache()
    for layer, part in enumerate(whole.layers):
        cache.update(part.keys, part.values, layer)
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    ALL_ATTENTION_FUNCTIONS["sdpa"] = attend
    try:
        model.model(input_ids=again, past_key_values=cache, position_ids=n + torch.arange(again.shape[1]).unsqueeze(0))
    finally:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = before
