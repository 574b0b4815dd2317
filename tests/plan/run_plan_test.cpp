// run_plan_test.cpp - budgets to entries, and the choice of schedule.
#include "plan/run_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace pith::run_plan_test {
namespace {

RunRequest request_of(Budget budget, int64_t n_prompt) {
    RunRequest request;
    request.budget = budget;
    request.evicts = true;
    request.n_prompt = n_prompt;
    request.n_lanes = 128;
    request.n_kv_heads = 8;
    request.entry_bytes = 256;
    return request;
}

TEST(RunPlan, IsChunkedWhenThePromptIsLongerThanBudgetAndChunk) {
    EXPECT_TRUE(plan_run(request_of(1024, 1024 + 512))->one_shot);
    EXPECT_FALSE(plan_run(request_of(1024, 1024 + 513))->one_shot);
    RunRequest request = request_of(1024, 100000);
    request.prefill = PrefillSchedule::kOneShot;
    EXPECT_TRUE(plan_run(request)->one_shot);
}

TEST(RunPlan, WithAQuestionInSightAPromptGoesInOneShotWhereALayerFitsInMemory) {
    RunRequest request = request_of(1024, 100000);
    request.n_question = 30;
    request.state_bytes = 8192;
    EXPECT_TRUE(plan_run(request)->one_shot) << "nobody knows how much memory there is";
    // One layer: 8 · (100000 · 256 + 8192); lanes: 128 · (1024 · 256 + 8192); hidden states: 100000 · 8192. A tenth stays.
    const size_t need = 8ULL * (100000 * 256 + 8192) + 128ULL * (1024 * 256 + 8192) + 100000ULL * 8192;
    request.free_bytes = need * 10 / 9 + 10;
    EXPECT_TRUE(plan_run(request)->one_shot);
    request.free_bytes = need * 10 / 9 - 10;
    const auto plan = plan_run(request);
    EXPECT_FALSE(plan->one_shot);
    EXPECT_EQ(plan->n_guide, 30);
    request.n_question = 513;
    EXPECT_EQ(plan_run(request)->n_guide, 0) << "longer than a chunk";
    request.prefill = PrefillSchedule::kChunked;
    request.n_question = 30;
    request.free_bytes = 0;
    EXPECT_FALSE(plan_run(request)->one_shot);
    EXPECT_EQ(plan_run(request)->n_guide, 30);
}

// What is kept may not depend on where a prompt ends, so one that fits is read like one that does not.
TEST(RunPlan, OnAGridShortPromptsGoInChunksToo) {
    RunRequest request = request_of(1024, 1024);
    EXPECT_TRUE(plan_run(request)->one_shot);
    request.grid = 200;
    EXPECT_FALSE(plan_run(request)->one_shot);
    EXPECT_EQ(plan_run(request)->grid, 200);
    request.evict_every = 0;
    EXPECT_EQ(plan_run(request)->grid, 0) << "nothing is evicted in decode, so there is no grid";
    request.grid = -1;
    request.evict_every = 1;
    EXPECT_EQ(plan_run(request).status().message(), "grid -1: must be 0 (none) or more");
}

TEST(RunPlan, BytesHoldBudgetAndGridOrASmallerOne) {
    RunRequest request = request_of(Budget(BudgetKind::kBytes, 128.0 * (1000 * 256 + 8192)), 5000);
    request.grid = 256;
    EXPECT_EQ(plan_run(request)->grid, 256);
    EXPECT_EQ(plan_run(request)->budget, 1000 - 256) << "chunks end at grid points, so they need no room of their own";
    request.budget = Budget(BudgetKind::kBytes, 128.0 * (300 * 256 + 8192));
    EXPECT_EQ(plan_run(request)->grid, 64) << "a third is 100";
    EXPECT_EQ(plan_run(request)->budget, 300 - 64);
}

// One shot reserves every lane for the whole prompt, used or not.
TEST(RunPlan, WhereAddressesAreShortAQuestionsPromptGoesInChunks) {
    RunRequest request = request_of(1024, 100000);
    request.n_question = 30;
    request.state_bytes = 8192;
    const size_t need = 128ULL * 100000 * 256 + 100000ULL * 8192;
    request.free_addresses = need * 10 / 9 + 10;
    EXPECT_TRUE(plan_run(request)->one_shot);
    request.free_addresses = need * 10 / 9 - 10;
    EXPECT_FALSE(plan_run(request)->one_shot);
    EXPECT_EQ(plan_run(request)->n_guide, 30);
}

TEST(RunPlan, AutoSaysWhatItCameToWhereThatIsTooLittle) {
    RunRequest request = request_of(Budget(BudgetKind::kBytes, 1e6), 1000);
    request.is_auto = true;
    const std::string message = plan_run(request).status().message();
    EXPECT_EQ(message.rfind("budget auto, 976 KiB of memory here, is too small", 0), 0U) << message;
}

// Questions that come behind the prompt and are taken back: they are in the layer's lanes, and never in the prompt's length.
TEST(RunPlan, BytesHoldQuestionsThatAreTakenBack) {
    RunRequest request = request_of(Budget(BudgetKind::kBytes, 64.0 * 1024 * 1024), 2000);
    request.prefill = PrefillSchedule::kOneShot;
    request.evict_every = 1;  // the layer is what counts
    request.n_question = 64;
    const int64_t at_the_end = plan_run(request)->budget;
    request.taken_back = true;
    // 8 KV heads of one layer hold 64 entries more, of 128 lanes that share the bytes.
    EXPECT_EQ(plan_run(request)->budget, at_the_end - 64 * 8 / 128);
    request.budget = Budget(BudgetKind::kPercent, 10);
    EXPECT_EQ(plan_run(request)->budget, 200);
}

// On a grid a share follows the text, wherever a prompt ends, and never below what is protected. In one shot, or where a
// question judges, it is of the first prompt.
TEST(RunPlan, AShareFollowsTheTextOnAGrid) {
    RunRequest request = request_of(Budget(BudgetKind::kPercent, 20), 5000);
    request.grid = 256;
    request.n_protected = 36;
    const RunPlan plan = *plan_run(request);
    EXPECT_EQ(plan.budget, 1000);
    EXPECT_EQ(plan.budget_at(5000), 1000);
    EXPECT_EQ(plan.budget_at(10000), 2000);
    EXPECT_EQ(plan.budget_at(100), 36);
    EXPECT_EQ(plan.most_at(5000), 1256);
    request.n_prompt = 5;
    EXPECT_EQ(plan_run(request)->budget, 36);
    request.n_prompt = 5000;
    request.prefill = PrefillSchedule::kOneShot;
    EXPECT_EQ(plan_run(request)->budget_at(10000), 1000);
    request.prefill = PrefillSchedule::kAuto;
    request.grid = 0;
    EXPECT_EQ(plan_run(request)->budget_at(10000), 1000);
}

TEST(RunPlan, SmallBudgetsAreKeptInStepsNoLargerThanThemselves) {
    EXPECT_EQ(grid_for(256, Budget(1000)), 256);
    EXPECT_EQ(grid_for(256, Budget(255)), 128);
    EXPECT_EQ(grid_for(256, Budget(64)), 64);
    EXPECT_EQ(grid_for(256, Budget(3)), 16);
    EXPECT_EQ(grid_for(8, Budget(3)), 8);
    EXPECT_EQ(grid_for(256, Budget(BudgetKind::kPercent, 3)), 256);
    EXPECT_EQ(grid_for(0, Budget(3)), 0);
}

// A piece that is read again stands behind the chunk it is, with the words that ask for it.
TEST(RunPlan, BytesHoldWhatIsReadAgain) {
    for (const double entries : {40.0, 100.0, 600.0, 3000.0, 20000.0}) {
        RunRequest request = request_of(Budget(BudgetKind::kBytes, 128.0 * (entries * 256 + 2 * 4096)), 100000);
        request.rereads = true;
        request.n_reread_prompt = 20;
        const auto plan = plan_run(request);
        if (!plan.ok()) {
            EXPECT_LT(entries, 1 + 2 * 16 + 20) << plan.status().message();
            continue;
        }
        EXPECT_FALSE(plan->one_shot);
        EXPECT_EQ(plan->n_reread, plan->chunk + 20);
        EXPECT_LE(static_cast<double>(plan->budget + plan->chunk + plan->n_reread), entries);
        EXPECT_LE(static_cast<double>(plan->budget + plan->evict_every + plan->n_reread), entries);
        EXPECT_GE(plan->budget, 1);
    }
    // In one shot all of it is held until it has been read again.
    RunRequest whole = request_of(Budget(BudgetKind::kBytes, 128.0 * (7000 * 256 + 2 * 4096)), 4000);
    whole.prefill = PrefillSchedule::kOneShot;
    whole.rereads = true;
    ASSERT_TRUE(plan_run(whole).ok());
    whole.n_prompt = 5000;
    EXPECT_EQ(plan_run(whole).status().code(), ErrorCode::kBudget);
}

TEST(RunPlan, BytesHoldTheQuestionBesideTheChunk) {
    RunRequest request = request_of(Budget(BudgetKind::kBytes, 64.0 * 1024 * 1024), 100000);
    const int64_t without = plan_run(request)->budget;
    request.n_question = 30;
    const auto plan = plan_run(request);
    EXPECT_FALSE(plan->one_shot) << "a whole layer would not leave nine tenths of the entries";
    EXPECT_EQ(plan->budget, without - 30);
    EXPECT_EQ(plan->n_guide, 30);
    request.n_prompt = 2000;  // a layer is little beside the budget
    EXPECT_TRUE(plan_run(request)->one_shot);
}

TEST(RunPlan, WhatMemoryAllowsMayBeGivenToAPolicyThatKeepsAll) {
    RunRequest request = request_of(Budget(BudgetKind::kBytes, 64.0 * 1024 * 1024), 1000);
    request.is_auto = true;
    request.evicts = false;
    ASSERT_TRUE(plan_run(request).ok());
    EXPECT_EQ(plan_run(request)->budget, 0) << "nothing is ever evicted";
    request.n_prompt = 100000;
    const auto plan = plan_run(request);
    EXPECT_EQ(plan.status().code(), ErrorCode::kBudget);
    EXPECT_NE(plan.status().message().find("holds 2,016 tokens, the prompt has 100,000"), std::string::npos)
        << plan.status().message();  // 64 MiB / 128 lanes, less two pages, over 256 bytes
    request.evicts = true;
    EXPECT_GT(plan_run(request)->budget, 1000);
}

TEST(RunPlan, TakesPerCentOfThePromptAndRoundsToTheNearestEntry) {
    EXPECT_EQ(plan_run(request_of(Budget(BudgetKind::kPercent, 20), 1004))->budget, 201);
    EXPECT_EQ(plan_run(request_of(Budget(BudgetKind::kPercent, 1), 10))->budget, 1);
}

TEST(RunPlan, BytesHoldBudgetHeadroomAndTwoPartlyUsedPagesALane) {
    for (const double bytes : {4e6, 64.0 * 1024 * 1024, 1e9}) {
        const auto plan = plan_run(request_of(Budget(BudgetKind::kBytes, bytes), 100000));
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        const double peak =
            128.0 * (static_cast<double>(plan->budget + std::max(plan->chunk, plan->evict_every)) * 256 + 2 * 4096);
        EXPECT_LE(peak, bytes);
        EXPECT_GE(peak, bytes - 128 * 256);
    }
}

TEST(RunPlan, RefusesBytesThatHoldNothingAndSaysHowManyWould) {
    const auto plan = plan_run(request_of(Budget(BudgetKind::kBytes, 1e6), 1000));
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), ErrorCode::kBudget);
    EXPECT_NE(plan.status().message().find(": use budget 1568K or more"), std::string::npos) << plan.status().message();
    RunRequest one_shot = request_of(Budget(BudgetKind::kBytes, 8e6), 100000);
    one_shot.prefill = PrefillSchedule::kOneShot;
    EXPECT_NE(plan_run(one_shot).status().message().find("prefill chunked"), std::string::npos);
}

