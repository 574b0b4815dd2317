// windows_test.cpp - models some of whose layers see a window only: what their lanes hold and when, snapshots, calls that
// fail, batches, and budgets in bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <stdexcept>

#include "cache/page_memory.h"
#include "engine/answers_alone.h"
#include "engine/rest/saved_and_opened.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"
#include "every_case.h"
#include "pith/batch_engine.h"

namespace pith::windows_test {
namespace {

using testing::contents_of;
using testing::random_tokens;
using testing::scratch_file;
using testing::tiny_model;
using testing::tiny_spec;

constexpr int kStep = CacheLayout::kWindowStep;
constexpr int kChunk = 48;

struct WindowCase {
    std::string name;
    std::string arch;
    int window;
    int n_layers;
    int head_dim = 32;
};
void PrintTo(const WindowCase & c, std::ostream * out) {
    *out << c.name;
}
const std::vector<WindowCase> kCases = {{"gemma3", "gemma3", 40, 7},
                                        {"gemma2", "gemma2", 100, 4},
                                        {"gpt_oss", "gpt-oss", 16, 4},
                                        {"cohere2", "cohere2", 150, 5},
                                        {"gemma4", "gemma4", 24, 6},
                                        {"gemma4_shared_keys", "gemma4", 40, 9},
                                        {"gemma3_portable", "gemma3", 40, 7, 40}};

// In the default run a model has a share of a sweep's cases, and the models together have all.
class Windows : public ::testing::TestWithParam<WindowCase> {
protected:
    static bool in_turn(size_t one, size_t n) {
        const auto at = std::ranges::find(kCases, GetParam().name, &WindowCase::name);
        return testing::in_turn(static_cast<size_t>(at - kCases.begin()), one, n);
    }

    static Result<Model> load() {
        RandomModelSpec spec = tiny_spec();
        spec.arch = GetParam().arch;
        spec.n_layers = GetParam().n_layers;
        spec.window = GetParam().window;
        spec.head_dim = GetParam().head_dim;
        if (spec.arch == "gpt-oss") {
            spec.n_experts = 4;
            spec.n_experts_used = 2;
            spec.n_ff_expert = 32;
        }
        if (spec.arch == "gemma4") {  // twice as many heads of half the size where there is a window
            spec.keys = {{"attention.sliding_window_pattern", RandomList<bool>{{true, true, false}}},
                         {"attention.head_count_kv", RandomList<int32_t>{{4, 4, 2}}},
                         {"attention.key_length_swa", 16U},
                         {"attention.value_length_swa", 16U}};
            if (GetParam().name == "gemma4_shared_keys") { spec.keys.emplace_back("attention.shared_kv_layers", 3U); }
        }
        spec.n_ctx_train = 4096;
        return tiny_model(spec);
    }

    static SessionOptions options(const std::string & policy, Budget budget, PrefillSchedule schedule, int chunk = kChunk) {
        SessionOptions options;
        options.policy = policy;
        options.budget = budget;
        options.prefill = schedule;
        options.chunk = chunk;
        options.n_threads = 1;
        return options;
    }

    static Session session_of(const Model & model, const std::string & policy) {
        auto session = model.session(options(policy, policy == "full" ? Budget() : Budget(64), PrefillSchedule::kChunked));
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }

    // Bytes of whole pages around so many entries of each lane of a layer with a window, which may begin and end inside a page.
    static size_t pages_of_windows(const Session & session, const RaggedCache & cache, int64_t n_entries) {
        size_t bytes = 0;
        for (int l = 0; l < session.n_layers(); ++l) {
            if (session.is_governed(l)) { continue; }
            const LaneRows rows = cache.layout().rows(l);
            const auto n = static_cast<size_t>(n_entries);
            const size_t of_lane = page_ceil(n * rows.bytes_k()) + page_ceil(n * rows.bytes_v()) + 2 * page_ceil(1);
            bytes += static_cast<size_t>(cache.n_kv_heads(l)) * of_lane;
        }
        return bytes;
    }

