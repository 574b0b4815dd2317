// draft_test.cpp - sessions with drafts say, hold and keep, bit for bit, what they do without.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/likeliest_token.h"
#include "engine/layer_probe.h"
#include "engine/session_state.h"
#include "engine/tiny_session.h"

namespace pith::draft_test {
namespace {

using testing::contents_of;
using testing::evidence_of;
using testing::lanes_of;
using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_options;
using testing::tiny_spec;

// A text that repeats itself, so that n-grams find something.
std::vector<int32_t> repeating(int n, int period, int n_vocab, unsigned seed = 1) {
    const auto once = random_tokens(period, n_vocab, seed);
    std::vector<int32_t> text;
    for (int i = 0; i < n; ++i) { text.push_back(once[static_cast<size_t>(i % period)]); }
    return text;
}

// What is fed goes on with the text, but for every 13th token: drafts come true, in part, or not at all.
std::vector<int32_t> nearly(std::vector<int32_t> text) {
    for (size_t i = 12; i < text.size(); i += 13) { text[i] = (text[i] + 1) % 300; }
    return text;
}

SessionOptions with_drafts(SessionOptions options) {
    options.draft_ngram = 8;
    return options;
}

// Both fed the same: after every token all is the same. Returns tokens that were drafted and chosen.
int64_t expect_same(const Model & model, const SessionOptions & options, std::span<const int32_t> prompt,
                    std::span<const int32_t> fed) {
    auto plain = model.session(options);
    auto drafting = model.session(with_drafts(options));
    EXPECT_TRUE(plain.ok() && drafting.ok()) << plain.status().message() << drafting.status().message();
    EXPECT_TRUE(plain->prefill(prompt).ok() && drafting->prefill(prompt).ok());
    for (const int32_t token : fed) {
        const Status a = plain->append(token);
        const Status b = drafting->append(token);
        EXPECT_TRUE(a.ok() && b.ok()) << a.message() << b.message();
        EXPECT_TRUE(lanes_of(*plain) == lanes_of(*drafting)) << plain->n_tokens();
        EXPECT_TRUE(evidence_of(*plain) == evidence_of(*drafting)) << plain->n_tokens();
        if (::testing::Test::HasFailure()) { break; }
    }
    EXPECT_EQ(plain->ledger().n_evictions, drafting->ledger().n_evictions);
    // No more than there may be between two evictions; where nothing is evicted, with what ran ahead.
    const int n_ahead = options.budget.kind == BudgetKind::kNone || options.evict_every == 0 ? 8 : 0;
    EXPECT_LE(drafting->ledger().peak_lane_entries, plain->ledger().peak_lane_entries + n_ahead);
    EXPECT_LE(drafting->ledger().n_draft_accepted, drafting->ledger().n_drafted);
    EXPECT_EQ(plain->ledger().n_drafted, 0);
    return drafting->ledger().n_draft_accepted;
}

TEST(Draft, LeavesEveryBitAsItIsUnderEveryKindOfEvidenceAndCache) {
    const Model model = tiny_model(tiny_spec()).value();
    const auto text = repeating(220, 37, 300);
    const auto fed = nearly({text.begin() + 90, text.end()});
    for (const char * policy :
         {"full", "random", "streaming", "snapkv", "adakv", "tova", "h2o", "laprox", "keydiff", "h2o+caote"}) {
        for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
            SCOPED_TRACE(std::string(policy) + (type == KvType::kF16 ? " f16" : " q8_0"));
            const bool full = std::string(policy) == "full";
            SessionOptions options = tiny_options(policy, full ? 0 : 64, PrefillSchedule::kChunked, 32);
            options.type_k = options.type_v = type;
            options.evict_every = 16;
            EXPECT_GT(expect_same(model, options, std::span(text).first(90), fed), 20);
        }
    }
}

TEST(Draft, HoldsOnEveryScheduleThatEvictsWhileItDecodes) {
    const Model model = tiny_model(tiny_spec()).value();
    const auto text = repeating(260, 41, 300, 3);
    const auto fed = nearly({text.begin() + 90, text.end()});
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        for (const int grid : {0, 32}) {
            for (const int evict_every : {3, 16, 0}) {
                SCOPED_TRACE(std::to_string(grid) + " " + std::to_string(evict_every));
                SessionOptions options = tiny_options("h2o", 48, schedule, 32);
                options.grid = grid;
                options.evict_every = evict_every;
                if (grid > 0 && evict_every == 0) { continue; }
                EXPECT_GT(expect_same(model, options, std::span(text).first(90), fed), 5);
            }
        }
    }
}

