// shared_states_random_test.cpp - questions on few documents that come, are cancelled and set aside, under a ceiling that holds
// few of them alone: those on one document share its state, its bytes are counted once, the ceiling holds at every step, and
// every answer is the one that is given alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "engine/tiny_model.h"
#include "model/gguf_edit.h"
#include "pith/batch_engine.h"

namespace pith::shared_states_random_test {
namespace {

using testing::random_tokens;
using testing::TempFolder;
using testing::tiny_model;
using testing::tiny_spec;

constexpr int kGrid = 32;
constexpr int kDocument = 19 * kGrid;
constexpr int kDocuments = 2;
constexpr int kQuestions = 3;
constexpr size_t kRoom = 2'600'000;  // two of those who keep all, alone

struct Case {
    const char * policy;
    int budget;
    int n_pinned;
    bool cold = false;  // what is evicted is kept, and questions bring it back
};
constexpr Case kCases[] = {{"full", 0, 0},       {"h2o", 100, 0},       {"h2o", 400, 200},        {"snapkv:window=8", 300, 0},
                           {"keydiff", 128, 40}, {"h2o", 100, 0, true}, {"keydiff", 300, 0, true}};
constexpr int kLengths[] = {3, 12, 45};  // of answers: some end before an eviction

struct Asked {
    int policy = 0;
    int document = 0;
    int question = 0;
    int length = 0;
    auto operator<=>(const Asked &) const = default;
};

Request request_of(const Asked & asked) {
    const Case & of = kCases[asked.policy];
    Request request;
    request.tokens = random_tokens(kDocument, 384, 30 + static_cast<unsigned>(asked.document));
    const auto question = random_tokens(2 + 13 * asked.question, 384, 60 + static_cast<unsigned>(asked.question));
    request.tokens.insert(request.tokens.end(), question.begin(), question.end());
    request.options.policy = of.policy;
    if (of.budget > 0) { request.options.budget = Budget(of.budget); }
    if (of.n_pinned > 0) { request.options.pinned = {{0, of.n_pinned}}; }
    if (of.cold) { request.options.cold = KvType::kQ8_0; }
    request.options.chunk = 16;
    request.options.evict_every = 5;
    request.max_tokens = kLengths[asked.length];
    request.cache_at = {kDocument};
    return request;
}

EngineOptions options_of(const std::string & folder, size_t ceiling, uint64_t most_idle = 0) {
    EngineOptions options;
    options.type_k = options.type_v = KvType::kF32;
    options.n_threads = 1;
    options.grid = kGrid;
    options.max_rows = 96;
    options.cache_dir = folder;
    options.cache_memory_bytes = most_idle;
    if (ceiling > 0) { options.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(ceiling)); }
    return options;
}

using Alone = std::map<Asked, std::vector<int32_t>>;

class SharedWalk {
public:
    SharedWalk(const Model & model, const EngineOptions & options, Alone & alone, unsigned seed)
        : model_(model), engine_(model.engine(options).value()), alone_(alone), random_(seed) {}

    void run(int n_steps) {
        for (int i = 0; i < n_steps; ++i) {
            if (live_.size() < 14 && pick(3) == 0) { submit(); }
            if (!live_.empty() && pick(30) == 0) { cancel(); }
            ASSERT_NO_FATAL_FAILURE(step());
        }
        while (!live_.empty()) { ASSERT_NO_FATAL_FAILURE(step()); }
        ASSERT_TRUE(engine_.step().ok());
    }

    EngineLedger ledger() const { return engine_.ledger(); }
    int64_t n_answers() const { return n_answers_; }
    int64_t n_cached() const { return n_cached_; }
    int64_t n_set_aside() const { return n_set_aside_; }
    int64_t most_of_full() const { return most_of_full_; }
    int64_t n_returned() const { return n_returned_; }  // entries

private:
    int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

    void submit() {
        // Now this document under this policy, now another: they come in crowds.
        if (pick(8) == 0) {
            crowd_.policy = pick(static_cast<int>(std::size(kCases)));
            crowd_.document = pick(kDocuments);
        }
        Asked asked = crowd_;
        asked.question = pick(kQuestions);
        asked.length = pick(static_cast<int>(std::size(kLengths)));
        Request request = request_of(asked);
        request.priority = pick(12) == 0 ? 1 : 0;
        const auto id = engine_.submit(std::move(request));
        ASSERT_TRUE(id.ok()) << id.status().message();
        live_[*id] = asked;
    }

    void cancel() {
        auto found = live_.begin();
        std::advance(found, pick(static_cast<int>(live_.size())));
        ASSERT_TRUE(engine_.cancel(found->first).ok());
        ASSERT_TRUE(engine_.forget(found->first).ok());
        live_.erase(found);
    }

