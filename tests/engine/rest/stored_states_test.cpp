// stored_states_test.cpp - an engine with a folder of states answers to the bit as one without, evictions included: in the same
// engine, in another, in another process; and what must not be found is not.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>

#include "cache/state_store.h"
#include "core/likeliest_token.h"
#include "engine/rest/folder_of_states.h"
#include "engine/rest/stored_states.h"
#include "engine/tiny_model.h"
#include "file/failing_files.h"
#include "model/gguf_edit.h"
#include "pith/batch_engine.h"
#include "pith/cache_file.h"

namespace pith::stored_states_test {
namespace {

using testing::answer;
using testing::answer_of;
using testing::bytes_in;
using testing::engine_with;
using testing::kAnswer;
using testing::kFound;
using testing::kShared;
using testing::kTail;
using testing::Outcome;
using testing::random_tokens;
using testing::request_of;
using testing::TempFolder;
using testing::tiny;
using testing::tiny_model;
using testing::tiny_spec;

int64_t n_files(const std::string & folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(EndsToStore, AreWhereChunksEnd) {
    const auto ends = [](RunPlan plan, int64_t n, std::vector<int32_t> wanted = {}) { return ends_to_store(plan, n, wanted); };
    const RunPlan whole{0, false, 512, 0};
    EXPECT_EQ(ends(whole, 511), std::vector<int64_t>{});
    EXPECT_EQ(ends(whole, 512), std::vector<int64_t>{512});
    EXPECT_EQ(ends(whole, 5000, {700, 1600, 9999, -4}), (std::vector<int64_t>{512, 1536, 4608}));
    const RunPlan grid{64, false, 100, 8, 256};
    EXPECT_EQ(ends(grid, 99), std::vector<int64_t>{});
    EXPECT_EQ(ends(grid, 100), std::vector<int64_t>{100});
    EXPECT_EQ(ends(grid, 255), (std::vector<int64_t>{100, 200}));
    EXPECT_EQ(ends(grid, 257), (std::vector<int64_t>{200, 256}));
    EXPECT_EQ(ends(grid, 400, {100, 101}), (std::vector<int64_t>{100, 256, 356}));
}

class StoredPolicy : public ::testing::TestWithParam<std::tuple<const char *, KvType>> {};

TEST_P(StoredPolicy, AnswersAsIfAllHadBeenRead) {
    const auto & [policy, type] = GetParam();
    const Request first = request_of(policy, 2);
    const Request second = request_of(policy, 3);
    const Outcome first_alone = answer_of(engine_with("", type), first);
    const Outcome second_alone = answer_of(engine_with("", type), second);
    if (std::string(policy) != "full") { EXPECT_GT(second_alone.n_evicted, 0); }
    const TempFolder folder;
    {
        auto engine = tiny().engine(engine_with(folder.file("states"), type));
        ASSERT_TRUE(engine.ok()) << engine.status().message();
        const Outcome reads = answer(*engine, first);
        EXPECT_EQ(reads.n_cached, 0);
        reads.expect_same(first_alone);
        const Outcome goes_on = answer(*engine, second);
        EXPECT_EQ(goes_on.n_cached, kFound);
        goes_on.expect_same(second_alone);
        const EngineLedger ledger = engine->ledger();
        EXPECT_EQ(ledger.n_cache_sought, 2 * (kShared + kTail));
        EXPECT_EQ(ledger.n_cache_found, kFound);
        EXPECT_EQ(ledger.n_cache_kept, n_files(folder.file("states")));
        EXPECT_EQ(ledger.n_prompt, 2 * (kShared + kTail) - kFound);
    }
    for (const Request & again : {first, second}) {  // after a restart
        const Outcome goes_on = answer_of(engine_with(folder.file("states"), type), again);
        EXPECT_EQ(goes_on.n_cached, kFound);
        goes_on.expect_same(again.tokens == first.tokens ? first_alone : second_alone);
    }
}

INSTANTIATE_TEST_SUITE_P(All, StoredPolicy,
                         ::testing::Values(std::tuple("full", KvType::kF16), std::tuple("full", KvType::kQ8_0),
                                           std::tuple("snapkv:window=8", KvType::kF16), std::tuple("h2o", KvType::kF32),
                                           std::tuple("tova", KvType::kBF16), std::tuple("expected", KvType::kQ8_0),
                                           std::tuple("keydiff", KvType::kQ4_0), std::tuple("knorm", KvType::kF16),
                                           std::tuple("snapkv:window=8+ada+caote", KvType::kF16),
                                           std::tuple("auto", KvType::kF16)));

TEST(StoredStates, OfModelsWithWindowsAreFoundToo) {
    RandomModelSpec spec = tiny_spec();
    spec.arch = "gemma3";
    spec.n_layers = 7;
    spec.window = 48;
    const Model model = tiny_model(spec).value();
    for (const char * policy : {"full", "h2o"}) {
        const TempFolder folder;
        const Outcome alone = answer_of(engine_with(""), request_of(policy, 3), model);
        EXPECT_EQ(answer_of(engine_with(folder.file("s")), request_of(policy, 2), model).n_cached, 0);
        const Outcome goes_on = answer_of(engine_with(folder.file("s")), request_of(policy, 3), model);
        EXPECT_EQ(goes_on.n_cached, kFound);
        goes_on.expect_same(alone);
    }
}

TEST(StoredStates, AreFoundByAnotherProcess) {
    const TempFolder folder;
    const Outcome alone = answer_of(engine_with(""), request_of("h2o", 3));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) { _exit(answer_of(engine_with(folder.file("s")), request_of("h2o", 2)).n_cached == 0 ? 0 : 1); }
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    ASSERT_EQ(state, 0);
    const Outcome goes_on = answer_of(engine_with(folder.file("s")), request_of("h2o", 3));
    EXPECT_EQ(goes_on.n_cached, kFound);
    goes_on.expect_same(alone);
}

TEST(StoredStates, AreFoundWhereAllThatCountsIsEqualAndNowhereElse) {
    const TempFolder folder;
    const EngineOptions options = engine_with(folder.file("s"));
    EXPECT_EQ(answer_of(options, request_of("h2o")).n_cached, 0);
    EXPECT_EQ(answer_of(options, request_of("h2o")).n_cached, kFound);
    const auto n_found = [&](const std::function<void(Request &)> & change) {
        Request request = request_of("h2o");
        request.max_tokens = 1;
        change(request);
        return answer_of(options, request).n_cached;
    };
    EXPECT_EQ(n_found([](Request & r) { r.max_tokens = 2; }), kFound);
    EXPECT_EQ(n_found([](Request & r) { r.cache_name = "another"; }), 0);
    EXPECT_EQ(n_found([](Request & r) { r.cache_name = "another"; }), kFound);
    EXPECT_EQ(n_found([](Request & r) { r.options.policy = "knorm"; }), 0);
    EXPECT_EQ(n_found([](Request & r) { r.options.budget = Budget(41); }), 0);
    EXPECT_EQ(n_found([](Request & r) { r.options.pinned = {{1, 3}}; }), 0);
    EXPECT_EQ(n_found([](Request & r) { r.options.grid = 16; }), 0);
    EXPECT_EQ(n_found([](Request & r) { r.options.chunk = 8; }), 0);
    EngineOptions other_type = options;
    other_type.type_v = KvType::kF32;
    EXPECT_EQ(answer_of(other_type, request_of("h2o")).n_cached, 0);
    RandomModelSpec spec = tiny_spec();
    spec.seed += 1;
    EXPECT_EQ(answer_of(options, request_of("h2o"), tiny_model(spec).value()).n_cached, 0);
}

TEST(StoredStates, ThatDependOnMoreThanTheirTokensAreNotKept) {
    const TempFolder folder;
    const auto expect_none = [&](Request request, EngineOptions options) {
        for (int i = 0; i < 2; ++i) { EXPECT_EQ(answer_of(options, request).n_cached, 0); }
        EXPECT_EQ(n_files(folder.file("s")), 0);
    };
    const EngineOptions options = engine_with(folder.file("s"));
    Request request = request_of("snapkv:window=8");
    request.n_question = kTail;
    expect_none(request, options);
    request = request_of("h2o");
    request.questions = random_tokens(5, 384, 8);
    expect_none(request, options);
    request = request_of("h2o");  // shorter than a chunk
    request.tokens.resize(15);
    expect_none(request, options);
    EngineOptions small = options;  // a state would take more than its share
    small.cache_bytes = 10000;
    expect_none(request_of("h2o"), small);
}

// In one shot, or evicted elsewhere than on a grid: by the same prompt and no other, neither shorter nor longer, and where it
// is asked for.
TEST(StoredStates, OfWholePromptsAreFoundByTheSamePromptAlone) {
    for (const bool one_shot : {true, false}) {
        for (const char * policy : {"full", "snapkv:window=8", "h2o", "laprox"}) {
            if (!one_shot && std::string(policy) == "full") { continue; }  // is found by all that begin alike
            SCOPED_TRACE(policy);
            const auto request = [&](int n_tokens) {
                Request one = request_of(policy);
                one.tokens.resize(static_cast<size_t>(n_tokens));
                one.options.prefill = one_shot ? PrefillSchedule::kOneShot : PrefillSchedule::kChunked;
                return one;
            };
            const auto options = [&](const std::string & folder) {
                EngineOptions with = engine_with(folder);
                if (!one_shot) { with.grid = 0; }
                return with;
            };
            const TempFolder folder;
            const Outcome alone = answer_of(options(""), request(150));
            EXPECT_EQ(answer_of(options(folder.file("s")), request(150)).n_cached, 0);
            EXPECT_EQ(n_files(folder.file("s")), 1);
            const Outcome again = answer_of(options(folder.file("s")), request(150));
            EXPECT_EQ(again.n_cached, 150);
            again.expect_same(alone);
            for (const int n_tokens : {149, 151}) {
                EXPECT_EQ(answer_of(options(folder.file("s")), request(n_tokens)).n_cached, 0);
            }
            // What nobody goes on from is kept where its end is named.
            for (const bool named : {false, true}) {
                auto engine = tiny().engine(options(folder.file("other")));
                ASSERT_TRUE(engine.ok());
                Request one = request(150);
                if (named) { one.cache_at = {10, 150}; }
                answer(*engine, one, tiny_spec().n_layers, /*keeps=*/false);
                EXPECT_EQ(n_files(folder.file("other")), named ? 1 : 0);
            }
        }
    }
}

TEST(StoredStates, AreKeptBeforePlacesThatARequestNames) {
    const TempFolder folder;
    const EngineOptions options = engine_with(folder.file("s"));
    Request first = request_of("h2o");
    first.cache_at = {70};
    Request second = first;
    for (size_t i = 70; i < second.tokens.size(); ++i) { second.tokens[i] = 383 - second.tokens[i]; }
    const Outcome alone = answer_of(engine_with(""), second);
    EXPECT_EQ(answer_of(options, first).n_cached, 0);
    const Outcome goes_on = answer_of(options, second);
    EXPECT_EQ(goes_on.n_cached, 64);
    goes_on.expect_same(alone);
}

TEST(StoredStates, OfAllOfAPromptLeaveNothingToRead) {
    const TempFolder folder;
    for (const char * policy : {"full", "h2o"}) {
        Request request = request_of(policy);
        request.tokens.resize(kFound);
        const Outcome alone = answer_of(engine_with(""), request);
        EXPECT_EQ(answer_of(engine_with(folder.file("s")), request).n_cached, 0);
        const Outcome found = answer_of(engine_with(folder.file("s")), request);
        EXPECT_EQ(found.n_cached, kFound);
        found.expect_same(alone);
    }
}

// A client that waits for less than a prompt takes comes further each time.
TEST(StoredStates, OfAPromptThatIsGivenUpHalfWayAreGoneOnFrom) {
    for (const char * policy : {"full", "h2o"}) {
        SCOPED_TRACE(policy);
        EngineOptions options = engine_with("");
        const Outcome alone = answer_of(options, request_of(policy));
        options.cache_memory_bytes = uint64_t{1} << 30U;
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        int64_t n_before = 0;
        for (int n_steps : {2, 2, 3}) {
            const auto id = engine->submit(request_of(policy));
            ASSERT_TRUE(id.ok());
            for (int i = 0; i < n_steps; ++i) { ASSERT_TRUE(engine->step().ok()); }
            EXPECT_EQ(engine->state(*id), RequestState::kReading);
            EXPECT_EQ(engine->n_cached(*id), n_before);
            ASSERT_TRUE(engine->cancel(*id).ok());
            n_before += 16 * n_steps;
        }
        const Outcome goes_on = answer(*engine, request_of(policy));
        EXPECT_EQ(goes_on.n_cached, n_before);
        goes_on.expect_same(alone);
        // A prompt that ends where another was given up has logits of its own.
        Request shorter = request_of(policy);
        shorter.tokens.resize(static_cast<size_t>(n_before));
        const Outcome short_alone = answer_of(engine_with(""), shorter);
        answer(*engine, shorter).expect_same(short_alone);
    }
}

// Eight questions on a document that an earlier process has read: its K/V once, and eight tails. With evictions, which copy
// what they move, each says what it says alone.
TEST(StoredStates, ThatSeveralGoOnFromAreHeldOnce) {
    constexpr size_t kDocument = 2000;
    constexpr size_t kQuestions = 8;
    const auto question_on = [&](const char * policy, size_t i, int n_tokens = 20) {
        Request request = request_of(policy);
        request.tokens = random_tokens(kDocument, 384, 1);
        if (std::string(policy) != "full") { request.options.budget = Budget(500); }
        const auto asked = random_tokens(n_tokens + static_cast<int>(i), 384, 50 + static_cast<unsigned>(i));
        request.tokens.insert(request.tokens.end(), asked.begin(), asked.end());
        return request;
    };
    for (const char * policy : {"full", "h2o"}) {
        SCOPED_TRACE(policy);
        const TempFolder folder;
        const EngineOptions options = engine_with(folder.file("s"), KvType::kF32);
        std::vector<std::vector<int32_t>> alone;
        size_t one_bytes = 0;
        for (size_t i = 0; i < kQuestions; ++i) {
            auto engine = tiny().engine(engine_with("", KvType::kF32));
            ASSERT_TRUE(engine.ok());
            const auto id = engine->submit(question_on(policy, i));
            ASSERT_TRUE(id.ok() && engine->run().ok());
            alone.emplace_back(engine->answer(*id).begin(), engine->answer(*id).end());
            one_bytes = std::max(one_bytes, engine->ledger(*id)->kv_allocated_bytes);
        }
        answer_of(options, question_on(policy, kQuestions, 1));
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        std::vector<int64_t> ids;
        for (size_t i = 0; i < kQuestions; ++i) { ids.push_back(engine->submit(question_on(policy, i)).value()); }
        ASSERT_TRUE(engine->step().ok());
        if (std::string(policy) == "full") {  // a few pages a lane each, of K and of V
            const size_t tails = kQuestions * 3 * 2 * 2 * 2 * 4096;
            EXPECT_LE(engine->ledger().kv_allocated_bytes, one_bytes + tails);
            EXPECT_GE(engine->ledger().kv_allocated_bytes, one_bytes - tails);
        }
        ASSERT_TRUE(engine->run().ok());
        for (size_t i = 0; i < kQuestions; ++i) {
            EXPECT_EQ(engine->n_cached(ids[i]), static_cast<int64_t>(kDocument));
            EXPECT_TRUE(std::ranges::equal(engine->answer(ids[i]), alone[i])) << i;
        }
        EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
    }
}

// Under a ceiling, too: where no eviction comes before their ends, or none moves what lies in front. Where keys turn before
// their ends (2,048 tokens), each copies them all.
TEST(StoredStates, ThatSeveralGoOnFromAreReservedOnce) {
    constexpr int kDocument = 56 * 32;
    struct Shape {
        const char * policy;
        int budget;
        int n_pinned;
        int n_answer;
        int64_t n_at_least;  // at a time, where three would fit alone
    };
    for (const Shape & shape : {Shape{"full", 0, 0, 20, 8}, Shape{"h2o", 500, 0, 12, 8}, Shape{"h2o", 1000, 800, 60, 5},
                                Shape{"h2o", 1000, 800, 260, 3}}) {
        SCOPED_TRACE(shape.policy);
        const auto question = [&](unsigned i) {
            Request request = request_of(shape.policy);
            request.tokens = random_tokens(kDocument, 384, 1);
            const auto asked = random_tokens(8, 384, 50 + i);
            request.tokens.insert(request.tokens.end(), asked.begin(), asked.end());
            if (shape.budget > 0) { request.options.budget = Budget(shape.budget); }
            if (shape.n_pinned > 0) { request.options.pinned = {{0, shape.n_pinned}}; }
            request.max_tokens = shape.n_answer;
            return request;
        };
        const TempFolder folder;
        EngineOptions options = engine_with(folder.file("s"), KvType::kF32);
        size_t reserved = 0;
        std::vector<std::vector<int32_t>> alone;
        for (unsigned i = 0; i < 8; ++i) {
            auto engine = tiny().engine(i == 0 ? options : engine_with("", KvType::kF32));
            ASSERT_TRUE(engine.ok());
            const auto id = engine->submit(question(i));
            ASSERT_TRUE(id.ok() && engine->step().ok());
            reserved = std::max(reserved, engine->ledger().kv_reserved_bytes);
            ASSERT_TRUE(engine->run().ok());
            alone.emplace_back(engine->answer(*id).begin(), engine->answer(*id).end());
        }
        options.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(7 * reserved / 2));
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        std::vector<int64_t> ids;
        for (unsigned i = 0; i < 8; ++i) { ids.push_back(engine->submit(question(i)).value()); }
        ASSERT_TRUE(engine->step().ok());
        EXPECT_GE(engine->ledger().n_running, shape.n_at_least);
        ASSERT_TRUE(engine->run().ok());
        EXPECT_LE(engine->ledger().kv_peak_bytes, engine->ledger().ceiling_bytes);
        for (unsigned i = 0; i < 8; ++i) {
            EXPECT_EQ(engine->n_cached(ids[i]), kDocument);
            EXPECT_TRUE(std::ranges::equal(engine->answer(ids[i]), alone[i])) << i;
        }
        EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
    }
}

// Where there is no room for a base beside what each may need, nobody waits for its sake.
TEST(StoredStates, AreHeldBySeveralEachWhereTheCeilingHasNoRoomForMore) {
    const TempFolder folder;
    EngineOptions options = engine_with(folder.file("s"));
    const Request request = request_of("h2o");
    const Outcome alone = answer_of(options, request);
    size_t reserved = 0;
    for (const bool tight : {false, true}) {
        if (tight) { options.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(2 * reserved)); }
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        std::vector<int64_t> ids;
        for (int i = 0; i < (tight ? 2 : 1); ++i) { ids.push_back(engine->submit(request).value()); }
        ASSERT_TRUE(engine->step().ok());
        EXPECT_EQ(engine->ledger().n_running, std::ssize(ids));
        reserved = engine->ledger().kv_reserved_bytes;
        ASSERT_TRUE(engine->run().ok());
        for (const int64_t id : ids) {
            EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message();
            EXPECT_EQ(engine->n_cached(id), kFound);
        }
    }
}

