// batch_engine_random_test.cpp - requests that come, go on from others (evicting their own lanes first), are cancelled, set
// aside and brought back, with failures in between: the ceiling holds, by the ledger and by the pages that the system says are
// there, every answer is the one that a sequence gives alone, nobody fails where nothing was made to, and all pages are given
// back. Of models whose layers are all governed, some of which see a window, and some of which are recurrent.
// Two engines of one model, each on a thread of its own. scripts/sanitize runs this with ThreadSanitizer.
//
// PITH_RANDOM_STEPS   steps of both together (1,000)
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "core/likeliest_token.h"
#include "engine/fail_at.h"
#include "engine/kv_pages.h"
#include "engine/tiny_model.h"
#include "model/architecture_files.h"
#include "pith/batch_engine.h"

namespace pith::batch_engine_random_test {
namespace {

using testing::fail_at;
using testing::Fails;
using testing::random_tokens;
using testing::stop_failing;

// A model, and a ceiling that holds some of its sequences.
struct WalkCase {
    const char * name;
    size_t ceiling;
    Result<Model> (*load)();
};
void PrintTo(const WalkCase & one, std::ostream * out) {
    *out << one.name;
}

Result<Model> governed_model() {
    RandomModelSpec spec = testing::tiny_spec();
    spec.n_ctx_train = 150;  // behind so many, kept keys turn
    return testing::tiny_model(spec);
}

// All layers but every sixth see 32 tokens.
Result<Model> window_model() {
    RandomModelSpec spec = testing::tiny_spec();
    spec.arch = "gemma3";
    spec.n_layers = 6;
    spec.window = 32;
    spec.n_ctx_train = 150;
    return testing::tiny_model(spec);
}

Result<Model> recurrent_model() {
    const auto all = testing::architecture_files();
    const auto found = std::ranges::find(all, std::string("lfm2"), &testing::ArchitectureFile::name);
    const std::string path = testing::scratch_file("recurrent-walk.gguf");
    if (found == all.end() || !testing::write_architecture_file(*found, path)) {
        return {ErrorCode::kInternal, "no file of a model with recurrent layers"};
    }
    return Model::load(path);
}

// What is asked of the engine: one of few, so that each is answered alone once only.
struct Ask {
    int policy = 0;
    int prompt = 0;
    int tail = -1;   // behind a kept prompt; -1: none
    int evict = -1;  // what is evicted of that prompt first; -1: nothing
    auto operator<=>(const Ask &) const = default;
};

constexpr int kAnswer = 6;
constexpr int kPrompts = 4;
constexpr int kTails = 3;

struct PolicyCase {
    const char * name;
    Budget budget;
    PrefillSchedule prefill;
    int grid = 0;
    bool looks_back = false;  // at what was evicted, which is kept, and comes back
};
const std::vector<PolicyCase> & policies() {
    static const std::vector<PolicyCase> all = {{"full", {}, PrefillSchedule::kAuto},
                                                {"snapkv:window=8", 40, PrefillSchedule::kChunked},
                                                {"h2o", 40, PrefillSchedule::kChunked, 8},
                                                {"snapkv:window=8+ada", 48, PrefillSchedule::kOneShot},
                                                {"laprox:window=8", 40, PrefillSchedule::kOneShot, 16},
                                                {"expected", 40, PrefillSchedule::kChunked},
                                                {"keydiff", 32, PrefillSchedule::kChunked, 0, true}};
    return all;
}

// What forks of a full prompt may evict.
const std::vector<Eviction> & evictions() {
    static const std::vector<Eviction> all = {
        {"full", {}}, {"snapkv:window=8", 40}, {"h2o", 44}, {"laprox:window=8", 40}, {"adakv:window=8", 36}};
    return all;
}

constexpr int kChunk = 20;
constexpr int kLooking = 64;  // tokens at a prompt's end before which an engine looks for what was evicted

SessionOptions options_of(const Ask & ask) {
    const PolicyCase & one = policies()[static_cast<size_t>(ask.policy)];
    SessionOptions options;
    options.policy = one.name;
    options.budget = one.budget;
    options.prefill = one.prefill;
    options.chunk = kChunk;
    options.evict_every = 3;
    options.grid = one.grid;
    options.type_k = options.type_v = KvType::kF32;
    if (one.looks_back) { options.cold = KvType::kF32; }
    options.look_back = one.looks_back;
    for (const Eviction & later : evictions()) {
        if (ask.policy == 0) { options.observe.push_back(later.policy); }
    }
    return options;
}

std::vector<int32_t> prompt_of(const Ask & ask, int n_vocab) {
    return random_tokens(30 + 37 * ask.prompt, n_vocab, 100 + static_cast<uint32_t>(ask.prompt));
}
std::vector<int32_t> tail_of(const Ask & ask, int n_vocab) {
    return random_tokens(5 + 9 * ask.tail, n_vocab, 200 + static_cast<uint32_t>(ask.tail));
}

class Walk {
public:
    Walk(const Model & model, size_t ceiling, uint32_t seed)
        : model_(model), n_vocab_(model.info().n_vocab), ceiling_(ceiling), random_(seed) {
        EngineOptions options;
        options.grid = 0;
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 1;
        options.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(ceiling));
        options.max_rows = 24;
        auto engine = model.engine(options);
        if (engine.ok()) { engine_.emplace(std::move(*engine)); }
    }

