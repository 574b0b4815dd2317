// needlebench.cpp - NeedleBench (V2, English): one needle, eleven needles, and needles that must be joined by reasoning. Stage:
// benchmarks. Pure C++.
//
//   single_retrieval  one sentence about an island and what is hidden there; depth 0, 10 … 100 %
//   multi_retrieval   eleven of them, one at each of these depths, all asked; the score is the share of items named
//   multi_reasoning   two to five sentences about kin, a tenth of the document apart from `depth` on; who is the eldest?
// Score:   an item's name in the prediction, case kept; reasoning: the last \boxed{…} is the name.
// Paper:   NeedleBench (Li et al., 2025).   Source: open-compass/opencompass opencompass/datasets/needlebench_v2.
// Differs: the worked examples of reasoning are put in other words; islands, items and names are drawn here from lists of the
// project's own; depth counts words, not tokens; documents are as long as the limit
//          allows (there: 500 tokens are left); new tokens are fixed here (there: the model's configuration); a cycle of
//          samples goes through its depths, and numbers of needles, in random order, so that a few samples are spread over
//          them.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "benchmarks/families.h"
#include "benchmarks/generate/essay.h"
#include "benchmarks/generate/fit.h"
#include "benchmarks/needles/kinship.h"
#include "tasks/concat.h"
#include "tasks/word_lists.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;
using corpus::Random;

constexpr int kDepths = 11;  // 0, 10 … 100 per cent
constexpr int kRepeats = 10;
constexpr int kLeastKin = 2;
constexpr int kMostKin = 5;
constexpr int kKinStep = 10;  // per cent between two of them

// Sentences in a document, each on its own line, at shares of its words.
struct Hidden {
    std::string text;
    int depth;  // per cent
};

// Everything of a sample but the haystack.
struct Frame {
    std::string instruction;
    std::vector<Hidden> hidden;  // ascending by depth
    std::string question;
    std::vector<std::string> references;
    std::map<std::string, std::string> groups;
    int max_new_tokens;
};

std::string context_of(const Frame & frame, const Essay & essay, int n_words) {
    std::string document;
    int from = 0;
    for (const Hidden & hidden : frame.hidden) {
        const int place = static_cast<int>(static_cast<int64_t>(n_words) * hidden.depth / 100);
        document += concat({essay.words(from, place), "\n", hidden.text, "\n"});
        from = place;
    }
    document += essay.words(from, n_words);
    return concat(
        {frame.instruction, "\nThe content of the long document is as follows\n\n<Document>\n", document, "\n</Document>\n\n"});
}

Result<Sample> fit(std::string_view task, Frame frame, const Essay & essay, int index, const SampleRequest & request) {
    const Fit found = most_that_fit(1, essay.n_words(), request.n_tokens - frame.max_new_tokens,
                                    [&](int n) { return request.count(context_of(frame, essay, n) + frame.question); });
    if (found.n_units < 0) { return too_small(task, found.n_tokens + frame.max_new_tokens, request.n_tokens); }
    Sample sample;
    sample.id = std::to_string(index);
    sample.context = context_of(frame, essay, found.n_units);
    sample.groups = std::move(frame.groups);
    sample.turns.push_back({std::move(frame.question), {}, std::move(frame.references), frame.max_new_tokens, {}, {}});
    return sample;
}

// The user's text from another word on in every cycle; the generator's stories are others in every cycle.
Result<Essay> essay_of(const SampleRequest & request, int cycle, Random random) {
    std::string text = request.haystack;
    if (cycle > 0 && !text.empty()) {
        const size_t at = text.find_first_of(" \n", static_cast<size_t>(random.uniform() * static_cast<double>(text.size())));
        if (at != std::string::npos) {
            text = concat({std::string_view(text).substr(at + 1), "\n", std::string_view(text).substr(0, at)});
        }
    }
    return Essay::make(text, request.seed, static_cast<uint64_t>(cycle), request.n_tokens, Spacing::kKept);
}

