// inspect_gates.cpp - one gated prefill, watched. Stage: inspect.
#include "inspect/inspect_gates.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/text.h"
#include "engine/gate_probe.h"
#include "engine/parts/model_parts.h"

namespace pith {
namespace {

Status check_attention(const GateConfig & config, const Hparams & hparams, int layer, size_t n_tokens) {
    if (layer < 0) { return {}; }
    const std::string what = "the gate's attention of layer " + std::to_string(layer);
    if (config.kind != GateKind::kAttention) {
        return {ErrorCode::kInvalidArgument, what + " was asked for, but these gates are linear: they have none"};
    }
    const std::vector<int> gated = layers_with_gate(config, hparams);
    if (!std::ranges::binary_search(gated, layer)) {
        return {ErrorCode::kInvalidArgument, what + " was asked for: layers " + list_of_numbers(gated) + " have a gate"};
    }
    if (n_tokens > static_cast<size_t>(kMostMappedTokens)) {
        return {ErrorCode::kInvalidArgument, what + " over " + std::to_string(n_tokens) + " tokens is too large a map: give " +
                                                 std::to_string(kMostMappedTokens) + " tokens at most"};
    }
    return {};
}

}  // namespace

double GateInspection::kept_share(int layer, int kv_head) const {
    int n = 0;
    for (int token = 0; token < n_tokens(); ++token) { n += keeps(layer, token, kv_head) ? 1 : 0; }
    return static_cast<double>(n) / n_tokens();
}

double GateInspection::mean_probability(int layer, int kv_head) const {
    double sum = 0;
    for (int token = 0; token < n_tokens(); ++token) { sum += static_cast<double>(probability_at(layer, token, kv_head)); }
    return sum / n_tokens();
}

double GateInspection::token_share(int token) const {
    int n = 0;
    for (int layer = 0; layer < n_layers; ++layer) {
        for (int h = 0; h < n_kv_heads; ++h) { n += keeps(layer, token, h) ? 1 : 0; }
    }
    return static_cast<double>(n) / (n_layers * n_kv_heads);
}

double GateInspection::retention() const {
    double sum = 0;
    int n = 0;
    for (int layer = 0; layer < n_layers; ++layer) {
        for (int h = 0; has_gate(layer) && h < n_kv_heads; ++h, ++n) { sum += kept_share(layer, h); }
    }
    return sum / n;
}

Result<GateInspection> inspect_gates(const Model & model, std::span<const int32_t> tokens,
                                     const InspectGatesOptions & options) {
    const auto gate = gate_of(model);
    if (!gate) {
        return {ErrorCode::kInvalidArgument, "the model has no gates to inspect: give --gate FILE, made by `pith train gate`"};
    }
    if (tokens.empty()) { return {ErrorCode::kInvalidArgument, "there is no text to inspect"}; }
    const Hparams & hparams = file_of(model).hparams();
    PITH_RETURN_IF_ERROR(check_attention(gate->config(), hparams, options.attention_layer, tokens.size()));
    SessionOptions session_options = options.session;
    session_options.policy = "gated";
    session_options.budget = Budget();
    PITH_ASSIGN_OR_RETURN(Session session, model.session(session_options));
    GateProbe probe(session);
    PITH_RETURN_IF_ERROR(probe.watch(options.attention_layer));
    PITH_RETURN_IF_ERROR(session.prefill(tokens, options.hooks));

    GateInspection out;
    out.config = gate->config();
    out.tokens.assign(tokens.begin(), tokens.end());
    out.layer_numbers = hparams.governed_layers();
    out.n_layers = static_cast<int>(out.layer_numbers.size());
    out.n_kv_heads = model.info().n_kv_heads;
    const size_t of_layer = tokens.size() * static_cast<size_t>(out.n_kv_heads);
    out.probability.assign(out.layer_numbers.size() * of_layer, 1.0F);
    for (const GateLayerView & view : probe.layers()) {
        if (view.probability.size() != of_layer) {
            return {ErrorCode::kInternal, "the gate of layer " + std::to_string(view.layer) + " spoke of " +
                                              std::to_string(view.n_tokens) + " tokens of " + std::to_string(tokens.size())};
        }
        const auto at =
            static_cast<size_t>(std::ranges::lower_bound(out.layer_numbers, view.layer) - out.layer_numbers.begin());
        std::ranges::copy(view.probability, out.probability.begin() + static_cast<ptrdiff_t>(at * of_layer));
    }
    out.attention_layer = options.attention_layer;
    out.attention = probe.attention_map();
    return out;
}

}  // namespace pith