// Without a folder: what one request has read another goes on from in the same engine, to the bit; of what nothing is evicted
// of from any chunk's end.
TEST(StatesInMemory, AreFoundWithoutAFolder) {
    for (const char * policy : {"full", "h2o", "snapkv:window=8", "expected"}) {
        SCOPED_TRACE(policy);
        const bool keeps_all = std::string(policy) == "full";
        Request longer = request_of(policy, 2);
        const auto more = random_tokens(200, 384, 9);
        longer.tokens.insert(longer.tokens.end(), more.begin(), more.end());
        longer.cache_at = {kShared};
        const Request other = request_of(policy, 3);
        const Outcome alone = answer_of(engine_with(""), other);
        const Outcome longer_alone = answer_of(engine_with(""), longer);
        EngineOptions options = engine_with("");
        options.cache_memory_bytes = uint64_t{64} << 20U;
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok()) << engine.status().message();
        answer(*engine, longer).expect_same(longer_alone);
        EXPECT_GT(engine->ledger().kv_idle_bytes, 0U);
        EXPECT_EQ(engine->ledger().kv_allocated_bytes, engine->ledger().kv_idle_bytes);
        for (int i = 0; i < 3; ++i) {
            const Outcome found = answer(*engine, other, tiny_spec().n_layers, /*keeps=*/i == 2);
            EXPECT_EQ(found.n_cached, kFound);
            EXPECT_EQ(found.logits, alone.logits);
            if (i == 2) { found.expect_same(alone); }
        }
        const Outcome again = answer(*engine, longer);
        EXPECT_GT(again.n_cached, 300);
        again.expect_same(longer_alone);
        Request whole = longer;  // and all of it: its logits are those of the longest state's end alone
        whole.tokens.resize(static_cast<size_t>(kFound));
        const Outcome whole_alone = answer_of(engine_with(""), whole);
        const Outcome read = answer(*engine, whole);
        EXPECT_EQ(read.n_cached, keeps_all ? 128 : kFound);
        read.expect_same(whole_alone);
        EXPECT_EQ(engine->ledger().n_cache_kept, 0);
    }
}

