// cake_presets.h - the constants that CAKE's authors use for their models. Stage: allocate.
// Pure C++: no ggml, no I/O.   Threads: pure functions.
// Source: the authors' code (cakekv, experiments/LongBench/config/model2tau.json), caches of 128 and 1,024 entries.
#pragma once

#include <optional>
#include <string_view>

namespace pith {

struct CakeConstants {
    double tau1 = 1;
    double tau2 = 1;
};

// The presets' names, joined by '|', for the option.
inline constexpr std::string_view kCakePresets = "llama2-7b|llama2-13b|llama3.1-8b|mistral0.3-7b|qwen2.5-7b";

// Those of the cache size that is nearer to `budget` (mean entries a lane, protected ones included) by ratio: the authors give
// no others. Nothing: there is no preset of this name.
std::optional<CakeConstants> cake_constants(std::string_view preset, double budget);

// The preset whose model has this shape; empty: none has.
std::string_view cake_preset_for(std::string_view architecture, int n_layers, int n_embd, int n_kv_heads, int n_vocab);

}  // namespace pith
