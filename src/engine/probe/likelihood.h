// likelihood.h - how likely a model finds given tokens. Stage: probe.
#pragma once

#include <cstdint>
#include <span>

#include "core/log_sum_exp.h"
#include "pith/session.h"

namespace pith {

// −ln of the softmax's share of `token`, in f64.
inline double negative_log_likelihood(std::span<const float> logits, int32_t token) {
    return log_sum_exp(logits) - logits[static_cast<size_t>(token)];
}

// Sum over the tokens of what the session, standing in front of them, gives each. All but the last are fed.
// REQUIRES: tokens not empty; hooks.on_logits unset.
inline Result<double> sum_of_losses(Session & session, std::span<const int32_t> tokens, const RunHooks & hooks) {
    double sum = negative_log_likelihood(session.logits(), tokens[0]);
    size_t n_seen = 1;
    RunHooks with_logits = hooks;
    with_logits.is_answer = true;
    with_logits.on_logits = [&](int64_t, std::span<const float> logits) {
        if (n_seen < tokens.size()) { sum += negative_log_likelihood(logits, tokens[n_seen++]); }
    };
    if (tokens.size() > 1) { PITH_RETURN_IF_ERROR(session.prefill(tokens.first(tokens.size() - 1), with_logits)); }
    return sum;
}

}  // namespace pith
