// world_tasks.cpp - small worlds in plain sentences: facts, facts that need another fact first, conversations, and passages to
// repeat. Stage: benchmarks. Pure C++.
//
// The language is the one that the built-in models were trained on (corpus/worlds.h), so that they can be asked things whose
// right answer is known; any other model reads it as plain English.
//   facts         24 facts in a story that fills the length; four are asked for, each behind the context alone
//   two_hop       who owns a thing and something of each owner; four owners are asked about by what they own
//   conversation  a world is told, then a dialogue until eight questions were asked: facts, what was corrected or added later,
//                 and things that nobody said. What the user tells in between is answered by the gold answer, and not scored.
//   passage       200 words to repeat; the answer's first four words are given. Score: the longest common subsequence of words,
//                 as a share of the passage
// Held out: statements and questions are paired as training never pairs them (worlds.h), and no wording of a request is one of
// training's.
// Source: the project's own.   Threads: const after making.
#include <algorithm>
#include <array>
#include <cctype>

#include "benchmarks/families.h"
#include "benchmarks/generate/essay.h"
#include "benchmarks/generate/fit.h"
#include "benchmarks/metrics/lcs.h"
#include "benchmarks/metrics/unicode.h"
#include "corpus/conversations.h"
#include "corpus/training_wording.h"
#include "tasks/concat.h"
#include "tasks/wording.h"
#include "tasks/worlds.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;
using corpus::Fact;
using corpus::Random;

constexpr int kFacts = 24;
constexpr int kAsked = 4;
constexpr int kTalkFacts = 12;
constexpr int kTalkQuestions = 8;
constexpr int kShortAnswer = 8;      // new tokens
constexpr int kSentenceAnswer = 20;  // new tokens
constexpr int kPassageWords = 200;
constexpr int kGivenWords = 4;
constexpr int kMostSentences = 1 << 14;
constexpr std::string_view kTellMe = "Read the following and remember it.";
constexpr std::string_view kRepeat = "Repeat the following passage, word for word:";
// The line of the training documents, without its line break.
constexpr std::string_view kOpening = corpus::kFactsPreamble.substr(0, corpus::kFactsPreamble.size() - 1);

// Story sentences drawn once, so that a longer context has a shorter one's.
class Story {
public:
    explicit Story(Random random) : random_(random) {}
    const std::string & sentence(int i) {
        while (static_cast<int>(sentences_.size()) <= i) { sentences_.push_back(corpus::filler_sentence(random_)); }
        return sentences_[static_cast<size_t>(i)];
    }

private:
    Random random_;
    std::vector<std::string> sentences_;
};

// `statements` in their order at random places among n sentences of the story.
std::string told(std::span<const std::string> statements, Story & story, int n, uint64_t seed) {
    Random random(seed);
    std::vector<int> places;
    for (size_t i = 0; i < statements.size(); ++i) { places.push_back(random.between(0, 1 << 16)); }
    std::sort(places.begin(), places.end());
    std::string out;
    size_t next = 0;
    for (int i = 0; i <= n; ++i) {
        for (; next < places.size() && static_cast<int64_t>(places[next]) * n / (1 << 16) <= i; ++next) {
            out += concat({" ", statements[next]});
        }
        if (i < n) { out += concat({" ", story.sentence(i)}); }
    }
    for (; next < statements.size(); ++next) { out += concat({" ", statements[next]}); }
    return out;
}

std::vector<std::string> held_out_statements(std::span<const Fact> facts) {
    std::vector<std::string> out;
    for (const auto & fact : facts) { out.push_back(fact.statements[corpus::kHeldOutStatement]); }
    return out;
}

Turn ask(std::string_view question, const std::string & answer) {
    Turn turn;
    turn.question = corpus::fact_question(question);
    turn.answer_prefix = corpus::kFactPrefix;
    turn.references = {answer};
    turn.max_new_tokens = kShortAnswer;
    return turn;
}

