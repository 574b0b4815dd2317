// repair.h - a question looks for what was evicted: that is told, and comes back, in place of what it does not look for. Stage:
// engine.
//
// The question runs behind the lanes as queries only (second_reading.h); what these pay to each lane's entries, kept and cold
// in one softmax (cold_scores.h), decides which of them it holds, as many as before (policy/lane/swaps.h).
// Nothing else changes: the question is read behind it as any other. Where prompts look back (pass/look_back.h), it sees all
// that was evicted either way, and the choice may come behind it: then it is read once, and so is what was evicted. Whatever
// fails, the sequence is as before. Cost: a pass over the question, and over the evicted keys on disk; RepairBehind: a product
// of the question's queries with all keys, where all were back while they ran; else the evicted ones from disk, too. Memory: of
// a lane for each thread what cold_scores.h says; 4 bytes for each entry of the context; the rows that come back, in a file
// where the budget is a ceiling in bytes.
//
// While an answer is written, its newest tokens are asked in the same way, every so many (SessionOptions::repair_every): text
// of which the question named only the beginning, or that other text leads to, comes back when the answer looks for it. What
// the question wants counts as much as what they want, and is kept until then: 4 bytes for each entry of the context.
//
// Source:  RepairKV; entries recalled while an answer is written: ArkVale. Renze Chen et al. NeurIPS 2024.
// Differs: policy/lane/swaps.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/pass/live_session.h"
#include "engine/pass/paid_behind.h"

namespace pith {

// Of a question that looks for what was evicted, tokens that are asked: the newest; where it ends it asks.
inline constexpr int64_t kMostLookingTokens = 64;

// Session::repair().
Status repair_for(LiveSession & session, std::span<const int32_t> question, bool brings_back);

// A prompt of so many tokens begins. Unless repair_for() has just been called for it, no answer looks for anything any more.
void begin_prompt(LiveSession & session, int64_t n_tokens);
// Of a token that is fed next and was chosen: whether what the answer looks for comes back behind it.
bool answer_looks(const LiveSession & session);
// It is in the lanes. Nothing that follows in the call can fail. REQUIRES: answer_looks() before it was fed.
// Errors: as repair_for(); the call is then to be rolled back.
Status repair_answer(LiveSession & session);

// RunHooks::repair: the same for the tokens of the call at hand, which look back.
class RepairBehind {
public:
    // From here on evidence keeps what finish() asks for. n_tokens: of the call, all of which are to come.
    // REQUIRES: begin_call(), behind others.   Throws std::bad_alloc.
    RepairBehind(LiveSession & session, int64_t n_tokens);
    ~RepairBehind() { session_.asking = nullptr; }
    RepairBehind(const RepairBehind &) = delete;
    RepairBehind & operator=(const RepairBehind &) = delete;

    // They are in the lanes, or evicted. Nothing that follows in the call can fail. Errors: as repair_for(); the call is then
    // to be rolled back.
    Status finish();

private:
    LiveSession & session_;
    size_t n_asked_;
    std::vector<EvidenceNeeds> needs_before_;
    PaidBehind paid_;
};

}  // namespace pith
