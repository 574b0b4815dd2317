// answer.h - one answer of an evaluation, and the line of JSON it is kept as. Stage: eval.
//
// A line is an answer, a refusal (the budget cannot hold what the policy protects), or what was left out: a sample longer than
// the model takes, or a task whose shortest sample is longer than the length (no policy, turn −1, the latter without a sample).
// What identifies it: task, length, sample, turn, policy, budget.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith {

struct Answer {
    std::string task;
    int length = 0;      // as asked for with --context; 0: as the data is
    std::string sample;  // its id
    int index = 0;       // of the sample within task and length
    int turn = 0;
    std::string policy;
    std::string budget;  // empty: no limit
    std::map<std::string, std::string> groups;

    std::string refused;                        // why there is no answer
    std::string prediction;                     // what was said, or the likeliest choice
    std::vector<std::string> references;        // what is right
    std::map<std::string, std::string> fields;  // what the metric reads besides (Sample::fields)
    std::string prompt;                         // what was read for this answer; empty: was not asked for
    double score = 0;                           // 0 … 1; perplexity: of the document
    std::vector<double> blocks;                 // perplexity: of the document's blocks, one after the other; the last is short
    std::optional<double> score_per_character;  // multiple choice, likelihoods divided by the choices' characters

    int n_prompt = 0;      // tokens in front of the answer
    int n_new = 0;         // of the answer
    int n_cut = 0;         // taken out of the middle
    double kept = 0;       // entries a lane, mean, after compression
    std::string chosen;    // what `auto` became; empty: the policy was named
    int64_t kv_bytes = 0;  // pages of KV cache held then; 0: not known (an answer of before they were noted)
    int n_kv_heads = 0;
    std::vector<int>
        lanes;             // [layer · K + KV head] entries kept; empty where all lanes hold the same, and after the first turn
    double prefill_s = 0;  // of the prompt, where this answer had a prefill of its own or was the first to use it
    double answer_s = 0;   // eviction, question and answer

    static constexpr int kBlock = 4096;  // tokens

    bool is_left_out() const { return turn < 0; }
    std::string key() const;
};

// Without the line break; text that is not UTF-8 is replaced.
std::string to_json_line(const Answer & answer);
// Errors: kBadFile: no JSON, or a field that is missing or of the wrong kind (names it).
Result<Answer> parse_answer(std::string_view line);

}  // namespace pith
