// vocabulary.cpp - the pieces, their GGUF form, and the one file of it; SentencePiece itself is in sentencepiece.cpp.
#include "train/data/vocabulary.h"

#include <gguf.h>

#include <memory>
#include <utility>

#include "corpus/corpus.h"
#include "file/write_file.h"

namespace pith::train {

namespace {

constexpr char kChatTemplate[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

}  // namespace

void Vocabulary::find_turns() {
    for (int32_t id = 0; id < size(); ++id) {
        if (types[static_cast<size_t>(id)] != TokenType::kControl) { continue; }
        if (pieces[static_cast<size_t>(id)] == corpus::kTurnStartText) { turn_start = id; }
        if (pieces[static_cast<size_t>(id)] == corpus::kTurnEndText) { turn_end = id; }
    }
}

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
    if (vocabulary.turn_start >= 0 && vocabulary.turn_end >= 0) {
        gguf_set_val_u32(gguf, "tokenizer.ggml.eot_token_id", static_cast<uint32_t>(vocabulary.turn_end));
        gguf_set_val_str(gguf, "tokenizer.chat_template", kChatTemplate);
    }
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
    return write_gguf(path, gguf.get(), {});
}

Result<Vocabulary> read_vocabulary(const std::string & path) {
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_from_file(path.c_str(), {true, nullptr}),
                                                                   &gguf_free);
    if (gguf == nullptr) { return {ErrorCode::kBadFile, "'" + path + "' cannot be read as a GGUF"}; }
    const gguf_context * g = gguf.get();
    const auto find = [&](const char * key, gguf_type type, bool array = false) -> int64_t {
        const int64_t id = gguf_find_key(g, key);
        if (id < 0 || gguf_get_kv_type(g, id) != (array ? GGUF_TYPE_ARRAY : type)) { return -1; }
        return array && gguf_get_arr_type(g, id) != type ? -1 : id;
    };
    const int64_t model = find("tokenizer.ggml.model", GGUF_TYPE_STRING);
    const int64_t prefix = find("tokenizer.ggml.add_space_prefix", GGUF_TYPE_BOOL);
    const int64_t tokens = find("tokenizer.ggml.tokens", GGUF_TYPE_STRING, true);
    const int64_t scores = find("tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, true);
    const int64_t types = find("tokenizer.ggml.token_type", GGUF_TYPE_INT32, true);
    if (model < 0 || std::string_view(gguf_get_val_str(g, model)) != "llama" || prefix < 0 || gguf_get_val_bool(g, prefix) ||
        tokens < 0 || scores < 0 || types < 0 || gguf_get_arr_n(g, scores) != gguf_get_arr_n(g, tokens) ||
        gguf_get_arr_n(g, types) != gguf_get_arr_n(g, tokens)) {
        return {ErrorCode::kUnsupported,
                "'" + path + "' has not the tokeniser of the reference model, which the built-in text needs"};
    }
    Vocabulary v;
    for (size_t i = 0; i < gguf_get_arr_n(g, tokens); ++i) {
        v.pieces.emplace_back(gguf_get_arr_str(g, tokens, i));
        v.scores.push_back(static_cast<const float *>(gguf_get_arr_data(g, scores))[i]);
        v.types.push_back(static_cast<TokenType>(static_cast<const int32_t *>(gguf_get_arr_data(g, types))[i]));
    }
    for (const auto & [key, id] : {std::pair{"unknown", &v.unk}, std::pair{"bos", &v.bos}, std::pair{"eos", &v.eos}}) {
        const int64_t at = find(("tokenizer.ggml." + std::string(key) + "_token_id").c_str(), GGUF_TYPE_UINT32);
        if (at < 0) {
            return {ErrorCode::kUnsupported, "'" + path + "' names no " + key + " token, which the built-in text needs"};
        }
        *id = static_cast<int32_t>(gguf_get_val_u32(g, at));
    }
    v.find_turns();
    return v;
}

}  // namespace pith::train
