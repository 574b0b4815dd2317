// conversations.h - talk about a small world: it is told, asked about, corrected and added to.
// Pure C++: no I/O.
#pragma once

#include <string>
#include <vector>

#include "tasks/random.h"

namespace pith::corpus {

struct Exchange {
    std::string user;
    std::string assistant;  // what it should say
    std::string answer;     // what of it counts: a word or number; empty: an acknowledgement
    bool asks = false;
};

// The first exchange tells the world (`story`: sentences that do not matter, put among the facts); the others ask for facts
// (said as often as not many turns before), correct them or add some.
//   n_facts   of the first exchange. REQUIRES: 1 … 24
//   held_out  questions of the held-out kind alone (worlds.h), as the tasks ask; else never these
std::vector<Exchange> make_conversation(Random & random, int n_facts, int n_exchanges, int n_story, bool held_out);

}  // namespace pith::corpus
