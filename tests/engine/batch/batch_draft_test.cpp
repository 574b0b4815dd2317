// batch_draft_test.cpp - an engine whose answers have drafts gives every token, and every logit, that it gives without.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/tiny_model.h"
#include "pith/batch_engine.h"

namespace pith::batch_draft_test {
namespace {

using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

struct Asked {
    const char * policy = "full";
    int budget = 0;
    int n_prompt = 90;
    int max_tokens = 60;
    int n_before_cancel = 0;       // tokens said; 0: never
    std::optional<int> n_to_stop;  // the so-many-th token that is chosen ends the answer
    bool keep = false;
};

struct Told {
    std::vector<std::vector<float>> logits;
    std::vector<int32_t> answer;
    RequestState state = RequestState::kWaiting;
    int64_t n_evictions = 0;
    int64_t kept_entries = 0;
    std::vector<int32_t> positions;  // of the first lane, where it is kept
    bool operator==(const Told &) const = default;
};

// What is said goes on with the text, but for every 11th token.
int32_t token_at(const std::vector<int32_t> & once, size_t i, size_t n_said) {
    const int32_t token = once[i % once.size()];
    return n_said % 11 == 10 ? (token + 1) % 300 : token;
}

// n_drafted, n_accepted: of all.
std::vector<Told> answers(const Model & model, const std::vector<Asked> & asked, int draft, int max_rows, int64_t & n_drafted,
                          int64_t & n_accepted) {
    EngineOptions options;
    options.grid = 0;
    options.n_threads = 1;
    options.max_rows = max_rows;
    auto engine = model.engine(options);
    EXPECT_TRUE(engine.ok());
    std::vector<Told> told(asked.size());
    std::vector<int64_t> ids(asked.size());
    for (size_t i = 0; i < asked.size(); ++i) {
        const Asked & one = asked[i];
        const auto once = random_tokens(31 + static_cast<int>(i), 300, 7 + static_cast<unsigned>(i));
        Request request;
        for (int t = 0; t < one.n_prompt; ++t) { request.tokens.push_back(once[static_cast<size_t>(t) % once.size()]); }
        request.options.policy = one.policy;
        if (one.budget > 0) { request.options.budget = Budget(one.budget); }
        request.options.chunk = 32;
        request.options.evict_every = 16;
        request.options.draft_ngram = draft;
        request.max_tokens = one.max_tokens;
        request.keep = one.keep;
        if (one.n_to_stop) { request.stop = {383}; }
        request.choose = [&, i, once](std::span<const float> logits) -> Result<int32_t> {
            const size_t n_said = told[i].logits.size();
            told[i].logits.emplace_back(logits.begin(), logits.end());
            if (asked[i].n_to_stop && static_cast<int>(n_said) == *asked[i].n_to_stop) { return 383; }
            return token_at(once, static_cast<size_t>(asked[i].n_prompt) + n_said, n_said);
        };
        request.on_token = [&, i](int32_t) {
            if (static_cast<int>(told[i].logits.size()) == asked[i].n_before_cancel) {
                EXPECT_TRUE(engine->cancel(ids[i]).ok());
            }
            return true;
        };
        const auto id = engine->submit(std::move(request));
        EXPECT_TRUE(id.ok()) << id.status().message();
        ids[i] = *id;
    }
    EXPECT_TRUE(engine->run().ok());
    n_drafted = n_accepted = 0;
    for (size_t i = 0; i < asked.size(); ++i) {
        const Ledger ledger = engine->ledger(ids[i]).value();
        told[i].answer.assign(engine->answer(ids[i]).begin(), engine->answer(ids[i]).end());
        told[i].state = engine->state(ids[i]);
        told[i].n_evictions = ledger.n_evictions;
        if (asked[i].n_before_cancel == 0) { told[i].kept_entries = ledger.kept_entries; }
        const auto positions = engine->lane_positions(ids[i], 0, 0);
        told[i].positions.assign(positions.begin(), positions.end());
        n_drafted += ledger.n_drafted;
        n_accepted += ledger.n_draft_accepted;
        EXPECT_LE(ledger.peak_lane_entries, asked[i].budget > 0 ? std::max(asked[i].n_prompt, asked[i].budget + 32) : 1000);
    }
    return told;
}

void expect_same(const std::vector<Asked> & asked, int max_rows = 256) {
    const Model model = tiny_model(tiny_spec()).value();
    int64_t n_drafted = 0;
    int64_t n_accepted = 0;
    const auto without = answers(model, asked, 0, max_rows, n_drafted, n_accepted);
    EXPECT_EQ(n_drafted, 0);
    const auto with = answers(model, asked, 8, max_rows, n_drafted, n_accepted);
    EXPECT_GT(n_accepted, 10);
    EXPECT_LE(n_accepted, n_drafted);
    for (size_t i = 0; i < asked.size(); ++i) { EXPECT_TRUE(without[i] == with[i]) << i; }
}

TEST(BatchDraft, OneRequestAnswersAsItDoesWithout) {
    expect_same({{}});
    expect_same({{.policy = "h2o", .budget = 48, .keep = true}});
    expect_same({{.policy = "snapkv", .budget = 48, .n_prompt = 200, .keep = true}});
}

TEST(BatchDraft, ManyAnswerAsTheyDoWithout) {
    expect_same({{.keep = true},
                 {.policy = "h2o", .budget = 48, .keep = true},
                 {.policy = "expected", .budget = 48},
                 {.policy = "laprox", .budget = 64, .n_prompt = 150, .max_tokens = 40},
                 {.policy = "snapkv", .budget = 40, .n_prompt = 300, .max_tokens = 90, .keep = true}});
}

TEST(BatchDraft, EndsWhereItEndsWithout) {
    expect_same({{.max_tokens = 33}, {.n_before_cancel = 24}, {.n_to_stop = 27}, {.max_tokens = 1}, {.max_tokens = 2}});
}

// Rows of drafts are rows of the step.
TEST(BatchDraft, KeepsToTheRowsOfAStep) {
    expect_same({{}, {}, {.policy = "h2o", .budget = 48}}, /*max_rows=*/6);
}

}  // namespace
}  // namespace pith::batch_draft_test
