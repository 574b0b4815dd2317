// identifiers.h - random keys and values of every kind that the tasks ask for.
// Pure C++: no I/O.
#pragma once

#include <string>
#include <vector>

#include "tasks/random.h"

namespace pith::corpus {

enum class Kind {
    kWord,      // "lamp": a plain word
    kCompound,  // "quiet-wolf"
    kCoined,    // "miraton": a word of no language
    kTwoDigits,
    kFourDigits,
    kSevenDigits,
    kHex,       // "3fa94c0d"
    kUuid,      // version 4
    kCapitals,  // "QXBTA"
    kLetters,   // "kqwzex": six random letters, as RULER codes words
};

std::string draw(Random & random, Kind kind);
// n different ones; compounds share no word. REQUIRES: n <= 40 for kTwoDigits, n <= 400 otherwise.
std::vector<std::string> draw_different(Random & random, Kind kind, int n);

std::string draw_uuid(Random & random);                        // 128 random bits with version 4 and the variant of RFC 4122
std::string draw_letters(Random & random, char first, int n);  // n of the 26 letters that begin at `first`

}  // namespace pith::corpus
