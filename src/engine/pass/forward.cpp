// forward.cpp - one layer, and the output head.
#include "engine/pass/forward.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "attention/cpu/cpu_lane_attention.h"
#include "attention/lane_attention.h"
#include "attention/lane_rotation.h"
#include "core/items.h"
#include "core/stopwatch.h"
#include "device/device_work.h"
#include "device/gathered_reads.h"
#include "engine/pass/ahead_rows.h"
#include "engine/pass/embedded.h"
#include "engine/pass/pass_layer.h"
#include "engine/pass/ranking.h"
#include "engine/pass/recurrent_rows.h"
#include "model/layer_graph.h"

namespace pith {
namespace {

// Room for a layer's operations and what stands around it, and of every part its attention and what is read of its queries and
// keys: in ggml's operations up to a dozen for every lane that attends by itself.
size_t pass_nodes(const Hparams & hparams, size_t n_parts, bool custom_operations) {
    const size_t of_part = 40 + (custom_operations ? 0 : 16 * static_cast<size_t>(hparams.n_kv_heads));
    const size_t recurrent = hparams.n_recurrent_layers() > 0 ? recurrent_nodes(n_parts) : 0;
    return 128 + layer_nodes(hparams) + n_parts * of_part + recurrent;
}

// Floats [first, first + n) of a tensor: where they lie, or copied from a device to `copy`.
Result<std::span<const float>> floats_of(const ggml_tensor * tensor, size_t first, size_t n, std::vector<float> & copy) {
    if (n == 0) { return std::span<const float>(); }
    if (ggml_backend_buffer_is_host(buffer_of(tensor))) {
        return std::span<const float>(static_cast<const float *>(tensor->data) + first, n);
    }
    copy.resize(n);
    PITH_RETURN_IF_ERROR(read_tensor(tensor, copy.data(), first * sizeof(float), n * sizeof(float)));
    return std::span<const float>(copy);
}

}  // namespace

Forward::Forward(std::shared_ptr<const ModelFile> file, ggml_backend_t backend, std::vector<ggml_backend_t> devices)
    : file_(std::move(file)),
      backend_(backend),
      devices_(std::move(devices)),
      layer_runner_(backend, devices_),
      head_runner_(backend, devices_),
      observe_runner_(backend, devices_),
      there_runner_(backend, devices_) {}

// Whether the running sums are added to by a product of its own: the attention does not.
bool Forward::adds_running(const BatchPart & part, int layer) const {
    return part.evidence->wants_running() && !sums_columns(layer_runner_.custom_operations(), *part.cache, layer);
}

// Whether a part's evidence, or whoever looks on, reads its queries after the run.
bool Forward::observes(const BatchPart & part, int layer) const {
    return part.evidence->wants_queries() || adds_running(part, layer) || query_observer_;
}

Status Forward::run_layer(std::span<const BatchPart> parts, int layer, std::span<const int32_t> tokens, std::span<float> hidden,
                          std::span<const int32_t> kept_rows, const RowsThere & there) {
    const Hparams & hp = hparams();
    PITH_RETURN_IF_ERROR(check_rows(*file_, tokens));
    const int n = n_rows(parts);
    std::vector<int32_t> positions;
    for (const BatchPart & part : parts) {
        PITH_RETURN_IF_ERROR(part.cache->reserve(part.seq, layer, part.n));
        const size_t first = positions.size();
        positions.resize(first + static_cast<size_t>(part.n));
        std::iota(positions.begin() + static_cast<std::ptrdiff_t>(first), positions.end(), part.first_position);
        part.cache->append(part.seq, layer, std::span(positions).subspan(first));
        for (size_t i = first; i < positions.size(); ++i) { positions[i] -= part.cache->shift(); }  // as RoPE has them
    }

    const bool custom =
        sums_columns(layer_runner_.custom_operations(), *parts.front().cache, parts.front().cache->layout().source(layer));
    const bool governed = hp.governs(layer);  // nobody asks what the others' queries pay
    const bool sums = custom && governed;
    const size_t n_gathered = file_->placement() != nullptr ? kGatherNodes : 0;
    const size_t n_rotating = LaneRotation::n_nodes(parts.front().cache->layout());
    const auto n_ranking = kRankingNodes * static_cast<size_t>(std::ranges::count_if(
                                               parts, [](const BatchPart & part) { return part.ranking != nullptr; }));
    PITH_ASSIGN_OR_RETURN(GraphBuild * build,
                          layer_runner_.begin(pass_nodes(hp, parts.size(), custom) + n_gathered + n_rotating + n_ranking));
    const auto batch = std::make_shared<const LaneBatch>(lane_batch(parts, sums));
    for (const BatchPart & part : parts) {  // here, where memory that is not there is an error
        if (sums) { part.evidence->prepare_running(*part.cache, part.seq, layer); }
    }
    const bool observed = governed && std::ranges::any_of(parts, [&](const BatchPart & part) { return observes(part, layer); });
    ggml_tensor * queries = nullptr;  // read after the run, on the evidence's account
    std::vector<PartReads> reads(parts.size());
    PassLayer::Watch watch;
    if (observed) {
        watch.queries = [&](int, ggml_tensor * q) {
            queries = q;
            build->keep(q);
        };
    }
    if (tap_) {
        watch.outputs = [&](ggml_tensor * out) {
            tapped_.resize(static_cast<size_t>(out->ne[0]));
            ggml_tensor * newest = ggml_view_1d(build->ctx(), out, out->ne[0], static_cast<size_t>(n - 1) * out->nb[1]);
            build->output(ggml_cont(build->ctx(), newest), tapped_.data());
        };
    }
    if (input_observer_) {
        watch.inputs = [&](int, ggml_tensor * x) {
            inputs_.resize(static_cast<size_t>(ggml_nelements(x)));
            build->output(x, inputs_.data());
        };
    }
    const auto states_of = [&](int l) {
        std::vector<RecurrentPart> states;
        for (const BatchPart & part : parts) {
            const float * from = part.states->layer(l).data();  // which copies keep where it is overwritten
            states.push_back({part.n, from, part.states->overwrite(l).data()});
        }
        return states;
    };
    PassLayer pass_layer(*build, *file_, parts, batch, std::move(watch), states_of);
    ggml_tensor * token_input =
        layer == 0 || hp.n_embd_per_layer > 0 ? build->input(GGML_TYPE_I32, n, 1, tokens.data()) : nullptr;
    ggml_tensor * in = layer == 0   ? embedded(*build, *file_, tokens.data(), token_input)
                       : there.read ? there.rows->view(build->ctx(), there.first, n)
                                    : build->input(GGML_TYPE_F32, hp.n_embd, n, static_cast<const float *>(hidden.data()));
    const auto n_out = kept_rows.empty() ? n : static_cast<int>(kept_rows.size());
    ggml_tensor * keep = n_out < n ? build->input(GGML_TYPE_I32, n_out, 1, kept_rows.data()) : nullptr;
    ggml_tensor * position_input = build->input(GGML_TYPE_I32, n, 1, static_cast<const int32_t *>(positions.data()));
    ggml_tensor * out = pass_layer.add(layer, in, position_input, token_input, keep, reads);
    if (there.written) {  // behind all that reads these rows
        ggml_build_forward_expand(build->graph(),
                                  ggml_cpy(build->ctx(), out, there.rows->view(build->ctx(), there.first, n_out)));
    } else {
        build->output(out, hidden.data());
    }
    PITH_RETURN_IF_ERROR(layer_runner_.run());
    if (tap_ && hp.layer(layer).has_attention()) {
        const auto width = static_cast<size_t>(hp.n_embd);
        tap_(layer, tapped_, hidden.subspan(static_cast<size_t>(n_out - 1) * width, width));
    }

    if (governed && input_observer_) { PITH_RETURN_IF_ERROR(input_observer_(layer, inputs_, n, parts.front().first_position)); }

    for (size_t i = 0; governed && i < parts.size(); ++i) {
        tell_reads(parts[i], layer, reads[i]);
        if (observes(parts[i], layer)) { PITH_RETURN_IF_ERROR(observe(parts[i], layer, queries, batch->parts[i].first_row)); }
    }
    return {};
}

Status Forward::observe(const BatchPart & part, int layer, const ggml_tensor * queries, int first_row) {
    const Stopwatch watch;
    EvidenceState & evidence = *part.evidence;
    const size_t row = static_cast<size_t>(hparams().n_heads) * static_cast<size_t>(hparams().head_dim);
    const bool adds = adds_running(part, layer);
    // Only the newest, where no more will be asked for.
    const int n_read = query_observer_ || adds ? part.n : evidence.n_remembered(part.n, part.n_to_come);
    const int32_t first_read = part.first_position + (part.n - n_read);
    PITH_ASSIGN_OR_RETURN(const std::span<const float> read,
                          floats_of(queries, static_cast<size_t>(first_row + part.n - n_read) * row,
                                    static_cast<size_t>(n_read) * row, queries_));
    if (evidence.wants_queries()) { evidence.remember(layer, read.data(), n_read, first_read, part.n_to_come); }
    if (evidence.wants_blocks()) {
        PITH_RETURN_IF_ERROR(
            evidence.add_blocks(observe_runner_, *part.cache, part.seq, layer, read.data(), n_read, first_read));
    }
    if (adds) {
        PITH_RETURN_IF_ERROR(evidence.add_running(observe_runner_, *part.cache, part.seq, layer, read.data(), n_read,
                                                  first_read, part.hidden_keys));
    }
    evidence_s_ += watch.seconds();
    return query_observer_ ? query_observer_(layer, read, n_read, first_read) : Status();
}

bool Forward::can_run_tokens(const RaggedCache & cache, const EvidenceState & evidence) const {
    if (tap_ || query_observer_ || input_observer_) { return false; }
    const int n_layers = hparams().n_layers;
    for (int layer = 0; layer < n_layers; ++layer) {
        const int source = cache.layout().source(layer);
        const bool in_buckets = cache.in_buckets(source) && !evidence.wants_running();
        if (!in_buckets && !sums_columns(layer_runner_.custom_operations(), cache, source)) { return false; }
    }
    return true;
}

DecodeGraph & Forward::decode_graph_for(std::span<const BatchPart> parts) {
    const bool ahead = std::ranges::any_of(parts, [](const BatchPart & part) { return part.ahead != nullptr; });
    // One for each length of a single sequence's draft, which are powers of two.
    std::unique_ptr<DecodeGraph> & graph =
        decode_graphs_[ahead ? std::min<size_t>(std::bit_width(parts.size() - 1), kAheadGraphs) : 0];
    if (!graph) {
        graph = std::make_unique<DecodeGraph>(file_, backend_, devices_);
        graph->set_profile(profile_);
        graph->set_cancel(cancel());
    }
    return *graph;
}

Status Forward::run_tokens(std::span<const BatchPart> parts, std::span<const int32_t> tokens,
                           std::span<const std::span<float>> logits, std::span<Status> of_parts) {
    PITH_RETURN_IF_ERROR(check_rows(*file_, tokens));
    DecodeGraph & graph = decode_graph_for(parts);
    for (const BatchPart & part : parts) {  // here, where what fails leaves all as it was
        if (part.evidence->wants_blocks()) {
            PITH_RETURN_IF_ERROR(part.evidence->close_blocks(observe_runner_, *part.cache, part.seq));
        }
    }
    const auto run = [&] { return graph.run(parts, tokens, logits); };
    // Over devices, whether the graph that is kept may run again must not change before it does.
    PITH_RETURN_IF_ERROR(devices_.empty() ? run() : on_devices(run));
    for (size_t i = 0; i < parts.size(); ++i) {
        const BatchPart & part = parts[i];
        if (part.ahead != nullptr) {
            put_down(part, graph, i);
        } else if (part.n_behind > 0) {
            for (int layer = 0; layer < hparams().n_layers; ++layer) { part.cache->hide_last(part.seq, layer, part.n_behind); }
        }
    }
    for (size_t i = 0; i < logits.size(); ++i) {
        Status numbers = check_logits(logits[i]);
        if (numbers.ok()) { continue; }
        if (of_parts.empty()) { return numbers; }
        of_parts[i] = std::move(numbers);
    }

    for (size_t i = 0; i < parts.size(); ++i) {
        if (!of_parts.empty() && !of_parts[i].ok()) { continue; }
        const BatchPart & part = parts[i];
        if (part.ahead != nullptr) { continue; }
        EvidenceState & evidence = *part.evidence;
        const bool told = evidence.wants_queries() || evidence.wants_moments() || evidence.wants_key_norms();
        if (!told && part.ranking == nullptr) { continue; }
        const Stopwatch watch;
        for (int layer = 0; layer < hparams().n_layers; ++layer) {
            if (!hparams().governs(layer)) { continue; }
            tell_reads(part, layer, graph.reads(layer, i));
            if (evidence.wants_queries()) {
                evidence.remember(layer, graph.queries(layer, i), 1, part.first_position);
                if (evidence.wants_blocks()) { evidence.add_to_block(layer, graph.queries(layer, i), part.first_position); }
            }
        }
        evidence_s_ += watch.seconds();
    }
    return {};
}

// Of a row that ran ahead, part i of the run.
void Forward::put_down(const BatchPart & part, DecodeGraph & graph, size_t i) {
    AheadRow & row = *part.ahead;
    const EvidenceState & evidence = *part.evidence;
    const auto n_layers = static_cast<size_t>(hparams().n_layers);
    const size_t size = static_cast<size_t>(hparams().n_heads) * static_cast<size_t>(hparams().head_dim);
    row.queries.resize(evidence.wants_queries() ? n_layers * size : 0);
    row.reads.resize(n_layers);
    for (int layer = 0; layer < hparams().n_layers; ++layer) {
        if (!hparams().governs(layer)) { continue; }
        const auto l = static_cast<size_t>(layer);
        if (evidence.wants_queries()) { std::copy_n(graph.queries(layer, i), size, row.queries.data() + l * size); }
        if (evidence.wants_key_norms()) { row.reads[l].key_norms = graph.reads(layer, i).key_norms; }
    }
}

void Forward::set_profile(GraphProfile * profile) {
    profile_ = profile;
    layer_runner_.set_profile(profile);
    head_runner_.set_profile(profile);
    for (const auto & graph : decode_graphs_) {
        if (graph) { graph->set_profile(profile); }
    }
}

void Forward::set_cancel(const std::atomic<bool> * cancel) {
    for (GraphRunner * runner : all_runners(*this)) { runner->set_cancel(cancel); }
    for (const auto & graph : decode_graphs_) {
        if (graph) { graph->set_cancel(cancel); }
    }
}

void Forward::set_before_here(const std::function<void()> & wait) {
    for (GraphRunner * runner : {&layer_runner_, &observe_runner_}) { runner->set_before_here(wait); }
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
    return {ErrorCode::kInternal, "the model's output is not a number: its weights, or those of an adapter (" + item::kLora +
                                      ", " + item::kLoraScale + "), are damaged or too large"};
}

Status Forward::run_head(std::span<const float> hidden, int n, std::span<float> logits) {
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, head_runner_.begin(64));
    ggml_tensor * in = build->input(GGML_TYPE_F32, hparams().n_embd, n, hidden.data());
    build->output(build_head(build->ctx(), hparams(), file_->weights(), in, mul_mat_of(*build)), logits.data());
    return head_runner_.run();
}

