// repair.h - a question looks for what was evicted: that is told, and comes back, in place of what it does not look for. Stage:
// engine.
//
// The question runs behind the lanes as queries only (second_reading.h); what these pay to each lane's entries, kept and cold
// in one softmax (cold_scores.h), decides which of them it holds; all together hold as many as before (policy/lane/swaps.h).
// Nothing else changes: the question is read behind it as any other. Whatever fails, the sequence is as before. Cost: a pass
// over the question, and over the evicted keys on disk. Memory: a lane's keys at a time, in f16; 4 bytes for each cold entry;
// the rows that come back, in a file where the budget is a ceiling in bytes.
//
// Source:  RepairKV.
// Differs: policy/lane/swaps.h.
#pragma once

#include <cstdint>
#include <span>

#include "engine/pass/live_session.h"

namespace pith {

// Of a question that looks for what was evicted, tokens that are asked: the newest; where it ends it asks.
inline constexpr int64_t kMostLookingTokens = 64;

// Session::repair().
Status repair_for(LiveSession & session, std::span<const int32_t> question, bool brings_back);

}  // namespace pith
