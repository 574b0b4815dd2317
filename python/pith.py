"""Pith for Python: large language models inside a hard KV-cache budget, through libpith (pith/pith.h) and ctypes.

    import pith
    model = pith.Model("model.gguf")
    session = model.session(policy="snapkv", budget="1024")
    session.prefill(model.tokenize("Once upon a time"))
    for text in model.texts(session.generate(32)):
        print(text, end="", flush=True)
    print(session.ledger()["kv_allocated_bytes"])

Many prompts, together through each pass over the weights:

    engine = model.engine(ceiling="512M")
    ids = [engine.submit(model.tokenize(text), policy="snapkv", budget="512") for text in texts]
    engine.run()
    answers = [model.detokenize(engine.answer(id)) for id in ids]

A scorer of your own, whose name is a policy from then on (examples/own_scorer.py):

    pith.register_scorer("my-vatp", score, needs=("window_mean", "value_l1"), window=32)
    session = model.session(policy="my-vatp+ada", budget="1024")

The library is looked for where PITH_LIBRARY says, beside this file, in lib/ there (a wheel's), in the lib folder of an installation
that this file belongs to, and where the system looks. Every failure raises pith.Error with one line that says what, which value, and
what to do.
"""

import array
import codecs
import collections
import ctypes
import ctypes.util
import functools
import itertools
import json
import operator
import os
import re
import threading
import traceback
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

CODES = ("ok", "invalid_argument", "not_found", "bad_file", "unsupported", "missing_evidence", "not_finite", "budget",
         "out_of_memory", "io", "cancelled", "internal")


class Error(Exception):
    """What went wrong; `code` is one of CODES, `field` the keyword that the message names first ("" where it names none)."""

    def __init__(self, code, message, field=""):
        super().__init__(message)
        self.field = field
        self.code = CODES[code] if 0 <= code < len(CODES) else str(code)

    def __reduce__(self):  # it goes from one process to another
        code = CODES.index(self.code) if self.code in CODES else int(self.code)
        return type(self), (code, str(self), self.field)


def _integer(kind, value, name):
    """The value, where the C type holds it: ctypes would take what is left of it."""
    value = operator.index(value)
    if kind(value).value != value:
        raise Error(CODES.index("invalid_argument"), f"{name} is {value}, which is beyond {8 * ctypes.sizeof(kind)} bits", name)
    return value


def _lane(layer, kv_head):
    return _integer(c_int32, layer, "layer"), _integer(c_int32, kv_head, "kv_head")


def _number(number):
    return _integer(c_int64, number, "number")


_MODEL_PROGRESS = ctypes.CFUNCTYPE(c_bool, c_double, c_void_p)
_RUN_PROGRESS = ctypes.CFUNCTYPE(c_bool, c_int64, c_int64, c_void_p)
_CHOOSE = ctypes.CFUNCTYPE(c_int32, POINTER(c_float), c_size_t, c_void_p)
_ON_TOKEN = ctypes.CFUNCTYPE(c_bool, c_int32, c_void_p)
_GO_ON = ctypes.CFUNCTYPE(c_bool, c_void_p)
# Texts that a callback returns: as addresses, since ctypes would not let go of them.
_HIDDEN = ctypes.CFUNCTYPE(c_void_p, c_int32, c_int32, c_size_t, c_size_t, c_void_p, c_void_p)

STATES = ("waiting", "reading", "answering", "set_aside", "done", "failed", "cancelled")


class _Options(ctypes.Structure):
    """A struct of pith.h that begins with its size."""

    def set(self, given):
        types = dict(self._fields_[1:])
        for name, value in given.items():
            if name not in types:
                raise TypeError(f"unknown option '{name}': there are {', '.join(types)}")
            kind = types[name]
            if kind is c_char_p and isinstance(value, (str, os.PathLike)):
                value = os.fsencode(value) if name.endswith(("_file", "_dir")) else os.fspath(value).encode()
            elif kind is c_char_p and value is not None and not isinstance(value, bytes):
                value = str(value).encode()
            elif kind in (c_int32, c_int64, c_uint32, c_uint64, c_size_t):
                value = _integer(kind, value, name)
            setattr(self, name, value)
        return self


class _ModelOptions(_Options):
    _fields_ = [("size", c_size_t), ("use_mmap", c_bool), ("repack", c_bool), ("lora_file", c_char_p), ("lora_scale", c_float),
                ("gate_file", c_char_p), ("progress", _MODEL_PROGRESS), ("user", c_void_p), ("rpc_servers", c_char_p),
                ("devices", c_char_p), ("n_device_layers", c_int32), ("tensor_split", c_char_p),
                ("kv_offload", c_bool)]


class _ChatOptions(_Options):
    _fields_ = [("size", c_size_t), ("add_assistant", c_bool), ("tools", c_char_p), ("variables", c_char_p), ("reasoning", c_int32)]


class _ModelInfo(_Options):
    _fields_ = [("size", c_size_t), ("architecture", c_char_p), ("name", c_char_p), ("weight_type", c_char_p),
                ("n_params", c_int64), ("weight_bytes", c_uint64)] + [
                    (name, c_int32)
                    for name in ("n_layers", "n_heads", "n_kv_heads", "head_dim", "n_embd", "n_vocab", "n_ctx_train")
                ] + [("file_type", c_char_p)]


class _Span(ctypes.Structure):
    _fields_ = [("begin", c_int32), ("end", c_int32)]


class _SessionOptions(_Options):
    _fields_ = [("size", c_size_t), ("policy", c_char_p), ("budget", c_char_p), ("type_k", c_char_p), ("type_v", c_char_p),
                ("prefill", c_char_p), ("n_threads", c_int32), ("max_context", c_int32), ("chunk", c_int32),
                ("evict_every", c_int32), ("pinned", POINTER(_Span)), ("n_pinned", c_size_t), ("heads_file", c_char_p),
                ("observe", c_char_p), ("n_snapshots", c_int32), ("grid", c_int32), ("rotate_kv", c_bool),
                ("context_shift", c_bool), ("cold", c_char_p), ("cold_bytes", c_uint64), ("draft_ngram", c_int32),
                ("look_back", c_bool), ("repair_every", c_int32)]


