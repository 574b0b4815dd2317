// evict_as_test.cpp - one full prefill, then any policy: what is left, and all that comes after, is to the bit what a session
// of that policy would have. For every policy the registry can name.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/gated_model.h"
#include "engine/policy_probe.h"
#include "engine/session_state.h"
#include "pith/batch_engine.h"
#include "pith/policies.h"
#include "pith/session.h"

namespace pith::evict_as_test {
namespace {

using testing::even_gate;
using testing::gated_model;
using testing::random_tokens;
using testing::tiny_spec;

constexpr size_t kPrompt = 150;
constexpr size_t kDecoded = 20;

// Every scorer and alias, and every other part on top of snapkv or gate where that makes sense. Not what gates let in: that
// changes what the prompt's own queries see, and is refused.
std::vector<std::string> policies_of_the_registry() {
    std::vector<std::string> policies;
    for (const PolicyInfo & info : list_policies()) {
        if (info.kind == "admission") { continue; }
        const bool alone = info.kind == "scorer" || info.kind == "alias";
        std::string policy = alone ? info.name : "snapkv+" + info.name;
        if (!check_policy(policy).ok()) { policy = "gate+" + info.name; }
        if (check_policy(policy).ok()) { policies.push_back(policy); }
    }
    return policies;
}

class EvictAs : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        auto model = gated_model(tiny_spec(), even_gate());
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = new Model(*model);
    }
    static void TearDownTestSuite() {
        delete model_;
        model_ = nullptr;
    }
    static SessionOptions options_of(const std::string & policy, Budget budget) {
        SessionOptions options;
        options.policy = policy;
        options.budget = budget;
        options.prefill = PrefillSchedule::kOneShot;
        options.chunk = 32;
        options.evict_every = 7;
        options.n_threads = 1;
        options.pinned = {{10, 14}};
        auto heads = std::make_shared<HeadImportance>();
        for (int i = 0; i < 3 * 4; ++i) {
            heads->copy.push_back(0.1 * (i % 5));
            heads->reason.push_back(0.05 * (i % 7));
        }
        options.heads = heads;
        return options;
    }
    static Session open(const SessionOptions & options) {
        auto session = model_->session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }
    static std::vector<std::vector<int32_t>> lanes(const Session & session) {
        std::vector<std::vector<int32_t>> lanes;
        for (int l = 0; l < session.n_layers(); ++l) {
            for (int h = 0; h < session.n_kv_heads(); ++h) {
                const auto positions = session.lane_positions(l, h);
                lanes.emplace_back(positions.begin(), positions.end());
            }
        }
        return lanes;
    }
    // The logits after the prompt and after each token that follows.
    static std::vector<float> go_on(Session & session, std::span<const int32_t> tokens) {
        std::vector<float> logits(session.logits().begin(), session.logits().end());
        for (const int32_t token : tokens) {
            EXPECT_TRUE(session.append(token).ok());
            logits.insert(logits.end(), session.logits().begin(), session.logits().end());
        }
        return logits;
    }
    static Model * model_;
};

Model * EvictAs::model_ = nullptr;

TEST_F(EvictAs, OnePrefillServesEveryPolicyToTheBit) {
    const auto tokens = random_tokens(kPrompt + kDecoded, model_->info().n_vocab);
    const auto prompt = std::span(tokens).first(kPrompt);
    const auto rest = std::span(tokens).subspan(kPrompt);
    const std::vector<std::string> policies = policies_of_the_registry();
    SessionOptions options = options_of("full", {});
    options.observe.assign(policies.begin(), policies.end());
    Session shared = open(options);
    ASSERT_TRUE(shared.prefill(prompt).ok());
    const auto start = shared.snapshot();
    ASSERT_TRUE(start.ok());
    for (const std::string & policy : policies) {
        for (const Budget & budget : {Budget(48), Budget(BudgetKind::kPercent, 60), Budget(150)}) {
            SCOPED_TRACE(policy + ", budget " + budget.to_string());
            const bool evicts = policy != "full";
            Session alone = open(options_of(policy, evicts ? budget : Budget()));
            const Status expected = alone.prefill(prompt);
            const Status got = shared.evict(policy, evicts ? budget : Budget());
            ASSERT_EQ(got.code(), expected.code()) << got.message() << " / " << expected.message();
            if (expected.ok()) {
                EXPECT_EQ(lanes(shared), lanes(alone));
                EXPECT_EQ(shared.ledger().policy, alone.ledger().policy);
                EXPECT_EQ(shared.ledger().budget_entries, alone.ledger().budget_entries);
                EXPECT_EQ(shared.ledger().kv_allocated_bytes - shared.ledger().kv_saved_bytes,
                          alone.ledger().kv_allocated_bytes);
                EXPECT_EQ(go_on(shared, rest), go_on(alone, rest));
                EXPECT_EQ(lanes(shared), lanes(alone));
            }
            ASSERT_TRUE(shared.restore(*start).ok());
            EXPECT_EQ(shared.ledger().policy, "full");
            EXPECT_EQ(shared.ledger().kept_entries, static_cast<int64_t>(kPrompt) * 6);
        }
    }
}

