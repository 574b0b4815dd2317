// device_policies_test.cpp - every policy of the registry on the built-in model: with layers on one server and on two, or on
// what ctest names, keys and values here and there, it keeps the entries that it keeps on the CPU, and says the same. Near-ties
// are counted: entries that change places though their scores, or what else chooses them, are the same to some parts in ten
// thousand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <optional>

#include "device/on_devices.h"
#include "engine/layer_probe.h"
#include "engine/policy_probe.h"
#include "engine/registry_policies.h"
#include "engine/tiny_session.h"
#include "every_case.h"
#include "pith/engine.h"
#include "policy/policy.h"
#include "tasks/tasks.h"

namespace pith::device_policies_test {
namespace {

using testing::all_layers_on_servers;
using testing::load;
using testing::nothing_to_test;
using testing::on_a_device;
using testing::policies_of_the_registry;
using testing::Where;

constexpr size_t kPrompt = 320;
constexpr int kBudget = 112;
constexpr int kSaid = 5;
constexpr double kTie = 1e-3;     // of a score: where two differ by no more, either may stay
constexpr double kSame = 1e-4;    // of a lane's largest score, or of the logits' range
constexpr int kTiesBelow = 2000;  // one entry of so many that are kept may be another

const std::string kFolder = PITH_SOURCE_DIR "/models/";

std::vector<std::string> all_policies() {
    std::vector<std::string> policies = policies_of_the_registry();
    policies.emplace_back("duo");
    return policies;
}

// Which norms behind W_O a policy compares: the CPU has them from products of bytes, a device's lanes the norms themselves.
bool asks_for_norms(const std::string & policy) {
    return Policy::parse(policy).value().needs().output_l1;
}

// What is kept is what has the highest scores, and nothing else is looked at.
bool chooses_by_scores(const std::string & policy) {
    const auto has = [&](const char * part) { return policy.find(part) != std::string::npos; };
    return !has("critical") && !has("joint") && !has("diverse") && policy != "score";
}

// What a policy leaves of the prompt, and what is said then.
struct Outcome {
    std::vector<std::vector<int32_t>> lanes;  // [layer · K + head] positions
    std::vector<int32_t> said;
    std::vector<std::vector<float>> logits;  // in front of each of these
};

void read_outcome(Session & session, Outcome & out) {
    out.lanes = testing::lanes_of(session);
    for (int i = 0; i < kSaid; ++i) {
        out.logits.emplace_back(session.logits().begin(), session.logits().end());
        const auto token = session.decode();
        EXPECT_TRUE(token.ok()) << token.status().message();
        if (!token.ok()) { return; }
        out.said.push_back(*token);
    }
}

// A model that has read the prompt once, for all policies.
class Reader {
public:
    static std::unique_ptr<Reader> make(const Model & model, const std::vector<int32_t> & prompt) {
        SessionOptions options;
        options.policy = "full";
        const std::vector<std::string> policies = all_policies();
        options.observe.assign(policies.begin(), policies.end());
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 1;
        auto session = model.session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        if (!session.ok()) { return nullptr; }
        auto reader = std::unique_ptr<Reader>(new Reader(std::move(*session)));
        const Status read = reader->session_.prefill(prompt);
        EXPECT_TRUE(read.ok()) << read.message();
        const auto snapshot = reader->session_.snapshot();
        EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
        if (!read.ok() || !snapshot.ok()) { return nullptr; }
        reader->start_ = *snapshot;
        return reader;
    }
    Session & session() { return session_; }

