// tasks.h - questions with known answers about generated text, in RULER's wording.
// Pure C++: no ggml, no I/O.
//
// The model receives context + question + answer_prefix (prompt()) and continues; what it says is scored by score().
// Compression that must not see the question compresses `context` alone.
// Source: RULER (Hsieh et al., 2024), scripts/data/synthetic: wording, placement, scoring. Differs: keys and haystack
//         words come from small lists (a small vocabulary holds them as single pieces); a sample's keys share no word;
//         vt and cwe have no worked example (the built-in models know the format); the haystack is filled sentence by
//         sentence, so that a sample ends within 2 % under its limit.
// Held out: training documents say and ask in other words (training_wording.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"
#include "tasks/random.h"

namespace pith::corpus {

// Tokens of a text, without special tokens.
using CountTokens = std::function<int(std::string_view text)>;

// Bytes [begin, end) of a text.
struct TextSpan {
    size_t begin = 0;
    size_t end = 0;
    bool operator==(const TextSpan &) const = default;
};

struct Task {
    std::string id;
    std::string context;
    std::vector<TextSpan> needles;  // the hidden sentences that the question is about, in the order of the text; cwe: none
    std::string question;           // starts with the line break that ends the context
    std::string answer_prefix;      // starts with a space; may be empty
    std::vector<std::string> answers;
    std::string completion;  // the ideal continuation after the prefix, as training documents write it
    int max_new_tokens = 0;
    std::string prompt() const { return context + question + answer_prefix; }
};

enum class Haystack {  // of the needle tasks; vt is always in noise, facts in stories
    kNoise,            // RULER's "The grass is green. …"
    kWorld,            // generated stories
};

struct TaskOptions {
    int n_tokens = 1024;  // limit for prompt + 1 begin token + max_new_tokens
    Haystack haystack = Haystack::kNoise;
    double depth = -1;                   // of the (first) needle: 0 start … 1 end; negative: random
    uint64_t seed = 1;                   // with `index`, names the sample
    uint64_t index = 0;                  // REQUIRES: < 2^36
    SeedSpace space = SeedSpace::kTask;  // training documents use kTraining; nothing else should
};

struct TaskInfo {
    std::string_view id;
    std::string_view help;
    int min_tokens;  // a sample needs at least this many
};

// single, multikey (4 keys, 1 asked), multivalue (1 key, 4 values), vt, cwe, facts.
std::span<const TaskInfo> task_list();

// Errors: kInvalidArgument: unknown id (names the known ones), or n_tokens too small for the task (says how many it needs).
// Cost:   about 12 tokenisations of the prompt.   Threads: as `count`.
Result<Task> make_task(std::string_view id, const TaskOptions & options, const CountTokens & count);

// make_task("multikey") once for each of its four keys, in the order of drawing: one context, asked another question each time,
// so that it need be read but once. Only the first question's length is counted in options.n_tokens.
// Errors, Cost: those of make_task().
Result<std::vector<Task>> make_multikey_tasks(const TaskOptions & options, const CountTokens & count);

// Share of the references that `output` contains, case-insensitive, 0 … 1 (RULER's string_match_all).
double score(const Task & task, std::string_view output);

}  // namespace pith::corpus
