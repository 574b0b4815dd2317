// recurrent_test.cpp - models with recurrent layers: states in chunks, snapshots, calls that fail, questions in sight, batches,
// forks, and budgets in bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "core/likeliest_token.h"
#include "engine/answers_alone.h"
#include "engine/rest/saved_and_opened.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"
#include "every_case.h"
#include "model/arch/architecture.h"
#include "model/architecture_files.h"
#include "model/gguf_edit.h"
#include "pith/batch_engine.h"
#include "pith/cache_file.h"

namespace pith::recurrent_test {
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
    Session session(const std::string & policy, PrefillSchedule schedule = PrefillSchedule::kChunked, int chunk = 48,
                    KvType type = KvType::kF16) const {
        SessionOptions wanted = options(policy, policy == "full" ? Budget() : Budget(64), schedule, chunk);
        wanted.type_k = wanted.type_v = type;
        auto made = model_->session(wanted);
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
        if (!probe.states().has(l)) { continue; }
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

// However the text is cut, each token reads the state that the one before it left. K and V are f32: attention rounds rows of
// others in one way where they are few, in another where they are many.
TEST_P(RecurrentLayers, ChunksOfAnySizeLeaveTheSameStates) {
    const auto text = tokens(150);
    Session whole = session("full", PrefillSchedule::kOneShot, 512, KvType::kF32);
    ASSERT_TRUE(whole.prefill(text).ok());
    size_t i = 0;
    for (const int chunk : {1, 2, 3, 17, 64}) {
        for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
            if (!testing::in_turn(GetParam().name, i++, 3)) { continue; }
            Session cut = session("full", schedule, chunk, KvType::kF32);
            ASSERT_TRUE(cut.prefill(text).ok());
            EXPECT_LE(difference(states_of(whole), states_of(cut)), 1e-5) << chunk;
            EXPECT_LE(difference(whole.logits(), cut.logits()), 1e-5) << chunk;
        }
    }
    Session another = session("full", PrefillSchedule::kChunked, 48, KvType::kF32);
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

// With policies that ask for nothing of the past, for sums, for the last queries, for sampled ones and for norms behind W_O.
TEST_P(RecurrentLayers, SavedToAFileGoOnAsIfTheyHadNotBeen) {
    size_t i = 0;
    for (const char * policy : {"full", "h2o", "snapkv:window=8+novelty", "laprox"}) {
        for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
            if (!testing::in_turn(GetParam().name, i++, 3)) { continue; }
            SCOPED_TRACE(policy);
            Session one = session(policy, schedule);
            ASSERT_TRUE(one.prefill(tokens(150)).ok());
            answer_of(one, 40);  // so that an eviction comes when it has been opened
            testing::expect_saving_changes_nothing(*model_, one, std::string(policy) != "full");
            const auto info = read_cache_info(testing::a_file());
            ASSERT_TRUE(info.ok()) << info.status().message();
            EXPECT_EQ(info->state_bytes, one.ledger().kv_state_bytes);
            EXPECT_EQ(info->n_lanes, one.ledger().n_lanes);
        }
    }
}

TEST_P(RecurrentLayers, OfAnotherModelOfTheirShapeAreRefused) {
    Session one = session("h2o");
    ASSERT_TRUE(one.prefill(tokens(60)).ok());
    const std::string path = scratch_file("recurrent.pith");
    ASSERT_TRUE(one.save(path).ok());
    const Model other = testing::tiny_model(testing::tiny_spec()).value();
    EXPECT_EQ(other.open_session(path).status().code(), ErrorCode::kInvalidArgument);
}

TEST_P(RecurrentLayers, BatchesGiveWhatEachGivesAlone) {
    std::vector<Request> requests;
    for (unsigned i = 0; i < 4; ++i) {
        Request & request = requests.emplace_back();
        request.tokens = tokens(80 + 35 * static_cast<int>(i), i);
        request.options =
            options(i % 2 == 0 ? "full" : "h2o", i % 2 == 0 ? Budget() : Budget(64), PrefillSchedule::kChunked, 24);
        request.max_tokens = 30;
    }
    testing::expect_batch_answers_as_alone(*model_, requests);
}

// With what attention left behind for policies that look at sums, at the last queries and at sampled ones.
TEST_P(RecurrentLayers, AnswersAreSetAsideAndComeBackToTheBit) {
    for (const char * policy : {"h2o", "snapkv:window=8+novelty"}) {
        SCOPED_TRACE(policy);
        Request request;
        request.tokens = tokens(150);
        request.options = options(policy, Budget(64), PrefillSchedule::kChunked);
        request.options.evict_every = 16;
        request.max_tokens = 60;
        testing::expect_unchanged_when_set_aside(*model_, request);
    }
}

TEST_P(RecurrentLayers, AKeptPromptIsReadByItsForks) {
    testing::expect_forks_answer_as_alone(*model_, options("full", Budget(), PrefillSchedule::kChunked), tokens(200), 140, 30);
}

TEST_P(RecurrentLayers, OfAnEnginesRequestsAreCountedAndInsideItsCeiling) {
    Session one = session("full");
    ASSERT_TRUE(one.prefill(tokens(20)).ok());
    const size_t of_one = one.ledger().kv_state_bytes;
    ASSERT_GT(of_one, 0U);
    Request prefix;
    prefix.options = options("full", Budget(), PrefillSchedule::kChunked);
    prefix.keep = true;
    prefix.max_tokens = 0;
    EngineOptions with;
    with.n_threads = 1;
    size_t of_kept = 0;
    {
        auto engine = model_->engine(with);
        ASSERT_TRUE(engine.ok()) << engine.status().message();
        int64_t newest = 0;
        for (size_t n = 1; n <= 3; ++n) {
            prefix.tokens = tokens(20, static_cast<unsigned>(n));
            const auto id = engine->submit(prefix);
            ASSERT_TRUE(id.ok() && engine->run().ok());
            newest = *id;
            const EngineLedger ledger = engine->ledger();
            EXPECT_EQ(ledger.kv_state_bytes, n * of_one);
            EXPECT_GT(ledger.kv_allocated_bytes, n * of_one);
            EXPECT_EQ(ledger.kv_kept_bytes, ledger.kv_allocated_bytes);
            EXPECT_EQ(ledger.kv_reserved_bytes, ledger.kv_kept_bytes) << "they stay";
            EXPECT_GE(ledger.kv_peak_bytes, ledger.kv_allocated_bytes);
            of_kept = ledger.kv_kept_bytes / n;
        }
        // Who goes on from one reads its states until a token writes others.
        Request fork;
        fork.after = newest;
        fork.max_tokens = 3;
        const auto id = engine->submit(fork);
        ASSERT_TRUE(id.ok());
        EXPECT_EQ(engine->ledger().kv_state_bytes, 3 * of_one);
        ASSERT_TRUE(engine->step().ok());
        EXPECT_EQ(engine->ledger().kv_state_bytes, 4 * of_one);
        ASSERT_TRUE(engine->run().ok());
        EXPECT_EQ(engine->ledger().kv_state_bytes, 3 * of_one);
    }
    with.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(6 * of_kept));
    auto engine = model_->engine(with);
    ASSERT_TRUE(engine.ok());
    size_t n_kept = 0;
    for (bool fits = true; fits; n_kept += fits ? 1 : 0) {
        ASSERT_LT(n_kept, 7U) << "they are outside the ceiling";
        prefix.tokens = tokens(20, static_cast<unsigned>(n_kept));
        const auto id = engine->submit(prefix);
        ASSERT_TRUE(id.ok() && engine->run().ok()) << id.status().message();
        fits = engine->state(*id) == RequestState::kDone;
        EXPECT_LE(engine->ledger().kv_peak_bytes, 6 * of_kept);
        if (!fits) { EXPECT_EQ(engine->status(*id).code(), ErrorCode::kBudget) << engine->status(*id).message(); }
    }
    EXPECT_GE(n_kept, 3U);
}

