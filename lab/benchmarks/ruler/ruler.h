// ruler.h - what RULER's thirteen tasks share: where a prompt is cut in three, the score, files in RULER's format. Stage:
// benchmarks. Pure C++.
//
// RULER's `input` is context + question; the answer prefix follows it. The question starts at the last match of the task's
// marks in the input, so that compression sees the context alone. Length: tokens(input + prefix) + new tokens are at most
// n_tokens, begin token not counted, and within 2 % of it. Score:  control characters become line breaks; the share of the
// references found, case ignored (string_match_all); for qa whether any
//         is (string_match_part).
// Paper:  RULER (Hsieh et al., 2024).   Source: NVIDIA/RULER scripts/data/synthetic, scripts/eval.
// Differs: each sample is fitted by itself (RULER fits one and shortens others by whole steps); where whole units would leave
// more than
//         2 % of the limit empty, sentences of noise (qa: a shorter document) fill the gap; words come from word_lists.h; keys
//         and values are all different; random numbers are the project's own, so samples are not RULER's byte for byte.
// Threads: const after making.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/benchmark.h"
#include "benchmarks/families.h"
#include "tasks/random.h"

namespace pith::benchmarks {

// Samples as the lines of RULER's validation.jsonl (index, input, outputs, length, answer_prefix), which RULER's own scripts
// read. REQUIRES: samples of RULER's tasks.   `length` counts prompt and new tokens, as RULER does.
std::string ruler_lines(std::span<const Sample> samples, const CountTokens & count);

// A prompt as RULER's generators write it.
struct RulerText {
    std::string input;
    std::string answer_prefix;
    std::vector<std::string> outputs;
};

// How the tasks of one of RULER's scripts end and are scored.
struct RulerForm {
    std::span<const std::string_view> question_marks;  // the question starts at the last match of one of them
    std::string_view prefix_mark;                      // the prefix: at the last match, white space before it included
    int max_new_tokens;
    bool any_reference;  // one of the references is enough
};

class RulerTask : public Task {
public:
    RulerTask(std::string_view name, std::string_view help, const RulerForm & form, std::string_view file = {});

    const TaskRules & rules() const final { return rules_; }
    Result<std::vector<Sample>> samples(const SampleRequest & request) const final;
    double score(const Sample & sample, const Turn & turn, std::string_view prediction) const final;

protected:
    // The first n samples, or as many as there are.   REQUIRES: request.n_tokens > 0, request.count set.
    virtual Result<std::vector<RulerText>> generate(const SampleRequest & request, int n_samples) const = 0;

    const RulerForm & form() const { return form_; }
    corpus::Random random(const SampleRequest & request, int index) const;

private:
    Result<std::vector<Sample>> read_samples(const SampleRequest & request) const;
    Result<Sample> split(RulerText text, int index) const;

    TaskRules rules_;
    const RulerForm & form_;
};

// Sentences of noise that fill what whole units leave of `limit`, when that is more than 2 % of n_tokens; else "".
// `n_tokens_of(filler)` counts the prompt with the filler in its place.
std::string fill_gap(int n_tokens, int limit, int n_used, const std::function<int(std::string_view filler)> & n_tokens_of);

// RULER's noise: the five sentences of a line.
std::string noise_line();

Tasks ruler_needle_tasks();
std::unique_ptr<Task> ruler_variable_task();
std::unique_ptr<Task> ruler_common_words_task();
std::unique_ptr<Task> ruler_frequent_words_task();
Tasks ruler_question_tasks();

}  // namespace pith::benchmarks
