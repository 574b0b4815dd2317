// sequence.cpp - transactions: the mark at the beginning, compactions in between, and the way back. Stage: engine.
#include "engine/sequence/sequence.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "core/guarded.h"

namespace pith {
namespace {

uint64_t next_id() {
    static std::atomic<uint64_t> n_sequences{0};
    return ++n_sequences;
}

std::vector<LayerKeep> keeps_of(std::span<const LayerPlan> plans) {
    std::vector<LayerKeep> keeps;
    for (const LayerPlan & one : plans) { keeps.push_back({one.layer, &one.keep}); }
    return keeps;
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

void Sequence::become(SequenceAtRest from) noexcept {
    ++n_moves_;
    static_cast<SequenceState &>(*this) = std::move(from.state);
    cache = std::move(from.cache);
    logits = std::move(from.logits);
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
        back.states = states;
    }
    back.open = true;
}

void Sequence::commit() noexcept {
    if (cache && !way_back_.dropped.empty()) { cache->let_go_of_room(); }
    way_back_.open = false;
    way_back_.state.reset();
    way_back_.running.clear();
    way_back_.states = {};
    way_back_.dropped.clear();
    way_back_.turned.clear();
}

size_t Sequence::undo_evidence_bytes() const {
    const WayBack & back = way_back_;
    size_t n = 0;
    for (const SharedRow & sums : back.running) { n += sums.size_bytes(); }
    return back.state ? n + back.state->evidence.size_bytes() : n;
}

size_t Sequence::undo_bytes() const {
    const WayBack & back = way_back_;
    size_t n = undo_evidence_bytes() + back.lengths.capacity() * sizeof(int) + back.running.capacity() * sizeof(SharedRow) +
               (back.state ? back.state->states : back.states).bytes_beside(states);
    for (const RestingLanes & entries : back.dropped) { n += entries.memory_bytes(); }
    for (const TurnBack & turn : back.turned) { n += turn.keys.memory_bytes(); }
    return n;
}

size_t Sequence::bookkeeping_bytes() const {
    return logits.capacity() * sizeof(float) + gate_state.size_bytes() + tokens.size_bytes() +
           (cache ? cache->bookkeeping_bytes() : 0) + (looked_for ? looked_for->size_bytes() : 0);
}

void Sequence::truncate(std::span<const int> lengths) noexcept {
    ++n_moves_;
    for (int l = 0; l < cache->layout().n_layers(); ++l) {
        const auto n_kv = static_cast<size_t>(cache->n_kv_heads(l));
        cache->truncate(0, l, lengths.first(n_kv));
        lengths = lengths.subspan(n_kv);
    }
}

void Sequence::rollback() noexcept {
    WayBack & back = way_back_;
    if (!back.open) { return; }
    ++n_moves_;
    if (!back.had_cache || back.anew) {
        cache.reset();
    } else {
        const auto end = static_cast<int32_t>(back.n_tokens);
        for (int l = 0; l < cache->layout().n_layers(); ++l) { cache->truncate_to_positions(0, l, end); }
        // The newest first: what was dropped behind a turn comes back before the turn is taken back.
        size_t i = back.dropped.size();
        for (size_t turn = back.turned.size(); turn-- > 0;) {
            while (i > back.turned[turn].n_dropped) { cache->put_back(0, back.dropped[--i]); }
            cache->swap_keys(back.turned[turn].keys);
        }
        while (i > 0) { cache->put_back(0, back.dropped[--i]); }
    }
    if (back.state) {
        static_cast<SequenceState &>(*this) = std::move(*back.state);
    } else {
        if (back.anew) {
            states = {};
        } else {
            evidence.restore_running(back.running);
            states = std::move(back.states);
        }
        n_tokens = back.n_tokens;
        since_eviction = back.since_eviction;
        tokens.truncate(static_cast<size_t>(back.n_tokens));
    }
    commit();
}

Result<int64_t> Sequence::compact(std::span<const LayerPlan> plans, bool evicts, bool is_last, const RunTasks & run_tasks) {
    const std::vector<LayerKeep> keeps = keeps_of(plans);
    PITH_RETURN_IF_ERROR(save_snapshots_before_compaction(Layers::kGoverned));
    for (const LayerPlan & one : plans) { evidence.prepare_compact(one.layer, one.keep); }
    ColdStore cold_then = cold;
    if (evicts && cold.on()) { PITH_RETURN_IF_ERROR(cold_then.add_dropped(*cache, keeps)); }
    if (!is_last) { PITH_RETURN_IF_ERROR(remember_dropped(keeps)); }
    ++n_moves_;
    const int64_t n_gone = cache->compact(0, keeps, run_tasks);
    for (const LayerPlan & one : plans) { evidence.compact(one.layer, one.keep, evicts); }
    cold = std::move(cold_then);
    ++epoch(Layers::kGoverned);
    return n_gone;
}

// Entries of every lane of the layer that have left its window: all of its lanes are alike.
int Sequence::n_behind_window(int layer, int64_t next_position) const noexcept {
    if (cache->layout().window(layer) == 0) { return 0; }
    const auto positions = cache->positions(cache->lane(0, layer, 0));
    const int32_t begin = cache->layout().window_begin(layer, next_position);
    return static_cast<int>(std::ranges::lower_bound(positions, begin) - positions.begin());
}

bool Sequence::trims(int64_t next_position) const noexcept {
    if (cache->layout().governs_all()) { return false; }
    for (int l = 0; l < cache->layout().n_layers(); ++l) {
        if (n_behind_window(l, next_position) > 0) { return true; }
    }
    return false;
}

Status Sequence::prepare_trim(int begin, int end, int64_t next_position, bool is_last) {
    if (cache->layout().governs_all()) { return {}; }
    std::vector<LayerPlan> plans;
    std::vector<int32_t> row;
    for (int l = begin; l < end; ++l) {
        const int n_gone = n_behind_window(l, next_position);
        if (n_gone == 0) { continue; }
        row.resize(static_cast<size_t>(cache->length(cache->lane(0, l, 0)) - n_gone));
        std::iota(row.begin(), row.end(), n_gone);
        LayerPlan & one = plans.emplace_back();
        one.layer = l;
        for (int h = 0; h < cache->n_kv_heads(l); ++h) { one.keep.push_row(row); }
    }
    if (plans.empty()) { return {}; }
    PITH_RETURN_IF_ERROR(save_snapshots_before_compaction(Layers::kWindows));
    return is_last ? Status() : remember_dropped(keeps_of(plans));
}

void Sequence::trim(int begin, int end, int64_t next_position) noexcept {
    if (cache->layout().governs_all()) { return; }
    bool any = false;
    for (int l = begin; l < end; ++l) {
        const int n_gone = n_behind_window(l, next_position);
        if (n_gone == 0) { continue; }
        cache->drop_first(0, l, n_gone);
        any = true;
    }
    if (any) {
        ++epoch(Layers::kWindows);
        ++n_moves_;
    }
}

Spill Sequence::aside() const {
    const bool bounded = has_ceiling || budget.kind == BudgetKind::kBytes || budget.kind == BudgetKind::kAuto;
    return bounded ? Spill::kFile : Spill::kMemory;
}

void Sequence::count_peak(size_t beside) noexcept {
    size_t bytes = cache->allocated_bytes() + saved_bytes() + beside;
    for (const RestingLanes & one : way_back_.dropped) { bytes += one.memory_bytes(); }
    for (const TurnBack & one : way_back_.turned) { bytes += one.keys.memory_bytes(); }
    peak_bytes_ = std::max(peak_bytes_, bytes);
}

// Where the open call would put it back.
Status Sequence::remember_dropped(std::span<const LayerKeep> keeps) {
    if (!way_back_.open || way_back_.n_tokens == 0 || way_back_.anew) { return {}; }
    const auto end = static_cast<int32_t>(way_back_.n_tokens);
    PITH_RETURN_IF_ERROR(cache->make_whole(keeps));
    PITH_ASSIGN_OR_RETURN(RestingLanes entries, cache->save_dropped(0, keeps, end, aside()));
    if (entries.n_entries() > 0) { way_back_.dropped.push_back(std::move(entries)); }
    if (!way_back_.dropped.empty()) { cache->hold_room(); }
    count_peak(0);
    return {};
}

// Of lanes that hold more entries then.
Status Sequence::hold_room_for(const Swap & swap) const {
    auto back = swap.back.positions.begin();
    for (const LayerPlan & plan_of_layer : swap.plans) {
        std::vector<int64_t> then;
        for (int h = 0; h < cache->n_kv_heads(plan_of_layer.layer); ++h) {
            then.push_back(std::ssize(plan_of_layer.keep.row(h)) + std::ssize(*back++));
        }
        PITH_RETURN_IF_ERROR(cache->hold_room(0, plan_of_layer.layer, then));
    }
    return {};
}

Status Sequence::swap(Swap swap, const RunTasks & run_tasks) {
    PITH_RETURN_IF_ERROR(save_snapshots_before_compaction(Layers::kGoverned));
    PITH_RETURN_IF_ERROR(cache->make_whole());
    Status has_room = guarded([&] { return hold_room_for(swap); });
    if (!has_room.ok()) {
        cache->let_go_of_room();
        return has_room;
    }
    count_peak(swap.back.memory_bytes());
    ++n_moves_;
    cache->hold_room();  // nothing fails from here on
    cache->compact(0, keeps_of(swap.plans), run_tasks);
    cache->put_back(0, swap.back);
    cache->let_go_of_room();
    evidence = std::move(swap.evidence);
    cold = std::move(swap.cold);
    ++epoch(Layers::kGoverned);
    return {};  // a device that has failed meanwhile says so when it is next asked
}

Status Sequence::turn(TurnedKeys keys, EvidenceState turned, bool is_last) {
    for (const Layers which : {Layers::kGoverned, Layers::kWindows}) {
        PITH_RETURN_IF_ERROR(save_snapshots_before_compaction(which));
    }
    PITH_RETURN_IF_ERROR(cache->make_whole());
    way_back_.turned.reserve(way_back_.turned.size() + 1);
    count_peak(keys.memory_bytes());
    ++n_moves_;
    cache->swap_keys(keys);  // nothing fails from here on
    evidence = std::move(turned);
    for (uint64_t & one : epochs_) { ++one; }
    // Also where what is dropped has no way back: a token that fails is fed again, and its keys must stand where they stood.
    const bool may_go_back = way_back_.open && way_back_.n_tokens > 0 && !way_back_.anew;
    if (may_go_back && !is_last) { way_back_.turned.push_back({std::move(keys), way_back_.dropped.size()}); }
    return cache->health();
}

}  // namespace pith
