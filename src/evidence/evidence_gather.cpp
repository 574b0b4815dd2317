// evidence_gather.cpp - the evidence made of what a state has kept, and of the cache as it stands.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/hadamard.h"
#include "device/cpu_threads.h"
#include "device/device_work.h"
#include "evidence/block_attention.h"
#include "evidence/entry_norms.h"
#include "evidence/evidence_state.h"
#include "evidence/group_outputs.h"
#include "evidence/key_leverage.h"
#include "evidence/lane_tiles.h"
#include "evidence/lane_values.h"
#include "evidence/observe.h"
#include "evidence/output_norms.h"
#include "evidence/pooled_rows.h"

namespace pith {
namespace {

// rows [H · n], head-major, n queries each  →  [K · n_head_pairs]: Σ over the queries of the products of two heads' rows.
Ragged<float> pairs_of_heads(const Ragged<float> & rows, const CacheShape & shape, int n) {
    Ragged<float> pairs;
    std::vector<float> sums;
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        for (int g = 0; g < shape.n_group; ++g) {
            for (int other = g; other < shape.n_group; ++other) {
                sums.assign(rows.row(h * shape.n_group * n).size(), 0.0F);
                for (int i = 0; i < n; ++i) {
                    const auto a = rows.row((h * shape.n_group + g) * n + i);
                    const auto b = rows.row((h * shape.n_group + other) * n + i);
                    for (size_t j = 0; j < sums.size(); ++j) { sums[j] += a[j] * b[j]; }
                }
                pairs.push_row(sums);
            }
        }
    }
    return pairs;
}

ObserveWants wants_of_newest(const EvidenceNeeds & needs) {
    return {.column_sum = needs.window_mean,
            .group_sq = needs.window_sq,
            .column_max = needs.window_max && needs.window_max_pool == 0,
            .last = needs.last_query,
            .head_sq = needs.window_head_sq,
            .entropy = needs.window_entropy,
            .rows = needs.window_pairs || needs.window_rows};
}

Status not_made_for(const char * what) {
    return {ErrorCode::kMissingEvidence,
            std::string("this session did not keep what ") + what + " needs: name the policy when the session is made"};
}

}  // namespace

Status EvidenceState::gather_key_norms(const From & from, LayerEvidence & evidence) const {
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
        const auto of_lane = layers_[static_cast<size_t>(from.layer)].key_norms[static_cast<size_t>(h)].values();
        const auto length = static_cast<size_t>(evidence.length(h));
        if (of_lane.size() < length || std::ranges::any_of(of_lane, [](float x) { return std::isnan(x); })) {
            return not_made_for("norms of keys");
        }
        evidence.key_norm.push_row(of_lane.first(length));
    }
    return {};
}

Status EvidenceState::gather_reread(const From & from, LayerEvidence & evidence) const {
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto of_head = layers_[static_cast<size_t>(from.layer)].reread[static_cast<size_t>(head)].values();
        const auto length = static_cast<size_t>(evidence.length(head / shape_.n_group));
        if (of_head.size() < length) { return not_made_for("a second reading"); }
        evidence.reread_max.push_row(of_head.first(length));
    }
    return {};
}

// What full blocks were told, and behind it the block that is not full, as if it ended here.
Status EvidenceState::gather_blocks(const From & from, LayerEvidence & evidence) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    const auto n_open = static_cast<int>(layer.block.size());
    const int32_t begin = n_open > 0 ? layer.block.positions().front() : std::numeric_limits<int32_t>::max();
    Ragged<float> open(std::vector<int>(static_cast<size_t>(shape_.n_heads()), 0));
    if (n_open > 0) {
        const std::vector<float> queries = layer.block.newest(layer.block.size());
        PITH_RETURN_IF_ERROR(
            block_attention(from.runner, from.cache, from.seq, from.layer, queries.data(), n_open, begin, open));
    }
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto positions = evidence.positions.row(head / shape_.n_group);
        std::vector<float> row = closed_sums(layer.block_sums[static_cast<size_t>(head)].values(), positions, begin);
        row.insert(row.end(), open.row(head).begin(), open.row(head).end());
        if (row.size() != positions.size() || std::ranges::any_of(row, [](float x) { return std::isnan(x); })) {
            return not_made_for("attention within blocks");
        }
        evidence.block_attention.push_row(row);
    }
    return {};
}

