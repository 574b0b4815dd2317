// eviction.cpp - score → refine → allocate → select, for all lanes of one sequence, at once or layer by layer.
#include "policy/eviction.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "core/items.h"
#include "policy/allocate/allocator.h"
#include "policy/allocate/head_profiles.h"
#include "policy/allocate/shares.h"
#include "policy/evidence/layer_view.h"
#include "policy/lane/top.h"
#include "policy/refine/refiner.h"
#include "policy/score/scorer.h"
#include "policy/select/protection.h"
#include "policy/select/selector.h"

namespace pith {
namespace {

// A layer as it stands after the plans returned so far.
struct LayerState {
    Ragged<int32_t> positions;
    Ragged<float> scores;  // once selected: the selector's priority, so that later cuts take from the tail of its ranking
    Ragged<IndexRange> protected_ranges;
    std::optional<LayerEvidence> evidence;
    std::optional<Ragged<float>> base_scores;
    std::optional<Ragged<float>> head_scores;
    std::optional<LayerProfile> profile;
    int n_recent = 0;
    int64_t window_begin = 0;
    bool selected = false;

    LayerView view(int layer, const std::atomic<bool> * cancel = nullptr) const {
        const auto pointer = [](const auto & kept) { return kept ? &*kept : nullptr; };
        return {.layer = layer,
                .positions = positions,
                .scores = scores,
                .protected_ranges = protected_ranges,
                .evidence = pointer(evidence),
                .base_scores = pointer(base_scores),
                .head_scores = pointer(head_scores),
                .profile = pointer(profile),
                .n_recent = n_recent,
                .window_begin = window_begin,
                .cancel = cancel};
    }
};

// What a layer becomes that is cut to its shares.
struct LayerCut {
    int layer = 0;
    std::span<const int> shares;
    bool shrinks = false;
    LayerChoice choice;
    Ragged<int32_t> positions;  // of what stays; in a cascade only, as what follows
    Ragged<IndexRange> protected_ranges;
    Status status;
};

int64_t count(std::span<const IndexRange> ranges) {
    return std::accumulate(ranges.begin(), ranges.end(), int64_t{0},
                           [](int64_t sum, const IndexRange & range) { return sum + (range.end - range.begin); });
}

Ragged<IndexRange> protect(const Protection & protection, const Ragged<int32_t> & positions) {
    Ragged<IndexRange> ranges;
    for (int h = 0; h < positions.n_rows(); ++h) { ranges.push_row(protected_ranges(protection, positions.row(h))); }
    return ranges;
}

Status check_finite(const LayerEvidence & evidence, const Ragged<float> & scores, const Policy & policy) {
    for (int h = 0; h < scores.n_rows(); ++h) {
        const auto row = scores.row(h);
        const auto broken = std::find_if(row.begin(), row.end(), [](float score) { return !std::isfinite(score); });
        if (broken == row.end()) { continue; }
        const auto entry = broken - row.begin();
        return {ErrorCode::kNotFinite, "policy '" + policy.name() + "' scored layer " + std::to_string(evidence.layer) +
                                           ", head " + std::to_string(h) + ", entry " + std::to_string(entry) + " (position " +
                                           std::to_string(evidence.positions.row(h)[static_cast<size_t>(entry)]) + ") as " +
                                           std::to_string(*broken) + ": the model's weights or its evidence are broken"};
    }
    return {};
}

}  // namespace

std::vector<int64_t> net_budgets(const Policy & policy, const EvictionTarget & target, const Ragged<int32_t> & positions) {
    const Ragged<IndexRange> ranges = protect({policy.n_sinks(), policy.n_recent(target.budget), target.pinned}, positions);
    std::vector<int64_t> net;
    for (int h = 0; h < ranges.n_rows(); ++h) { net.push_back(std::max<int64_t>(target.budget - count(ranges.row(h)), 0)); }
    return net;
}

struct EvictionPass::Impl {
    Policy policy;
    EvictionTarget target;
    bool cascade;
    int n_to_come;
    Protection protection;
    bool reads_values = false;    // LayerEvidence::values
    bool scores_in_turn = false;  // layers one after the other
    bool wants_profiles = false;
    HeadProfiles profiles{HeadDistance::kCosine};
    std::vector<LayerState> layers;
    std::vector<double> weights;  // [n_lanes]
    size_t n_weighed = 0;
    std::unique_ptr<AllocatorState> allocator_state;
    int64_t n_protected_to_come = 0;  // of one lane
    int n_added = 0;
    bool done = false;