class _RunOptions(_Options):
    _fields_ = [("size", c_size_t), ("n_question", c_int32), ("is_answer", c_bool), ("progress", _RUN_PROGRESS),
                ("user", c_void_p), ("repair", c_bool)]


class _Ledger(_Options):
    _fields_ = [("size", c_size_t)] + [
        (name, c_int64)
        for name in ("budget_entries", "n_prompt", "n_generated", "n_evictions", "evicted_entries", "kept_entries",
                     "peak_lane_entries")
    ] + [(name, c_uint64)
         for name in ("kv_needed_bytes", "kv_allocated_bytes", "kv_saved_bytes", "kv_peak_bytes", "evidence_peak_bytes",
                      "activation_peak_bytes", "rss_peak_bytes", "rss_anonymous_bytes")
         ] + [("gate_seen_entries", c_int64), ("gate_kept_entries", c_int64), ("gate_peak_bytes", c_uint64)] + [
             (name, c_double) for name in ("prefill_s", "decode_s", "evidence_s", "plan_s", "compact_s", "gate_s")
         ] + [("policy", c_char_p), ("policy_reason", c_char_p), ("schedule", c_char_p), ("n_lanes", c_int64), ("n_tokens", c_int64),
              ("kv_full_bytes", c_uint64), ("kv_window_bytes", c_uint64), ("kv_state_bytes", c_uint64),
              ("n_context_shifts", c_int64), ("kv_missed", c_double)] + [
                  (name, c_int64) for name in ("n_repairs", "returned_entries", "cold_entries", "cold_lost_entries",
                                               "cold_bytes", "cold_read_bytes")
              ] + [("repair_s", c_double), ("n_drafted", c_int64), ("n_draft_accepted", c_int64),
                   ("look_back_s", c_double), ("n_answer_repairs", c_int64), ("answer_repair_s", c_double)]


class _ScorerOptions(_Options):
    _fields_ = [("size", c_size_t), ("help", c_char_p), ("window", c_int32)] + [
        (name, c_bool)
        for name in ("window_mean", "window_max", "window_attention", "window_queries", "last_query", "running_sum", "keys",
                     "values", "key_norm", "value_l1", "value_l2", "output_l2")
    ] + [("n_sinks", c_int32), ("n_recent", c_int32)]


class _ScorerLayer(_Options):
    _fields_ = [("size", c_size_t)] + [
        (name, c_int32) for name in ("layer", "n_kv_heads", "n_group", "head_dim", "head_dim_v", "n_window")
    ] + [("n_seen", c_int64), ("n_entries", c_int64), ("begin", POINTER(c_int64))] + [
        (name, c_void_p) for name in ("positions", "window_mean", "window_max", "window_attention", "window_queries", "last_query",
                                      "running_sum", "keys", "values", "key_norm", "value_l1", "value_l2", "output_l2")
    ]


_SCORE = ctypes.CFUNCTYPE(c_void_p, POINTER(_ScorerLayer), c_void_p, c_void_p)


class _SamplerOptions(_Options):
    _fields_ = [("size", c_size_t), ("temperature", c_float), ("top_k", c_int32), ("top_p", c_float), ("min_p", c_float),
                ("typical_p", c_float), ("top_n_sigma", c_float), ("xtc_probability", c_float), ("xtc_threshold", c_float),
                ("repeat_penalty", c_float), ("presence_penalty", c_float), ("frequency_penalty", c_float),
                ("repeat_last_n", c_int32), ("dry_multiplier", c_float), ("dry_base", c_float), ("dry_allowed_length", c_int32),
                ("dry_last_n", c_int32), ("mirostat", c_int32), ("mirostat_tau", c_float), ("mirostat_eta", c_float),
                ("grammar", c_char_p), ("json_schema", c_char_p), ("seed", c_uint32)]


class _EngineOptions(_Options):
    _fields_ = [("size", c_size_t), ("type_k", c_char_p), ("type_v", c_char_p), ("ceiling", c_char_p), ("n_threads", c_int32),
                ("max_rows", c_int32), ("max_sequences", c_int32), ("grid", c_int32), ("cache_dir", c_char_p),
                ("cache_bytes", c_uint64), ("cache_memory_bytes", c_uint64), ("rotate_kv", c_bool)]


class _Request(_Options):
    _fields_ = [("size", c_size_t), ("tokens", POINTER(c_int32)), ("n_tokens", c_size_t), ("options", POINTER(_SessionOptions)),
                ("n_question", c_int32), ("after", c_int64), ("keep", c_bool), ("questions", POINTER(c_int32)),
                ("n_questions", c_size_t), ("max_tokens", c_int32), ("stop_at_end", c_bool), ("stop", POINTER(c_int32)),
                ("n_stop", c_size_t), ("priority", c_int32), ("sampler", c_void_p), ("choose", _CHOOSE), ("on_token", _ON_TOKEN),
                ("user", c_void_p), ("cache_name", c_char_p), ("cache_at", POINTER(c_int32)), ("n_cache_at", c_size_t),
                ("use_cache", c_bool), ("repair", c_bool)]


class _EngineLedger(_Options):
    _fields_ = [("size", c_size_t)] + [
        (name, c_int64) for name in ("n_waiting", "n_running", "n_set_aside", "n_steps", "n_prompt", "n_generated")
    ] + [(name, c_uint64) for name in ("ceiling_bytes", "kv_reserved_bytes", "kv_allocated_bytes", "kv_kept_bytes",
                                       "kv_peak_bytes", "activation_peak_bytes")
         ] + [(name, c_double) for name in ("step_s", "pass_s", "evict_s", "schedule_s", "prefill_s", "decode_s", "evidence_s",
                                            "longest_unit_s")
             ] + [(name, c_int64) for name in ("n_cache_sought", "n_cache_found", "n_cache_kept")
                  ] + [("kv_idle_bytes", c_uint64)]


def _find_library():
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get("PITH_LIBRARY")
    if named:
        return named
    for folder in (here, os.path.join(here, "lib"), os.path.join(here, "..", "build", "src", "c"), os.path.join(here, ".."),
                   os.path.join(here, "..", "..", "..", "lib")):
        for name in ("libpith.so", "libpith.dylib", "pith.dll"):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
    return ctypes.util.find_library("pith") or "libpith.so"


