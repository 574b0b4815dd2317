"""own_scorer.py - an idea of yours as a policy: written, checked, and put on a board beside others.

    pith eval ruler -m MODEL.gguf --tasks niah_single_2 --context 1024 --samples 25 --question-aware --with-tokens \\
        --write-samples samples.jsonl
    python own_scorer.py MODEL.gguf samples.jsonl 20%

The idea here: an entry matters by the attention that the last queries pay to it, times how long its value is, as VATP has it, pooled over
what stands before it. numpy is wanted. The parts are cells of a notebook (# %%).
"""
import json
import sys

import numpy as np

import pith

WINDOW = 32  # queries that are looked at: the last ones, whose own entries are kept
POOL = 45  # entries: as wide as an answer has tokens (docs/policies.md), for the idea and for what it is compared with alike


# %% The idea: a score for every entry of every KV head (a lane), higher = keep.
def attention(lane):
    return lane.window_mean.mean(axis=0)  # [query heads that share the lane][entries] → [entries]


def pooled(scores):
    """The mean over each entry and those before it: a key that is found lifts what follows it."""
    past = scores[:max(len(scores) - WINDOW, 0)]
    sums = np.zeros_like(past)
    for back in range(min(POOL, len(past)) - 1, -1, -1):
        sums[back:] += past[:len(past) - back]
    counts = np.minimum(np.arange(1, len(past) + 1), POOL).astype(np.float32)
    return np.concatenate([sums / counts, scores[len(past):]])


def my_vatp(layer):
    return [pooled(attention(lane) * np.abs(lane.values).sum(axis=1)) for lane in layer.lanes]


# The same without what is new in it, which Pith has: what it keeps says whether the arrays are what they are taken for.
def my_snapkv(layer):
    return [pooled(attention(lane)) for lane in layer.lanes]


pith.register_scorer("my-vatp", my_vatp, needs=("window_mean", "values"), window=WINDOW, help="attention times the value's length")
pith.register_scorer("my-snapkv", my_snapkv, needs="window_mean", window=WINDOW)

# A function is a scorer: refiners, allocators and selectors go behind it.
BUILT_IN = f"snapkv:pool=avg{POOL}:pool_over=before"
BOARD = ("full", "snapkv", BUILT_IN, "my-vatp", "my-vatp+ada")


# %% The check: entry by entry, against the built-in policy.
def kept(model, tokens, policy, budget):
    info = model.info()
    with model.session(policy=policy, budget=budget) as session:
        session.prefill(tokens)
        return {(layer, head, position)
                for layer in range(info["n_layers"]) for head in range(info["n_kv_heads"])
                for position in session.lane_positions(layer, head)}


def check(model, tokens, budget):
    own, built_in = (kept(model, tokens, policy, budget) for policy in ("my-snapkv", BUILT_IN))
    print(f"my-snapkv keeps {len(own & built_in)} of the {len(built_in)} entries that {BUILT_IN} keeps")
    return own == built_in


# %% The board: every sample is read once, and evicted under each policy from there, as `pith eval` does it.
def answer(model, session, sample):
    turn, tokens = sample["turns"][0], []
    if turn["tokens"]:
        session.prefill(turn["tokens"])
    for token in session.generate(turn["max_new_tokens"]):
        tokens.append(token)
        if token in sample["end_tokens"] or (turn.get("stop_at_newline") and "\n" in model.text(token)):
            break
    return model.detokenize(tokens)


def board(model, samples, budget):
    right = dict.fromkeys(BOARD, 0)
    for sample in samples:
        turn = sample["turns"][0]
        with model.session(policy="full", observe=",".join(BOARD[1:]), prefill="one-shot", evict_every=0, n_snapshots=1) as session:
            session.prefill(turn["compressed_tokens"])
            whole = session.snapshot()
            for policy in BOARD:
                session.restore(whole)
                if policy != "full":
                    session.evict(policy, budget)
                said = answer(model, session, sample).lower()
                right[policy] += all(reference.lower() in said for reference in turn["references"])
            whole.close()
    return right


def interval(right, n, z=1.96):
    """Wilson's, 95 %: rows whose intervals overlap widely differ by chance."""
    middle, half = right / n + z * z / (2 * n), z * ((right / n * (1 - right / n) + z * z / (4 * n)) / n)**0.5
    return [100 * (middle + sign * half) / (1 + z * z / n) for sign in (-1, 1)]


# %% All of it.
def main():
    if len(sys.argv) != 4:
        sys.exit("usage: own_scorer.py MODEL.gguf SAMPLES.jsonl BUDGET    (samples: pith eval … --with-tokens --write-samples)")
    model, budget = pith.Model(sys.argv[1]), sys.argv[3]
    with open(sys.argv[2], encoding="utf-8") as file:
        samples = [json.loads(line) for line in file]
    if not check(model, samples[0]["turns"][0]["compressed_tokens"], budget):
        sys.exit("error: the arrays are not what they were taken for")
    print(f"{'policy':<34} {'right':>5}  of {len(samples)}, {budget} kept (95 %)")
    for policy, right in board(model, samples, budget).items():
        low, high = interval(right, len(samples))
        print(f"{policy:<34} {right:>5}  {low:3.0f} to {high:3.0f} %")


if __name__ == "__main__":
    try:
        main()
    except pith.Error as error:
        sys.exit(f"error: {error}")