Status EvidenceState::gather_leverage(const From & from, LayerEvidence & evidence) const {
    if (output_ == nullptr) { return not_made_for("leverage of keys"); }
    return key_leverages(from.runner, output_->factors.model(), from.cache, from.seq, from.layer, evidence.key_leverage);
}

Result<LayerEvidence> EvidenceState::gather(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, int64_t n_seen,
                                            const EvidenceNeeds & needs, Observed * seen) const {
    LayerEvidence evidence;
    evidence.layer = layer;
    evidence.n_kv_heads = shape_.n_kv_heads;
    evidence.n_group = shape_.n_group;
    evidence.n_seen = n_seen;
    for (int h = 0; h < shape_.n_kv_heads; ++h) { evidence.positions.push_row(cache.positions(cache.lane(seq, layer, h))); }
    const From from{runner, cache, seq, layer, n_seen, seen};
    PITH_RETURN_IF_ERROR(gather_attention(from, needs, evidence));
    PITH_RETURN_IF_ERROR(gather_profile(from, needs, evidence));
    if (needs.key_norm) { PITH_RETURN_IF_ERROR(gather_key_norms(from, evidence)); }
    if (needs.key_cosine) { PITH_RETURN_IF_ERROR(key_cosines(runner, cache, seq, layer, evidence.key_cosine)); }
    if (needs.retention) {
        if (!merged_.retention) { return not_made_for("retention probabilities"); }
        for (int h = 0; h < shape_.n_kv_heads; ++h) {
            const auto said = layers_[static_cast<size_t>(layer)].retention[static_cast<size_t>(h)].values();
            std::vector<float> row(said.begin(), said.end());
            row.resize(static_cast<size_t>(evidence.length(h)), 1.0F);
            evidence.retention.push_row(row);
        }
    }
    if (needs.reread_max) { PITH_RETURN_IF_ERROR(gather_reread(from, evidence)); }
    if (needs.block_attention) { PITH_RETURN_IF_ERROR(gather_blocks(from, evidence)); }
    if (needs.key_leverage) { PITH_RETURN_IF_ERROR(gather_leverage(from, evidence)); }
    PITH_RETURN_IF_ERROR(gather_expected(from, needs, evidence));
    PITH_RETURN_IF_ERROR(gather_values(from, needs, evidence));
    return evidence;
}

int EvidenceState::n_to_observe(int layer, const EvidenceNeeds & needs) const {
    const auto n_kept = static_cast<int>(layers_[static_cast<size_t>(layer)].queries.size());
    return std::min(n_kept, needs.any_window() ? std::max(needs.window, 1) : 1);
}

bool EvidenceState::newest_queries(int layer, const EvidenceNeeds & needs, std::vector<float> & queries,
                                   std::span<const int32_t> & positions, ObserveWants & wants) const {
    if (!needs.any_window() && !needs.last_query) { return false; }
    if (std::max(needs.window, 1) > n_kept_queries_ && !keeps_all_) { return false; }
    const auto n = static_cast<size_t>(n_to_observe(layer, needs));
    if (n == 0) { return false; }
    const KeptQueries & kept = layers_[static_cast<size_t>(layer)].queries;
    queries = kept.newest(n);
    positions = kept.positions().last(n);
    wants = wants_of_newest(needs);
    return true;
}

// The newest n of the kept queries.
Status EvidenceState::observe_newest(const From & from, int n, const ObserveWants & wants, Observed & out) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    const std::vector<float> queries = layer.queries.newest(static_cast<size_t>(n));
    return observe_queries(from.runner, from.cache, from.seq, from.layer, queries.data(),
                           layer.queries.positions().last(static_cast<size_t>(n)), wants, out);
}

