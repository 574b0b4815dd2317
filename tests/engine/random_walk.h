// random_walk.h - leads a session through calls drawn at random, some of which fail, and checks after each what must hold.
//
// A call that fails leaves the session as it was, bit for bit. What a session, a snapshot or a saved file holds in the end is
// what a new session holds after the calls alone that succeeded on the way there, and both go on alike.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/session_state.h"
#include "pith/model.h"
#include "tasks/random.h"

namespace pith::testing {

// A call that changes what a session holds.
struct Call {
    enum class Kind { kPrefill, kQuestions, kAppend, kDecode, kEvict, kEvictFor };
    Kind kind = Kind::kPrefill;
    std::vector<int32_t> tokens;
    std::vector<int32_t> questions;
    int n_question = 0;
    bool is_answer = false;
    bool shows_logits = false;  // of every position
    std::string policy;
    Budget budget;

    RunHooks hooks() const;
    // come_back: called when the call has, before anything is copied.
    Status run(Session & session, const RunHooks & hooks, const std::function<void()> & come_back = {}) const;
    std::string text() const;
};

// Makes something inside a call fail. Both empty: nothing does.
struct Trouble {
    std::function<void(corpus::Random & dice)> begin;
    std::function<bool()> end;  // whether something failed
};

class RandomWalk {
public:
    // n_most: tokens of a prompt. REQUIRES: a call without trouble succeeds under these options; evict() is free to refuse.
    RandomWalk(const Model & model, SessionOptions options, corpus::Random dice, Trouble trouble = {}, int n_most = 90);
    ~RandomWalk();
    RandomWalk(const RandomWalk &) = delete;
    RandomWalk & operator=(const RandomWalk &) = delete;

    void step();
    // The session and what its snapshots hold, against new sessions. It is left at one of them.
    void check_survivors();
    const std::string & story() const { return story_; }  // the calls so far, a line each

private:
    struct Kept {
        std::shared_ptr<Session::Snapshot> snapshot;
        std::vector<Call> way;
        SessionState contents;
    };
    struct Saved {
        std::vector<Call> way;
        SessionState contents;
    };
    Call draw_call();
    Call draw_prompt(int n_most);
    void change(const Call & call);
    void keep();
    void come_back();
    void save();
    void load();
    bool is_too_short(const Status & status) const;
    void check_call(const std::string & name, const SessionState & before, const Status & status, bool failed, bool may_fail);
    void check_against_new(const std::vector<Call> & way);
    int32_t token() { return dice_.below(n_vocab_); }

    const Model & model_;
    SessionOptions options_;
    int n_vocab_;
    corpus::Random dice_;
    Trouble trouble_;
    int n_most_;
    std::string path_;  // of its file
    Session session_;
    std::vector<Call> way_;  // the calls that made the session what it is
    std::vector<Kept> kept_;
    std::optional<Saved> saved_;
    std::optional<Call> again_;  // failed just now
    std::string story_;
};

}  // namespace pith::testing