def _declare(library):
    handle, out = c_void_p, POINTER(c_void_p)
    tokens, size = POINTER(c_int32), POINTER(c_size_t)
    calls = {
        "pith_version": (c_char_p, []),
        "pith_error": (c_char_p, []),
        "pith_error_field": (c_char_p, []),
        "pith_last_code": (c_int32, []),
        "pith_model_options_init": (None, [POINTER(_ModelOptions), c_size_t]),
        "pith_model_load": (c_int32, [c_char_p, POINTER(_ModelOptions), out]),
        "pith_model_free": (None, [handle]),
        "pith_model_get_info": (c_int32, [handle, POINTER(_ModelInfo)]),
        "pith_tokenize": (c_int32, [handle, c_char_p, c_size_t, c_bool, c_bool, tokens, size]),
        "pith_token_text": (c_int32, [handle, c_int32, c_bool, c_char_p, size]),
        "pith_is_end_of_generation": (c_bool, [handle, c_int32]),
        "pith_chat_text": (c_int32, [handle, POINTER(c_char_p), POINTER(c_char_p), c_size_t, c_bool, c_char_p, size]),
        "pith_chat_options_init": (None, [POINTER(_ChatOptions), c_size_t]),
        "pith_chat_render": (c_int32, [handle, c_char_p, POINTER(_ChatOptions), c_char_p, size]),
        "pith_set_chat_template": (c_int32, [handle, c_char_p]),
        "pith_session_options_init": (None, [POINTER(_SessionOptions), c_size_t]),
        "pith_run_options_init": (None, [POINTER(_RunOptions), c_size_t]),
        "pith_session_new": (c_int32, [handle, POINTER(_SessionOptions), out]),
        "pith_session_free": (c_int32, [handle]),
        "pith_cancel_new": (c_int32, [out]),
        "pith_cancel_free": (None, [handle]),
        "pith_cancel_set": (None, [handle]),
        "pith_cancel_clear": (None, [handle]),
        "pith_session_cancel_by": (c_int32, [handle, handle]),
        "pith_engine_cancel_by": (c_int32, [handle, handle]),
        "pith_prefill": (c_int32, [handle, tokens, c_size_t, POINTER(_RunOptions)]),
        "pith_prefill_for_questions": (c_int32, [handle, tokens, c_size_t, tokens, c_size_t, POINTER(_RunOptions), POINTER(c_bool)]),
        "pith_append": (c_int32, [handle, c_int32]),
        "pith_decode": (c_int32, [handle, tokens]),
        "pith_logits": (POINTER(c_float), [handle, size]),
        "pith_n_tokens": (c_int64, [handle]),
        "pith_evict": (c_int32, [handle, c_char_p, c_char_p]),
        "pith_evict_for_questions": (c_int32, [handle, tokens, c_size_t, c_char_p, c_char_p]),
        "pith_repair": (c_int32, [handle, tokens, c_size_t, c_bool]),
        "pith_scorer_options_init": (None, [POINTER(_ScorerOptions), c_size_t]),
        "pith_register_scorer": (c_int32, [c_char_p, POINTER(_ScorerOptions), _SCORE, c_void_p]),
        "pith_unregister_scorer": (c_int32, [c_char_p]),
        "pith_session_watch_hidden": (c_int32, [handle, _HIDDEN, c_void_p]),
        "pith_lane_positions": (c_int32, [handle, c_int32, c_int32, POINTER(tokens), size]),
        "pith_session_snapshot": (c_int32, [handle, out]),
        "pith_session_restore": (c_int32, [handle, handle]),
        "pith_snapshot_free": (None, [handle]),
        "pith_session_save": (c_int32, [handle, c_char_p]),
        "pith_session_open": (c_int32, [handle, c_char_p, c_int32, out]),
        "pith_session_file_open": (c_int32, [c_char_p, out]),
        "pith_session_file_session": (c_int32, [handle, handle, c_int32, out]),
        "pith_session_file_free": (None, [handle]),
        "pith_session_load": (c_int32, [handle, c_char_p]),
        "pith_session_tokens": (c_int32, [handle, tokens, size]),
        "pith_get_ledger": (c_int32, [handle, POINTER(_Ledger)]),
        "pith_sampler_options_init": (None, [POINTER(_SamplerOptions), c_size_t]),
        "pith_sampler_new": (c_int32, [handle, POINTER(_SamplerOptions), out]),
        "pith_sampler_free": (None, [handle]),
        "pith_sample": (c_int32, [handle, handle, tokens]),
        "pith_sampler_accept": (c_int32, [handle, c_int32]),
        "pith_sampler_reset": (None, [handle]),
        "pith_engine_options_init": (None, [POINTER(_EngineOptions), c_size_t]),
        "pith_request_init": (None, [POINTER(_Request), c_size_t]),
        "pith_engine_new": (c_int32, [handle, POINTER(_EngineOptions), out]),
        "pith_engine_free": (c_int32, [handle]),
        "pith_engine_submit": (c_int32, [handle, POINTER(_Request), POINTER(c_int64)]),
        "pith_engine_cancel": (c_int32, [handle, c_int64]),
        "pith_engine_forget": (c_int32, [handle, c_int64]),
        "pith_engine_step": (c_int32, [handle, POINTER(c_bool)]),
        "pith_engine_run": (c_int32, [handle, _GO_ON, c_void_p]),
        "pith_engine_state": (c_int32, [handle, c_int64]),
        "pith_engine_status": (c_int32, [handle, c_int64]),
        "pith_engine_answer": (tokens, [handle, c_int64, size]),
        "pith_engine_lane_positions": (c_int32, [handle, c_int64, c_int32, c_int32, POINTER(tokens), size]),
        "pith_engine_request_ledger": (c_int32, [handle, c_int64, POINTER(_Ledger)]),
        "pith_engine_n_cached": (c_int64, [handle, c_int64]),
        "pith_engine_n_read": (c_int64, [handle, c_int64]),
        "pith_engine_questions_seen": (c_bool, [handle, c_int64]),
        "pith_engine_get_ledger": (c_int32, [handle, POINTER(_EngineLedger)]),
    }
    for name, (result, arguments) in calls.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


