// choice_label.h - the right option of a multiple-choice sample, as text and letter. Stage: benchmarks.
// Pure C++.   Source: InfiniteBench, get_answer; SCBench, get_ground_truth.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/files/records.h"

namespace pith::benchmarks {

struct Choice {
    std::vector<std::string> options;  // four or more
    std::vector<std::string> label;    // the right option's text, its letter A … D
};

// From the fields options[] and answer: the text, or [text], or [text, letter].
// Errors: kBadFile: fewer than four options; an answer that is none of the first four.
Result<Choice> read_choice(const Record & record);

}  // namespace pith::benchmarks
