// engine_job.h - one request's life in an engine: waiting, reading its prompt, answering, set aside, ended. Stage: engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "core/stopwatch.h"
#include "engine/evict/repair.h"
#include "engine/pass/live_session.h"
#include "engine/read/read_chunks.h"
#include "engine/read/read_one_shot.h"
#include "engine/rest/sequence_aside.h"
#include "engine/rest/stored_states.h"
#include "pith/batch_engine.h"
#include "plan/step_plan.h"

namespace pith {

class EngineJob {
public:
    EngineJob(int64_t id, Request request) : id_(id), request_(std::move(request)) {}
    EngineJob(const EngineJob &) = delete;
    EngineJob & operator=(const EngineJob &) = delete;

    // How the state that a job has just read, of so many bytes, stays in memory for others.
    enum class Holding {
        kNot,
        kShared,  // the job goes on from it, too
        kCopied,
    };
    using HowToHold = std::function<Holding(const EngineJob & job, size_t bytes)>;

    // Makes its session and finds out what its lanes may come to take: reserved_bytes().
    // base: whose state it goes on from; nullptr: none's. states: where those of prompts lie; nullptr: nowhere. They must live
    // as long as this.
    Status prepare(const Model & model, const EngineOptions & options, const std::shared_ptr<Execution> & execution,
                   const EngineJob * base, StoredStates * states, HowToHold how_to_hold);

    int64_t id() const { return id_; }
    const Request & request() const { return request_; }
    RequestState state() const { return state_; }
    const Status & status() const { return status_; }
    const std::vector<int32_t> & answer() const { return answer_; }
    bool caches() const { return scope_.has_value(); }       // its prompt's states may be found again
    int64_t n_cached() const { return n_cached_; }           // tokens of its prompt that came with one
    bool questions_seen() const { return questions_seen_; }  // once the prompt is read: Engine::questions_seen()
    int64_t n_read() const { return n_read_; }               // and that were read, and not taken back
    // Both, and of a prompt that is read layer by layer what its layers have read so far: Engine::n_read().
    int64_t n_read_so_far() const { return n_cached_ + n_read_ + (layers_ ? layers_->n_done() : 0); }
    bool has_started() const { return last_step_ >= 0; }
    bool running() const { return state_ == RequestState::kReading || state_ == RequestState::kAnswering; }
    bool ended() const { return state_ >= RequestState::kDone; }
    bool kept() const { return state_ == RequestState::kDone && session_ != nullptr; }  // what others may go on from
    // What it may come to take until its answer has n_room_ tokens, or, kept, takes: beside a base that it goes on from, which
    // is counted once for all.
    size_t reserved_bytes() const { return kept() ? kv_bytes(false) + state_bytes(nullptr) : reserved_bytes_; }
    size_t bytes_alone() const { return bytes_alone_; }  // what that would be without one
    // And with the whole of its answer.
    size_t most_bytes() const { return n_room_ == request_.max_tokens ? reserved_bytes_ : most_alone(request_.max_tokens); }
    // Its answer ends earlier, where all that it may take is then no more than so many bytes. false: not by what it asks for.
    bool shorten_to(size_t bytes);
    // Its answer has come to the end of what it has reserved for: it may go on once it has taken more.
    bool lacks_room() const { return state_ == RequestState::kAnswering && std::ssize(answer_) > n_room_; }
    size_t bytes_with_more_room() const;
    void take_more_room();
    bool reserves_all() const { return n_room_ == request_.max_tokens; }
    // The same if the state that it holds, which has just been read, became a base that others go on from.
    size_t bytes_behind_own_state() const;
    bool reads_layers() const { return reads_layers_; }
    LiveSession * session() const { return session_.get(); }  // null once it has ended
    const Ledger & ledger() const { return session_ ? session_->ledger : ledger_; }
    bool looks_back() const { return session_ && session_->options.look_back; }
    // Of its lanes now; at_most: with what a unit that has just run took in between.
    size_t kv_bytes(bool at_most) const;
    // Of its recurrent layers' states those that are not still those of the state in memory that it goes on from, or of `base`
    // (null: none), which count them.
    size_t state_bytes(const EngineJob * base) const;
    size_t undo_bytes() const { return session_ ? session_->seq.undo_bytes() : 0; }
    size_t evidence_bytes() const { return session_ ? session_->seq.evidence.size_bytes() : 0; }
    size_t other_bytes() const;  // in memory, beside its entries, evidence and undo
    // Nobody asks for it any more, but others still read what it keeps.
    void set_forgotten() { forgotten_ = true; }
    bool forgotten() const { return forgotten_; }

