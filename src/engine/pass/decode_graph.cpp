// decode_graph.cpp - built around the cache's tensors, refilled for every token.
#include "engine/pass/decode_graph.h"

#include <algorithm>

#include "attention/bucket_attention.h"
#include "attention/lane_attention.h"
#include "attention/lane_rotation.h"
#include "device/gathered_reads.h"
#include "engine/pass/embedded.h"
#include "engine/pass/ranking.h"
#include "model/layer_graph.h"

namespace pith {
DecodeGraph::Wants DecodeGraph::wants_of(const BatchPart & part) {
    const EvidenceState & evidence = *part.evidence;
    return {evidence.wants_queries(), evidence.wants_running(), evidence.wants_moments(), evidence.wants_key_norms(),
            part.ranking};
}

namespace {

// From token to token the same sequences come in the same order: then nothing is allocated.
bool serves(const LaneBatch & batch, std::span<const BatchPart> parts) {
    return std::ranges::equal(batch.parts, parts, [](const LanePart & of_lanes, const BatchPart & part) {
        return of_lanes.cache == part.cache && of_lanes.seq == part.seq && of_lanes.owner == part.evidence &&
               of_lanes.n_behind == part.n_behind && of_lanes.n_together == part.n_together && part.ahead == nullptr;
    });
}

// Calls visit(whether its lanes share a mask) for every bucket of the parts, until it says no; whether it never did.
template <class Visit>
bool each_bucket(std::span<const BatchPart> parts, Visit visit) {
    for (const BatchPart & part : parts) {
        const RaggedCache & cache = *part.cache;
        for (int layer = 0; layer < cache.layout().n_layers(); ++layer) {
            if (!cache.in_buckets(layer)) { continue; }
            for (const LaneBucket & bucket : cache.buckets(layer)) {
                if (!visit(shares_mask(cache, layer, bucket))) { return false; }
            }
        }
    }
    return true;
}

}  // namespace

bool DecodeGraph::fits(std::span<const BatchPart> parts) const {
    if (wants_.size() != parts.size() || !runner_.may_run_again()) { return false; }
    const BatchPart & first = parts.front();
    const bool holds_tensors =
        parts.size() == 1 || std::ranges::any_of(parts, [](const BatchPart & part) { return part.cache->any_in_buckets(); });
    if (holds_tensors && (seq_ != first.seq || !std::ranges::equal(storages_, parts, {}, {}, storage_of))) { return false; }
    // Lanes that come back from a snapshot may be as long as each other where they were not, or the other way round.
    auto mask = shared_masks_.begin();
    if (!each_bucket(parts, [&](bool shared) { return mask != shared_masks_.end() && *mask++ == shared; })) { return false; }
    return std::ranges::equal(wants_, parts, {}, {}, [](const BatchPart & part) { return wants_of(part); });
}

Status DecodeGraph::build(std::span<const BatchPart> parts) {
    wants_.clear();
    const Hparams & hp = file_->hparams();
    const Weights & weights = file_->weights();
    const auto n_layers = static_cast<size_t>(hp.n_layers);
    const auto n_parts = parts.size();
    const auto n = static_cast<int64_t>(n_parts);
    std::vector<Wants> wants;
    size_t n_nodes = layer_nodes(hp) + LaneRotation::n_nodes(parts.front().cache->layout());  // of a layer
    for (const BatchPart & part : parts) {
        wants.push_back(wants_of(part));
        n_nodes += wants.back().moments || wants.back().key_norms ? 20 : 2;
        if (part.ranking != nullptr) { n_nodes += kRankingNodes; }
        if (part.cache->any_in_buckets()) { n_nodes += bucket_attention_nodes(hp.n_kv_heads); }
    }
    const auto n_floats = static_cast<size_t>(hp.recurrent.n_floats());
    if (n_floats > 0) { n_nodes += recurrent_nodes(n_parts); }
    if (file_->placement() != nullptr) { n_nodes += kGatherNodes; }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner_.begin(64 + n_layers * n_nodes));
    ++n_builds_;
    const bool any_queries = std::ranges::any_of(wants, &Wants::queries);
    queries_.resize(any_queries ? n_layers * n_parts * query_size() : 0);
    reads_ = std::vector<PartReads>(n_layers * n_parts);

    PassLayer::Watch watch;
    if (any_queries) {
        watch.queries = [&](int layer, ggml_tensor * q) {
            build->output(q, queries_.data() + static_cast<size_t>(layer) * n_parts * query_size());
        };
    }
    size_t at_state = 0;
    const auto states_of = [&](int) {
        std::vector<RecurrentPart> states;
        for (size_t i = 0; i < n_parts; ++i, at_state += n_floats) {
            states.push_back({1, states_.data() + at_state, next_states_.data() + at_state});
        }
        return states;
    };
    PassLayer pass_layer(*build, *file_, parts, batch_, std::move(watch), states_of);
    ggml_tensor * token_input = build->input(GGML_TYPE_I32, n, 1, static_cast<const int32_t *>(tokens_.data()));
    ggml_tensor * hidden = embedded(*build, *file_, tokens_.data(), token_input);
    ggml_tensor * positions = build->input(GGML_TYPE_I32, n, 1, static_cast<const int32_t *>(positions_.data()));
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        const auto reads = std::span(reads_).subspan(static_cast<size_t>(layer) * n_parts, n_parts);
        hidden = pass_layer.add(layer, hidden, positions, token_input, nullptr, reads);
    }
    ggml_tensor * of_all = build_head(build->ctx(), hp, weights, hidden, mul_mat_of(*build));
    build->output_rows(of_all, of_all->ne[0], [this](size_t part) { return logits_[part].data(); });
    wants_ = std::move(wants);
    storages_.clear();
    for (const BatchPart & part : parts) { storages_.push_back(storage_of(part)); }
    shared_masks_.clear();
    each_bucket(parts, [&](bool shared) {
        shared_masks_.push_back(shared);
        return true;
    });
    seq_ = parts.front().seq;
    return {};
}

