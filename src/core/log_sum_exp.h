// log_sum_exp.h - what turns logits into log-probabilities. Stage: core.
// Pure C++: no ggml, no I/O.
#pragma once

#include <span>

namespace pith {

// ln Σ exp(logit): largest + ln of a sum in f64 of terms in f32, relative error of a term 2e-7. Logits of −∞
// count as nothing (1e-38).   REQUIRES: logits not empty, the largest finite.   Cost: about 2 ns an element.
double log_sum_exp(std::span<const float> logits);

}  // namespace pith