Result<RunPlan> plan_with(RunRequest request, double bytes) {
    request.budget = Budget(BudgetKind::kBytes, bytes);
    return plan_run(request);
}

// Shapes of models, prompts with and without questions, short and long, and what is read between two evictions.
std::vector<RunRequest> many_requests() {
    struct Shape {
        int n_lanes, n_kv_heads;
        size_t entry_bytes;
    };
    struct Text {
        int64_t n_prompt;
        int n_question;
        bool taken_back;
    };
    struct Steps {
        int chunk, evict_every;
    };
    std::vector<RunRequest> all;
    for (const Shape & shape : std::vector<Shape>{{16, 4, 64}, {128, 8, 256}, {3, 1, 36}, {512, 8, 1088}}) {
        for (const Text & text :
             std::vector<Text>{{1, 0, false}, {8, 2, false}, {1000, 9, true}, {1000, 300, true}, {100000, 30, false}}) {
            for (const Steps & steps : std::vector<Steps>{{512, 128}, {8, 1}, {512, 0}}) {
                for (const int64_t n_protected : {0, 32, 700}) {
                    RunRequest request = request_of({}, text.n_prompt);
                    request.n_lanes = shape.n_lanes;
                    request.n_kv_heads = shape.n_kv_heads;
                    request.entry_bytes = shape.entry_bytes;
                    request.n_question = text.n_question;
                    request.taken_back = text.taken_back;
                    request.chunk = steps.chunk;
                    request.evict_every = steps.evict_every;
                    request.n_protected = n_protected;
                    all.push_back(request);
                }
            }
        }
    }
    return all;
}

