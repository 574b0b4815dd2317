// evidence_state.cpp - kept queries, running sums and moments, and the evidence made of them.
#include "attention/evidence_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "attention/entry_norms.h"
#include "attention/group_outputs.h"
#include "attention/lane_tiles.h"
#include "attention/lane_values.h"
#include "attention/observe.h"
#include "attention/output_norms.h"

namespace pith {
namespace {

// A sample of one serves the other when it has at least as many queries.
bool same_sample(const ProfileNeeds & a, const ProfileNeeds & b) {
    return a.margin == b.margin && a.seed == b.seed && a.sample == b.sample;
}

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

Status not_made_for(const char * what) {
    return {ErrorCode::kMissingEvidence,
            std::string("this session did not keep what ") + what + " needs: name the policy when the session is made"};
}

}  // namespace

EvidenceState::EvidenceState(const CacheShape & shape, const EvidenceNeeds & needs, std::shared_ptr<OutputFactors> model)
    : EvidenceState(shape, std::vector<EvidenceNeeds>{needs}, std::move(model)) {}

EvidenceState::EvidenceState(const CacheShape & shape, std::vector<EvidenceNeeds> needs, std::shared_ptr<OutputFactors> model)
    : shape_(shape), needs_(std::move(needs)), model_(std::move(model)) {
    if (model_ != nullptr) { projections_ = std::make_shared<ByteProjections>(model_); }
    const auto keep = [&](int n) { n_kept_queries_ = std::max(n_kept_queries_, n); };
    for (const EvidenceNeeds & one : needs_) {
        merged_ = merged_.merged(one);
        if (one.any_window()) { keep(one.window); }
        if (one.last_query) { keep(1); }
        if (one.running_sum && one.running_last > 0) { keep(one.running_last); }
        wants_running_ = wants_running_ || (one.running_sum && one.running_last == 0);
        wants_moments_ = wants_moments_ || one.expected_future > 0;
        if (!one.profile.any()) { continue; }
        keep(one.profile.margin);
        if (one.profile.sample == QuerySample::kTopWindow) {
            keep(std::max(one.window, 1));
            keeps_all_ = true;
            continue;
        }
        const auto known = std::ranges::find_if(samplers_, [&](const auto & other) { return same_sample(one.profile, other); });
        if (known == samplers_.end()) {
            samplers_.push_back(one.profile);
        } else {
            known->n_queries = std::max(known->n_queries, one.profile.n_queries);
        }
    }
    reset();
}

bool EvidenceState::covers(const EvidenceNeeds & needs) const {
    const auto kept = [&](int n) { return keeps_all_ || n <= n_kept_queries_; };
    const auto sampled = [&](const ProfileNeeds & profile) {
        return std::ranges::any_of(samplers_, [&](const ProfileNeeds & other) {
            return same_sample(profile, other) && profile.n_queries <= other.n_queries;
        });
    };
    if (needs.any_window() && !kept(needs.window)) { return false; }
    if (needs.last_query && !kept(1)) { return false; }
    if (needs.running_sum && (needs.running_last > 0 ? !kept(needs.running_last) : !wants_running_)) { return false; }
    if (needs.retention && !merged_.retention) { return false; }
    if (needs.key_norm && !merged_.key_norm) { return false; }
    if (needs.expected_future > 0 && (!wants_moments_ || model_ == nullptr)) { return false; }
    const bool behind_output = needs.output_l1 || needs.output_l2 || needs.output_pairs || needs.output_errors;
    if (behind_output && model_ == nullptr) { return false; }
    if (!needs.profile.any()) { return true; }
    return needs.profile.sample == QuerySample::kTopWindow ? keeps_all_ : sampled(needs.profile);
}

void EvidenceState::reset() {
    layers_.assign(static_cast<size_t>(shape_.n_layers), Layer{});
    for (Layer & layer : layers_) {
        layer.running.resize(static_cast<size_t>(shape_.n_heads()));
        layer.retention.resize(static_cast<size_t>(shape_.n_kv_heads));
        layer.output_l1.resize(static_cast<size_t>(shape_.n_heads()));
        layer.key_norms.resize(static_cast<size_t>(shape_.n_kv_heads));
        for (const ProfileNeeds & profile : samplers_) { layer.samplers.emplace_back(profile, query_size()); }
    }
}

// Offers the queries that become eligible, with those to come: from the kept ones, or from the new ones.
void EvidenceState::sample(Layer & layer, const float * queries, int n, int32_t first_position, int n_to_come) const {
    const size_t row = query_size();
    const auto n_old = static_cast<int32_t>(layer.query_positions.size());
    for (QuerySampler & sampler : layer.samplers) {
        const int64_t n_seen = int64_t{first_position} + n;
        if (n_to_come > 0) { sampler.expect(n_seen + n_to_come); }
        const auto end = static_cast<int32_t>(std::min(n_seen, sampler.end_of_eligible(n_seen + n_to_come)));
        for (int32_t position = sampler.next(); position < end; ++position) {
            const int32_t back = first_position - position;  // 1: the newest of the kept ones
            const float * query = back <= 0 ? queries + static_cast<size_t>(-back) * row
                                            : layer.queries.data() + static_cast<size_t>(n_old - back) * row;
            sampler.offer(position, query);
        }
    }
}

void EvidenceState::drop_oldest(Layer & layer, int n_keep) const {
    const int n_drop = static_cast<int>(layer.query_positions.size()) - n_keep;
    if (n_drop <= 0) { return; }
    const auto n_floats = static_cast<int64_t>(static_cast<size_t>(n_drop) * query_size());
    layer.queries.erase(layer.queries.begin(), layer.queries.begin() + n_floats);
    layer.query_positions.erase(layer.query_positions.begin(), layer.query_positions.begin() + n_drop);
}

void EvidenceState::remember(int layer_index, const float * queries, int n, int32_t first_position, int n_to_come) {
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    sample(layer, queries, n, first_position, n_to_come);
    const int n_new = n_newest(n, n_to_come);
    if (n_new < n) {  // they push out all older ones
        drop_oldest(layer, 0);
    } else if (!keeps_all_ && static_cast<int>(layer.query_positions.size()) + n_new > 2 * n_kept_queries_) {
        // Many at a time: moving the others for every decoded token would cost more.
        drop_oldest(layer, n_kept_queries_ - n_new);
    }
    const size_t row = query_size();
    layer.queries.insert(layer.queries.end(), queries + static_cast<size_t>(n - n_new) * row,
                         queries + static_cast<size_t>(n) * row);
    for (int i = n - n_new; i < n; ++i) { layer.query_positions.push_back(first_position + i); }
}

float * EvidenceState::running(int layer, int head, int length) {
    auto & sums = layers_[static_cast<size_t>(layer)].running[static_cast<size_t>(head)];
    sums.resize(static_cast<size_t>(length), 0.0F);  // a lane cut back or grown since
    return sums.data();
}

Status EvidenceState::add_running(GraphRunner & runner, const RaggedCache & cache, int seq, int layer_index,
                                  const float * queries, int n, int32_t first_position, const HiddenKeys * hidden) {
    std::vector<int32_t> positions(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) { positions[static_cast<size_t>(i)] = first_position + i; }
    Observed observed;
    PITH_RETURN_IF_ERROR(
        observe_queries(runner, cache, seq, layer_index, queries, positions, {.column_sum = true}, observed, hidden));
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto sums = observed.column_sum.row(head);
        float * to = running(layer_index, head, static_cast<int>(sums.size()));
        for (size_t j = 0; j < sums.size(); ++j) { to[j] += sums[j]; }
    }
    return {};
}

