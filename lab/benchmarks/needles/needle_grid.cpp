// needle_grid.cpp - Kamradt's needle in a haystack: one sentence in essays, at a grid of depths. Stage: benchmarks.
// Pure C++. The grid's other side, the length, is SampleRequest::n_tokens.
//
// n_samples depths, evenly from 0 to 100 per cent, both included, rounded (0: 35; more than 101 are 101). The needle goes in at
// that share of the essay's words, moved back to just after a full stop; at 100 it ends the essay. Two tasks on the same
// prompts: `needle` scores the share of the expected answer's different words that the prediction holds, as words between white
// space (KVCache-Factory scripts/scripts_needle/visualize.py); `needle_contains` whether it holds the answer (KVzip), both
// without case, punctuation, articles.
// Source:  gkamradt/LLMTest_NeedleInAHaystack (needle, depths, insertion); Zefan-Cai/KVCache-Factory (prompt, without its chat
// mark). Differs: depth counts words, not tokens; the essay is as long as the limit allows (Kamradt leaves 200 tokens for
// question and answer);
//          64 new tokens (KVCache-Factory: 30), so that small vocabularies can finish the sentence.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "benchmarks/families.h"
#include "benchmarks/generate/essay.h"
#include "benchmarks/generate/fit.h"
#include "benchmarks/metrics/answer_f1.h"
#include "benchmarks/metrics/unicode.h"
#include "tasks/concat.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;

constexpr std::string_view kNeedle =
    "\nThe best thing to do in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day.\n";
constexpr std::string_view kAnswer = "eat a sandwich and sit in Dolores Park on a sunny day.";
constexpr std::string_view kBefore = "This is a very long story book: <book> ";
constexpr std::string_view kAfter = " </book>.\n";
constexpr std::string_view kQuestion =
    " Based on the content of the book, Question: The best thing to do in San Francisco is: \n";
constexpr std::string_view kPrefix = "Answer:";
constexpr int kNewTokens = 64;
constexpr int kDepths = 35;
constexpr int kMostDepths = 101;

std::set<std::u32string> words_of(std::string_view text) {
    std::set<std::u32string> out;
    const std::u32string lowered = lower(code_points(text));
    for (const auto word : split_words(lowered)) { out.emplace(word); }
    return out;
}

double share_of_words(std::string_view prediction) {
    const auto expected = words_of(kAnswer);
    const auto said = words_of(prediction);
    const auto found = std::count_if(expected.begin(), expected.end(), [&](const auto & word) { return said.contains(word); });
    return static_cast<double>(found) / static_cast<double>(expected.size());
}

double contains_answer(std::string_view prediction) {
    return normalized_answer(prediction).find(normalized_answer(kAnswer)) != std::u32string::npos ? 1 : 0;
}

std::string context_of(const Essay & essay, int n_words, int depth) {
    int place = static_cast<int>(static_cast<int64_t>(n_words) * depth / 100);
    while (place > 0 && place < n_words && !essay.word(place - 1).ends_with('.')) { --place; }
    return concat({kBefore, essay.words(0, place), kNeedle, essay.words(place, n_words), kAfter});
}

class NeedleGridTask final : public Task {
public:
    using Score = double (*)(std::string_view prediction);

    NeedleGridTask(std::string_view name, std::string_view help, std::string_view metric, Score how) : score_(how) {
        rules_.name = name;
        rules_.family = "needle";
        rules_.help = help;
        rules_.metric = metric;
        rules_.group_by = {"depth"};
    }

    const TaskRules & rules() const override { return rules_; }

    Result<std::vector<Sample>> samples(const SampleRequest & request) const override {
        if (request.n_tokens <= 0 || !request.count) {
            return {ErrorCode::kInvalidArgument, "task '" + rules_.name + "' is generated to a length: give n_tokens"};
        }
        PITH_ASSIGN_OR_RETURN(const Essay essay,
                              Essay::make(request.haystack, request.seed, 0, request.n_tokens, Spacing::kKept));
        const int n = request.n_samples > 0 ? std::min(request.n_samples, kMostDepths) : kDepths;
        std::vector<Sample> samples;
        for (int i = 0; i < n; ++i) {
            const int depth = n > 1 ? static_cast<int>(std::lround(100.0 * i / (n - 1))) : 50;
            PITH_ASSIGN_OR_RETURN(Sample sample, make(request, essay, depth));
            samples.push_back(std::move(sample));
        }
        return samples;
    }

    double score(const Sample & /*sample*/, const Turn & /*turn*/, std::string_view prediction) const override {
        return score_(prediction);
    }

private:
    Result<Sample> make(const SampleRequest & request, const Essay & essay, int depth) const {
        const Fit found = most_that_fit(1, essay.n_words(), request.n_tokens - kNewTokens, [&](int n) {
            return request.count(concat({context_of(essay, n, depth), kQuestion, kPrefix}));
        });
        if (found.n_units < 0) { return too_small(rules_.name, found.n_tokens + kNewTokens, request.n_tokens); }
        Sample sample;
        sample.id = "depth-" + std::to_string(depth);
        sample.context = context_of(essay, found.n_units, depth);
        sample.groups["depth"] = std::to_string(depth);
        sample.turns.push_back({std::string(kQuestion), std::string(kPrefix), {std::string(kAnswer)}, kNewTokens, {}, {}});
        return sample;
    }

    TaskRules rules_;
    Score score_;
};

}  // namespace

Tasks needle_tasks() {
    Tasks tasks;
    tasks.push_back(std::make_unique<NeedleGridTask>("needle", "a sentence in essays at each depth: words of it found",
                                                     "share of the answer's words", share_of_words));
    tasks.push_back(std::make_unique<NeedleGridTask>("needle_contains", "a sentence in essays at each depth: all of it found",
                                                     "answer contained", contains_answer));
    return tasks;
}

}  // namespace pith::benchmarks