    void run(int n_steps) {
        ASSERT_TRUE(engine_.has_value());
        testing::KvPages pages;
        for (step_ = 0; step_ < n_steps; ++step_) {
            if (live_.size() + 1 < 32 && pick(3) == 0) { submit(); }
            if (!live_.empty() && pick(25) == 0) { cancel(); }
            if (bases_.size() > 1 || (!bases_.empty() && pick(40) == 0)) { forget_base(); }
            const bool fails = pick(8) == 0;
            if (fails) { make_fail(); }
            pages.watch_peaks(true);
            const auto more = engine_->step();
            pages.watch_peaks(false);
            if (fails) { n_failures_ += stop_failing() ? 1 : 0; }
            if (!fails) { ASSERT_TRUE(more.ok()) << more.status().message(); }
            const EngineLedger ledger = engine_->ledger();
            ASSERT_LE(ledger.kv_peak_bytes, ceiling_);
            ASSERT_LE(ledger.kv_allocated_bytes, ledger.kv_reserved_bytes) << "at step " << step_;
            ASSERT_LE(pages.bytes() + ledger.kv_state_bytes, ledger.kv_allocated_bytes) << "at step " << step_;
            ASSERT_LE(pages.most_bytes(), ceiling_) << "in step " << step_;
            most_pages_ = pages.most_bytes();
            n_set_aside_ += ledger.n_set_aside;
            most_running_ = std::max(most_running_, ledger.n_running);
            ASSERT_NO_FATAL_FAILURE(gather());
        }
        for (bool more = true; more;) {
            const auto stepped = engine_->step();
            ASSERT_TRUE(stepped.ok());
            more = *stepped;
            ASSERT_NO_FATAL_FAILURE(gather());
        }
        while (!bases_.empty()) { forget_base(); }
        ASSERT_TRUE(engine_->step().ok());
        EXPECT_EQ(engine_->ledger().kv_allocated_bytes, 0U);
        EXPECT_EQ(pages.bytes(), 0U);
        EXPECT_TRUE(live_.empty());
        if (pages.works()) { EXPECT_GT(most_pages_, ceiling_ / 4) << "the ceiling was never near"; }
    }

    int64_t n_answers() const { return n_answers_; }
    int64_t n_forked() const { return n_forked_; }
    int64_t n_evicted() const { return n_evicted_; }
    int64_t n_failures() const { return n_failures_; }
    int64_t n_full() const { return n_full_; }
    int64_t n_set_aside() const { return n_set_aside_; }
    int64_t most_running() const { return most_running_; }

private:
    int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

    // One of those of which a step has: memory by the dozens, few pages, buffers, graph runs and files.
    void make_fail() {
        const auto what = static_cast<Fails>(pick(5));
        fail_at(what, 1 + pick(what == Fails::kNew ? 60 : 8));
    }

