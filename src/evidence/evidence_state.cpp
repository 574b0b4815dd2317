// evidence_state.cpp - kept queries, running sums and moments: how they come, and how they go with the entries.
#include "evidence/evidence_state.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "evidence/observe.h"

namespace pith {
namespace {

// A row that goes with a lane's entries reaches all that are kept: `otherwise` for those that it did not.
void reach_entries(std::span<const int32_t> kept, float otherwise, SharedRow & row) {
    row.own();
    if (!kept.empty()) { row.resize(std::max(row.size(), static_cast<size_t>(kept.back()) + 1), otherwise); }
}

// REQUIRES: the row reaches all that are kept.
void keep_entries(std::span<const int32_t> kept, std::vector<float> & row) noexcept {
    for (size_t j = 0; j < kept.size(); ++j) { row[j] = row[static_cast<size_t>(kept[j])]; }
    row.resize(kept.size());
}

// The row with its mean at these places of the longer one, ascending, as far as it reaches.
std::vector<float> with_means(std::span<const float> row, std::span<const int32_t> at) {
    double sum = 0;
    for (const float x : row) { sum += x; }
    const auto mean = static_cast<float>(sum / static_cast<double>(row.size()));
    std::vector<float> longer;
    longer.reserve(row.size() + at.size());
    for (const int32_t place : at) {
        const size_t n = std::min(row.size(), static_cast<size_t>(place) - std::min(static_cast<size_t>(place), longer.size()));
        longer.insert(longer.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(n));
        row = row.subspan(n);
        if (longer.size() < static_cast<size_t>(place)) { break; }
        longer.push_back(mean);
    }
    longer.insert(longer.end(), row.begin(), row.end());
    return longer;
}

}  // namespace

EvidenceState::EvidenceState(const CacheShape & shape, const EvidenceNeeds & needs, std::shared_ptr<OutputMatrices> output)
    : EvidenceState(shape, std::vector<EvidenceNeeds>{needs}, std::move(output)) {}

EvidenceState::EvidenceState(const CacheShape & shape, std::vector<EvidenceNeeds> needs, std::shared_ptr<OutputMatrices> output)
    : shape_(shape), needs_(std::move(needs)), output_(std::move(output)) {
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
    if (needs.reread_max && !merged_.reread_max) { return false; }
    if (needs.block_attention && !wants_blocks()) { return false; }
    if (needs.key_leverage && output_ == nullptr) { return false; }
    if (needs.expected_future > 0 && (!wants_moments_ || output_ == nullptr)) { return false; }
    const bool behind_output = needs.output_l1 || needs.output_l2 || needs.output_pairs || needs.output_errors;
    if (behind_output && output_ == nullptr) { return false; }
    if (!needs.profile.any()) { return true; }
    return needs.profile.sample == QuerySample::kTopWindow ? keeps_all_ : sampled(needs.profile);
}

void EvidenceState::reset() {
    layers_.assign(static_cast<size_t>(shape_.n_layers), Layer{});
    for (Layer & layer : layers_) {
        layer.running.resize(static_cast<size_t>(shape_.n_heads()));
        layer.retention.resize(static_cast<size_t>(shape_.n_kv_heads));
        layer.key_norms.resize(static_cast<size_t>(shape_.n_kv_heads));
        layer.reread.resize(static_cast<size_t>(shape_.n_heads()));
        layer.block_sums.resize(static_cast<size_t>(shape_.n_heads()));
        layer.block = KeptQueries(query_size(), wants_blocks() ? KeptQueries::kAll : 0);
        layer.queries = KeptQueries(query_size(), keeps_all_ ? KeptQueries::kAll : static_cast<size_t>(n_kept_queries_));
        for (const ProfileNeeds & profile : samplers_) { layer.samplers.emplace_back(profile, query_size()); }
    }
}

// Offers the queries that become eligible, with those to come: from the kept ones, or from the new ones.
void EvidenceState::sample(Layer & layer, const float * queries, int n, int32_t first_position, int n_to_come) const {
    const size_t row = query_size();
    const auto n_old = static_cast<int32_t>(layer.queries.size());
    for (QuerySampler & sampler : layer.samplers) {
        const int64_t n_seen = int64_t{first_position} + n;
        if (n_to_come > 0) { sampler.expect(n_seen + n_to_come); }
        const auto end = static_cast<int32_t>(std::min(n_seen, sampler.end_of_eligible(n_seen + n_to_come)));
        for (int32_t position = sampler.next(); position < end; ++position) {
            const int32_t back = first_position - position;  // 1: the newest of the kept ones
            const float * query = back <= 0 ? queries + static_cast<size_t>(-back) * row
                                            : layer.queries.row(static_cast<size_t>(n_old - back)).data();
            sampler.offer(position, query);
        }
    }
}

void EvidenceState::restore(int index, Layer before, std::span<const int> lengths) {
    Layer & layer = layers_[static_cast<size_t>(index)];
    before.output_l1 = {};  // or it would be shared
    for (size_t head = 0; head < layer.output_l1->size(); ++head) {
        const auto length = static_cast<size_t>(lengths[head / static_cast<size_t>(shape_.n_group)]);
        if ((*layer.output_l1)[head].size() > length) { layer.output_l1.own()[head].resize(length); }
    }
    before.output_l1 = std::move(layer.output_l1);
    layer = std::move(before);
}

void EvidenceState::restore(EvidenceState before, std::span<const int> lengths) {
    const auto n_kv = static_cast<size_t>(shape_.n_kv_heads);
    for (size_t i = 0; i < layers_.size(); ++i) {
        restore(static_cast<int>(i), std::move(before.layers_[i]), lengths.subspan(i * n_kv, n_kv));
    }
}

bool EvidenceState::widen(const EvidenceNeeds & needs) {
    EvidenceNeeds of_the_past = needs;
    of_the_past.window = 0;
    of_the_past.window_mean = of_the_past.window_max = of_the_past.window_sq = of_the_past.window_head_sq = false;
    of_the_past.window_pairs = of_the_past.window_entropy = of_the_past.last_query = false;
    of_the_past.window_rows = of_the_past.window_queries = false;
    if (needs.running_last > 0) {
        of_the_past.running_sum = false;
        of_the_past.running_last = 0;
    }
    const bool samples_more = std::ranges::any_of(samplers_, [&](const ProfileNeeds & other) {
        return same_sample(needs.profile, other) && needs.profile.n_queries != other.n_queries;
    });
    if (!covers(of_the_past) || (needs.profile.any() && samples_more)) { return false; }
    int n = needs.any_window() ? needs.window : 0;
    if (needs.last_query) { n = std::max(n, 1); }
    if (needs.running_sum) { n = std::max(n, needs.running_last); }
    needs_.push_back(needs);
    merged_ = merged_.merged(needs);
    if (n > n_kept_queries_ && !keeps_all_) {
        n_kept_queries_ = n;
        for (Layer & layer : layers_) { layer.queries.set_limit(static_cast<size_t>(n)); }
    }
    return true;
}

void EvidenceState::narrow(std::vector<EvidenceNeeds> needs) {
    EvidenceState narrower(shape_, std::move(needs), output_);
    std::vector<std::vector<QuerySampler>> samplers(layers_.size());  // what needs memory comes first
    for (size_t i = 0; i < layers_.size(); ++i) {
        for (const ProfileNeeds & profile : narrower.samplers_) {
            const auto same = [&](const QuerySampler & one) { return same_sample(profile, one.needs()); };
            std::ranges::copy_if(layers_[i].samplers, std::back_inserter(samplers[i]), same);
        }
    }
    for (size_t i = 0; i < layers_.size(); ++i) {
        Layer & layer = layers_[i];
        layer.samplers.swap(samplers[i]);
        if (!narrower.keeps_all_) { layer.queries.set_limit(static_cast<size_t>(narrower.n_kept_queries_)); }
        const auto forget = [](std::vector<SharedRow> & rows) { std::ranges::fill(rows, SharedRow()); };
        if (!narrower.wants_running_) { forget(layer.running); }
        if (!narrower.merged_.retention) { forget(layer.retention); }
        if (!narrower.merged_.key_norm) { forget(layer.key_norms); }
        if (!narrower.merged_.reread_max) { forget(layer.reread); }
        if (!narrower.wants_blocks()) {
            layer.block.set_limit(0);
            forget(layer.block_sums);
        }
        if (!narrower.wants_moments_) { layer.moments = {}; }
    }
    needs_ = std::move(narrower.needs_);
    merged_ = narrower.merged_;
    n_kept_queries_ = narrower.n_kept_queries_;
    keeps_all_ = narrower.keeps_all_;
    wants_running_ = narrower.wants_running_;
    wants_moments_ = narrower.wants_moments_;
    samplers_ = std::move(narrower.samplers_);
}

void EvidenceState::remember(int layer_index, const float * queries, int n, int32_t first_position, int n_to_come) {
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    sample(layer, queries, n, first_position, n_to_come);
    const int n_new = n_newest(n, n_to_come);
    if (n_new < n) { layer.queries.keep_newest(0); }  // they push out all older ones
    for (int i = n - n_new; i < n; ++i) {
        layer.queries.push(queries + static_cast<size_t>(i) * query_size(), first_position + i);
    }
}

SharedRow::Addition EvidenceState::add_to_running(int layer, int head, int length) {
    return layers_[static_cast<size_t>(layer)].running[static_cast<size_t>(head)].begin_add(static_cast<size_t>(length));
}

void EvidenceState::prepare_running(const RaggedCache & cache, int seq, int layer) {
    for (int head = 0; wants_running() && head < shape_.n_heads(); ++head) {
        const int length = cache.length(cache.lane(seq, layer, head / shape_.n_group));
        layers_[static_cast<size_t>(layer)].running[static_cast<size_t>(head)].prepare_add(static_cast<size_t>(length));
    }
}

Status EvidenceState::add_running(GraphRunner & runner, const RaggedCache & cache, int seq, int layer_index,
                                  const float * queries, int n, int32_t first_position, const HiddenKeys * hidden) {
    std::vector<int32_t> positions(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) { positions[static_cast<size_t>(i)] = first_position + i; }
    Observed observed;
    PITH_RETURN_IF_ERROR(
        observe_queries(runner, cache, seq, layer_index, queries, positions, {.column_sum = true}, observed, hidden));
    prepare_running(cache, seq, layer_index);  // so that all of them are added to, or none
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto sums = observed.column_sum.row(head);
        const auto [before, n_before, to] = add_to_running(layer_index, head, static_cast<int>(sums.size()));
        for (size_t j = 0; j < sums.size(); ++j) { to[j] = (j < n_before ? before[j] : 0.0F) + sums[j]; }
    }
    return {};
}