// A longer state in memory serves a prompt, whose own is in the folder all the same when it is answered.
TEST(StatesInMemory, DoNotKeepTheirBeginningsFromTheFolder) {
    const TempFolder folder;
    EngineOptions options = engine_with(folder.file("s"));
    options.cache_memory_bytes = uint64_t{64} << 20U;
    Request longer = request_of("full", 2);
    const auto more = random_tokens(200, 384, 9);
    longer.tokens.insert(longer.tokens.end(), more.begin(), more.end());
    const Request other = request_of("full", 3);
    const Outcome alone = answer_of(engine_with(""), other);
    {
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok()) << engine.status().message();
        answer(*engine, longer);
        EXPECT_EQ(n_files(folder.file("s")), 1);
        EXPECT_EQ(answer(*engine, other).n_cached, kFound - other.options.chunk);
        EXPECT_EQ(answer(*engine, other).n_cached, kFound);
    }
    const Outcome found = answer_of(engine_with(folder.file("s")), other);
    EXPECT_EQ(found.n_cached, kFound);
    found.expect_same(alone);
}

TEST(StatesInMemory, AreNeitherUsedNorLeftByWhoSaysSo) {
    const TempFolder folder;
    EngineOptions options = engine_with(folder.file("s"));
    options.cache_memory_bytes = uint64_t{64} << 20U;
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    Request apart = request_of("h2o");
    apart.use_cache = false;
    const Outcome first = answer(*engine, apart);
    EXPECT_EQ(engine->ledger().kv_idle_bytes, 0U);
    EXPECT_EQ(n_files(folder.file("s")), 0);
    EXPECT_EQ(engine->ledger().n_cache_sought, 0);
    EXPECT_EQ(answer(*engine, request_of("h2o")).n_cached, 0);
    EXPECT_EQ(answer(*engine, request_of("h2o")).n_cached, kFound);
    const Outcome again = answer(*engine, apart);
    EXPECT_EQ(again.n_cached, 0);
    again.expect_same(first);
}

