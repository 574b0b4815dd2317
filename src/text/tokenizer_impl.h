// tokenizer_impl.h - what a Tokenizer holds, for those of this folder that need libllama's vocabulary. Stage: text.
#pragma once

#include <llama.h>

#include <memory>
#include <mutex>

#include "pith/text.h"
#include "text/chat_template.h"
#include "text/lone_characters.h"
#include "text/plain_text.h"
#include "text/token_texts.h"

namespace pith {

struct Tokenizer::Impl {
    llama_model * model = nullptr;
    const llama_vocab * vocab = nullptr;
    std::unique_ptr<const ChatTemplate> chat;  // in use; never null once loaded
    ChatOptions chat_defaults;
    PlainText plain_text;
    LoneCharacters lone_characters;

    Impl() = default;
    Impl(const Impl &) = delete;
    Impl & operator=(const Impl &) = delete;
    // Tokenizer's calls of these names, which may throw std::bad_alloc.
    static Result<Tokenizer> load(const std::string & gguf_path);
    Result<std::vector<int32_t>> encode(std::string_view text, bool add_special, bool parse_special) const;
    // The template of this text; empty: the model's own.
    std::unique_ptr<const ChatTemplate> make_chat(const std::string & source) const;
    // Of `whole`, whose insides this is. For grammars: made when the first one comes. Threads: any.
    const TokenTexts & texts(const Tokenizer & whole) const {
        std::call_once(has_texts_, [&] { texts_ = std::make_unique<const TokenTexts>(whole); });
        return *texts_;
    }
    ~Impl() { llama_model_free(model); }

private:
    mutable std::once_flag has_texts_;
    mutable std::unique_ptr<const TokenTexts> texts_;
};

}  // namespace pith