    // ggmls_evidence: what the policy asks for is computed by ggml's operations, on the CPU too.
    Outcome follow(const std::string & policy, bool ggmls_evidence) {
        Outcome out;
        EXPECT_TRUE(session_.restore(start_).ok());
        LayerProbe(session_).runner().set_custom_operations(!ggmls_evidence);
        const Status status = session_.evict(policy, Budget(kBudget));
        EXPECT_TRUE(status.ok()) << status.message();
        if (status.ok()) { read_outcome(session_, out); }
        return out;
    }
    PolicyView view(const std::string & policy, bool ggmls_evidence) {
        EXPECT_TRUE(session_.restore(start_).ok());
        LayerProbe(session_).runner().set_custom_operations(!ggmls_evidence);
        auto view = PolicyProbe(session_).view(policy, Budget(kBudget));
        EXPECT_TRUE(view.ok()) << view.status().message();
        return view.ok() ? std::move(*view) : PolicyView();
    }

private:
    explicit Reader(Session session) : session_(std::move(session)) {}
    Session session_;
    std::shared_ptr<Session::Snapshot> start_;
};

class EveryPolicyOnDevices : public ::testing::TestWithParam<Where> {
protected:
    void SetUp() override {
        if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
        if (!cpu_) {
            cpu_model_.emplace(Model::load(kFolder + "pith-reference.gguf", with_gates()).value());
            prompt_ = read_prompt();
            cpu_ = Reader::make(*cpu_model_, prompt_);
        }
        ASSERT_NE(cpu_, nullptr);
    }
    static void TearDownTestSuite() {
        cpu_.reset();
        cpu_model_.reset();
    }
    static ModelOptions with_gates() {
        ModelOptions options;
        options.gate_file = kFolder + "pith-reference.gate.gguf";
        return options;
    }
    static std::vector<int32_t> read_prompt() {
        const auto tokenizer = Tokenizer::load(kFolder + "pith-reference.gguf");
        EXPECT_TRUE(tokenizer.ok());
        const auto encode = [&](std::string_view text) { return tokenizer->encode(text, true, false).value(); };
        corpus::TaskOptions options;
        options.n_tokens = static_cast<int>(2 * kPrompt);
        options.seed = 3;
        const auto task =
            corpus::make_task("single", options, [&](std::string_view text) { return static_cast<int>(encode(text).size()); });
        EXPECT_TRUE(task.ok()) << task.status().message();
        std::vector<int32_t> tokens = encode(task->prompt());
        tokens.erase(tokens.begin() + 1, tokens.end() - static_cast<std::ptrdiff_t>(kPrompt - 1));  // its end is the question
        return tokens;
    }

    // Entries that only one of the two kept; how the CPU scored them must say that it could have been either.
    void count_ties(const std::string & policy, bool ggmls, const Outcome & got, const Outcome & expected, Reader & reader) {
        const PolicyView scored = cpu_->view(policy, ggmls);
        const PolicyView there = reader.view(policy, ggmls);
        const auto n_heads = static_cast<size_t>(reader.session().n_kv_heads());
        ASSERT_EQ(there.scores.size(), scored.scores.size());
        for (size_t i = 0; i < expected.lanes.size(); ++i) {
            const auto head = static_cast<int>(i % n_heads);
            const auto scores = scored.scores[i / n_heads].row(head);
            const auto others = there.scores[i / n_heads].row(head);
            ASSERT_EQ(others.size(), scores.size());
            float most = 0;
            for (const float score : scores) { most = std::max(most, std::abs(score)); }
            for (size_t j = 0; j < scores.size(); ++j) { ASSERT_NEAR(others[j], scores[j], kSame * most) << i << ", " << j; }
            std::vector<int32_t> gained, lost;
            std::ranges::set_difference(got.lanes[i], expected.lanes[i], std::back_inserter(gained));
            std::ranges::set_difference(expected.lanes[i], got.lanes[i], std::back_inserter(lost));
            n_ties_ += std::max(gained.size(), lost.size());
            // Lanes of other lengths: their shares were as near to each other, and are bounded by the count.
            if (!chooses_by_scores(policy) || gained.size() != lost.size()) { continue; }
            for (const int32_t in : gained) {
                for (const int32_t out : lost) {
                    const float a = scores[static_cast<size_t>(in)];
                    const float b = scores[static_cast<size_t>(out)];
                    EXPECT_LE(std::abs(a - b), kTie * std::max(std::abs(a), std::abs(b)) + 1e-9F) << "lane " << i;
                }
            }
        }
    }

    void compare(const Outcome & got, const Outcome & expected) {
        ASSERT_EQ(got.said.size(), expected.said.size());
        for (size_t i = 0; i < expected.said.size(); ++i) {
            const std::vector<float> & row = expected.logits[i];
            const auto [low, high] = std::ranges::minmax(row);
            for (size_t t = 0; t < row.size(); ++t) {
                ASSERT_NEAR(got.logits[i][t], row[t], kSame * (high - low)) << "in front of token " << i;
            }
            if (got.said[i] == expected.said[i]) { continue; }
            ++n_texts_;  // two tokens that are as good
            EXPECT_GE(row[static_cast<size_t>(got.said[i])], high - 2 * kSame * (high - low)) << "token " << i;
            return;
        }
    }