// Of an engine in which no request is left: its states' K/V, and what lies beside it.
size_t bytes_of_idle(const EngineLedger & ledger) {
    return ledger.kv_idle_bytes + ledger.evidence_bytes + ledger.sequence_bytes;
}

// The moments of `expected` are more than the entries of a small budget.
TEST(StatesInMemory, AreCountedWithWhatLiesBesideTheirEntries) {
    EngineOptions options = engine_with("");
    options.cache_memory_bytes = uint64_t{64} << 20U;
    const auto read = [](Engine & engine, unsigned seed) {
        Request one = request_of("expected");
        one.tokens = random_tokens(kShared, 384, seed);
        one.max_tokens = 1;
        const auto id = engine.submit(std::move(one));
        ASSERT_TRUE(id.ok() && engine.run().ok());
        ASSERT_EQ(engine.state(*id), RequestState::kDone) << engine.status(*id).message();
        ASSERT_TRUE(engine.forget(*id).ok());
    };
    constexpr unsigned kPrompts = 8;
    auto roomy = tiny().engine(options);
    for (unsigned seed = 1; seed <= kPrompts; ++seed) { read(*roomy, seed); }
    const EngineLedger all = roomy->ledger();
    ASSERT_GT(all.evidence_bytes, all.kv_idle_bytes / 2);

    for (const bool by_ceiling : {false, true}) {
        EngineOptions few = options;
        // Their K/V alone would have room.
        const size_t limit = (all.kv_idle_bytes + bytes_of_idle(all)) / 2;
        if (by_ceiling) {
            few.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(limit));
        } else {
            few.cache_memory_bytes = limit;
        }
        auto engine = tiny().engine(few);
        for (unsigned seed = 1; seed <= kPrompts; ++seed) {
            read(*engine, seed);
            EXPECT_LE(bytes_of_idle(engine->ledger()), limit) << seed;
        }
        EXPECT_GT(bytes_of_idle(engine->ledger()), limit / 3);
    }
}