void EvidenceState::add_retention(int layer, std::span<const float> probabilities, std::span<const int> lengths) {
    const size_t n_kv = lengths.size();
    const size_t n = probabilities.size() / n_kv;
    for (size_t h = 0; h < n_kv; ++h) {
        auto & retention = layers_[static_cast<size_t>(layer)].retention[h];
        retention.resize(static_cast<size_t>(lengths[h]) - n, 1.0F);  // a lane cut back or grown since
        for (size_t t = 0; t < n; ++t) { retention.push_back(probabilities[t * n_kv + h]); }
    }
}

void EvidenceState::add_key_norms(const RaggedCache & cache, int seq, int layer, std::span<const float> norms) {
    const auto n_kv = static_cast<size_t>(shape_.n_kv_heads);
    const size_t n = norms.size() / n_kv;
    for (size_t h = 0; h < n_kv; ++h) {
        auto & of_lane = layers_[static_cast<size_t>(layer)].key_norms[h];
        const auto length = static_cast<size_t>(cache.length(cache.lane(seq, layer, static_cast<int>(h))));
        // A lane cut back since has lost its newest; one that grew unseen has norms that nobody knows.
        of_lane.resize(length - n, std::numeric_limits<float>::quiet_NaN());
        for (size_t t = 0; t < n; ++t) { of_lane.push_back(norms[t * n_kv + h]); }
    }
}

