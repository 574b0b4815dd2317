// recurrent_test.cpp - models with recurrent layers: states in chunks, snapshots, calls that fail, questions in sight, batches,
// forks, and budgets in bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "core/likeliest_token.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"
#include "model/arch/architecture.h"
#include "model/architecture_files.h"
#include "pith/batch_engine.h"

namespace pith {
namespace {

using testing::architecture_files;
using testing::ArchitectureFile;
using testing::contents_of;
using testing::random_tokens;
using testing::scratch_file;

std::vector<ArchitectureFile> recurrent_files() {
    std::vector<ArchitectureFile> all = architecture_files();
    std::erase_if(all, [](const ArchitectureFile & one) {
        const Architecture * arch = find_architecture(one.arch);
        return arch == nullptr || arch->form.recurrent == Recurrent::kNone;
    });
    return all;
}

class RecurrentLayers : public ::testing::TestWithParam<ArchitectureFile> {
protected:
    void SetUp() override {
        const std::string path = scratch_file("recurrent.gguf");
        ASSERT_TRUE(write_architecture_file(GetParam(), path));
        auto model = Model::load(path, {});
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_.emplace(std::move(*model));
    }

    static SessionOptions options(const std::string & policy, Budget budget, PrefillSchedule schedule, int chunk = 48) {
        SessionOptions options;
        options.policy = policy;
        options.budget = budget;
        options.prefill = schedule;
        options.chunk = chunk;
        options.n_threads = 1;
        return options;
    }
    Session session(const std::string & policy, PrefillSchedule schedule = PrefillSchedule::kChunked, int chunk = 48) const {
        auto made = model_->session(options(policy, policy == "full" ? Budget() : Budget(64), schedule, chunk));
        EXPECT_TRUE(made.ok()) << made.status().message();
        return std::move(*made);
    }
    std::vector<int32_t> tokens(int n, unsigned seed = 1) const { return random_tokens(n, model_->info().n_vocab, seed); }

    std::vector<int32_t> answer_of(Session & session, int n) const {
        std::vector<int32_t> answer;
        for (int t = 0; t < n; ++t) {
            answer.push_back(likeliest_token(session.logits()));
            EXPECT_TRUE(session.append(answer.back()).ok());
        }
        return answer;
    }

    std::optional<Model> model_;
};

std::vector<float> states_of(Session & session) {
    std::vector<float> all;
    const LayerProbe probe(session);
    for (int l = 0; l < session.n_layers(); ++l) {
        if (!probe.cache().layout().is_recurrent(l)) { continue; }
        const auto state = probe.states().layer(l);
        all.insert(all.end(), state.begin(), state.end());
    }
    return all;
}

// The largest difference, of the largest number.
double difference(std::span<const float> a, std::span<const float> b) {
    double most = 0;
    double largest = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
        largest = std::max(largest, std::abs(double{a[i]}));
    }
    return a.size() == b.size() && largest > 0 ? most / largest : 1.0;
}

TEST_P(RecurrentLayers, HaveNoLanesAndAreCountedApart) {
    Session one = session("full");
    ASSERT_TRUE(one.prefill(tokens(100)).ok());
    const LayerProbe probe(one);
    int n_governed = 0;
    for (int l = 0; l < one.n_layers(); ++l) {
        n_governed += one.is_governed(l) ? 1 : 0;
        EXPECT_EQ(one.lane_positions(l, 0).size(), one.is_governed(l) ? 100U : 0U);
    }
    EXPECT_LT(n_governed, one.n_layers());
    EXPECT_EQ(one.ledger().n_lanes, n_governed * one.n_kv_heads());
    EXPECT_EQ(one.ledger().kv_state_bytes, states_of(one).size() * sizeof(float));
    EXPECT_EQ(one.ledger().kv_state_bytes, probe.cache().layout().state_bytes);
    EXPECT_GE(one.ledger().kv_allocated_bytes, probe.cache().allocated_bytes() + one.ledger().kv_state_bytes);
}

// However the text is cut, each token reads the state that the one before it left.
TEST_P(RecurrentLayers, ChunksOfAnySizeLeaveTheSameStates) {
    const auto text = tokens(150);
    Session whole = session("full", PrefillSchedule::kOneShot, 512);
    ASSERT_TRUE(whole.prefill(text).ok());
    for (const int chunk : {1, 2, 3, 17, 64}) {
        for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
            Session cut = session("full", schedule, chunk);
            ASSERT_TRUE(cut.prefill(text).ok());
            EXPECT_LE(difference(states_of(whole), states_of(cut)), 1e-5) << chunk;
            EXPECT_LE(difference(whole.logits(), cut.logits()), 1e-5) << chunk;
        }
    }
    Session another = session("full");
    auto other_text = text;
    other_text.front() = (text.front() + 1) % model_->info().n_vocab;
    ASSERT_TRUE(another.prefill(other_text).ok());
    EXPECT_GT(difference(whole.logits(), another.logits()), 1e-5);
}

