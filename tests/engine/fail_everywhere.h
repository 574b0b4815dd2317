// fail_everywhere.h - a call with everything in it failing once, or cancelled at every point: each time all is as before, and
// the call then gives what it would have given.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "engine/fail_at.h"
#include "engine/pass/live_session.h"
#include "engine/session_state.h"
#include "every_case.h"

namespace pith::testing {

inline constexpr Fails kEveryKind[] = {Fails::kPages, Fails::kBuffers,    Fails::kGraphs,
                                       Fails::kFiles, Fails::kNamedFiles, Fails::kNew};

// The next place of a kind at which a call fails: the first ones all, then each fifth, and of hundreds ever fewer, unless every
// case is asked for.
inline int64_t next_place(int64_t k) {
    constexpr int64_t kFirst = 6;
    return k + (k < kFirst || every_case() ? 1 : 5 + k / 16);
}

// What no call may leave behind, however it ends.
inline void expect_whole(Session & session) {
    EXPECT_TRUE(live_session(session).observers.empty());
    if (session.n_tokens() == 0) { return; }
    const Status status = LayerProbe(session).cache().check_invariants();
    EXPECT_TRUE(status.ok()) << status.message();
}

// REQUIRES: the status is of a call in which something may have failed.
inline void expect_told(const Status & status, bool failed) {
    EXPECT_TRUE(failed) << status.message();
    EXPECT_FALSE(status.message().empty());
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

using FailingCall = std::function<Status(Session &)>;

// The call, with the k-th of each kind failing, until none fails any more: each time the session is as before. Then the call as
// it is. Returns how many places were found at which it can fail.
// voids_snapshots: the call, where it succeeds, leaves nothing to come back to, and may be made once more.
inline int64_t fail_everywhere(Session & session, const FailingCall & call, bool voids_snapshots = false) {
    int64_t n_places = 0;
    for (const Fails what : kEveryKind) {
        int64_t last = 0;
        for (int64_t k = 1;; k = next_place(k)) {
            const auto snapshot = session.snapshot();  // so that a success can be taken back
            EXPECT_TRUE(snapshot.ok());
            const SessionState before = state_of(session);
            fail_at(what, k);
            const Status status = call(session);
            const bool failed = stop_failing();
            expect_whole(session);
            if (status.ok()) {  // nothing failed, or it did without
                if (!voids_snapshots) { EXPECT_TRUE(session.restore(*snapshot).ok()); }
            } else {
                expect_told(status, failed);
                const SessionState after = state_of(session);
                EXPECT_TRUE(after == before)
                    << (after.lanes == before.lanes ? "" : "lanes, ") << (after.evidence == before.evidence ? "" : "evidence, ")
                    << (after.ledger == before.ledger ? "" : "ledger, ") << "kind " << static_cast<int>(what) << ", the " << k
                    << "th: " << status.message();
            }
            if (::testing::Test::HasFailure()) { return n_places; }
            if (!failed) { break; }
            last = k;
        }
        n_places += last;
    }
    const Status status = call(session);
    EXPECT_TRUE(status.ok()) << status.message();
    return n_places;
}

// The same of what makes something that was not there: each time it says what failed, or is made all the same. `check` is
// shown all that are made.
template <class Make, class Check>
int64_t fail_making_everywhere(const Make & make, const Check & check) {
    int64_t n_places = 0;
    for (const Fails what : kEveryKind) {
        int64_t last = 0;
        for (int64_t k = 1;; k = next_place(k)) {
            fail_at(what, k);
            auto made = make();
            const bool failed = stop_failing();
            made.ok() ? check(*made) : expect_told(made.status(), failed);
            if (::testing::Test::HasFailure()) {
                ADD_FAILURE() << "kind " << static_cast<int>(what) << ", the " << k << "th";
                return n_places;
            }
            if (!failed) { break; }
            last = k;
        }
        n_places += last;
    }
    auto made = make();
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) { check(*made); }
    return n_places;
}

using CancelledCall = std::function<Status(Session &, const std::atomic<bool> *)>;

// The call, cancelled in its first graph run, in its second, and so on until it has no more of them. Returns how many it had.
inline int64_t cancel_everywhere(Session & session, const CancelledCall & call) {
    for (int64_t k = 1;; ++k) {
        const auto snapshot = session.snapshot();  // so that a success can be taken back
        EXPECT_TRUE(snapshot.ok());
        const SessionState before = state_of(session);
        fail_at(Fails::kCancel, k);
        const Status status = call(session, &cancel_flag());
        EXPECT_EQ(n_graphs_after_cancel(), 0) << "it went on after the " << k << "th";
        const bool was_cancelled = stop_failing();
        expect_whole(session);
        if (status.ok()) {  // nobody asked, or nothing was left to do but to drop what is evicted
            EXPECT_TRUE(session.restore(*snapshot).ok());
            if (!was_cancelled) { return k - 1; }
            continue;
        }
        EXPECT_TRUE(was_cancelled) << status.message();
        EXPECT_EQ(status.code(), ErrorCode::kCancelled) << status.message();
        EXPECT_TRUE(state_of(session) == before) << "the " << k << "th";
        if (::testing::Test::HasFailure()) { return k; }
    }
}

}  // namespace pith::testing
