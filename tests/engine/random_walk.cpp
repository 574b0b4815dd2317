// random_walk.cpp - see random_walk.h.
#include "engine/random_walk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "engine/tiny_model.h"

namespace pith::testing {
namespace {

constexpr int kMostTokens = 150;  // in a session: then it comes back to a snapshot, or stays
constexpr size_t kMostSnapshots = 3;
constexpr int kLeastBudget = 40;  // of calls that evict: no less than is protected, auto's window of 32 and 6 pinned tokens
constexpr int kMostBudget = 60;

Session open(const Model & model, const SessionOptions & options) {
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::move(*session);
}

std::string name_of(Call::Kind kind) {
    constexpr const char * kNames[] = {"prefill", "prefill_for_questions", "append", "decode", "evict", "evict_for_questions"};
    return kNames[static_cast<int>(kind)];
}

std::string file_of_its_own() {
    static std::atomic<int> n_files{0};
    return scratch_file("walk-" + std::to_string(n_files++) + ".pith").string();
}

// What a user sees must fit what is there.
void check_books(Session & session, size_t n_snapshots) {
    const Ledger & ledger = session.ledger();
    int64_t n_entries = 0;
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; session.is_governed(l) && h < session.n_kv_heads(); ++h) {
            n_entries += std::ssize(session.lane_positions(l, h));
        }
    }
    EXPECT_EQ(ledger.kept_entries, n_entries);
    EXPECT_EQ(ledger.n_tokens, session.n_tokens());
    EXPECT_EQ(session.logits().empty(), session.n_tokens() == 0);
    EXPECT_GE(ledger.kv_allocated_bytes, ledger.kv_needed_bytes + ledger.kv_saved_bytes);
    EXPECT_GE(ledger.kv_peak_bytes, ledger.kv_allocated_bytes);
    if (n_snapshots == 0) { EXPECT_EQ(ledger.kv_saved_bytes, 0U); }
    if (n_entries == 0) { return; }
    const Status status = LayerProbe(session).cache().check_invariants();
    EXPECT_TRUE(status.ok()) << status.message();
}

void expect_same(const SessionState & a, const SessionState & b, const std::string & what) {
    EXPECT_TRUE(a.lanes == b.lanes) << what << ": lanes or logits differ";
    EXPECT_TRUE(a.evidence == b.evidence) << what << ": evidence differs";
    EXPECT_TRUE(a.ledger == b.ledger) << what << ": the ledgers differ";
}

}  // namespace

RunHooks Call::hooks() const {
    RunHooks hooks;
    hooks.n_question = n_question;
    hooks.is_answer = is_answer;
    if (shows_logits) {
        hooks.on_logits = [](int64_t, std::span<const float>) {};
    }
    return hooks;
}

Status Call::run(Session & session, const RunHooks & hooks, const std::function<void()> & come_back) const {
    const auto status_of = [&come_back](auto && result) -> Status {
        if (come_back) { come_back(); }
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(result)>, Status>) {
            return result;
        } else {
            return result.status();
        }
    };
    switch (kind) {
        case Kind::kPrefill:
            return status_of(session.prefill(tokens, hooks));
        case Kind::kQuestions:
            return status_of(session.prefill_for_questions(tokens, questions, hooks));
        case Kind::kAppend:
            return status_of(session.append(tokens.front()));
        case Kind::kDecode:
            return status_of(session.decode());
        case Kind::kEvict:
            return status_of(session.evict(policy, budget));
        case Kind::kEvictFor:
            return status_of(session.evict_for_questions(questions, policy, budget));
    }
    return {};
}

std::string Call::text() const {
    std::string text = name_of(kind);
    if (kind >= Kind::kEvict) { text += " " + policy + " " + budget.to_string(); }
    if (!tokens.empty()) { text += " " + std::to_string(tokens.size()); }
    if (!questions.empty()) { text += ", questions " + std::to_string(questions.size()); }
    if (n_question > 0) { text += ", question " + std::to_string(n_question); }
    return text + (is_answer ? ", answer" : "") + (shows_logits ? ", all logits" : "");
}

RandomWalk::RandomWalk(const Model & model, SessionOptions options, corpus::Random dice, Trouble trouble, int n_most)
    : model_(model),
      options_(std::move(options)),
      n_vocab_(model.info().n_vocab),
      dice_(dice),
      trouble_(std::move(trouble)),
      n_most_(n_most),
      path_(file_of_its_own()),
      session_(open(model, options_)) {}

RandomWalk::~RandomWalk() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
}

Call RandomWalk::draw_prompt(int n_most) {
    Call call;
    call.tokens.resize(static_cast<size_t>(dice_.between(1, n_most)));
    for (int32_t & one : call.tokens) { one = token(); }
    if (dice_.chance(0.3)) { call.n_question = 1 + dice_.below(static_cast<int>(call.tokens.size())); }
    call.is_answer = dice_.chance(0.1);
    call.shows_logits = dice_.chance(0.1);
    return call;
}