Status EvidenceState::gather_key_norms(const From & from, LayerEvidence & evidence) const {
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
        const auto & of_lane = layers_[static_cast<size_t>(from.layer)].key_norms[static_cast<size_t>(h)];
        const auto length = static_cast<size_t>(evidence.length(h));
        if (of_lane.size() < length || std::ranges::any_of(of_lane, [](float x) { return std::isnan(x); })) {
            return not_made_for("norms of keys");
        }
        evidence.key_norm.push_row(std::span(of_lane).first(length));
    }
    return {};
}

Result<LayerEvidence> EvidenceState::gather(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, int64_t n_seen,
                                            const EvidenceNeeds & needs) const {
    LayerEvidence evidence;
    evidence.layer = layer;
    evidence.n_kv_heads = shape_.n_kv_heads;
    evidence.n_group = shape_.n_group;
    evidence.n_seen = n_seen;
    for (int h = 0; h < shape_.n_kv_heads; ++h) { evidence.positions.push_row(cache.positions(cache.lane(seq, layer, h))); }
    const From from{runner, cache, seq, layer, n_seen};
    PITH_RETURN_IF_ERROR(gather_attention(from, needs, evidence));
    PITH_RETURN_IF_ERROR(gather_profile(from, needs, evidence));
    if (needs.key_norm) { PITH_RETURN_IF_ERROR(gather_key_norms(from, evidence)); }
    if (needs.key_cosine) { PITH_RETURN_IF_ERROR(key_cosines(runner, cache, seq, layer, evidence.key_cosine)); }
    if (needs.retention) {
        if (!merged_.retention) { return not_made_for("retention probabilities"); }
        for (int h = 0; h < shape_.n_kv_heads; ++h) {
            std::vector<float> row = layers_[static_cast<size_t>(layer)].retention[static_cast<size_t>(h)];
            row.resize(static_cast<size_t>(evidence.length(h)), 1.0F);
            evidence.retention.push_row(row);
        }
    }
    PITH_RETURN_IF_ERROR(gather_expected(from, needs, evidence));
    PITH_RETURN_IF_ERROR(gather_values(from, needs, evidence));
    return evidence;
}

// The newest n of the kept queries.
Status EvidenceState::observe_newest(const From & from, int n, const ObserveWants & wants, Observed & out) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    const auto first = layer.query_positions.size() - static_cast<size_t>(n);
    return observe_queries(from.runner, from.cache, from.seq, from.layer, layer.queries.data() + first * query_size(),
                           std::span(layer.query_positions).subspan(first), wants, out);
}

Status EvidenceState::gather_attention(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    const auto n_kept = static_cast<int>(layer.query_positions.size());
    if (needs.any_window() || needs.last_query) {
        if (std::max(needs.window, 1) > n_kept_queries_ && !keeps_all_) {
            return not_made_for("attention of the last queries");
        }
        const int n = std::min(n_kept, needs.any_window() ? std::max(needs.window, 1) : 1);
        if (n == 0) { return {ErrorCode::kMissingEvidence, "no query has been seen yet"}; }
        Observed observed;
        PITH_RETURN_IF_ERROR(observe_newest(from, n,
                                            {.column_sum = needs.window_mean,
                                             .group_sq = needs.window_sq,
                                             .last = needs.last_query,
                                             .head_sq = needs.window_head_sq,
                                             .entropy = needs.window_entropy,
                                             .rows = needs.window_pairs},
                                            observed));
        for (float & value : observed.column_sum.flat()) { value /= static_cast<float>(n); }
        evidence.n_window = n;
        evidence.window_mean = std::move(observed.column_sum);
        evidence.window_sq = std::move(observed.group_sq);
        evidence.window_head_sq = std::move(observed.head_sq);
        if (needs.window_pairs) { evidence.window_pairs = pairs_of_heads(observed.rows, shape_, n); }
        evidence.window_entropy = std::move(observed.entropy);
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
        for (const auto & running : layer.running) { evidence.running_sum.push_row(running); }
    }
    return {};
}

