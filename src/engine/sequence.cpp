// sequence.cpp - transactions: the mark at the beginning, compactions in between, and the way back. Stage: engine.
#include "engine/sequence.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

namespace pith {
namespace {

uint64_t next_id() {
    static std::atomic<uint64_t> n_sequences{0};
    return ++n_sequences;
}

}  // namespace

Sequence::Sequence() : id_(next_id()) {}

std::vector<int> Sequence::lane_lengths() const {
    std::vector<int> lengths;
    read_lengths(lengths);
    return lengths;
}

void Sequence::read_lengths(std::vector<int> & to) const {
    to.resize(cache ? static_cast<size_t>(cache->n_lanes()) : 0);
    for (size_t i = 0; i < to.size(); ++i) { to[i] = cache->length(static_cast<int>(i)); }
}

void Sequence::begin(Reach reach) {
    WayBack & back = way_back_;
    back.had_cache = cache != nullptr;
    back.n_tokens = n_tokens;
    back.since_eviction = since_eviction;
    read_lengths(back.lengths);  // into what it had: a decoded token allocates nothing
    back.anew = reach == Reach::kAnew;
    if (reach == Reach::kAll) {
        back.state.emplace(*this);
    } else if (reach == Reach::kOneToken) {
        evidence.save_running(back.running);
        evidence.prepare_token(*cache, 0);
    }
    back.open = true;
}

void Sequence::commit() noexcept {
    way_back_.open = false;
    way_back_.state.reset();
    way_back_.running.clear();
    way_back_.removed.clear();
}

size_t Sequence::undo_bytes() const {
    const WayBack & back = way_back_;
    size_t n = back.lengths.capacity() * sizeof(int) + back.running.capacity() * sizeof(SharedRow);
    for (const SharedRow & sums : back.running) { n += sums.size_bytes(); }
    if (back.state) { n += back.state->evidence.size_bytes(); }
    for (const RemovedEntries & entries : back.removed) { n += entries.rows.memory_bytes(); }
    return n;
}

size_t Sequence::bookkeeping_bytes() const {
    return logits.capacity() * sizeof(float) + gate_state.size_bytes() + tokens.size_bytes() +
           (cache ? cache->bookkeeping_bytes() : 0);
}

void Sequence::truncate(std::span<const int> lengths) noexcept {
    const auto n_kv = static_cast<size_t>(cache->layout().shape.n_kv_heads);
    for (int l = 0; l < cache->layout().shape.n_layers; ++l) {
        cache->truncate(0, l, lengths.subspan(static_cast<size_t>(l) * n_kv, n_kv));
    }
}

void Sequence::rollback() noexcept {
    WayBack & back = way_back_;
    if (!back.open) { return; }
    if (!back.had_cache || back.anew) {
        cache.reset();
    } else {
        const auto end = static_cast<int32_t>(back.n_tokens);
        for (int l = 0; l < cache->layout().shape.n_layers; ++l) { cache->truncate_to_positions(0, l, end); }
        for (const RemovedEntries & entries : back.removed) { cache->put_back(0, entries); }
    }
    if (back.state) {
        static_cast<SequenceState &>(*this) = std::move(*back.state);
    } else {
        if (!back.anew) { evidence.restore_running(back.running); }
        n_tokens = back.n_tokens;
        since_eviction = back.since_eviction;
        tokens.truncate(static_cast<size_t>(back.n_tokens));
    }
    commit();
}

Result<int64_t> Sequence::compact(std::span<const LayerPlan> plans, bool evicts, bool is_last, const RunTasks & run_tasks) {
    std::vector<LayerKeep> keeps;
    for (const LayerPlan & one : plans) { keeps.push_back({one.layer, &one.keep}); }
    save_snapshots_before_compaction();
    for (const LayerPlan & one : plans) { evidence.prepare_compact(one.layer, one.keep); }
    if (way_back_.open && way_back_.n_tokens > 0 && !is_last && !disposable) { PITH_RETURN_IF_ERROR(remember_removed(plans)); }
    const int64_t n_gone = cache->compact(0, keeps, run_tasks);
    for (const LayerPlan & one : plans) { evidence.compact(one.layer, one.keep, evicts); }
    ++epoch_;
    return n_gone;
}

Status Sequence::remember_removed(std::span<const LayerPlan> plans) {
    const auto end = static_cast<int32_t>(way_back_.n_tokens);
    // A ceiling in bytes is all that lanes may take: there is no memory for what they drop.
    const bool has_ceiling = budget.kind == BudgetKind::kBytes || budget.kind == BudgetKind::kAuto;
    std::vector<RemovedEntries> removed;
    for (const LayerPlan & one : plans) {
        PITH_ASSIGN_OR_RETURN(RemovedEntries entries,
                              cache->copy_removed(0, one.layer, one.keep, end, has_ceiling ? Spill::kFile : Spill::kMemory));
        if (!entries.empty()) { removed.push_back(std::move(entries)); }
    }
    way_back_.removed.reserve(way_back_.removed.size() + removed.size());
    std::ranges::move(removed, std::back_inserter(way_back_.removed));
    size_t bytes = cache->allocated_bytes() + saved_bytes();
    for (const RemovedEntries & entries : way_back_.removed) { bytes += entries.rows.memory_bytes(); }
    peak_bytes_ = std::max(peak_bytes_, bytes);
    return {};
}

}  // namespace pith