std::string capitalized(std::string_view word) {
    std::string out(word);
    out[0] = static_cast<char>(out[0] - 'a' + 'A');
    return out;
}

struct Treasure {
    std::string island;
    std::string item;
};

// Islands and items that share no word.
std::vector<Treasure> draw_treasures(Random & random, int n) {
    const auto first = random.draw(2 * n, static_cast<int>(corpus::adjectives().size()));
    const auto items = random.draw(2 * n, static_cast<int>(corpus::nouns().size()));
    const auto word = [](std::span<const std::string_view> list, int i) { return capitalized(list[static_cast<size_t>(i)]); };
    std::vector<Treasure> out;
    for (size_t i = 0; i < first.size(); i += 2) {
        out.push_back({concat({word(corpus::adjectives(), first[i]), " ", word(corpus::nouns(), items[i]), " Island"}),
                       concat({word(corpus::adjectives(), first[i + 1]), " ", word(corpus::nouns(), items[i + 1])})});
    }
    return out;
}

std::string treasure_needle(const Treasure & treasure) {
    return concat({"The legendary item hidden on the ", treasure.island, " is the legendary ", treasure.item, "."});
}

std::string treasure_question(const Treasure & treasure) {
    return concat({"What legendary item is hidden on the ", treasure.island, "?"});
}

std::string treasure_form(const Treasure & treasure) {
    return concat({"The legendary item hidden on the ", treasure.island, " is ______"});
}

std::string ask(std::string_view question) {
    return concat({"Based on the information in the document, now please answer: ", question, "\n"});
}

Frame single_frame(Random & random, int depth) {
    const Treasure treasure = draw_treasures(random, 1)[0];
    Frame frame;
    frame.instruction =
        "This is a test of long-text capability. You need to first read the long document below, and then answer the final "
        "question "
        "based on the information in the document.";
    frame.hidden = {{treasure_needle(treasure), depth}};
    frame.question =
        ask(concat({treasure_question(treasure), " Please answer in the format '", treasure_form(treasure), ".'"}));
    frame.references = {treasure.item};
    frame.groups["depth"] = std::to_string(depth);
    frame.max_new_tokens = 64;
    return frame;
}

Frame multi_frame(Random & random) {
    Frame frame;
    frame.instruction =
        "This is a test of long-text capability. You need to first read the long document below, and then answer the final "
        "questions "
        "one by one based on the information in the document.";
    std::string questions;
    std::string forms;
    for (const Treasure & treasure : draw_treasures(random, kDepths)) {
        const int depth = static_cast<int>(frame.hidden.size()) * 10;
        frame.hidden.push_back({treasure_needle(treasure), depth});
        frame.references.push_back(treasure.item);
        const std::string_view comma = depth > 0 ? "、" : "";
        questions += concat({comma, treasure_question(treasure)});
        forms += concat({comma, treasure_form(treasure)});
    }
    frame.question = ask(concat({questions, "Please answer in the format of '", forms, "'"}));
    frame.max_new_tokens = 300;
    return frame;
}

Frame reasoning_frame(Random & random, int depth, int n_needles) {
    const KinChain chain = draw_kin_chain(random, n_needles);
    Frame frame;
    frame.instruction =
        "This is a test of long-text capability. You need to first read the long document below, and then answer the final "
        "question "
        "based on the information in the document.";
    for (const auto & sentence : chain.sentences) {
        frame.hidden.push_back({sentence, std::min(depth + static_cast<int>(frame.hidden.size()) * kKinStep, 100)});
    }
    frame.question = ask(concat({kin_question(chain.youngest), "\n", kin_notes(chain.youngest)}));
    frame.references = {chain.eldest};
    frame.groups["depth"] = std::to_string(depth);
    frame.groups["needles"] = std::to_string(n_needles);
    frame.max_new_tokens = 300;
    return frame;
}