    // Every lane of a layer with a window: no entry that is needed is gone, and few others are there.
    static void check_windows(Session & session) {
        const int64_t next = session.n_tokens();
        const RaggedCache & cache = LayerProbe(session).cache();
        size_t pages = 0;
        for (int l = 0; l < session.n_layers(); ++l) {
            if (session.is_governed(l)) { continue; }
            const LaneRows rows = cache.layout().rows(l);
            for (int h = 0; h < cache.n_kv_heads(l); ++h) {
                const auto lane = session.lane_positions(l, h);
                ASSERT_FALSE(lane.empty());
                EXPECT_EQ(lane.back(), next - 1);
                EXPECT_LE(lane.front(), std::max<int64_t>(0, next - GetParam().window + 1));
                EXPECT_EQ(std::ssize(lane), next - lane.front()) << "the newest without a gap";
                EXPECT_LE(std::ssize(lane), GetParam().window + kStep);
                const auto most = static_cast<size_t>(GetParam().window + kStep);
                pages += page_ceil(most * rows.bytes_k()) + page_ceil(most * rows.bytes_v());
            }
        }
        EXPECT_LE(cache.allocated_bytes(Layers::kWindows), pages);
        EXPECT_EQ(session.ledger().kv_window_bytes, cache.allocated_bytes(Layers::kWindows));
    }
};

TEST_P(Windows, HoldTheirWindowAndOneStepMoreBetweenCalls) {
    const auto model = load();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(900, model->info().n_vocab);
    size_t n_cases = 0;
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        for (const char * policy : {"full", "snapkv:window=8", "h2o"}) {
            if (!in_turn(n_cases++, 6)) { continue; }
            SCOPED_TRACE(policy);
            const bool full = std::string(policy) == "full";
            auto session = model->session(options(policy, full ? Budget() : Budget(64), schedule));
            ASSERT_TRUE(session.ok()) << session.status().message();
            // While a text is read, a chunk more.
            int n_looks = 0;
            RunHooks hooks;
            hooks.progress = [&](int64_t, int64_t) {
                const RaggedCache & cache = LayerProbe(*session).cache();
                const int64_t most = GetParam().window + kStep + kChunk;
                EXPECT_LE(cache.allocated_bytes(Layers::kWindows), pages_of_windows(*session, cache, most)) << n_looks;
                ++n_looks;
            };
            ASSERT_TRUE(session->prefill(std::span(tokens).first(500), hooks).ok());
            EXPECT_GE(n_looks, 500 / kChunk);
            check_windows(*session);
            for (int i = 500; i < 800; ++i) {
                ASSERT_TRUE(session->append(tokens[static_cast<size_t>(i)]).ok());
                if (i % 20 == 0) { check_windows(*session); }
            }
            ASSERT_TRUE(session->prefill(std::span(tokens).subspan(800), hooks).ok());
            check_windows(*session);
            const Ledger & ledger = session->ledger();
            int n_governed = 0;
            for (int l = 0; l < session->n_layers(); ++l) { n_governed += session->is_governed(l) ? 1 : 0; }
            EXPECT_EQ(ledger.n_lanes, n_governed * session->n_kv_heads());
            EXPECT_LT(n_governed, session->n_layers());
            EXPECT_LE(ledger.kept_entries, (full ? 900 : 64 + 128) * ledger.n_lanes);
        }
    }
}

TEST_P(Windows, ChunksGiveWhatOneShotGives) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    const auto tokens = random_tokens(400, model->info().n_vocab);
    std::vector<std::vector<float>> logits;
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        auto session = model->session(options("full", Budget(), schedule));
        ASSERT_TRUE(session.ok());
        ASSERT_TRUE(session->prefill(tokens).ok());
        for (int i = 0; i < 20; ++i) { ASSERT_TRUE(session->decode().ok()); }
        logits.emplace_back(session->logits().begin(), session->logits().end());
    }
    EXPECT_EQ(logits[0], logits[1]);
}

TEST_P(Windows, SnapshotsComeBackBitForBit) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    const auto tokens = random_tokens(600, model->info().n_vocab);
    for (const char * policy : {"full", "h2o"}) {
        SCOPED_TRACE(policy);
        Session session = session_of(*model, policy);
        ASSERT_TRUE(session.prefill(std::span(tokens).first(333)).ok());
        const auto early = session.snapshot();
        ASSERT_TRUE(early.ok());
        const auto before = contents_of(session);
        for (int i = 0; i < 40; ++i) { ASSERT_TRUE(session.decode().ok()); }
        const auto late = session.snapshot();
        ASSERT_TRUE(late.ok());
        const auto at_late = contents_of(session);
        for (int i = 0; i < 200; ++i) { ASSERT_TRUE(session.decode().ok()); }
        const auto at_end = contents_of(session);
        ASSERT_TRUE(session.restore(*late).ok());
        EXPECT_TRUE(contents_of(session) == at_late);
        ASSERT_TRUE(session.restore(*early).ok());
        EXPECT_TRUE(contents_of(session) == before);
        for (int i = 0; i < 240; ++i) { ASSERT_TRUE(session.decode().ok()); }
        EXPECT_TRUE(contents_of(session) == at_end);
        ASSERT_TRUE(session.restore(*late).ok());
        EXPECT_TRUE(contents_of(session) == at_late);
    }
}

