// fill_tensor.cpp - see fill_tensor.h. Optimised, unlike tests: millions of numbers.
#include "model/fill_tensor.h"

#include <ggml.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

namespace pith::testing {

void fill_tensor(ggml_tensor * tensor) {
    const std::string name = tensor->name;
    uint64_t seed = 0xCBF29CE484222325ULL;
    for (const char c : name) { seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL; }
    std::mt19937_64 random(seed);
    const bool is_norm = name.find("norm") != std::string::npos || name.find("scale") != std::string::npos;
    const bool is_vector = ggml_n_dims(tensor) == 1;
    float spread = is_vector ? 0.2F : 1.0F / std::sqrt(static_cast<float>(tensor->ne[0]));
    if (is_norm) { spread = 0.1F; }
    if (name == "token_embd.weight") { spread = 1.0F; }
    std::normal_distribution<float> normal(is_norm ? 1.0F : 0.0F, spread);
    auto * values = static_cast<float *>(tensor->data);
    const int64_t n = ggml_nelements(tensor);
    for (int64_t i = 0; i < n; ++i) { values[i] = normal(random); }
    for (int64_t i = 0; i < n && name.ends_with("ssm_a"); ++i) { values[i] = -0.1F - std::abs(values[i]); }  // it decays
    for (int64_t i = 0; i < n && name.starts_with("rope_f"); ++i) {
        values[i] = (name.find("long") != std::string::npos ? 3.0F : 1.0F) + 0.3F * static_cast<float>(i);
    }
}

}  // namespace pith::testing
