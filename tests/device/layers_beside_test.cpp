// layers_beside_test.cpp - a layer of a prompt is scored while a device computes the next one's first chunk: what is kept is
// what is kept where one follows the other, a failure of either leaves nothing, and bytes that were promised hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/ggml_calls.h"
#include "device/on_devices.h"
#include "engine/pass/layer_in_flight.h"
#include "engine/pass/live_session.h"
#include "engine/pass/token_pass.h"
#include "engine/tiny_model.h"
#include "engine/tiny_session.h"
#include "pith/batch_engine.h"
#include "policy/policy.h"

namespace pith::layers_beside_test {
namespace {

using testing::fail_allocation;
using testing::ggml_calls;
using testing::random_tokens;
using testing::refuse_allocation;

constexpr int kLayers = 4;
constexpr int kTokens = 700;  // three chunks of 256

struct Kept {
    testing::Lanes lanes;
    std::vector<float> logits;
    bool operator==(const Kept &) const = default;
};

Kept kept_by(const Session & session) {
    Kept kept;
    kept.lanes = testing::lanes_of(session);
    const auto logits = session.logits();
    kept.logits.assign(logits.begin(), logits.end());
    return kept;
}

SessionOptions options_for(const std::string & policy) {
    SessionOptions options;
    options.policy = policy;
    options.budget = 40;
    options.chunk = 256;
    options.n_threads = 2;
    options.type_k = options.type_v = KvType::kF32;
    options.prefill = PrefillSchedule::kOneShot;
    return options;
}

class LayersBeside : public ::testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = testing::nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
        RandomModelSpec spec = testing::tiny_spec();
        spec.n_layers = kLayers;
        const std::string path = testing::scratch_file("layers-beside.gguf");
        ASSERT_TRUE(write_random_model(spec, path).ok());
        auto model = testing::load(path, {.name = "one_with_lanes", .kv_offload = true});
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_.emplace(std::move(*model));
    }
    std::vector<int32_t> prompt() const { return random_tokens(kTokens, model_->info().n_vocab); }
    size_t layer_bytes() const {
        const size_t of_head = static_cast<size_t>(model_->info().n_embd) / static_cast<size_t>(model_->info().n_heads);
        return static_cast<size_t>(model_->info().n_kv_heads) * 2 * of_head * sizeof(float) * kTokens;
    }
    // in_turn: as under a ceiling in bytes.
    std::pair<Kept, size_t> read(const std::string & policy, bool in_turn) const {
        auto session = model_->session(options_for(policy));
        EXPECT_TRUE(session.ok()) << session.status().message();
        live_session(*session).seq.has_ceiling = in_turn;
        const Status status = session->prefill(prompt());
        EXPECT_TRUE(status.ok()) << status.message();
        return {kept_by(*session), session->ledger().kv_peak_bytes};
    }
    std::optional<Model> model_;
};

TEST_F(LayersBeside, KeepWhatTheyKeepInTurn) {
    for (const char * policy : {"snapkv:window=8", "snapkv:window=8+ada", "tova", "cake", "h2o", "keydiff", "laprox:window=8",
                                "streaming", "expected+global", "pyramidkv", "tova+global"}) {
        SCOPED_TRACE(policy);
        const auto [in_turn, peak_in_turn] = read(policy, true);
        const auto [beside, peak] = read(policy, false);
        EXPECT_EQ(beside, in_turn);
        const bool at_once = Policy::parse(policy).value().wants_all_layers();
        const bool reads_lanes = Policy::parse(policy).value().needs().values;
        if (at_once || reads_lanes) { continue; }
        EXPECT_GT(peak, peak_in_turn) << "none was in flight";
        EXPECT_LE(peak, peak_in_turn + 2 * layer_bytes());
    }
}

TEST_F(LayersBeside, BytesThatWerePromisedHold) {
    SessionOptions options = options_for("snapkv:window=8");
    const size_t promised = 8 * layer_bytes();
    options.budget = Budget(BudgetKind::kBytes, static_cast<double>(promised));
    auto in_bytes = model_->session(options);
    ASSERT_TRUE(in_bytes.ok()) << in_bytes.status().message();
    const Status status = in_bytes->prefill(prompt());
    ASSERT_TRUE(status.ok()) << status.message();
    const Ledger ledger = in_bytes->ledger();
    EXPECT_GT(ledger.n_evictions, 0);
    EXPECT_LE(ledger.kv_peak_bytes, promised);
    // The same number of entries, which are no promise of bytes.
    options.budget = static_cast<int>(ledger.budget_entries);
    auto in_entries = model_->session(options);
    ASSERT_TRUE(in_entries.ok() && in_entries->prefill(prompt()).ok());
    EXPECT_GT(in_entries->ledger().kv_peak_bytes, ledger.kv_peak_bytes);
    EXPECT_EQ(kept_by(*in_entries), kept_by(*in_bytes));
}

