// evidence_dump.h - what a policy may look at, as arrays in one file: for whoever tries an idea in Python first. Stage:
// inspect.
//
// The file is safetensors, all little-endian f32 but the tokens. Of every layer L that policies govern:
//   layers.L.keys       [K][n][d]    as they lie in the cache: after RoPE
//   layers.L.values     [K][n][dv]
//   layers.L.queries    [w][H][d]    of the last w tokens, after RoPE
//   layers.L.attention  [H][n]       mean over these queries of their softmax attention; a query sees entries up to its own
//   layers.L.inputs     [n][D]       what the projections read: the normalised hidden state in front of the layer
// and tokens, I32 [n]. Query head g belongs to KV head g / (H / K). Metadata: attention_scale, attention_softcap (0: none), and
// the model's name.
// Memory:  the whole cache in f32, and the inputs, n · D · 4 bytes a layer.
// Errors:  kInvalidArgument (no tokens), kIo (names the file; it is whole or not there), kCancelled, those of sessions.
// Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "pith/model.h"

namespace pith {

struct EvidenceDumpOptions {
    int n_queries = 32;
    int n_threads = 0;
    int chunk = kDefaultChunk;
    const std::atomic<bool> * cancel = nullptr;
};

struct EvidenceDump {
    int n_layers = 0;
    int64_t n_tokens = 0;
    int n_queries = 0;  // fewer than asked for where there are not so many tokens
    int64_t bytes = 0;
};

Result<EvidenceDump> dump_evidence(const Model & model, std::span<const int32_t> tokens, const std::string & path,
                                   const EvidenceDumpOptions & options);

}  // namespace pith
