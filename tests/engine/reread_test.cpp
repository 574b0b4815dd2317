// reread_test.cpp - policies that read the text again: what that tells, and that nothing else is left of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "engine/evict/reread.h"
#include "engine/fail_everywhere.h"
#include "engine/policy_probe.h"
#include "engine/tiny_session.h"
#include "pith/session.h"

namespace pith::reread_test {
namespace {

using testing::Lanes;
using testing::lanes_below;
using testing::open_tiny;
using testing::random_tokens;
using testing::tiny_options;
using testing::tiny_spec;

constexpr int kChunk = 48;
constexpr int kText = 3 * kChunk + 20;
constexpr int kBudget = 24;

class RereadSession : public ::testing::TestWithParam<const char *> {
protected:
    static SessionOptions options_of(const std::string & policy, int budget, PrefillSchedule schedule) {
        SessionOptions options = tiny_options(policy, budget, schedule, kChunk);
        options.reread.first = random_tokens(5, tiny_spec().n_vocab, 21);
        options.reread.next = random_tokens(4, tiny_spec().n_vocab, 22);
        options.reread.behind = random_tokens(3, tiny_spec().n_vocab, 23);
        return options;
    }
    static SessionOptions observing() {
        SessionOptions options = options_of("full", 0, PrefillSchedule::kOneShot);
        options.observe = {GetParam()};
        return options;
    }