TEST(Draft, HoldsWithWindowsAndBehindTheTrainedLength) {
    RandomModelSpec spec = tiny_spec();
    spec.arch = "gemma3";
    const auto windowed = tiny_model(spec);
    ASSERT_TRUE(windowed.ok()) << windowed.status().message();
    const auto text = repeating(420, 41, 300, 5);
    const auto fed = nearly({text.begin() + 90, text.end()});
    SessionOptions options = tiny_options("full", 0, PrefillSchedule::kOneShot, 32);
    EXPECT_GT(expect_same(*windowed, options, std::span(text).first(90), fed), 50);
}

// Who feeds other tokens than those that were drafted, or comes back from elsewhere, finds nothing of them.
TEST(Draft, IsForgottenWhateverElseHappens) {
    const Model model = tiny_model(tiny_spec()).value();
    const auto text = repeating(200, 37, 300);
    SessionOptions options = tiny_options("full", 0, PrefillSchedule::kOneShot, 32);
    auto plain = model.session(options).value();
    auto drafting = model.session(with_drafts(options)).value();
    const auto both = [&](auto call) {
        call(plain);
        call(drafting);
        EXPECT_TRUE(contents_of(plain).lanes == contents_of(drafting).lanes);
    };
    const auto feed = [&](size_t i) { both([&](Session & session) { ASSERT_TRUE(session.append(text[i]).ok()); }); };
    both([&](Session & session) { ASSERT_TRUE(session.prefill(std::span(text).first(100)).ok()); });
    for (size_t i = 100; i < 103; ++i) { feed(i); }
    ASSERT_GT(drafting.ledger().n_draft_accepted, 0);
    std::vector<std::shared_ptr<Session::Snapshot>> saved;
    both([&](Session & session) { saved.push_back(session.snapshot().value()); });
    const int64_t n_taken = drafting.ledger().n_draft_accepted;
    both([&](Session & session) { ASSERT_TRUE(session.append(299).ok()); });  // not the one that was drafted
    EXPECT_EQ(drafting.ledger().n_draft_accepted, n_taken);
    ASSERT_TRUE(plain.restore(saved[0]).ok());
    ASSERT_TRUE(drafting.restore(saved[1]).ok());
    for (size_t i = 103; i < 110; ++i) { feed(i); }  // where the other token's entries lay
    both([&](Session & session) { ASSERT_TRUE(session.prefill(std::span(text).subspan(40, 10)).ok()); });
    for (size_t i = 50; i < 60; ++i) { feed(i); }
    EXPECT_GT(drafting.ledger().n_draft_accepted, n_taken);
}

TEST(Draft, IsOffWhereARowCannotBePutDown) {
    const Model model = tiny_model(tiny_spec()).value();
    const auto text = repeating(160, 37, 300);
    SessionOptions options = tiny_options("expected", 64, PrefillSchedule::kOneShot, 32);
    auto session = model.session(with_drafts(options)).value();
    ASSERT_TRUE(session.prefill(std::span(text).first(100)).ok());
    for (size_t i = 100; i < 120; ++i) { ASSERT_TRUE(session.append(text[i]).ok()); }
    EXPECT_EQ(session.ledger().n_drafted, 0);
}

}  // namespace
}  // namespace pith::draft_test