// A sample without its story: what is told, what stands before it, and the turns.
struct Frame {
    std::string opening;
    std::vector<std::string> statements;
    std::vector<Turn> turns;
    bool dialogue = false;
};

Frame facts_frame(Random & random) {
    auto facts = corpus::make_world(random, kFacts);
    random.shuffle(facts);
    Frame frame;
    frame.opening = std::string(kOpening);
    frame.statements = held_out_statements(facts);
    for (const int i : random.draw(kAsked, kFacts)) {
        const Fact & fact = facts[static_cast<size_t>(i)];
        frame.turns.push_back(ask(fact.questions[corpus::kHeldOutQuestion], fact.answer));
    }
    return frame;
}

Frame two_hop_frame(Random & random) {
    const auto facts = corpus::make_linked_world(random, kFacts / 4);
    Frame frame;
    frame.opening = std::string(kOpening);
    frame.statements = held_out_statements(facts);
    random.shuffle(frame.statements);
    for (const int i : random.draw(kAsked, kFacts / 4)) {
        const auto owner = 2 * static_cast<size_t>(i);
        frame.turns.push_back(
            ask(corpus::linked_question(facts[owner], facts[owner + 1], corpus::kHeldOutQuestion), facts[owner + 1].answer));
    }
    return frame;
}

// Sentences of a text that makes nothing but statements: they end with a full stop.
std::vector<std::string> sentences_of(std::string_view text) {
    std::vector<std::string> out;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find(". ", begin), text.size() - 1);
        out.emplace_back(text.substr(begin, end + 1 - begin));
        begin = end + 2;
    }
    return out;
}

Frame conversation_frame(Random & random) {
    constexpr int kExchanges = 64;  // more than are needed for the questions
    const auto exchanges = corpus::make_conversation(random, kTalkFacts, kExchanges, 0, true);
    Frame frame;
    frame.dialogue = true;
    frame.opening = kTellMe;
    std::string_view first = exchanges[0].user;
    for (const auto opening : corpus::training::kWorldOpenings) {  // this task has one of its own
        if (first.starts_with(opening)) { first.remove_prefix(opening.size() + 1); }
    }
    frame.statements = sentences_of(first);
    int n_asked = 0;
    for (size_t i = 0; i < exchanges.size() && n_asked < kTalkQuestions; ++i) {
        const auto & exchange = exchanges[i];
        Turn turn;
        turn.question = i == 0 ? "" : exchange.user;
        turn.follow_up = exchange.assistant;
        if (exchange.asks) {
            turn.references = {exchange.answer};
            turn.max_new_tokens = kSentenceAnswer;
            ++n_asked;
        }
        frame.turns.push_back(std::move(turn));
    }
    return frame;
}

double contains(const Turn & turn, std::string_view said) {
    return lower(said).find(lower(turn.references[0])) != std::string::npos ? 1 : 0;
}

class WorldTask final : public Task {
public:
    using MakeFrame = Frame (*)(Random & random);

    WorldTask(std::string_view name, std::string_view help, MakeFrame make) : make_(make) {
        rules_.name = name;
        rules_.family = "world";
        rules_.help = help;
        rules_.metric = "answer contained";
    }

    const TaskRules & rules() const override { return rules_; }

    Result<std::vector<Sample>> samples(const SampleRequest & request) const override {
        if (request.n_tokens <= 0 || !request.count) {
            return {ErrorCode::kInvalidArgument, "task '" + rules_.name + "' is generated to a length: give n_tokens"};
        }
        std::vector<Sample> out;
        for (int i = 0; i < std::max(1, request.n_samples); ++i) {
            Random random = sample_random("world/" + rules_.name, request.seed, static_cast<uint64_t>(i));
            const Frame frame = make_(random);
            PITH_ASSIGN_OR_RETURN(Sample sample, fit(frame, Story(Random(random.next())), random.next(), request));
            sample.id = std::to_string(i);
            out.push_back(std::move(sample));
        }
        return out;
    }