Status EvidenceState::gather_attention(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    const auto n_kept = static_cast<int>(layer.queries.size());
    if (needs.any_window() || needs.last_query) {
        if (std::max(needs.window, 1) > n_kept_queries_ && !keeps_all_) {
            return not_made_for("attention of the last queries");
        }
        const int n = n_to_observe(from.layer, needs);
        if (n == 0) { return {ErrorCode::kMissingEvidence, "no query has been seen yet"}; }
        Observed observed;
        if (from.seen != nullptr) {
            observed = std::move(*from.seen);
        } else {
            PITH_RETURN_IF_ERROR(observe_newest(from, n, wants_of_newest(needs), observed));
        }
        for (float & value : observed.column_sum.flat()) { value /= static_cast<float>(n); }
        evidence.n_window = n;
        evidence.window_mean = std::move(observed.column_sum);
        evidence.window_max = std::move(observed.column_max);
        if (needs.window_max && needs.window_max_pool > 0) {
            PITH_RETURN_IF_ERROR(gather_pooled_max(from, n, needs.window_max_pool, evidence));
        }
        evidence.window_sq = std::move(observed.group_sq);
        evidence.window_head_sq = std::move(observed.head_sq);
        if (needs.window_pairs) { evidence.window_pairs = pairs_of_heads(observed.rows, shape_, n); }
        evidence.window_entropy = std::move(observed.entropy);
        if (needs.window_queries) {
            evidence.window_queries = layer.queries.newest(static_cast<size_t>(n));
            const CacheLayout & layout = from.cache.layout();  // kept queries lie as the lanes' keys do
            if (layout.rotates_k()) { rotate_hadamard(evidence.window_queries, hadamard_block(layout.shape.head_dim)); }
        }
        if (needs.window_rows) { evidence.window_rows = std::move(observed.rows); }
        evidence.last_query = std::move(observed.last);
    }
    if (needs.running_sum && needs.running_last > 0) {
        if (needs.running_last > n_kept_queries_ && !keeps_all_) { return not_made_for("the sum over the last queries"); }
        const int n = std::min(n_kept, needs.running_last);
        if (n == 0) { return {ErrorCode::kMissingEvidence, "no query has been seen yet"}; }
        Observed observed;
        PITH_RETURN_IF_ERROR(observe_newest(from, n, {.column_sum = true}, observed));
        evidence.running_sum = std::move(observed.column_sum);
    } else if (needs.running_sum) {
        if (!wants_running_) { return not_made_for("the sum over all queries"); }
        for (const SharedRow & sums : layer.running) { evidence.running_sum.push_row(sums.values()); }
    }
    return {};
}

// Some rows at a time: a window of many questions' tokens would take a lane's length of each at once.
Status EvidenceState::gather_pooled_max(const From & from, int n, int width, LayerEvidence & evidence) const {
    constexpr size_t kRowsAtATime = 32;
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    const std::vector<float> queries = layer.queries.newest(static_cast<size_t>(n));
    const auto positions = layer.queries.positions().last(static_cast<size_t>(n));
    const size_t of_query = queries.size() / positions.size();
    std::vector<int> lengths;
    for (int head = 0; head < shape_.n_heads(); ++head) { lengths.push_back(evidence.length(head / shape_.n_group)); }
    evidence.window_max = Ragged<float>(lengths);
    std::vector<float> scratch;
    for (size_t begin = 0; begin < positions.size(); begin += kRowsAtATime) {
        const size_t n_now = std::min(kRowsAtATime, positions.size() - begin);
        Observed observed;
        PITH_RETURN_IF_ERROR(observe_queries(from.runner, from.cache, from.seq, from.layer, queries.data() + begin * of_query,
                                             positions.subspan(begin, n_now), {.rows = true}, observed));
        for (int head = 0; head < shape_.n_heads(); ++head) {
            const auto lane = evidence.positions.row(head / shape_.n_group);
            const auto n_past = static_cast<int>(std::ranges::lower_bound(lane, positions.front()) - lane.begin());
            scratch.resize(lane.size());
            for (size_t i = 0; i < n_now; ++i) {
                const auto row = observed.rows.row(head * static_cast<int>(n_now) + static_cast<int>(i));
                take_pooled_row(row, n_past, width, evidence.window_max.row(head), scratch);
            }
        }
    }
    return {};
}

