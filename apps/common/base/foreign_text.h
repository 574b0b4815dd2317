// foreign_text.h - one line on stderr where a text is so foreign to the model that comparing policies on it means nothing.
// The limit and its reason: is_foreign() in engine/probe/foreign_text.h.
#pragma once

#include <cstdint>
#include <span>

#include "pith/model.h"

namespace pith::app {

// Measures the beginning of a prompt (perplexity_of_beginning()). Errors there are not told: the run itself will meet them.
void warn_of_foreign_prompt(const Model & model, std::span<const int32_t> tokens, int n_threads);
// Of a perplexity that is known; 0: nothing is.
void warn_of_foreign_prompt(double perplexity, int n_vocab);

}  // namespace pith::app
