// answer.cpp - answers as lines of JSON. Stage: eval.
#include "eval/answer.h"

#include <nlohmann/json.hpp>

#include "core/json_syntax.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string Answer::key() const {
    const char separator = '\x1f';  // in no name
    return task + separator + std::to_string(length) + separator + sample + separator + std::to_string(turn) + separator +
           policy + separator + budget;
}

std::string to_json_line(const Answer & a) {
    Json line;
    line["task"] = a.task;
    line["length"] = a.length;
    line["sample"] = a.sample;
    line["index"] = a.index;
    line["turn"] = a.turn;
    line["policy"] = a.policy;
    line["budget"] = a.budget;
    if (!a.chosen.empty()) { line["chosen"] = a.chosen; }
    if (!a.groups.empty()) { line["groups"] = a.groups; }
    if (!a.refused.empty()) { line["refused"] = a.refused; }
    if (a.refused.empty()) {
        line["prediction"] = a.prediction;
        line["score"] = a.score;
        if (!a.blocks.empty()) { line["blocks"] = a.blocks; }
        if (a.score_per_character) { line["score_per_character"] = *a.score_per_character; }
        if (!a.references.empty()) { line["references"] = a.references; }
        if (!a.fields.empty()) { line["fields"] = a.fields; }
        if (!a.prompt.empty()) { line["prompt"] = a.prompt; }
    }
    line["n_prompt"] = a.n_prompt;
    line["n_new"] = a.n_new;
    if (a.n_cut > 0) { line["n_cut"] = a.n_cut; }
    line["kept"] = a.kept;
    if (a.kv_bytes > 0) { line["kv_bytes"] = a.kv_bytes; }
    line["n_kv_heads"] = a.n_kv_heads;
    if (!a.lanes.empty()) { line["lanes"] = a.lanes; }
    line["prefill_s"] = a.prefill_s;
    line["answer_s"] = a.answer_s;
    return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Answer> parse_answer(std::string_view text) {
    if (const std::string problem = json_problem(text); !problem.empty()) { return {ErrorCode::kBadFile, problem}; }
    std::string field;  // that is being read
    const auto read = [&field](const Json & object, const char * name, auto & value) { object.at(field = name).get_to(value); };
    // What need not be there stays as it is.
    const auto read_if_there = [&](const Json & object, const char * name, auto & value) {
        if (object.contains(name)) { read(object, name, value); }
    };
    try {
        const Json line = Json::parse(text);
        Answer a;
        read(line, "task", a.task);
        read(line, "length", a.length);
        read(line, "sample", a.sample);
        read(line, "index", a.index);
        read(line, "turn", a.turn);
        read(line, "policy", a.policy);
        read(line, "budget", a.budget);
        read_if_there(line, "chosen", a.chosen);
        read_if_there(line, "groups", a.groups);
        read_if_there(line, "refused", a.refused);
        if (a.refused.empty()) {
            read(line, "prediction", a.prediction);
            read(line, "score", a.score);
            read_if_there(line, "blocks", a.blocks);
            if (line.contains("score_per_character")) { read(line, "score_per_character", a.score_per_character.emplace()); }
            read_if_there(line, "references", a.references);
            read_if_there(line, "fields", a.fields);
            read_if_there(line, "prompt", a.prompt);
        }
        read(line, "n_prompt", a.n_prompt);
        read(line, "n_new", a.n_new);
        read_if_there(line, "n_cut", a.n_cut);
        read(line, "kept", a.kept);
        read_if_there(line, "kv_bytes", a.kv_bytes);
        read(line, "n_kv_heads", a.n_kv_heads);
        read_if_there(line, "lanes", a.lanes);
        read(line, "prefill_s", a.prefill_s);
        read(line, "answer_s", a.answer_s);
        return a;
    } catch (const Json::exception &) {
        return {ErrorCode::kBadFile, field.empty() ? "it is not JSON text in UTF-8"
                                                   : "the field '" + field + "' is missing or holds something else"};
    }
}

}  // namespace pith