// They take what they may, and what is left of the ceiling; who comes needs not wait for them.
TEST(StatesInMemory, GoTheLeastRecentlyUsedFirst) {
    const auto request = [](unsigned seed) {
        Request one = request_of("h2o");
        one.tokens = random_tokens(kShared, 384, seed);
        return one;
    };
    EngineOptions options = engine_with("");
    options.cache_memory_bytes = uint64_t{64} << 20U;
    auto roomy = tiny().engine(options);
    ASSERT_TRUE(roomy.ok());
    const auto ask = [](Engine & engine, const Request & one) { return answer(engine, one, tiny_spec().n_layers, false); };
    ask(*roomy, request(1));
    const size_t of_one = bytes_of_idle(roomy->ledger());
    ASSERT_GT(of_one, 0U);
    for (const bool by_ceiling : {false, true}) {
        EngineOptions few = options;
        if (by_ceiling) {
            few.ceiling = Budget(BudgetKind::kBytes, 1'000'000);
        } else {
            few.cache_memory_bytes = 3 * of_one;
        }
        auto engine = tiny().engine(few);
        ASSERT_TRUE(engine.ok());
        for (unsigned seed = 1; seed <= 20; ++seed) {
            EXPECT_EQ(ask(*engine, request(seed)).n_cached, 0) << seed;
            EXPECT_EQ(ask(*engine, request(1)).n_cached, kFound) << "it is used all the time";
            const EngineLedger ledger = engine->ledger();
            EXPECT_LE(bytes_of_idle(ledger), few.cache_memory_bytes);
            if (by_ceiling) { EXPECT_LE(ledger.kv_peak_bytes, ledger.ceiling_bytes); }
        }
        EXPECT_EQ(ask(*engine, request(2)).n_cached, 0);
    }
}

// A ceiling that holds one request and no more: it goes on from a state all the same.
// A prompt is read once, and of each state a few tokens, whatever they have in common.
TEST(StatesInMemory, AreFoundWithoutReadingAllThatBeginAlike) {
    constexpr int kStates = 2000;
    constexpr int kAlike = 8192;
    constexpr int kBehind = 100;
    const auto tokens = random_tokens(kAlike, 1000);
    TokenHistory alike;
    alike.append(tokens);
    const auto tail_of = [](int i) {
        std::vector<int32_t> tail(kBehind, 5);
        tail.front() = 1000 + i;
        return tail;
    };
    for (const bool prefixes : {false, true}) {
        const StateScope scope{1, false, prefixes};
        SharedStates states(uint64_t{1} << 40U, 1);
        for (int i = 0; i < kStates; ++i) {
            auto one = std::make_shared<SharedState>();
            one->state.tokens = alike;
            one->state.tokens.append(tail_of(i));
            one->state.n_tokens = kAlike + kBehind;
            one->logits = {0.0F};
            one->state.plan = RunPlan{};
            one->state.plan->chunk = 32;
            one->prefixes = PrefixHashes(one->state.tokens.all());
            states.prepare_to_add();
            states.add(scope, std::move(one));
        }
        auto prompt = tokens;
        for (const int32_t token : tail_of(1234)) { prompt.push_back(token); }
        EXPECT_TRUE(states.covers(scope, prompt));
        prompt.resize(prompt.size() + 30, 6);
        const FoundShared whole = states.find(scope, prompt);
        ASSERT_TRUE(whole.state);
        EXPECT_EQ(whole.n_tokens, kAlike + kBehind);
        EXPECT_EQ(whole.state->state.tokens.all()[kAlike], 1000 + 1234);
        prompt[kAlike + 50] = 7;
        EXPECT_EQ(states.find(scope, prompt).n_tokens, prefixes ? kAlike + 32 : 0);
        prompt[kAlike - 1] = -1;
        EXPECT_EQ(states.find(scope, prompt).n_tokens, prefixes ? kAlike - 32 : 0);
        EXPECT_LE(states.n_compared(), 4 * (std::ssize(prompt) + kStates * int64_t{PrefixHashes::kStep}));
    }
}

TEST(StatesInMemory, AreTakenOverWhereThereIsNoRoomForACopy) {
    for (const char * policy : {"full", "h2o"}) {
        SCOPED_TRACE(policy);
        Request long_one = request_of(policy, 3);
        long_one.max_tokens = 200;
        const Outcome alone = answer_of(engine_with(""), long_one);
        EngineOptions options = engine_with("");
        options.cache_memory_bytes = uint64_t{64} << 20U;
        size_t reserved = 0;
        {
            auto engine = tiny().engine(engine_with(""));
            ASSERT_TRUE(engine.ok() && engine->submit(long_one).ok() && engine->step().ok());
            reserved = engine->ledger().kv_reserved_bytes;
        }
        Request short_one = request_of(policy, 2);
        short_one.max_tokens = 1;
        // The state counts with what lies beside its entries.
        options.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(reserved + (uint64_t{16} << 10U)));
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        answer(*engine, short_one, tiny_spec().n_layers, /*keeps=*/false);
        const bool stayed = engine->ledger().kv_idle_bytes > 0;
        const Outcome found = answer(*engine, long_one, tiny_spec().n_layers, /*keeps=*/false);
        EXPECT_EQ(found.n_cached, stayed ? kFound : 0);
        if (std::string(policy) == "full") { EXPECT_TRUE(stayed); }
        EXPECT_EQ(found.logits, alone.logits);
        EXPECT_LE(engine->ledger().kv_peak_bytes, reserved);
    }
}