void EvidenceState::add_retention(const RaggedCache & cache, int seq, int layer, std::span<const float> probabilities) {
    const auto n_kv = static_cast<size_t>(shape_.n_kv_heads);
    const size_t n = probabilities.size() / n_kv;
    for (size_t h = 0; h < n_kv; ++h) {
        auto & retention = layers_[static_cast<size_t>(layer)].retention[h];
        const auto length = static_cast<size_t>(cache.length(cache.lane(seq, layer, static_cast<int>(h))));
        retention.resize(length - n, 1.0F);  // a lane cut back or grown since
        retention.make_room(n);
        for (size_t t = 0; t < n; ++t) { retention.append(probabilities[t * n_kv + h]); }
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
        of_lane.make_room(n);
        for (size_t t = 0; t < n; ++t) { of_lane.append(norms[t * n_kv + h]); }
    }
}

void EvidenceState::add_reread(const RaggedCache & cache, int seq, int layer, int32_t begin, const Ragged<float> & maxima) {
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto added = maxima.row(head);
        const auto positions = cache.positions(cache.lane(seq, layer, head / shape_.n_group));
        SharedRow & of_head = layers_[static_cast<size_t>(layer)].reread[static_cast<size_t>(head)];
        const auto n_older = std::ranges::lower_bound(positions, begin) - positions.begin();
        of_head.resize(static_cast<size_t>(n_older), 0.0F);  // what was added by a call that failed afterwards goes
        of_head.make_room(added.size());
        for (const float most : added) { of_head.append(most); }
    }
}