Call RandomWalk::draw_call() {
    const bool empty = session_.n_tokens() == 0;
    const int drawn = dice_.below(100);
    if (drawn < (empty ? 20 : 2)) {
        Call call = draw_prompt(n_most_ * 2 / 3);
        call.kind = Call::Kind::kQuestions;
        call.n_question = dice_.chance(0.95) ? 0 : 1;
        call.is_answer = false;
        call.questions.resize(static_cast<size_t>(dice_.between(1, dice_.chance(0.2) ? 30 : 8)));
        for (int32_t & one : call.questions) { one = token(); }
        return call;
    }
    if (drawn < (empty ? 90 : 30)) { return draw_prompt(empty ? n_most_ : n_most_ / 3); }
    Call call;
    if (drawn < 34) {
        call.kind = Call::Kind::kEvictFor;
        call.questions.resize(static_cast<size_t>(dice_.between(1, 8)));
        for (int32_t & one : call.questions) { one = token(); }
        const std::vector<std::string> policies = {options_.policy.name(), "snapkv:window=8", "knorm:recent=8", "auto"};
        call.policy = dice_.pick(policies);
        call.budget = dice_.between(kLeastBudget, kMostBudget);
        return call;
    }
    if (drawn < 45 && !options_.observe.empty()) {
        call.kind = Call::Kind::kEvict;
        call.policy = dice_.pick(options_.observe).name();
        call.budget = dice_.between(kLeastBudget, kMostBudget);
        return call;
    }
    if (drawn < 60) {
        call.kind = Call::Kind::kDecode;
        return call;
    }
    call.kind = Call::Kind::kAppend;
    call.tokens = {token()};
    return call;
}

// Of a prompt so short a share may be less than what the policy protects.
bool RandomWalk::is_too_short(const Status & status) const {
    return status.code() == ErrorCode::kBudget && options_.budget.kind == BudgetKind::kPercent;
}

void RandomWalk::check_call(const std::string & name, const SessionState & before, const Status & status, bool failed,
                            bool may_fail) {
    story_ += name + ": " + (status.ok() ? std::string("ok") : status.message()) + "\n";
    if (!status.ok()) {
        EXPECT_TRUE(failed || may_fail || is_too_short(status)) << name << ": " << status.message();
        EXPECT_FALSE(status.message().empty());
        EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
        expect_same(before, state_of(session_), name + " failed, before and after");
    }
    check_books(session_, kept_.size());
}

void RandomWalk::change(const Call & call) {
    const bool empty = session_.n_tokens() == 0;
    bool may_fail = call.kind >= Call::Kind::kEvict || (empty && call.kind >= Call::Kind::kAppend) ||
                    (call.kind == Call::Kind::kQuestions && (!empty || call.n_question > 0));
    Call asked = call;
    std::atomic<bool> cancel = false;
    RunHooks hooks = call.hooks();
    bool troubled = false;
    std::string how;
    const int drawn = dice_.below(100);
    if (drawn < 25) {
        troubled = static_cast<bool>(trouble_.begin);
        how = troubled ? ", something fails" : "";
    } else if (drawn < 45 && call.kind <= Call::Kind::kQuestions) {
        // The hook ends the call when it is asked for the n-th time; perhaps it is never asked so often.
        const bool throws = dice_.chance(0.5);
        int n_left = 1 + dice_.below(dice_.chance(0.5) ? 3 : 12);
        auto end_it = [&cancel, throws, n_left]() mutable {
            if (--n_left != 0) { return; }
            if (throws) { throw std::runtime_error("a hook throws"); }
            cancel = true;
        };
        hooks.cancel = &cancel;
        if (call.shows_logits && dice_.chance(0.5)) {
            hooks.on_logits = [end_it](int64_t, std::span<const float>) mutable { end_it(); };
        } else {
            hooks.progress = [end_it](int64_t n_done, int64_t n_all) mutable {
                EXPECT_LE(n_done, n_all);
                end_it();
            };
        }
        may_fail = true;
        how = throws ? ", a hook throws" : ", a hook cancels";
    } else if (drawn >= 45 && drawn < 48 && !asked.tokens.empty()) {
        asked.tokens[static_cast<size_t>(dice_.below(static_cast<int>(asked.tokens.size())))] = n_vocab_ + dice_.below(2);
        may_fail = true;
        how = ", a token that there is not";
    }
    const SessionState before = state_of(session_);
    bool failed = false;
    const std::function<void()> end_trouble = [&] { failed = troubled && trouble_.end(); };
    if (troubled) { trouble_.begin(dice_); }
    Status status;
    try {
        status = asked.run(session_, hooks, end_trouble);
    } catch (const std::exception & thrown) {
        end_trouble();
        ADD_FAILURE() << asked.text() << " throws " << thrown.what();
    }
    check_call(asked.text() + how, before, status, failed, may_fail);
    if (status.ok()) {
        way_.push_back(call);
    } else if (dice_.chance(0.5)) {
        again_ = call;
    }
}

