// kinship.h - chains of relatives: NeedleBench's needles for reasoning, and the answer in its box. Stage: benchmarks.
// Pure C++.   Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tasks/random.h"

namespace pith::benchmarks {

struct KinChain {
    std::vector<std::string> sentences;  // one for each pair of neighbours, in random order
    std::string eldest;
    std::string youngest;
};

// n sentences about n + 1 people.   REQUIRES: 0 < n < 40.
KinChain draw_kin_chain(corpus::Random & random, int n);

std::string kin_question(std::string_view youngest);
// Worked examples and rules after the question, as NeedleBench has them, in other words.
std::string kin_notes(std::string_view youngest);

// What the last \boxed{…} holds, braces balanced, cleaned as NeedleBench does (\text{…}, backslashes, quotes, white space);
// "None" without one.
std::string boxed_answer(std::string_view prediction);

}  // namespace pith::benchmarks
