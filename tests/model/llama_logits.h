// llama_logits.h - libllama's logits of every position, in f32: flash attention off, f32 K and V. The reference of parity
// tests.
#pragma once

#include <llama.h>

#include <algorithm>
#include <cmath>

#include <cstdint>
#include <string>
#include <vector>

#include "device/backend.h"

namespace pith::testing {

// Logits [n_tokens][n_vocab]. All tokens in one batch, or one at a time. Empty when libllama refuses. adapter: a LoRA's path,
// and what it counts. n_at_once: tokens of one batch; 0: all.
// One thread by default: these models are tiny, and ggml's waiting threads starve other tests that ctest runs beside.
inline std::vector<float> llama_logits(const std::string & path, const std::vector<int32_t> & tokens,
                                       bool one_at_a_time = false, int n_threads = 1, const std::string & adapter = "",
                                       float scale = 1.0F, int n_at_once = 0) {
    if (!load_backends().ok()) { return {}; }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    llama_model * model = llama_model_load_from_file(path.c_str(), model_params);
    if (model == nullptr) { return {}; }

    const int n = static_cast<int>(tokens.size());
    const int widest = n_at_once > 0 ? n_at_once : n;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(n);
    params.n_batch = params.n_ubatch = static_cast<uint32_t>(widest);
    params.n_threads = params.n_threads_batch = n_threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = params.type_v = GGML_TYPE_F32;
    llama_context * context = llama_init_from_model(model, params);
    std::vector<float> result;
    bool ready = context != nullptr;
    if (ready && !adapter.empty()) {
        llama_adapter_lora * lora = llama_adapter_lora_init(model, adapter.c_str());  // freed with the model
        ready = lora != nullptr && llama_set_adapters_lora(context, &lora, 1, &scale) == 0;
    }
    if (ready) {
        const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
        const int most = one_at_a_time ? 1 : widest;
        llama_batch batch = llama_batch_init(most, 0, 1);
        for (int begin = 0; begin < n; begin += most) {
            const int step = std::min(most, n - begin);
            batch.n_tokens = step;
            for (int i = 0; i < step; ++i) {
                batch.token[i] = tokens[static_cast<size_t>(begin + i)];
                batch.pos[i] = begin + i;
                batch.n_seq_id[i] = 1;
                batch.seq_id[i][0] = 0;
                batch.logits[i] = 1;
            }
            if (llama_decode(context, batch) != 0) {
                result.clear();
                break;
            }
            for (int i = 0; i < step; ++i) {
                const float * row = llama_get_logits_ith(context, i);
                result.insert(result.end(), row, row + n_vocab);
            }
        }
        llama_batch_free(batch);
    }
    if (context != nullptr) { llama_free(context); }
    llama_model_free(model);
    return result;
}

// How far two sets of logits are apart, over all positions, in units of the range (max − min) of the reference's row.
struct LogitDifference {
    double max_relative = 0.0;
    int n_router_ties = 0;     // positions left out
    int n_far = 0;             // positions that differ by more than `tie` of the range
    int n_argmax_changed = 0;  // where the reference's best two differ by more than `tie` of the range
};

// Positions whose router margin is below this are left out: another rounding chooses another expert.
inline constexpr float kRouterTie = 1e-4F;

inline LogitDifference compare_logits(const std::vector<float> & got, const std::vector<float> & reference, int n_vocab,
                                      double tie = 2e-3, const std::vector<float> & router_margins = {}) {
    LogitDifference difference;
    const size_t width = static_cast<size_t>(n_vocab);
    for (size_t begin = 0; begin + width <= reference.size(); begin += width) {
        if (begin / width < router_margins.size() && router_margins[begin / width] < kRouterTie) {
            ++difference.n_router_ties;
            continue;
        }
        size_t best = begin;
        size_t best_got = begin;
        float low = reference[begin];
        float second = -INFINITY;
        for (size_t i = begin; i < begin + width; ++i) {
            if (reference[i] > reference[best]) { best = i; }
            if (got[i] > got[best_got]) { best_got = i; }
            low = std::min(low, reference[i]);
        }
        const double range = static_cast<double>(reference[best]) - low;
        double furthest = 0.0;
        for (size_t i = begin; i < begin + width; ++i) {
            if (i != best) { second = std::max(second, reference[i]); }
            const double delta = std::abs(static_cast<double>(got[i]) - reference[i]);
            furthest = std::max(furthest, std::isfinite(delta) ? delta / range : INFINITY);
        }
        difference.max_relative = std::max(difference.max_relative, furthest);
        if (furthest > tie) { ++difference.n_far; }
        if (best != best_got && reference[best] - second > tie * range) { ++difference.n_argmax_changed; }
    }
    return difference;
}

}  // namespace pith::testing