TEST_P(RecurrentLayers, SnapshotsComeBackBitForBit) {
    const auto text = tokens(200);
    for (const char * policy : {"full", "h2o"}) {
        SCOPED_TRACE(policy);
        Session one = session(policy);
        const auto empty = one.snapshot();
        ASSERT_TRUE(empty.ok());
        ASSERT_TRUE(one.prefill(text).ok());
        const auto early = one.snapshot();
        ASSERT_TRUE(early.ok());
        const auto before = contents_of(one);
        const auto first = answer_of(one, 20);
        const auto late = one.snapshot();
        ASSERT_TRUE(late.ok());
        const auto at_late = contents_of(one);
        EXPECT_GE(one.ledger().kv_saved_bytes, one.ledger().kv_state_bytes);  // of the early one
        ASSERT_TRUE(one.prefill(tokens(60, 3)).ok());
        ASSERT_TRUE(one.restore(*late).ok());
        EXPECT_TRUE(contents_of(one) == at_late);
        ASSERT_TRUE(one.restore(*early).ok());
        EXPECT_TRUE(contents_of(one) == before);
        EXPECT_EQ(answer_of(one, 20), first);
        EXPECT_TRUE(contents_of(one) == at_late);
        ASSERT_TRUE(one.restore(*empty).ok());
        ASSERT_TRUE(one.prefill(text).ok());
        EXPECT_TRUE(contents_of(one) == before);
    }
}

TEST_P(RecurrentLayers, ACallThatFailsLeavesThemAsTheyWere) {
    const auto text = tokens(400);
    for (const char * policy : {"full", "snapkv:window=8"}) {
        SCOPED_TRACE(policy);
        Session one = session(policy);
        ASSERT_TRUE(one.prefill(std::span(text).first(150)).ok());
        const auto before = contents_of(one);
        for (const int64_t n_until : {48, 144}) {
            RunHooks hooks;
            hooks.progress = [&](int64_t n_done, int64_t) {
                if (n_done >= n_until) { throw std::runtime_error("enough"); }
            };
            EXPECT_FALSE(one.prefill(std::span(text).subspan(150), hooks).ok());
            EXPECT_TRUE(contents_of(one) == before);
        }
        std::atomic<bool> cancel{true};
        RunHooks cancelled;
        cancelled.cancel = &cancel;
        EXPECT_FALSE(one.prefill(std::span(text).subspan(150, 1), cancelled).ok());
        EXPECT_TRUE(contents_of(one) == before);
        EXPECT_FALSE(one.append(-1).ok());
        EXPECT_TRUE(contents_of(one) == before);
        Session other = session(policy);
        ASSERT_TRUE(other.prefill(std::span(text).first(150)).ok());
        EXPECT_EQ(answer_of(one, 10), answer_of(other, 10));
        EXPECT_TRUE(contents_of(one) == contents_of(other));
    }
}

// What runs as queries only leaves no trace in the states.
TEST_P(RecurrentLayers, QuestionsInSightAreTakenBack) {
    const auto text = tokens(150);
    const auto question = tokens(20, 9);
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        Session asked = session("snapkv:window=8", schedule);
        const auto seen = asked.prefill_for_questions(text, question);
        ASSERT_TRUE(seen.ok()) << seen.status().message();
        EXPECT_TRUE(*seen);
        EXPECT_EQ(asked.ledger().kept_entries, 64 * asked.ledger().n_lanes);
        if (schedule == PrefillSchedule::kChunked) { continue; }  // chunks before the last are evicted under other eyes
        Session plain = session("full", schedule);
        ASSERT_TRUE(plain.prefill(text).ok());
        EXPECT_EQ(states_of(asked), states_of(plain));
    }
    Session guided = session("snapkv:window=8");
    RunHooks hooks;
    hooks.n_question = 20;
    ASSERT_TRUE(guided.prefill(text, hooks).ok());
    EXPECT_EQ(guided.n_tokens(), 150);
}

