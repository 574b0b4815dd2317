// draft_behind.cpp - how far ahead rows may run, and the n-grams that are asked.
#include "engine/read/draft_behind.h"

#include <algorithm>

#include "engine/evict/turn.h"

namespace pith {
namespace {

// Brings the n-grams up to the sequence's newest token. Where these are of another text, they begin anew: a draft may be any
// tokens at all.
void follow(NgramDraft & draft, const TokenHistory & history) {
    constexpr size_t kCompared = 16;
    const std::span<const int32_t> known = draft.tokens();
    const size_t n = history.size();
    const size_t n_compared = std::min(kCompared, known.size());
    const bool goes_on =
        known.size() < n && std::ranges::equal(known.last(n_compared), history.range(known.size() - n_compared, known.size()));
    if (!goes_on) { draft.restart(); }
    const size_t begin = draft.tokens().size();
    if (begin + 1 < n) { draft.read(history.range(begin, n - 1)); }
    draft.follow(history.range(n - 1, n).front());
}

// Rows behind the token at hand after which nothing has been evicted or brought back, no key has turned, and no lane was cut
// at its front.
int64_t most_ahead(const LiveSession & session, int64_t most) {
    const Sequence & seq = session.seq;
    const RunPlan & plan = *seq.plan;
    if (seq.evicts() && plan.evict_every > 0) {
        const int64_t until_next = plan.grid > 0 ? plan.grid - seq.n_tokens % plan.grid : plan.evict_every - seq.since_eviction;
        most = std::min(most, until_next - 1);
    }
    if (seq.looked_for && session.options.repair_every > 0 && seq.cache->shift() == 0) {
        most = std::min(most, seq.repair_at - seq.n_tokens - 1);
    }
    if (const auto room = room_before_turn(session)) { most = std::min(most, *room - 1); }
    if (plan.capacity > 0) { most = std::min(most, plan.capacity - seq.n_tokens - 1); }
    most = std::min(most, seq.cache->capacity() - seq.cache->longest() - 1);  // they are not worth larger lanes
    int64_t n = 0;
    while (n < most && !seq.trims(seq.n_tokens + 1 + n)) { ++n; }
    return n;
}

// A row more, as a share of a pass of one row. 4 rows of quantised weights cost about 1.7 times one (`scripts/measure
// product`); other rows want other experts.
PassCost cost_of(const Hparams & hparams) {
    return {hparams.n_experts > 0 ? 0.6 : 0.2};
}

}  // namespace

std::span<const int32_t> draft_behind(LiveSession & session, int64_t most, int n_others) {
    if (session.options.draft_ngram <= 0 || !can_run_ahead(session)) { return {}; }
    follow(session.draft, session.seq.tokens);
    most = most_ahead(session, std::min<int64_t>(most, session.options.draft_ngram));
    return session.draft.propose(static_cast<int>(most), n_others, cost_of(session.file->hparams()));
}

}  // namespace pith
