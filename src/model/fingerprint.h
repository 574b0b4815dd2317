// fingerprint.h - what tells one model from another, whatever its quantisation. Stage: model.
// The shape and a hash of the last norm, which quantisation leaves alone: what was learnt on one quantisation serves the
// others, and a fine-tuned model is told from its base.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/model_file.h"

namespace pith {

// In this order: architecture, n_layers, n_heads, n_kv_heads, head_dim, n_embd, n_vocab, n_params, norm_hash.
using FingerprintValue = std::variant<int64_t, std::string>;
using Fingerprint = std::vector<std::pair<std::string, FingerprintValue>>;

// FNV-1a over the f32 bytes of the norm before the output matrix, 16 hexadecimal digits.
std::string norm_hash(const ModelFile & file);

Fingerprint fingerprint_of(const ModelFile & file);

// Of these what attention's heads depend on: architecture, n_layers, n_heads, n_kv_heads, head_dim, n_embd.
Fingerprint shape_of(const ModelFile & file);

std::string to_text(const FingerprintValue & value);

}  // namespace pith
