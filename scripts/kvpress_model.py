"""What scripts/kvpress_answers has kvpress and PyTorch do: reads a model, compresses a context under presses, answers from what is left."""
import dataclasses
import json
import math
import subprocess
from types import SimpleNamespace

import gguf
import kvpress.presses.kvzip_press
import torch
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.chat_template_utils import render_jinja_template

from attention_matching import AttentionMatching


class BadInput(Exception):
    """One line says what is wrong with what file."""


class Vocabulary:
    """Texts of tokens, and what KVzip asks a tokeniser, which `pith tokenize` answers."""

    def __init__(self, gguf_path, pith):
        fields = gguf.GGUFReader(gguf_path).fields
        self.path, self.pith = gguf_path, pith

        def value(name, default=None):
            return fields[name].contents() if name in fields else default
        self.kind, self.tokens, self.kinds = value("tokenizer.ggml.model"), value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
        if self.kind not in ("gpt2", "llama"):
            raise BadInput(f"'{gguf_path}' has a vocabulary of kind '{self.kind}'; gpt2 and llama are read")
        self.chat_template = value("tokenizer.chat_template")
        self.named = {key: self.tokens[value(f"tokenizer.ggml.{key}_id")] for key in ("bos_token", "eos_token")
                      if value(f"tokenizer.ggml.{key}_id") is not None}
        # GPT-2's alphabet: printable bytes stand for themselves, the others for the characters from 256 on.
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in plain]
        self.byte_of = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}

    def decode(self, tokens):
        """Control tokens are left out, as Pith leaves them out."""
        control, byte = 3, 6  # gguf.TokenType
        said = bytearray()
        for token in tokens:
            text = self.tokens[token]
            if self.kinds[token] == control:
                continue
            if self.kinds[token] == byte:
                said.append(int(text[3:5], 16))  # <0x0A>
            elif self.kind == "llama":
                said += text.replace("\u2581", " ").encode()
            else:
                said += bytes(self.byte_of[c] for c in text) if all(c in self.byte_of for c in text) else text.encode()
        return said.decode(errors="replace")

    def encode(self, text, return_tensors="pt", add_special_tokens=False):
        if return_tensors != "pt" or add_special_tokens:
            raise BadInput("this kvpress asks its tokeniser in another way: install kvpress 0.5.5")
        done = subprocess.run([self.pith, "tokenize", "-m", self.path, "--no-bos", "--json", "-p", text], capture_output=True, text=True)
        if done.returncode:
            raise BadInput(f"pith tokenize: {done.stderr.strip()}")
        return torch.tensor([json.loads(done.stdout)["tokens"]], dtype=torch.long)

    def apply_chat_template(self, messages, add_generation_prompt=False, **_):
        rendered, _ = render_jinja_template([messages], chat_template=self.chat_template, add_generation_prompt=add_generation_prompt, **self.named)
        return rendered[0]


def described(press):
    """A press with its options but for the share, which depends on the context's length."""
    if press is None:
        return "none"
    options = [(field.name, getattr(press, field.name)) for field in dataclasses.fields(press)
               if not field.name.startswith("_") and field.name != "compression_ratio"]
    return f"{type(press).__name__}({', '.join(described(value) if name == 'press' else f'{name}={value}' for name, value in options)})"


def load_model(path, pith):
    """The model and its vocabulary, which KVzip's press then takes in place of what it would load by the model's name."""
    vocabulary = Vocabulary(path, pith)
    kvpress.presses.kvzip_press.AutoTokenizer = SimpleNamespace(from_pretrained=lambda *_: vocabulary)
    try:
        model = AutoModelForCausalLM.from_pretrained(str(path.resolve().parent), gguf_file=path.name, dtype=torch.float32,
                                                     attn_implementation="sdpa")
    except Exception as error:  # noqa: BLE001  whatever it is that transformers finds wrong with a file
        raise BadInput(f"transformers cannot read '{path}' ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'says no more'})") from error
    return model.eval(), vocabulary