    void submit() {
        Ask ask{pick(static_cast<int>(policies().size())), pick(kPrompts), -1};
        Request request;
        request.priority = pick(3);
        if (pick(6) == 0) {
            if (pick(2) == 0) { ask.policy = 0; }  // that forks evict of
            request.keep = true;
            request.max_tokens = 0;
            request.tokens = prompt_of(ask, n_vocab_);
            request.options = options_of(ask);
        } else if (!bases_.empty() && pick(2) == 0) {
            const auto & [id, base] = bases_[static_cast<size_t>(pick(static_cast<int>(bases_.size())))];
            ask = base;
            request.after = id;
            request.max_tokens = kAnswer;
            if (ask.policy == 0 && ask.evict < 0 && pick(2) == 0) {
                ask.evict = pick(static_cast<int>(evictions().size()));
                request.evict = evictions()[static_cast<size_t>(ask.evict)];
                request.keep = pick(4) == 0;
            }
            if (request.keep) {
                request.max_tokens = 0;
            } else if (pick(3) > 0) {
                ask.tail = pick(kTails);
                request.tokens = tail_of(ask, n_vocab_);
            }
        } else {
            request.tokens = prompt_of(ask, n_vocab_);
            request.options = options_of(ask);
            request.max_tokens = kAnswer;
        }
        const bool keep = request.keep;
        const bool is_fork = request.after != 0;
        const auto id = engine_->submit(std::move(request));
        if (is_fork && id.status().code() == ErrorCode::kBudget) {  // too much beside what it goes on from
            ++n_full_;
            return;
        }
        ASSERT_TRUE(id.ok()) << id.status().message();
        live_[*id] = {ask, keep, n_failures_};
    }

    void cancel() {
        auto found = live_.begin();
        std::advance(found, pick(static_cast<int>(live_.size())));
        ASSERT_TRUE(engine_->cancel(found->first).ok());
        ASSERT_EQ(engine_->state(found->first), RequestState::kCancelled);
        ASSERT_TRUE(engine_->forget(found->first).ok());
        live_.erase(found);
    }

    void forget_base() {
        const int64_t id = bases_.front().first;
        ASSERT_TRUE(engine_->forget(id).ok());
        bases_.erase(bases_.begin());
    }

    // Ended requests leave, their answers compared.
    void gather() {
        for (auto one = live_.begin(); one != live_.end();) {
            const auto [id, asked] = *one;
            const RequestState state = engine_->state(id);
            if (state != RequestState::kDone && state != RequestState::kFailed) {
                ++one;
                continue;
            }
            one = live_.erase(one);
            if (state == RequestState::kFailed) {
                const ErrorCode code = engine_->status(id).code();
                // The ceiling is full of kept prompts (that a waiting one goes on from, too, when they have been forgotten); or
                // memory, a buffer or a graph was not to be had.
                const bool full = code == ErrorCode::kBudget;
                n_full_ += full ? 1 : 0;
                const bool made_to = n_failures_ > asked.n_failures;  // since it came
                ASSERT_TRUE(full || (made_to && (code == ErrorCode::kOutOfMemory || code == ErrorCode::kInternal)))
                    << engine_->status(id).message() << " at step " << step_;
            } else if (asked.keep) {
                bases_.emplace_back(id, asked.ask);
                continue;
            } else {
                const auto answer = engine_->answer(id);
                const auto & expected = alone(asked.ask);
                ASSERT_EQ(std::vector<int32_t>(answer.begin(), answer.end()), expected)
                    << policies()[static_cast<size_t>(asked.ask.policy)].name << " prompt " << asked.ask.prompt << " tail "
                    << asked.ask.tail << " at step " << step_;
                ++n_answers_;
                n_forked_ += asked.ask.tail >= 0 ? 1 : 0;
                n_evicted_ += asked.ask.evict >= 0 ? 1 : 0;
            }
            ASSERT_TRUE(engine_->forget(id).ok());
        }
    }