// A conversation takes more than half of the ceiling: its old state and its new one have no room beside each other.
TEST(StatesInMemory, OfALongConversationGoOnTurnByTurn) {
    constexpr int kFirst = 600;
    constexpr int kTurn = 40;
    const auto tokens = random_tokens(kFirst + 4 * kTurn, tiny().info().n_vocab, 11);
    const auto turn = [&](int i) {
        Request request;
        request.tokens.assign(tokens.begin(), tokens.begin() + kFirst + i * kTurn);
        request.options.chunk = 16;
        request.max_tokens = 1;
        return request;
    };
    size_t reserved = 0;
    {
        auto engine = tiny().engine(engine_with(""));
        ASSERT_TRUE(engine.ok() && engine->submit(turn(4)).ok() && engine->step().ok());
        reserved = engine->ledger().kv_reserved_bytes;
    }
    EngineOptions options = engine_with("");
    options.cache_memory_bytes = uint64_t{64} << 20U;
    options.ceiling = Budget(BudgetKind::kBytes, 1.6 * static_cast<double>(reserved));
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    for (int i = 0; i <= 4; ++i) {
        const auto id = engine->submit(turn(i));
        ASSERT_TRUE(id.ok()) << id.status().message();
        ASSERT_TRUE(engine->run().ok());
        EXPECT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
        if (i > 0) { EXPECT_GT(engine->n_cached(*id), kFirst + (i - 1) * kTurn - 2 * 16) << "turn " << i; }
    }
}

// What others begin with when it is kept.
TEST(StoredStates, MayBeGoneOnFrom) {
    const TempFolder folder;
    const auto reads = [&](const EngineOptions & options) {
        auto engine = tiny().engine(options);
        EXPECT_TRUE(engine.ok());
        Request base = request_of("h2o");
        base.keep = true;
        base.max_tokens = 0;
        const auto id = engine->submit(base);
        EXPECT_TRUE(id.ok() && engine->run().ok());
        Request behind;
        behind.tokens = random_tokens(20, 384, 5);
        behind.after = *id;
        behind.max_tokens = kAnswer;
        return answer(*engine, behind);
    };
    const Outcome alone = reads(engine_with(""));
    EXPECT_EQ(answer_of(engine_with(folder.file("s")), request_of("h2o", 4)).n_cached, 0);
    reads(engine_with(folder.file("s"))).expect_same(alone);
}

TEST(StoredStates, ThatAreDamagedArePassedOver) {
    const TempFolder folder;
    const EngineOptions options = engine_with(folder.file("s"));
    const Outcome first = answer_of(options, request_of("h2o"));
    const StateStore store = StateStore::open(folder.file("s"), kDefaultCacheBytes).value();
    std::mt19937 random(3);
    for (const auto & entry : std::filesystem::directory_iterator(folder.file("s"))) {
        auto bytes = testing::read_file(entry.path());
        bytes[random() % bytes.size()] ^= 4;
        testing::write_file(entry.path(), bytes);
    }
    {
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        const Outcome again = answer(*engine, request_of("h2o"));
        EXPECT_EQ(again.n_cached, 0);
        again.expect_same(first);
        EXPECT_EQ(answer(*engine, request_of("h2o")).n_cached, kFound);  // they were written anew
    }
    // Whole, but of other tokens than its name says.
    const TempFolder other;
    answer_of(engine_with(other.file("s")), [] {
        Request request = request_of("h2o");
        request.tokens = random_tokens(kShared + kTail, 384, 77);
        return request;
    }());
    for (const auto & entry : std::filesystem::directory_iterator(other.file("s"))) {
        const auto name = StateName::parse(entry.path().filename().string());
        ASSERT_TRUE(name.has_value());
        const auto tokens = request_of("h2o").tokens;
        std::filesystem::rename(entry.path(),
                                store.path_of(name->scope, std::span(tokens).first(static_cast<size_t>(name->n_tokens))));
    }
    const Outcome misnamed = answer_of(options, request_of("h2o"));
    EXPECT_EQ(misnamed.n_cached, 0);
    misnamed.expect_same(first);
}

// A conversation that nothing is evicted of: its first `n` tokens, and others behind them where `other` says so.
Request turn_of(size_t n, size_t n_same = 1000, unsigned other = 8) {
    Request request = request_of("full");
    request.tokens = random_tokens(1000, 384, 21);
    const auto others = random_tokens(1000, 384, other);
    std::copy(others.begin() + static_cast<std::ptrdiff_t>(n_same), others.end(),
              request.tokens.begin() + static_cast<std::ptrdiff_t>(n_same));
    request.tokens.resize(n);
    request.max_tokens = 4;
    return request;
}

std::vector<std::pair<int64_t, int64_t>> parts_in(const std::string & folder) {  // from where to where
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (const auto & entry : std::filesystem::directory_iterator(folder)) {
        const auto name = StateName::parse(entry.path().filename().string());
        EXPECT_TRUE(name.has_value()) << entry.path();
        if (name) { parts.emplace_back(name->n_before, name->n_tokens); }
    }
    std::ranges::sort(parts);
    return parts;
}

std::string file_of_part(const std::string & folder, int64_t n_before) {
    for (const auto & entry : std::filesystem::directory_iterator(folder)) {
        const auto name = StateName::parse(entry.path().filename().string());
        if (name && name->n_before == n_before) { return entry.path(); }
    }
    ADD_FAILURE() << "no part behind " << n_before;
    return {};
}

using StatesInParts = ::testing::TestWithParam<KvType>;

// Each turn of a conversation writes what it adds, and finds all that came before, in a process of its own.
TEST_P(StatesInParts, GrowByWhatATurnAdds) {
    const TempFolder folder;
    const std::string states = folder.file("s");
    int64_t n_before = 0;
    for (const size_t n : {150U, 260U, 300U, 700U}) {
        const Outcome turn = answer_of(engine_with(states, GetParam()), turn_of(n));
        EXPECT_EQ(turn.n_cached, n_before);
        turn.expect_same(answer_of(engine_with("", GetParam()), turn_of(n)));
        n_before = static_cast<int64_t>(n / 16 * 16);
    }
    EXPECT_EQ(parts_in(states), (std::vector<std::pair<int64_t, int64_t>>{{0, 144}, {144, 256}, {256, 288}, {288, 688}}));
    const TempFolder whole;  // the last turn alone
    answer_of(engine_with(whole.file("s"), GetParam()), turn_of(700));
    constexpr uint64_t kBeside = 8192;  // a file's header, what it says of the model, logits
    EXPECT_LT(bytes_in(states), bytes_in(whole.file("s")) + 3 * kBeside);
    // Another that begins like it goes on from the parts that both have.
    const Outcome other = answer_of(engine_with(states, GetParam()), turn_of(330, 290));
    EXPECT_EQ(other.n_cached, 288);
    other.expect_same(answer_of(engine_with("", GetParam()), turn_of(330, 290)));
    EXPECT_EQ(parts_in(states).size(), 5U);
}

