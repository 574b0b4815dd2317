// scorer.h - a scorer turns the evidence of one layer into one number per entry. Stage: score.
// Pure C++: no ggml, no I/O.
//
//   scores       f32 [K][lane length]   higher = keep; finite, else the eviction fails and names the entry
//   head scores  f32 [H][lane length]   the same before query heads are reduced to their KV head, where a scorer has it
// Errors:  kMissingEvidence when the evidence lacks what needs() asks for (out is then unspecified).
// Cost:    O(entries of the evidence rows it reads), scratch of one row.   Threads: immutable, const-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ragged.h"
#include "pith/status.h"
#include "policy/evidence/evidence.h"
#include "policy/evidence/require_rows.h"
#include "policy/part/part.h"

namespace pith {

class Scorer {
public:
    virtual ~Scorer() = default;

    virtual bool evicts() const { return true; }  // false: keeps all (`full`)
    // true: scores order entries by position and do not say how much one matters, so nothing that compares scores may use them.
    virtual bool by_position() const { return false; }
    // true: a score means the same in every text, and does not change with what else is cached, so that a threshold can be put
    // to it: a share of attention, or a probability.
    virtual bool is_absolute() const { return false; }
    virtual bool is_custom() const { return false; }    // true: its user's function, which its name does not tell elsewhere
    virtual EvidenceNeeds needs() const { return {}; }  // only this is captured
    virtual int n_sinks() const { return 0; }           // original positions below this are protected
    virtual int n_recent(int64_t /*budget*/) const { return 0; }  // newest entries of each lane that are protected

    // Overwrites `scores` [K].
    virtual Status score(const LayerEvidence & evidence, Ragged<float> & scores) const = 0;

    // Overwrites `scores` [H]. REQUIRES: has_head_scores().
    virtual bool has_head_scores() const { return false; }
    virtual Status score_heads(const LayerEvidence & /*evidence*/, Ragged<float> & /*scores*/) const {
        return {ErrorCode::kInternal, "this scorer has no scores per query head"};
    }
};

using ScorerInfo = PartInfo<Scorer>;

// An empty [K] result of the lanes' lengths.
Ragged<float> make_lane_scores(const LayerEvidence & evidence);

}  // namespace pith