// Sampled queries, too: of layers that policies do not govern there are none.
TEST_P(Windows, ASavedSessionGoesOnAsIfItHadNotBeenSaved) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    for (const char * policy : {"full", "h2o", "snapkv:window=8+novelty"}) {
        SCOPED_TRACE(policy);
        Session session = session_of(*model, policy);
        ASSERT_TRUE(session.prefill(random_tokens(333, model->info().n_vocab)).ok());
        for (int i = 0; i < 40; ++i) { ASSERT_TRUE(session.decode().ok()); }
        testing::expect_saving_changes_nothing(*model, session, std::string(policy) != "full");
        check_windows(session);
    }
}

TEST_P(Windows, ACallThatFailsLeavesThemAsTheyWere) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    const auto tokens = random_tokens(900, model->info().n_vocab);
    for (const char * policy : {"full", "snapkv:window=8"}) {
        SCOPED_TRACE(policy);
        Session session = session_of(*model, policy);
        ASSERT_TRUE(session.prefill(std::span(tokens).first(300)).ok());
        for (const int64_t n_until : {48, 144, 400}) {
            const auto before = contents_of(session);
            RunHooks hooks;
            hooks.progress = [&](int64_t n_done, int64_t) {
                if (n_done >= n_until) { throw std::runtime_error("enough"); }
            };
            EXPECT_FALSE(session.prefill(std::span(tokens).subspan(300, 480), hooks).ok());
            EXPECT_TRUE(contents_of(session) == before);
        }
        auto other =
            model->session(options(policy, std::string(policy) == "full" ? Budget() : Budget(64), PrefillSchedule::kChunked));
        ASSERT_TRUE(other.ok());
        ASSERT_TRUE(other->prefill(std::span(tokens).first(300)).ok());
        for (Session * one : {&session, &*other}) {
            ASSERT_TRUE(one->prefill(std::span(tokens).subspan(300)).ok());
            for (int i = 0; i < 10; ++i) { ASSERT_TRUE(one->decode().ok()); }
        }
        EXPECT_TRUE(contents_of(session) == contents_of(*other));
    }
}

// A policy that sees every layer's evidence first, questions in sight, and a policy chosen behind a prompt read in full.
TEST_P(Windows, PoliciesGovernTheOtherLayersInEverySchedule) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    const auto tokens = random_tokens(420, model->info().n_vocab);
    const auto check = [&](Session & session, int64_t budget) {
        const Ledger & ledger = session.ledger();
        EXPECT_EQ(ledger.kept_entries, budget * ledger.n_lanes);
        check_windows(session);
    };
    size_t n_policies = 0;
    for (const char * policy :
         {"laprox", "snapkv:window=8+novelty+diverse", "snapkv:window=8+pyramid", "snapkv:window=8+ada"}) {
        if (!in_turn(n_policies++, 4)) { continue; }
        SCOPED_TRACE(policy);
        for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
            auto session = model->session(options(policy, 64, schedule));
            ASSERT_TRUE(session.ok()) << session.status().message();
            RunHooks hooks;
            hooks.n_question = 20;
            ASSERT_TRUE(session->prefill(tokens, hooks).ok());
            check(*session, 64);
        }
        auto asked = model->session(options(policy, 64, PrefillSchedule::kOneShot));
        ASSERT_TRUE(asked.ok());
        const auto seen = asked->prefill_for_questions(tokens, random_tokens(30, model->info().n_vocab, 9));
        ASSERT_TRUE(seen.ok()) << seen.status().message();
        EXPECT_TRUE(*seen);
        check(*asked, 64);
        SessionOptions later = options("full", Budget(), PrefillSchedule::kOneShot);
        later.observe = {policy};
        auto session = model->session(later);
        ASSERT_TRUE(session.ok());
        ASSERT_TRUE(session->prefill(tokens).ok());
        ASSERT_TRUE(session->evict(policy, 50).ok());
        check(*session, 50);
        auto direct = model->session(options(policy, 50, PrefillSchedule::kOneShot));
        ASSERT_TRUE(direct.ok());
        ASSERT_TRUE(direct->prefill(tokens).ok());
        EXPECT_TRUE(testing::lanes_of(*session) == testing::lanes_of(*direct));
    }
}

TEST_P(Windows, BatchesGiveWhatEachGivesAlone) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    std::vector<Request> requests;
    for (unsigned i = 0; i < 4; ++i) {
        Request & request = requests.emplace_back();
        request.tokens = random_tokens(150 + 70 * static_cast<int>(i), model->info().n_vocab, i);
        request.options =
            options(i % 2 == 0 ? "full" : "h2o", i % 2 == 0 ? Budget() : Budget(64), PrefillSchedule::kChunked, 24);
        request.max_tokens = 40;
    }
    testing::expect_batch_answers_as_alone(*model, requests);
}