try:
    _lib = _declare(ctypes.CDLL(_find_library()))
except (OSError, AttributeError) as error:  # it is not there, or older than this file
    raise ImportError(f"libpith cannot be loaded ({error}): install Pith, or set PITH_LIBRARY to the path of libpith.so") from error


def _check(code):
    if code == 0:
        return
    line, cause = _Callback.cause_of(_lib.pith_error().decode(errors="replace"))
    error = Error(code, line, _lib.pith_error_field().decode())
    if cause is not None and not isinstance(cause, Exception):  # Ctrl-C, SystemExit: no error of the call
        raise cause
    raise error from cause


def _looked(value):
    """What a call without a code returned, unless it was refused."""
    _check(_lib.pith_last_code())
    return value


def _hook(raised, otherwise, call):
    """A function for C to call, which cannot hand on what it raises: that is kept for _hand_on()."""

    def work(*arguments):
        try:
            return call(*arguments)
        except BaseException as error:
            raised.append(error)
            return otherwise

    return work


def _hand_on(raised, call):
    """What its callbacks have raised counts for more than what became of the call by that."""
    try:
        call()
    except Error:
        if not raised:
            raise
    if raised:
        error = raised[0]
        raised.clear()
        raise error


def _goes_on(answer):
    """A callback that returns nothing does not mean to end anything."""
    return answer is None or bool(answer)


class _Callback:
    """A function that C calls: what it raises ends the call that it came in, as the cause of the pith.Error there."""

    _MOST = 64  # of what was raised, kept for whoever asks for a request's error
    _numbers = itertools.count(1)
    _raised = collections.OrderedDict()  # number → what was raised

    def __init__(self, kind, call):
        self._said = collections.deque(maxlen=16)  # alive until C has copied it; it may be called by several threads

        def work(*arguments):
            try:
                call(*arguments)
                return None
            except BaseException as error:  # C has no way to hand it on
                traceback.clear_frames(error.__traceback__.tb_next)  # what they hold must not stay as long as this does
                number = next(_Callback._numbers)
                _Callback._raised[number] = error
                while len(_Callback._raised) > _Callback._MOST:
                    _Callback._raised.popitem(last=False)
                line = f"[raised {number}] {type(error).__name__}: {error}"
                said = ctypes.create_string_buffer(line.encode(errors="replace"))
                self._said.append(said)
                return ctypes.addressof(said)

        self.function = kind(work)

    @classmethod
    def cause_of(cls, line):
        """The line without the number in it, and what was raised."""
        found = re.search(r"\[raised (\d+)\] ", line)
        if found is None:
            return line, None
        number = int(found[1])
        cause = cls._raised.get(number)
        if not isinstance(cause, Exception):  # Ctrl-C, SystemExit: once
            cls._raised.pop(number, None)
        return line[:found.start()] + line[found.end():], cause


def _give(holders, key, callback, call):
    """call() hands a callback to C. It is held from before, since Ctrl-C may be raised once C has it; where C refused, no longer.
    key: None: what call() returns."""
    pending = object()
    holders[pending] = callback
    try:
        given = call()
    except Error:
        del holders[pending]
        raise
    holders[given if key is None else key] = callback
    del holders[pending]
    return given


