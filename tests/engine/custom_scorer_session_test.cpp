// custom_scorer_session_test.cpp - sessions and engines under scorers of their users' own: what these are shown, what they
// keep, and what becomes of a call in which one fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/session_state.h"
#include "engine/tiny_session.h"
#include "model/gguf_edit.h"
#include "pith/batch_engine.h"
#include "pith/custom_scorer.h"
#include "policy/own_scorer.h"

namespace pith::custom_scorer_session_test {
namespace {

using testing::lanes_below;
using testing::open_tiny;
using testing::random_tokens;
using testing::state_of;
using testing::TempFolder;
using testing::tiny_options;
using Registered = test::RegisteredScorer;

constexpr int kVocab = 384;
constexpr int kWindow = 8;
constexpr int kBudget = 30;
constexpr int kChunk = 16;
constexpr int32_t kEnd = 1 << 20;

CustomScorer own_window(ScoreLayer score = test::score_by_window) {
    return test::own_window("my-window", kWindow, std::move(score));
}

SessionOptions options_of(const std::string & policy, PrefillSchedule schedule) {
    SessionOptions options = tiny_options(policy, kBudget, schedule, kChunk);
    options.evict_every = 4;
    return options;
}

const PrefillSchedule kSchedules[] = {PrefillSchedule::kOneShot, PrefillSchedule::kChunked};

TEST(CustomScorerSession, KeepsWhatTheBuiltInOneOfTheSameFormulaKeeps) {
    const Registered own(own_window());
    const auto tokens = random_tokens(150, kVocab);
    for (const PrefillSchedule schedule : kSchedules) {
        for (const std::string rest : {"", "+ada", "+global"}) {
            Session mine = open_tiny(options_of("my-window" + rest, schedule));
            Session built_in = open_tiny(options_of("snapkv:window=8:pool=none" + rest, schedule));
            for (Session * session : {&mine, &built_in}) {
                ASSERT_TRUE(session->prefill(std::span(tokens).first(120)).ok());
                for (int i = 120; i < 140; ++i) { ASSERT_TRUE(session->append(tokens[static_cast<size_t>(i)]).ok()); }
            }
            EXPECT_GT(mine.ledger().n_evictions, 1);
            EXPECT_EQ(lanes_below(mine, kEnd), lanes_below(built_in, kEnd)) << rest;
            EXPECT_TRUE(std::ranges::equal(mine.logits(), built_in.logits())) << "bit for bit";
        }
    }
}

TEST(CustomScorerSession, FullCachesAreEvictedByIt) {
    const Registered own(own_window());
    const auto tokens = random_tokens(100, kVocab);
    SessionOptions full = tiny_options("full", 0, PrefillSchedule::kOneShot, kChunk);
    full.observe = {"my-window+ada"};
    Session session = open_tiny(full);
    Session direct = open_tiny(options_of("my-window+ada", PrefillSchedule::kOneShot));
    ASSERT_TRUE(session.prefill(tokens).ok());
    ASSERT_TRUE(direct.prefill(tokens).ok());
    ASSERT_TRUE(session.evict("my-window+ada", kBudget).ok());
    EXPECT_EQ(lanes_below(session, kEnd), lanes_below(direct, kEnd));
}

// The arrays belong together: attention made again of the queries and keys that it shows is the attention that it shows.
TEST(CustomScorerSession, IsShownKeysValuesQueriesAndAttentionThatBelongTogether) {
    int n_calls = 0;
    CustomScorer scorer{.name = "looks"};
    scorer.needs = {.window = kWindow,
                    .window_mean = true,
                    .window_max = true,
                    .window_attention = true,
                    .window_queries = true,
                    .last_query = true,
                    .running_sum = true,
                    .keys = true,
                    .values = true,
                    .key_norm = true,
                    .value_l1 = true,
                    .value_l2 = true,
                    .output_l2 = true};
    scorer.score = [&](const ScorerLayer & layer, std::span<float> scores) -> Status {
        ++n_calls;
        const auto d = static_cast<size_t>(layer.head_dim), dv = static_cast<size_t>(layer.head_dim_v);
        const auto n_group = static_cast<size_t>(layer.n_group), n_window = static_cast<size_t>(layer.n_window);
        EXPECT_EQ(n_window, static_cast<size_t>(kWindow));
        EXPECT_EQ(d, 32U);
        const size_t n_heads = n_group * static_cast<size_t>(layer.n_kv_heads);
        for (int h = 0; h < layer.n_kv_heads; ++h) {
            const size_t n = layer.length(h);
            const auto keys = layer.lane(layer.keys, h, d), values = layer.lane(layer.values, h, dv);
            const auto attention = layer.lane(layer.window_attention, h, n_group * n_window);
            const auto mean = layer.lane(layer.window_mean, h, n_group), most = layer.lane(layer.window_max, h, n_group);
            const auto last = layer.lane(layer.last_query, h, n_group);
            const auto l1 = layer.lane(layer.value_l1, h), l2 = layer.lane(layer.value_l2, h);
            const auto key_norm = layer.lane(layer.key_norm, h);
            const auto positions = layer.lane(layer.positions, h);
            for (size_t j = 0; j < n; ++j) {
                double sum = 0, squares = 0, of_key = 0;
                for (size_t c = 0; c < dv; ++c) {
                    const double v = values[j * dv + c];
                    sum += std::abs(v);
                    squares += v * v;
                }
                for (size_t c = 0; c < d; ++c) { of_key += double{keys[j * d + c]} * keys[j * d + c]; }
                EXPECT_NEAR(sum, l1[j], 1e-4 * (1 + sum));
                EXPECT_NEAR(std::sqrt(squares), l2[j], 1e-4 * (1 + sum));
                EXPECT_NEAR(std::sqrt(of_key), key_norm[j], 1e-3 * (1 + key_norm[j])) << "RoPE turns and does not stretch";
            }
            for (size_t g = 0; g < n_group; ++g) {
                for (size_t i = 0; i < n_window; ++i) {
                    const int64_t at = layer.n_seen - layer.n_window + static_cast<int64_t>(i);
                    const float * query = &layer.window_queries[(i * n_heads + static_cast<size_t>(h) * n_group + g) * d];
                    std::vector<double> row(n, 0);
                    double all = 0;
                    for (size_t j = 0; j < n; ++j) {
                        if (positions[j] > at) { continue; }
                        double product = 0;
                        for (size_t c = 0; c < d; ++c) { product += double{query[c]} * keys[j * d + c]; }
                        all += row[j] = std::exp(product / std::sqrt(static_cast<double>(d)));
                    }
                    for (size_t j = 0; j < n; ++j) {
                        EXPECT_NEAR(attention[(g * n_window + i) * n + j], row[j] / all, 1e-4);
                        if (i + 1 == n_window) { EXPECT_NEAR(last[g * n + j], row[j] / all, 1e-4); }
                    }
                }
                for (size_t j = 0; j < n; ++j) {
                    double sum = 0;
                    float top = 0;
                    for (size_t i = 0; i < n_window; ++i) {
                        sum += attention[(g * n_window + i) * n + j];
                        top = std::max(top, attention[(g * n_window + i) * n + j]);
                    }
                    EXPECT_NEAR(mean[g * n + j], sum / static_cast<double>(n_window), 1e-5);
                    EXPECT_NEAR(most[g * n + j], top, 1e-5);
                }
            }
        }
        EXPECT_EQ(layer.running_sum.size(), layer.n_entries() * n_group);
        EXPECT_EQ(layer.output_l2.size(), layer.n_entries() * n_group);
        for (size_t j = 0; j < scores.size(); ++j) { scores[j] = layer.value_l2[j] * layer.key_norm[j]; }
        return {};
    };
    const Registered own(std::move(scorer));
    for (const PrefillSchedule schedule : kSchedules) {
        SessionOptions options = options_of("looks", schedule);
        options.type_k = options.type_v = KvType::kF32;  // rounded keys have other norms
        Session session = open_tiny(options);
        ASSERT_TRUE(session.prefill(random_tokens(100, kVocab)).ok());
    }
    EXPECT_GT(n_calls, 3);
}

// Rows that lie in the cache rotated and rounded are shown as they were made, but for the rounding.
TEST(CustomScorerSession, KeysAndValuesAreShownAsTheyWereMade) {
    const auto tokens = random_tokens(60, kVocab);
    std::map<KvType, std::vector<float>> seen;
    std::map<KvType, std::vector<float>> queries;
    KvType type = KvType::kF32;
    CustomScorer scorer{.name = "rows"};
    scorer.needs.window = 4;
    scorer.needs.keys = scorer.needs.values = scorer.needs.window_queries = true;
    scorer.score = [&](const ScorerLayer & layer, std::span<float> scores) -> Status {
        if (layer.layer == 0) {  // later ones read what others have rounded
            seen[type].assign(layer.keys.begin(), layer.keys.end());
            seen[type].insert(seen[type].end(), layer.values.begin(), layer.values.end());
            queries[type].assign(layer.window_queries.begin(), layer.window_queries.end());
        }
        std::ranges::fill(scores, 0.0F);
        return {};
    };
    const Registered own(std::move(scorer));
    for (const KvType one : {KvType::kF32, KvType::kF16, KvType::kQ8_0}) {
        type = one;
        SessionOptions options = options_of("rows", PrefillSchedule::kOneShot);
        options.type_k = options.type_v = type;
        options.budget = 40;
        Session session = open_tiny(options);
        ASSERT_TRUE(session.prefill(tokens).ok());
    }
    const std::vector<float> & exact = seen[KvType::kF32];
    ASSERT_EQ(exact.size(), 2U * 2U * 60U * 32U);
    float largest = 0;
    for (const float x : exact) { largest = std::max(largest, std::abs(x)); }
    for (const auto & [rounded, tolerance] : {std::pair{KvType::kF16, 1e-3F}, std::pair{KvType::kQ8_0, 0.03F}}) {
        ASSERT_EQ(seen[rounded].size(), exact.size());
        for (size_t i = 0; i < exact.size(); ++i) { ASSERT_NEAR(seen[rounded][i], exact[i], tolerance * largest) << i; }
        // Queries are rounded nowhere: they lie as the keys do, so that their products are what attention is made of.
        const std::vector<float> & asked = queries[KvType::kF32];
        ASSERT_FALSE(asked.empty());
        ASSERT_EQ(queries[rounded].size(), asked.size());
        for (size_t i = 0; i < asked.size(); ++i) { ASSERT_NEAR(queries[rounded][i], asked[i], 1e-4F * largest) << i; }
    }
}

// Fails at the n-th time it is asked.
struct FailAt {
    int64_t n_calls = 0;
    int64_t at = 0;  // 0: never
    bool throws = false;

