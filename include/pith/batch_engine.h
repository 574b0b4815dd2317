// batch_engine.h - many sequences on one model: their tokens go through the weights together, under one ceiling for all.
//
// A step takes one token of every sequence that is answering, and fills up with pieces of the prompts that are being read: the
// weights are read once for all of them. Each sequence has its own policy, budget and lanes, as if it ran alone: what another
// does changes its logits by rounding at most. The ceiling bounds the bytes of all KV caches together: a request starts when
// what its prompt and the beginning of its answer need fits, and waits until then; one that can never fit is refused. When a
// request of higher priority waits for room, or an answer needs more than it has reserved, the entries of answers of lower
// priority, or that came later, are moved to files, and read back when there is room for all of them. The entries of kept
// requests (Request::keep) that nobody is reading are moved, too: with a folder for states (EngineOptions::cache_dir) whenever
// others need the room, without one only when an answer that was moved could not come back otherwise.
//
//   auto engine = model->engine({.ceiling = *pith::Budget::parse("512M")});                  // Result<Engine>
//   auto first  = engine->submit({.tokens = a, .options = {.policy = "snapkv", .budget = 512}});
//   auto second = engine->submit({.tokens = b, .options = {.policy = "snapkv", .budget = 512}});
//   engine->run();                                                                            // until all have answered
//   engine->answer(*first);                                                                   // token ids
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pith/budget.h"
#include "pith/kv_type.h"
#include "pith/ledger.h"
#include "pith/session.h"
#include "pith/status.h"

