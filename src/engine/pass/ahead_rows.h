// ahead_rows.h - rows that ran before their tokens were chosen. Stage: engine.
//
// The pass of a token may carry a draft of those that come next, each a row of its own that sees those in front of it. When it
// ends, their entries leave the lanes again, but stay where they lie, behind the lanes' ends; what evidence would be told of
// them, and their logits, are put down here. If then the token that is fed is the one that was drafted, its row is taken in
// place of a pass: all is as if it had run by itself, bit for bit, since a row is the same in any pass. Whatever else happens
// to the sequence, a pass or entries that move, ends them. So nobody sees tokens that were drafted and not chosen: neither
// evictions nor evidence, snapshots, files or counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/pass/pass_layer.h"
#include "engine/sequence/sequence.h"

namespace pith {

// What a row leaves beside its entries.
struct AheadRow {
    int32_t token = 0;
    std::vector<float> logits;             // [n_vocab]
    std::vector<float> queries;            // [layer][H][d], where evidence wants them
    std::vector<PartReads> reads;          // [layer]
    std::vector<std::vector<float>> sums;  // [layer][H] what it pays to each entry, where evidence adds that up

    size_t size_bytes() const;
};

// Of one sequence.
class AheadRows {
public:
    // Before the pass: rows for these tokens. They are there once the pass has ended, and keep() says so.
    std::span<AheadRow> begin(std::span<const int32_t> tokens, size_t n_vocab);
    // The first n of them are good to take behind the sequence as it stands.
    void keep(const Sequence & seq, size_t n);
    void drop() { n_left_ = 0; }

    // Whether the row of the sequence's next token is there, and is this token's.
    bool has(const Sequence & seq, int32_t token) const;
    // REQUIRES: has(). The row's entries come into the lanes, and evidence is told; logits become the row's.
    // Throws std::bad_alloc; the lanes may then hold the entries already.
    void take(Sequence & seq, std::vector<float> & logits);

    size_t size_bytes() const;

private:
    void tell(Sequence & seq, AheadRow & row) const;

    std::vector<AheadRow> rows_;  // more than are in use, perhaps: their memory serves the next ones
    size_t next_ = 0;
    size_t n_left_ = 0;
    int64_t position_ = 0;  // of the next
    uint64_t sequence_ = 0;
    uint64_t storage_ = 0;  // RaggedCache::storage_id()
    uint64_t moves_ = 0;    // Sequence::n_moves()
};

}  // namespace pith
