// conversations.cpp - see conversations.h.
#include "corpus/conversations.h"

#include <algorithm>
#include <array>

#include "corpus/training_wording.h"
#include "tasks/concat.h"
#include "tasks/worlds.h"

namespace pith::corpus {
namespace {

constexpr std::string_view kTold = "I will remember that.";
constexpr std::string_view kNoted = "Noted.";
constexpr std::string_view kUnknown = "I do not know.";

struct SmallTalk {
    std::string_view user, assistant;
};
constexpr std::array<SmallTalk, 4> kSmallTalk = {{{"Hello!", "Hello. What shall I remember?"},
                                                  {"Thank you.", "You are welcome."},
                                                  {"Who are you?", "A small model that knows what you tell it."},
                                                  {"Can you help me?", "Yes. Ask me about what you told me."}}};

// A world as it is told: facts may change, others come.
class Told {
public:
    Told(Random & random, int n_facts, bool held_out) : random_(random), held_out_(held_out) {
        if (random.chance(0.4) && n_facts >= 2) {
            facts_ = make_linked_world(random, n_facts / 2);
            linked_ = true;
        } else {
            // More than is told at first: the rest is added later, or asked for in vain.
            facts_ = make_world(random, std::min(60, n_facts + 6));
        }
        n_told_ = std::min(facts_.size(), static_cast<size_t>(n_facts));
        said_.assign(facts_.size(), 0);
        for (auto & statement : said_) { statement = draw_statement(); }
    }

    std::vector<std::string> statements() const {
        std::vector<std::string> out;
        for (size_t f = 0; f < n_told_; ++f) { out.push_back(facts_[f].statements[said_[f]]); }
        return out;
    }
    bool has_more() const { return !linked_ && n_told_ < facts_.size(); }
    bool may_change() const { return !linked_; }

    Exchange ask() {
        const auto f = static_cast<size_t>(random_.below(static_cast<int>(n_told_)));
        const Fact & fact = facts_[f];
        const bool by_owner = linked_ && f % 2 == 1 && random_.chance(0.7);
        const size_t form = question_form(f);
        return {by_owner ? linked_question(facts_[f - 1], fact, form) : fact.questions[form], fact.statements[0], fact.answer,
                true};
    }
    Exchange ask_in_vain() {
        const auto f = n_told_ + static_cast<size_t>(random_.below(static_cast<int>(facts_.size() - n_told_)));
        return {facts_[f].questions[question_form(f)], std::string(kUnknown), "not know", true};
    }
    Exchange correct() {
        const auto f = static_cast<size_t>(random_.below(static_cast<int>(n_told_)));
        facts_[f] = changed(random_, facts_[f]);
        said_[f] = draw_statement();
        return {concat({random_.pick(training::kCorrections), " ", facts_[f].statements[said_[f]]}), std::string(kNoted), "",
                false};
    }
    Exchange add() {
        const size_t f = n_told_++;
        return {concat({random_.pick(training::kAdditions), " ", facts_[f].statements[said_[f]]}), std::string(kNoted), "",
                false};
    }

private:
    size_t draw_statement() { return held_out_ ? kHeldOutStatement : static_cast<size_t>(random_.below(3)); }
    size_t question_form(size_t f) { return held_out_ ? kHeldOutQuestion : draw_question(random_, said_[f]); }

    Random & random_;
    bool held_out_;
    bool linked_ = false;
    std::vector<Fact> facts_;
    size_t n_told_ = 0;
    std::vector<size_t> said_;  // by which statement
};

}  // namespace

std::vector<Exchange> make_conversation(Random & random, int n_facts, int n_exchanges, int n_story, bool held_out) {
    Told told(random, n_facts, held_out);
    std::vector<std::string> sentences = told.statements();
    for (int i = 0; i < n_story; ++i) { sentences.push_back(filler_sentence(random)); }
    random.shuffle(sentences);
    std::vector<Exchange> out;
    Exchange first;
    first.user = random.pick(training::kWorldOpenings);
    for (const auto & sentence : sentences) { first.user += concat({" ", sentence}); }
    first.assistant = kTold;
    out.push_back(std::move(first));
    while (static_cast<int>(out.size()) < n_exchanges) {
        const double roll = random.uniform();
        if (roll < 0.14) {
            out.push_back(told.may_change() ? told.correct() : told.ask());
        } else if (roll < 0.26) {
            out.push_back(told.has_more() ? told.add() : told.ask());
        } else if (roll < 0.34) {
            out.push_back(told.has_more() ? told.ask_in_vain() : told.ask());
        } else if (roll < 0.38) {
            const SmallTalk talk = random.pick(kSmallTalk);
            out.push_back({std::string(talk.user), std::string(talk.assistant), "", false});
        } else {
            out.push_back(told.ask());
        }
    }
    return out;
}

}  // namespace pith::corpus
