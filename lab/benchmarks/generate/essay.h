// essay.h - running text for haystacks: the user's, or stories of the built-in generator. Stage: benchmarks.
// Pure C++.
//
// Text is addressed by words (runs without white space); it starts again from the beginning when it is too short.
// Threads: const after making.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"
#include "tasks/random.h"

namespace pith::benchmarks {

enum class Spacing {
    kCollapsed,  // one space between words (RULER)
    kKept,       // line breaks and indents as they are
};

class Essay {
public:
    // text     empty: stories are made up; the same (seed, story) always tells the same ones
    // n_words  the essay holds at least this many, and not many more
    // Errors:  kInvalidArgument: the text is all white space.
    static Result<Essay> make(std::string_view text, uint64_t seed, uint64_t story, int n_words, Spacing spacing);

    int n_words() const { return static_cast<int>(words_.size()); }
    std::string_view word(int i) const;
    // Words [first, last) and what stands between them.
    std::string_view words(int first, int last) const;
    // A sentence ends after word i: . ! or ? (quotes and brackets may follow), no abbreviation, and the next word does not
    // start in lower case.
    bool ends_sentence(int i) const;

private:
    struct Word {
        size_t begin = 0;
        size_t end = 0;
    };
    void append(std::string_view text, int n_words_wanted, Spacing spacing);

    std::string text_;
    std::vector<Word> words_;
};

// The random numbers of sample `index` of a task; other names, seeds and indexes draw others.   REQUIRES: index < 2^24.
corpus::Random sample_random(std::string_view task, uint64_t seed, uint64_t index);

}  // namespace pith::benchmarks