    const std::vector<int32_t> & alone(const Ask & ask) {
        auto & tokens = alone_[ask];
        if (!tokens.empty()) { return tokens; }
        SessionOptions options = options_of(ask);
        options.n_threads = 1;
        auto session = model_.session(options);
        EXPECT_TRUE(session.ok());
        const std::vector<int32_t> prompt = prompt_of(ask, n_vocab_);
        const int first = options.look_back ? (static_cast<int>(prompt.size()) - kLooking) / kChunk * kChunk : 0;
        RunHooks looks;
        looks.repair = options.look_back;  // what its end looks for comes back
        if (first > 0) { EXPECT_TRUE(session->prefill(std::span(prompt).first(static_cast<size_t>(first))).ok()); }
        EXPECT_TRUE(session->prefill(std::span(prompt).subspan(static_cast<size_t>(std::max(first, 0))), looks).ok());
        if (ask.evict >= 0) {
            const Eviction & eviction = evictions()[static_cast<size_t>(ask.evict)];
            EXPECT_TRUE(session->evict(eviction.policy, eviction.budget).ok());
        }
        if (ask.tail >= 0) { EXPECT_TRUE(session->prefill(tail_of(ask, n_vocab_), looks).ok()); }
        for (int i = 0; i < kAnswer; ++i) {
            tokens.push_back(likeliest_token(session->logits()));
            if (i + 1 < kAnswer) { EXPECT_TRUE(session->append(tokens.back()).ok()); }
        }
        return tokens;
    }

    struct Asked {
        Ask ask;
        bool keep = false;
        int64_t n_failures = 0;  // that there had been
    };

    const Model & model_;
    int n_vocab_;
    size_t ceiling_;
    std::map<Ask, std::vector<int32_t>> alone_;
    std::mt19937 random_;
    std::optional<Engine> engine_;
    std::map<int64_t, Asked> live_;
    std::vector<std::pair<int64_t, Ask>> bases_;
    int step_ = 0;
    int64_t n_answers_ = 0;
    int64_t n_forked_ = 0;
    int64_t n_evicted_ = 0;
    int64_t n_failures_ = 0;
    int64_t n_full_ = 0;
    int64_t n_set_aside_ = 0;
    int64_t most_running_ = 0;
    size_t most_pages_ = 0;
};

class BatchEngineRandom : public ::testing::TestWithParam<WalkCase> {};

TEST_P(BatchEngineRandom, AnswersAsEachAloneWhateverHappens) {
    const char * wanted = std::getenv("PITH_RANDOM_STEPS");
    const int n_steps = wanted != nullptr ? std::atoi(wanted) : 1000;
    const auto model = GetParam().load();
    ASSERT_TRUE(model.ok()) << model.status().message();
    Walk first(*model, GetParam().ceiling, 11);
    Walk second(*model, GetParam().ceiling, 12);
    {
        const std::jthread beside([&] { second.run(n_steps / 2); });
        first.run(n_steps - n_steps / 2);
    }
    const auto both = [&](int64_t (Walk::*count)() const) { return (first.*count)() + (second.*count)(); };
    RecordProperty("answers", std::to_string(both(&Walk::n_answers)));
    EXPECT_GT(both(&Walk::n_answers), n_steps / 20);
    EXPECT_GT(both(&Walk::n_forked), n_steps / 100);
    EXPECT_GT(both(&Walk::n_evicted), n_steps / 200);
#if defined(__SANITIZE_THREAD__)
    EXPECT_GT(both(&Walk::n_failures), 0);  // fewer kinds of things can be made to fail
#else
    EXPECT_GT(both(&Walk::n_failures), n_steps / 50);
#endif
    EXPECT_LT(both(&Walk::n_full), both(&Walk::n_answers) / 5);  // kept prompts that nothing was evicted of are large
    EXPECT_GT(both(&Walk::n_set_aside), 0) << "memory was never short";
    EXPECT_GT(std::max(first.most_running(), second.most_running()), 6);
}

INSTANTIATE_TEST_SUITE_P(Models, BatchEngineRandom,
                         ::testing::Values(WalkCase{"governed", size_t{5} << 18U, governed_model},
                                           WalkCase{"windows", size_t{4} << 20U, window_model},
                                           WalkCase{"recurrent", size_t{5} << 17U, recurrent_model}),
                         [](const auto & test) { return std::string(test.param.name); });

}  // namespace
}  // namespace pith::batch_engine_random_test