// The size that a refusal names, written back, is taken; a KiB less is not.
TEST(RunPlan, ARefusalNamesTheLeastBytesThatDo) {
    for (RunRequest request : many_requests()) {
        for (const PrefillSchedule prefill : {PrefillSchedule::kAuto, PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
            request.prefill = prefill;
            const auto refused = plan_with(request, 1024);
            ASSERT_FALSE(refused.ok());
            const std::string & message = refused.status().message();
            SCOPED_TRACE(message);
            const size_t at = message.find("use budget ");
            ASSERT_NE(at, std::string::npos);
            const size_t begin = at + std::string("use budget ").size();
            const auto said = Budget::parse(message.substr(begin, message.find(' ', begin) - begin));
            ASSERT_TRUE(said.ok()) << said.status().message();
            ASSERT_EQ(said->kind, BudgetKind::kBytes);
            EXPECT_FALSE(plan_with(request, said->value - 1024).ok());
            for (const double times : {1.0, 1.01, 1.5, 2.0, 3.0, 10.0}) {
                const auto plan = plan_with(request, said->value * times);
                ASSERT_TRUE(plan.ok()) << times << ": " << plan.status().message();
                EXPECT_GE(plan->budget, std::max<int64_t>(1, request.n_protected)) << times;
            }
        }
    }
}

// What is protected takes room from the chunk, then from the question that would guide it.
TEST(RunPlan, WhatIsProtectedComesBeforeTheChunk) {
    RunRequest request = request_of({}, 100000);
    request.prefill = PrefillSchedule::kChunked;
    request.n_question = 30;
    const auto holding = [&request](int n_entries) {
        request.budget = Budget(BudgetKind::kBytes, 128.0 * (n_entries * 256 + 2 * 4096));
        return plan_run(request).value();
    };
    const RunPlan free = holding(600);
    EXPECT_EQ(free.chunk, 200);
    EXPECT_EQ(free.budget, 370);
    request.n_protected = 500;
    EXPECT_EQ(holding(600).chunk, 70);
    EXPECT_EQ(holding(600).n_guide, 30);
    EXPECT_EQ(holding(600).budget, 500);
    EXPECT_EQ(holding(550).chunk, 50) << "no room for a chunk as long as the question beside it";
    EXPECT_EQ(holding(550).n_guide, 0);
    EXPECT_EQ(holding(516).chunk, 16);
    EXPECT_FALSE(plan_with(request, request.budget.value - 1024).ok());
}

TEST(RunPlan, APromptThatGatesMustSeeWholeGoesInOneShot) {
    RunRequest request = request_of(1024, 100000);
    request.gated = request.whole_prompt = true;
    EXPECT_TRUE(plan_run(request)->one_shot);
    request.budget = Budget(BudgetKind::kBytes, 1e9);
    EXPECT_TRUE(plan_run(request)->one_shot);
    request.budget = Budget(BudgetKind::kBytes, 8e6);
    EXPECT_NE(plan_run(request).status().message().find("causal gates"), std::string::npos);
    request.budget = {};
    request.evicts = false;
    EXPECT_TRUE(plan_run(request)->one_shot);
    request.prefill = PrefillSchedule::kChunked;
    EXPECT_NE(plan_run(request).status().message().find("prefill chunked"), std::string::npos);
    request.whole_prompt = false;
    EXPECT_FALSE(plan_run(request)->one_shot);
    request.budget = 64;
    EXPECT_NE(plan_run(request).status().message().find("gated+snapkv"), std::string::npos);
}

TEST(RunPlan, WantsABudgetJustWhenThePolicyEvicts) {
    EXPECT_FALSE(plan_run(request_of({}, 10)).ok());
    RunRequest full = request_of(64, 10);
    full.evicts = false;
    EXPECT_FALSE(plan_run(full).ok());
    full.budget = {};
    EXPECT_EQ(plan_run(full)->budget, 0);
}

// A chunk may be as long as an int can say, and the question that guides it comes beside it.
TEST(RunPlan, CountsTheLongestChunkAndItsGuideInWideIntegers) {
    constexpr int kLongest = std::numeric_limits<int>::max();
    RunRequest request = request_of(1024, 100000);
    request.prefill = PrefillSchedule::kChunked;
    request.chunk = kLongest;
    request.n_question = 30;
    ASSERT_EQ(plan_run(request)->n_guide, 30);
    EXPECT_EQ(plan_run(request)->period_of_prompt(), int64_t{kLongest} + 30);
    request.budget = Budget(BudgetKind::kBytes, 128.0 * (1000 * 256 + 8192));
    int64_t n_asked = 0;
    request.ungoverned_bytes = [&](int64_t n_new) {
        n_asked = n_new;
        return size_t{0};
    };
    ASSERT_TRUE(plan_run(request).ok());
    EXPECT_EQ(n_asked, int64_t{kLongest} + 30);
}

}  // namespace
}  // namespace pith::run_plan_test
