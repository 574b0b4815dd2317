// sample_pairs.cpp - joins pieces to prompts, and references to answers. Stage: eval.
#include "eval/sample_pairs.h"

#include <algorithm>
#include <cctype>

#include "core/text.h"

namespace pith {
namespace {

constexpr const char * kCountsReferences = "share of references found";  // TaskRules::metric

std::string answer_of(const FileSample & one, const benchmarks::Turn & turn) {
    if (one.task == nullptr || one.task->rules().metric != kCountsReferences) { return turn.references.front(); }
    return join(turn.references, ", ");
}

bool is_blank(char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

std::vector<SamplePair> sample_pairs(const FileSample & one, const PairFrame & frame) {
    const auto & turns = one.sample.turns;
    const bool dialogue = std::ranges::any_of(turns, [](const auto & turn) { return !turn.follow_up.empty(); });
    std::vector<SamplePair> pairs;
    const std::string head = frame.before_user + one.sample.context;
    std::string before = head;
    for (const benchmarks::Turn & turn : turns) {
        const std::string prompt = before + turn.question + frame.after_user + turn.answer_prefix;
        if (turn.asks() && !turn.references.empty() && !turn.references.front().empty()) {
            std::string completion = answer_of(one, turn);
            const bool apart = prompt.empty() || is_blank(prompt.back()) || is_blank(completion.front());
            pairs.push_back({prompt, (apart ? "" : " ") + completion});
        }
        before = dialogue ? prompt + turn.follow_up + frame.between : head;
    }
    return pairs;
}

}  // namespace pith