@dataclasses.dataclass
class Kept:
    """What a press left of a context."""
    keys: list    # per layer [1, KV heads, entries, head]
    values: list
    bias: list    # per layer [KV heads, entries], added to the logits; -inf: evicted, though it is still there; None: nothing is added

    @property
    def n(self):
        return self.keys[0].shape[2]

    def mean(self):
        """Entries a head, mean over heads and layers."""
        n_hidden = sum(int(layer.isneginf().sum()) for layer in self.bias if layer is not None)
        return self.n - n_hidden / (len(self.keys) * self.keys[0].shape[1])


def kept_of(cache, indices):
    """indices: per layer kvpress's masked_key_indices, of a press that takes different numbers from heads and only hides them."""
    kept = Kept([part.keys for part in cache.layers], [part.values for part in cache.layers], [])
    for found in indices:
        bias = None
        if found is not None:
            bias = torch.zeros(kept.keys[0].shape[1], kept.n)
            bias[found[1], found[2]] = -math.inf
        kept.bias.append(bias)
    return kept


def kept_of_fitted(layers):
    """layers: of each, (keys, logarithms of weights, values) of each KV head. Where a head has fewer, the rest is hidden."""
    n = max(len(keys) for heads in layers for keys, _, _ in heads)

    def filled(rows, value=0.):
        return torch.stack([torch.cat((row, row.new_full((n - len(row), *row.shape[1:]), value))) for row in rows])
    return Kept([filled([keys for keys, _, _ in heads]).unsqueeze(0) for heads in layers],
                [filled([values for _, _, values in heads]).unsqueeze(0) for heads in layers],
                [filled([weights for _, weights, _ in heads], -math.inf) for heads in layers])


def compress(model, vocabulary, presses, tokens):
    """What each press leaves. One pass serves all presses: each layer's hook gives every press a cache of its own to prune, with that
    layer's keys and values; what flows on to the next layer is the same. KVzip, which reads the context again, reads it for itself;
    so does Attention Matching, which is no press of kvpress, behind that one pass."""
    ids = torch.tensor([tokens])
    layers = model.model.layers
    caches, indices, whole = [DynamicCache() for _ in presses], [[] for _ in presses], DynamicCache()
    fitted = [i for i, press in enumerate(presses) if isinstance(press, AttentionMatching)]
    shared = [i for i, press in enumerate(presses) if i not in fitted and not hasattr(press, "_perform_kvzip_compression")]

    def prune(module, inputs, kwargs, output):
        layer = whole.layers[module.layer_idx]
        for i in shared:
            caches[i].update(layer.keys, layer.values, module.layer_idx)
            module.masked_key_indices = None
            if presses[i] is not None:
                torch.manual_seed(module.layer_idx)  # of presses that draw: whichever others run beside
                presses[i].forward_hook(module, inputs, {**kwargs, "past_key_values": caches[i]}, output)
            indices[i].append(module.masked_key_indices)
            module.masked_key_indices = None

    if shared or fitted:
        hooks = []
        for layer in layers:
            layer.self_attn.rotary_emb = model.model.rotary_emb
            hooks.append(layer.self_attn.register_forward_hook(prune, with_kwargs=True))
        for i in shared:
            if presses[i] is not None:
                presses[i].post_init_from_model(model)
        model.model(input_ids=ids, past_key_values=whole)
        for hook in hooks:
            hook.remove()
    for i, press in enumerate(presses):
        if i not in shared and i not in fitted:
            with press(model):
                model.model(input_ids=ids, past_key_values=caches[i])
            indices[i] = [layer.self_attn.masked_key_indices for layer in layers]
            for layer in layers:
                layer.self_attn.masked_key_indices = None
    kept = [None if i in fitted else kept_of(cache, found) for i, (cache, found) in enumerate(zip(caches, indices))]
    for i in fitted:
        kept[i] = kept_of_fitted(presses[i].compress(model, vocabulary, tokens, whole))
    return kept