@functools.lru_cache(maxsize=None)
def _numpy():
    """The module, imported for those who want arrays; None where it is missing."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _array(address, shape, kind="f", writable=False):
    """Numbers ('f': f32, 'i': i32) where they lie: a numpy array, or without numpy a memoryview, of this shape."""
    size = 4
    for n in shape:
        size *= n
    if size == 0:
        return _numpy().empty(shape, dtype=kind) if _numpy() else memoryview(b"").cast(kind)
    view = _view_of(address, size, 0x200 if writable else 0x100).cast(kind, shape)
    return _numpy().asarray(view) if _numpy() else view


_view_of = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of.restype, _view_of.argtypes = ctypes.py_object, [c_void_p, ctypes.c_ssize_t, ctypes.c_int]


class ScorerLane:
    """One KV head's n entries, as a scorer's callback is shown them. Arrays are numpy's, or memoryviews where numpy is missing; they
    lie in the library's memory, without a copy, and are valid during the call. What `needs` did not name raises AttributeError.

        positions [n] in the text; keys [n][head_dim] after RoPE; values [n][head_dim_v]; key_norm, value_l1, value_l2 [n]
        window_mean, window_max, last_query, running_sum, output_l2 [n_group][n], a row for each query head that shares the KV head
        window_attention [n_group][n_window][n]: softmax attention of the last queries
        scores [n]: to be written, where the callback returns nothing
    """

    def __init__(self, struct, kv_head, scores):
        self._struct, self._begin = struct, struct.begin[kv_head]
        self.n = struct.begin[kv_head + 1] - self._begin
        self._scores = scores
        self.kv_head = kv_head

    def _shape(self, name):
        group = self._struct.n_group
        if name in ("window_mean", "window_max", "last_query", "running_sum", "output_l2"):
            return (group, self.n)
        if name == "window_attention":
            return (group, self._struct.n_window, self.n)
        if name == "keys":
            return (self.n, self._struct.head_dim)
        if name == "values":
            return (self.n, self._struct.head_dim_v)
        return (self.n,)

    def __getattr__(self, name):
        writable = name == "scores"
        address = self._scores if writable else getattr(self._struct, name, None) if name in _LANE_ARRAYS else None
        if address is None:
            raise AttributeError(f"'{name}' is no array of a lane, or needs= of the scorer does not name it")
        shape = self._shape(name)
        n_each = 1
        for size in shape:
            n_each *= size
        n_each //= max(self.n, 1)
        array = _array(address + 4 * self._begin * n_each, shape, "i" if name == "positions" else "f", writable)
        setattr(self, name, array)
        return array


_LANE_ARRAYS = tuple(name for name, kind in _ScorerLayer._fields_ if kind is c_void_p and name != "window_queries")


class ScorerLayer:
    """The evidence of one layer: `lanes`, a list of ScorerLane, one for each KV head, of unlike lengths. layer counts those that
    policies govern; n_seen: tokens so far; n_window: queries observed, which are more than asked for where questions are in sight."""

    def __init__(self, struct, scores):
        for name in ("layer", "n_kv_heads", "n_group", "head_dim", "head_dim_v", "n_window", "n_seen", "n_entries"):
            setattr(self, name, getattr(struct, name))
        self.lanes = [ScorerLane(struct, kv_head, scores) for kv_head in range(struct.n_kv_heads)]
        self._queries = struct.window_queries

    @property
    def window_queries(self):
        """[n_window][n_kv_heads · n_group][head_dim] after RoPE, oldest first."""
        if self._queries is None:
            raise AttributeError("needs= of the scorer does not name window_queries")
        return _array(self._queries, (self.n_window, self.n_kv_heads * self.n_group, self.head_dim))


_scorers = {}


def register_scorer(name, score, needs=(), window=0, sinks=0, recent=None, help=""):
    """From now on `name` is a scorer of all policies: "my-vatp", "my-vatp+ada". score(layer: ScorerLayer) returns one sequence of
    numbers for each KV head, one number for each of its entries, higher = keep; or None, where it has written lane.scores. needs:
    names of arrays of ScorerLane and ScorerLayer; only these are computed. window: queries observed, the last so many, for those
    that begin with window_. sinks, recent: how many of the first positions and of each lane's newest entries are protected (None:
    as many as the window, or 32). What it raises ends the call with a pith.Error that names the scorer, and has it as its cause;
    the session is then as before. It is called on whatever thread evicts, one call at a time, and must not feed a session of such
    a scorer. Scores that are not finite are refused."""
    options = _ScorerOptions()
    _lib.pith_scorer_options_init(byref(options), ctypes.sizeof(options))
    known = [field for field, kind in _ScorerOptions._fields_ if kind is c_bool]
    for need in [needs] if isinstance(needs, str) else needs:
        if need not in known:
            raise TypeError(f"unknown need '{need}': there are {', '.join(known)}")
        setattr(options, need, True)
    options.set({"help": help, "window": window, "n_sinks": sinks, "n_recent": -1 if recent is None else recent})

    def call(struct, scores, _):
        layer = ScorerLayer(struct.contents, scores)
        result = score(layer)
        if result is None:
            return
        rows = list(result)
        if [len(row) for row in rows] != [lane.n for lane in layer.lanes]:
            raise ValueError(f"scores of {[len(row) for row in rows]} entries, and the KV heads hold {[lane.n for lane in layer.lanes]}")
        for lane, row in zip(layer.lanes, rows):
            if _numpy():
                lane.scores[:] = row
            else:
                for j, value in enumerate(row):
                    lane.scores[j] = value

    callback = _Callback(_SCORE, call)
    _give(_scorers, name, callback,
          lambda: _check(_lib.pith_register_scorer(name.encode(), byref(options), callback.function, None)))


def unregister_scorer(name):
    """Ends register_scorer(). Raises pith.Error while sessions, snapshots or requests that are not forgotten use it."""
    _check(_lib.pith_unregister_scorer(name.encode()))
    _scorers.pop(name, None)


def _as_tokens(tokens):
    try:
        return (c_int32 * len(tokens))(*array.array("i", tokens))
    except OverflowError:
        wrong = next(token for token in tokens if c_int32(token).value != token)
        raise Error(CODES.index("invalid_argument"), f"token {wrong} is outside the vocabulary") from None


def _run_options(progress, raised):
    run = _RunOptions()
    _lib.pith_run_options_init(byref(run), ctypes.sizeof(run))
    if progress is not None:
        run.progress = _RUN_PROGRESS(_hook(raised, False, lambda n_done, n_total, _: _goes_on(progress(n_done, n_total))))
    return run


def _session_options(options, pinned):
    """The struct, and what it points at, which must live as long."""
    given = _SessionOptions()
    _lib.pith_session_options_init(byref(given), ctypes.sizeof(given))
    given.set(options)
    spans = (_Span * max(len(pinned), 1))(*[_Span(*(_integer(c_int32, end, "pinned") for end in span)) for span in pinned])
    given.pinned, given.n_pinned = spans, len(pinned)
    return given, spans


def _values(struct):
    values = {name: getattr(struct, name) for name, _ in struct._fields_[1:]}
    return {name: value.decode(errors="replace") if isinstance(value, bytes) else value for name, value in values.items()}


def _text(call):
    """A text that the library copies into our room, once the room is known."""
    size = c_size_t(0)
    call(None, byref(size))
    room = ctypes.create_string_buffer(size.value + 1)
    _check(call(room, byref(size)))
    return room.raw[:size.value]


def version():
    return _lib.pith_version().decode()


class _Handle:
    """Frees what it holds when it goes, or at close(): a session or an engine that a call is in raises pith.Error then, and stays."""

    _free = None
    _closing = threading.RLock()  # of all: what frees one may let another go
    _closes = False

    def __init__(self):
        self._pointer = c_void_p()

    @property
    def _handle(self):
        if not self._pointer:
            raise Error(CODES.index("invalid_argument"), f"the {type(self).__name__} is closed")
        return self._pointer

    def close(self):
        with _Handle._closing:
            if not self._pointer or self._closes:
                return
            self._closes = True
        stays = False
        try:
            _check(self._free(self._pointer) or 0)
        except Error:
            stays = True
            raise
        finally:  # also where Ctrl-C came while C freed it
            if not stays:
                self._pointer = c_void_p()
            self._closes = False

    def __reduce_ex__(self, _):
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: it lies in the library's memory")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_pointer", None):
            self.close()


class _CancelFlag(_Handle):
    _free = staticmethod(_lib.pith_cancel_free)

    def __init__(self):
        super().__init__()
        _check(_lib.pith_cancel_new(byref(self._pointer)))


class _Interruptible(_Handle):
    """Whose long calls an exception in the main thread, as Ctrl-C raises it, ends in the middle of a chunk. C does not come back for
    it: so such calls run on another thread, with their callbacks, while the main thread waits."""

    def __init__(self):
        super().__init__()
        self._flag = _CancelFlag()

    def _run(self, call):
        _lib.pith_cancel_clear(self._flag._handle)
        if threading.current_thread() is not threading.main_thread():
            call()
            return
        raised, interrupt, begun, go, done = [], None, [], threading.Event(), threading.Event()

        def work():
            go.wait()
            try:
                if begun:  # else nobody waits for it: the main thread was interrupted before
                    call()
            except BaseException as error:
                raised.append(error)
            finally:
                done.set()

        worker = threading.Thread(target=work)
        while True:
            try:
                if interrupt is not None:
                    _lib.pith_cancel_set(self._flag._handle)
                else:
                    worker.start()
                    begun.append(True)
                go.set()
                if begun:
                    done.wait()  # join() takes a thread for ended once it was interrupted
                break
            except BaseException as error:
                interrupt = interrupt or error
        if interrupt is not None:
            raise interrupt
        if raised:
            raise raised[0]


class Model(_Handle):
    """A GGUF file. Options: those of struct pith_model_options; progress(fraction) cancels by False; what it raises is raised."""

    _free = staticmethod(_lib.pith_model_free)

    def __init__(self, path, progress=None, **options):
        super().__init__()
        given = _ModelOptions()
        _lib.pith_model_options_init(byref(given), ctypes.sizeof(given))
        given.set(options)
        raised = []
        if progress is not None:
            given.progress = _MODEL_PROGRESS(_hook(raised, False, lambda fraction, _: _goes_on(progress(fraction))))
        _hand_on(raised, lambda: _check(_lib.pith_model_load(os.fsencode(path), byref(given), byref(self._pointer))))

    def info(self):
        info = _ModelInfo(size=ctypes.sizeof(_ModelInfo))
        _check(_lib.pith_model_get_info(self._handle, byref(info)))
        return _values(info)

    def tokenize(self, text, add_special=True, parse_special=False):
        data = text.encode()
        size = c_size_t(0)
        _lib.pith_tokenize(self._handle, data, len(data), add_special, parse_special, None, byref(size))
        room = (c_int32 * max(size.value, 1))()
        _check(_lib.pith_tokenize(self._handle, data, len(data), add_special, parse_special, room, byref(size)))
        return list(room[:size.value])

    def piece(self, token, special=False):
        """The bytes of one token: a character may need several tokens."""
        return _text(lambda room, size: _lib.pith_token_text(self._handle, _integer(c_int32, token, "token"), special, room, size))

    def text(self, token, special=False):
        """The text of one token by itself: "\ufffd" for a part of a character. texts() joins such parts."""
        return self.piece(token, special).decode(errors="replace")

    def texts(self, tokens, special=False):
        """The text of tokens as they come, a piece each: a character of several tokens comes with its last one."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in tokens:
            yield decoder.decode(self.piece(token, special))
        yield decoder.decode(b"", final=True)

    def detokenize(self, tokens, special=False):
        return b"".join(self.piece(token, special) for token in tokens).decode(errors="replace")

    def is_end(self, token):
        return bool(_lib.pith_is_end_of_generation(self._handle, _integer(c_int32, token, "token")))

    def chat_text(self, messages, add_assistant=True, tools=None, variables=None, reasoning=None):
        """messages: [{"role": "user", "content": "…"}, …], with "reasoning_content", "tool_calls", "tool_call_id" as OpenAI's;
        tools: a list of its tools; variables: a dict of more that the chat template reads; reasoning: True, False or None."""
        given = _ChatOptions()
        _lib.pith_chat_options_init(byref(given), ctypes.sizeof(given))
        given.add_assistant = add_assistant
        given.tools = json.dumps(tools).encode() if tools else None
        given.variables = json.dumps(variables).encode() if variables else None
        given.reasoning = 0 if reasoning is None else 1 if reasoning else -1
        talk = json.dumps(messages).encode()
        return _text(lambda room, size: _lib.pith_chat_render(self._handle, talk, byref(given), room, size)).decode()

    def set_chat_template(self, source=None):
        """Jinja, or a name that libllama knows, in place of the model's own; None: its own."""
        _check(_lib.pith_set_chat_template(self._handle, source.encode() if source else None))

    def session(self, **options):
        return Session(self, **options)

    def open_session(self, path, n_threads=0):
        """A session that was saved, under the settings it was saved with. path: a file, or a SessionFile."""
        session = Session.__new__(Session)
        _Interruptible.__init__(session)
        session.model = self
        session._watches = {}
        n_threads = _integer(c_int32, n_threads, "n_threads")
        if isinstance(path, SessionFile):
            _check(_lib.pith_session_file_session(path._handle, self._handle, n_threads, byref(session._pointer)))
        else:
            _check(_lib.pith_session_open(self._handle, os.fsencode(path), n_threads, byref(session._pointer)))
        _check(_lib.pith_session_cancel_by(session._handle, session._flag._handle))
        return session

    def sampler(self, **options):
        return Sampler(self, **options)

    def engine(self, **options):
        return Engine(self, **options)