    // What the session was told of the entries at [begin, end) is what the words and that piece pay to them, fed as a prompt of
    // their own behind the text. Counts them, over all heads.
    static void expect_paid(Session & session, std::span<const int32_t> text, int begin, int end, PrefillSchedule schedule,
                            int64_t & n_compared) {
        SessionOptions plain = options_of("full", 0, schedule);
        std::vector<int32_t> again = begin == 0 ? plain.reread.first : plain.reread.next;
        const auto add = [&again](std::span<const int32_t> tokens) { again.insert(again.end(), tokens.begin(), tokens.end()); };
        if (begin > 0) { add(text.subspan(static_cast<size_t>(begin - kRereadHint), kRereadHint)); }
        add(plain.reread.behind);
        add(text.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
        const EvidenceNeeds window{.window = static_cast<int>(again.size()), .window_mean = true, .window_max = true};
        plain.observe = {"snapkv:window=" + std::to_string(again.size())};
        Session twice = open_tiny(plain);
        ASSERT_TRUE(twice.prefill(text).ok());
        ASSERT_TRUE(twice.prefill(again).ok());
        for (int l = 0; l < session.n_layers(); ++l) {
            const auto told = PolicyProbe(session).evidence(l, {.reread_max = true});
            const auto paid = PolicyProbe(twice).evidence(l, window);
            ASSERT_TRUE(told.ok()) << told.status().message();
            ASSERT_TRUE(paid.ok()) << paid.status().message();
            for (int head = 0; head < told->reread_max.n_rows(); ++head) {
                const auto positions = told->positions.row(head / told->n_group);
                for (size_t j = 0; j < positions.size(); ++j) {
                    if (positions[j] < begin || positions[j] >= end) { continue; }
                    ASSERT_NEAR(told->reread_max.row(head)[j], paid->window_max.row(head)[static_cast<size_t>(positions[j])],
                                1e-6)
                        << l << " " << head << " " << positions[j];
                    ++n_compared;
                }
            }
        }
    }

    const std::vector<int32_t> text_ = random_tokens(kText, tiny_spec().n_vocab, 3);
};

TEST_P(RereadSession, TellsWhatTheTextFedAgainBehindItselfPays) {
    Session session = open_tiny(observing());
    ASSERT_TRUE(session.prefill(text_).ok());
    int64_t n_compared = 0;
    ASSERT_NO_FATAL_FAILURE(expect_paid(session, text_, 0, kText, PrefillSchedule::kOneShot, n_compared));
    EXPECT_EQ(n_compared, int64_t{kText} * session.n_layers() * live_session(session).shape().n_heads());
}

// The same of each piece of a text that is read again in several: behind its words and the end of the piece before.
TEST_P(RereadSession, TellsOfEveryPieceWhatThatPieceFedAgainPays) {
    const auto text = std::span(text_).first(3 * kChunk);  // in the budget until its last chunk: then all three are read again
    Session session = open_tiny(options_of(GetParam(), 2 * kChunk + 40, PrefillSchedule::kChunked));
    ASSERT_TRUE(session.prefill(text).ok());
    ASSERT_EQ(session.ledger().n_evictions, 1);
    for (int begin = 0; begin < 3 * kChunk; begin += kChunk) {
        int64_t n_compared = 0;
        ASSERT_NO_FATAL_FAILURE(expect_paid(session, text, begin, begin + kChunk, PrefillSchedule::kChunked, n_compared));
        EXPECT_GT(n_compared, 0);
    }
}

TEST_P(RereadSession, WordsOutsideTheVocabularyAreRefused) {
    SessionOptions options = observing();
    options.reread.next.push_back(tiny_spec().n_vocab);
    const auto refused = testing::tiny_model(tiny_spec())->session(options);
    EXPECT_NE(refused.status().message().find("ask for the text again"), std::string::npos) << refused.status().message();
}

// Lanes, logits, and what a policy beside it asks for are those of a session that never read twice.
TEST_P(RereadSession, LeavesNothingElseOfTheSecondReading) {
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        SessionOptions both = observing();
        both.prefill = schedule;
        both.observe.emplace_back("h2o:recent=6");
        SessionOptions one = both;
        one.observe = {"h2o:recent=6"};
        Session read_twice = open_tiny(both);
        Session read_once = open_tiny(one);
        ASSERT_TRUE(read_twice.prefill(text_).ok());
        ASSERT_TRUE(read_once.prefill(text_).ok());
        EXPECT_EQ(testing::lanes_of(read_twice), testing::lanes_of(read_once));
        ASSERT_TRUE(read_twice.evict("h2o:recent=6", kBudget).ok());
        ASSERT_TRUE(read_once.evict("h2o:recent=6", kBudget).ok());
        for (int i = 0; i < 5; ++i) { EXPECT_EQ(*read_twice.decode(), *read_once.decode()); }
        EXPECT_EQ(testing::lanes_of(read_twice), testing::lanes_of(read_once));
    }
}

TEST_P(RereadSession, KeepsWhatEvictAfterAFullPrefillKeeps) {
    Session session = open_tiny(options_of(GetParam(), kBudget, PrefillSchedule::kOneShot));
    const Status status = session.prefill(text_);
    ASSERT_TRUE(status.ok()) << status.message();
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        SessionOptions keeps_all = observing();
        keeps_all.prefill = schedule;
        Session full = open_tiny(keeps_all);
        ASSERT_TRUE(full.prefill(text_).ok());
        EXPECT_EQ(n_unread(live_session(full)), 0) << "once, for all who ask later";
        ASSERT_TRUE(full.evict(GetParam(), kBudget).ok());
        EXPECT_EQ(lanes_below(session, kText), lanes_below(full, kText));
    }
    EXPECT_EQ(session.ledger().kept_entries, int64_t{kBudget} * session.n_layers() * session.n_kv_heads());
    EXPECT_GT(session.ledger().reread_s, 0);
}

// In chunks each one is read again before it is evicted, and decoded tokens are, too.
TEST_P(RereadSession, StaysInItsBudgetChunkByChunkAndWhileItDecodes) {
    SessionOptions options = options_of(GetParam(), kBudget, PrefillSchedule::kChunked);
    options.evict_every = 8;
    Session session = open_tiny(options);
    RunHooks hooks;
    int n_checked = 0;
    hooks.progress = [&](int64_t n_done, int64_t) {
        if (n_done < kChunk) { return; }
        EXPECT_GT(session.ledger().n_evictions, 0);
        ++n_checked;
    };
    ASSERT_TRUE(session.prefill(text_, hooks).ok());
    EXPECT_GE(n_checked, 3);
    const int64_t n_lanes = int64_t{session.n_layers()} * session.n_kv_heads();
    EXPECT_EQ(session.ledger().kept_entries, kBudget * n_lanes);
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(session.decode().ok());
        EXPECT_LE(session.ledger().kept_entries, (kBudget + options.evict_every) * n_lanes);
    }
    const auto seen = PolicyProbe(session).evidence(0, {.reread_max = true});
    ASSERT_TRUE(seen.ok()) << "what is new is read again for whoever looks";
    const auto told = seen->reread_max.row(0);
    EXPECT_TRUE(std::ranges::all_of(told, [](float paid) { return paid > 0 && paid <= 1; }));
}