namespace pith {

inline constexpr int kDefaultBatchRows = 512;
inline constexpr uint64_t kDefaultCacheBytes = uint64_t{8} << 30U;

struct EngineOptions {
    KvType type_k = KvType::kF16;
    KvType type_v = KvType::kF16;
    bool rotate_kv = true;  // as SessionOptions have it
    int n_threads = 0;      // 0: one for each CPU that the process may use, or 1 for models under 32 MiB
    Budget ceiling;         // of all KV caches together: bytes, `auto` (what memory allows now), or none
    // For requests whose own SessionOptions::grid is 0. On a grid, what a sequence keeps depends on nothing but its tokens.
    // 0: no grid.
    int grid = kDefaultGrid;
    int max_rows = kDefaultBatchRows;  // tokens of a step; where more sequences answer than that, one of each all the same
    int max_sequences = 0;             // that run at a time; 0: as many as fit
    // The folder where states are stored (docs/caches.md); made if it does not exist; empty: none are stored. When a prompt
    // begins like one that was read before, by this process or another, the stored state of that beginning is loaded instead
    // of reading it again. Two kinds are stored:
    //   - at the ends of chunks, if the state depends on nothing but the tokens before it: the policy evicts on a grid or
    //     never, has not seen a question, and no gate that evicts was asked;
    //   - otherwise (prompts read in one shot, evictions off the grid) the state of the whole prompt, which only the same
    //     prompt finds.
    // Together they take at most cache_bytes; the least recently used goes first.
    std::string cache_dir;
    uint64_t cache_bytes = kDefaultCacheBytes;
    // The most bytes of such states, evidence and positions included, that stay in memory when no request uses them, with a
    // folder or without one. They count towards the ceiling, but are dropped, least recently used first, before any request
    // has to wait. 0: none stay.
    uint64_t cache_memory_bytes = 0;
};

// What a policy keeps of a prompt that was read in full (Session::evict()).
struct Eviction {
    PolicyChoice policy;
    Budget budget;
};

struct Request {
    std::vector<int32_t> tokens;
    // Policy, budget, schedule, pinned tokens, head importances. `observe` names the policies that later requests may give as
    // `evict`. Unused here are K/V types and threads (EngineOptions has its own) and `n_snapshots`; a budget of `auto` is
    // refused (EngineOptions::ceiling can be `auto` instead).
    SessionOptions options;
    int n_question = 0;  // the last so many tokens ask (RunHooks::n_question)
    // The number of a request to go on from; 0: begin anew. That request must be done, and have been submitted with `keep`.
    // `tokens` then follow its prompt and its answer (but for the answer's last token, which was chosen and never read).
    // Policy, budget and the rest of `options` are those of that request. Any number of requests may go on from one: they read
    // its entries where they lie and copy a page only when they write to it, so a prompt that many share is read and stored
    // once. `tokens` may be empty: the answer is then what follows that prompt, and the request waits in that one's place.
    int64_t after = 0;
    // With `after`: before its own tokens are read, entries are evicted for this request as Session::evict() would, and it goes
    // on under that policy and budget. The request that it goes on from loses nothing. So a prompt that was read once, in full,
    // can be answered under many policies side by side, if its options.observe named them. If the eviction fails, this request
    // ends, and no other.
    std::optional<Eviction> evict;
    bool keep = false;  // when it is done its entries stay, unchanged, until forget()
    // With `keep`: the tokens of the questions that later requests will ask, one question after the other. The eviction sees
    // them when it chooses what to keep; then they are removed (Session::prefill_for_questions()). Ledger::schedule says
    // whether it saw them.
    std::vector<int32_t> questions;
    // Where what is evicted is kept (SessionOptions::cold): what the prompt's newest tokens look for among it comes back within
    // the budget (Session::repair()). Of a prompt of its own this is done at the last end of a chunk that leaves them room, so
    // that the answer depends on nothing but the tokens; not where it is read in one shot, or a question was in sight. Behind
    // another request's entries it is done before the tokens are read. false: it is only told (Ledger::kv_missed), and of a
    // prompt of its own without an answer (max_tokens 0), whose questions come later, nothing is looked for. Cost: a pass over
    // these tokens, and over the evicted keys on disk; everybody else's next token waits for it. Where prompts look back
    // (SessionOptions::look_back) it is done behind these tokens, while they are read (RunHooks::repair), and costs little.
    bool repair = true;
    int max_tokens = 256;  // of the answer; 0 with `keep`: the prompt is read, no more
    // Where so long an answer could never fit beside the prompt, under the ceiling: it ends at as many tokens as could, which
    // are at least so many, or else it is refused. 0: it is refused. With `keep` and with `after` there is no such choice.
    int least_tokens = 0;
    std::vector<int32_t> stop;  // tokens that end the answer, and are no part of it
    int priority = 0;           // higher first; among equals the earlier
    // With EngineOptions::cache_dir or cache_memory_bytes: requests share stored states with requests of the same name only.
    std::string cache_name;
    // Numbers of tokens after which other prompts that begin like this one are likely to differ from it: where the system
    // prompt ends, or a document. A state is stored at the last end of a chunk before each, and always one near the prompt's
    // end. A state of a whole prompt (EngineOptions::cache_dir) is stored only if the prompt's end is named here or `keep` is
    // set.
    std::vector<int32_t> cache_at;
    bool use_cache = true;  // false: no stored state is looked for, and none is stored
    // The next token, by the logits of the newest; an error ends the request. Empty: the likeliest.
    std::function<Result<int32_t>(std::span<const float> logits)> choose;
    // Shown every token of the answer at once; false ends it. Both hooks may submit() and cancel(), but not step() or forget();
    // what they throw ends the request as an error does.
    std::function<bool(int32_t token)> on_token;
};

enum class RequestState {
    kWaiting,  // for room
    kReading,  // its prompt
    kAnswering,
    kSetAside,  // what it holds is in files without names, in EngineOptions::cache_dir or the folder for temporary files
    kDone,
    kFailed,  // status() says why
    kCancelled,
};
const char * name_of(RequestState state);

// Of all sequences together.
struct EngineLedger {
    int64_t n_waiting = 0;
    int64_t n_running = 0;    // reading or answering
    int64_t n_set_aside = 0;  // kept ones included
    int64_t n_steps = 0;
    int64_t n_prompt = 0;           // tokens read
    int64_t n_generated = 0;        // tokens of answers that were fed
    size_t ceiling_bytes = 0;       // 0: none
    size_t kv_reserved_bytes = 0;   // what the running ones need for their next tokens, the states that they share once
    size_t kv_allocated_bytes = 0;  // held now: pages, and states of recurrent layers, each counted once
    size_t kv_kept_bytes = 0;       // of these: of requests that are done and were submitted with `keep`
    // Of stored states in memory that no request uses now; not part of kv_reserved_bytes. They make room for who comes, and
    // count for that with what lies beside their K/V.
    size_t kv_idle_bytes = 0;
    size_t kv_state_bytes = 0;  // and of recurrent layers, whoever holds them
    size_t kv_peak_bytes = 0;   // the most that was ever held
    // Beside K/V, what the process's own memory holds now. The K/V of requests that are kept lies in memory files, which
    // systems count apart; so does what is read where a file of weights is mapped.
    size_t weight_bytes = 0;      // copies of weights, in the order that this processor reads best
    size_t activation_bytes = 0;  // graphs, what they compute in, hidden states
    size_t activation_peak_bytes = 0;
    size_t device_graph_bytes = 0;  // what graphs and hidden states hold of devices now
    size_t evidence_bytes = 0;      // what attention left behind for the policies, of all sequences and states
    size_t undo_bytes = 0;          // what open calls would go back to
    size_t undo_peak_bytes = 0;
    size_t sequence_bytes = 0;  // the rest of each sequence and state: tokens, positions of entries, logits
    // Of states in memory or in a folder: tokens of prompts that were looked for there, and those that were found; states that
    // were put into the folder.
    int64_t n_cache_sought = 0;
    int64_t n_cache_found = 0;
    int64_t n_cache_kept = 0;
    double step_s = 0;          // all of it
    double pass_s = 0;          // in passes over the weights, and units of layered prompts, evictions included
    double evict_s = 0;         // behind passes: evictions, choosing tokens, hooks, states to the folder
    double schedule_s = 0;      // choosing who runs: admission, rows, bookkeeping
    double prefill_s = 0;       // of step_s: for prompts. A pass over prompts and answers is divided by their tokens
    double decode_s = 0;        // the rest
    double evidence_s = 0;      // inside the two above: reading what attention leaves behind
    double units_s = 0;         // of pass_s: in units of prompts that are read layer by layer
    double longest_unit_s = 0;  // of a prompt that is read layer by layer: what its units delay other sequences' tokens by
};

// Threads: one at a time. An engine keeps its model's weights alive.
class Engine {
public:
    // Takes a request; step() or run() serve it. Returns its number.
    // Errors: kInvalidArgument (no tokens and nothing to go on from, options that a session would refuse, a budget of `auto`,
    //         n_question or max_tokens out of range, questions without `keep`, behind another's entries, or beside n_question,
    //         an eviction that cannot be), kBudget (more than the ceiling would be needed, with what the request goes on from,
    //         or an eviction's budget is below what is protected: names both).
    Result<int64_t> submit(Request request);
    // Ends a request that has not ended; its pages are free at once. Errors: kNotFound.
    Status cancel(int64_t id);
    // Forgets a request that has ended, and frees what it kept, as soon as nobody reads it who went on from it.
    // Errors: kNotFound, kInvalidArgument (it has not ended).
    Status forget(int64_t id);