// The queries whose positions the newest ones attend to most, the newest `margin` themselves left out while there are others.
Status EvidenceState::choose_by_window(const From & from, const EvidenceNeeds & needs, std::vector<float> & queries,
                                       std::vector<int32_t> & positions) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    const auto n_kept = static_cast<int>(layer.queries.size());
    const int window = std::min(n_kept, std::max(needs.window > 0 ? needs.window : needs.profile.margin, 1));
    Observed observed;
    PITH_RETURN_IF_ERROR(observe_newest(from, window, {.column_sum = true}, observed));

    const int32_t oldest = layer.queries.positions().front();  // kept positions are consecutive
    std::vector<double> attention(static_cast<size_t>(n_kept), 0.0);
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto lane = from.cache.positions(from.cache.lane(from.seq, from.layer, head / shape_.n_group));
        const auto sums = observed.column_sum.row(head);
        for (size_t j = 0; j < lane.size(); ++j) {
            if (lane[j] >= oldest) { attention[static_cast<size_t>(lane[j] - oldest)] += sums[j]; }
        }
    }
    const int n_before = n_kept - needs.profile.margin;
    std::vector<int> order(static_cast<size_t>(n_before > 0 ? n_before : n_kept));
    for (size_t i = 0; i < order.size(); ++i) { order[i] = static_cast<int>(i); }
    std::ranges::sort(order, [&](int a, int b) {
        const double of_a = attention[static_cast<size_t>(a)];
        const double of_b = attention[static_cast<size_t>(b)];
        return of_a != of_b ? of_a > of_b : a > b;
    });
    order.resize(std::min(order.size(), static_cast<size_t>(needs.profile.n_queries)));
    std::ranges::sort(order);
    for (const int i : order) {
        const auto query = layer.queries.row(static_cast<size_t>(i));
        queries.insert(queries.end(), query.begin(), query.end());
        positions.push_back(oldest + i);
    }
    return {};
}

Status EvidenceState::choose_queries(const From & from, const EvidenceNeeds & needs, std::vector<float> & queries,
                                     std::vector<int32_t> & positions) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    if (layer.queries.empty()) { return {ErrorCode::kMissingEvidence, "no query has been seen yet"}; }
    const ProfileNeeds & profile = needs.profile;
    if (profile.sample == QuerySample::kTopWindow) {
        if (!keeps_all_) { return not_made_for("a head profile"); }
        return choose_by_window(from, needs, queries, positions);
    }
    const auto sampler =
        std::ranges::find_if(layer.samplers, [&](const auto & other) { return same_sample(profile, other.needs()); });
    if (sampler == layer.samplers.end() || sampler->needs().n_queries < profile.n_queries) {
        return not_made_for("a head profile");
    }
    sampler->take(profile.n_queries, queries, positions);
    if (!positions.empty()) { return {}; }
    // None is eligible yet: the newest ones there are.
    const auto n_kept = static_cast<int>(layer.queries.size());
    const int n = std::min({n_kept, profile.n_queries, std::max(profile.margin, 1)});
    queries = layer.queries.newest(static_cast<size_t>(n));
    const auto newest = layer.queries.positions().last(static_cast<size_t>(n));
    positions.assign(newest.begin(), newest.end());
    return {};
}

