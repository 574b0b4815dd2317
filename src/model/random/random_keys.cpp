// random_keys.cpp - see random_keys.h.
#include "model/random/random_keys.h"

#include <algorithm>
#include <string>
#include <vector>

#include "file/gguf_header.h"
#include "model/arch/architecture.h"
#include "model/arch/read_hparams.h"
#include "model/random/random_vocab.h"

namespace pith {
namespace {

constexpr float kNormEps = 1e-5F;

void set_rope(gguf_context * gguf, const RandomModelSpec & spec) {
    const std::string rope = spec.arch + ".rope.";
    gguf_set_val_u32(gguf, (rope + "dimension_count").c_str(), spec.head_dim);
    gguf_set_val_f32(gguf, (rope + "freq_base").c_str(), spec.rope_base);
    if (spec.rope_scaling == RopeScaling::kNone) { return; }
    const int n_ctx_orig = spec.rope_n_ctx_orig > 0
                               ? spec.rope_n_ctx_orig
                               : std::max(1, static_cast<int>(static_cast<float>(spec.n_ctx_train) / spec.rope_factor));
    gguf_set_val_str(gguf, (rope + "scaling.type").c_str(), spec.rope_scaling == RopeScaling::kYarn ? "yarn" : "linear");
    gguf_set_val_f32(gguf, (rope + "scaling.factor").c_str(), spec.rope_factor);
    gguf_set_val_u32(gguf, (rope + "scaling.original_context_length").c_str(), n_ctx_orig);
}

void set_shape(gguf_context * gguf, const RandomModelSpec & spec) {
    const auto u32 = [&](const char * key, int value) { gguf_set_val_u32(gguf, (spec.arch + key).c_str(), value); };
    const bool experts = spec.n_experts > 0;
    const Experts form = find_architecture(spec.arch)->form.experts;
    const bool is_rms = find_architecture(spec.arch)->form.norm == NormKind::kRms;
    gguf_set_val_str(gguf, "general.architecture", spec.arch.c_str());
    gguf_set_val_str(gguf, "general.type", "model");
    gguf_set_val_str(gguf, "general.name", spec.name.c_str());
    gguf_set_val_u32(gguf, "general.quantization_version", GGML_QNT_VERSION);
    u32(".block_count", spec.n_layers);
    u32(".context_length", spec.n_ctx_train);
    u32(".embedding_length", spec.n_embd);
    // Mixtral's experts are as wide as its feed-forward length says; others have a key of their own.
    u32(".feed_forward_length", experts && (form == Experts::kLikeMixtral || spec.n_ff == 0) ? spec.n_ff_expert : spec.n_ff);
    u32(".attention.head_count", spec.n_heads);
    u32(".attention.head_count_kv", spec.n_kv_heads);
    u32(".attention.key_length", spec.head_dim);
    u32(".attention.value_length", spec.head_dim);
    u32(".vocab_size", spec.n_vocab);
    const char * epsilon = is_rms ? ".attention.layer_norm_rms_epsilon" : ".attention.layer_norm_epsilon";
    gguf_set_val_f32(gguf, (spec.arch + epsilon).c_str(), kNormEps);
    if (spec.window > 0) { u32(".attention.sliding_window", spec.window); }
    set_rope(gguf, spec);
    if (experts) {
        u32(".expert_count", spec.n_experts);
        u32(".expert_used_count", spec.n_experts_used);
        if (form == Experts::kAlways) { u32(".expert_feed_forward_length", spec.n_ff_expert); }
    }
}

template <typename To, typename T>
std::vector<To> for_each_layer(const RandomList<T> & of, int n_layers) {
    std::vector<To> list;
    for (size_t l = 0; l < static_cast<size_t>(n_layers); ++l) {
        list.push_back(static_cast<To>(of.values[l % of.values.size()]));
    }
    return list;
}

void set_more(gguf_context * gguf, const RandomModelSpec & spec) {
    for (const auto & [name, value] : spec.keys) {
        const std::string key = spec.arch + "." + name;
        if (const auto * flag = std::get_if<bool>(&value)) { gguf_set_val_bool(gguf, key.c_str(), *flag); }
        if (const auto * number = std::get_if<uint32_t>(&value)) { gguf_set_val_u32(gguf, key.c_str(), *number); }
        if (const auto * real = std::get_if<float>(&value)) { gguf_set_val_f32(gguf, key.c_str(), *real); }
        if (const auto * text = std::get_if<std::string>(&value)) { gguf_set_val_str(gguf, key.c_str(), text->c_str()); }
        if (const auto * list = std::get_if<std::vector<int32_t>>(&value)) {
            gguf_set_arr_data(gguf, key.c_str(), GGUF_TYPE_INT32, list->data(), list->size());
        }
        if (const auto * numbers = std::get_if<RandomList<int32_t>>(&value)) {
            const auto list = for_each_layer<int32_t>(*numbers, spec.n_layers);
            gguf_set_arr_data(gguf, key.c_str(), GGUF_TYPE_INT32, list.data(), list.size());
        }
        if (const auto * flags = std::get_if<RandomList<bool>>(&value)) {
            const auto list = for_each_layer<int8_t>(*flags, spec.n_layers);
            gguf_set_arr_data(gguf, key.c_str(), GGUF_TYPE_BOOL, list.data(), list.size());
        }
    }
}

}  // namespace

void set_random_keys(gguf_context * gguf, const RandomModelSpec & spec) {
    set_shape(gguf, spec);
    set_more(gguf, spec);
}

void set_random_vocab(gguf_context * gguf, const RandomModelSpec & spec) {
    const RandomVocab vocab = make_random_vocab(spec.n_vocab, spec.byte_tokens);
    std::vector<const char *> pieces;
    pieces.reserve(vocab.pieces.size());
    for (const std::string & piece : vocab.pieces) { pieces.push_back(piece.c_str()); }
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "llama");
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", "default");
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pieces.data(), pieces.size());
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, vocab.scores.data(), vocab.scores.size());
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocab.types.data(), vocab.types.size());
    gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", true);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_eos_token", false);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", true);
}

Result<Hparams> random_hparams(const RandomModelSpec & spec) {
    const GgufPtr gguf(gguf_init_empty());
    set_random_keys(gguf.get(), spec);
    std::vector<uint8_t> bytes(gguf_get_meta_size(gguf.get()));
    gguf_get_meta_data(gguf.get(), bytes.data());
    const std::string name = "random model";
    PITH_ASSIGN_OR_RETURN(const GgufHeader header, parse_gguf(bytes, name));
    return read_hparams(header, name);
}

}  // namespace pith