Result<EvidenceState> EvidenceState::with_queries(const TurnQueries & turn) const {
    EvidenceState other = *this;
    for (size_t l = 0; l < other.layers_.size(); ++l) {
        Layer & layer = other.layers_[l];
        const auto turned = [&](std::span<float> queries) {
            const auto n = static_cast<int>(queries.size() / query_size());
            return n == 0 ? Status() : turn(static_cast<int>(l), queries, n);
        };
        for (KeptQueries * kept : {&layer.queries, &layer.block}) {
            std::vector<float> rows = kept->newest(kept->size());
            PITH_RETURN_IF_ERROR(turned(rows));
            if (!rows.empty()) { *kept = kept->with(rows); }
        }
        for (QuerySampler & sampler : layer.samplers) { PITH_RETURN_IF_ERROR(turned(sampler.queries())); }
    }
    return other;
}

void EvidenceState::forget_reread() {
    for (Layer & layer : layers_) { std::ranges::fill(layer.reread, SharedRow()); }
}

void EvidenceState::prepare_compact(int layer_index, const Ragged<int32_t> & keep) {
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
        const auto lane = static_cast<size_t>(h);
        if (wants_key_norms()) { reach_entries(keep.row(h), std::numeric_limits<float>::quiet_NaN(), layer.key_norms[lane]); }
        if (wants_retention()) { reach_entries(keep.row(h), 1.0F, layer.retention[lane]); }
    }
    if (!layer.output_l1->empty()) { layer.output_l1.own(); }
    for (int head = 0; wants_running() && head < shape_.n_heads(); ++head) {
        reach_entries(keep.row(head / shape_.n_group), 0.0F, layer.running[static_cast<size_t>(head)]);
    }
    for (size_t head = 0; head < static_cast<size_t>(shape_.n_heads()); ++head) {  // the newest entries are in neither
        if (wants_reread()) { layer.reread[head].own(); }
        if (wants_blocks()) { layer.block_sums[head].own(); }
    }
}