// The queries whose positions the newest ones attend to most, the newest `margin` themselves left out while there are others.
Status EvidenceState::choose_by_window(const From & from, const EvidenceNeeds & needs, std::vector<float> & queries,
                                       std::vector<int32_t> & positions) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    const auto n_kept = static_cast<int>(layer.query_positions.size());
    const int window = std::min(n_kept, std::max(needs.window > 0 ? needs.window : needs.profile.margin, 1));
    Observed observed;
    PITH_RETURN_IF_ERROR(observe_newest(from, window, {.column_sum = true}, observed));

    const int32_t oldest = layer.query_positions.front();  // kept positions are consecutive
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
        const auto query = layer.queries.begin() + static_cast<int64_t>(static_cast<size_t>(i) * query_size());
        queries.insert(queries.end(), query, query + static_cast<int64_t>(query_size()));
        positions.push_back(oldest + i);
    }
    return {};
}

Status EvidenceState::choose_queries(const From & from, const EvidenceNeeds & needs, std::vector<float> & queries,
                                     std::vector<int32_t> & positions) const {
    const Layer & layer = layers_[static_cast<size_t>(from.layer)];
    if (layer.query_positions.empty()) { return {ErrorCode::kMissingEvidence, "no query has been seen yet"}; }
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
    const auto n_kept = static_cast<int>(layer.query_positions.size());
    const int n = std::min({n_kept, profile.n_queries, std::max(profile.margin, 1)});
    queries.assign(layer.queries.end() - static_cast<int64_t>(static_cast<size_t>(n) * query_size()), layer.queries.end());
    positions.assign(layer.query_positions.end() - n, layer.query_positions.end());
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
    if (!wants_moments_ || model_ == nullptr) { return not_made_for("expected attention"); }
    const QueryMoments & moments = layers_[static_cast<size_t>(from.layer)].moments;
    if (moments.n == 0) { return {ErrorCode::kMissingEvidence, "no query has been seen yet"}; }
    if (rotation_.first != from.n_seen || rotation_.future != needs.expected_future) {
        PITH_RETURN_IF_ERROR(make_mean_rotation(from.runner, model_->model(), from.n_seen, needs.expected_future, rotation_));
    }
    return expected_exponents(from.runner, from.cache, from.seq, from.layer, moments, rotation_, evidence.expected);
}

Status EvidenceState::gather_values(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const {
    auto & [runner, cache, seq, layer, n_seen] = from;
    if (needs.value_l1) { PITH_RETURN_IF_ERROR(value_norms(runner, cache, seq, layer, EntryNorm::kL1, evidence.value_l1)); }
    if (needs.value_l2) { PITH_RETURN_IF_ERROR(value_norms(runner, cache, seq, layer, EntryNorm::kL2, evidence.value_l2)); }
    const bool wants_groups = needs.output_pairs || needs.output_errors;
    if ((needs.output_l1 || needs.output_l2 || wants_groups) && model_ == nullptr) {
        return not_made_for("the output projection");
    }
    if (needs.output_l1) { PITH_RETURN_IF_ERROR(gather_output_l1(from, evidence.output_l1)); }
    if (needs.output_l2) {
        PITH_ASSIGN_OR_RETURN(const std::span<const float> factor, model_->factor(layer));
        PITH_RETURN_IF_ERROR(output_l2_norms(runner, cache, seq, layer, factor, evidence.output_l2));
    }
    std::span<const float> group_factor;
    if (wants_groups) { PITH_ASSIGN_OR_RETURN(group_factor, model_->group_factor(layer)); }
    if (needs.output_pairs) {
        PITH_RETURN_IF_ERROR(output_pairs(runner, cache, seq, layer, group_factor, evidence.output_pairs));
    }
    if (needs.values) { evidence.values = std::make_shared<LaneValues>(runner, cache, seq, layer, group_factor); }
    return {};
}

Status EvidenceState::gather_output_l1(const From & from, Ragged<float> & out) const {
    auto & [runner, cache, seq, layer, n_seen] = from;
    auto & carried = layers_[static_cast<size_t>(layer)].output_l1;
    out = Ragged<float>(lane_lengths(cache, seq, layer, shape_.n_group));
    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    std::vector<int> begin = lengths;  // [K] how many entries every head of the lane knows
    for (int head = 0; head < shape_.n_heads(); ++head) {
        auto & known = carried[static_cast<size_t>(head)];
        known.resize(std::min(known.size(), out.row(head).size()));  // a lane cut back since
        std::ranges::copy(known, out.row(head).begin());
        int & first = begin[static_cast<size_t>(head / shape_.n_group)];
        first = std::min(first, static_cast<int>(known.size()));
    }
    if (begin == lengths) { return {}; }
    if (has_byte_norms(runner, cache, layer)) {
        PITH_ASSIGN_OR_RETURN(const auto projection,
                              projections_->layer(runner, layer, shape_.n_heads(), cache.layout().head_dim_v));
        PITH_RETURN_IF_ERROR(output_l1_norms(runner, cache, seq, layer, *projection, best_byte_unit(), out, begin));
    } else {
        PITH_ASSIGN_OR_RETURN(const OutputProjection projection, model_->model().read_output_projection(layer));
        PITH_RETURN_IF_ERROR(output_l1_norms(runner, cache, seq, layer, projection, out, begin));
    }
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto row = out.row(head);
        carried[static_cast<size_t>(head)].assign(row.begin(), row.end());
    }
    return {};
}