    double score(const Sample & /*sample*/, const Turn & turn, std::string_view prediction) const override {
        return contains(turn, prediction);
    }

private:
    Result<Sample> fit(const Frame & frame, Story story, uint64_t places, const SampleRequest & request) const {
        constexpr int kTurnFrame = 12;  // tokens that a chat template may put around a turn of a dialogue
        int n_turns = 0;                // tokens of the turns that one prompt holds
        for (const Turn & turn : frame.turns) {
            const int n = request.count(concat({turn.question, turn.answer_prefix, " ", turn.follow_up}));
            n_turns = frame.dialogue ? n_turns + n + kTurnFrame : std::max(n_turns, n + turn.max_new_tokens);
        }
        if (frame.dialogue) { n_turns += kSentenceAnswer; }
        const auto context = [&](int n) { return frame.opening + told(frame.statements, story, n, places); };
        const Fit found =
            most_that_fit(0, kMostSentences, request.n_tokens - n_turns, [&](int n) { return request.count(context(n)); });
        if (found.n_units < 0) { return too_small(rules_.name, found.n_tokens + n_turns, request.n_tokens); }
        Sample sample;
        sample.context = context(found.n_units);
        sample.turns = frame.turns;
        return sample;
    }

    TaskRules rules_;
    MakeFrame make_;
};

std::vector<std::u32string> words_of(std::string_view text) {
    const std::u32string points = code_points(text);
    std::vector<std::u32string> out;
    for (const auto word : split_words(points)) { out.emplace_back(word); }
    return out;
}

class PassageTask final : public Task {
public:
    PassageTask() {
        rules_.name = "passage";
        rules_.family = "world";
        rules_.help = "200 words of a story, to be repeated";
        rules_.metric = "share of the words in order";
    }

    const TaskRules & rules() const override { return rules_; }

    Result<std::vector<Sample>> samples(const SampleRequest & request) const override {
        std::vector<Sample> out;
        for (int i = 0; i < std::max(1, request.n_samples); ++i) {
            PITH_ASSIGN_OR_RETURN(const Essay essay, Essay::make(request.haystack, request.seed, static_cast<uint64_t>(i) + 1,
                                                                 kPassageWords, Spacing::kCollapsed));
            Sample sample;
            sample.id = std::to_string(i);
            sample.context = concat({kRepeat, " ", essay.words(0, kPassageWords)});
            Turn turn;
            turn.answer_prefix = essay.words(0, kGivenWords);
            turn.references = {std::string(essay.words(kGivenWords, kPassageWords))};
            const int n_words = request.count ? request.count(turn.references[0]) : 2 * kPassageWords;
            turn.max_new_tokens = n_words + n_words / 8;
            const int needs = (request.count ? request.count(sample.context) : 0) + turn.max_new_tokens + kGivenWords;
            if (request.n_tokens > 0 && needs > request.n_tokens) { return too_small("passage", needs, request.n_tokens); }
            sample.turns.push_back(std::move(turn));
            out.push_back(std::move(sample));
        }
        return out;
    }

    double score(const Sample & /*sample*/, const Turn & turn, std::string_view prediction) const override {
        const auto expected = words_of(turn.references[0]);
        const auto said = words_of(prediction);
        const auto common = longest_common_subsequence(expected, said, Tie::kBackInA);
        return static_cast<double>(common.size()) / static_cast<double>(std::max<size_t>(expected.size(), 1));
    }

private:
    TaskRules rules_;
};

}  // namespace

Tasks world_tasks() {
    Tasks tasks;
    tasks.push_back(std::make_unique<WorldTask>("facts", "24 facts in a story, four asked for", facts_frame));
    tasks.push_back(std::make_unique<WorldTask>("two_hop", "owners asked about by what they own, four times", two_hop_frame));
    tasks.push_back(std::make_unique<WorldTask>(
        "conversation", "a told world, corrected and added to, eight questions in a chat", conversation_frame));
    tasks.push_back(std::make_unique<PassageTask>());
    return tasks;
}

}  // namespace pith::benchmarks