void EvidenceState::compact(int layer_index, const Ragged<int32_t> & keep, bool evicts) noexcept {
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    prepare_compact(layer_index, keep);  // nothing is left of it to do, where it came first
    if (keeps_all_ && evicts) { layer.queries.keep_newest(static_cast<size_t>(n_kept_queries_)); }
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
        if (wants_key_norms()) { layer.key_norms[static_cast<size_t>(h)].keep(keep.row(h)); }
        if (wants_retention()) { layer.retention[static_cast<size_t>(h)].keep(keep.row(h)); }
    }
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto kept = keep.row(head / shape_.n_group);
        if (!layer.output_l1->empty()) {
            auto & norms = layer.output_l1.own()[static_cast<size_t>(head)];
            const auto known = std::ranges::lower_bound(kept, static_cast<int32_t>(norms.size()));
            keep_entries({kept.begin(), known}, norms);
            norms.shrink_to_fit();  // a one-shot prefill computed the norms of the whole prompt
        }
        if (wants_running()) { layer.running[static_cast<size_t>(head)].keep(kept); }
        const auto keep_of = [&](SharedRow & row) {
            row.keep({kept.begin(), std::ranges::lower_bound(kept, static_cast<int32_t>(row.size()))});
        };
        if (wants_reread()) { keep_of(layer.reread[static_cast<size_t>(head)]); }
        if (wants_blocks()) { keep_of(layer.block_sums[static_cast<size_t>(head)]); }
    }
}

