// forward.cpp - one layer, and the output head.
#include "engine/forward.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "attention/cpu/cpu_lane_attention.h"
#include "attention/lane_attention.h"
#include "core/stopwatch.h"
#include "evidence/key_norms.h"
#include "model/layer_graph.h"

namespace pith {
namespace {

// Room for a layer's operations: the fixed part, experts, and up to a dozen for every lane that attends by itself.
size_t layer_nodes(const Hparams & hparams) {
    return 256 + 16 * static_cast<size_t>(hparams.n_kv_heads);
}

// Floats [first, first + n) of a tensor: where they lie, or copied from a device to `copy`.
std::span<const float> floats_of(const ggml_tensor * tensor, size_t first, size_t n, std::vector<float> & copy) {
    const ggml_backend_buffer_t buffer = tensor->view_src != nullptr ? tensor->view_src->buffer : tensor->buffer;
    if (ggml_backend_buffer_is_host(buffer)) { return {static_cast<const float *>(tensor->data) + first, n}; }
    copy.resize(n);
    ggml_backend_tensor_get(tensor, copy.data(), first * sizeof(float), n * sizeof(float));
    return copy;
}

}  // namespace

Forward::Forward(std::shared_ptr<const ModelFile> file, ggml_backend_t backend)
    : file_(std::move(file)), backend_(backend), layer_runner_(backend), head_runner_(backend), observe_runner_(backend) {}

Status Forward::run_layer(RaggedCache & cache, EvidenceState & evidence, int seq, int layer, std::span<const int32_t> tokens,
                          std::span<float> hidden, int n, int32_t first_position, int n_out, int n_to_come,
                          const HiddenKeys * hidden_keys) {
    const Hparams & hp = hparams();
    PITH_RETURN_IF_ERROR(cache.reserve(seq, layer, n));
    std::vector<int32_t> positions(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), first_position);
    cache.append(seq, layer, positions);

    PITH_ASSIGN_OR_RETURN(GraphBuild * build, layer_runner_.begin(layer_nodes(hp)));
    ColumnSums sums;
    if (evidence.wants_running() && sums_columns(build->custom_operations(), cache)) {
        sums = running_sums(cache, evidence, seq, layer);
        for (int head = 0; head < hp.n_heads; ++head) {
            sums(head);
        }  // they grow here, where memory that is not there is an error
    }
    const bool adds_running = evidence.wants_running() && !sums;
    const bool observes = evidence.wants_queries() || adds_running || query_observer_;
    ggml_tensor * queries = nullptr;  // read after the run, on the evidence's account
    QueryMoments moments;
    std::vector<float> norms;  // of the keys, [n][K]
    const RopeTap tap = [&](ggml_tensor * q, ggml_tensor * k) {
        if (evidence.wants_moments()) { build_query_moments(*build, q, first_position, moments); }
        if (evidence.wants_key_norms()) { build_key_norms(*build, k, norms); }
    };
    const AttentionFn attention = [&](ggml_context *, ggml_cgraph *, int l, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
        if (observes) {
            queries = q;
            ggml_set_output(q);
            ggml_build_forward_expand(build->graph(), q);
        }
        ggml_tensor * out = build_lane_attention(*build, cache, seq, l, q, k, v, sums, hidden_keys);
        if (tap_) {
            tapped_.resize(static_cast<size_t>(out->ne[0]));
            ggml_tensor * newest = ggml_view_1d(build->ctx(), out, out->ne[0], static_cast<size_t>(n - 1) * out->nb[1]);
            build->output(ggml_cont(build->ctx(), newest), tapped_.data());
        }
        return out;
    };
    ggml_tensor * in = layer == 0
                           ? build_embedding(build->ctx(), file_->weights(), build->input(GGML_TYPE_I32, n, 1, tokens.data()))
                           : build->input(GGML_TYPE_F32, hp.n_embd, n, static_cast<const float *>(hidden.data()));
    std::vector<int32_t> rows(static_cast<size_t>(n_out));
    std::iota(rows.begin(), rows.end(), n - n_out);
    ggml_tensor * keep = n_out < n ? build->input(GGML_TYPE_I32, n_out, 1, static_cast<const int32_t *>(rows.data())) : nullptr;
    ggml_tensor * position_input = build->input(GGML_TYPE_I32, n, 1, static_cast<const int32_t *>(positions.data()));
    build->output(
        build_layer(build->ctx(), build->graph(), hp, file_->weights(), layer, in, position_input, attention, keep, tap),
        hidden.data());
    PITH_RETURN_IF_ERROR(layer_runner_.run());
    if (tap_) {
        const auto width = static_cast<size_t>(hp.n_embd);
        tap_(layer, tapped_, hidden.subspan(static_cast<size_t>(n_out - 1) * width, width));
    }

    if (evidence.wants_moments()) { evidence.add_moments(layer, moments); }
    if (evidence.wants_key_norms()) { evidence.add_key_norms(cache, seq, layer, norms); }
    if (!observes) { return {}; }
    return observe(cache, evidence, seq, layer, queries, n, first_position, n_to_come, adds_running, hidden_keys);
}

