// read_chunks.h - tokens on their way into a sequence, chunk by chunk: which come next, and what follows once they are in the
// lanes. Stage: schedule → evict.
//
// Every chunk goes through all layers, then every lane goes back to its budget. The first prompt is evicted after its last
// chunk too; later tokens are evicted when the headroom is used up, as decoded ones are (decode is a chunk of one). Guided
// chunks end where the question begins, or take it along where it is all that is left; observers guide the last chunk, too,
// since nothing of them stays. A chunk may come in pieces: nothing is evicted before its end. On a grid, chunks end at its
// points, and nothing is evicted elsewhere.
#pragma once

#include <cstdint>
#include <span>

#include "engine/pass/live_session.h"
#include "pith/status.h"

namespace pith {

class ChunkReader {
public:
    // The session, and the tokens, must live as long as this. first: of an empty session.
    ChunkReader(LiveSession & session, std::span<const int32_t> tokens, bool first);

    int64_t n_done() const { return n_done_; }
    // Whether a chunk has just ended, of as many tokens as chunks have: what the session holds then, others may begin with.
    bool at_chunk_end() const { return session_.seq.n_tokens == chunk_ended_at_; }
    bool done() const { return n_done_ == std::ssize(tokens_); }
    // The rest of the chunk at hand, or its first `most` tokens. REQUIRES: !done(), most > 0.
    std::span<const int32_t> next(int64_t most) const;
    // n more tokens are in the lanes, and counted. nothing_follows: if they are the call's last, nothing in it can fail any
    // more once they are evicted.
    Status advance(int64_t n, bool nothing_follows);
    // Whether evict_all() is part of that.
    bool evicts_behind(int64_t n) const;

private:
    void begin_chunk();
    bool is_due(int64_t n) const;  // n tokens more having been counted
    Status end_chunk(bool is_last);

    LiveSession & session_;
    std::span<const int32_t> tokens_;
    std::span<const int32_t> question_;  // that judges chunks; empty: none
    bool first_;
    bool evicts_;
    int grid_;           // 0: none, or a question judges
    int64_t n_context_;  // tokens before the question
    int64_t n_done_ = 0;
    int64_t chunk_end_ = 0;
    int64_t chunk_ended_at_ = -1;  // of the session's tokens
};

}  // namespace pith