// At whichever buffer: of a device that gives up, and of one that has no memory left.
TEST_F(LayersBeside, AFailureOfEitherLeavesNothing) {
    const Kept whole = read("snapkv:window=8+ada", false).first;
    for (const bool gives_up : {true, false}) {
        SCOPED_TRACE(gives_up ? "gives up" : "has no memory");
        std::optional<Session> session;
        int n_failed = 0;
        int n_done_all_the_same = 0;
        for (int k = 0;; ++k) {
            SCOPED_TRACE(k);
            if (!session) { session.emplace(std::move(*model_->session(options_for("snapkv:window=8+ada")))); }
            const int64_t before = ggml_calls().allocations;
            gives_up ? fail_allocation(k) : refuse_allocation(k);
            const Status status = session->prefill(prompt());
            fail_allocation(-1);
            refuse_allocation(-1);
            const bool came = ggml_calls().allocations - before > k;
            if (status.ok()) {
                EXPECT_EQ(kept_by(*session), whole);
                session.reset();
                if (!came) { break; }
                ++n_done_all_the_same;
                continue;
            }
            ++n_failed;
            EXPECT_TRUE(status.code() == ErrorCode::kIo || status.code() == ErrorCode::kOutOfMemory) << status.message();
            EXPECT_EQ(session->n_tokens(), 0);
            for (const DeviceUse & use : session->ledger().devices) { EXPECT_EQ(use.graph_bytes, 0U); }
        }
        std::cout << n_failed << " failed, " << n_done_all_the_same << " were done all the same\n";
        EXPECT_GE(n_failed, gives_up ? 2 * kLayers : 1);
        if (!gives_up) { EXPECT_GE(n_done_all_the_same, kLayers - 1) << "layers whose lanes find room once one has landed"; }
    }
}

// Between two units of one prompt others run.
TEST_F(LayersBeside, OfSeveralPromptsOfAnEngine) {
    const Kept alone = read("snapkv:window=8", false).first;
    for (const bool has_ceiling : {false, true}) {
        EngineOptions options;
        options.grid = 0;
        options.n_threads = 2;
        options.type_k = options.type_v = KvType::kF32;
        if (has_ceiling) { options.ceiling = Budget(BudgetKind::kBytes, 64 << 20); }
        auto engine = model_->engine(options);
        ASSERT_TRUE(engine.ok()) << engine.status().message();
        std::vector<int64_t> ids;
        for (int i = 0; i < 3; ++i) {
            Request request;
            request.tokens = prompt();
            request.options = options_for("snapkv:window=8");
            request.keep = true;
            request.max_tokens = 0;
            ids.push_back(engine->submit(request).value());
        }
        ASSERT_TRUE(engine->run().ok());
        for (const int64_t id : ids) {
            ASSERT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message();
            for (int lane = 0; lane < static_cast<int>(alone.lanes.size()); ++lane) {
                const int n_heads = model_->info().n_kv_heads;
                EXPECT_TRUE(std::ranges::equal(engine->lane_positions(id, lane / n_heads, lane % n_heads),
                                               alone.lanes[static_cast<size_t>(lane)]));
            }
        }
    }
}

// Scores and graph need each other here: neither would end without the other's having begun.
TEST(LayerInFlight, IsScoredWhileAGraphRuns) {
    auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto session = model->session({});
    ASSERT_TRUE(session.ok());
    Forward & forward = *live_session(*session).forward;
    std::promise<void> scores, runs;
    LayerInFlight layer;
    LayerEvidence seen;
    seen.layer = 3;
    layer.hold(std::move(seen));
    const Status status = layer.score_beside(
        forward,
        [&](const LayerEvidence & one) -> Status {
            EXPECT_EQ(one.layer, 3);
            scores.set_value();
            runs.get_future().wait();
            return {};
        },
        [&]() -> Status {
            runs.set_value();
            scores.get_future().wait();
            return {};
        });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_FALSE(layer.any());
}

// What this machine's threads compute of a graph comes behind the scores.
TEST(LayerInFlight, ThisMachinesThreadsScoreFirst) {
    auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok());
    auto session = model->session({});
    ASSERT_TRUE(session.ok() && session->prefill(random_tokens(5, model->info().n_vocab)).ok());
    LiveSession & live = live_session(*session);
    LayerInFlight layer;
    layer.hold({});
    std::atomic<bool> has_begun = false;
    std::atomic<bool> has_scored = false;
    const Status status = layer.score_beside(
        *live.forward,
        [&](const LayerEvidence &) -> Status {
            while (!has_begun) { std::this_thread::yield(); }
            has_scored = true;
            return {};
        },
        [&]() -> Status {
            has_begun = true;
            std::vector<float> states(static_cast<size_t>(model->info().n_embd));
            const std::vector<int32_t> token = {1};
            const Status run = run_layer(live, 0, {token, states, 5, 1, 0});
            EXPECT_TRUE(has_scored);
            return run;
        });
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(LayerInFlight, TellsTheFirstErrorOnceBothHaveEnded) {
    auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok());
    auto session = model->session({});
    ASSERT_TRUE(session.ok());
    Forward & forward = *live_session(*session).forward;
    const Status bad_scores(ErrorCode::kNotFinite, "scores");
    for (const bool scores_fail : {false, true}) {
        for (const bool graph_fails : {false, true}) {
            LayerInFlight layer;
            layer.hold({});
            bool scored = false;
            bool ran = false;
            const Status status = layer.score_beside(
                forward,
                [&](const LayerEvidence &) -> Status {
                    scored = true;
                    return scores_fail ? bad_scores : Status();
                },
                [&]() -> Status {
                    ran = true;
                    if (graph_fails) { throw std::runtime_error("graph"); }
                    return {};
                });
            EXPECT_TRUE(scored && ran);
            EXPECT_FALSE(layer.any());
            EXPECT_EQ(status.ok(), !scores_fail && !graph_fails);
            if (scores_fail) { EXPECT_EQ(status.code(), ErrorCode::kNotFinite); }
            if (!scores_fail && graph_fails) { EXPECT_EQ(status.code(), ErrorCode::kInternal); }
        }
    }
}

}  // namespace
}  // namespace pith::layers_beside_test