Status Forward::observe(const RaggedCache & cache, EvidenceState & evidence, int seq, int layer, const ggml_tensor * queries,
                        int n, int32_t first_position, int n_to_come, bool adds_running, const HiddenKeys * hidden_keys) {
    const Stopwatch watch;
    const size_t row = static_cast<size_t>(hparams().n_heads) * static_cast<size_t>(hparams().head_dim);
    // Only the newest, where no more will be asked for.
    const int n_read = query_observer_ || adds_running ? n : evidence.n_remembered(n, n_to_come);
    const int32_t first_read = first_position + (n - n_read);
    const std::span<const float> read =
        floats_of(queries, static_cast<size_t>(n - n_read) * row, static_cast<size_t>(n_read) * row, queries_);
    if (evidence.wants_queries()) { evidence.remember(layer, read.data(), n_read, first_read, n_to_come); }
    if (adds_running) {
        PITH_RETURN_IF_ERROR(
            evidence.add_running(observe_runner_, cache, seq, layer, read.data(), n_read, first_read, hidden_keys));
    }
    evidence_s_ += watch.seconds();
    return query_observer_ ? query_observer_(layer, read, n_read, first_read) : Status();
}

bool Forward::can_run_token(const RaggedCache & cache) const {
    return sums_columns(layer_runner_.custom_operations(), cache) && !tap_ && !query_observer_;
}

Status Forward::run_token(RaggedCache & cache, EvidenceState & evidence, int seq, int32_t token, int32_t position,
                          std::span<float> logits) {
    const auto index = static_cast<size_t>(seq);
    if (decode_graphs_.size() <= index) { decode_graphs_.resize(index + 1); }
    auto & graph = decode_graphs_[index];
    if (!graph) {
        graph = std::make_unique<DecodeGraph>(file_, backend_);
        graph->set_profile(profile_);
    }
    PITH_RETURN_IF_ERROR(graph->run(cache, evidence, seq, token, position, logits));
    PITH_RETURN_IF_ERROR(check_logits(logits));

    if (!evidence.wants_queries() && !evidence.wants_moments() && !evidence.wants_key_norms()) { return {}; }
    const Stopwatch watch;
    for (int layer = 0; layer < hparams().n_layers; ++layer) {
        if (evidence.wants_key_norms()) { evidence.add_key_norms(cache, seq, layer, graph->key_norms(layer)); }
        if (evidence.wants_moments()) { evidence.add_moments(layer, graph->moments(layer)); }
        if (evidence.wants_queries()) { evidence.remember(layer, graph->queries(layer), 1, position); }
    }
    evidence_s_ += watch.seconds();
    return {};
}

void Forward::set_profile(GraphProfile * profile) {
    profile_ = profile;
    layer_runner_.set_profile(profile);
    head_runner_.set_profile(profile);
    for (const auto & graph : decode_graphs_) {
        if (graph) { graph->set_profile(profile); }
    }
}

int64_t Forward::n_decode_graphs_built() const {
    int64_t n = 0;
    for (const auto & graph : decode_graphs_) { n += graph ? graph->n_builds() : 0; }
    return n;
}

Status check_logits(std::span<const float> logits) {
    int n_wrong = 0;  // counted to the end: without a way out the loop runs in vectors
    for (const float logit : logits) { n_wrong += logit < std::numeric_limits<float>::infinity() ? 0 : 1; }
    if (n_wrong == 0) { return {}; }
    return {
        ErrorCode::kInternal,
        "the model's output is not a number: its weights, or those of an adapter (--lora, --lora-scale), are damaged or too "
        "large"};
}

Status Forward::run_head(std::span<const float> hidden, int n, std::span<float> logits) {
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, head_runner_.begin(64));
    ggml_tensor * in = build->input(GGML_TYPE_F32, hparams().n_embd, n, hidden.data());
    build->output(build_head(build->ctx(), hparams(), file_->weights(), in), logits.data());
    return head_runner_.run();
}

Status Forward::project_heads(int layer, std::span<const float> attention, std::vector<float> & out) {
    const auto n_heads = static_cast<size_t>(hparams().n_heads);
    const auto width = static_cast<size_t>(hparams().head_dim_v);
    std::vector<float> columns(n_heads * attention.size(), 0.0F);  // column g holds head g and zeros
    for (size_t g = 0; g < n_heads; ++g) {
        std::ranges::copy(attention.subspan(g * width, width), columns.data() + g * (attention.size() + width));
    }
    out.resize(n_heads * static_cast<size_t>(hparams().n_embd));
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, observe_runner_.begin(16));
    ggml_tensor * in = build->input(GGML_TYPE_F32, static_cast<int64_t>(attention.size()), static_cast<int64_t>(n_heads),
                                    static_cast<const float *>(columns.data()));
    build->output(build_output_projection(build->ctx(), file_->weights(), layer, in), out.data());
    return observe_runner_.run();
}

size_t Forward::activation_bytes() const {
    size_t decode = 0;
    for (const auto & graph : decode_graphs_) { decode += graph ? graph->buffer_bytes() : 0; }
    return decode + layer_runner_.buffer_bytes() + head_runner_.buffer_bytes() + observe_runner_.buffer_bytes() +
           queries_.capacity() * sizeof(float);
}

}  // namespace pith
