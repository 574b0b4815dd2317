// worlds.h - small worlds: facts about people, places, things and numbers, and the sentences around them.
// Pure C++: no I/O.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tasks/random.h"

namespace pith::corpus {

// One thing that is true in a world, in all the ways it can be said and asked.
// Every statement holds the answer once, after a space and before a space or punctuation, so that its tokens are those
// of " " + answer.
struct Fact {
    std::string answer;
    std::vector<std::string> statements;  // paraphrases, one sentence each
    std::vector<std::string> questions;   // paraphrases, one sentence each, without the answer
    int relation = 0;
    std::string subject;
};

// Held out: training never asks by question kHeldOutQuestion what the text said by statement kHeldOutStatement; the tasks do.
inline constexpr size_t kHeldOutStatement = 2;
inline constexpr size_t kHeldOutQuestion = 1;
// How to ask, in training, for a fact that was said by `statement`.
size_t draw_question(Random & random, size_t statement);

// n facts about different (subject, relation) pairs; several subjects share a relation, so that an answer needs its subject.
// REQUIRES: 0 <= n <= 60.
std::vector<Fact> make_world(Random & random, int n);

// The same fact with another answer.
Fact changed(Random & random, const Fact & fact);

// n things and their owners, and n facts about the owners: fact 2 i says who owns a thing, 2 i + 1 something of that owner.
// REQUIRES: 1 <= n <= 20.
std::vector<Fact> make_linked_world(Random & random, int n);
// Asks for the owner's fact by the thing: "Where does the owner of the lamp live?" Its answer is the second fact's.
std::string linked_question(const Fact & owner, const Fact & fact, size_t form);

std::string filler_sentence(Random & random);  // plausible, and no question is ever about it
std::string closer_sentence(Random & random);  // the same in four or five tokens

// RULER's noise: sentence i of "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
inline constexpr int kNoiseSentences = 5;
std::string_view noise_sentence(int i);

// Splits a statement around its answer. REQUIRES: the statement holds it (see Fact).
struct SplitStatement {
    std::string before;  // without the space before the answer
    std::string answer;  // with that space
    std::string after;
};
SplitStatement split_statement(std::string_view statement, std::string_view answer);

}  // namespace pith::corpus