// With what attention left behind for policies that look at sums, at the last queries and at sampled ones.
TEST_P(Windows, AnswersAreSetAsideAndComeBackToTheBit) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    for (const char * policy : {"h2o", "snapkv:window=8+novelty"}) {
        SCOPED_TRACE(policy);
        Request request;
        request.tokens = random_tokens(150, model->info().n_vocab);
        request.options = options(policy, Budget(64), PrefillSchedule::kChunked);
        request.options.evict_every = 16;
        request.max_tokens = 60;
        testing::expect_unchanged_when_set_aside(*model, request);
    }
}

TEST_P(Windows, ABudgetInBytesBoundsThemToo) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    const auto tokens = random_tokens(1500, model->info().n_vocab);
    size_t n_cases = 0;
    for (const char * policy : {"snapkv:window=8", "h2o"}) {
        for (const size_t kibibytes : {400U, 640U, 1000U}) {
            for (const PrefillSchedule schedule : {PrefillSchedule::kAuto, PrefillSchedule::kChunked}) {
                if (!in_turn(n_cases++, 6)) { continue; }
                const Budget budget(BudgetKind::kBytes, static_cast<double>(kibibytes) * 1024);
                auto session = model->session(options(policy, budget, schedule, 64));
                ASSERT_TRUE(session.ok());
                const Status read = session->prefill(std::span(tokens).first(1200));
                if (!read.ok()) {  // no room beside the windows: it says how much is enough
                    EXPECT_EQ(read.code(), ErrorCode::kBudget) << read.message();
                    EXPECT_NE(read.message().find("use budget"), std::string::npos) << read.message();
                    continue;
                }
                for (int i = 1200; i < 1500; ++i) { ASSERT_TRUE(session->append(tokens[static_cast<size_t>(i)]).ok()); }
                EXPECT_LE(session->ledger().kv_peak_bytes, kibibytes * 1024);
                EXPECT_GT(session->ledger().kv_window_bytes, 0U);
            }
        }
    }
}

// A lane that grows, and one that others go on from.
TEST_P(Windows, AKeptPromptIsReadByItsForks) {
    const auto model = load();
    ASSERT_TRUE(model.ok());
    testing::expect_forks_answer_as_alone(*model, options("full", Budget(), PrefillSchedule::kChunked),
                                          random_tokens(300, model->info().n_vocab), 250, 150);
}

// Lanes, windows and states of published shapes, few layers of them, and narrow between the layers: what a cache takes in bytes
// is theirs. The budget holds after every chunk and every token.
TEST(ByteBudgets, ArePassedByNoPublishedShape) {
    struct Case {
        const char * shape;
        int n_layers;
        int mebibytes;
    };
    for (const Case & c : {Case{"gemma3-4b", 7, 34}, Case{"qwen3.5-27b", 4, 23}}) {
        SCOPED_TRACE(c.shape);
        auto spec = shape_preset(c.shape);
        ASSERT_TRUE(spec.ok());
        spec->n_layers = c.n_layers;
        spec->n_heads = spec->n_kv_heads;
        spec->n_embd = 64;
        spec->n_ff = 64;
        spec->n_vocab = 384;
        const auto model = tiny_model(*spec);
        ASSERT_TRUE(model.ok()) << model.status().message();
        const auto limit = static_cast<size_t>(c.mebibytes) << 20U;
        SessionOptions options;
        options.policy = "streaming";
        options.budget = Budget(BudgetKind::kBytes, static_cast<double>(limit));
        options.prefill = PrefillSchedule::kChunked;
        options.chunk = 128;
        options.n_threads = 1;
        auto session = model->session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        size_t most = 0;
        const auto look = [&] {
            const Ledger & ledger = session->ledger();
            most = std::max({most, ledger.kv_allocated_bytes, ledger.kv_peak_bytes});
            EXPECT_LE(LayerProbe(*session).cache().allocated_bytes() + ledger.kv_state_bytes, limit);
            EXPECT_LE(most, limit);
        };
        RunHooks hooks;
        hooks.progress = [&](int64_t, int64_t) { look(); };
        const Status read = session->prefill(random_tokens(1400, model->info().n_vocab), hooks);
        ASSERT_TRUE(read.ok()) << read.message();
        for (int i = 0; i < 40; ++i) {
            ASSERT_TRUE(session->decode().ok());
            look();
        }
        EXPECT_GT(most, limit / 2);
        EXPECT_LT(session->ledger().kept_entries, 1400 * session->ledger().n_lanes) << "the budget takes nothing";
        std::cout << c.shape << ": " << most << " of " << limit << " bytes, " << session->ledger().kept_entries << " entries\n";
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Windows, ::testing::ValuesIn(kCases), [](const auto & test) { return test.param.name; });

}  // namespace
}  // namespace pith::windows_test