Status Forward::project_heads(int layer, std::span<const float> attention, std::vector<float> & out) {
    const auto n_heads = static_cast<size_t>(hparams().n_heads);
    const size_t width = attention.size() / n_heads;
    std::vector<float> columns(n_heads * attention.size(), 0.0F);  // column g holds head g and zeros
    for (size_t g = 0; g < n_heads; ++g) {
        std::ranges::copy(attention.subspan(g * width, width), columns.data() + g * (attention.size() + width));
    }
    out.resize(n_heads * static_cast<size_t>(hparams().n_embd));
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, observe_runner_.begin(16));
    ggml_tensor * in = build->input(GGML_TYPE_F32, static_cast<int64_t>(attention.size()), static_cast<int64_t>(n_heads),
                                    static_cast<const float *>(columns.data()));
    build->output(build_output_projection(build->ctx(), file_->weights(), layer, in, mul_mat_of(*build)), out.data());
    return observe_runner_.run();
}

size_t Forward::device_bytes(size_t device) const {
    size_t n = 0;
    for (const GraphRunner * runner : all_runners(*this)) { n += runner->device_bytes(device); }
    for (const auto & graph : decode_graphs_) { n += graph ? graph->device_bytes(device) : 0; }
    return n;
}

void Forward::release_devices() {
    for (GraphRunner * runner : all_runners(*this)) { runner->release_devices(); }
}

size_t Forward::activation_bytes() const {
    size_t n = queries_.capacity() * sizeof(float);
    for (const GraphRunner * runner : all_runners(*this)) { n += runner->buffer_bytes(); }
    for (const auto & graph : decode_graphs_) { n += graph ? graph->buffer_bytes() : 0; }
    return n;
}

}  // namespace pith
