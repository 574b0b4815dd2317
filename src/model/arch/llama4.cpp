// llama4.cpp - Llama 4: chunks of 8,192 in three layers of four, which alone rotate; queries of the others grow with their
// position. Experts, chosen by a sigmoid that weighs what goes in, in some layers. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

// What no key says.
constexpr int kLlama4Chunk = 8192;
constexpr int kLlama4Period = 4;
constexpr float kLlama4Temperature = 0.1F;
constexpr int kExpertsWithoutQkNorm = 128;  // Maverick

// A sliding_window of 0 means that all layers rotate and see everything, and that no query grows.
Status read_llama4(const KeyReader & keys, Hparams & hp) {
    int chunk = kLlama4Chunk;
    int period = kLlama4Period;
    int step = 0;
    float chunk_base = 0.0F;
    PITH_RETURN_IF_ERROR(keys.integer("attention.sliding_window", 0, 1 << 30, chunk, false));
    const bool has_chunks = chunk > 0;
    PITH_RETURN_IF_ERROR(keys.integer("attention.sliding_window_pattern", 0, 1 << 16, period, false));
    if (has_chunks && period != kLlama4Period) {
        return keys.unsupported("attention.sliding_window_pattern",
                                "is " + std::to_string(period) + ": Llama 4 is run with chunks in three layers of four");
    }
    PITH_RETURN_IF_ERROR(keys.real("rope.freq_base_swa", 1e-6F, chunk_base));
    PITH_RETURN_IF_ERROR(keys.integer("interleave_moe_layer_step", 1, 1 << 16, step));
    if (has_chunks) {
        hp.query_temperature = kLlama4Temperature;
        hp.query_temperature_length = kLlama4Chunk;
        hp.query_temperature_offset = 1;
    }
    hp.norm_expert_weights = false;
    hp.n_ff_shared = hp.n_ff_expert;
    if (hp.n_experts == kExpertsWithoutQkNorm) { hp.form.qk_norm = QkNorm::kNone; }
    for (size_t l = 0; l < hp.layers.size(); ++l) {
        LayerHparams & layer = hp.layers[l];
        layer.has_experts = (l + 1) % static_cast<size_t>(step) == 0;
        if (!layer.has_experts) { hp.n_ff = layer.n_ff; }
        if (!has_chunks) { continue; }
        const bool sees_all = l % kLlama4Period == kLlama4Period - 1;
        layer.window = sees_all ? 0 : kLlama4Chunk;
        layer.rope_base = sees_all ? 0.0F : chunk_base;
        layer.chunked = !sees_all;
        layer.rotates = !sees_all;
        layer.heats = sees_all;
    }
    return {};
}

}  // namespace

Architecture llama4_architecture() {
    return {"llama4",
            {.qk_norm = QkNorm::kPlainRotated, .experts = Experts::kAlways, .router = Router::kSigmoid, .weighs_inputs = true},
            read_llama4};
}

}  // namespace pith