    // One pass over the weights, and one unit of a prompt that is read layer by layer. true: there is more to do.
    // A sequence that fails ends alone: its state and status say so. So does one that cannot start because kept requests take
    // too much of the ceiling and nothing else runs. Errors: none of a single request's.
    // cancel: looked at throughout the step. Once it is true, what the step has begun is undone, and a later step does it
    // again: it computes the same token anew, or reads the prompt from its beginning.
    Result<bool> step(const std::atomic<bool> * cancel = nullptr);
    // Steps until there is nothing left to do. cancel: as for step(), and also looked at between steps. run() then returns
    // kCancelled, and can be called again to go on.
    Status run(const std::atomic<bool> * cancel = nullptr);

    // What is known of one request. When there is none of this number (submit() never gave it, or forget() was called),
    // status() and ledger() return kNotFound, state() kFailed, n_cached() and n_read() 0, questions_seen() false, and the
    // others an empty span.
    RequestState state(int64_t id) const;
    Status status(int64_t id) const;
    std::span<const int32_t> answer(int64_t id) const;  // valid until the next call
    Result<Ledger> ledger(int64_t id) const;
    int64_t n_cached(int64_t id) const;  // tokens of its prompt that a stored state gave, so that they were not read again
    // Tokens of its prompt that are read, those of a stored state included. Where it is read layer by layer, every layer counts
    // its share; where it is read twice, either reading half.
    int64_t n_read(int64_t id) const;
    // Once its prompt is read: whether it was compressed in the sight of Request::questions, as
    // Session::prefill_for_questions() has it.
    bool questions_seen(int64_t id) const;
    // The original positions of the entries that one lane of a running or kept sequence holds, ascending; valid until the next
    // call. Empty while the request is set aside, and when there is no such lane.
    std::span<const int32_t> lane_positions(int64_t id, int layer, int kv_head) const;

    EngineLedger ledger() const;

    Engine(Engine &&) noexcept;
    Engine & operator=(Engine &&) noexcept;
    ~Engine();

    struct Impl;

private:
    friend class Model;
    explicit Engine(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace pith
