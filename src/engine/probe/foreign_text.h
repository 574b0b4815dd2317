// foreign_text.h - is a text so foreign to a model that what a policy keeps of it says nothing? Stage: probe.
// Errors: those of sessions.   Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "pith/model.h"

namespace pith {

// Whether a text is so foreign to a model that what a policy keeps of it says nothing: its perplexity with the full cache is
// above √n_vocab. A guess among all tokens costs ln n_vocab nats a token; above the root the model spares less than half of
// that, so what changes with the cache is mostly noise around a guess. For a vocabulary of 32,000 the limit is 179, for 128,000
// it is 358: texts in a language that a model has learnt stay far below. Not finite: foreign.
bool is_foreign(double perplexity, int n_vocab);
// One line that says so, and why; `what` is the text: "the prompt".
std::string foreign_text_message(const std::string & what, double perplexity, int n_vocab);

// Of a prompt's beginning with the full cache, in a session of its own: a sixteenth of its tokens, at most 128. 0 where that
// are fewer than 32: too few to say anything.   Cost: the prefill of these tokens.
Result<double> perplexity_of_beginning(const Model & model, std::span<const int32_t> tokens, int n_threads,
                                       const std::atomic<bool> * cancel);

}  // namespace pith
