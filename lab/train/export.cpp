// export.cpp - a trained model as a GGUF. Stage: train.
#include "train/export.h"

#include <ggml.h>
#include <gguf.h>

#include <memory>
#include <vector>

#include "file/write_file.h"

namespace pith::train {
namespace {

constexpr uint32_t kFileTypeF32 = 0;  // LLAMA_FTYPE_ALL_F32

}  // namespace

Status export_gguf(const Parameters & parameters, const Vocabulary & vocabulary, const std::string & name,
                   const std::string & path) {
    const ModelShape & s = parameters.shape();
    if (vocabulary.size() != s.n_vocab) {
        return {ErrorCode::kInvalidArgument,
                "the vocabulary has " + std::to_string(vocabulary.size()) + " pieces, the model " + std::to_string(s.n_vocab)};
    }
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), &gguf_free);
    gguf_context * g = gguf.get();
    const auto u32 = [&](const char * key, int value) { gguf_set_val_u32(g, key, static_cast<uint32_t>(value)); };
    gguf_set_val_str(g, "general.architecture", "llama");
    gguf_set_val_str(g, "general.name", name.c_str());
    gguf_set_val_u32(g, "general.file_type", kFileTypeF32);
    u32("llama.vocab_size", s.n_vocab);
    u32("llama.context_length", s.n_ctx);
    u32("llama.embedding_length", s.n_embd);
    u32("llama.block_count", s.n_layers);
    u32("llama.feed_forward_length", s.n_ff);
    u32("llama.attention.head_count", s.n_heads);
    u32("llama.attention.head_count_kv", s.n_kv_heads);
    u32("llama.attention.key_length", s.head_dim);
    u32("llama.attention.value_length", s.head_dim);
    u32("llama.rope.dimension_count", s.head_dim);
    gguf_set_val_f32(g, "llama.rope.freq_base", s.rope_base);
    gguf_set_val_f32(g, "llama.attention.layer_norm_rms_epsilon", parameters.hparams().norm_eps);
    set_vocabulary(g, vocabulary);
    std::vector<const void *> data;
    for (const Parameter & p : parameters.list()) {
        gguf_add_tensor(g, p.value);
        data.push_back(p.value->data);
    }
    return write_gguf(path, g, data);
}

}  // namespace pith::train