void EvidenceState::put_between(int layer_index, const Ragged<int32_t> & entries) {
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    const auto put = [](SharedRow & row, std::span<const int32_t> at) {
        if (at.empty() || row.size() == 0) { return; }
        row = SharedRow(with_means(row.values(), at));
    };
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
        if (wants_key_norms()) { put(layer.key_norms[static_cast<size_t>(h)], entries.row(h)); }
        if (wants_retention()) { put(layer.retention[static_cast<size_t>(h)], entries.row(h)); }
    }
    for (int head = 0; head < shape_.n_heads(); ++head) {
        const auto at = entries.row(head / shape_.n_group);
        if (!layer.output_l1->empty() && !at.empty()) {
            auto & norms = layer.output_l1.own()[static_cast<size_t>(head)];
            norms.resize(std::min(norms.size(), static_cast<size_t>(at.front())));
        }
        if (wants_running()) { put(layer.running[static_cast<size_t>(head)], at); }
        if (wants_reread()) { put(layer.reread[static_cast<size_t>(head)], at); }
        if (wants_blocks()) { put(layer.block_sums[static_cast<size_t>(head)], at); }
    }
}

void EvidenceState::prepare_token(const RaggedCache & cache, int seq) {
    for (int l = 0; l < shape_.n_layers; ++l) {
        if (!cache.layout().governs(l)) { continue; }
        Layer & layer = layers_[static_cast<size_t>(l)];
        const auto length = [&](int h) { return static_cast<size_t>(cache.length(cache.lane(seq, l, h))); };
        if (n_kept_queries_ > 0 || keeps_all_) { layer.queries.make_room(); }
        for (QuerySampler & sampler : layer.samplers) { sampler.make_room(); }
        if (wants_blocks()) { layer.block.make_room(); }
        for (int h = 0; wants_key_norms() && h < shape_.n_kv_heads; ++h) {
            auto & norms = layer.key_norms[static_cast<size_t>(h)];
            norms.resize(length(h), std::numeric_limits<float>::quiet_NaN());
            norms.make_room(1);
        }
        for (int h = 0; wants_retention() && h < shape_.n_kv_heads; ++h) {
            auto & said = layer.retention[static_cast<size_t>(h)];
            const size_t n_told = std::min(said.size(), length(h));  // entries that no gate was asked about may be missing
            said.make_room(length(h) - n_told + 1);
        }
        for (int head = 0; wants_running() && head < shape_.n_heads(); ++head) {
            SharedRow & sums = layer.running[static_cast<size_t>(head)];
            sums.resize(length(head / shape_.n_group), 0.0F);
            sums.prepare_add(sums.size() + 1);
        }
    }
}

void EvidenceState::save_running(std::vector<SharedRow> & to) const {
    to.clear();
    if (!wants_running()) { return; }
    for (const Layer & layer : layers_) { to.insert(to.end(), layer.running.begin(), layer.running.end()); }
}

void EvidenceState::restore_running(std::span<const SharedRow> from) noexcept {
    if (!wants_running()) { return; }
    auto before = from.begin();
    for (Layer & layer : layers_) {
        for (SharedRow & sums : layer.running) { sums.go_back(*before++); }
    }
}

size_t EvidenceState::size_bytes() const {
    size_t n = 0;
    for (const Layer & layer : layers_) {
        n += layer.queries.size_bytes() + layer.block.size_bytes();
        for (const auto * rows : {&layer.running, &layer.retention, &layer.key_norms, &layer.reread, &layer.block_sums}) {
            for (const SharedRow & row : *rows) { n += row.size_bytes(); }
        }
        for (const QuerySampler & sampler : layer.samplers) { n += sampler.size_bytes(); }
        for (const auto & norms : *layer.output_l1) { n += norms.capacity() * sizeof(float); }
        n += layer.moments.size_bytes();
    }
    return n;
}

}  // namespace pith
