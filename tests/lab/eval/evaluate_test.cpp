// evaluate_test.cpp - the same answers whichever way a run goes: shared or apart, on one thread or several, in one go or two.
#include "eval/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>

#include "engine/probe/likelihood.h"
#include "eval/kept_prefill.h"
#include "eval/report/eval_report.h"
#include "eval/run_shards.h"
#include "lab/eval/fake_task.h"
#include "model/gguf_edit.h"
#include "policy/own_scorer.h"

namespace pith::evaluate_test {
namespace {

using testing::fake_options;
using testing::fake_samples;
using testing::FakeTask;
using testing::ModelAndTokenizer;

ModelAndTokenizer & tiny() {
    static ModelAndTokenizer both = testing::load_tiny(testing::tiny_spec(), "evaluate.gguf");
    return both;
}

RunInfo info_of(const EvalPlan & plan) {
    RunInfo info = plan.info;
    info.settings = {{"FAMILY", "fake"}, {"model", "tiny"}};
    return info;
}

// Answers by key; times left out.
std::map<std::string, std::string> by_key(const std::vector<Answer> & answers) {
    std::map<std::string, std::string> out;
    for (Answer answer : answers) {
        answer.prefill_s = answer.answer_s = 0;
        out[answer.key()] = to_json_line(answer);
    }
    return out;
}

struct Ran {
    Status status;
    std::vector<Answer> answers;
    std::string table;
};

Ran run(const EvalOptions & options, int n_jobs = 1, ModelAndTokenizer & on = tiny(), int n_parallel = 1) {
    const auto plan = plan_evaluation(on.model, on.tokenizer, options);
    if (!plan.ok()) { return {plan.status(), {}, ""}; }
    auto folder = RunFolder::open("", info_of(*plan));
    EvalHooks hooks;
    hooks.n_jobs = n_jobs;
    hooks.n_parallel = n_parallel;
    const Status status = run_evaluation(on.model, on.tokenizer, options, *plan, **folder, hooks);
    return {status, (*folder)->answers(), eval_csv(make_eval_table((*folder)->info(), (*folder)->answers()))};
}

TEST(Evaluate, AScorerOfOnesOwnIsARowOfTheBoard) {
    const test::RegisteredScorer own(test::own_window("my-window", 4));
    const FakeTask task("one", fake_samples(3, 1));
    EvalOptions options = fake_options(task);
    options.policies = {"my-window+ada", "snapkv:window=4:pool=none+ada"};
    for (const int n_parallel : {1, 3}) {
        const Ran ran = run(options, 1, tiny(), n_parallel);
        ASSERT_TRUE(ran.status.ok()) << ran.status.message();
        std::map<std::string, std::map<std::string, std::string>> said;  // by policy, by sample and budget
        for (const Answer & answer : ran.answers) { said[answer.policy][answer.sample + answer.budget] = answer.prediction; }
        EXPECT_EQ(said["my-window+ada"].size(), 6U);
        EXPECT_EQ(said["my-window+ada"], said["snapkv:window=4:pool=none+ada"]);
        EXPECT_NE(ran.table.find("my-window+ada"), std::string::npos) << ran.table;
    }
}

TEST(Evaluate, SharedPrefillsGiveTheAnswersOfPrefillsApart) {
    const FakeTask task("one", fake_samples(3, 1));
    for (const bool question_aware : {false, true}) {
        EvalOptions options = fake_options(task);
        options.question_aware = question_aware;
        const Ran shared = run(options);
        options.share = false;
        const Ran apart = run(options);
        ASSERT_TRUE(shared.status.ok()) << shared.status.message();
        EXPECT_EQ(shared.answers.size(), 3U * 9);  // full once, four policies under two budgets
        EXPECT_EQ(by_key(shared.answers), by_key(apart.answers));
        EXPECT_EQ(shared.table, apart.table);
        std::map<std::string, int64_t> full;
        for (const Answer & answer : shared.answers) {
            if (answer.policy == "full") { full[answer.sample] = answer.kv_bytes; }
        }
        for (const Answer & answer : shared.answers) {
            EXPECT_GT(answer.kv_bytes, 0) << answer.key();
            EXPECT_LE(answer.kv_bytes, full[answer.sample]) << "what other cases come back to is not counted: " << answer.key();
        }
    }
}

// What shares a prompt stays together, and it is the same part's whether prompts are shared or not.
TEST(Evaluate, PartsDivideThePromptsAndMissNone) {
    constexpr int kParts = 4;
    auto samples = fake_samples(6, 1);
    for (size_t i = 1; i < samples.size(); i += 2) { samples[i].context = samples[i - 1].context; }
    const FakeTask task("one", samples);
    EvalOptions options = fake_options(task);
    std::vector<std::vector<std::string>> asked[2];
    for (const bool share : {false, true}) {
        options.share = share;
        int n_answers = 0;
        for (int index = 1; index <= kParts; ++index) {
            auto plan = plan_evaluation(tiny().model, tiny().tokenizer, options);
            ASSERT_TRUE(plan.ok()) << plan.status().message();
            const int n_all = plan->n_answers();
            keep_shard(*plan, {index, kParts});
            ASSERT_TRUE(plan->info.shard);
            EXPECT_EQ(plan->info.shard->n_all, n_all);
            EXPECT_EQ(plan->info.shard->n_answers, plan->n_answers());
            n_answers += plan->n_answers();
            std::vector<std::string> & ids = asked[share ? 1 : 0].emplace_back();
            for (const EvalUnit & unit : plan->units) {
                for (const EvalQuestion & question : unit.questions) { ids.push_back(question.key.sample); }
            }
        }
        EXPECT_EQ(n_answers, 6 * 9);
    }
    const std::vector<std::vector<std::string>> wanted = {{"s0", "s1"}, {"s2", "s3"}, {"s4", "s5"}, {}};
    EXPECT_EQ(asked[0], wanted);
    EXPECT_EQ(asked[1], wanted);
}

TEST(Evaluate, SeveralSamplesAtOnceGiveTheSameTable) {
    const FakeTask task("one", fake_samples(5, 2));
    const EvalOptions options = fake_options(task);
    const Ran one = run(options, 1);
    const Ran four = run(options, 4);
    ASSERT_TRUE(one.status.ok() && four.status.ok());
    EXPECT_EQ(by_key(one.answers), by_key(four.answers));
    EXPECT_EQ(one.table, four.table);
}

// Many answers in one batch are the answers of sessions one after the other, whatever is asked, and however it is read: scores
// hang on every token, kept entries and their bytes are told alike. (f32 throughout: ties would show in other types.)
TEST(Evaluate, AnswersThatDecodeTogetherAreTheAnswersOneByOne) {
    auto dialogue = fake_samples(2, 3);
    for (auto & sample : dialogue) {
        for (auto & turn : sample.turns) { turn.follow_up = " of the gold. "; }
    }
    auto choices = fake_samples(3, 2);
    for (auto & sample : choices) {
        for (auto & turn : sample.turns) {
            turn.choices = {" the of the", " and", " was he", " in the to"};
            turn.max_new_tokens = 0;
        }
    }
    auto bare = fake_samples(2, 1);
    for (auto & sample : bare) { sample.turns[0].answer_prefix.clear(); }  // question-aware, nothing is read behind the prompt
    const std::map<std::string, FakeTask> tasks = {{"one", FakeTask("one", fake_samples(5, 1))},
                                                   {"turns", FakeTask("turns", fake_samples(3, 3))},
                                                   {"dialogue", FakeTask("dialogue", dialogue)},
                                                   {"choices", FakeTask("choices", choices)},
                                                   {"bare", FakeTask("bare", bare)}};
    for (const auto & [name, task] : tasks) {
        for (const bool question_aware : {false, true}) {
            EvalOptions options = fake_options(task);
            options.question_aware = question_aware;
            options.keep_prompts = true;
            options.policies.emplace_back("auto");
            options.policies.emplace_back("snapkv:window=30");  // refused by one budget
            SCOPED_TRACE(name + (question_aware ? ", question known" : ""));
            const Ran apart = run(options);
            ASSERT_TRUE(apart.status.ok()) << apart.status.message();
            for (const int n_parallel : {3, 64}) {
                const Ran together = run(options, /*n_jobs=*/n_parallel == 3 ? 2 : 1, tiny(), n_parallel);
                ASSERT_TRUE(together.status.ok()) << together.status.message();
                EXPECT_EQ(by_key(together.answers), by_key(apart.answers));
                EXPECT_EQ(together.table, apart.table);
            }
        }
    }
}

// What is evicted, or comes back, while a choice is read depends on how its tokens come: one by one, as an answer does.
TEST(Evaluate, ChoicesThatAreReadTogetherAreThoseOneByOneAlsoWhereSomethingIsEvictedMeanwhile) {
    auto choices = fake_samples(3, 2, 90);
    for (auto & sample : choices) {
        for (auto & turn : sample.turns) {
            turn.choices = {" the of the", " and was he in the to of and the was in he", " was he"};
            turn.max_new_tokens = 0;
        }
    }
    const FakeTask task("choices", choices);
    for (const bool cold : {false, true}) {
        EvalOptions options = fake_options(task);
        options.policies = {"snapkv:window=4", "keydiff"};
        options.budgets = {Budget(20)};
        options.session.evict_every = 3;
        if (cold) { options.session.cold = KvType::kF16; }
        options.session.look_back = cold;
        const Ran apart = run(options);
        const Ran together = run(options, 1, tiny(), 8);
        ASSERT_TRUE(apart.status.ok() && together.status.ok()) << together.status.message();
        EXPECT_EQ(by_key(together.answers), by_key(apart.answers)) << cold;
    }
}

// Prompts that nobody shares, and evictions while questions are read and answered.
TEST(Evaluate, AnswersThatDecodeTogetherAreTheAnswersOneByOneInEverySchedule) {
    const FakeTask task("turns", fake_samples(3, 2, 90));
    for (const PrefillSchedule prefill : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked, PrefillSchedule::kAuto}) {
        for (const bool guided : {false, true}) {
            for (const int evict_every : {0, 3}) {
                EvalOptions options = fake_options(task);
                options.question_aware = guided;
                options.guided = guided && prefill == PrefillSchedule::kChunked;
                options.share = guided;
                options.policies = {"snapkv:window=4", "adakv:window=4"};
                options.budgets = {Budget(20)};
                options.session.prefill = prefill;
                options.session.evict_every = evict_every;
                for (const bool cold : {false, true}) {
                    if (cold) { options.session.cold = KvType::kF16; }
                    const Ran apart = run(options);
                    const Ran together = run(options, 1, tiny(), 8);
                    ASSERT_TRUE(apart.status.ok() && together.status.ok()) << together.status.message();
                    EXPECT_EQ(by_key(together.answers), by_key(apart.answers))
                        << static_cast<int>(prefill) << " " << guided << " " << evict_every << " " << cold;
                }
            }
        }
    }
}

// The oracle: a session for each answer, and nothing shared.
TEST(Evaluate, ContextOnlyAsksEachTurnOnTheCompressedContext) {
    const FakeTask task("turns", fake_samples(2, 3));
    EvalOptions options = fake_options(task);
    options.policies = {"snapkv:window=4"};
    options.budgets = {Budget(20)};
    const Ran ran = run(options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    ASSERT_EQ(ran.answers.size(), 2U * 3 * 2);
    const auto samples = *task.samples({});
    for (const Answer & answer : ran.answers) {
        const benchmarks::Sample & sample = samples[static_cast<size_t>(answer.index)];
        const benchmarks::Turn & turn = sample.turns[static_cast<size_t>(answer.turn)];
        const auto whole = *tiny().tokenizer.encode(sample.context + turn.question + turn.answer_prefix, true, true);
        const auto context = *tiny().tokenizer.encode(sample.context, true, true);
        size_t n = 0;
        while (n < context.size() && context[n] == whole[n]) { ++n; }
        SessionOptions session_options = options.session_of({answer.policy, answer.budget.empty() ? Budget() : Budget(20)});
        auto session = tiny().model.session(session_options);
        ASSERT_TRUE(session->prefill(std::span(whole).first(n)).ok());
        if (answer.policy != "full") { EXPECT_EQ(answer.kept, 20); }
        ASSERT_TRUE(session->prefill(std::span(whole).subspan(n)).ok());
        std::string text;
        for (int i = 0; i < turn.max_new_tokens; ++i) {
            const int32_t token = *session->decode();
            if (tiny().tokenizer.is_end_of_generation(token)) { break; }
            text += tiny().tokenizer.piece(token);
        }
        EXPECT_EQ(answer.score, testing::text_score(text)) << answer.key();
        EXPECT_EQ(answer.n_prompt, static_cast<int>(whole.size()));
    }
}

// Later turns stand on the gold answers of the earlier ones, never on what was said.
TEST(Evaluate, ADialogueGoesOnFromTheGoldAnswer) {
    auto samples = fake_samples(1, 3);
    for (auto & turn : samples[0].turns) { turn.follow_up = " of the gold. "; }
    const FakeTask task("dialogue", samples);
    EvalOptions options = fake_options(task);
    options.policies = {};
    options.budgets = {};
    const Ran ran = run(options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    ASSERT_EQ(ran.answers.size(), 3U);
    auto session = tiny().model.session(options.session_of({"full", Budget()}));
    ASSERT_TRUE(session.ok());
    const auto plan = plan_evaluation(tiny().model, tiny().tokenizer, options);
    ASSERT_EQ(plan->units.size(), 1U);
    std::vector<int32_t> tokens = plan->units[0].compressed;
    for (size_t t = 0; t < 3; ++t) {
        const EvalQuestion & question = plan->units[0].questions[t];
        tokens.insert(tokens.end(), question.feed.begin(), question.feed.end());
        auto fresh = tiny().model.session(options.session_of({"full", Budget()}));
        ASSERT_TRUE(fresh->prefill(tokens).ok());
        std::string text;
        for (int i = 0; i < 6; ++i) {
            const int32_t token = *fresh->decode();
            if (tiny().tokenizer.is_end_of_generation(token)) { break; }
            text += tiny().tokenizer.piece(token);
        }
        EXPECT_EQ(ran.answers[t].score, testing::text_score(text)) << t;
        EXPECT_EQ(ran.answers[t].n_prompt, static_cast<int>(tokens.size()));
        tokens.insert(tokens.end(), question.follow_up.begin(), question.follow_up.end());
    }
}

// What asks nothing is said, answered by its gold answer, and part of what the next question stands on.
TEST(Evaluate, ATurnThatAsksNothingIsSaidAndNotScored) {
    auto samples = fake_samples(1, 4);
    for (auto & turn : samples[0].turns) { turn.follow_up = " of the gold. "; }
    for (const size_t t : {size_t{0}, size_t{2}}) { samples[0].turns[t].max_new_tokens = 0; }
    const FakeTask some("dialogue", samples);
    const auto plan = plan_evaluation(tiny().model, tiny().tokenizer, fake_options(some));
    for (size_t t = 0; t < 4; ++t) { samples[0].turns[t].max_new_tokens = 6; }
    const FakeTask every("dialogue", samples);
    const auto whole = plan_evaluation(tiny().model, tiny().tokenizer, fake_options(every));
    ASSERT_TRUE(plan.ok() && whole.ok());
    ASSERT_EQ(plan->units.size(), 1U);
    ASSERT_EQ(plan->units[0].questions.size(), 2U);
    EXPECT_EQ(plan->units[0].compressed, whole->units[0].compressed);
    // All that is fed before each question's answer, in both plans.
    const auto fed = [](const EvalUnit & unit, size_t n_questions) {
        std::vector<int32_t> out;
        for (size_t q = 0; q < n_questions; ++q) {
            if (q > 0) {
                out.insert(out.end(), unit.questions[q - 1].follow_up.begin(), unit.questions[q - 1].follow_up.end());
            }
            out.insert(out.end(), unit.questions[q].feed.begin(), unit.questions[q].feed.end());
        }
        return out;
    };
    EXPECT_EQ(plan->units[0].questions[0].key.turn, 1);
    EXPECT_EQ(plan->units[0].questions[1].key.turn, 3);
    EXPECT_EQ(fed(plan->units[0], 1), fed(whole->units[0], 2));
    EXPECT_EQ(fed(plan->units[0], 2), fed(whole->units[0], 4));
}

TEST(Evaluate, TheLikeliestChoiceIsTheOneOfLargestLogLikelihood) {
    auto samples = fake_samples(4, 1);
    for (auto & sample : samples) {
        sample.turns[0].choices = {" the of the", " and", " was he", " in the to"};
        sample.turns[0].max_new_tokens = 0;
    }
    const FakeTask task("choice", samples);
    EvalOptions options = fake_options(task);
    options.policies = {};
    options.budgets = {};
    const Ran ran = run(options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    for (const Answer & answer : ran.answers) {
        const benchmarks::Sample & sample = samples[static_cast<size_t>(answer.index)];
        const std::string prompt = sample.context + sample.turns[0].question + sample.turns[0].answer_prefix;
        const size_t n = tiny().tokenizer.encode(prompt, true, true)->size();
        double best = -1e9;
        std::string likeliest;
        for (const std::string & choice : sample.turns[0].choices) {
            const auto tokens = *tiny().tokenizer.encode(prompt + choice, true, true);
            auto session = tiny().model.session(options.session_of({"full", Budget()}));
            double sum = 0;
            RunHooks hooks;
            hooks.on_logits = [&](int64_t position, std::span<const float> logits) {
                const auto next = static_cast<size_t>(position) + 1;
                if (next < n || next >= tokens.size()) { return; }
                double total = 0;
                for (const float logit : logits) { total += std::exp(static_cast<double>(logit)); }
                sum += logits[static_cast<size_t>(tokens[next])] - std::log(total);
            };
            ASSERT_TRUE(session->prefill(tokens, hooks).ok());
            if (sum > best) {
                best = sum;
                likeliest = choice;
            }
        }
        EXPECT_EQ(answer.prediction, likeliest);
        EXPECT_TRUE(answer.score_per_character.has_value());
    }
}

// Each prompt once where cases share it, else once a case, whether it is read, refused, or was kept; a run that goes on reads
// what it has no answers to.
TEST(Evaluate, SaysHowManyTokensOfPromptsAreReadAndAreToBe) {
    const FakeTask task("one", fake_samples(3, 2));
    const auto expect_all_told = [&](const EvalOptions & options, int n_parallel) {
        const auto plan = plan_evaluation(tiny().model, tiny().tokenizer, options);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        int64_t n_tokens = 0;
        for (const EvalUnit & unit : plan->units) { n_tokens += std::ssize(unit.compressed); }
        const int64_t n_all = n_tokens * (options.share ? 1 : std::ssize(plan->cases));
        const auto folder = RunFolder::open("", info_of(*plan));
        std::vector<int64_t> told;
        EvalHooks hooks;
        hooks.n_parallel = n_parallel;
        hooks.read = [&](int64_t n_done, int64_t n_total) {
            EXPECT_EQ(n_total, n_all);
            told.push_back(n_done);
        };
        ASSERT_TRUE(run_evaluation(tiny().model, tiny().tokenizer, options, *plan, **folder, hooks).ok());
        ASSERT_FALSE(told.empty());
        EXPECT_TRUE(std::ranges::is_sorted(told));
        EXPECT_EQ(told.back(), n_all) << options.share << " " << n_parallel;
        told.clear();
        ASSERT_TRUE(run_evaluation(tiny().model, tiny().tokenizer, options, *plan, **folder, hooks).ok());
        EXPECT_TRUE(told.empty()) << "all is answered";
    };
    for (const bool share : {true, false}) {
        for (const int n_parallel : {1, 5}) {
            EvalOptions options = fake_options(task);
            options.share = share;
            expect_all_told(options, n_parallel);
            options.policies = {"snapkv:window=30", "streaming"};
            options.budgets = {Budget(20)};  // which the first cannot be held in
            expect_all_told(options, n_parallel);
        }
    }
    EvalOptions options = fake_options(task);
    options.prefill_cache = testing::scratch_file("prefills").string();
    std::filesystem::create_directory(options.prefill_cache);
    expect_all_told(options, 1);
    expect_all_told(options, 1);
}

TEST(Evaluate, ARunThatStopsGoesOnWhereItWasAndCountsNothingTwice) {
    const FakeTask task("one", fake_samples(4, 2));
    const EvalOptions options = fake_options(task);
    const Ran whole = run(options);
    const std::string path = testing::scratch_file("stopped").string();
    const auto plan = plan_evaluation(tiny().model, tiny().tokenizer, options);
    std::string table;
    int n_runs = 0;
    for (bool finished = false; !finished && n_runs < 20; ++n_runs) {  // now one by one, now together

        auto folder = RunFolder::open(path, info_of(*plan));
        ASSERT_TRUE(folder.ok()) << folder.status().message();
        std::atomic<bool> cancel{false};
        EvalHooks hooks;
        hooks.cancel = &cancel;
        hooks.n_parallel = n_runs % 2 == 0 ? 1 : 5;
        int n_here = 0;
        hooks.progress = [&](int, int) { cancel = ++n_here == 9; };
        finished = run_evaluation(tiny().model, tiny().tokenizer, options, *plan, **folder, hooks).ok();
        const auto & answers = (*folder)->answers();
        EXPECT_EQ(by_key(answers).size(), answers.size());
        table = eval_csv(make_eval_table((*folder)->info(), answers));
    }
    EXPECT_GT(n_runs, 2);
    EXPECT_EQ(table, whole.table);
}

TEST(Evaluate, WhatABudgetCannotHoldIsSaidAndTheRestGoesOn) {
    const FakeTask task("one", fake_samples(2, 1));
    EvalOptions options = fake_options(task);
    options.policies = {"snapkv:window=30", "streaming"};
    options.budgets = {Budget(20)};
    for (const bool share : {true, false}) {
        options.share = share;
        const Ran ran = run(options);
        ASSERT_TRUE(ran.status.ok()) << ran.status.message();
        const auto n_refused =
            std::count_if(ran.answers.begin(), ran.answers.end(), [](const Answer & a) { return !a.refused.empty(); });
        EXPECT_EQ(n_refused, 2);
        EXPECT_EQ(ran.answers.size(), 6U);
        EXPECT_NE(ran.table.find("protects 3"), std::string::npos) << ran.table;
    }
}

TEST(Evaluate, ASampleLongerThanTheModelIsLeftOutOrItsMiddleCutAsItsRulesSay) {
    auto samples = fake_samples(3, 1);
    samples[1].context = testing::some_words(400, 1);
    FakeTask task("long", samples);
    EvalOptions options = fake_options(task);
    options.policies = {"streaming"};
    options.budgets = {Budget(20)};
    options.n_ctx = 200;
    const Ran refused = run(options);
    ASSERT_TRUE(refused.status.ok()) << refused.status.message();
    EXPECT_EQ(refused.answers.size(), 1U + 2 * 2);
    const RunInfo info = info_of(*plan_evaluation(tiny().model, tiny().tokenizer, options));
    const EvalTable table = make_eval_table(info, refused.answers);
    ASSERT_EQ(table.skips.size(), 1U);
    EXPECT_EQ(table.skips[0].n_left_out, 1);

    task.change().too_long = benchmarks::TooLong::kMiddle;
    const Ran cut = run(options);
    ASSERT_TRUE(cut.status.ok()) << cut.status.message();
    EXPECT_EQ(cut.answers.size(), 3U * 2);
    for (const Answer & answer : cut.answers) {
        EXPECT_LE(answer.n_prompt, 200);
        EXPECT_EQ(answer.n_cut > 0, answer.index == 1);
    }
}

// A task all of whose samples are too long is left out as a whole; nothing that fits at all is an error.
TEST(Evaluate, ATaskWithoutASampleThatFitsIsLeftOutAndTheOthersAreAsked) {
    auto samples = fake_samples(2, 1);
    const FakeTask fits("fits", samples);
    for (auto & sample : samples) { sample.context = testing::some_words(400, 1); }
    const FakeTask too_long("long", samples);
    EvalOptions options = fake_options(fits);
    options.tasks.push_back(&too_long);
    options.policies = {"streaming"};
    options.budgets = {Budget(20)};
    options.n_ctx = 200;
    const auto plan = plan_evaluation(tiny().model, tiny().tokenizer, options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_EQ(plan->left_out.size(), 3U);
    EXPECT_EQ(plan->left_out[2].sample, "") << "the task as a whole, after its two samples";
    for (const char * word : {"task 'long' has no sample that fits", "the limit is 200", "(--ctx-size)"}) {
        EXPECT_NE(plan->left_out[2].refused.find(word), std::string::npos) << plan->left_out[2].refused;
    }
    const Ran ran = run(options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    const EvalTable table = make_eval_table(plan->info, ran.answers);
    ASSERT_EQ(table.skips.size(), 1U);
    EXPECT_EQ(table.skips[0].task, "long");
    EXPECT_EQ(table.skips[0].n_left_out, 2);

    options.tasks = {&too_long};
    const Status none = run(options).status;
    EXPECT_EQ(none.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(none.message().find("task 'long' has no sample that fits"), std::string::npos) << none.message();
    EXPECT_NE(none.message().find("give a larger --ctx-size"), std::string::npos) << none.message();
}

TEST(Evaluate, SamplesOnOneContextShareItsPrefill) {
    auto samples = fake_samples(3, 1);
    for (auto & sample : samples) { sample.context = samples[0].context; }
    const FakeTask task("same", samples);
    EvalOptions options = fake_options(task);
    EXPECT_EQ(plan_evaluation(tiny().model, tiny().tokenizer, options)->units.size(), 1U);
    const Ran shared = run(options);
    options.share = false;
    EXPECT_EQ(plan_evaluation(tiny().model, tiny().tokenizer, options)->units.size(), 3U);
    EXPECT_EQ(shared.table, run(options).table);
}

TEST(Evaluate, ChunkedPrefillRunsEachPolicyByItself) {
    const FakeTask task("one", fake_samples(2, 1, 80));
    EvalOptions options = fake_options(task);
    options.session.prefill = PrefillSchedule::kChunked;
    options.budgets = {Budget(24)};
    const Ran ran = run(options);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    for (const Answer & answer : ran.answers) {
        if (answer.policy != "full") { EXPECT_EQ(answer.kept, 24) << answer.policy; }
    }
}

// As `pith run` chooses: one shot where the question is in sight, chunks where it comes later.
TEST(Evaluate, AutoPrefillFollowsTheQuestion) {
    const FakeTask task("one", fake_samples(2, 1, 200));
    for (const bool question_aware : {true, false}) {
        EvalOptions options = fake_options(task);
        options.policies = {"snapkv:window=4", "h2o"};
        options.budgets = {Budget(40)};
        options.session.chunk = 32;
        options.question_aware = question_aware;
        const auto read = [&](PrefillSchedule schedule) {
            options.session.prefill = schedule;
            return by_key(run(options).answers);
        };
        const auto one_shot = read(PrefillSchedule::kOneShot);
        const auto chunked = read(PrefillSchedule::kChunked);
        EXPECT_NE(one_shot, chunked) << "the test sees a difference";
        EXPECT_EQ(read(PrefillSchedule::kAuto), question_aware ? one_shot : chunked);
    }
}

TEST(Evaluate, RefusesWhatCannotBeAsked) {
    auto samples = fake_samples(2, 1);
    samples[1].id = samples[0].id;
    const FakeTask twice("twice", samples);
    EXPECT_NE(run(fake_options(twice)).status.message().find("two samples 's0'"), std::string::npos);
    const FakeTask task("one", fake_samples(1, 1));
    EvalOptions options = fake_options(task);
    options.lengths = {100000};
    EXPECT_NE(run(options).status.message().find("--context 100000 is more than the 2048"), std::string::npos);
    options = fake_options(task);
    options.budgets = {};
    EXPECT_NE(run(options).status.message().find("needs a budget"), std::string::npos);
}

TEST(Evaluate, AnotherArchitectureRunsThrough) {
    RandomModelSpec spec = testing::tiny_spec();
    spec.arch = "qwen3moe";
    spec.n_experts = 4;
    spec.n_experts_used = 2;
    spec.n_ff_expert = 64;
    ModelAndTokenizer moe = testing::load_tiny(spec, "moe.gguf");
    const FakeTask task("one", fake_samples(2, 1));
    const Ran ran = run(fake_options(task), 2, moe);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    EXPECT_EQ(ran.answers.size(), 2U * 9);
}

// What a kept prompt depends on: runs with other head importances in turns do not take each other's files away.
TEST(KeptPrefill, WithOtherHeadImportancesIsAnotherFile) {
    const testing::TempFolder folder;
    const Model & model = tiny().model;
    const auto tokens = testing::random_tokens(120, model.info().n_vocab);
    const auto n_heads = static_cast<size_t>(model.info().n_layers) * static_cast<size_t>(model.info().n_heads);
    for (const double last : {0.1, 0.9, 0.1}) {
        auto heads = std::make_shared<HeadImportance>();
        heads->copy.assign(n_heads, 0.5);
        heads->reason.assign(n_heads, 0.5);
        heads->copy.back() = last;
        SessionOptions options;
        options.policy = "headkv";
        options.budget = 64;
        options.heads = heads;
        options.n_threads = 1;
        auto session = model.session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        const Status read = prefill_or_open(model, *session, options, tokens, {}, folder.file(""));
        ASSERT_TRUE(read.ok()) << read.message();
        EXPECT_EQ(session->n_tokens(), 120);
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.file("")), std::filesystem::directory_iterator()), 2);
}

}  // namespace
}  // namespace pith::evaluate_test
