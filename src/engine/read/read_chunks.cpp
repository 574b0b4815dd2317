// read_chunks.cpp - where chunks end, and the eviction there.
#include "engine/read/read_chunks.h"

#include <algorithm>

#include "engine/evict/evict.h"
#include "engine/evict/reread.h"
#include "engine/evict/turn.h"

namespace pith {

ChunkReader::ChunkReader(LiveSession & session, std::span<const int32_t> tokens, bool first)
    : session_(session),
      tokens_(tokens),
      first_(first),
      evicts_(session.seq.evicts() && (first || session.seq.plan->evict_every > 0)),
      grid_(session.seq.plan->grid),
      n_context_(std::ssize(tokens)) {
    const RunPlan & plan = *session.seq.plan;
    if (first && evicts_ && plan.n_guide > 0) {
        question_ = !session.observers.empty() ? session.observers : tokens.last(static_cast<size_t>(plan.n_guide));
        if (session.observers.empty()) { n_context_ -= std::ssize(question_); }
        grid_ = 0;
    }
    begin_chunk();
}

void ChunkReader::begin_chunk() {
    const RunPlan & plan = *session_.seq.plan;
    const int64_t n = std::ssize(tokens_);
    int64_t m = std::min<int64_t>(plan.chunk, n - n_done_);
    if (grid_ > 0) {
        m = std::min<int64_t>(m, grid_ - session_.seq.n_tokens % grid_);
    } else if (evicts_ && !first_) {
        // Behind a prompt in one shot bytes have room for what an answer adds between two evictions (plan/run_plan.cpp).
        const BudgetKind kind = session_.seq.budget.kind;
        const bool bounded = plan.one_shot && (kind == BudgetKind::kBytes || kind == BudgetKind::kAuto);
        const int headroom = bounded ? plan.evict_every : std::max(plan.chunk, plan.evict_every);
        m = std::min<int64_t>(m, std::max(1, headroom - session_.seq.since_eviction));
    }
    if (const auto room = room_before_turn(session_); room && *room > 0) { m = std::min(m, *room); }
    if (!question_.empty() && n_done_ < n_context_ && n_done_ + m >= n_context_) { m = n - n_done_; }
    chunk_end_ = n_done_ + m;
}

std::span<const int32_t> ChunkReader::next(int64_t most) const {
    return tokens_.subspan(static_cast<size_t>(n_done_), static_cast<size_t>(std::min(most, chunk_end_ - n_done_)));
}

bool ChunkReader::is_due(int64_t n) const {
    const bool ends_first = first_ && grid_ == 0;
    return ends_first || session_.seq.plan->is_due(session_.seq.n_tokens, session_.seq.since_eviction + static_cast<int>(n));
}

bool ChunkReader::evicts_behind(int64_t n) const {
    return n_done_ + n == chunk_end_ && question_.empty() && evicts_ && is_due(n);
}

Status ChunkReader::advance(int64_t n, bool nothing_follows) {
    Sequence & seq = session_.seq;
    n_done_ += n;
    seq.since_eviction += static_cast<int>(n);
    const auto room = room_before_turn(session_);
    const bool turns = room && *room <= 0;
    const bool is_last = done() && nothing_follows && !turns;
    // What leaves windows needs memory before an eviction that cannot be taken back, or else once that is done.
    if (is_last) { PITH_RETURN_IF_ERROR(seq.prepare_trim(0, session_.n_layers(), seq.n_tokens, is_last)); }
    const bool ends_chunk = n_done_ == chunk_end_;
    if (ends_chunk) { PITH_RETURN_IF_ERROR(end_chunk(is_last)); }
    if (!is_last) { PITH_RETURN_IF_ERROR(seq.prepare_trim(0, session_.n_layers(), seq.n_tokens, is_last)); }
    seq.trim(0, session_.n_layers(), seq.n_tokens);
    if (turns && ends_chunk) {
        PITH_RETURN_IF_ERROR(turn_if_due(session_, done() && nothing_follows));
        begin_chunk();
    }
    if (ends_chunk && seq.n_tokens == chunk_end_before(*seq.plan, seq.n_tokens)) { chunk_ended_at_ = seq.n_tokens; }
    return {};
}

Status ChunkReader::end_chunk(bool is_last) {
    if (!question_.empty() && (!done() || !session_.observers.empty())) {
        PITH_RETURN_IF_ERROR(evict_in_sight_of(session_, question_));
    } else if (evicts_ && is_due(0)) {
        PITH_RETURN_IF_ERROR(evict_all(session_, is_last));
    } else if (first_ && done() && !session_.seq.evicts()) {
        PITH_RETURN_IF_ERROR(read_again(session_));  // for evict(), where a policy to come wants it
    }
    begin_chunk();
    return {};
}

}  // namespace pith