TEST_F(EvictAs, QuestionsThatFollowAreChunkedAndEvictedAsInASessionOfThatPolicy) {
    const auto tokens = random_tokens(250, model_->info().n_vocab);
    SessionOptions options = options_of("full", {});
    options.observe = {"snapkv:window=8", "h2o:recent=8"};
    Session shared = open(options);
    ASSERT_TRUE(shared.prefill(std::span(tokens).first(kPrompt)).ok());
    const auto start = shared.snapshot();
    for (const PolicyChoice & policy : options.observe) {
        Session alone = open(options_of(policy.name(), 40));
        ASSERT_TRUE(alone.prefill(std::span(tokens).first(kPrompt)).ok());
        ASSERT_TRUE(shared.evict(policy, 40).ok());
        for (Session * session : {&alone, &shared}) { ASSERT_TRUE(session->prefill(std::span(tokens).subspan(kPrompt)).ok()); }
        EXPECT_TRUE(std::ranges::equal(shared.logits(), alone.logits())) << policy.name();
        EXPECT_EQ(lanes(shared), lanes(alone)) << policy.name();
        ASSERT_TRUE(shared.restore(*start).ok());
    }
}

TEST_F(EvictAs, ASnapshotTakenAfterAnEvictionBringsItsPolicyBack) {
    const auto tokens = random_tokens(kPrompt, model_->info().n_vocab);
    SessionOptions options = options_of("full", {});
    options.observe = {"snapkv:window=8"};
    Session session = open(options);
    ASSERT_TRUE(session.prefill(tokens).ok());
    const auto full = session.snapshot();
    ASSERT_TRUE(session.evict("snapkv:window=8", 40).ok());
    const auto evicted = session.snapshot();
    const auto more = random_tokens(30, model_->info().n_vocab, 2);
    const auto expected = go_on(session, more);
    ASSERT_TRUE(session.restore(*full).ok());
    ASSERT_TRUE(session.evict("window", 30).ok());
    ASSERT_TRUE(session.restore(*evicted).ok());
    EXPECT_EQ(session.ledger().policy, "snapkv:window=8");
    EXPECT_EQ(session.ledger().budget_entries, 40);
    EXPECT_EQ(go_on(session, more), expected);
}

TEST_F(EvictAs, BadRequestsAreErrorsAndChangeNothing) {
    const auto tokens = random_tokens(kPrompt, model_->info().n_vocab);
    const auto expect = [](const Status & status, ErrorCode code, const std::string & part) {
        EXPECT_EQ(status.code(), code) << status.message();
        EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    };
    Session session = open(options_of("full", {}));
    expect(session.evict("window", 64), ErrorCode::kInvalidArgument, "prefilled");
    ASSERT_TRUE(session.prefill(tokens).ok());
    expect(session.evict("windw", 64), ErrorCode::kInvalidArgument, "windw");
    expect(session.evict("snapkv", 64), ErrorCode::kMissingEvidence, "");
    expect(session.evict("window", {}), ErrorCode::kInvalidArgument, "budget");
    expect(session.evict("full", 64), ErrorCode::kInvalidArgument, "full");
    expect(session.evict("window", 3), ErrorCode::kBudget, "3");
    EXPECT_EQ(session.ledger().policy, "full");
    EXPECT_EQ(session.ledger().kept_entries, static_cast<int64_t>(kPrompt) * 6);
    ASSERT_TRUE(session.evict("window", 64).ok());
    expect(session.evict("window", 48), ErrorCode::kInvalidArgument, "evicted");
    SessionOptions unknown = options_of("full", {});
    unknown.observe = {"snapvk"};
    EXPECT_EQ(model_->session(unknown).status().code(), ErrorCode::kInvalidArgument);
}