void EvidenceState::compact(int layer_index, const Ragged<int32_t> & keep, bool evicts) {
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    if (keeps_all_ && evicts) { drop_oldest(layer, n_kept_queries_); }
    for (int h = 0; wants_key_norms() && h < shape_.n_kv_heads; ++h) {
        auto & norms = layer.key_norms[static_cast<size_t>(h)];
        const auto kept = keep.row(h);
        if (!kept.empty()) {  // what was never seen stays unknown
            norms.resize(std::max(norms.size(), static_cast<size_t>(kept.back()) + 1), std::numeric_limits<float>::quiet_NaN());
        }
        for (size_t j = 0; j < kept.size(); ++j) { norms[j] = norms[static_cast<size_t>(kept[j])]; }
        norms.resize(kept.size());
    }
    for (int h = 0; wants_retention() && h < shape_.n_kv_heads; ++h) {
        auto & retention = layer.retention[static_cast<size_t>(h)];
        const auto kept = keep.row(h);
        if (!kept.empty()) { retention.resize(std::max(retention.size(), static_cast<size_t>(kept.back()) + 1), 1.0F); }
        for (size_t j = 0; j < kept.size(); ++j) { retention[j] = retention[static_cast<size_t>(kept[j])]; }
        retention.resize(kept.size());
    }
    for (int head = 0; head < shape_.n_heads(); ++head) {
        auto & norms = layer.output_l1[static_cast<size_t>(head)];
        if (norms.empty() && !wants_running()) { continue; }
        const auto kept = keep.row(head / shape_.n_group);
        const auto known = std::ranges::lower_bound(kept, static_cast<int32_t>(norms.size()));
        std::vector<float> still;  // new memory: a one-shot prefill computed the norms of the whole prompt
        still.reserve(static_cast<size_t>(known - kept.begin()));
        for (auto j = kept.begin(); j != known; ++j) { still.push_back(norms[static_cast<size_t>(*j)]); }
        norms = std::move(still);
        if (!wants_running()) { continue; }
        auto & running = layer.running[static_cast<size_t>(head)];
        for (size_t j = 0; j < kept.size(); ++j) { running[j] = running[static_cast<size_t>(kept[j])]; }
        running.resize(kept.size());
    }
}

size_t EvidenceState::size_bytes() const {
    size_t n = 0;
    for (const Layer & layer : layers_) {
        n += layer.queries.capacity() * sizeof(float) + layer.query_positions.capacity() * sizeof(int32_t);
        for (const auto & running : layer.running) { n += running.capacity() * sizeof(float); }
        for (const auto & retention : layer.retention) { n += retention.capacity() * sizeof(float); }
        for (const auto & norms : layer.key_norms) { n += norms.capacity() * sizeof(float); }
        for (const QuerySampler & sampler : layer.samplers) { n += sampler.size_bytes(); }
        for (const auto & norms : layer.output_l1) { n += norms.capacity() * sizeof(float); }
        n += layer.moments.size_bytes();
    }
    return n + (projections_ ? projections_->size_bytes() : 0);
}

}  // namespace pith
