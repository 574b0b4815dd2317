// inspect_gates.cpp - one gated prefill, watched. Stage: inspect.
#include "inspect/inspect_gates.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/gate_probe.h"
#include "engine/model_parts.h"

namespace pith {
namespace {

Status check_attention(const GateConfig & config, int layer, int n_layers, size_t n_tokens) {
    if (layer < 0) { return {}; }
    const std::string what = "the gate's attention of layer " + std::to_string(layer);
    if (config.kind == GateKind::kLinear) {
        return {ErrorCode::kInvalidArgument, what + " was asked for, but these gates are linear: they have none"};
    }
    if (layer >= n_layers || !config.has_gate(layer)) {
        return {ErrorCode::kInvalidArgument, what + " was asked for: layers " + std::to_string(config.first_layer) + " to " +
                                                 std::to_string(n_layers - 1) + " have a gate"};
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
    for (int layer = config.first_layer; layer < n_layers; ++layer) {
        for (int h = 0; h < n_kv_heads; ++h, ++n) { sum += kept_share(layer, h); }
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
    const int n_layers = model.info().n_layers;
    PITH_RETURN_IF_ERROR(check_attention(gate->config(), options.attention_layer, n_layers, tokens.size()));
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
    out.n_layers = n_layers;
    out.n_kv_heads = model.info().n_kv_heads;
    const size_t of_layer = tokens.size() * static_cast<size_t>(out.n_kv_heads);
    out.probability.assign(static_cast<size_t>(n_layers) * of_layer, 1.0F);
    for (const GateLayerView & view : probe.layers()) {
        if (view.probability.size() != of_layer) {
            return {ErrorCode::kInternal, "the gate of layer " + std::to_string(view.layer) + " spoke of " +
                                              std::to_string(view.n_tokens) + " tokens of " + std::to_string(tokens.size())};
        }
        std::ranges::copy(view.probability, out.probability.begin() + static_cast<ptrdiff_t>(view.layer * of_layer));
    }
    out.attention_layer = options.attention_layer;
    out.attention = probe.attention_map();
    return out;
}

}  // namespace pith
