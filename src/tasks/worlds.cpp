// worlds.cpp - facts, fillers and noise; see worlds.h.
#include "tasks/worlds.h"

#include <algorithm>
#include <array>

#include "tasks/concat.h"
#include "tasks/words.h"

namespace pith::corpus {
namespace {

// A relation between a subject (`$s`) and an answer (`$a`).
struct Relation {
    const words::List * subjects;
    const words::List * answers;  // null: a number
    int low;                      // of the number, and
    int high;
    std::array<std::string_view, 3> statements;
    std::array<std::string_view, 2> questions;
};

const std::array<Relation, 9> & relations() {
    static const std::array<Relation, 9> all = {{
        {&words::kNames,
         &words::kTowns,
         0,
         0,
         {"$s lives in $a.", "The home of $s is in $a.", "$s has a house in $a."},
         {"Where does $s live?", "Where is the home of $s?"}},
        {&words::kNames,
         &words::kJobs,
         0,
         0,
         {"$s is a $a.", "$s works as a $a.", "The job of $s is $a."},
         {"What is the job of $s?", "What does $s work as?"}},
        {&words::kNames,
         &words::kAnimals,
         0,
         0,
         {"$s keeps a $a.", "The animal of $s is a $a.", "$s has a $a."},
         {"What animal does $s keep?", "What is the animal of $s?"}},
        {&words::kNames,
         nullptr,
         1000,
         9999,
         {"The code of $s is $a.", "$s has the code $a.", "For $s the code is $a."},
         {"What is the code of $s?", "Which code has $s?"}},
        {&words::kNames,
         nullptr,
         10,
         99,
         {"$s is $a years old.", "The age of $s is $a.", "$s is now $a."},
         {"How old is $s?", "What is the age of $s?"}},
        {&words::kThings,
         &words::kRooms,
         0,
         0,
         {"The $s is in the $a.", "Look for the $s in the $a.", "The $s was left in the $a."},
         {"Where is the $s?", "Where was the $s left?"}},
        {&words::kThings,
         &words::kColours,
         0,
         0,
         {"The $s is $a.", "The colour of the $s is $a.", "The $s was made $a."},
         {"What is the colour of the $s?", "Which colour has the $s?"}},
        {&words::kThings,
         nullptr,
         10,
         99,
         {"The $s costs $a coins.", "The price of the $s is $a coins.", "They sold the $s for $a coins."},
         {"What is the price of the $s?", "How much does the $s cost?"}},
        {&words::kThings,
         &words::kNames,
         0,
         0,
         {"The $s belongs to $a.", "The owner of the $s is $a.", "The $s was a gift to $a."},
         {"Who is the owner of the $s?", "Who has the $s?"}},
    }};
    return all;
}

std::string fill_form(std::string_view form, std::string_view subject, std::string_view answer) {
    std::string out;
    for (size_t i = 0; i < form.size(); ++i) {
        if (form[i] == '$' && i + 1 < form.size()) {
            out += form[i + 1] == 's' ? subject : answer;
            ++i;
        } else {
            out += form[i];
        }
    }
    return out;
}

constexpr int kNameRelations = 5;  // the first ones are about people
constexpr int kOwnerRelation = 8;

std::string draw_answer(Random & random, const Relation & relation) {
    return relation.answers != nullptr ? std::string(random.pick(*relation.answers))
                                       : std::to_string(random.between(relation.low, relation.high));
}

Fact make_fact(int relation_index, std::string_view subject, std::string answer) {
    const Relation & relation = relations()[static_cast<size_t>(relation_index)];
    Fact fact;
    fact.relation = relation_index;
    fact.subject = subject;
    fact.answer = std::move(answer);
    for (const auto form : relation.statements) { fact.statements.push_back(fill_form(form, subject, fact.answer)); }
    for (const auto form : relation.questions) { fact.questions.push_back(fill_form(form, subject, fact.answer)); }
    return fact;
}

}  // namespace

size_t draw_question(Random & random, size_t statement) {
    return statement == kHeldOutStatement || random.chance(0.5) ? 1 - kHeldOutQuestion : kHeldOutQuestion;
}

std::vector<Fact> make_world(Random & random, int n) {
    // A handful of relations, each with several subjects: questions differ by subject, not only by form.
    const auto & all = relations();
    const int n_relations = std::clamp((n + 2) / 3, 1, static_cast<int>(all.size()));
    const std::vector<int> chosen = random.draw(n_relations, static_cast<int>(all.size()));
    std::vector<std::vector<int>> subjects;
    for (const int r : chosen) {
        const int size = static_cast<int>(all[static_cast<size_t>(r)].subjects->size());
        subjects.push_back(random.draw(size, size));
    }
    std::vector<Fact> facts;
    for (int i = 0; i < n; ++i) {
        const size_t slot = static_cast<size_t>(i) % chosen.size();
        const Relation & relation = all[static_cast<size_t>(chosen[slot])];
        const std::string_view subject = (*relation.subjects)[static_cast<size_t>(subjects[slot].back())];
        subjects[slot].pop_back();
        facts.push_back(make_fact(chosen[slot], subject, draw_answer(random, relation)));
    }
    return facts;
}

Fact changed(Random & random, const Fact & fact) {
    const Relation & relation = relations()[static_cast<size_t>(fact.relation)];
    std::string answer = fact.answer;
    while (answer == fact.answer) { answer = draw_answer(random, relation); }
    return make_fact(fact.relation, fact.subject, std::move(answer));
}

std::vector<Fact> make_linked_world(Random & random, int n) {
    const auto things = random.draw(n, static_cast<int>(words::kThings.size()));
    const auto owners = random.draw(n, static_cast<int>(words::kNames.size()));
    const auto asked = random.draw(2, kNameRelations);  // two relations of owners, so that an answer needs the owner
    std::vector<Fact> facts;
    for (size_t i = 0; i < things.size(); ++i) {
        const auto owner = words::kNames[static_cast<size_t>(owners[i])];
        facts.push_back(make_fact(kOwnerRelation, words::kThings[static_cast<size_t>(things[i])], std::string(owner)));
        const int relation = asked[static_cast<size_t>(random.below(2))];
        facts.push_back(make_fact(relation, owner, draw_answer(random, relations()[static_cast<size_t>(relation)])));
    }
    return facts;
}

std::string linked_question(const Fact & owner, const Fact & fact, size_t form) {
    return fill_form(relations()[static_cast<size_t>(fact.relation)].questions[form],
                     concat({"the owner of the ", owner.subject}), "");
}

std::string filler_sentence(Random & random) {
    const auto word = [&random](const words::List & list) { return random.pick(list); };
    // Drawn into names first: the order in which arguments are evaluated is the compiler's choice.
    const int form = random.below(5);
    const auto time = word(words::kTimes);
    const auto actor = word(words::kActors);
    const auto adjectives = random.draw(2, static_cast<int>(words::kAdjectives.size()));
    const auto adjective = words::kAdjectives[static_cast<size_t>(adjectives[0])];
    const auto other_adjective = words::kAdjectives[static_cast<size_t>(adjectives[1])];
    const auto verbs = random.draw(2, static_cast<int>(words::kVerbs.size()));
    const auto verb = words::kVerbs[static_cast<size_t>(verbs[0])];
    const auto other_verb = words::kVerbs[static_cast<size_t>(verbs[1])];
    const auto place = word(words::kPlaces);
    switch (form) {
        case 0:
            return concat({time, " the ", actor, " ", verb, " ", place, "."});
        case 1:
            return concat({"The ", adjective, " ", actor, " ", verb, " ", place, "."});
        case 2:
            return concat({"It was a ", adjective, " day, and the ", actor, " ", verb, "."});
        case 3:
            return concat({time, " the ", actor, " was ", adjective, " and ", other_adjective, "."});
        default:
            return concat({"The ", actor, " ", verb, " and ", other_verb, " ", place, "."});
    }
}

std::string closer_sentence(Random & random) {
    return std::string(random.pick(words::kClosers));
}

std::string_view noise_sentence(int i) {
    static constexpr std::array<std::string_view, kNoiseSentences> kNoise = {
        "The grass is green.", "The sky is blue.", "The sun is yellow.", "Here we go.", "There and back again."};
    return kNoise[static_cast<size_t>(i % kNoiseSentences)];
}

SplitStatement split_statement(std::string_view statement, std::string_view answer) {
    const std::string needle = concat({" ", answer});
    for (size_t at = statement.find(needle); at != std::string_view::npos; at = statement.find(needle, at + 1)) {
        const size_t end = at + needle.size();
        if (end == statement.size() || statement[end] == '.' || statement[end] == ' ' || statement[end] == ',') {
            return {std::string(statement.substr(0, at)), needle, std::string(statement.substr(end))};
        }
    }
    return {std::string(statement), "", ""};
}

}  // namespace pith::corpus
