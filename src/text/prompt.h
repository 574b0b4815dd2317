// prompt.h - system prompt, context and questions as tokens, with the border between context and question known. Stage: text.
//
// A chat template is rendered around markers and split there, so that what goes in between stays byte for byte what the
// user gave. Each whole prompt is tokenised in one piece; the context is the longest beginning that all of them share with
// the tokens of the context alone. So context + question is token for token what a prompt without compression would be.
// Threads: const-safe.   Cost: one tokenisation of the context for each question.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pith/text.h"

namespace pith {

struct PromptRequest {
    std::string system;                  // may be empty
    std::string context;                 // may be empty
    std::vector<std::string> questions;  // at least one; may be empty text when there is a context
    bool use_template = true;            // false: the texts as they are, one after the other
};

struct Prompt {
    std::vector<int32_t> context;                 // shared by all questions: prefilled and compressed once
    std::vector<std::vector<int32_t>> questions;  // what follows it, never empty
    int n_system = 0;                             // the first tokens, up to the end of the system prompt

    std::vector<int32_t> whole(size_t question) const;
};

// Names of special tokens in texts that a template goes around stay text.
// Errors: kInvalidArgument (nothing to say, invalid UTF-8), kUnsupported (a template that cannot be rendered).
Result<Prompt> build_prompt(const Tokenizer & tokenizer, const PromptRequest & request);

// How many tokens two runs have in common at their beginning.
size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace pith