class Session(_Interruptible):
    """One conversation. Options: those of struct pith_session_options; pinned: [(begin, end), …]. Ctrl-C ends a prefill or an eviction
    at once, and cancel() does from another thread: the session is then as before the call."""

    _free = staticmethod(_lib.pith_session_free)

    def __init__(self, model, pinned=(), **options):
        super().__init__()
        self.model = model
        self._watches = {}  # callbacks that C may have
        given, _kept = _session_options(options, pinned)
        _check(_lib.pith_session_new(model._handle, byref(given), byref(self._pointer)))
        _check(_lib.pith_session_cancel_by(self._handle, self._flag._handle))

    def cancel(self):
        """Ends the prefill or the eviction that another thread is in: it raises pith.Error, code "cancelled"."""
        _lib.pith_cancel_set(self._flag._handle)

    def prefill(self, tokens, n_question=0, is_answer=False, progress=None, repair=False):
        """progress(n_done, n_total) cancels by False, and what it raises is raised; it may be called on another thread. repair: of
        a session with look_back (else pith.Error), as repair() before it, in less time."""
        raised = []
        run = _run_options(progress, raised).set({"n_question": n_question, "is_answer": is_answer, "repair": repair})
        given = _as_tokens(tokens)
        _hand_on(raised, lambda: self._run(lambda: _check(_lib.pith_prefill(self._handle, given, len(given), byref(run)))))

    def prefill_for_questions(self, tokens, questions, progress=None):
        """Reads a first prompt for questions that will be asked of it later: questions is a list of their tokens' lists. Returns
        whether what is kept was chosen in their sight. Then: snapshot(), and for each of them prefill, generate, restore."""
        together = _as_tokens([token for question in questions for token in question])
        raised, seen, given = [], c_bool(), _as_tokens(tokens)
        run = _run_options(progress, raised)
        _hand_on(raised, lambda: self._run(lambda: _check(_lib.pith_prefill_for_questions(
            self._handle, given, len(given), together, len(together), byref(run), byref(seen)))))
        return seen.value

    def append(self, token):
        _check(_lib.pith_append(self._handle, _integer(c_int32, token, "token")))

    def decode(self):
        token = c_int32()
        _check(_lib.pith_decode(self._handle, byref(token)))
        return token.value

    def generate(self, n_tokens, sampler=None):
        """Tokens, one after the other, until the model ends or there are n_tokens: the likeliest, or a sampler's."""
        for _ in range(n_tokens):
            if sampler is None:
                token = self.decode()
            else:
                token = sampler.sample(self)
                self.append(token)
            if self.model.is_end(token):
                return
            yield token

    def logits(self):
        size = c_size_t()
        logits = _looked(_lib.pith_logits(self._handle, byref(size)))
        return logits[:size.value] if size.value else []

    def n_tokens(self):
        return _looked(_lib.pith_n_tokens(self._handle))

    def evict(self, policy, budget=None):
        given = None if budget is None else str(budget).encode()
        self._run(lambda: _check(_lib.pith_evict(self._handle, policy.encode(), given)))

    def evict_for_questions(self, questions, budget, policy="auto"):
        """The second of two stages: what is left, evicted once more in the sight of these tokens, which are prefilled next."""
        self._run(lambda: _check(_lib.pith_evict_for_questions(
            self._handle, _as_tokens(questions), len(questions), policy.encode(), str(budget).encode())))

    def repair(self, question, brings_back=True):
        """Of a session with `cold`: what these tokens, which are prefilled next, look for among what was evicted comes back in
        place of what they do not look for. Returns the share of their attention that goes to evicted entries."""
        self._run(lambda: _check(_lib.pith_repair(self._handle, _as_tokens(question), len(question), brings_back)))
        return self.ledger()["kv_missed"]

    def lane_positions(self, layer, kv_head):
        positions, size = POINTER(c_int32)(), c_size_t()
        _check(_lib.pith_lane_positions(self._handle, *_lane(layer, kv_head), byref(positions), byref(size)))
        return positions[:size.value] if size.value else []

    def watch_hidden(self, watch):
        """watch(layer, first_position, rows [n][n_embd]) is shown the states that governed layers make queries, keys and values of
        (after the layer's norm) while the session reads; None ends it. rows are valid during the call: copy what is to stay. layer
        counts as ScorerLayer.layer. Tokens that run as queries only (questions in sight) are shown, too. What it raises ends the
        call, and is the cause of the pith.Error; the session is then as before."""
        callback = None
        if watch is not None:
            callback = _Callback(_HIDDEN, lambda layer, first, n, n_embd, rows, _: watch(
                layer, first, _array(rows, (n, n_embd))))
        _give(self._watches, "now", callback, lambda: _check(
            _lib.pith_session_watch_hidden(self._handle, callback.function if callback else _HIDDEN(), None)))

    def snapshot(self):
        snapshot = Snapshot()
        _check(_lib.pith_session_snapshot(self._handle, byref(snapshot._pointer)))
        return snapshot

    def restore(self, snapshot):
        _check(_lib.pith_session_restore(self._handle, snapshot._handle))

    def save(self, path):
        """All of it in a file, to go on from later: Model.open_session(), or load() under the same settings."""
        _check(_lib.pith_session_save(self._handle, os.fsencode(path)))

    def load(self, path):
        _check(_lib.pith_session_load(self._handle, os.fsencode(path)))

    def tokens(self):
        """All that were fed."""
        size = c_size_t(self.n_tokens())
        tokens = (c_int32 * max(size.value, 1))()
        _check(_lib.pith_session_tokens(self._handle, tokens, byref(size)))
        return tokens[:size.value]

    def ledger(self):
        ledger = _Ledger(size=ctypes.sizeof(_Ledger))
        _check(_lib.pith_get_ledger(self._handle, byref(ledger)))
        return _values(ledger)


