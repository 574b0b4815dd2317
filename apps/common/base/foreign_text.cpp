// foreign_text.cpp - see foreign_text.h.
#include "common/base/foreign_text.h"

#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "engine/probe/foreign_text.h"

namespace pith::app {

void warn_of_foreign_prompt(double perplexity, int n_vocab) {
    if (perplexity == 0 || !is_foreign(perplexity, n_vocab)) { return; }
    warn(foreign_text_message("the prompt", perplexity, n_vocab));
}

void warn_of_foreign_prompt(const Model & model, std::span<const int32_t> tokens, int n_threads) {
    const auto perplexity = perplexity_of_beginning(model, tokens, n_threads, &catch_interrupt());
    if (perplexity.ok()) { warn_of_foreign_prompt(*perplexity, model.info().n_vocab); }
}

}  // namespace pith::app