TEST_P(RecurrentLayers, AreNotSavedToFiles) {
    Session one = session("full");
    ASSERT_TRUE(one.prefill(tokens(20)).ok());
    const auto path = scratch_file("recurrent.pithcache");
    const Status saved = one.save(path);
    EXPECT_EQ(saved.code(), ErrorCode::kUnsupported);
    EXPECT_NE(saved.message().find("recurrent layers"), std::string::npos) << saved.message();
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_P(RecurrentLayers, BatchesGiveWhatEachGivesAlone) {
    EngineOptions engine_options;
    engine_options.grid = 0;
    engine_options.n_threads = 1;
    engine_options.max_rows = 64;
    auto engine = model_->engine(engine_options);
    ASSERT_TRUE(engine.ok());
    std::vector<Request> requests;
    std::vector<int64_t> ids;
    for (unsigned i = 0; i < 4; ++i) {
        Request & request = requests.emplace_back();
        request.tokens = tokens(80 + 35 * static_cast<int>(i), i);
        request.options =
            options(i % 2 == 0 ? "full" : "h2o", i % 2 == 0 ? Budget() : Budget(64), PrefillSchedule::kChunked, 24);
        request.max_tokens = 30;
        const auto id = engine->submit(request);
        ASSERT_TRUE(id.ok()) << id.status().message();
        ids.push_back(*id);
    }
    ASSERT_TRUE(engine->run().ok());
    for (size_t i = 0; i < requests.size(); ++i) {
        auto alone = model_->session(requests[i].options);
        ASSERT_TRUE(alone.ok());
        ASSERT_TRUE(alone->prefill(requests[i].tokens).ok());
        const auto got = engine->answer(ids[i]);
        EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), answer_of(*alone, requests[i].max_tokens)) << i;
    }
}

TEST_P(RecurrentLayers, AKeptPromptIsReadByItsForks) {
    EngineOptions engine_options;
    engine_options.grid = 0;
    engine_options.n_threads = 1;
    auto engine = model_->engine(engine_options);
    ASSERT_TRUE(engine.ok());
    const auto text = tokens(200);
    Request base;
    base.tokens.assign(text.begin(), text.begin() + 140);
    base.options = options("full", Budget(), PrefillSchedule::kChunked);
    base.keep = true;
    base.max_tokens = 0;
    const auto kept = engine->submit(base);
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    ASSERT_TRUE(engine->run().ok());
    std::vector<int64_t> ids;
    for (int i = 0; i < 2; ++i) {
        Request fork;
        fork.after = *kept;
        fork.tokens.assign(text.begin() + 140, text.begin() + 160 + 20 * i);
        fork.max_tokens = 30;
        const auto id = engine->submit(fork);
        ASSERT_TRUE(id.ok()) << id.status().message();
        ids.push_back(*id);
    }
    ASSERT_TRUE(engine->run().ok());
    for (int i = 0; i < 2; ++i) {
        Session alone = session("full");
        ASSERT_TRUE(alone.prefill(std::span(text).first(140)).ok());
        ASSERT_TRUE(alone.prefill(std::span(text).subspan(140, static_cast<size_t>(20 + 20 * i))).ok());
        const auto got = engine->answer(ids[static_cast<size_t>(i)]);
        EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), answer_of(alone, 30)) << i;
    }
}

TEST_P(RecurrentLayers, ABudgetInBytesBoundsThemToo) {
    const auto text = tokens(250);
    for (const size_t kibibytes : {120U, 200U, 400U}) {
        const Budget budget(BudgetKind::kBytes, static_cast<double>(kibibytes) * 1024);
        auto one = model_->session(options("h2o", budget, PrefillSchedule::kChunked, 32));
        ASSERT_TRUE(one.ok());
        const Status read = one->prefill(text);
        if (!read.ok()) {  // no room beside the states: it says how much is enough
            EXPECT_EQ(read.code(), ErrorCode::kBudget) << read.message();
            continue;
        }
        answer_of(*one, 100);
        EXPECT_LE(one->ledger().kv_peak_bytes, kibibytes * 1024);
        EXPECT_GT(one->ledger().kv_state_bytes, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(F32, RecurrentLayers, ::testing::ValuesIn(recurrent_files()),
                         [](const auto & test) { return test.param.name; });

}  // namespace
}  // namespace pith
