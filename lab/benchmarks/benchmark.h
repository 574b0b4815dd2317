// benchmark.h - a benchmark's task: its samples, and the score of what a model says. Stage: benchmarks.
// Pure C++: no ggml; files come in as text.
//
//   task (name, rules)  →  samples (context, turns)  →  prompt pieces  →  prediction  →  score 0 … 1
//
// A sample's prompt is context + question + answer_prefix, joined as they are: line breaks and spaces belong to the pieces.
// Context-only compression sees `context`; question-aware compression sees context + question; the prefix is never compressed,
// but where the benchmark's authors put it into the prompt (TaskRules::prefix_asked).
// Threads: const after making.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith::benchmarks {

// Tokens of a text, without special tokens.
using CountTokens = std::function<int(std::string_view text)>;

// One question on the sample's context. In a dialogue a turn without new tokens and choices asks nothing: it is said, its
// follow-up answers it, and nothing is scored.
struct Turn {
    std::string question;
    std::string answer_prefix;            // what the answer begins with; may be empty
    std::vector<std::string> references;  // what is right; how they are compared is the task's
    int max_new_tokens = 0;
    std::string
        follow_up;  // put after this turn's question + prefix when a later turn follows (the gold answer, as SCBench has it)
    std::vector<std::string> choices;  // multiple choice by log-likelihood: continuations after the prefix; empty: generated
    bool asks() const { return max_new_tokens > 0 || !choices.empty(); }
};

struct Sample {
    std::string id;  // unique within the task
    std::string context;
    std::vector<Turn> turns;
    std::map<std::string, std::string> groups;  // what a report may group by: {"depth", "25"}, {"difficulty", "hard"}
    std::map<std::string, std::string> fields;  // what the metric needs besides (all_classes …); lists joined by line breaks
};

enum class TooLong {
    kRefuse,  // made to fit; a longer one is an error
    kMiddle,  // the first half and the last half of the tokens are kept (LongBench, InfiniteBench)
};

struct TaskRules {
    std::string name;    // "niah_single_1"
    std::string family;  // "ruler"
    std::string help;
    std::string file;   // read from the data folder ("narrativeqa.jsonl"); empty: generated
    std::string ready;  // read instead, where the data folder holds it ("vt/validation.jsonl"): samples made before
    bool chat = true;   // chat models see the prompt in their template
    // What the answer begins with ends the question, in the user's part of a chat template (LongBench), so it is compressed
    // with it. --raw: it begins the answer, as elsewhere.
    bool prefix_asked = false;
    bool stop_at_newline = false;
    TooLong too_long = TooLong::kRefuse;
    std::string metric;                 // for people: "F1", "share of references"
    std::vector<std::string> group_by;  // keys of Sample::groups reported besides the mean
    std::vector<std::string> fields;    // keys of Sample::fields the metric reads
    bool aside = false;                 // not in the family's own average: asked only by its name
    bool scores_choices = false;        // the metric reads Turn::choices: a prediction alone cannot be scored
};

struct SampleRequest {
    int n_tokens = 0;    // limit of prompt + new tokens; 0: as long as the data is
    int n_overhead = 0;  // of the length that was asked for, what a chat template takes besides
    int n_samples = 0;   // 0: all there are
    uint64_t seed = 1;
    CountTokens count;     // REQUIRES: set when n_tokens is
    std::string file;      // text of TaskRules::file
    std::string ready;     // text of TaskRules::ready; empty: there is none
    std::string path;      // where that text was read from, for errors; empty: where the benchmark's own folder has it
    std::string haystack;  // plain text for essays; empty: the generator's

    const std::string & path_or(const std::string & usual) const { return path.empty() ? usual : path; }
};

class Task {
public:
    virtual ~Task() = default;
    virtual const TaskRules & rules() const = 0;
    // Errors: kBadFile: a line of the file is not what it should be (names line and field); kBudget: n_tokens is too small for
    // the task's shortest sample.
    virtual Result<std::vector<Sample>> samples(const SampleRequest & request) const = 0;
    // Score of one turn's prediction, 0 … 1, as the benchmark's own code computes it (times 100 in reports).
    virtual double score(const Sample & sample, const Turn & turn, std::string_view prediction) const = 0;
    // References that come with a prediction made elsewhere, and not from the task's own file: can the metric compare with
    // them? Errors: kBadFile: "holds … where … belongs", to follow the field's name.   REQUIRES: one or more.
    virtual Status check_references(const std::vector<std::string> & /*references*/) const { return {}; }
};

// Every task of every family, in the families' own order.
std::span<const std::unique_ptr<Task>> all_tasks();

// "ruler/vt"
std::string full_name(const TaskRules & rules);

// nullptr: there is none.
const Task * find_task(std::string_view family, std::string_view name);

}  // namespace pith::benchmarks
