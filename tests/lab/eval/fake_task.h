// fake_task.h - a benchmark of a few samples whose scores hang on every token said, and models to ask.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/benchmark.h"
#include "engine/tiny_model.h"
#include "eval/evaluate.h"
#include "pith/model.h"
#include "pith/text.h"

namespace pith::testing {

// A number in 0 … 1 that another text almost surely does not share.
inline double text_score(std::string_view text) {
    uint32_t hash = 2166136261U;
    for (const char c : text) { hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U; }
    return hash % 1000 / 1000.0;
}

class FakeTask final : public benchmarks::Task {
public:
    FakeTask(std::string name, std::vector<benchmarks::Sample> samples) : samples_(std::move(samples)) {
        rules_.name = std::move(name);
        rules_.family = "fake";
        rules_.metric = "hash of the text";
        rules_.group_by = {"depth"};
    }
    benchmarks::TaskRules & change() { return rules_; }
    const benchmarks::TaskRules & rules() const override { return rules_; }
    Result<std::vector<benchmarks::Sample>> samples(const benchmarks::SampleRequest &) const override { return samples_; }
    double score(const benchmarks::Sample &, const benchmarks::Turn &, std::string_view prediction) const override {
        return text_score(prediction);
    }

private:
    benchmarks::TaskRules rules_;
    std::vector<benchmarks::Sample> samples_;
};

// Deterministic, about n words.
inline std::string some_words(int n, int seed) {
    const char * const kWords[] = {"the ", "and ", "of ", "to ", "in ", "was ", "he ", "she "};
    std::string text;
    for (int i = 0; i < n; ++i) { text += kWords[static_cast<size_t>((i * i + seed * 7 + i) % 8)]; }
    return text;
}

inline std::vector<benchmarks::Sample> fake_samples(int n, int n_turns, int n_words = 40) {
    std::vector<benchmarks::Sample> samples;
    for (int i = 0; i < n; ++i) {
        benchmarks::Sample sample;
        sample.id = "s" + std::to_string(i);
        sample.context = some_words(n_words, i);
        sample.groups = {{"depth", std::to_string(i % 2 * 50)}};
        for (int t = 0; t < n_turns; ++t) {
            benchmarks::Turn turn;
            turn.question = "to the " + some_words(3, i + t);
            turn.answer_prefix = "in";
            turn.max_new_tokens = 6;
            sample.turns.push_back(std::move(turn));
        }
        samples.push_back(std::move(sample));
    }
    return samples;
}

struct ModelAndTokenizer {
    Model model;
    Tokenizer tokenizer;
};

inline ModelAndTokenizer load_tiny(const RandomModelSpec & spec, const std::string & name) {
    const std::string path = scratch_file(name).string();
    EXPECT_TRUE(write_random_model(spec, path).ok());
    auto model = Model::load(path);
    auto tokenizer = Tokenizer::load(path);
    EXPECT_TRUE(model.ok() && tokenizer.ok());
    return {std::move(*model), std::move(*tokenizer)};
}

inline EvalOptions fake_options(const benchmarks::Task & task) {
    EvalOptions options;
    options.family = "fake";
    options.tasks = {&task};
    options.policies = {"snapkv:window=4", "h2o:recent=4", "adakv:window=4", "streaming"};
    options.budgets = {Budget(20), Budget(BudgetKind::kPercent, 30)};
    options.session.n_threads = 1;
    options.session.type_k = options.session.type_v = KvType::kF32;
    options.session.chunk = 32;
    return options;
}

}  // namespace pith::testing
