// architectures.h - the architecture variants that parity tests run over. Tests of the model and of the engine share them.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "model/random/random_model.h"

namespace pith::testing {

struct ArchitectureCase {
    std::string name;
    RandomModelSpec spec;
};

inline std::ostream & operator<<(std::ostream & out, const ArchitectureCase & c) {
    return out << c.name;
}

inline ArchitectureCase make_case(const std::string & name, const std::function<void(RandomModelSpec &)> & change) {
    ArchitectureCase c{name, {}};
    c.spec.n_ctx_train = 256;
    change(c.spec);
    return c;
}

inline void set_experts(RandomModelSpec & s, const std::string & arch) {
    s.arch = arch;
    s.n_experts = 8;
    s.n_experts_used = 2;
    s.n_ff_expert = 96;
}

inline void set_scaling(RandomModelSpec & s, RopeScaling scaling, float factor) {
    s.rope_scaling = scaling;
    s.rope_factor = factor;
}

inline std::vector<ArchitectureCase> architecture_cases() {
    return {
        make_case("llama_grouped", [](auto &) {}),
        make_case("llama_ungrouped", [](auto & s) { s.n_kv_heads = 4; }),
        make_case("llama_one_kv_head", [](auto & s) { s.n_kv_heads = 1; }),
        make_case("llama_tied", [](auto & s) { s.tied = true; }),
        make_case("llama_wide_heads", [](auto & s) { s.head_dim = 32; }),
        make_case("llama_rope_linear", [](auto & s) { set_scaling(s, RopeScaling::kLinear, 4.0F); }),
        make_case("llama_rope_yarn", [](auto & s) { set_scaling(s, RopeScaling::kYarn, 4.0F); }),
        make_case("llama_rope_base_500000", [](auto & s) { s.rope_base = 500000.0F; }),
        make_case("llama3_freqs", [](auto & s) { s.llama3_freqs = true; }),
        make_case("mixtral", [](auto & s) { set_experts(s, "llama"); }),
        make_case("mixtral_one_expert_used", [](auto & s) { set_experts(s, "llama"), s.n_experts_used = 1; }),
        make_case("qwen2_grouped", [](auto & s) { s.arch = "qwen2"; }),
        make_case("qwen2_ungrouped_tied", [](auto & s) { s.arch = "qwen2", s.n_kv_heads = 4, s.tied = true; }),
        make_case("qwen2_rope_yarn", [](auto & s) { s.arch = "qwen2", set_scaling(s, RopeScaling::kYarn, 4.0F); }),
        make_case("qwen3_grouped_wide_heads", [](auto & s) { s.arch = "qwen3", s.head_dim = 32; }),
        make_case("qwen3_ungrouped_tied", [](auto & s) { s.arch = "qwen3", s.n_kv_heads = 4, s.tied = true; }),
        make_case("qwen3moe", [](auto & s) { set_experts(s, "qwen3moe"), s.head_dim = 32; }),
        make_case("qwen3moe_tied_ungrouped", [](auto & s) { set_experts(s, "qwen3moe"), s.tied = true, s.n_kv_heads = 4; }),
    };
}

}  // namespace pith::testing
