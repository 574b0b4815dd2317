"""Dense models computed plainly by PyTorch in f32, and what `pith` keeps of the same tokens: what scripts/compare_kvpress and
scripts/compare_references share."""
import json
import math
import struct
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path


def fail(message):
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(2)


try:
    import numpy as np
    import torch
    from torch import nn
except ImportError as error:
    fail(f"{sys.executable} has no {error.name}: install PyTorch and NumPy for it, or run this with a Python that has them")


# --- the model file ---------------------------------------------------------------------------------------------------------

class Gguf:
    """Metadata and tensors of a GGUF file of one part with weights in f32 or f16, which pith has read before: it is sound."""

    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    STRING, ARRAY = 8, 9
    TENSOR_TYPES = {0: np.float32, 1: np.float16}  # others make ggml round what they are multiplied with: other scores

    def __init__(self, path):
        self.bytes = np.memmap(path, dtype=np.uint8, mode="r")
        self.path, self.values, self.tensors = path, {}, {}
        self.at = len("GGUF") + struct.calcsize("I")  # behind the version
        n_tensors, n_values = self._number("Q"), self._number("Q")
        for _ in range(n_values):
            name = self._string()
            self.values[name] = self._value(self._number("I"))
        for _ in range(n_tensors):
            name = self._string()
            shape = [self._number("Q") for _ in range(self._number("I"))]
            self.tensors[name] = (shape[::-1], self._number("I"), self._number("Q"))
        alignment = self.values.get("general.alignment", 32)
        self.data = -(-self.at // alignment) * alignment

    def _number(self, form):
        (value,) = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def _string(self):
        length = self._number("Q")
        self.at += length
        return bytes(self.bytes[self.at - length:self.at]).decode()

    def _value(self, kind):
        if kind == self.STRING:
            return self._string()
        if kind == self.ARRAY:
            kind, length = self._number("I"), self._number("Q")
            return [self._value(kind) for _ in range(length)]
        return self._number(self.SCALARS[kind])

    def get(self, name, default=None):
        """Metadata of the model's architecture, such as 'block_count'."""
        value = self.values.get(f"{self.values['general.architecture']}.{name}", default)
        if value is None:
            fail(f"'{self.path}' does not say its {name}")
        return value

    def tensor(self, name, optional=False):
        if name not in self.tensors and optional:
            return None
        if name not in self.tensors:
            fail(f"'{self.path}' has no tensor '{name}': give a dense model that is one file")
        shape, kind, offset = self.tensors[name]
        if kind not in self.TENSOR_TYPES:
            fail(f"tensor '{name}' of '{self.path}' is neither f32 nor f16 (GGUF type {kind}): give a model in f32 or f16")
        values = np.frombuffer(self.bytes, self.TENSOR_TYPES[kind], math.prod(shape), self.data + offset)
        return torch.from_numpy(values.astype(np.float32).reshape(shape))


# --- a forward pass, as transformers lays it out ----------------------------------------------------------------------------

def rotate_half(x):
    low, high = x.chunk(2, dim=-1)
    return torch.cat((-high, low), dim=-1)


class Rotary:
    def __init__(self, head_dim, base, factors):
        self.frequencies = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        if factors is not None:
            self.frequencies /= factors

    def __call__(self, _, position_ids):
        angles = position_ids.double().unsqueeze(-1) * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().float(), angles.sin().float()


def linear(weight, bias=None):
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer


@dataclass
class Layer:
    module: nn.Module         # with the names that transformers' attention modules have
    hidden: torch.Tensor      # [1, tokens, width]           what the attention reads
    queries: torch.Tensor     # [1, heads, tokens, head]     after RoPE
    keys: torch.Tensor        # [1, KV heads, tokens, head]  after RoPE
    plain_keys: torch.Tensor  # [1, KV heads, tokens, head]  before RoPE
    values: torch.Tensor      # [1, KV heads, tokens, head]
    attention: torch.Tensor   # [1, heads, tokens, tokens]
    position_embeddings: tuple


class Llama:
    """Dense models of architecture llama, qwen2 or qwen3."""

    def __init__(self, gguf, classes=None):
        """classes: architecture → what its attention modules are, where that is not nn.Module."""
        self.gguf = gguf
        architecture = gguf.values.get("general.architecture")
        if architecture not in ("llama", "qwen2", "qwen3"):
            fail(f"'{gguf.path}' is of architecture '{architecture}'; llama, qwen2 and qwen3 work")
        if gguf.get("rope.scaling.type", "none") != "none":
            fail(f"'{gguf.path}' scales its RoPE ('{gguf.get('rope.scaling.type')}'): give a model that does not")
        width, n_heads = gguf.get("embedding_length"), gguf.get("attention.head_count")
        head_dim = gguf.get("attention.key_length", width // n_heads)
        if gguf.get("rope.dimension_count", head_dim) != head_dim or gguf.get("attention.value_length", head_dim) != head_dim:
            fail(f"'{gguf.path}' turns a part of each head only, or has values of another size than keys: give another model")
        self.config = types.SimpleNamespace(
            num_hidden_layers=gguf.get("block_count"), hidden_size=width, num_attention_heads=n_heads, head_dim=head_dim,
            num_key_value_heads=gguf.get("attention.head_count_kv", n_heads), _attn_implementation="sdpa")
        self.rotary = Rotary(head_dim, gguf.get("rope.freq_base", 10000.0), gguf.tensor("rope_freqs.weight", optional=True))
        self.interleaved = architecture == "llama"  # such GGUFs have the pairs that RoPE turns side by side: undone here
        self.module_class = (classes or {}).get(architecture, nn.Module)

    def norm(self, name):
        weight = self.gguf.tensor(name + ".weight")
        epsilon = self.gguf.get("attention.layer_norm_rms_epsilon")
        return lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight

    def projection(self, name, turned_heads=0):
        def halves(x):
            if x is None or not turned_heads or not self.interleaved:
                return x
            return x.reshape(turned_heads, self.config.head_dim // 2, 2, -1).transpose(1, 2).reshape(x.shape).contiguous()
        return linear(halves(self.gguf.tensor(name + ".weight")), halves(self.gguf.tensor(name + ".bias", optional=True)))

    def attention_module(self, index):
        config, block = self.config, f"blk.{index}."
        module = self.module_class()
        module.config, module.layer_idx, module.head_dim, module.rotary_emb = config, index, config.head_dim, self.rotary
        module.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        module.q_proj = self.projection(block + "attn_q", config.num_attention_heads)
        module.k_proj = self.projection(block + "attn_k", config.num_key_value_heads)
        module.v_proj = self.projection(block + "attn_v")
        module.o_proj = self.projection(block + "attn_output")
        if block + "attn_q_norm.weight" in self.gguf.tensors:
            module.q_norm, module.k_norm = self.norm(block + "attn_q_norm"), self.norm(block + "attn_k_norm")
        return module

    def layers(self, tokens):
        """The layers one after the other, each with what its attention read and left in the cache."""
        cos, sin = self.rotary(None, torch.arange(len(tokens)).unsqueeze(0))
        x = self.gguf.tensor("token_embd.weight")[torch.tensor(tokens)].unsqueeze(0)
        future = torch.ones(len(tokens), len(tokens)).triu(1).bool()
        for index in range(self.config.num_hidden_layers):
            block, module = f"blk.{index}.", self.attention_module(index)
            hidden = self.norm(block + "attn_norm")(x)

            def heads(projection):
                return projection(hidden).view(1, len(tokens), -1, module.head_dim).transpose(1, 2)

            def turned(y):
                return y * cos + rotate_half(y) * sin

            queries, keys, values = heads(module.q_proj), heads(module.k_proj), heads(module.v_proj)
            if hasattr(module, "q_norm"):
                queries, keys = module.q_norm(queries), module.k_norm(keys)
            plain_keys = keys
            queries, keys = turned(queries), turned(keys)
            n_group = module.num_key_value_groups
            logits = queries @ keys.repeat_interleave(n_group, 1).transpose(2, 3) / math.sqrt(module.head_dim)
            attention = logits.masked_fill(future, -math.inf).softmax(-1)
            yield Layer(module, hidden, queries, keys, plain_keys, values, attention, (cos, sin))

            mixed = (attention @ values.repeat_interleave(n_group, 1)).transpose(1, 2).reshape(1, len(tokens), -1)
            x = x + module.o_proj(mixed)
            y = self.norm(block + "ffn_norm")(x)
            gate, up, down = (self.projection(block + name) for name in ("ffn_gate", "ffn_up", "ffn_down"))
            x = x + down(nn.functional.silu(gate(y)) * up(y))


# --- the program ------------------------------------------------------------------------------------------------------------

class Pith:
    def __init__(self, program, model, text):
        self.program, self.model, self.text = program, model, text

    def call(self, *arguments):
        try:
            done = subprocess.run([self.program, *arguments, "-m", self.model, "--json"], capture_output=True, text=True)
        except OSError as error:
            fail(f"cannot run '{self.program}' ({error.strerror}): build it with scripts/build, or name it with --pith")
        if done.returncode != 0:
            fail(f"`pith {' '.join(map(str, arguments))}` failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        return json.loads(done.stdout)

    def tokens(self):
        return self.call("tokenize", "-f", self.text)["tokens"]

    def tokens_of(self, part):
        """Of words behind a text."""
        return self.call("tokenize", "--no-bos", "-p", part)["tokens"]

    def kept(self, policy, budget, n_tokens, *options):
        """bool [layers, KV heads, tokens]"""
        said = self.call("run", "-f", self.text, "--policy", policy, "--budget", str(budget), "--prefill", "one-shot", "-ctk", "f32", "-ctv",
                         "f32", "--raw", "-n", "0", "--kept", *options)
        if said["n_prompt"] != n_tokens:
            fail(f"`pith run` read {said['n_prompt']} tokens where `pith tokenize` gives {n_tokens}: update pith")
        kept = torch.zeros(len(said["kept"]), len(said["kept"][0]), n_tokens, dtype=torch.bool)
        for layer, lanes in enumerate(said["kept"]):
            for head, positions in enumerate(lanes):
                kept[layer, head, positions] = True
        return kept


def overlap(theirs, ours):
    """Mean and worst of |A and B| / |A| over layers and KV heads."""
    shares = (theirs & ours).sum(-1) / theirs.sum(-1)
    return shares.mean().item(), shares.min().item()


def jaccard(theirs, ours):
    """|A and B| / |A or B| of each layer and KV head."""
    return (theirs & ours).sum(-1) / (theirs | ours).sum(-1)


def default_text():
    people, things = ("king", "farmer", "old man", "girl", "sailor"), ("lamp", "coat", "bell", "ship")
    return "".join(f"The {people[i % 5]} took a {things[i % 4]} to the {('hill', 'town', 'lake')[i % 3]}. "
                   f"The code of word-{i} is {1000000 + i * 7919}.\n" for i in range(1, 20))