    // Finds the state in memory that its prompt begins with, and reserves for what comes behind it; nothing, where there is
    // none. It is in use until the request ends, or lets go of it before it has started.
    void look_for_shared_state();
    void let_go_of_shared_state();
    // The bytes of that state where nobody else goes on from it; else 0. It may then copy it, and hold it no longer than that
    // takes; or take it over, so that it is in memory no more. Either way it reserves as if alone.
    size_t idle_base_bytes() const;
    void copy_shared_state();
    void take_shared_state();
    int64_t n_shared() const { return n_shared_; }  // tokens of it that serve
    // What its own state will take beside what it reserves. REQUIRES: idle_base_bytes() is not 0.
    size_t bytes_to_hold() const { return most_behind_shared(n_room_) + shared_->bytes_beside; }
    // It goes on where the state ends, and what it will have read serves for all that the state serves for.
    bool continues_all() const { return shared_ && scope_->prefixes && shared_->state.n_tokens == n_shared_; }
    // The prompt's transaction opens, behind the base's entries where there is one, or what is evicted of them. Failing, the
    // request has ended; so has one that is kept, and has no tokens.
    void start(const EngineJob * base, int64_t step);
    // Whether the states of its prompt's first n tokens serve both.
    bool begins_as(const EngineJob & other, int64_t n) const;
    // What its prompt's newest tokens look for among what was evicted is to come back before it is read on: look() does that,
    // or, where these tokens look back, sees to it that it is done behind them.
    bool looks() const { return looks_; }
    void look(int64_t step);
    // It has no tokens of its own to read, and none of its answer is chosen: choose_token() comes next.
    bool wants_first_token() const { return state_ == RequestState::kAnswering && !has_token_; }
    // By the newest logits; the answer may end with it.
    void choose_token();
    // What it wants of the next step. REQUIRES: running().
    StepCandidate candidate() const;
    // Opens a decoded token's transaction. by_layers: in a pass that tells evidence before it may fail.
    // false: the request has ended with an error.
    bool open_token(bool by_layers);
    // Whether a pass may hold its tokens beside others'.
    bool can_share() const { return !alone_ && pith::can_share(*session_); }
    PassPiece piece(int64_t n);
    // What may come behind the token whose call is open: draft_behind(); none where that fails.
    std::span<const int32_t> draft(int64_t most, int n_others) noexcept;
    // Its next token has run already: run_alone() needs no pass.
    bool is_ahead() const {
        return state_ == RequestState::kAnswering && has_token_ && !lacks_room() &&
               session_->ahead.has(session_->seq, pending_);
    }
    // The piece is in the lanes: evicts where that is due, and where the call is complete takes the next token.
    // false: it could not be evicted, and the piece is gone.
    bool advance(int64_t n, int64_t step);
    // Whether an eviction is due then.
    bool evicts_behind(int64_t n) const { return chunks_->evicts_behind(n); }
    // The piece's tokens by themselves, gates included.
    Status run_alone(int64_t n);
    // One unit of a prompt that is read layer by layer.
    void advance_layered(int64_t step);

    // The pass that held its piece has failed, for whose sake is not known: its call is taken back, to be tried once more
    // alone: the token again, or the prompt from its beginning. Where the step was cancelled, it is nobody's fault.
    void take_back(const Status & status);
    // What it did by itself has failed: it ends, unless the step was cancelled, and it is taken back.
    void fail(const Status & status);
    void cancel();

    // What it holds goes to files without names in this folder (empty: the one for temporary files), and comes back; what fails
    // leaves it as it is. REQUIRES: of an answer, can_go_aside(), or kSetAside; of one that is kept, that nobody reads its
    // entries, or is_aside(). One that reads a base's entries would come back with a copy of them: it stays. (What it shares
    // from a folder is in its reservation.)
    bool can_go_aside() const {
        return state_ == RequestState::kAnswering && (shared_ || session_->seq.cache->shared_bytes() == 0);
    }
    bool is_aside() const { return kept() && !session_->seq.cache; }
    Status set_aside(const std::string & folder);
    Status bring_back();
    size_t bytes_aside() const { return is_aside() ? extent_.bytes : 0; }  // that it takes once it is back

private:
    static constexpr int64_t kForkRoom = 4096;  // cells behind lanes that others go on from: addresses alone
    // Tokens of an answer that are reserved at a time: few answers are as long as they may be.
    static constexpr int64_t kAnswerRoom = 256;