    void step() {
        const auto more = engine_.step();
        ASSERT_TRUE(more.ok()) << more.status().message();
        const EngineLedger ledger = engine_.ledger();
        if (ledger.ceiling_bytes > 0) {
            ASSERT_LE(ledger.kv_peak_bytes, ledger.ceiling_bytes);
            ASSERT_LE(ledger.kv_reserved_bytes + ledger.kv_idle_bytes, ledger.ceiling_bytes);
        }
        ASSERT_LE(ledger.kv_allocated_bytes, ledger.kv_peak_bytes);
        n_set_aside_ += ledger.n_set_aside;
        int64_t n_full = 0;
        for (auto one = live_.begin(); one != live_.end();) {
            const auto [id, asked] = *one;
            const RequestState state = engine_.state(id);
            ASSERT_NE(state, RequestState::kFailed) << engine_.status(id).message();
            const bool runs = state == RequestState::kReading || state == RequestState::kAnswering;
            n_full += asked.policy == 0 && runs ? 1 : 0;
            if (state != RequestState::kDone) {
                ++one;
                continue;
            }
            const auto answer = engine_.answer(id);
            ASSERT_TRUE(std::ranges::equal(answer, alone(asked)))
                << kCases[asked.policy].policy << " document " << asked.document << " question " << asked.question;
            ++n_answers_;
            n_cached_ += engine_.n_cached(id) > 0 ? 1 : 0;
            n_returned_ += engine_.ledger(id).value().returned_entries;
            ASSERT_TRUE(engine_.forget(id).ok());
            one = live_.erase(one);
        }
        most_of_full_ = std::max(most_of_full_, n_full);
    }

    const std::vector<int32_t> & alone(const Asked & asked) {
        auto & tokens = alone_[asked];
        if (!tokens.empty()) { return tokens; }
        Engine engine = model_.engine(options_of("", 0)).value();
        const auto id = engine.submit(request_of(asked));
        EXPECT_TRUE(id.ok() && engine.run().ok());
        tokens.assign(engine.answer(*id).begin(), engine.answer(*id).end());
        return tokens;
    }

    const Model & model_;
    Engine engine_;
    Alone & alone_;
    std::mt19937 random_;
    Asked crowd_;
    std::map<int64_t, Asked> live_;
    int64_t n_answers_ = 0;
    int64_t n_cached_ = 0;
    int64_t n_set_aside_ = 0;
    int64_t most_of_full_ = 0;
    int64_t n_returned_ = 0;
};

// Every document under every policy has been read.
void read_all(const Model & model, const EngineOptions & options) {
    Engine engine = model.engine(options).value();
    for (int policy = 0; policy < static_cast<int>(std::size(kCases)); ++policy) {
        for (int document = 0; document < kDocuments; ++document) {
            ASSERT_TRUE(engine.submit(request_of({policy, document, 0, 0})).ok());
        }
    }
    ASSERT_TRUE(engine.run().ok());
}

// n_trained: behind so many tokens kept keys turn, and what was evicted stays where it is.
class SharedStatesRandom : public ::testing::TestWithParam<int> {};

TEST_P(SharedStatesRandom, HoldTheCeilingAndChangeNoAnswer) {
    const char * wanted = std::getenv("PITH_RANDOM_STEPS");
    const int n_steps = wanted != nullptr ? std::atoi(wanted) : 250;
    RandomModelSpec spec = tiny_spec();
    spec.n_ctx_train = GetParam();
    const Model model = tiny_model(spec).value();
    const TempFolder folder;
    ASSERT_NO_FATAL_FAILURE(read_all(model, options_of(folder.file("s"), 0)));
    Alone alone;
    constexpr uint64_t kIdle = uint64_t{64} << 20U;
    for (const auto & [in_folder, idle] : {std::pair(true, uint64_t{0}), std::pair(false, kIdle), std::pair(true, kIdle)}) {
        SCOPED_TRACE((in_folder ? "with a folder, " : "without a folder, ") + std::to_string(idle));
        SharedWalk walk(model, options_of(in_folder ? folder.file("s") : "", kRoom, idle), alone, 5);
        ASSERT_NO_FATAL_FAILURE(walk.run(n_steps));
        EXPECT_GT(walk.n_answers(), n_steps / 10);
        if (in_folder) {
            EXPECT_EQ(walk.n_cached(), walk.n_answers());
            EXPECT_GT(walk.most_of_full(), 3) << "alone two fit";
        } else {
            EXPECT_GT(walk.n_cached(), walk.n_answers() / 10);
        }
        EXPECT_GT(walk.n_set_aside(), 0) << "nobody had to make room";
        EXPECT_EQ(walk.ledger().kv_allocated_bytes, walk.ledger().kv_idle_bytes);
        EXPECT_EQ(walk.ledger().kv_idle_bytes > 0, idle > 0);
        EXPECT_EQ(walk.n_returned() > 0, GetParam() > kDocument);
    }
}

INSTANTIATE_TEST_SUITE_P(Trained, SharedStatesRandom, ::testing::Values(120, 2048));

}  // namespace
}  // namespace pith::shared_states_random_test
