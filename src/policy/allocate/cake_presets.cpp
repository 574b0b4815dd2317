// cake_presets.cpp - the table of cake_presets.h.
#include "policy/allocate/cake_presets.h"

namespace pith {
namespace {

constexpr double kSmallSize = 128;
constexpr double kLargeSize = 1024;

struct Preset {
    std::string_view name;
    CakeConstants small, large;  // at 128 and at 1,024 entries
    // The model's shape, as its GGUF says it.
    std::string_view architecture;
    int n_layers, n_embd, n_kv_heads, n_vocab;
};

constexpr Preset kPresets[] = {
    {"llama2-7b", {0.9, 2.3}, {1.9, 1.8}, "llama", 32, 4096, 32, 32000},
    {"llama2-13b", {1.8, 2.0}, {0.5, 0.4}, "llama", 40, 5120, 40, 32000},
    {"llama3.1-8b", {1.6, 0.6}, {1.6, 0.4}, "llama", 32, 4096, 8, 128256},
    {"mistral0.3-7b", {1.0, 0.8}, {0.8, 0.5}, "llama", 32, 4096, 8, 32768},
    {"qwen2.5-7b", {0.4, 0.6}, {1.5, 0.6}, "qwen2", 28, 3584, 4, 152064},
};

}  // namespace

std::optional<CakeConstants> cake_constants(std::string_view preset, double budget) {
    for (const Preset & row : kPresets) {
        if (row.name == preset) { return budget * budget < kSmallSize * kLargeSize ? row.small : row.large; }
    }
    return std::nullopt;
}

std::string_view cake_preset_for(std::string_view architecture, int n_layers, int n_embd, int n_kv_heads, int n_vocab) {
    for (const Preset & row : kPresets) {
        if (row.architecture == architecture && row.n_layers == n_layers && row.n_embd == n_embd &&
            row.n_kv_heads == n_kv_heads && row.n_vocab == n_vocab) {
            return row.name;
        }
    }
    return {};
}

}  // namespace pith
