// reread.h - what is new in the lanes is read once more behind them, and what that pays to each entry is remembered. Stage:
// attention → evidence.
//
// For policies that keep what a repetition of the text looks up, whatever will be asked. It comes right before an eviction,
// piece by piece: the words that ask for the piece, then the piece itself, as queries behind all that the lanes hold. Lanes,
// evidence and states are afterwards, bit for bit, what they were, but for the evidence that was asked for.
// Cost: a pass over the new tokens and the words, whose queries see all entries. Memory: lanes grow by a piece and the words
// (RunPlan::n_reread), and the piece's hidden states and one layer's queries are held.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/pass/live_session.h"

namespace pith {

using ReadAgainProgress = std::function<void(int64_t n_done, int64_t n_total)>;  // tokens

// Nothing, where no policy wants it.
Status read_again(LiveSession & session, const ReadAgainProgress & progress = {});
// Of the newest entries, how many were not read again yet.
int64_t n_unread(const LiveSession & session);

}  // namespace pith
