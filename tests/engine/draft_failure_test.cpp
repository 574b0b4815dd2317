// draft_failure_test.cpp - whatever fails in a pass that runs ahead, or where a row is taken that has, leaves the session as it
// was; it then goes on as one without drafts.
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/draft/ngram_draft.h"
#include "engine/fail_everywhere.h"
#include "engine/tiny_session.h"

namespace pith::draft_failure_test {
namespace {

using testing::contents_of;
using testing::fail_at;
using testing::Fails;
using testing::random_tokens;
using testing::state_of;
using testing::stop_failing;
using testing::tiny_options;

std::vector<int32_t> repeating(int n) {
    const auto once = random_tokens(29, 300, 3);
    std::vector<int32_t> text;
    for (int i = 0; i < n; ++i) { text.push_back(once[static_cast<size_t>(i % 29)]); }
    return text;
}

SessionOptions options_of(const char * policy, int budget, int draft) {
    SessionOptions options = tiny_options(policy, budget, PrefillSchedule::kChunked, 16);
    options.evict_every = 12;
    options.draft_ngram = draft;
    return options;
}

// The n-th token behind the prompt fails at the k-th place, and is then fed.
class DraftFailure : public ::testing::TestWithParam<const char *> {
protected:
    static constexpr int kPrompt = 70;
    // Whether there was such a place.
    static bool fails_at(int n_before, Fails what, int64_t k) {
        const int budget = std::string(GetParam()) == "full" ? 0 : 40;
        Session plain = testing::open_tiny(options_of(GetParam(), budget, 0));
        Session drafting = testing::open_tiny(options_of(GetParam(), budget, 8));
        const auto text = repeating(kPrompt + 40);
        for (Session * one : {&plain, &drafting}) { EXPECT_TRUE(one->prefill(std::span(text).first(kPrompt)).ok()); }
        bool failed = false;
        for (int i = 0; i < n_before + 14; ++i) {
            const int32_t token = text[static_cast<size_t>(kPrompt + i)];
            EXPECT_TRUE(plain.append(token).ok());
            if (i == n_before) {
                const auto before = state_of(drafting);
                fail_at(what, k);
                const Status status = drafting.append(token);
                failed = stop_failing();
                testing::expect_whole(drafting);
                if (!status.ok()) {
                    testing::expect_told(status, failed);
                    EXPECT_TRUE(state_of(drafting) == before) << static_cast<int>(what) << " " << k;
                    EXPECT_TRUE(drafting.append(token).ok());
                }
            } else {
                EXPECT_TRUE(drafting.append(token).ok());
            }
            EXPECT_TRUE(contents_of(plain) == contents_of(drafting)) << i;
        }
        EXPECT_GT(drafting.ledger().n_draft_accepted, 0);
        return failed;
    }
};

TEST_P(DraftFailure, LeavesTheSessionAsItWas) {
    int64_t n_places = 0;
    for (int n_before = 0; n_before < 5; ++n_before) {
        for (const Fails what : testing::kEveryKind) {
            for (int64_t k = 1; !HasFailure() && fails_at(n_before, what, k); k = testing::next_place(k)) { ++n_places; }
        }
    }
    EXPECT_GT(n_places, 20);
}

// Wherever memory ends while a text grows, what is read once more stands where it would have stood.
TEST(NgramDraftFailure, ATokenIsReadWholeOrNotAtAll) {
    std::vector<int32_t> text;
    std::mt19937 random(9);
    for (int i = 0; i < 2500; ++i) { text.push_back(static_cast<int32_t>(random() % 12)); }
    NgramDraft plain;
    plain.read(text);
    constexpr PassCost kFree{0.0};
    const auto wanted = plain.propose(8, 0, kFree);
    ASSERT_FALSE(wanted.empty());
    int64_t n_places = 0;
    for (bool failed = true; failed; ++n_places) {
        NgramDraft draft;
        fail_at(Fails::kNew, n_places + 1);
        for (const int32_t token : text) {
            try {
                draft.read(std::span(&token, 1));
            } catch (const std::bad_alloc &) { draft.read(std::span(&token, 1)); }
        }
        failed = stop_failing();
        EXPECT_TRUE(std::ranges::equal(draft.tokens(), text)) << n_places;
        EXPECT_TRUE(std::ranges::equal(draft.propose(8, 0, kFree), wanted)) << n_places;
    }
    EXPECT_GT(n_places, 10);
}

INSTANTIATE_TEST_SUITE_P(Policies, DraftFailure, ::testing::Values("full", "h2o", "snapkv"));

}  // namespace
}  // namespace pith::draft_failure_test