// Whatever the budget is given in: the line names it, what it comes to and what is protected, and nothing has been touched.
TEST_F(EvictAs, ABudgetBelowWhatIsProtectedIsRefusedAtOnce) {
    const auto tokens = random_tokens(kPrompt, model_->info().n_vocab);
    SessionOptions options = options_of("full", {});
    options.observe = {"snapkv:window=8", "streaming:sinks=4", "laprox:window=8"};
    options.pinned = {{10, 22}};
    Session session = open(options);
    ASSERT_TRUE(session.prefill(tokens).ok());
    const testing::SessionState before = testing::state_of(session);
    const double evidence_s = session.ledger().evidence_s;
    for (const PolicyChoice & policy : options.observe) {
        for (const Budget & budget : {Budget(5), Budget(BudgetKind::kPercent, 3)}) {
            SCOPED_TRACE(policy.name() + " " + budget.to_string());
            const Status status = session.evict(policy, budget);
            EXPECT_EQ(status.code(), ErrorCode::kBudget);
            for (const std::string & part :
                 {"budget " + budget.to_string() + " gives ", std::string(" protects "),
                  "of the prompt's " + std::to_string(kPrompt), std::string("12 pinned"), std::string("use budget ")}) {
                EXPECT_NE(status.message().find(part), std::string::npos) << part << " in: " << status.message();
            }
            EXPECT_TRUE(testing::state_of(session) == before);
        }
        const Status bytes = session.evict(policy, Budget(BudgetKind::kBytes, 2048));
        EXPECT_EQ(bytes.code(), ErrorCode::kBudget);
        EXPECT_NE(bytes.message().find("budget 2K is too small"), std::string::npos) << bytes.message();
        EXPECT_TRUE(testing::state_of(session) == before);
    }
    EXPECT_EQ(session.ledger().evidence_s, evidence_s) << "it was found out by gathering evidence";

    auto engine = model_->engine({});
    ASSERT_TRUE(engine.ok());
    Request base;
    base.tokens = tokens;
    base.options = options;
    base.keep = true;
    base.max_tokens = 0;
    const auto id = engine->submit(base);
    ASSERT_TRUE(id.ok() && engine->run().ok()) << id.status().message();
    Request fork;
    fork.after = *id;
    fork.max_tokens = 1;
    fork.evict = Eviction{"snapkv:window=8", 5};
    const Status refused = engine->submit(fork).status();
    EXPECT_EQ(refused.code(), ErrorCode::kBudget);
    EXPECT_NE(refused.message().find("12 pinned"), std::string::npos) << refused.message();
}

TEST_F(EvictAs, AProbeShowsWhatEvictWouldKeepAndEvictsNothing) {
    const auto tokens = random_tokens(kPrompt, model_->info().n_vocab);
    SessionOptions options = options_of("full", {});
    options.observe = {"snapkv:window=8+ada"};
    Session session = open(options);
    ASSERT_TRUE(session.prefill(tokens).ok());
    const auto view = PolicyProbe(session).view("snapkv:window=8+ada", 40);
    ASSERT_TRUE(view.ok()) << view.status().message();
    EXPECT_EQ(session.ledger().kept_entries, static_cast<int64_t>(kPrompt) * 6);
    EXPECT_EQ(session.ledger().policy, "full");
    ASSERT_TRUE(session.evict("snapkv:window=8+ada", 40).ok());
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; h < session.n_kv_heads(); ++h) {
            const auto & scores = view->scores[static_cast<size_t>(l)];
            EXPECT_EQ(scores.length(h), static_cast<int>(kPrompt));
            // Nothing was evicted before, so an index is a position.
            EXPECT_TRUE(std::ranges::equal(view->kept[static_cast<size_t>(l)].row(h), session.lane_positions(l, h)));
        }
    }
}

}  // namespace
}  // namespace pith::evict_as_test
