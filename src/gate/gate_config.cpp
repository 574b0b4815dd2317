// gate_config.cpp - a gate's form: its words, and which forms are possible. Stage: gate.
#include "gate/gate_config.h"

#include <algorithm>
#include <cmath>

namespace pith {

float gate_probability(float logit, const GateConfig & config) {
    return 1.0F / (1.0F + std::exp(-(logit + config.gamma)));
}

bool gate_keeps(float logit, const GateConfig & config) {
    return gate_probability(logit, config) > config.tau;
}

std::vector<int> layers_with_gate(const GateConfig & config, const Hparams & hparams) {
    std::vector<int> all;
    for (int l = config.first_layer; l < hparams.n_layers; ++l) {
        // `layers` is empty when only the gates' file was read, not the model's: that file says how many layers the model has
        // and nothing about each. Then every layer counts.
        if (hparams.layers.empty() || hparams.governs(l)) { all.push_back(l); }
    }
    return all;
}

Status check(const GateConfig & c, const Hparams & hparams) {
    const auto bad = [](const std::string & what) { return Status(ErrorCode::kInvalidArgument, "gate: " + what); };
    if (!(c.tau > 0.0F && c.tau < 1.0F)) { return bad("tau is " + std::to_string(c.tau) + ": give a number between 0 and 1"); }
    if (!std::isfinite(c.gamma) || c.gamma < 0.0F) {
        return bad("gamma is " + std::to_string(c.gamma) + ": give a number of 0 or more");
    }
    if (c.kind == GateKind::kAttention && (c.n_heads < 1 || c.n_heads > 1024)) {
        return bad("heads is " + std::to_string(c.n_heads) + ": give 1 to 1024");
    }
    if (c.kind == GateKind::kAttention && (c.head_dim < 1 || c.head_dim > 1024)) {
        return bad("head size is " + std::to_string(c.head_dim) + ": give 1 to 1024");
    }
    if (c.purpose == GatePurpose::kRank && (c.kind == GateKind::kAttention || c.source != GateSource::kOwn)) {
        return bad("one that ranks must judge each token by itself, and read its own layer");
    }
    if (c.kind == GateKind::kMlp && c.purpose != GatePurpose::kRank) {
        return bad("one with a hidden layer only ranks: make it linear, or let it attend");
    }
    if (c.kind == GateKind::kMlp && (c.n_hidden < 1 || c.n_hidden > 1 << 16)) {
        return bad("hidden size is " + std::to_string(c.n_hidden) + ": give 1 to 65536");
    }
    if (c.n_recent < 1) {
        return bad("recent tokens is " + std::to_string(c.n_recent) + ": give 1 (a token's own key) or more");
    }
    if (std::ranges::any_of(hparams.layers, [](const LayerHparams & one) { return one.kv_source >= 0; })) {
        return {ErrorCode::kUnsupported, "gates: the model (" + hparams.arch_name +
                                             ") has layers that read another's keys, and gates are not made for these"};
    }
    const int lowest = c.source == GateSource::kPrevious ? 1 : 0;
    if (c.first_layer < lowest || c.first_layer >= hparams.n_layers) {
        return bad("first layer is " + std::to_string(c.first_layer) + ": give " + std::to_string(lowest) + " to " +
                   std::to_string(hparams.n_layers - 1) +
                   (lowest == 1 ? " (a gate that reads the layer before needs one)" : " (the model's layers count from 0)"));
    }
    if (layers_with_gate(c, hparams).empty()) {
        return bad("first layer is " + std::to_string(c.first_layer) + ", and of the model's " +
                   std::to_string(hparams.n_layers) + " layers policies govern none from there on");
    }
    return {};
}

std::string_view to_string(GateKind kind) {
    return kind == GateKind::kAttention ? "attention" : kind == GateKind::kLinear ? "linear" : "mlp";
}
std::string_view to_string(GateSource source) {
    return source == GateSource::kOwn ? "own" : "previous";
}
std::string_view to_string(GatePurpose purpose) {
    return purpose == GatePurpose::kThreshold ? "threshold" : "rank";
}

Result<GateKind> parse_gate_kind(std::string_view text) {
    for (const GateKind kind : {GateKind::kAttention, GateKind::kLinear, GateKind::kMlp}) {
        if (text == to_string(kind)) { return kind; }
    }
    return {ErrorCode::kInvalidArgument, "a gate is 'attention' or 'linear', not '" + std::string(text) + "'"};
}
Result<GateSource> parse_gate_source(std::string_view text) {
    for (const GateSource source : {GateSource::kOwn, GateSource::kPrevious}) {
        if (text == to_string(source)) { return source; }
    }
    return {ErrorCode::kInvalidArgument, "a gate reads its 'own' or the 'previous' layer, not '" + std::string(text) + "'"};
}

Result<GatePurpose> parse_gate_purpose(std::string_view text) {
    for (const GatePurpose purpose : {GatePurpose::kThreshold, GatePurpose::kRank}) {
        if (text == to_string(purpose)) { return purpose; }
    }
    return {ErrorCode::kInvalidArgument, "a gate is for a 'threshold' or to 'rank', not '" + std::string(text) + "'"};
}

}  // namespace pith
