// batch_engine.h - many sequences on one model: their tokens go through the weights together, under one ceiling for all.
//
// A step takes one token of every sequence that is answering, and fills up with pieces of the prompts that are being read: the
// weights are read once for all of them. Each sequence has its own policy, budget and lanes, as if it ran alone: what another
// does changes its logits by rounding at most. The ceiling bounds the bytes of all KV caches together: a request starts when
// what it may come to need fits, and waits until then; one that can never fit is refused. Where a request of higher priority
// waits, answers of lower priority make room: what they hold goes to files, and comes back. Where there is a folder for them
// (EngineOptions::cache_dir), so do those of requests that are kept, while nobody reads them and others want the room; without
// one they do for an answer that made room, and would not come back otherwise.
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
    int n_threads = 0;  // 0: one for each CPU that the process may use, or 1 for models under 32 MiB
    Budget ceiling;     // of all KV caches together: bytes, `auto` (what memory allows now), or none
    // Of requests whose own SessionOptions::grid is 0: what a sequence keeps then depends on its tokens alone. 0: none.
    int grid = kDefaultGrid;
    int max_rows = kDefaultBatchRows;  // tokens of a step; where more sequences answer than that, one of each all the same
    int max_sequences = 0;             // that run at a time; 0: as many as fit
    // A folder of states (docs/caches.md); empty: none. A prompt that begins as one that was read before, by this process or
    // another, goes on from there, as if all of it had been read. Kept are states that depend on nothing but their tokens,
    // where chunks end: of whatever evicts on a grid, or never, with no question in sight and no gate asked; and of what is
    // read in one shot, or evicted elsewhere, whole prompts, which are found by the same prompt alone. All of them
    // together take at most cache_bytes; the one that nobody used for longest goes first. It is made where it is not there.
    std::string cache_dir;
    uint64_t cache_bytes = kDefaultCacheBytes;
    // The same states in memory, with a folder or without one: those that nobody goes on from any more stay, in so many bytes
    // at most, and inside the ceiling, where they go before anybody waits; the one that nobody used for longest first. 0: none
    // stays.
    uint64_t cache_memory_bytes = 0;
};

// What a policy keeps of a prompt that was read in full (Session::evict()).
struct Eviction {
    std::string policy;
    Budget budget;
};

struct Request {
    std::vector<int32_t> tokens;
    // Policy, budget, schedule, pinned tokens, head importances. K/V types and threads are the engine's; `observe` has a use
    // where `evict` of later requests has one, `n_snapshots` has none here, and a budget of `auto` is the ceiling's business.
    SessionOptions options;
    int n_question = 0;  // the last so many tokens ask (RunHooks::n_question)
    // The request to go on from, which must be done and have been submitted with `keep`: these tokens come behind its prompt
    // and what it answered (the last token of an answer is chosen, not fed). Any number of requests may go on from one. They
    // read its entries where they lie, and copy pages only where they write: a prompt that many share is read and stored once.
    // Policy, budget and the rest of `options` are then those of that request. No tokens: the answer begins with what follows
    // that prompt, and among those that wait it stands where that prompt stood. 0: begin anew.
    int64_t after = 0;
    // With `after`: before its own tokens come, this request's lanes are evicted as Session::evict() would, and it goes on
    // under that policy and budget; those of the request it goes on from stay as they are. So a prompt that is read once, in
    // full, under all policies that will be asked (options.observe), serves them all side by side. An eviction that fails
    // ends this request alone.
    std::optional<Eviction> evict;
    bool keep = false;  // when it is done its entries stay, unchanged, until forget()
    // With `keep`: the tokens of the questions that others will ask behind it, one question after the other. What is kept is
    // chosen in their sight, and they are taken back (Session::prefill_for_questions()); the ledger's schedule says whether.
    std::vector<int32_t> questions;
    int max_tokens = 256;       // of the answer; 0 with `keep`: the prompt is read, no more
    std::vector<int32_t> stop;  // tokens that end the answer, and are no part of it
    int priority = 0;           // higher first; among equals the earlier
    // With EngineOptions::cache_dir or cache_memory_bytes: states are found by requests of the same name alone, and left by
    // them for each other.
    std::string cache_name;
    // And prompts that begin as this one may part behind so many of its tokens: at the end of what a system is told, of a
    // document. A state is kept at the end of the chunk before each, and one near the prompt's end in any case. Where a state
    // stands for a whole prompt, it is kept if the prompt's end is named here, or the request is one with `keep`.
    std::vector<int32_t> cache_at;
    bool use_cache = true;  // false: no state is looked for, in memory or in a folder, and none is left
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
    size_t kv_reserved_bytes = 0;   // what the running ones may come to need, the states that they share once
    size_t kv_allocated_bytes = 0;  // held now: pages, and states of recurrent layers, each counted once
    size_t kv_kept_bytes = 0;       // of these: of requests that are done and were submitted with `keep`
    size_t kv_idle_bytes = 0;       // of states in memory that nobody goes on from now, which nothing is reserved for
    size_t kv_state_bytes = 0;      // and of recurrent layers, whoever holds them
    size_t kv_peak_bytes = 0;       // the most that was ever held
    // Beside K/V, what the process's own memory holds now. The K/V of requests that are kept lies in memory files, which
    // systems count apart; so does what is read where a file of weights is mapped.
    size_t weight_bytes = 0;      // copies of weights, in the order that this processor reads best
    size_t activation_bytes = 0;  // graphs, what they compute in, hidden states
    size_t activation_peak_bytes = 0;
    size_t evidence_bytes = 0;  // what attention left behind for the policies, of all sequences
    size_t undo_bytes = 0;      // what open calls would go back to
    size_t undo_peak_bytes = 0;
    size_t sequence_bytes = 0;  // the rest of each sequence: tokens, positions of entries, logits
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
    // cancel: seen all along. What the step had begun is taken back, and a later step does it: a token anew, a prompt from its
    // beginning.
    Result<bool> step(const std::atomic<bool> * cancel = nullptr);
    // Until nothing is left to do. cancel: as step()'s, and between steps: kCancelled, and run() can go on.
    Status run(const std::atomic<bool> * cancel = nullptr);

    // Errors of the seven: a number that submit() did not give, or forget() took, is kNotFound, kFailed, empty, 0, false.
    RequestState state(int64_t id) const;
    Status status(int64_t id) const;
    std::span<const int32_t> answer(int64_t id) const;  // valid until the next call
    Result<Ledger> ledger(int64_t id) const;
    int64_t n_cached(int64_t id) const;  // tokens of its prompt that came with a state, once it is being read
    // Once its prompt is read: whether it was compressed in the sight of Request::questions, as
    // Session::prefill_for_questions() has it.
    bool questions_seen(int64_t id) const;
    // Original positions of the entries that a lane of a running or kept sequence holds, ascending; valid until the next call.
    // None while they are set aside, and none of a lane that there is not.
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
