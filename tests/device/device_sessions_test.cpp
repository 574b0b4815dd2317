// device_sessions_test.cpp - what sessions promise, with layers on devices: real eviction equals a full cache in which the
// evicted entries are masked; what is taken back, or fails, leaves no trace. Over ggml-rpc-servers of this machine.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <set>

#include "device/on_devices.h"
#include "engine/mask_oracle.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"
#include "every_case.h"

namespace pith::device_sessions_test {
namespace {

using testing::all_layers_on_servers;
using testing::contents_of;
using testing::EvictionRun;
using testing::EvictionSchedule;
using testing::kBudget;
using testing::kDecoded;
using testing::kEvictionSchedules;
using testing::kPrompt;
using testing::load;
using testing::masked_logits;
using testing::nothing_to_test;
using testing::random_tokens;
using testing::relative_error;
using testing::run_evicting;
using testing::scratch_file;
using testing::SessionState;
using testing::state_of;
using testing::tiny_spec;
using testing::Where;

class SessionsOnDevices : public ::testing::TestWithParam<Where> {
protected:
    void SetUp() override {
        if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
        const std::string path = scratch_file("sessions-on-devices.gguf");
        ASSERT_TRUE(write_random_model(tiny_spec(), path).ok());
        auto cpu = Model::load(path);
        auto devices = load(path, GetParam());
        ASSERT_TRUE(cpu.ok()) << cpu.status().message();
        ASSERT_TRUE(devices.ok()) << devices.status().message();
        cpu_.emplace(*cpu);
        devices_.emplace(*devices);
    }
    static SessionOptions options_of_policy(const std::string & policy) {
        SessionOptions options;
        options.policy = policy;
        if (policy != "full") { options.budget = 40; }
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 1;
        options.chunk = 24;
        options.evict_every = 4;
        return options;
    }
    static std::vector<int32_t> say(Session & session, int n) {
        std::vector<int32_t> said;
        for (int i = 0; i < n; ++i) {
            const auto token = session.decode();
            EXPECT_TRUE(token.ok()) << token.status().message();
            if (!token.ok()) { break; }
            said.push_back(*token);
        }
        return said;
    }

    std::optional<Model> cpu_, devices_;
};

TEST_P(SessionsOnDevices, EvictionEqualsMaskingWithEverySchedule) {
    const auto tokens = random_tokens(kPrompt + kDecoded, cpu_->info().n_vocab);
    size_t i = GetParam().name.size();  // where they lie takes turns, too
    for (const char * policy : {"streaming", "h2o+caote", "snapkv:window=8+ada", "expected+global", "laprox", "score",
                                "tova+joint", "vmax:window=8+head+critical"}) {
        ++i;
        for (size_t s = 0; s < std::size(kEvictionSchedules); ++s) {
            const EvictionSchedule & schedule = kEvictionSchedules[s];
            if (GetParam().devices.empty() && !testing::in_turn(i, s, 2)) { continue; }
            SCOPED_TRACE(std::string(policy) + ", " + schedule.name);
            const EvictionRun got = run_evicting(*devices_, policy, schedule, KvType::kF32, tokens);
            EXPECT_GE(got.log.size(), static_cast<size_t>(3 * cpu_->info().n_kv_heads * (kPrompt - kBudget)));
            EXPECT_LE(relative_error(got.logits, masked_logits(*cpu_, got.log, tokens)), 1e-4);
        }
    }
}

// Bytes of keys and values, evidence and the ledger: wherever they lie.
TEST_P(SessionsOnDevices, ACallThatFailsLeavesAllAsItWas) {
    const auto prompt = random_tokens(96, cpu_->info().n_vocab);
    const auto more = random_tokens(96, cpu_->info().n_vocab, 3);
    for (const char * policy : {"snapkv:window=8", "h2o+ada", "laprox"}) {
        SCOPED_TRACE(policy);
        auto session = devices_->session(options_of_policy(policy));
        ASSERT_TRUE(session.ok() && session->prefill(prompt).ok());
        const SessionState before = state_of(*session);
        std::atomic<bool> cancel = false;
        RunHooks hooks;
        hooks.cancel = &cancel;
        hooks.progress = [&](int64_t n_done, int64_t) { cancel = n_done >= 48; };  // behind two evictions
        EXPECT_EQ(session->prefill(more, hooks).code(), ErrorCode::kCancelled);
        EXPECT_TRUE(state_of(*session) == before);
        const auto said = say(*session, 10);
        auto another = devices_->session(options_of_policy(policy));
        ASSERT_TRUE(another.ok() && another->prefill(prompt).ok());
        EXPECT_EQ(said, say(*another, 10));
    }
}

TEST_P(SessionsOnDevices, ASnapshotComesBackWhole) {
    const auto prompt = random_tokens(96, cpu_->info().n_vocab);
    const auto more = random_tokens(300, cpu_->info().n_vocab, 3);  // lanes outgrow their room, and shrink again
    for (const char * policy : {"full", "snapkv:window=8", "h2o+ada", "laprox"}) {
        SCOPED_TRACE(policy);
        auto session = devices_->session(options_of_policy(policy));
        ASSERT_TRUE(session.ok() && session->prefill(prompt).ok());
        const auto snapshot = session->snapshot();
        ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
        const SessionState before = contents_of(*session);
        const auto said = say(*session, 10);  // evicted on the way
        EXPECT_FALSE(contents_of(*session) == before);
        ASSERT_TRUE(session->restore(*snapshot).ok());
        EXPECT_TRUE(contents_of(*session) == before);
        ASSERT_TRUE(session->prefill(more).ok());
        ASSERT_TRUE(session->restore(*snapshot).ok());
        EXPECT_TRUE(contents_of(*session) == before);
        EXPECT_EQ(say(*session, 10), said);
    }
}

// In one room, lanes that are all as long (the prompt), and ragged ones: a token's graph is none of the other's.
TEST_P(SessionsOnDevices, BetweenEqualAndRaggedLanesInOneRoomNothingIsMistaken) {
    const auto prompt = random_tokens(96, cpu_->info().n_vocab);
    const std::string policy = "snapkv:window=8+ada";
    const auto answers = [&](const Model & model) {
        std::vector<std::vector<int32_t>> all;
        SessionOptions options = options_of_policy("full");
        options.observe = {policy};
        auto session = model.session(options);
        EXPECT_TRUE(session.ok() && session->prefill(prompt).ok());
        const auto whole = session->snapshot();
        EXPECT_TRUE(session->evict(policy, Budget(40)).ok());
        std::set<size_t> lengths;
        for (int l = 0; l < session->n_layers(); ++l) {
            for (int h = 0; h < session->n_kv_heads(); ++h) { lengths.insert(session->lane_positions(l, h).size()); }
        }
        EXPECT_GT(lengths.size(), 1U) << "lanes are ragged";
        const auto ragged = session->snapshot();
        EXPECT_TRUE(whole.ok() && ragged.ok());
        for (const auto * state : {&whole, &ragged, &whole, &ragged}) {
            EXPECT_TRUE(session->restore(**state).ok());
            all.push_back(say(*session, 3));
        }
        return all;
    };
    const auto got = answers(*devices_);
    EXPECT_EQ(got, answers(*cpu_));
    EXPECT_NE(got[0], got[1]) << "it makes a difference";
}

INSTANTIATE_TEST_SUITE_P(Rpc, SessionsOnDevices, ::testing::ValuesIn(all_layers_on_servers()),
                         [](const auto & test) { return test.param.name; });

}  // namespace
}  // namespace pith::device_sessions_test
