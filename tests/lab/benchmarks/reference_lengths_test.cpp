// reference_lengths_test.cpp - generated tasks at the reference model's lengths, counted by its own tokeniser.
#include <gtest/gtest.h>

#include "benchmarks/benchmark.h"
#include "lab/benchmarks/reader.h"
#include "pith/text.h"

namespace pith::benchmarks::reference_lengths_test {
namespace {

TEST(ReferenceTokenizer, FitsEveryRulerAndNeedleTaskWithinTwoPerCent) {
    const auto tokenizer = Tokenizer::load(PITH_SOURCE_DIR "/models/pith-reference.gguf");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    SampleRequest request;
    request.n_samples = 2;
    request.count = [&](std::string_view text) { return static_cast<int>(tokenizer->encode(text, false, false)->size()); };
    for (const auto & task : all_tasks()) {
        const TaskRules & rules = task->rules();
        if (!rules.file.empty() || rules.family == "needlebench" || rules.family == "world") { continue; }
        for (const int n_tokens : {1024, 2048, 4096}) {
            request.n_tokens = n_tokens;
            const auto samples = task->samples(request);
            ASSERT_TRUE(samples.ok()) << samples.status().message();
            for (const auto & sample : *samples) {
                const Turn & turn = sample.turns[0];
                const int n = request.count(sample.context + turn.question + turn.answer_prefix) + turn.max_new_tokens;
                EXPECT_LE(n, n_tokens) << rules.name;
                EXPECT_GE(n, n_tokens - n_tokens / 50) << rules.name;
                EXPECT_EQ(task->score(sample, turn, testing::read_answer(*task, sample)), 1) << rules.name;
            }
        }
    }
}

}  // namespace
}  // namespace pith::benchmarks::reference_lengths_test