def answer(model, vocabulary, kepts, begin, questions):
    """[of a Kept][question] the tokens of the answer, without the one that ends it. All are read and answered as one batch, each row
    with a copy of its cache; shorter questions are filled up in front with tokens that nobody sees.
    REQUIRES: all kepts have as many entries."""
    rows = [(kept, question) for kept in kepts for question in questions]
    n, n_cached, width = len(rows), kepts[0].n, max(len(q.tokens) for q in questions)
    room = n_cached + width + max(q.n_new for q in questions)

    class Rows(DynamicLayer):
        """Grows in place."""

        def __init__(self, layer):
            super().__init__()
            first = kepts[0].keys[layer]
            self.lazy_initialization(first, first)
            self.all = [first.new_empty(n, first.shape[1], room, first.shape[3]) for _ in range(2)]
            for row, (kept, _) in enumerate(rows):
                self.all[0][row, :, :n_cached], self.all[1][row, :, :n_cached] = kept.keys[layer][0], kept.values[layer][0]
            self.show(n_cached)

        def show(self, length):
            self.keys, self.values = (part[:, :, :length] for part in self.all)

        def update(self, key_states, value_states, cache_kwargs=None):
            begin, end = self.keys.shape[2], self.keys.shape[2] + key_states.shape[2]
            self.all[0][:, :, begin:end], self.all[1][:, :, begin:end] = key_states, value_states
            self.show(end)
            return self.keys, self.values

    nothing = torch.zeros(1, n_cached)
    bias = [torch.stack([(kept.bias[layer] if kept.bias[layer] is not None else nothing).expand(keys.shape[1], -1)
                         for kept, _ in rows]) if any(kept.bias[layer] is not None for kept in kepts) else None
            for layer, keys in enumerate(kepts[0].keys)]

    def attend(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **_):
        """Plain attention, without copies of the keys for each head of a group; evicted entries get no weight."""
        n_rows, n_heads, n_queries, head = query.shape
        grouped = query.reshape(n_rows, key.shape[1], -1, head)
        logits = torch.matmul(grouped, key.transpose(2, 3)) * (head**-0.5 if scaling is None else scaling)
        if bias[module.layer_idx] is not None:
            logits[..., :n_cached] += bias[module.layer_idx].unsqueeze(2)
        if attention_mask is None and n_queries > 1:
            attention_mask = torch.ones(1, 1, n_queries, key.shape[2], dtype=torch.bool).tril(key.shape[2] - n_queries)
        if attention_mask is not None:
            logits.masked_fill_(~attention_mask.repeat(1, 1, n_heads // key.shape[1], 1), -math.inf)
        mixed = torch.matmul(logits.softmax(dim=-1), value).reshape(n_rows, n_heads, n_queries, head)
        return mixed.transpose(1, 2).contiguous(), None

    cache = DynamicCache()
    cache.layers = [Rows(layer) for layer in range(len(kepts[0].keys))]
    fill = torch.tensor([width - len(q.tokens) for _, q in rows]).unsqueeze(1)
    feed = torch.tensor([[0] * (width - len(q.tokens)) + q.tokens for _, q in rows])
    positions = (begin + torch.arange(width).unsqueeze(0) - fill).clamp(min=begin)
    seen = torch.cat((torch.ones(n, n_cached, dtype=torch.long), (torch.arange(width).unsqueeze(0) >= fill).long()), dim=1)
    said, open_rows = [[] for _ in rows], set(range(n))
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    ALL_ATTENTION_FUNCTIONS["sdpa"] = attend
    try:
        while True:
            logits = model(input_ids=feed, past_key_values=cache, position_ids=positions, logits_to_keep=1, attention_mask=seen).logits
            tokens = logits[:, -1].argmax(dim=-1)
            for row in sorted(open_rows):
                token, question = int(tokens[row]), rows[row][1]
                ends = token in question.ends
                if not ends:
                    said[row].append(token)
                if ends or len(said[row]) == question.n_new or question.newline and "\n" in vocabulary.decode([token]):
                    open_rows.discard(row)
            if not open_rows:
                break
            feed, positions = tokens.unsqueeze(1), positions[:, -1:] + 1
            seen = torch.cat((seen, torch.ones(n, 1, dtype=torch.long)), dim=1)
    finally:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = before
    return [said[i:i + len(questions)] for i in range(0, n, len(questions))]
