// vocabulary.cpp - the pieces, their GGUF form, and the one file of it; SentencePiece itself is in sentencepiece.cpp.
#include "train/vocabulary.h"

#include <gguf.h>

#include <memory>

namespace pith::train {

void set_vocabulary(gguf_context * gguf, const Vocabulary & vocabulary) {
    std::vector<const char *> pieces;
    std::vector<int32_t> types;
    for (const auto & piece : vocabulary.pieces) { pieces.push_back(piece.c_str()); }
    for (const auto type : vocabulary.types) { types.push_back(static_cast<int32_t>(type)); }
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pieces.data(), pieces.size());
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, vocabulary.scores.data(), vocabulary.scores.size());
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
    gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(vocabulary.unk));
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", static_cast<uint32_t>(vocabulary.bos));
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", static_cast<uint32_t>(vocabulary.eos));
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", true);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_eos_token", false);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", false);
}

Status write_vocabulary(const std::string & path, const Vocabulary & vocabulary) {
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), &gguf_free);
    gguf_set_val_str(gguf.get(), "general.architecture", "llama");
    gguf_set_val_str(gguf.get(), "general.name", "Pith vocabulary");
    gguf_set_val_u32(gguf.get(), "llama.vocab_size", static_cast<uint32_t>(vocabulary.size()));
    set_vocabulary(gguf.get(), vocabulary);
    if (!gguf_write_to_file(gguf.get(), path.c_str(), false)) {
        return {ErrorCode::kIo, "cannot write the vocabulary to '" + path + "': check that the folder exists and is writable"};
    }
    return {};
}

}  // namespace pith::train
