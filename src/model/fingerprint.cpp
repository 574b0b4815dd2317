// fingerprint.cpp - what tells one model from another.
#include "model/fingerprint.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <cstdio>

namespace pith {
std::string norm_hash(const ModelFile & file) {
    const ggml_tensor * norm = file.weights().output_norm;
    std::vector<uint8_t> bytes(ggml_nbytes(norm));
    ggml_backend_tensor_get(norm, bytes.data(), 0, bytes.size());
    uint64_t hash = 14695981039346656037ULL;
    for (const uint8_t byte : bytes) { hash = (hash ^ byte) * 1099511628211ULL; }
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return text;
}

Fingerprint shape_of(const ModelFile & file) {
    const Hparams & hp = file.hparams();
    return {
        {"architecture", hp.arch_name},         {"n_layers", int64_t{hp.n_layers}}, {"n_heads", int64_t{hp.n_heads}},
        {"n_kv_heads", int64_t{hp.n_kv_heads}}, {"head_dim", int64_t{hp.head_dim}}, {"n_embd", int64_t{hp.n_embd}},
    };
}

Fingerprint fingerprint_of(const ModelFile & file) {
    Fingerprint all = shape_of(file);
    all.emplace_back("n_vocab", int64_t{file.hparams().n_vocab});
    all.emplace_back("n_params", file.n_params());
    all.emplace_back("norm_hash", norm_hash(file));
    return all;
}

std::string to_text(const FingerprintValue & value) {
    if (const auto * number = std::get_if<int64_t>(&value)) { return std::to_string(*number); }
    return std::get<std::string>(value);
}

}  // namespace pith
