// run_plan.h - turns what the user asked for into entries and a schedule, once, when the prompt is known. Stage: schedule.
// Pure C++: no ggml, no I/O.
//
// Bytes bound the peak: (budget + headroom) entries a lane, and two partly used pages a lane (one of K, one of V), fit in them.
// Headroom is what arrives between two evictions: the chunk and the question that guides it, or evict_every decoded tokens; on
// a grid its distance. What layers with a window and recurrent ones take is left out of the bytes first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "pith/budget.h"
#include "pith/prefill_schedule.h"
#include "pith/status.h"

namespace pith {

inline constexpr double kUsableMemory = 0.9;  // of the free memory; the rest is for what nobody counts

struct RunRequest {
    Budget budget;              // not kAuto: whoever plans says how many bytes those are
    bool is_auto = false;       // bytes that nobody asked for: a policy that keeps all may have them
    bool evicts = false;        // the policy drops entries at all
    bool gated = false;         // gates decide what is cached
    bool whole_prompt = false;  // a gate must see the prompt whole, so it cannot go in chunks
    PrefillSchedule prefill = PrefillSchedule::kAuto;
    int chunk = kDefaultChunk;
    int evict_every = kDefaultEvictEvery;
    int grid = 0;  // tokens between evictions, wherever calls begin and end; 0: none
    int64_t n_prompt = 0;
    // Tokens behind which kept keys turn, where they do: a longer prompt goes in chunks, or its end would stand past them. 0:
    // no end.
    int64_t n_before_turn = 0;
    // The policy evicts by what the text pays to itself when it is read again: piece by piece, each behind so many tokens that
    // ask for it, and all of that is taken back.
    bool rereads = false;
    int n_reread_prompt = 0;
    // A prompt looks back at what was evicted, a layer at a time: at so many entries of a lane, or fewer where bytes do not
    // hold them. 0: it does not.
    int64_t n_back = 0;
    int64_t n_protected = 0;  // tokens per head that no budget in bytes may come to less than
    int n_question = 0;       // tokens at the prompt's end that ask; 0: not known
    bool taken_back = false;  // those come behind the prompt, not at its end, and none of them stays
    size_t free_bytes = 0;    // memory that is left now; 0: not known
    size_t free_addresses =
        0;                   // and of addresses, beside a chunk's: a one-shot prefill reserves the whole prompt; 0: not limited
    size_t state_bytes = 0;  // what a one-shot prefill holds of every token beside its KV: the hidden state
    int n_lanes = 0;         // layers · KV heads
    int n_kv_heads = 0;
    size_t entry_bytes = 0;  // one entry's K and V rows
    size_t page_bytes = 4096;
    // What layers that no policy governs take while so many tokens are on their way; empty: nothing.
    std::function<size_t(int64_t n_new)> ungoverned_bytes;
};

// A prompt that is read again goes in pieces of so many tokens where the whole cache is held until then, else in chunks.
inline constexpr int kRereadPiece = 2048;

// What comes back of a layer while a prompt looks back is there so often: where it was read to, and in the lanes.
inline constexpr int kTimesBack = 2;

struct RunPlan {
    int64_t budget = 0;  // mean entries per lane; 0: nothing is ever evicted
    bool one_shot = false;
    int chunk = 0;
    int evict_every = 0;  // 0: no eviction in decode
    int grid = 0;         // evict at its multiples, but for a first prompt in one shot or guided; 0: none
    int n_guide = 0;      // of a chunked prefill: tokens of the question that every chunk is judged by; 0: none
    int n_reread = 0;     // tokens that run behind what an eviction weighs, and are taken back: a piece that is read again
    // Evicted entries of a lane that may be back at a time while a prompt is read; 0: none.
    int64_t most_back = std::numeric_limits<int64_t>::max();
    int64_t capacity = 0;  // tokens that memory holds where nothing is evicted and the budget is what it allows; 0: not bounded
    // On a grid, of a budget in per cent: the budget follows the text, so that what is kept does not depend on where a prompt
    // ends: so much of the tokens read, and no less than `least`; `budget` is that of the first prompt. 0: it stays.
    double share = 0;
    int64_t least = 0;

    // Tokens between two evictions, at most, in a first prompt or behind it.
    int64_t longest_period() const { return std::max(period(), period_of_prompt()); }

    // Once so many tokens have been read.
    int64_t budget_at(int64_t n_tokens) const {
        return share > 0 ? std::max(least, static_cast<int64_t>(static_cast<double>(n_tokens) * share + 0.5)) : budget;
    }

    // And with what comes until the next eviction; 0: no bound, as answers are not evicted.
    int64_t most_at(int64_t n_tokens) const {
        return budget == 0 || evict_every == 0 ? 0 : budget_at(n_tokens) + longest_period();
    }

    // Whether lanes go back to their budget behind a first prompt, n_tokens fed in all and since_eviction since the last time.
    bool is_due(int64_t n_tokens, int64_t since_eviction) const {
        return evict_every > 0 && (grid > 0 ? n_tokens % grid == 0 : since_eviction >= evict_every);
    }
    // Tokens that are read again at a time, where it evicts: on a grid its distance, so that it does not matter how they came.
    int piece_to_reread() const { return one_shot ? kRereadPiece : grid > 0 ? grid : std::min(chunk, kRereadPiece); }
    // Tokens that come between two evictions, at most, behind a first prompt; 0: no eviction there.
    int64_t period() const { return evict_every == 0 ? 0 : grid > 0 ? grid : std::max(chunk, evict_every); }
    // The same in a first prompt that is read in chunks.
    int64_t period_of_prompt() const { return grid > 0 && n_guide == 0 ? grid : int64_t{chunk} + n_guide; }
};

// The grid of whoever asked for none, where `grid` is the usual one: a small budget is kept in steps no larger than itself.
int grid_for(int grid, const Budget & budget);

// The last end of a chunk at n tokens or before, of a text that is read from its beginning.
int64_t chunk_end_before(const RunPlan & plan, int64_t n);

// For the ledger: "one-shot", "in chunks", …   seen: the question was.
std::string name_of_schedule(const RunPlan & plan, bool seen);

// Errors: kInvalidArgument (a budget without an evicting policy or the other way round, chunk < 1, evict_every or grid < 0,
//         chunks asked for where the prompt must be seen whole);
//         kBudget when the bytes do not hold what the schedule needs (names both).
Result<RunPlan> plan_run(const RunRequest & request);

}  // namespace pith