void RandomWalk::keep() {
    const SessionState before = state_of(session_);
    const bool troubled = trouble_.begin && dice_.chance(0.25);
    if (troubled) { trouble_.begin(dice_); }
    auto snapshot = session_.snapshot();
    const bool failed = troubled && trouble_.end();
    check_call("snapshot", before, snapshot.status(), failed, false);
    expect_same(before, state_of(session_), "before and after a snapshot");
    if (snapshot.ok()) { kept_.push_back({std::move(*snapshot), way_, contents_of(session_)}); }
    if (kept_.size() > kMostSnapshots) { kept_.erase(kept_.begin() + dice_.below(static_cast<int>(kept_.size()))); }
}

void RandomWalk::come_back() {
    if (kept_.empty()) { return; }
    const size_t which = static_cast<size_t>(dice_.below(static_cast<int>(kept_.size())));
    const SessionState before = state_of(session_);
    const bool troubled = trouble_.begin && dice_.chance(0.25);
    if (troubled) { trouble_.begin(dice_); }
    const Status status = session_.restore(kept_[which].snapshot);
    const bool failed = troubled && trouble_.end();
    check_call("restore of " + std::to_string(kept_[which].way.size()) + " calls", before, status, failed, false);
    if (!status.ok()) { return; }
    expect_same(kept_[which].contents, contents_of(session_), "a snapshot and what comes back");
    way_ = kept_[which].way;
    if (dice_.chance(0.2)) { kept_.erase(kept_.begin() + static_cast<int64_t>(which)); }
}

// Changes nothing of the session, and the file is whole or the one before.
void RandomWalk::save() {
    const SessionState before = state_of(session_);
    const bool troubled = trouble_.begin && dice_.chance(0.4);
    if (troubled) { trouble_.begin(dice_); }
    const Status status = session_.save(path_);
    const bool failed = troubled && trouble_.end();
    check_call("save", before, status, failed, session_.n_tokens() == 0);
    expect_same(before, state_of(session_), "before and after a save");
    if (status.ok()) { saved_ = Saved{way_, contents_of(session_)}; }
}

// Snapshots are void then: no other session takes them.
void RandomWalk::load() {
    const SessionState before = state_of(session_);
    const bool troubled = trouble_.begin && dice_.chance(0.4);
    if (troubled) { trouble_.begin(dice_); }
    const Status status = session_.load(path_);
    const bool failed = troubled && trouble_.end();
    if (status.ok()) { kept_.clear(); }
    check_call("load", before, status, failed, !saved_);
    if (!status.ok()) { return; }
    ASSERT_TRUE(saved_.has_value());
    expect_same(saved_->contents, contents_of(session_), "what was saved and what is loaded");
    way_ = saved_->way;
}

void RandomWalk::step() {
    if (again_) {
        const Call call = *std::exchange(again_, std::nullopt);
        change(call);
        return;
    }
    const int drawn = dice_.below(100);
    if (drawn < 10) {
        keep();
    } else if (drawn < 20 || session_.n_tokens() > kMostTokens) {
        come_back();
    } else if (drawn < 23) {
        drawn < 22 ? save() : load();
    } else {
        change(draw_call());
    }
}

void RandomWalk::check_against_new(const std::vector<Call> & way) {
    Session fresh = open(model_, options_);
    for (const Call & call : way) {
        const Status status = call.run(fresh, call.hooks());
        EXPECT_TRUE(status.ok()) << call.text() << ": " << status.message();
    }
    expect_same(contents_of(session_), contents_of(fresh), "a new session after the same calls");
    const Call next = draw_prompt(20);  // what is not compared shows in what follows
    for (Session * each : {&session_, &fresh}) {
        const Status status = next.run(*each, next.hooks());
        EXPECT_TRUE(status.ok() || is_too_short(status)) << status.message();
    }
    expect_same(contents_of(session_), contents_of(fresh), "a new session after the same calls and one more");
}

void RandomWalk::check_survivors() {
    check_against_new(way_);
    for (const Kept & one : kept_) {
        const Status status = session_.restore(one.snapshot);
        EXPECT_TRUE(status.ok()) << status.message();
        expect_same(one.contents, contents_of(session_), "a snapshot and what comes back");
        check_against_new(one.way);
    }
    if (saved_) {
        const Status status = session_.load(path_);
        EXPECT_TRUE(status.ok()) << status.message();
        expect_same(saved_->contents, contents_of(session_), "what was saved and what is loaded");
        check_against_new(saved_->way);
    }
}

}  // namespace pith::testing
