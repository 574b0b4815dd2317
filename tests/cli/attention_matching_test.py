#!/usr/bin/env python3
"""scripts/attention_matching.py on random keys and on a small random model. Exit code 77: skipped, PyTorch or transformers is missing.

  attention_matching_test.py PATH/TO/REPOSITORY      (goes on in out/kvpress-venv's Python, where that is there)
"""
import importlib.util
import os
import pathlib
import sys
import unittest
from types import SimpleNamespace

ROOT = pathlib.Path(sys.argv.pop(1))
if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "kvpress", "gguf")):
    python = ROOT / "out/kvpress-venv/bin/python"
    if not python.exists() or pathlib.Path(sys.prefix).resolve() == python.parent.parent.resolve():
        print("skipped: no PyTorch, transformers, kvpress and gguf")
        sys.exit(77)
    os.execv(python, [str(python), __file__, str(ROOT), *sys.argv[1:]])
sys.path.insert(0, str(ROOT / "scripts"))

import torch  # noqa: E402
from attention_matching import PURSUIT_WEIGHTS, AttentionMatching, mass_of, mean_square, pursue, solve_within  # noqa: E402
from kvpress_model import answer, compress, kept_of_fitted  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

SCALE = 8**-.5


def attention(queries, keys, weights, values):
    return (queries @ keys.T * SCALE + weights).softmax(1) @ values


class Fit(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.keys, self.values, self.queries = torch.randn(40, 8), torch.randn(40, 8), 2 * torch.randn(500, 8)
        self.all = attention(self.queries, self.keys, torch.zeros(40), self.values)

    def error(self, **options):
        press = AttentionMatching(**options)
        keys, weights, values = press.fit_head(self.keys, self.values, self.queries, SCALE, 8)
        self.assertEqual((len(keys), len(weights), len(values)), (8, 8, 8))
        return (attention(self.queries, keys, weights, values) - self.all).square().mean().item()

    def test_all_kept_are_all(self):
        for keys in ("rms", "omp"):
            fitted = AttentionMatching(keys=keys).fit_head(self.keys, self.values, self.queries, SCALE, 40)
            torch.testing.assert_close(attention(self.queries, *fitted), self.all, atol=2e-4, rtol=1e-3)
            torch.testing.assert_close(fitted[1].exp(), torch.ones(40), atol=1e-3, rtol=1e-3)

    def test_fitting_is_better_than_choosing(self):
        chosen = self.error(fitted=False)
        self.assertLess(self.error(), .5 * chosen)
        self.assertLess(self.error(keys="omp"), .5 * chosen)

    def test_weights_are_the_best_within_bounds(self):
        mass = mass_of(self.queries, self.keys, SCALE)
        features, total = mass[:, :8], mass.sum(1)
        low, high = .5, 3.
        weights = solve_within(features, total, low, high)
        slope = features.T @ (features @ weights - total)
        for weight, slope in zip(weights.tolist(), (slope / len(total)).tolist()):
            if weight <= low + 1e-6:
                self.assertGreaterEqual(slope, -1e-3)
            elif weight >= high - 1e-6:
                self.assertLessEqual(slope, 1e-3)
            else:
                self.assertAlmostEqual(slope, 0, delta=1e-3)

    def test_pursuit_finds_what_the_mass_is_made_of(self):
        mass = mass_of(6 * self.queries, self.keys, SCALE)  # so sharp that keys share little of it
        first, second = mean_square(mass).topk(2).indices.tolist()
        kept, weights = pursue(mass, mass[:, [first, second]] @ torch.tensor([5., 2.]), 2)
        self.assertEqual(dict(zip(kept.tolist(), weights.round(decimals=3).tolist())), {first: 5., second: 2.})
        self.assertLess(weights.max(), PURSUIT_WEIGHTS[1])


class Model(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        config = LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                             attn_implementation="sdpa")
        self.model = LlamaForCausalLM(config).eval()
        self.vocabulary = SimpleNamespace(chat_template=None, kinds=[1] * 50, encode=lambda text: torch.tensor([[7, 8, 9]]), decode=str)
        self.tokens = torch.randint(0, 50, (30,)).tolist()

    def answers(self, presses):
        with torch.no_grad():
            kept = compress(self.model, self.vocabulary, presses, self.tokens)
            question = SimpleNamespace(tokens=[4, 5], n_new=8, ends=frozenset(), newline=False)
            return kept, [answer(self.model, self.vocabulary, [each], len(self.tokens), [question])[0][0] for each in kept]

    def test_all_kept_answer_as_the_whole_cache(self):
        presses = [None, AttentionMatching(0., fitted=False), AttentionMatching(0.), AttentionMatching(0., keys="omp")]
        _, (whole, *others) = self.answers(presses)
        for said in others:
            self.assertEqual(said, whole)

    def test_lanes_of_unlike_lengths(self):
        (kept,), _ = self.answers([AttentionMatching(1 - 6.001 / 30, shares="global")])
        self.assertAlmostEqual(kept.mean(), 6, delta=.5)  # ties and a head's one entry may add some
        lengths = [[int((~lane.isneginf()).sum()) for lane in layer] for layer in kept.bias]
        self.assertGreater(len({length for layer in lengths for length in layer}), 1)

    def test_what_is_filled_up_is_hidden(self):
        lane = [(torch.ones(n, 4), torch.zeros(n), torch.ones(n, 4)) for n in (1, 3)]
        kept = kept_of_fitted([lane])
        self.assertEqual(kept.keys[0].shape, (1, 2, 3, 4))
        self.assertEqual(kept.bias[0].isneginf().tolist(), [[False, True, True], [False, False, False]])
        self.assertEqual(kept.mean(), 2)


unittest.main(verbosity=2)