class SessionFile(_Handle):
    """A saved session's file, read and checked once, for as many sessions as are wanted: Model.open_session(file)."""

    _free = staticmethod(_lib.pith_session_file_free)

    def __init__(self, path):
        super().__init__()
        _check(_lib.pith_session_file_open(os.fsencode(path), byref(self._pointer)))


class Snapshot(_Handle):
    """A state of a session to come back to."""

    _free = staticmethod(_lib.pith_snapshot_free)


class Sampler(_Handle):
    """Draws tokens as llama.cpp does. Options: those of struct pith_sampler_options."""

    _free = staticmethod(_lib.pith_sampler_free)

    def __init__(self, model, **options):
        super().__init__()
        given = _SamplerOptions()
        _lib.pith_sampler_options_init(byref(given), ctypes.sizeof(given))
        given.set(options)
        _check(_lib.pith_sampler_new(model._handle, byref(given), byref(self._pointer)))

    def sample(self, session):
        token = c_int32()
        _check(_lib.pith_sample(self._handle, session._handle, byref(token)))
        return token.value

    def accept(self, token):
        _check(_lib.pith_sampler_accept(self._handle, _integer(c_int32, token, "token")))

    def reset(self):
        _lib.pith_sampler_reset(self._handle)


class Engine(_Interruptible):
    """Many sequences on one model: their tokens go through the weights together, under one ceiling in bytes for all. Options: those
    of struct pith_engine_options. Ctrl-C ends run() at once, and interrupt() does from another thread: requests stay as they are,
    and the next run() goes on with them."""

    _free = staticmethod(_lib.pith_engine_free)

    def __init__(self, model, **options):
        super().__init__()
        self.model = model
        self._hooks = {}  # of requests that may still call them
        self._raised = []  # by hooks
        given = _EngineOptions()
        _lib.pith_engine_options_init(byref(given), ctypes.sizeof(given))
        given.set(options)
        _check(_lib.pith_engine_new(model._handle, byref(given), byref(self._pointer)))
        _check(_lib.pith_engine_cancel_by(self._handle, self._flag._handle))

    def submit(self, tokens, n_question=0, after=0, keep=False, questions=(), max_tokens=256, stop=(), stop_at_end=True,
               priority=0, sampler=None, choose=None, on_token=None, pinned=(), cache_name="", cache_at=(), use_cache=True,
               repair=True, **options):
        """Takes a request and returns its number; step() or run() serve it. options: those of struct pith_session_options; of
        what is the engine's (K/V types, rotation, threads) or for sessions (n_snapshots, observe) no values of their own. after:
        the number of a request to go on from, which was submitted with keep and is done; questions: a list of tokens' lists, in
        whose sight what is kept is chosen. cache_name, cache_at: with a folder of states (the engine's cache_dir), who may find
        this prompt's, and behind how many of its tokens prompts that begin like it may part; use_cache=False: no state is looked
        for, and none is left. repair=False: of a request with `cold`, what its end looks for among what was evicted is only told
        (ledger()'s kv_missed); with max_tokens=0 nothing is looked for. choose(logits) -> token, or a sampler, says what comes
        next; on_token(token) -> bool is shown every token, and False ends the answer. An exception in either ends the request,
        and is raised by step() or run(), which may call them on another thread."""
        request = _Request()
        _lib.pith_request_init(byref(request), ctypes.sizeof(request))
        session, _kept = _session_options(options, pinned)
        together = _as_tokens([token for question in questions for token in question])
        all_tokens, all_stop = _as_tokens(tokens), _as_tokens(stop)
        request.tokens, request.n_tokens = all_tokens, len(all_tokens)
        request.questions, request.n_questions = together, len(together)
        request.stop, request.n_stop = all_stop, len(all_stop)
        request.options = ctypes.pointer(session)
        request.set({"n_question": n_question, "after": after, "keep": keep, "max_tokens": max_tokens, "priority": priority})
        places = _as_tokens(cache_at)
        request.cache_name, request.cache_at, request.n_cache_at = cache_name.encode(), places, len(places)
        request.use_cache = use_cache
        request.repair = repair
        request.stop_at_end = stop_at_end
        request.sampler = None if sampler is None else sampler._handle
        hooks, raised = [], self._raised
        if choose is not None:
            hooks.append(_CHOOSE(_hook(raised, -1, lambda logits, n, _: _integer(c_int32, choose(logits[:n]), "choose()"))))
            request.choose = hooks[-1]
        if on_token is not None:
            hooks.append(_ON_TOKEN(_hook(raised, False, lambda token, _: _goes_on(on_token(token)))))
            request.on_token = hooks[-1]
        number = c_int64()

        def submit():
            _check(_lib.pith_engine_submit(self._handle, byref(request), byref(number)))
            return number.value

        return _give(self._hooks, None, hooks, submit)

    def step(self):
        """One pass over the weights. True: there is more to do."""
        more = c_bool()
        _lib.pith_cancel_clear(self._flag._handle)  # of a run() that was interrupted
        _hand_on(self._raised, lambda: _check(_lib.pith_engine_step(self._handle, byref(more))))
        return more.value

    def run(self):
        """Until nothing is left to do."""
        go_on = _GO_ON(lambda _: not self._raised)
        _hand_on(self._raised, lambda: self._run(lambda: _check(_lib.pith_engine_run(self._handle, go_on, None))))

    def interrupt(self):
        """Ends the run() that another thread is in: it raises pith.Error, code "cancelled"."""
        _lib.pith_cancel_set(self._flag._handle)

    def cancel(self, number):
        _check(_lib.pith_engine_cancel(self._handle, _number(number)))

    def forget(self, number):
        _check(_lib.pith_engine_forget(self._handle, _number(number)))
        self._hooks.pop(number, None)

    def state(self, number):
        """One of STATES."""
        return STATES[_looked(_lib.pith_engine_state(self._handle, _number(number)))]

    def check(self, number):
        """Raises what the request failed with."""
        _check(_lib.pith_engine_status(self._handle, _number(number)))

    def answer(self, number):
        """Its tokens so far."""
        size = c_size_t()
        tokens = _looked(_lib.pith_engine_answer(self._handle, _number(number), byref(size)))
        return tokens[:size.value] if size.value else []

    def lane_positions(self, number, layer, kv_head):
        positions, size = POINTER(c_int32)(), c_size_t()
        _check(_lib.pith_engine_lane_positions(self._handle, _number(number), *_lane(layer, kv_head), byref(positions), byref(size)))
        return positions[:size.value] if size.value else []

    def n_cached(self, number):
        """Tokens of its prompt that came from the folder of states."""
        return _looked(_lib.pith_engine_n_cached(self._handle, _number(number)))

    def n_read(self, number):
        """Tokens of its prompt that are read, those of a stored state included."""
        return _looked(_lib.pith_engine_n_read(self._handle, _number(number)))

    def questions_seen(self, number):
        """Of a request whose prompt has been read: whether it was compressed in the sight of its questions."""
        return _looked(_lib.pith_engine_questions_seen(self._handle, _number(number)))

    def ledger(self, number=None):
        """Of one request, or of all together."""
        if number is None:
            ledger = _EngineLedger(size=ctypes.sizeof(_EngineLedger))
            _check(_lib.pith_engine_get_ledger(self._handle, byref(ledger)))
        else:
            ledger = _Ledger(size=ctypes.sizeof(_Ledger))
            _check(_lib.pith_engine_request_ledger(self._handle, _number(number), byref(ledger)))
        return _values(ledger)