// From a folder of states: the same logits, to the bit, as without.
TEST_P(RecurrentLayers, PromptsGoOnFromStatesOfOthers) {
    for (const char * policy : {"full", "h2o"}) {
        const testing::TempFolder folder;
        const auto answer_to = [&](const std::string & states, unsigned question, int64_t n_cached) {
            EngineOptions with;
            with.n_threads = 1;
            with.grid = 32;
            with.cache_dir = states;
            auto engine = model_->engine(with);
            EXPECT_TRUE(engine.ok()) << engine.status().message();
            std::vector<std::vector<float>> logits;
            Request request;
            request.tokens = tokens(150);
            const auto asked = tokens(9, question);
            request.tokens.insert(request.tokens.end(), asked.begin(), asked.end());
            request.options =
                options(policy, std::string(policy) == "full" ? Budget() : Budget(64), PrefillSchedule::kChunked, 16);
            request.max_tokens = 40;
            request.choose = [&logits](std::span<const float> row) {
                logits.emplace_back(row.begin(), row.end());
                return likeliest_token(row);
            };
            const auto id = engine->submit(request);
            EXPECT_TRUE(id.ok() && engine->run().ok());
            EXPECT_EQ(engine->n_cached(*id), n_cached);
            return logits;
        };
        const auto alone = answer_to("", 7, 0);
        answer_to(folder.file("s"), 6, 0);
        EXPECT_EQ(answer_to(folder.file("s"), 7, 144), alone);
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
}  // namespace pith::recurrent_test