    Status operator()(const ScorerLayer & layer, std::span<float> scores) {
        if (++n_calls == at) {
            if (throws) { throw std::runtime_error("torn"); }
            return {ErrorCode::kInvalidArgument, "torn"};
        }
        return test::score_by_window(layer, scores);
    }
};

using Call = std::function<Status(Session &)>;

// The call, failing at each time that the scorer is asked in it: the session is each time as before. Then as it is.
void fail_at_every_call(FailAt & fails, Session & session, const Call & call, const std::string & what) {
    for (int64_t k = 1;; ++k) {
        const auto before = state_of(session);
        fails = {.n_calls = 0, .at = k, .throws = k % 2 == 0};
        const Status status = call(session);
        if (status.ok()) {
            EXPECT_GT(k, 1) << what << ": it was never asked";
            EXPECT_LT(fails.n_calls, k);
            break;
        }
        ASSERT_LT(k, 1000) << what;
        EXPECT_EQ(status.code(), fails.throws ? ErrorCode::kInternal : ErrorCode::kInvalidArgument);
        EXPECT_NE(status.message().find("scorer 'my-window', layer "), std::string::npos) << status.message();
        EXPECT_NE(status.message().find("torn"), std::string::npos) << status.message();
        EXPECT_EQ(state_of(session), before) << what << ", asked for the " << k << "th time";
    }
    fails.at = 0;
}

TEST(CustomScorerSession, WhereverItFailsTheSessionIsAsItWas) {
    FailAt fails;
    const Registered own(own_window([&](const ScorerLayer & layer, std::span<float> scores) { return fails(layer, scores); }));
    const auto tokens = random_tokens(200, kVocab);
    const auto all = std::span(tokens);
    for (const PrefillSchedule schedule : kSchedules) {
        for (const std::string policy : {"my-window", "my-window+global", "my-window+fastcaote"}) {
            Session session = open_tiny(options_of(policy, schedule));
            Session twin = open_tiny(options_of(policy, schedule));
            const auto both = [&](const Call & call, const std::string & what) {
                fail_at_every_call(fails, session, call, policy + ", " + what);
                ASSERT_TRUE(call(twin).ok());
                EXPECT_EQ(lanes_below(session, kEnd), lanes_below(twin, kEnd)) << policy << ", " << what;
                EXPECT_TRUE(std::ranges::equal(session.logits(), twin.logits())) << policy << ", " << what;
            };
            both([&](Session & s) { return s.prefill(all.first(90)); }, "first prompt");
            both([&](Session & s) { return s.prefill(all.subspan(90, 40)); }, "later prompt");
            const Call some = [&](Session & s) -> Status {  // until one evicts, and is taken for the call
                while (live_session(s).seq.since_eviction < 3) { PITH_RETURN_IF_ERROR(s.append(7)); }
                return {};
            };
            ASSERT_TRUE(some(session).ok());
            ASSERT_TRUE(some(twin).ok());
            both([&](Session & s) { return s.append(9); }, "a token");
        }
        Session session = open_tiny(options_of("my-window", schedule));
        fail_at_every_call(
            fails, session, [&](Session & s) { return s.prefill_for_questions(all.first(90), all.subspan(90, 6)).status(); },
            "questions in sight");
        fail_at_every_call(
            fails, session, [&](Session & s) { return s.evict_for_questions(all.subspan(90, 6), "my-window", Budget(20)); },
            "second stage");
    }
    SessionOptions full = tiny_options("full", 0, PrefillSchedule::kOneShot, kChunk);
    full.observe = {"my-window"};
    Session session = open_tiny(full);
    ASSERT_TRUE(session.prefill(all.first(90)).ok());
    fail_at_every_call(
        fails, session, [&](Session & s) { return s.evict("my-window", kBudget); }, "evict()");
}

TEST(CustomScorerSession, IsInUseWhileASessionOrASnapshotIs) {
    ASSERT_TRUE(register_scorer(own_window()).ok());
    std::shared_ptr<Session::Snapshot> snapshot;
    {
        Session session = open_tiny(options_of("my-window", PrefillSchedule::kOneShot));
        EXPECT_EQ(unregister_scorer("my-window").code(), ErrorCode::kInvalidArgument);
        ASSERT_TRUE(session.prefill(random_tokens(60, kVocab)).ok());
        snapshot = session.snapshot().value();
    }
    EXPECT_EQ(unregister_scorer("my-window").code(), ErrorCode::kInvalidArgument);
    snapshot.reset();
    EXPECT_TRUE(unregister_scorer("my-window").ok());
}

TEST(CustomScorerSession, ASavedSessionGoesOnUnderTheScorerOfItsName) {
    const TempFolder folder;
    const std::string path = folder.file("own.pith");
    const auto tokens = random_tokens(160, kVocab);
    const auto rest = std::span(tokens).subspan(100);
    const Model model = testing::tiny_model(testing::tiny_spec()).value();
    std::vector<float> expected;
    {
        CustomScorer scorer = own_window();
        scorer.needs.values = true;  // no part of what the file says
        const Registered own(std::move(scorer));
        Session session = model.session(options_of("my-window", PrefillSchedule::kChunked)).value();
        ASSERT_TRUE(session.prefill(std::span(tokens).first(100)).ok());
        ASSERT_TRUE(session.save(path).ok());
        ASSERT_TRUE(session.prefill(rest).ok());
        expected.assign(session.logits().begin(), session.logits().end());
        auto opened = model.open_session(path);
        ASSERT_TRUE(opened.ok()) << opened.status().message();
        ASSERT_TRUE(opened->prefill(rest).ok());
        EXPECT_TRUE(std::ranges::equal(opened->logits(), expected));
    }
    const auto unknown = model.open_session(path);
    ASSERT_FALSE(unknown.ok());
    EXPECT_NE(unknown.status().message().find("my-window"), std::string::npos) << unknown.status().message();
    {
        CustomScorer other = own_window();
        other.needs.window = 12;  // another of that name: what was kept for it is not there
        const Registered own(std::move(other));
        EXPECT_FALSE(model.open_session(path).ok());
    }
}

// A name says nothing of the function in another process.
TEST(CustomScorerSession, EnginesKeepNoStatesOfItsSequences) {
    const Registered own(own_window());
    const Model model = testing::tiny_model(testing::tiny_spec()).value();
    const auto tokens = random_tokens(120, kVocab);
    const TempFolder folder;
    for (const bool in_memory : {false, true}) {
        for (const std::string policy : {"my-window", "snapkv:window=8:pool=none"}) {
            EngineOptions options;
            options.n_threads = 1;
            if (in_memory) {
                options.cache_memory_bytes = uint64_t{64} << 20U;
            } else {
                options.cache_dir = folder.file("states");
            }
            Engine engine = model.engine(options).value();
            int64_t n_cached = 0;
            std::vector<int32_t> answers[2];
            for (auto & answer : answers) {
                Request request;
                request.tokens = tokens;
                request.options = options_of(policy, PrefillSchedule::kChunked);
                request.max_tokens = 4;
                const auto id = engine.submit(std::move(request));
                ASSERT_TRUE(id.ok()) << id.status().message();
                ASSERT_TRUE(engine.run().ok());
                EXPECT_TRUE(engine.status(*id).ok()) << engine.status(*id).message();
                n_cached = engine.n_cached(*id);
                answer.assign(engine.answer(*id).begin(), engine.answer(*id).end());
            }
            EXPECT_EQ(answers[0], answers[1]);
            EXPECT_EQ(n_cached > 0, policy != "my-window") << policy << (in_memory ? " in memory" : " in a folder");
            EXPECT_EQ(engine.ledger().n_cache_kept == 0, policy == "my-window" || in_memory);
        }
    }
}

TEST(CustomScorerSession, ARequestThatItFailsEndsAlone) {
    FailAt fails;
    const Registered own(own_window([&](const ScorerLayer & layer, std::span<float> scores) { return fails(layer, scores); }));
    const Model model = testing::tiny_model(testing::tiny_spec()).value();
    EngineOptions options;
    options.n_threads = 1;
    Engine engine = model.engine(options).value();
    const auto submit = [&](const std::string & policy) {
        Request request;
        request.tokens = random_tokens(120, kVocab);
        request.options = options_of(policy, PrefillSchedule::kChunked);
        request.max_tokens = 4;
        return engine.submit(std::move(request)).value();
    };
    fails.at = 5;
    const int64_t torn = submit("my-window");
    const int64_t whole = submit("snapkv:window=8:pool=none");
    ASSERT_TRUE(engine.run().ok());
    EXPECT_EQ(engine.state(torn), RequestState::kFailed);
    EXPECT_NE(engine.status(torn).message().find("scorer 'my-window'"), std::string::npos) << engine.status(torn).message();
    EXPECT_EQ(engine.state(whole), RequestState::kDone);
    const int64_t again = submit("my-window");
    ASSERT_TRUE(engine.run().ok());
    EXPECT_TRUE(std::ranges::equal(std::vector<int32_t>(engine.answer(again).begin(), engine.answer(again).end()),
                                   engine.answer(whole)));
}

TEST(CustomScorerSession, WatchedHiddenStatesAreThoseOfEveryTokenAndChangeNothing) {
    const auto tokens = random_tokens(80, kVocab);
    for (const PrefillSchedule schedule : kSchedules) {
        Session session = open_tiny(options_of("knorm:recent=4", schedule));
        Session twin = open_tiny(options_of("knorm:recent=4", schedule));
        std::map<std::pair<int, int>, std::vector<float>> rows;  // layer, position
        session.watch_hidden([&](const HiddenRows & hidden) -> Status {
            EXPECT_EQ(hidden.rows.size(), static_cast<size_t>(hidden.n_tokens) * static_cast<size_t>(hidden.n_embd));
            for (int i = 0; i < hidden.n_tokens; ++i) {
                const auto row = hidden.rows.subspan(static_cast<size_t>(i) * static_cast<size_t>(hidden.n_embd),
                                                     static_cast<size_t>(hidden.n_embd));
                const bool is_new = rows.try_emplace({hidden.layer, hidden.first_position + i}, row.begin(), row.end()).second;
                EXPECT_TRUE(is_new) << hidden.layer << ' ' << hidden.first_position + i;
            }
            return {};
        });
        for (Session * one : {&session, &twin}) {
            ASSERT_TRUE(one->prefill(std::span(tokens).first(70)).ok());
            for (int i = 70; i < 80; ++i) { ASSERT_TRUE(one->append(tokens[static_cast<size_t>(i)]).ok()); }
        }
        EXPECT_EQ(rows.size(), 3U * 80U);
        EXPECT_NE(rows[(std::pair{0, 1})], rows[(std::pair{1, 1})]);
        EXPECT_EQ(lanes_below(session, kEnd), lanes_below(twin, kEnd));
        EXPECT_TRUE(std::ranges::equal(session.logits(), twin.logits()));
        session.watch_hidden({});
        ASSERT_TRUE(session.append(5).ok());
        EXPECT_EQ(rows.size(), 3U * 80U) << "nobody looks any more";
    }
}

TEST(CustomScorerSession, AWatcherThatFailsEndsTheCallAndTheSessionIsAsItWas) {
    const auto tokens = random_tokens(80, kVocab);
    for (const PrefillSchedule schedule : kSchedules) {
        Session session = open_tiny(options_of("knorm:recent=4", schedule));
        ASSERT_TRUE(session.prefill(std::span(tokens).first(40)).ok());
        const auto before = state_of(session);
        for (const bool throws : {false, true}) {
            session.watch_hidden([throws](const HiddenRows & hidden) -> Status {
                if (hidden.layer < 2) { return {}; }
                if (throws) { throw std::runtime_error("no room for more"); }
                return {ErrorCode::kOutOfMemory, "no room for more"};
            });
            const Status status = session.prefill(std::span(tokens).subspan(40));
            EXPECT_EQ(status.code(), throws ? ErrorCode::kInternal : ErrorCode::kOutOfMemory);
            EXPECT_EQ(status.message(), "no room for more");
            EXPECT_EQ(state_of(session), before);
        }
        session.watch_hidden({});
        EXPECT_TRUE(session.prefill(std::span(tokens).subspan(40)).ok());
    }
}

}  // namespace
}  // namespace pith::custom_scorer_session_test
