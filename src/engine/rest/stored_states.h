// stored_states.h - an engine's states, in memory and in a folder: which of them a prompt may begin with, and where its own are
// kept. Stage: engine.
//
// A state that is used stands for reading its tokens anew, to the bit. So those alone are kept whose entries depend on nothing
// but the tokens: no question was in sight, no gate was asked, the scorer is one of Pith's, and the budget's entries are part
// of what must be equal. Where nothing is ever evicted, or on a grid, prompts that begin alike share states, which are taken
// where a chunk ends, wherever the prompt does: what is read behind them comes in the same pieces then as if all had been read.
// Otherwise (one-shot, or chunks without a grid) what is kept depends on where the prompt ends: a state stands for a whole
// prompt, and is found by the same prompt alone. Where nothing is evicted, a state's file holds only what is in none before it.
// What was evicted and stays on disk (cold=…) lies in files beside the states, each with what is in none before it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache_file.h"
#include "cache/state_store.h"
#include "engine/pass/live_session.h"
#include "engine/rest/shared_states.h"
#include "model/model_identity.h"
#include "pith/model.h"

namespace pith {

// The places at most n_prompt where the chunks of a prompt's reader end: the last one, where entries are evicted the one
// before it, too (what lies behind the last may be a question, and others ask others), and the last before each of `wanted`.
// Ascending.
std::vector<int64_t> ends_to_store(const RunPlan & plan, int64_t n_prompt, std::span<const int32_t> wanted);

// Threads: one at a time.
class StoredStates {
public:
    struct Places {
        std::string folder;              // empty: none
        uint64_t most_bytes = 0;         // of all states in it
        uint64_t most_memory_bytes = 0;  // of those in memory that nobody goes on from; 0: none stays there
    };
    // Errors: kIo: the folder cannot be made or written. Cost: with a folder, of the first of a loaded model, its tensors are
    // read once.
    static Result<std::unique_ptr<StoredStates>> open(const Model & model, const Places & places);

    // What must be equal for a state to be used, for a session that is to read a prompt by this plan, with no question in
    // sight. whose: states of one name are never found under another. Nothing: its states depend on more than its tokens.
    std::optional<StateScope> scope_of(const LiveSession & session, const RunPlan & plan, std::string_view whose) const;

    // The longest state in memory that the tokens begin with, or are, unless a file's is longer. ends: where the states of
    // these tokens are to be kept, ascending: one that is in no file yet is read, and not cut out of a longer one.
    FoundShared find_shared(const LiveSession & session, const StateScope & scope, std::span<const int32_t> tokens,
                            std::span<const int64_t> ends) const;
    // The session, which is empty, goes on from it: it reads its entries where they lie; or copies them, with so much room
    // behind (copy_to_room). Errors: kOutOfMemory: it must be made empty again.
    static Status go_on_from(const FoundShared & shared, std::optional<int64_t> copy_to_room, LiveSession & session);
    // Or they become its own, as they lie there.
    static void take_over(SequenceAtRest state, int64_t n_tokens, LiveSession & session);
    // The session, which is empty, becomes the longest state in a file that the tokens begin with, or are, of so many tokens.
    // 0: there is none, and it must be made empty again. What cannot be used is passed over, and logged.
    int64_t begin(LiveSession & session, const StateScope & scope, std::span<const int32_t> tokens);
    // What went on from a state of these tokens could not read what lies on disk: nobody is to go on any more from those that
    // they begin with, whose rows lie in the same files, in memory or in the folder.
    void give_up(const StateScope & scope, std::span<const int32_t> tokens);
    SharedStates & shared() { return shared_; }
    const SharedStates & shared() const { return shared_; }
    // Keeps the session's state in the folder, unless it is there or takes too much of it. What fails is logged, once in a row.
    void keep(const LiveSession & session, const StateScope & scope);
    // Keeps it in memory: the session goes on from it as others do; or it is a copy. room: cells for what is added to a lane.
    // Null: there is no memory for it, and the session is as before. copies: true: a copy.
    std::shared_ptr<const SharedState> hold(LiveSession & session, const StateScope & scope, bool copies, int64_t room);

    int64_t n_kept() const { return n_kept_; }
    std::string folder() const { return store_ ? store_->folder() : std::string(); }  // empty: none

private:
    StoredStates(std::optional<StateStore> store, ModelIdentity model, SharedStates shared)
        : store_(std::move(store)), model_(std::move(model)), shared_(std::move(shared)) {}
    // files: where what fails was read.
    Status load(LiveSession & session, const FoundState & found, const StateScope & scope, std::span<const int32_t> tokens,
                std::vector<std::string> & files) const;
    Result<std::vector<CacheFile>> open_cold_parts(const StateScope & scope, std::span<const int32_t> tokens,
                                                   std::vector<std::string> & files) const;
    // It was used: it, and what lies beside it.
    void touch(const FoundState & found, const StateScope & scope, std::span<const int32_t> tokens) const;
    // What keep() will write, or a little more.
    uint64_t bytes_to_write(const Sequence & seq, const StateScope & scope, const std::optional<FoundState> & found) const;
    Status keep_cold(const LiveSession & session, const StateScope & scope, std::span<const int32_t> tokens);
    std::optional<FoundState> find_file(const StateScope & scope, std::span<const int32_t> tokens) const;

    std::optional<StateStore> store_;
    ModelIdentity model_;  // where there is a folder
    SharedStates shared_;
    bool failed_ = false;  // the last that was to be kept
    int64_t n_kept_ = 0;
};

}  // namespace pith