INSTANTIATE_TEST_SUITE_P(Types, StatesInParts, ::testing::Values(KvType::kF16, KvType::kQ8_0, KvType::kQ4_0));

TEST(StatesInSeveralFiles, AreReadAsFarAsTheyAreWhole) {
    const Outcome alone = answer_of(engine_with(""), turn_of(700));
    const std::vector<int64_t> begins = {0, 144, 256, 288};
    for (size_t i = 0; i < begins.size(); ++i) {
        for (const bool is_gone : {false, true}) {
            const TempFolder folder;
            const std::string states = folder.file("s");
            for (const size_t n : {150U, 260U, 300U, 700U}) { answer_of(engine_with(states), turn_of(n)); }
            testing::spoil(file_of_part(states, begins[i]), is_gone);
            auto engine = tiny().engine(engine_with(states));
            ASSERT_TRUE(engine.ok());
            const Outcome again = answer(*engine, turn_of(700));
            EXPECT_EQ(again.n_cached, begins[i]) << is_gone;
            again.expect_same(alone);
            EXPECT_EQ(answer(*engine, turn_of(700)).n_cached, 688);  // what is missing was written anew
        }
    }
}

// The same tokens behind others: their keys and values are not the same, whatever the file is called.
TEST(StatesInSeveralFiles, AreNotTakenForThoseBehindOtherTokens) {
    const TempFolder mine;
    const TempFolder others;
    const auto ask = [](const std::string & states, bool is_other, size_t n) {
        Request request = turn_of(n);
        if (is_other) { request.tokens[3] = 383 - request.tokens[3]; }
        return answer_of(engine_with(states), request);
    };
    for (const size_t n : {150U, 260U}) {
        ask(mine.file("s"), false, n);
        ask(others.file("s"), true, n);
    }
    const std::string part = file_of_part(mine.file("s"), 144);
    std::filesystem::copy_file(file_of_part(others.file("s"), 144), part, std::filesystem::copy_options::overwrite_existing);
    const Outcome again = ask(mine.file("s"), false, 260);
    EXPECT_EQ(again.n_cached, 144);
    again.expect_same(answer_of(engine_with(""), turn_of(260)));
}