Status EvidenceState::gather_profile(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const {
    if (!needs.profile.any()) { return {}; }
    std::vector<float> queries;
    std::vector<int32_t> positions;
    PITH_RETURN_IF_ERROR(choose_queries(from, needs, queries, positions));
    Observed observed;
    PITH_RETURN_IF_ERROR(observe_queries(from.runner, from.cache, from.seq, from.layer, queries.data(), positions,
                                         {.profile = needs.profile.distance, .rows = needs.profile.wants_rows()}, observed));
    evidence.n_sampled = static_cast<int>(positions.size());
    evidence.profile = std::move(observed.profile);
    evidence.sampled_rows = std::move(observed.rows);
    return {};
}

Status EvidenceState::gather_expected(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const {
    if (needs.expected_future == 0) { return {}; }
    if (!wants_moments_ || output_ == nullptr) { return not_made_for("expected attention"); }
    const KeptMoments & moments = layers_[static_cast<size_t>(from.layer)].moments;
    if (moments.n == 0) { return {ErrorCode::kMissingEvidence, "no query has been seen yet"}; }
    const ModelFile & model = output_->factors.model();
    const Hparams & hp = model.hparams();
    MeanRotation & rotation = rotations_[hp.layer(from.layer).rotates ? 1 : 0];
    const int64_t next = from.n_seen - from.cache.shift();
    if (rotation.first != next || rotation.future != needs.expected_future) {
        PITH_RETURN_IF_ERROR(make_mean_rotation(from.runner, model, from.layer, next, needs.expected_future, rotation));
    }
    std::vector<float> weight;
    if (hp.form.qk_norm == QkNorm::kPerHeadRotated) {
        const ggml_tensor * norm = model.weights().layers[static_cast<size_t>(from.layer)].q_norm;
        weight.resize(static_cast<size_t>(norm->ne[0]));
        PITH_RETURN_IF_ERROR(read_tensor(norm, weight.data(), 0, ggml_nbytes(norm)));
    }
    return expected_exponents(from.runner, from.cache, from.seq, from.layer, moments, rotation, weight, evidence.expected);
}

Status EvidenceState::gather_values(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const {
    auto & [runner, cache, seq, layer, n_seen, seen] = from;
    if (needs.value_l1) { PITH_RETURN_IF_ERROR(value_norms(runner, cache, seq, layer, EntryNorm::kL1, evidence.value_l1)); }
    if (needs.value_l2) { PITH_RETURN_IF_ERROR(value_norms(runner, cache, seq, layer, EntryNorm::kL2, evidence.value_l2)); }
    const bool wants_groups = needs.output_pairs || needs.output_errors;
    if ((needs.output_l1 || needs.output_l2 || wants_groups) && output_ == nullptr) {
        return not_made_for("the output projection");
    }
    if (needs.output_l1) { PITH_RETURN_IF_ERROR(gather_output_l1(from, evidence.output_l1)); }
    if (needs.output_l2) {
        PITH_ASSIGN_OR_RETURN(const std::span<const float> factor, output_->factors.factor(layer, tasks_on(runner)));
        PITH_RETURN_IF_ERROR(output_l2_norms(runner, cache, seq, layer, factor, evidence.output_l2));
    }
    std::span<const float> group_factor;
    if (wants_groups) { PITH_ASSIGN_OR_RETURN(group_factor, output_->factors.group_factor(layer, tasks_on(runner))); }
    if (needs.output_pairs) {
        PITH_RETURN_IF_ERROR(output_pairs(runner, cache, seq, layer, group_factor, evidence.output_pairs));
    }
    if (needs.window_rows || needs.window_queries || needs.key_rows || needs.value_rows) {
        evidence.head_dim = shape_.head_dim;
        evidence.head_dim_v = cache.layout().head_dim_v;
    }
    if (needs.key_rows) { PITH_RETURN_IF_ERROR(rows_of_lanes(runner, cache, cache.k(layer), seq, layer, evidence.key_rows)); }
    if (needs.value_rows) {
        PITH_RETURN_IF_ERROR(rows_of_lanes(runner, cache, cache.v(layer), seq, layer, evidence.value_rows));
    }
    if (needs.values) { evidence.values = std::make_shared<LaneValues>(runner, cache, seq, layer, group_factor); }
    return {};
}

Status EvidenceState::gather_output_l1(const From & from, Ragged<float> & out) const {
    auto & [runner, cache, seq, layer, n_seen, seen] = from;
    auto & carried = layers_[static_cast<size_t>(layer)].output_l1;
    if (carried->empty()) { carried.own().resize(static_cast<size_t>(shape_.n_heads())); }
    out = Ragged<float>(lane_lengths(cache, seq, layer, shape_.n_group));
    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    std::vector<int> begin = lengths;  // [K] how many entries every head of the lane knows
    for (int head = 0; head < shape_.n_heads(); ++head) {
        if ((*carried)[static_cast<size_t>(head)].size() > out.row(head).size()) {  // a lane cut back since
            carried.own()[static_cast<size_t>(head)].resize(out.row(head).size());
        }
        const auto & known = (*carried)[static_cast<size_t>(head)];
        std::ranges::copy(known, out.row(head).begin());
        int & first = begin[static_cast<size_t>(head / shape_.n_group)];
        first = std::min(first, static_cast<int>(known.size()));
    }
    if (begin == lengths) { return {}; }
    if (has_byte_norms(runner, cache, layer)) {
        PITH_ASSIGN_OR_RETURN(const auto projection,
                              output_->projections.layer(runner, layer, shape_.n_heads(), cache.layout().head_dim_v));
        PITH_RETURN_IF_ERROR(output_l1_norms(runner, cache, seq, layer, *projection, best_byte_unit(), out, begin));
    } else {
        PITH_ASSIGN_OR_RETURN(const OutputProjection projection, effective_projection(output_->factors.model(), layer));
        PITH_RETURN_IF_ERROR(output_l1_norms(runner, cache, seq, layer, projection, out, begin));
    }
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto row = out.row(head);
        carried.own()[static_cast<size_t>(head)].assign(row.begin(), row.end());
    }
    return {};
}

}  // namespace pith
