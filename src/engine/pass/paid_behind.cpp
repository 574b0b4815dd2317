// paid_behind.cpp - one observation a layer and chunk, added up.
#include "engine/pass/paid_behind.h"

#include <algorithm>

#include "engine/pass/live_session.h"
#include "evidence/observe.h"

namespace pith {

PaidBehind::PaidBehind(const LiveSession & session, int32_t end_of_context, int32_t first)
    : end_of_context_(end_of_context),
      first_(first),
      paid_(static_cast<size_t>(session.seq.cache->n_lanes())),
      n_seen_(static_cast<size_t>(session.n_layers())) {}

Status PaidBehind::add(LiveSession & session, int layer, bool is_whole) {
    const Sequence & seq = session.seq;
    const RaggedCache & cache = *seq.cache;
    const KeptQueries & kept = seq.evidence.layer(layer).queries;
    const auto all = kept.positions();
    const auto first = static_cast<int32_t>(std::max<int64_t>(first_, seq.n_tokens));  // of this chunk
    const auto positions = all.subspan(static_cast<size_t>(std::ranges::lower_bound(all, first) - all.begin()));
    whole_ = whole_ && is_whole;
    if (positions.empty() || !whole_) { return {}; }
    Observed seen;
    const std::vector<float> queries = kept.newest(positions.size());
    PITH_RETURN_IF_ERROR(
        observe_queries(session.forward->observer(), cache, 0, layer, queries.data(), positions, {.column_sum = true}, seen));
    const int n_group = session.layout.lanes(layer).n_group;
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
        const int lane = cache.lane(0, layer, h);
        const auto entries = cache.positions(lane);
        const auto n_context = static_cast<size_t>(std::ranges::lower_bound(entries, end_of_context_) - entries.begin());
        std::vector<float> & paid = paid_[static_cast<size_t>(lane)];
        whole_ = whole_ && (paid.empty() || paid.size() == n_context);  // else some has been lost, for want of room on disk
        paid.resize(n_context);
        for (int g = 0; g < n_group; ++g) {
            const auto sums = seen.column_sum.row(h * n_group + g);
            for (size_t i = 0; i < n_context; ++i) { paid[i] += sums[i]; }
        }
    }
    n_seen_[static_cast<size_t>(layer)] += std::ssize(positions);
    return {};
}

bool PaidBehind::is_whole(const LiveSession & session, int64_t n) const {
    return whole_ && std::ranges::all_of(session.governed, [&](int layer) { return n_seen_[static_cast<size_t>(layer)] == n; });
}

}  // namespace pith
