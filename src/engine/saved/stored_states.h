// stored_states.h - an engine's states in a folder: which of them a prompt may begin with, and where its own are put there.
// Stage: engine.
//
// A state that is used stands for reading its tokens anew, to the bit. So those alone are kept whose entries depend on nothing
// but the tokens: no question was in sight, no gate was asked, and the budget's entries are part of what must be equal. Where
// nothing is ever evicted, or on a grid, prompts that begin alike share states, which are taken where a chunk ends, wherever
// the prompt does: what is read behind them comes in the same pieces then as if all had been read. Otherwise (one-shot, or
// chunks without a grid) what is kept depends on where the prompt ends: a state stands for a whole prompt, and is found by the
// same prompt alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/state_store.h"
#include "engine/saved/shared_states.h"
#include "engine/session_impl.h"
#include "model/model_identity.h"
#include "pith/model.h"

namespace pith {

// The places at most n_prompt where the chunks of a prompt's reader end: the last one, where entries are evicted the one
// before it, too (what lies behind the last may be a question, and others ask others), and the last before each of `wanted`.
// Ascending.
std::vector<int64_t> ends_to_store(const RunPlan & plan, int64_t n_prompt, std::span<const int32_t> wanted);

// Where a sequence begins.
struct BegunState {
    int64_t n_tokens = 0;                       // that it has read; 0: none
    std::shared_ptr<const SharedState> shared;  // whose entries it reads; null: they are its own
};

// Threads: one at a time.
class StoredStates {
public:
    // Errors: kIo: the folder cannot be made or written. Cost: of the first of a loaded model, its tensors are read once.
    static Result<std::unique_ptr<StoredStates>> open(const Model & model, const std::string & folder, uint64_t most_bytes);

    // What must be equal for a state to be used, for a session that is to read a prompt by this plan, with no question in
    // sight. whose: states of one name are never found under another. Nothing: its states depend on more than its tokens.
    std::optional<StateScope> scope_of(const Session::Impl & session, const RunPlan & plan, std::string_view whose) const;

    // The longest state that the tokens begin with, or are, where others go on from it now: no file's is longer. Null: there is
    // none, or a longer one in a file.
    std::shared_ptr<const SharedState> find_shared(const Session::Impl & session, const StateScope & scope,
                                                   std::span<const int32_t> tokens) const;
    // The session, which is empty, goes on from it. Errors: kOutOfMemory: it must be made empty again.
    static Status go_on_from(const SharedState & shared, Session::Impl & session);
    // The session, which is empty, becomes the longest state in a file that the tokens begin with, or are. Where there is none
    // it must be made empty again. What cannot be used is passed over, and logged.
    // may_share: whether others will go on from the state of these tokens, too, and its bytes have room beside what they want:
    // it is then held once, as long as one of them goes on from it. room: cells for what they add to a lane.
    using MayShare = std::function<bool(int64_t n_tokens, size_t bytes)>;
    BegunState begin(Session::Impl & session, const StateScope & scope, std::span<const int32_t> tokens,
                     const MayShare & may_share, int64_t room);
    SharedStates & shared() { return shared_; }
    const SharedStates & shared() const { return shared_; }
    // Keeps the session's state, unless it is there or takes too much of the folder. What fails is logged, once in a row.
    void keep(const Session::Impl & session, const StateScope & scope);

    int64_t n_kept() const { return n_kept_; }
    const std::string & folder() const { return store_.folder(); }

private:
    StoredStates(StateStore store, ModelIdentity model) : store_(std::move(store)), model_(std::move(model)) {}
    Status load(Session::Impl & session, const FoundState & found, std::span<const int32_t> tokens) const;
    std::optional<FoundState> find_file(const StateScope & scope, std::span<const int32_t> tokens) const;
    Result<std::shared_ptr<const SharedState>> share(Session::Impl & session, const StateScope & scope, int64_t room);

    StateStore store_;
    ModelIdentity model_;
    SharedStates shared_;
    bool failed_ = false;  // the last that was to be kept
    int64_t n_kept_ = 0;
};

}  // namespace pith