TEST_P(RereadSession, GoesOnFromAFileAsIfItHadNeverBeenSaved) {
    SessionOptions options = options_of(GetParam(), kBudget, PrefillSchedule::kChunked);
    options.evict_every = 8;
    Session session = open_tiny(options);
    ASSERT_TRUE(session.prefill(text_).ok());
    for (int i = 0; i < 3; ++i) { ASSERT_TRUE(session.decode().ok()); }
    const std::string path = ::testing::TempDir() + "reread_" + std::to_string(getpid()) + ".pith";
    ASSERT_TRUE(session.save(path).ok());
    Session opened = open_tiny(options);
    const Status loaded = opened.load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    for (int i = 0; i < 12; ++i) { ASSERT_EQ(*opened.decode(), *session.decode()) << i; }
    EXPECT_EQ(testing::contents_of(opened), testing::contents_of(session));
    SessionOptions other = options;
    other.reread.first.push_back(1);
    Session elsewhere = open_tiny(other);
    EXPECT_NE(elsewhere.load(path).message().find("ask for the text again"), std::string::npos);
    std::filesystem::remove(path);
}

TEST_P(RereadSession, ItsPeakStaysWithinABudgetInBytes) {
    SessionOptions options = options_of(GetParam(), 0, PrefillSchedule::kAuto);
    const Session measured = open_tiny(options_of("full", 0, PrefillSchedule::kOneShot));
    const int64_t n_lanes = int64_t{measured.n_layers()} * measured.n_kv_heads();
    for (const int64_t pages : {3, 4}) {
        options.budget = Budget(BudgetKind::kBytes, static_cast<double>(n_lanes * pages * 2 * 4096));
        options.evict_every = 8;
        Session session = open_tiny(options);
        const Status status = session.prefill(text_);
        ASSERT_TRUE(status.ok()) << status.message();
        for (int i = 0; i < 20; ++i) { ASSERT_TRUE(session.decode().ok()); }
        EXPECT_LE(session.ledger().kv_peak_bytes, static_cast<size_t>(options.budget.value));
        EXPECT_GT(session.ledger().n_evictions, 0) << pages;
    }
}

// A question that is in sight is part of the text, and questions that come later are not looked for.
TEST_P(RereadSession, QuestionsChangeNothingOfWhatIsKept) {
    Session plain = open_tiny(options_of(GetParam(), kBudget, PrefillSchedule::kOneShot));
    Session asked = open_tiny(options_of(GetParam(), kBudget, PrefillSchedule::kOneShot));
    ASSERT_TRUE(plain.prefill(text_).ok());
    const auto seen = asked.prefill_for_questions(text_, random_tokens(9, tiny_spec().n_vocab, 6));
    ASSERT_TRUE(seen.ok()) << seen.status().message();
    EXPECT_FALSE(*seen);
    EXPECT_EQ(lanes_below(asked, kText), lanes_below(plain, kText));
}

class RereadFailure : public RereadSession {};

// Memory, files and threads that are not there, and a cancel at every point: while a prompt is read, while more is, in evict().
TEST_P(RereadFailure, LeavesTheSessionAsItWas) {
    const auto text = std::span(text_).first(kChunk + 12);
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        SessionOptions options = options_of(GetParam(), kBudget, schedule);
        options.evict_every = 8;
        Session session = open_tiny(options);
        EXPECT_GT(testing::fail_everywhere(session, [&](Session & one) { return one.prefill(text); }), 0);
        const std::vector<int32_t> more = random_tokens(9, tiny_spec().n_vocab, 5);
        EXPECT_GT(testing::fail_everywhere(session, [&](Session & one) { return one.prefill(more); }), 0);
    }
    Session full = open_tiny(observing());
    ASSERT_TRUE(full.prefill(text.first(kChunk)).ok());
    ASSERT_TRUE(full.prefill(text.subspan(kChunk)).ok());  // what comes behind a first prompt is read again when it is evicted
    EXPECT_GT(testing::fail_everywhere(full, [](Session & one) { return one.evict(GetParam(), kBudget); }), 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, RereadFailure, ::testing::Values("kvzip"));

INSTANTIATE_TEST_SUITE_P(Policies, RereadSession, ::testing::Values("reread", "kvzip", "reread:group=mean+ada:alpha=0"),
                         [](const auto & of) {
                             std::string name;
                             for (const char c : std::string(of.param)) { name += std::isalnum(c) != 0 ? c : '_'; }
                             return name;
                         });

}  // namespace
}  // namespace pith::reread_test