    static inline std::optional<Model> cpu_model_;
    static inline std::vector<int32_t> prompt_;
    static inline std::unique_ptr<Reader> cpu_;
    static inline std::map<std::pair<std::string, bool>, Outcome> expected_;  // the CPU's, of a policy
    size_t n_ties_ = 0;
    size_t n_texts_ = 0;
};

TEST_P(EveryPolicyOnDevices, KeepsTheEntriesOfTheCpuOnTheBuiltInModel) {
    const auto model = load(kFolder + "pith-reference.gguf", GetParam(), with_gates());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto reader = Reader::make(*model, prompt_);
    ASSERT_NE(reader, nullptr);
    for (const DeviceUse & use : reader->session().ledger().devices) {
        EXPECT_EQ(use.n_kv_layers, GetParam().kv_offload ? use.n_layers : 0) << use.kv_here_because;
    }
    // On servers of this machine each policy has a turn with one of them, where not every case is asked for.
    const auto servers = all_layers_on_servers();
    const auto row = static_cast<size_t>(std::ranges::find(servers, GetParam().name, &Where::name) - servers.begin());
    size_t n_kept = 0;
    size_t n_policies = 0;
    size_t i = 0;
    for (const std::string & policy : all_policies()) {
        if (GetParam().devices.empty() && !testing::in_turn(row, i++, servers.size())) { continue; }
        SCOPED_TRACE(policy);
        const bool ggmls = GetParam().kv_offload && asks_for_norms(policy);
        const auto key = std::pair(policy, ggmls);
        if (!expected_.contains(key)) { expected_[key] = cpu_->follow(policy, ggmls); }
        const Outcome & expected = expected_[key];
        const Outcome got = reader->follow(policy, ggmls);
        ASSERT_EQ(got.lanes.size(), expected.lanes.size());
        for (const auto & lane : expected.lanes) { n_kept += lane.size(); }
        ++n_policies;
        if (got.lanes == expected.lanes) {
            compare(got, expected);
        } else {
            count_ties(policy, ggmls, got, expected, *reader);
        }
        if (HasFatalFailure()) { return; }
    }
    RecordProperty("near_ties", std::to_string(n_ties_));
    std::cout << GetParam().name << ": " << n_policies << " policies keep " << n_kept << " entries, of which " << n_ties_
              << " are others than the CPU's; " << n_texts_ << " texts differ\n";
    EXPECT_LE(n_ties_, n_kept / kTiesBelow);
    EXPECT_LE(n_texts_, n_policies / 50);
}

// What decides while the prompt is read has a prefill of its own.
TEST_P(EveryPolicyOnDevices, WhatGatesLetInIsTheSame) {
    const auto model = load(kFolder + "pith-reference.gguf", GetParam(), with_gates());
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (const char * policy : {"gated", "gated+snapkv"}) {
        SCOPED_TRACE(policy);
        const auto outcome_of = [&](const Model & one) {
            Outcome out;
            SessionOptions options;
            options.policy = policy;
            if (options.policy != "gated") { options.budget = kBudget; }
            options.type_k = options.type_v = KvType::kF32;
            options.n_threads = 1;
            auto session = one.session(options);
            EXPECT_TRUE(session.ok()) << session.status().message();
            const Status read = session->prefill(prompt_);
            EXPECT_TRUE(read.ok()) << read.message();
            read_outcome(*session, out);
            return out;
        };
        const Outcome expected = outcome_of(*cpu_model_);
        const Outcome got = outcome_of(*model);
        EXPECT_EQ(got.lanes, expected.lanes);
        compare(got, expected);
        size_t n_kept = 0;
        for (const auto & lane : expected.lanes) { n_kept += lane.size(); }
        EXPECT_LT(n_kept, expected.lanes.size() * kPrompt) << "something is not let in";
    }
}

INSTANTIATE_TEST_SUITE_P(Rpc, EveryPolicyOnDevices, ::testing::ValuesIn(all_layers_on_servers()),
                         [](const auto & test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Device, EveryPolicyOnDevices, ::testing::ValuesIn(on_a_device()),
                         [](const auto & test) { return test.param.name; });

}  // namespace
}  // namespace pith::device_policies_test
