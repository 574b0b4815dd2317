// cake_reference_test.cpp - CAKE's division among layers beside one from attention probabilities in f64, on texts of the
// reference model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/policy_probe.h"
#include "pith/engine.h"
#include "tasks/tasks.h"

namespace pith::cake_reference_test {
namespace {

const std::string kCakeModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";
constexpr int kCakeTokens = 200;
constexpr int kCakeWindow = 16;
constexpr int kCakeBudget = 40;
constexpr int kCakeTexts = 20;

SessionOptions exact_session() {
    SessionOptions options;
    options.type_k = options.type_v = KvType::kF32;
    options.n_threads = 1;
    options.policy = "full";
    return options;
}

// By layer: -Σ A ln A, times the sum of the unbiased variances over the queries, of what the last queries' heads pay to the
// entries before them all. The queries are fed one by one, and asked while they are the newest.
std::vector<double> layer_preferences(const Model & model, const std::vector<int32_t> & tokens) {
    SessionOptions options = exact_session();
    options.observe = {"tova"};
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    const size_t n_past = tokens.size() - kCakeWindow;
    EXPECT_TRUE(session->prefill(std::span(tokens).first(n_past)).ok());
    PolicyProbe look(*session);
    EvidenceNeeds needs;
    needs.last_query = true;
    const auto n_layers = static_cast<size_t>(session->n_layers());
    std::vector<std::vector<std::vector<double>>> paid(n_layers);  // [layer][query]: [head · n_past + entry]
    for (size_t i = n_past; i < tokens.size(); ++i) {
        EXPECT_TRUE(session->append(tokens[i]).ok());
        for (size_t l = 0; l < n_layers; ++l) {
            const auto evidence = look.evidence(static_cast<int>(l), needs);
            EXPECT_TRUE(evidence.ok()) << evidence.status().message();
            std::vector<double> & row = paid[l].emplace_back();
            for (int g = 0; g < model.info().n_heads; ++g) {
                const auto attention = evidence->last_query.row(g).first(n_past);
                row.insert(row.end(), attention.begin(), attention.end());
            }
        }
    }
    std::vector<double> preferences;
    for (const auto & queries : paid) {
        double entropy = 0;
        double variance = 0;
        for (size_t j = 0; j < queries.front().size(); ++j) {
            double mean = 0;
            for (const auto & query : queries) {
                mean += query[j] / kCakeWindow;
                entropy -= query[j] > 0 ? query[j] * std::log(query[j]) : 0;
            }
            for (const auto & query : queries) { variance += (query[j] - mean) * (query[j] - mean) / (kCakeWindow - 1); }
        }
        preferences.push_back(entropy * variance);
    }
    return preferences;
}

// Entries of a lane beside the window, by layer: as the preferences stand to each other, no lane more than it has.
std::vector<double> shares_of(const std::vector<double> & preferences) {
    constexpr double kMost = kCakeTokens - kCakeWindow;
    const double wanted = static_cast<double>(kCakeBudget - kCakeWindow) * static_cast<double>(preferences.size());
    const auto shares_at = [&](double factor) {
        std::vector<double> shares;
        for (const double preference : preferences) { shares.push_back(std::min(factor * preference, kMost)); }
        return shares;
    };
    double low = 0;
    double high = kMost / *std::ranges::min_element(preferences);
    for (int i = 0; i < 200; ++i) {
        const double middle = (low + high) / 2;
        double sum = 0;
        for (const double share : shares_at(middle)) { sum += share; }
        (sum < wanted ? low : high) = middle;
    }
    return shares_at(high);
}

TEST(CakeOnTheReferenceModel, LayersHoldWhatEntropyTimesVarianceOfThePastGivesThem) {
    const auto model = Model::load(kCakeModel);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokenizer = Tokenizer::load(kCakeModel);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    const corpus::CountTokens count = [&](std::string_view text) {
        return static_cast<int>(tokenizer->encode(text, false, false)->size());
    };
    SessionOptions options = exact_session();
    options.policy = "attnvar:window=" + std::to_string(kCakeWindow) + "+preference";
    options.budget = kCakeBudget;
    options.prefill = PrefillSchedule::kOneShot;
    for (uint64_t text = 0; text < kCakeTexts; ++text) {
        SCOPED_TRACE("text " + std::to_string(text));
        corpus::TaskOptions task;
        task.n_tokens = 2 * kCakeTokens;
        task.index = text;
        const auto made = corpus::make_task("single", task, count);
        ASSERT_TRUE(made.ok()) << made.status().message();
        auto tokens = tokenizer->encode(made->context, true, false);
        ASSERT_TRUE(tokens.ok()) << tokens.status().message();
        ASSERT_GE(tokens->size(), static_cast<size_t>(kCakeTokens));
        tokens->resize(kCakeTokens);

        const std::vector<double> shares = shares_of(layer_preferences(*model, *tokens));
        EXPECT_GT(*std::ranges::max_element(shares), 2 * *std::ranges::min_element(shares)) << "an even division would do";
        auto session = model->session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        ASSERT_TRUE(session->prefill(*tokens).ok());
        for (int l = 0; l < session->n_layers(); ++l) {
            for (int h = 0; h < session->n_kv_heads(); ++h) {
                const auto held = static_cast<double>(session->lane_positions(l, h).size()) - kCakeWindow;
                EXPECT_NEAR(held, shares[static_cast<size_t>(l)], 1) << "layer " << l << ", KV head " << h;
            }
        }
    }
}

}  // namespace
}  // namespace pith::cake_reference_test
