// random_prompt.h - tokens that mean nothing, for measurements. Stage: speed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "pith/model.h"

namespace pith {

// n tokens of the model's vocabulary, each as likely; a function of the seed.
inline std::vector<int32_t> random_prompt(const Model & model, int64_t n, uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int32_t> pick(0, model.info().n_vocab - 1);
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    for (int32_t & token : tokens) { token = pick(random); }
    return tokens;
}

}  // namespace pith
