// tokenizer_impl.h - what a Tokenizer holds, for those of this folder that need libllama's vocabulary. Stage: text.
#pragma once

#include <llama.h>

#include <memory>

#include "pith/text.h"
#include "text/chat_template.h"
#include "text/lone_characters.h"
#include "text/plain_text.h"

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
    // The template of this text; empty: the model's own.
    std::unique_ptr<const ChatTemplate> make_chat(const std::string & source) const;
    ~Impl() { llama_model_free(model); }
};

}  // namespace pith
