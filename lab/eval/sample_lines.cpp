// sample_lines.cpp - what of a sample is written. Stage: eval.
#include "eval/sample_lines.h"

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

std::string line_of(const EvalPlan & plan, const EvalQuestion & question) {
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
    return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string sample_lines(const EvalPlan & plan) {
    std::string lines;
    const benchmarks::Sample * last = nullptr;
    for (const EvalUnit & unit : plan.units) {
        for (const EvalQuestion & question : unit.questions) {
            if (question.sample == nullptr || question.sample == last) { continue; }
            last = question.sample;
            lines += line_of(plan, question);
        }
    }
    return lines;
}

}  // namespace pith