    // Of lanes that are kept, wherever they are.
    struct Extent {
        int64_t n_entries = 0;
        int64_t longest = 0;
        int64_t capacity = 0;
        size_t bytes = 0;
        int32_t shift = 0;  // RaggedCache::shift()
    };
    Extent extent() const;

    Status check() const;
    Status fork(const EngineJob & base);
    std::optional<int64_t> where_to_look(const RunPlan & plan) const;
    void give_up_state(const Status & status);
    // The beginning of its prompt of which states serve it, and are kept: what comes behind it depends on its end, too.
    std::span<const int32_t> shareable() const {
        return std::span(request_.tokens).first(static_cast<size_t>(look_at_.value_or(std::ssize(request_.tokens))));
    }
    void begin_afresh();
    Status begin_from_states();
    void hold_state();
    void keep_what_was_read();
    int64_t room_to_fork() const;
    size_t most_alone(int64_t n_answer) const;
    size_t most_behind(const SequenceState & state, int64_t n_tokens, const RaggedCache & base, int64_t capacity,
                       int64_t n_answer) const;
    size_t most_behind_shared(int64_t n_answer) const;
    int64_t next_room() const { return std::min<int64_t>(std::ssize(answer_) + kAnswerRoom, request_.max_tokens); }
    void reserve_all();
    Status open_part();
    Result<int32_t> ask_who_chooses();
    bool goes_on_reading();
    int64_t most_of_fork(const EngineJob & base, const RunPlan & plan) const;
    bool may_turn(const RunPlan & plan, int64_t next, int64_t n_added) const;
    size_t bytes_behind(int64_t n_entries, const RunPlan & plan) const;
    bool moves_entries(const RunPlan & plan) const;
    size_t look_back_bytes(const RunPlan & plan, int64_t n_tokens) const;
    void take_token();
    void close_call();
    void keep_state();
    void end(RequestState state, Status status = {});

    int64_t id_ = 0;
    Request request_;
    RequestState state_ = RequestState::kWaiting;
    Status status_;
    std::vector<int32_t> answer_;
    std::unique_ptr<LiveSession> session_;  // null once it has ended, unless it is kept
    Ledger ledger_;                         // once the session is gone
    RunHooks hooks_;
    // A prompt whose states are kept is read in parts, each a call that ends where one is; any other is one part.
    StoredStates * states_ = nullptr;
    std::optional<StateScope> scope_;     // of its states; nothing: none are kept, or looked for
    std::optional<SequenceState> fresh_;  // of its sequence before the prompt, where that is read in parts
    std::vector<int64_t> ends_;           // where states are kept, in tokens of the prompt
    int64_t n_cached_ = 0;
    bool questions_seen_ = false;
    int64_t n_read_ = 0;
    HowToHold how_to_hold_;
    std::shared_ptr<const SharedState> shared_;  // whose entries it goes on from; null: none that others may share
    int64_t n_shared_ = 0;                       // tokens of it
    bool copies_shared_ = false;                 // when it starts
    std::shared_ptr<SharedState> taken_;         // or what it begins with then, and is nobody else's
    std::span<const int32_t> part_;              // of the prompt: what the open call reads
    std::optional<ChunkReader> chunks_;
    std::optional<OneShotReader> layers_;
    std::optional<RepairBehind> behind_;  // once they have read
    bool looks_for_more_ = false;         // the token at hand, of an answer (repair_answer())
    bool call_open_ = false;
    bool reads_layers_ = false;
    std::optional<int64_t> look_at_;  // so far the prompt is read when looks() is set; nullopt: it never is
    bool looks_ = false;
    bool forgotten_ = false;
    bool alone_ = false;  // a pass that held its piece failed
    bool has_token_ = false;
    int32_t pending_ = 0;  // chosen, and not fed yet
    int64_t last_step_ = -1;
    int64_t n_room_ = 0;  // tokens of its answer that are in what it reserves
    size_t reserved_bytes_ = 0;
    size_t bytes_alone_ = 0;
    std::optional<SequenceAside> aside_;
    Extent extent_;             // of what is kept, and aside
    Stopwatch phase_;           // since the prompt, or the answer, began
    double repair_before_ = 0;  // of the ledger's, when the prompt began
};

}  // namespace pith