    Status go_on() const {
        const bool asked = target.cancel != nullptr && target.cancel->load(std::memory_order_relaxed);
        return asked ? Status(ErrorCode::kCancelled, "cancelled") : Status();
    }
    Status check_layer(const LayerEvidence & evidence, int expected) const;
    Status score(const LayerEvidence & evidence, LayerState & layer) const;
    Status score_all(std::span<const LayerEvidence> evidence, std::span<LayerState> scored) const;
    Status add(const LayerEvidence & evidence, LayerState layer);
    // Layers are cut before the last one has come.
    bool cuts_early() const { return cascade && !policy.wants_all_layers(); }
    // T, and what of it is not protected.
    Result<NetBudget> net_budget() const;
    // Per lane; of lanes to come as expected.
    std::vector<int> net_lengths() const;
    std::vector<int> protected_counts() const;
    Status weigh(const NetBudget & budget);
    Status check_weights() const;
    Result<std::vector<LayerPlan>> plan(bool final);
    Status cut(LayerCut & one, const RunTasks & run) const;
    Status cut_all(std::span<LayerCut> cuts) const;
    void settle(LayerCut & one, std::vector<LayerPlan> & plans);
};

EvictionPass::EvictionPass(const Policy & policy, EvictionTarget target, bool cascade, int n_to_come)
    : impl_(std::make_unique<Impl>(
          Impl{.policy = policy, .target = std::move(target), .cascade = cascade, .n_to_come = n_to_come})) {
    Impl & self = *impl_;
    self.protection = {self.policy.n_sinks(), self.policy.n_recent(self.target.budget), self.target.pinned};
    const EvidenceNeeds needs = self.policy.needs();
    const ProfileNeeds profile = needs.profile;
    self.reads_values = needs.values;
    self.scores_in_turn = needs.values || self.policy.is_custom();
    self.wants_profiles = profile.any();
    self.profiles = HeadProfiles(profile.distance);
    self.allocator_state = self.policy.allocator().begin();
}
EvictionPass::~EvictionPass() = default;
EvictionPass::EvictionPass(EvictionPass &&) noexcept = default;

Status EvictionPass::Impl::check_layer(const LayerEvidence & evidence, int expected) const {
    const CacheShape & shape = target.shape;
    if (done || evidence.layer != expected || expected >= shape.n_layers) {
        return {ErrorCode::kInternal, "eviction: layer " + std::to_string(evidence.layer) + " was added where layer " +
                                          std::to_string(expected) + " of " + std::to_string(shape.n_layers) + " was expected"};
    }
    if (evidence.n_kv_heads != shape.n_kv_heads || evidence.n_group != shape.n_group ||
        evidence.positions.n_rows() != shape.n_kv_heads) {
        return {ErrorCode::kInternal, "eviction: the evidence of layer " + std::to_string(evidence.layer) + " has " +
                                          std::to_string(evidence.positions.n_rows()) + " lanes, the cache " +
                                          std::to_string(shape.n_kv_heads)};
    }
    if (target.budget < 1) {
        return {ErrorCode::kInvalidArgument,
                item::kBudget + " of " + std::to_string(target.budget) + " tokens per head: at least 1 is needed"};
    }
    if (!policy.wants_importance()) { return {}; }
    const auto n_heads = static_cast<size_t>(shape.n_lanes()) * static_cast<size_t>(shape.n_group);
    const HeadImportance none;
    const HeadImportance & importance = target.importance != nullptr ? *target.importance : none;
    if (importance.copy.size() == n_heads && importance.reason.size() == n_heads) { return {}; }
    return {ErrorCode::kInvalidArgument,
            "policy '" + policy.name() + "' needs the importance of all " + std::to_string(n_heads) + " query heads and has " +
                std::to_string(importance.copy.size()) + " copy and " + std::to_string(importance.reason.size()) +
                " reason scores: make them with `pith calibrate heads`"};
}

Status EvictionPass::Impl::score(const LayerEvidence & evidence, LayerState & layer) const {
    const Scorer & scorer = policy.scorer();
    const Refiner * refiner = policy.refiner();
    PITH_RETURN_IF_ERROR(scorer.score(evidence, layer.scores));
    const bool selector_wants = policy.selector().wants_evidence();
    const bool wants_heads = selector_wants || (refiner != nullptr && refiner->wants_head_scores());
    Ragged<float> heads;
    const bool has_heads = wants_heads && scorer.has_head_scores();
    if (has_heads) { PITH_RETURN_IF_ERROR(scorer.score_heads(evidence, heads)); }
    if (selector_wants) { layer.base_scores = layer.scores; }
    if (refiner != nullptr) {
        PITH_RETURN_IF_ERROR(check_finite(evidence, layer.scores, policy));  // name the scorer's entry, not what came of it
        const std::vector<int64_t> net =
            refiner->wants_budgets() ? net_budgets(policy, target, evidence.positions) : std::vector<int64_t>();
        PITH_RETURN_IF_ERROR(refiner->refine(evidence, has_heads ? &heads : nullptr, net, layer.scores));
    }
    if (selector_wants && has_heads) { layer.head_scores = std::move(heads); }
    return check_finite(evidence, layer.scores, policy);
}

// Layers do not look at each other's evidence. Values are read on the very threads that would score; a user's function runs
// on one at a time anyhow, and on the thread that evicts where it may.
Status EvictionPass::Impl::score_all(std::span<const LayerEvidence> evidence, std::span<LayerState> scored) const {
    const auto n = static_cast<int>(evidence.size());
    std::vector<Status> statuses(evidence.size());
    const auto score_one = [&](int i) {
        const auto at = static_cast<size_t>(i);
        statuses[at] = go_on();
        if (statuses[at].ok()) { statuses[at] = score(evidence[at], scored[at]); }
    };
    PITH_RETURN_IF_ERROR(n == 1 || scores_in_turn ? run_in_turn(n, score_one) : target.run_tasks(n, score_one));
    for (Status & status : statuses) { PITH_RETURN_IF_ERROR(std::move(status)); }
    return {};
}

Status EvictionPass::Impl::add(const LayerEvidence & evidence, LayerState layer) {
    layer.positions = evidence.positions;
    layer.n_recent = protection.n_recent;
    layer.window_begin = evidence.window_begin();
    layer.protected_ranges = protect(protection, layer.positions);
    if (wants_profiles) { PITH_RETURN_IF_ERROR(profiles.add(evidence, layer.profile.emplace(), target.run_tasks)); }
    if (policy.allocator().wants_evidence() || policy.selector().wants_evidence()) { layer.evidence = evidence; }
    if (n_added == 0 && cascade) {
        // Lanes to come are expected to hold the prompt's last n_to_come positions.
        std::vector<int32_t> positions(static_cast<size_t>(std::max(n_to_come, 0)));
        std::iota(positions.begin(), positions.end(), static_cast<int32_t>(evidence.n_seen - std::ssize(positions)));
        n_protected_to_come = count(protected_ranges(protection, positions));
    }
    layers.push_back(std::move(layer));
    return {};
}

void EvictionPass::set_cancel(const std::atomic<bool> * cancel) {
    impl_->target.cancel = cancel;
}

Status EvictionPass::add_layer(const LayerEvidence & evidence) {
    return add_layers({&evidence, 1});
}

Status EvictionPass::add_layers(std::span<const LayerEvidence> evidence) {
    Impl & self = *impl_;
    std::vector<LayerState> scored(evidence.size());
    for (size_t i = 0; i < evidence.size(); ++i) {
        PITH_RETURN_IF_ERROR(self.check_layer(evidence[i], self.n_added + static_cast<int>(i)));
    }
    if (self.policy.evicts()) { PITH_RETURN_IF_ERROR(self.score_all(evidence, scored)); }
    for (size_t i = 0; i < evidence.size(); ++i) {
        PITH_RETURN_IF_ERROR(self.go_on());
        if (self.policy.evicts()) { PITH_RETURN_IF_ERROR(self.add(evidence[i], std::move(scored[i]))); }
        ++self.n_added;
    }
    return {};
}

Result<NetBudget> EvictionPass::Impl::net_budget() const {
    const int64_t n_lanes = target.shape.n_lanes();
    const int64_t lanes_to_come = n_lanes - int64_t{n_added} * target.shape.n_kv_heads;
    int64_t n_entries = lanes_to_come * n_to_come;
    int64_t n_protected = lanes_to_come * n_protected_to_come;
    for (const LayerState & layer : layers) {
        n_entries += static_cast<int64_t>(layer.positions.size());
        n_protected += count(layer.protected_ranges.flat());
    }
    const int64_t total = target.budget > n_entries / n_lanes ? n_entries : std::min(target.budget * n_lanes, n_entries);
    if (total < n_protected) {
        const int64_t enough = (n_protected + n_lanes - 1) / n_lanes;
        return Status(ErrorCode::kBudget,
                      item::kBudget + " of " + std::to_string(target.budget) + " tokens per head (" + std::to_string(total) +
                          " in all " + std::to_string(n_lanes) + " heads) cannot hold the " + std::to_string(n_protected) +
                          " protected ones of policy '" + policy.name() + "' (sinks, recent window, pinned spans): use " +
                          item::kBudget + " " + std::to_string(enough) + " or more, or protect less");
    }
    return NetBudget{
        .shape = target.shape, .total = total - n_protected, .importance = target.importance.get(), .cascade = cuts_early()};
}

std::vector<int> EvictionPass::Impl::protected_counts() const {
    std::vector<int> counts(static_cast<size_t>(target.shape.n_lanes()), static_cast<int>(n_protected_to_come));
    size_t lane = 0;
    for (const LayerState & layer : layers) {
        for (int h = 0; h < layer.protected_ranges.n_rows(); ++h) {
            counts[lane++] = static_cast<int>(count(layer.protected_ranges.row(h)));
        }
    }
    return counts;
}

std::vector<int> EvictionPass::Impl::net_lengths() const {
    std::vector<int> lengths(static_cast<size_t>(target.shape.n_lanes()), n_to_come - static_cast<int>(n_protected_to_come));
    size_t lane = 0;
    for (const LayerState & layer : layers) {
        const LayerView view = layer.view(0);
        for (int h = 0; h < view.n_lanes(); ++h) { lengths[lane++] = view.net_length(h); }
    }
    return lengths;
}

// Gives the layers that arrived since the last call their weights.
Status EvictionPass::Impl::weigh(const NetBudget & budget) {
    const Allocator & allocator = policy.allocator();
    if (weights.empty()) {
        weights.assign(static_cast<size_t>(target.shape.n_lanes()), 0.0);
        allocator.expect(budget, weights);
    }
    for (; n_weighed < layers.size(); ++n_weighed) {
        PITH_RETURN_IF_ERROR(go_on());
        const LayerView view = layers[n_weighed].view(static_cast<int>(n_weighed));
        PITH_RETURN_IF_ERROR(allocator.weigh(view, budget, allocator_state.get(), weights));
        if (!policy.selector().wants_evidence()) { layers[n_weighed].evidence.reset(); }
    }
    return check_weights();
}

Status EvictionPass::Impl::check_weights() const {
    for (size_t lane = 0; lane < weights.size(); ++lane) {
        if (std::isfinite(weights[lane]) && weights[lane] >= 0) { continue; }
        const auto k = static_cast<size_t>(target.shape.n_kv_heads);
        return {ErrorCode::kNotFinite, "policy '" + policy.name() + "' gave layer " + std::to_string(lane / k) + ", head " +
                                           std::to_string(lane % k) + " the weight " + std::to_string(weights[lane]) +
                                           ": the evidence is broken"};
    }
    return {};
}

Result<std::vector<LayerPlan>> EvictionPass::Impl::plan(bool final) {
    std::vector<LayerPlan> plans;
    if (!policy.evicts() || n_added == 0) { return plans; }
    PITH_ASSIGN_OR_RETURN(NetBudget budget, net_budget());
    const std::vector<int> there = net_lengths();
    const std::vector<int> n_protected = protected_counts();
    std::vector<int> lengths = there;
    for (size_t lane = 0; target.most_of_lane > 0 && lane < lengths.size(); ++lane) {
        const auto most = static_cast<int>(std::max<int64_t>(0, target.most_of_lane - n_protected[lane]));
        lengths[lane] = std::min(lengths[lane], most);
    }
    budget.net_lengths = lengths;
    budget.n_protected = n_protected;
    budget.total = std::min(budget.total, std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
    const bool keeps_all = lengths == there && budget.total == std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    if (final && keeps_all && !policy.keeps_less()) { return plans; }
    PITH_RETURN_IF_ERROR(weigh(budget));
    int64_t total = budget.total;
    if (policy.keeps_less()) {
        double wanted = 0;
        for (size_t lane = 0; lane < weights.size(); ++lane) {
            wanted += std::min(weights[lane], static_cast<double>(lengths[lane]));
        }
        total = std::min<int64_t>(total, std::llround(wanted));
    }
    const std::vector<int64_t> exact = divide(weights, lengths, total);
    const std::vector<int> shares = final ? round_shares(exact, lengths, total) : ceil_shares(exact, lengths);
    const auto k = static_cast<size_t>(target.shape.n_kv_heads);
    std::vector<LayerCut> cuts;
    for (size_t l = 0; l < layers.size(); ++l) {
        const std::span<const int> of_layer = std::span(shares).subspan(l * k, k);
        const LayerView view = layers[l].view(static_cast<int>(l));
        bool shrinks = false;
        for (int h = 0; h < view.n_lanes(); ++h) { shrinks = shrinks || of_layer[static_cast<size_t>(h)] < view.net_length(h); }
        // The selector's ranking is fixed when a layer arrives: it is asked even when nothing shrinks yet.
        if (shrinks || (!layers[l].selected && !final)) {
            cuts.push_back({.layer = static_cast<int>(l), .shares = of_layer, .shrinks = shrinks});
        }
    }
    PITH_RETURN_IF_ERROR(cut_all(cuts));
    for (LayerCut & one : cuts) { settle(one, plans); }
    return plans;
}

// Brings a layer down to its shares: by the selector when it is ranked for the first time, from the tail afterwards. Changes
// nothing but `one`.
Status EvictionPass::Impl::cut(LayerCut & one, const RunTasks & run) const {
    const LayerState & state = layers[static_cast<size_t>(one.layer)];
    const LayerView view = state.view(one.layer, target.cancel);
    PITH_RETURN_IF_ERROR(go_on());
    PITH_RETURN_IF_ERROR(state.selected ? choose_top(view, one.shares, run, one.choice)
                                        : policy.selector().select(view, one.shares, run, one.choice));
    PITH_RETURN_IF_ERROR(go_on());  // a selector that was told to end has chosen nothing
    if (!cascade) { return {}; }
    std::vector<int32_t> kept;
    for (int h = 0; h < view.n_lanes(); ++h) {
        kept.clear();
        for (const int32_t j : one.choice.keep.row(h)) { kept.push_back(view.positions.row(h)[static_cast<size_t>(j)]); }
        one.positions.push_row(kept);
    }
    one.protected_ranges = protect(protection, one.positions);
    return {};
}

// Layers side by side. One alone gives its lanes to the threads; so do layers whose values are read on them.
Status EvictionPass::Impl::cut_all(std::span<LayerCut> cuts) const {
    if (cuts.size() == 1 || reads_values) {
        for (LayerCut & one : cuts) { PITH_RETURN_IF_ERROR(cut(one, target.run_tasks)); }
        return {};
    }
    PITH_RETURN_IF_ERROR(target.run_tasks(static_cast<int>(cuts.size()), [&](int i) {
        LayerCut & one = cuts[static_cast<size_t>(i)];
        one.status = cut(one, run_in_turn);
    }));
    for (LayerCut & one : cuts) { PITH_RETURN_IF_ERROR(std::move(one.status)); }
    return {};
}

void EvictionPass::Impl::settle(LayerCut & one, std::vector<LayerPlan> & plans) {
    LayerState & state = layers[static_cast<size_t>(one.layer)];
    state.selected = true;
    state.evidence.reset();  // of the lanes as they were
    state.base_scores.reset();
    state.head_scores.reset();
    if (cascade) {
        state.positions = std::move(one.positions);
        state.scores = std::move(one.choice.priority);
        state.protected_ranges = std::move(one.protected_ranges);
    }
    if (one.shrinks) { plans.push_back({one.layer, std::move(one.choice.keep)}); }
}

Result<std::vector<LayerPlan>> EvictionPass::cascade() {
    if (!impl_->cascade || impl_->done) {
        return Status(ErrorCode::kInternal, "eviction: cascade() belongs to an unfinished pass made with cascade = true");
    }
    if (!impl_->cuts_early()) {
        return std::vector<LayerPlan>{};  // all at once, in finish()
    }
    return impl_->plan(false);
}

Result<std::vector<LayerPlan>> EvictionPass::finish() {
    Impl & self = *impl_;
    if (self.done || self.n_added != self.target.shape.n_layers) {
        return Status(ErrorCode::kInternal, "eviction: finish() came after " + std::to_string(self.n_added) + " of " +
                                                std::to_string(self.target.shape.n_layers) + " layers, or a second time");
    }
    self.done = true;
    return self.plan(true);
}

}  // namespace pith
