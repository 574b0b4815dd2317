// worlds.h - small worlds: facts about people, places, things and numbers, and the sentences around them.
// Pure C++: no I/O.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "corpus/random.h"

namespace pith::corpus {

// One thing that is true in a world, in all the ways it can be said and asked.
// Every statement holds the answer once, after a space and before a space or punctuation, so that its tokens are those
// of " " + answer.
struct Fact {
    std::string answer;
    std::vector<std::string> statements;  // paraphrases, one sentence each
    std::vector<std::string> questions;   // paraphrases, one sentence each, without the answer
};

// n facts about different (subject, relation) pairs; several subjects share a relation, so that an answer needs its subject.
// REQUIRES: 0 <= n <= 60.
std::vector<Fact> make_world(Random & random, int n);

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