double share_of_items(const Turn & turn, std::string_view prediction) {
    const auto found = std::count_if(turn.references.begin(), turn.references.end(),
                                     [&](const auto & item) { return prediction.find(item) != std::string_view::npos; });
    return static_cast<double>(found) / static_cast<double>(std::max<size_t>(turn.references.size(), 1));
}

double boxed_name(const Turn & turn, std::string_view prediction) {
    return !turn.references.empty() && boxed_answer(prediction) == turn.references[0] ? 1 : 0;
}

// A task goes through its cases, n_cases a cycle.
struct Kind {
    std::string_view name;
    std::string_view help;
    std::string_view metric;
    int n_cases;
    std::vector<std::string> group_by;
    Frame (*frame)(Random & random, int which);
    double (*score)(const Turn & turn, std::string_view prediction);
};

class NeedleBenchTask final : public Task {
public:
    explicit NeedleBenchTask(Kind kind) : kind_(std::move(kind)) {
        rules_.name = kind_.name;
        rules_.family = "needlebench";
        rules_.help = kind_.help;
        rules_.metric = kind_.metric;
        rules_.group_by = kind_.group_by;
    }

    const TaskRules & rules() const override { return rules_; }

    Result<std::vector<Sample>> samples(const SampleRequest & request) const override {
        if (request.n_tokens <= 0 || !request.count) {
            return {ErrorCode::kInvalidArgument, "task '" + rules_.name + "' is generated to a length: give n_tokens"};
        }
        const int n = request.n_samples > 0 ? request.n_samples : kRepeats * std::max(kind_.n_cases, kDepths);
        std::vector<Sample> samples;
        for (int cycle = 0; static_cast<int>(samples.size()) < n; ++cycle) {
            Random random = sample_random("needlebench/" + rules_.name, request.seed, static_cast<uint64_t>(cycle));
            PITH_ASSIGN_OR_RETURN(const Essay essay, essay_of(request, cycle, Random(random.next())));
            for (const int which : random.draw(kind_.n_cases, kind_.n_cases)) {
                const auto index = static_cast<int>(samples.size());
                if (index == n) { break; }
                PITH_ASSIGN_OR_RETURN(Sample sample, fit(rules_.name, kind_.frame(random, which), essay, index, request));
                samples.push_back(std::move(sample));
            }
        }
        return samples;
    }

    double score(const Sample & /*sample*/, const Turn & turn, std::string_view prediction) const override {
        return kind_.score(turn, prediction);
    }

private:
    Kind kind_;
    TaskRules rules_;
};

}  // namespace

Tasks needlebench_tasks() {
    Tasks tasks;
    tasks.push_back(
        std::make_unique<NeedleBenchTask>(Kind{"single_retrieval",
                                               "one needle at each depth",
                                               "item named",
                                               kDepths,
                                               {"depth"},
                                               [](Random & random, int which) { return single_frame(random, 10 * which); },
                                               share_of_items}));
    tasks.push_back(std::make_unique<NeedleBenchTask>(Kind{"multi_retrieval",
                                                           "eleven needles at eleven depths, all asked",
                                                           "share of items named",
                                                           1,
                                                           {},
                                                           [](Random & random, int /*which*/) { return multi_frame(random); },
                                                           share_of_items}));
    constexpr int kNumbers = kMostKin - kLeastKin + 1;
    tasks.push_back(std::make_unique<NeedleBenchTask>(Kind{"multi_reasoning",
                                                           "two to five needles about kin: who is the eldest",
                                                           "name in the box",
                                                           kDepths * kNumbers,
                                                           {"needles", "depth"},
                                                           [](Random & random, int which) {
                                                               return reasoning_frame(random, 10 * (which / kNumbers),
                                                                                      kLeastKin + which % kNumbers);
                                                           },
                                                           boxed_name}));
    return tasks;
}

}  // namespace pith::benchmarks
