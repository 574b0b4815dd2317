// tokenizer_impl.h - what a Tokenizer holds, for those of this folder that need libllama's vocabulary. Stage: text.
#pragma once

#include <llama.h>

#include <string>

#include "pith/text.h"
#include "text/lone_characters.h"

namespace pith {

struct Tokenizer::Impl {
    llama_model * model = nullptr;
    const llama_vocab * vocab = nullptr;
    std::string chat_template;
    LoneCharacters lone_characters;

    Impl() = default;
    Impl(const Impl &) = delete;
    Impl & operator=(const Impl &) = delete;
    ~Impl() { llama_model_free(model); }
};

}  // namespace pith