TEST(StatesInSeveralFiles, SayWhatAPartIs) {
    const TempFolder folder;
    for (const size_t n : {150U, 260U}) { answer_of(engine_with(folder.file("s")), turn_of(n)); }
    const auto info = read_cache_info(file_of_part(folder.file("s"), 144));
    ASSERT_TRUE(info.ok()) << info.status().message();
    EXPECT_EQ(info->n_before, 144);
    EXPECT_EQ(info->n_tokens, 256);
    EXPECT_EQ(info->n_entries, (256 - 144) * info->n_lanes);
    EXPECT_EQ(info->kv_bytes, info->kv_full_bytes);
    const Status alone = tiny().open_session(file_of_part(folder.file("s"), 144)).status();
    EXPECT_EQ(alone.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(alone.message().find("behind the first 144 tokens"), std::string::npos) << alone.message();
    EXPECT_EQ(read_cache_info(file_of_part(folder.file("s"), 0))->n_before, 0);
}

// A budget in per cent follows the text, so prompts of any length that begin alike go on from the same states.
TEST(StoredStates, OfABudgetInPerCentServePromptsOfAnyLength) {
    const TempFolder folder;
    const auto request = [](int n_tail) {
        Request one = request_of("h2o:recent=8");
        one.options.budget = Budget(BudgetKind::kPercent, 25);
        one.tokens.resize(kShared);
        const auto end = random_tokens(n_tail, 384, 2);
        one.tokens.insert(one.tokens.end(), end.begin(), end.end());
        return one;
    };
    const Outcome alone = answer_of(engine_with(""), request(100));
    EXPECT_EQ(answer_of(engine_with(folder.file("s")), request(9)).n_cached, 0);
    const Outcome goes_on = answer_of(engine_with(folder.file("s")), request(100));
    EXPECT_EQ(goes_on.n_cached, kFound);
    goes_on.expect_same(alone);
    // A quarter of all that was read up to the last eviction, and what has come since.
    const auto n_read = static_cast<size_t>(kShared + 100 + kAnswer);
    for (const auto & lane : alone.lanes) { EXPECT_LE(lane.size(), n_read / 4 + 32 + 1); }
    size_t n_kept = 0;
    for (const auto & lane : alone.lanes) { n_kept += lane.size(); }
    EXPECT_GE(n_kept, alone.lanes.size() * (static_cast<size_t>(kShared) / 4));
}

// What attention left behind counts, too.
TEST(StoredStates, TakeTheirShareOfTheFolderAtMost) {
    for (const uint64_t most : {100'000U, 200'000U, 300'000U, 400'000U, 600'000U}) {
        const TempFolder folder;
        EngineOptions options = engine_with(folder.file("s"));
        options.cache_bytes = most;
        answer_of(options, request_of("expected"));
        for (const auto & entry : std::filesystem::directory_iterator(folder.file("s"))) {
            EXPECT_LE(entry.file_size(), most / 4 + 8192) << most;  // beside its header and what it says of the model
        }
    }
}

// The k-th write fails, or all from then on: the answer is the same, and nothing unfinished stays.
TEST(StoredStates, ThatCannotBeWrittenCostNothing) {
    for (const auto & [policy, stays_full] : {std::pair("h2o", false), {"h2o", true}, {"full", false}, {"full", true}}) {
        Request request = request_of(policy);
        request.cache_at = {70};
        const auto ask = [&](Engine & engine) { return answer(engine, request, tiny_spec().n_layers, /*keeps=*/false); };
        auto without = tiny().engine(engine_with(""));
        ASSERT_TRUE(without.ok());
        const Outcome alone = ask(*without);
        for (int k = 1;; k += 5) {
            const TempFolder folder;
            auto engine = tiny().engine(engine_with(folder.file("s")));
            ASSERT_TRUE(engine.ok());
            testing::fail_files_at(k, stays_full);
            const Outcome outcome = ask(*engine);
            const bool failed = testing::stop_failing_files();
            outcome.expect_same(alone);
            int64_t longest = 0;
            for (const auto & entry : std::filesystem::directory_iterator(folder.file("s"))) {
                const auto name = StateName::parse(entry.path().filename().string());
                ASSERT_TRUE(name.has_value()) << entry.path();
                longest = std::max(longest, name->n_tokens);
            }
            EXPECT_EQ(ask(*engine).n_cached, longest);
            if (!failed) { break; }
        }
    }
}

TEST(StoredStates, ACancelledStepIsDoneOnceMore) {
    const Outcome alone = answer_of(engine_with(""), request_of("h2o"));
    const TempFolder folder;
    for (int n_steps = 1; n_steps < 14; n_steps += 2) {
        auto engine = tiny().engine(engine_with(folder.file("s")));
        ASSERT_TRUE(engine.ok());
        Outcome outcome;
        Request request = request_of("h2o");
        request.choose = [&outcome](std::span<const float> logits) {
            outcome.logits.emplace_back(logits.begin(), logits.end());
            return likeliest_token(logits);
        };
        const auto id = engine->submit(request);
        ASSERT_TRUE(id.ok());
        for (int i = 0; i < n_steps; ++i) { ASSERT_TRUE(engine->step().ok()); }
        const std::atomic<bool> cancel{true};
        ASSERT_TRUE(engine->step(&cancel).ok());
        ASSERT_TRUE(engine->run().ok());
        ASSERT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
        EXPECT_EQ(outcome.logits, alone.logits);
        if (n_steps == 7) { std::filesystem::remove_all(folder.file("s")); }  // its folder may go at any time
    }
}

// Killed while it keeps and removes states: what is there is whole, and the next engine leaves nothing unfinished.
TEST(StoredStates, OfAKilledProcessAreWhole) {
    const TempFolder folder;
    EngineOptions options = engine_with(folder.file("s"));
    options.cache_bytes = 1'000'000;
    std::mt19937 random(11);
    int64_t n_seen = 0;
    for (int i = 0; i < (std::getenv("PITH_STORE_LONG") != nullptr ? 300 : 30); ++i) {
        std::array<int, 2> ends{};  // the child says a byte behind each answer
        ASSERT_EQ(pipe(ends.data()), 0);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            for (unsigned n = 0;; ++n) {
                Request request = request_of("knorm");
                request.tokens = random_tokens(kShared, 384, static_cast<unsigned>(i) * 1000 + n);
                request.max_tokens = 1;
                answer_of(options, request);
                if (write(ends[1], "", 1) != 1) { _exit(1); }
            }
        }
        close(ends[1]);
        // Every other child has answered at least once, however busy the machine is.
        char answered = 0;
        if (i % 2 == 1) { ASSERT_EQ(read(ends[0], &answered, 1), 1); }
        usleep(random() % 40000);
        kill(child, SIGKILL);
        int state = 0;
        ASSERT_EQ(waitpid(child, &state, 0), child);
        close(ends[0]);
        ASSERT_TRUE(WIFSIGNALED(state));
        ASSERT_TRUE(tiny().engine(options).ok());
        for (const auto & entry : std::filesystem::directory_iterator(folder.file("s"))) {
            const auto info = read_cache_info(entry.path());
            ASSERT_TRUE(info.ok()) << info.status().message();
            ++n_seen;
        }
    }
    EXPECT_GT(n_seen, 30);
}

// Two documents that do not fit under the ceiling together, and questions on them in turns: the one that nobody reads goes to
// the folder, and comes back without being read again.
TEST(SetAside, KeptRequestsMakeRoomForOthersAndComeBackUnchanged) {
    for (const char * policy : {"full", "h2o"}) {
        const auto ask_both = [&](const EngineOptions & options, int64_t & n_aside) {
            Outcome all;
            auto engine = tiny().engine(options);
            EXPECT_TRUE(engine.ok());
            std::vector<int64_t> documents;
            for (const unsigned seed : {1U, 2U}) {
                Request document = request_of(policy);
                document.tokens = random_tokens(700, 384, seed);
                document.keep = true;
                document.max_tokens = 0;
                if (document.options.policy != "full") { document.options.budget = Budget(500); }
                const auto id = engine->submit(document);
                EXPECT_TRUE(id.ok()) << id.status().message();
                EXPECT_TRUE(engine->run().ok());
                EXPECT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
                documents.push_back(*id);
            }
            for (unsigned i = 0; i < 6; ++i) {
                Request question;
                question.tokens = random_tokens(20, 384, 10 + i);
                question.after = documents[i % 2];
                question.max_tokens = 30;
                const Outcome one = answer(*engine, question, tiny_spec().n_layers, /*keeps=*/false);
                all.logits.insert(all.logits.end(), one.logits.begin(), one.logits.end());
                all.lanes.insert(all.lanes.end(), one.lanes.begin(), one.lanes.end());
                n_aside += engine->ledger().n_set_aside;
                if (options.ceiling.kind == BudgetKind::kBytes) {
                    EXPECT_LE(engine->ledger().kv_reserved_bytes, static_cast<size_t>(options.ceiling.value));
                }
            }
            for (const int64_t id : documents) { EXPECT_TRUE(engine->forget(id).ok()); }
            EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
            return all;
        };
        const TempFolder folder;
        EngineOptions options = engine_with(folder.file("s"));
        int64_t n_aside = 0;
        const Outcome roomy = ask_both(options, n_aside);
        EXPECT_EQ(n_aside, 0);
        options.ceiling = Budget(BudgetKind::kBytes, 1'200'000);
        const Outcome tight = ask_both(options, n_aside);
        EXPECT_GE(n_aside, 5) << "nobody had to make room";
        tight.expect_same(roomy);
        for (const auto & entry : std::filesystem::directory_iterator(folder.file("s"))) {
            EXPECT_TRUE(StateName::parse(entry.path().filename().string()).has_value()) << entry.path();
        }
        options.cache_dir.clear();  // nowhere to go
        options.ceiling = Budget(BudgetKind::kBytes, 1'000'000);
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        std::vector<int64_t> ids;
        for (const unsigned seed : {1U, 2U}) {
            Request document = request_of("full");
            document.tokens = random_tokens(700, 384, seed);
            document.keep = true;
            ids.push_back(engine->submit(document).value());
            ASSERT_TRUE(engine->run().ok());
        }
        EXPECT_EQ(engine->state(ids[0]), RequestState::kDone);
        EXPECT_EQ(engine->status(ids[1]).code(), ErrorCode::kBudget);
    }
}

}  // namespace
}  // namespace pith::stored_states_test
