// crowd_test.cpp - many sequences behind one prefix: what forks cost before any token, and that the ledger is the system's.
#include <gtest/gtest.h>

#include "device/resident.h"
#include "engine/tiny_model.h"
#include "pith/batch_engine.h"

namespace pith::crowd_test {
namespace {

using testing::random_tokens;
using testing::tiny_model;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSystemTells = false;  // sanitizers keep memory of their own
#else
constexpr bool kSystemTells = true;
#endif

RandomModelSpec spec_of(int n_layers, int n_heads, int n_kv_heads) {
    RandomModelSpec spec = testing::tiny_spec(n_heads, n_kv_heads);
    spec.n_layers = n_layers;
    return spec;
}

struct Crowd {
    Engine engine;
    int64_t base = 0;
    EngineLedger alone;  // before there are forks
    std::vector<int64_t> ids;
};

// Forks that have been submitted, no more.
Result<Crowd> make_crowd(const Model & model, const char * policy, const Budget & budget, int n_prefix, int n_forks,
                         int n_tail) {
    PITH_ASSIGN_OR_RETURN(Engine engine, model.engine({}));
    Crowd crowd{std::move(engine), 0, {}, {}};
    Request prefix;
    prefix.tokens = random_tokens(n_prefix, model.info().n_vocab);
    prefix.options.policy = policy;
    prefix.options.budget = budget;
    prefix.options.prefill = PrefillSchedule::kChunked;
    prefix.max_tokens = 0;
    prefix.keep = true;
    PITH_ASSIGN_OR_RETURN(crowd.base, crowd.engine.submit(prefix));
    PITH_RETURN_IF_ERROR(crowd.engine.run());
    PITH_RETURN_IF_ERROR(crowd.engine.status(crowd.base));
    crowd.alone = crowd.engine.ledger();
    for (int i = 0; i < n_forks; ++i) {
        Request request;
        request.tokens = random_tokens(n_tail, model.info().n_vocab, static_cast<unsigned>(10 + i));
        request.after = crowd.base;
        request.max_tokens = 1000;
        PITH_ASSIGN_OR_RETURN(const int64_t id, crowd.engine.submit(request));
        crowd.ids.push_back(id);
    }
    return crowd;
}

// Of eleven that read their prompts three have rows in the first step: eight have been forked and nothing else.
TEST(Crowd, ForkingALongContextEightTimesTakesNoMemoryBeforeAToken) {
    constexpr int kPrefix = 16384;
    const auto model = tiny_model(spec_of(2, 1, 1));
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (const char * policy : {"full", "snapkv"}) {
        SCOPED_TRACE(policy);
        const Budget budget = std::string(policy) == "full" ? Budget() : Budget(512);
        auto crowd = make_crowd(*model, policy, budget, kPrefix, 11, 200);
        ASSERT_TRUE(crowd.ok()) << crowd.status().message();
        ASSERT_TRUE(crowd->engine.step().ok());
        int n_forks = 0;
        size_t grown = 0;
        for (const int64_t id : crowd->ids) {
            const auto ledger = crowd->engine.ledger(id);
            ASSERT_TRUE(ledger.ok());
            if (ledger->n_tokens != kPrefix) { continue; }
            ++n_forks;
            grown += ledger->kv_allocated_bytes;
            EXPECT_GT(ledger->kv_needed_bytes, 0U);
        }
        EXPECT_EQ(n_forks, 8);
        EXPECT_LT(grown, crowd->alone.kv_allocated_bytes / 100);
    }
}

// A fork's prompt that fails is forked anew: no copy of what attention left behind waits for that.
TEST(Crowd, ReadingForksKeepNoWayBack) {
    const auto model = tiny_model(spec_of(2, 4, 2));
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto crowd = make_crowd(*model, "h2o", Budget(512), 2000, 8, 300);
    ASSERT_TRUE(crowd.ok()) << crowd.status().message();
    ASSERT_TRUE(crowd->engine.step().ok());
    const EngineLedger ledger = crowd->engine.ledger();
    ASSERT_EQ(crowd->engine.state(crowd->ids[7]), RequestState::kReading);
    EXPECT_LT(ledger.undo_bytes, ledger.evidence_bytes / 10);
}

// A suite by itself, and so a process: what tests before it freed would be taken for memory that is held.
TEST(CrowdOfAProcess, TheLedgerHoldsWhatTheProcessHolds) {
    if (!kSystemTells || resident_bytes().anonymous == 0) { GTEST_SKIP() << "the system does not say"; }
    const auto model = tiny_model(spec_of(4, 8, 8));
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto crowd = make_crowd(*model, "snapkv", Budget(512), 1000, 24, 540);
    ASSERT_TRUE(crowd.ok()) << crowd.status().message();
    const auto counted = [&] {
        const EngineLedger one = crowd->engine.ledger();
        return one.kv_allocated_bytes - one.kv_kept_bytes + one.activation_bytes + one.evidence_bytes + one.undo_bytes +
               one.sequence_bytes;
    };
    const size_t counted_before = counted();
    const size_t held_before = resident_bytes().anonymous;
    while (crowd->engine.answer(crowd->ids.back()).size() < 20) { ASSERT_TRUE(crowd->engine.step().ok()); }
    EXPECT_EQ(crowd->engine.ledger().n_running, 24);
    const auto grown = static_cast<double>(counted() - counted_before);
    const auto held = static_cast<double>(resident_bytes().anonymous - held_before);
    EXPECT_GT(grown, 40e6);
    EXPECT_GT(grown, 0.95 * held);
    EXPECT_LT(grown, 1.05 * held);
}

}  // namespace
}  // namespace pith::crowd_test
