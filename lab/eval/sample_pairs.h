// sample_pairs.h - a benchmark's samples as prompts with their answers, to fine-tune on. Stage: eval.
// Pure.
//
// The prompt is the one that `pith eval` asks: context + question + answer prefix, in a chat template's frame where one is
// given; of a later turn of a dialogue with the earlier turns and their gold answers before it. The completion is the first
// reference; where the metric counts how many of the references an answer holds (RULER's), all of them, joined by ", ". It
// begins with a space unless the prompt ends with one.
// Threads: const-safe.
#pragma once

#include <string>
#include <vector>

#include "eval/sample_file.h"

namespace pith {

struct SamplePair {
    std::string prompt;
    std::string completion;
};

// What stands around the texts; empty: they follow each other as they are.
struct PairFrame {
    std::string before_user, after_user;
    std::string between;  // a gold answer and the user message after it
};

// One pair a turn that asks and has a reference.
std::vector<SamplePair> sample_pairs(const FileSample & one, const PairFrame & frame);

}  // namespace pith
