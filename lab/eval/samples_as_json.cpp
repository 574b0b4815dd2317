// samples_as_json.cpp - what of a sample is written. Stage: eval.
#include "eval/samples_as_json.h"

#include <nlohmann/json.hpp>

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

Json turn_json(const benchmarks::Turn & turn) {
    Json out = {{"question", turn.question},
                {"answer_prefix", turn.answer_prefix},
                {"references", turn.references},
                {"max_new_tokens", turn.max_new_tokens}};
    if (!turn.choices.empty()) { out["choices"] = turn.choices; }
    if (!turn.follow_up.empty()) { out["follow_up"] = turn.follow_up; }
    return out;
}

Json sample_json(const EvalPlan & plan, const EvalQuestion & question) {
    const benchmarks::Sample & sample = *question.sample;
    Json line;
    line["family"] = plan.info.family;
    line["task"] = question.key.task;
    line["length"] = question.key.length;
    line["id"] = sample.id;
    line["context"] = sample.context;
    line["turns"] = Json::array();
    for (const benchmarks::Turn & turn : sample.turns) { line["turns"].push_back(turn_json(turn)); }
    if (!sample.groups.empty()) { line["groups"] = sample.groups; }
    if (!sample.fields.empty()) { line["fields"] = sample.fields; }
    return line;
}

// What is compressed stands at the first turn that is asked of it.
void add_tokens(Json & turn, const EvalUnit & unit, const EvalQuestion & question, bool first) {
    if (first) { turn["compressed_tokens"] = unit.compressed; }
    turn["tokens"] = question.feed;
    if (!question.choices.empty()) { turn["choices_tokens"] = question.choices; }
    if (!question.follow_up.empty()) { turn["follow_up_tokens"] = question.follow_up; }
    turn["max_new_tokens"] = question.n_new;
    if (question.stop_at_newline) { turn["stop_at_newline"] = true; }
}

// end_tokens: nullptr: no tokens are written.
std::string lines_of(const EvalPlan & plan, const std::vector<int32_t> * end_tokens) {
    std::string lines;
    Json line;
    const benchmarks::Sample * sample = nullptr;
    const EvalUnit * compressed = nullptr;
    const auto end_line = [&] {
        if (sample != nullptr) { lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }
    };
    for (const EvalUnit & unit : plan.units) {
        for (const EvalQuestion & question : unit.questions) {
            if (question.sample == nullptr) { continue; }
            if (question.sample != sample) {
                end_line();
                line = sample_json(plan, question);
                if (end_tokens != nullptr) { line["end_tokens"] = *end_tokens; }
                sample = question.sample;
                compressed = nullptr;
            }
            if (end_tokens != nullptr) { add_tokens(line["turns"][question.turn], unit, question, compressed != &unit); }
            compressed = &unit;
        }
    }
    end_line();
    return lines;
}

}  // namespace

std::string sample_lines(const EvalPlan & plan) {
    return lines_of(plan, nullptr);
}

std::string sample_lines_with_tokens(const EvalPlan & plan, const Tokenizer & tokenizer) {
    const std::vector<int32_t> ends = tokenizer.end_of_generation_tokens();
    return lines_of(plan, &ends);
}

}  // namespace pith