size_t DecodeGraph::buffer_bytes() const {
    size_t n = runner_.buffer_bytes() + (queries_.capacity() + states_.capacity() + next_states_.capacity()) * sizeof(float);
    for (const PartReads & one : reads_) { n += one.size_bytes(); }
    return n;
}

// Copies them, and lets go of those that others share, so that writing what comes behind allocates nothing.
void DecodeGraph::read_states(std::span<const BatchPart> parts) {
    const Hparams & hp = file_->hparams();
    const auto n_recurrent = static_cast<size_t>(hp.n_recurrent_layers());
    const size_t n = n_recurrent * parts.size() * static_cast<size_t>(hp.recurrent.n_floats());
    if (states_.size() != n) {  // another number of parts: the graph is built anew
        states_.resize(n);
        next_states_.resize(n);
    }
    auto to = states_.begin();
    for (int layer = 0; n > 0 && layer < hp.n_layers; ++layer) {
        if (!hp.layer(layer).recurrent) { continue; }
        for (const BatchPart & part : parts) {
            to = std::ranges::copy(part.states->layer(layer), to).out;
            part.states->overwrite(layer);
        }
    }
}

void DecodeGraph::write_states(std::span<const BatchPart> parts) {
    const Hparams & hp = file_->hparams();
    const auto n = static_cast<size_t>(hp.recurrent.n_floats());
    std::span<const float> from = next_states_;
    for (int layer = 0; !from.empty() && layer < hp.n_layers; ++layer) {
        if (!hp.layer(layer).recurrent) { continue; }
        for (const BatchPart & part : parts) {
            std::ranges::copy(from.first(n), part.states->overwrite(layer).begin());
            from = from.subspan(n);
        }
    }
}

Status DecodeGraph::reserve(std::span<const BatchPart> parts) {
    const int n_layers = file_->hparams().n_layers;
    for (const BatchPart & part : parts) {
        // What is told of one part's token afterwards must not fail when another's has been told already. What runs ahead: the
        // first of its sequence has seen to it, here and below.
        if (parts.size() > 1 && part.ahead == nullptr) { part.evidence->prepare_token(*part.cache, part.seq); }
    }
    const bool together = parts.size() > 1 && parts.front().cache->any_in_buckets();  // nothing runs ahead there
    if (together && !std::ranges::equal(apart_, parts, {}, {}, storage_of)) { return bring_together(parts); }
    for (const BatchPart & part : parts) {
        for (int layer = 0; part.ahead == nullptr && layer < n_layers; ++layer) {
            PITH_RETURN_IF_ERROR(part.cache->reserve(part.seq, layer, part.n_together));
        }
    }
    return {};
}

Status DecodeGraph::bring_together(std::span<const BatchPart> parts) {
    std::vector<RaggedCache *> caches;
    for (const BatchPart & part : parts) { caches.push_back(part.cache); }
    PITH_ASSIGN_OR_RETURN(const bool together, RaggedCache::reserve_together(caches, 1));
    apart_.clear();
    for (const BatchPart & part : parts) {
        if (!together) { apart_.push_back(storage_of(part)); }
    }
    return {};
}

Status DecodeGraph::run(std::span<const BatchPart> parts, std::span<const int32_t> tokens,
                        std::span<const std::span<float>> logits) {
    const int n_layers = file_->hparams().n_layers;
    PITH_RETURN_IF_ERROR(reserve(parts));
    for (const BatchPart & part : parts) {
        for (int layer = 0; layer < n_layers; ++layer) {
            part.cache->append(part.seq, layer, std::span(&part.first_position, 1));
        }
    }

    read_states(parts);
    const bool rebuild = !fits(parts);
    if (!batch_) { batch_ = std::make_shared<LaneBatch>(); }
    if (rebuild || !serves(*batch_, parts)) { *batch_ = lane_batch(parts, /*sums=*/true); }
    tokens_.assign(tokens.begin(), tokens.end());
    positions_.clear();
    for (const BatchPart & part : parts) { positions_.push_back(part.first_position - part.cache->shift()); }
    if (rebuild) { PITH_RETURN_IF_ERROR(build(parts)); }
    logits_ = logits;
    for (size_t i = 0; i < reads_.size(); ++i) {
        reads_[i].moments.only_sinks = is_sink(parts[i % parts.size()].first_position);
    }
    if (const Status status = runner_.run(); !status.ok()) {
        wants_.clear();
        return status;
    }
    write_states(parts);
    return {};
}

}  // namespace pith
