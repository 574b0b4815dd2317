// answer.cpp - answers as lines of JSON. Stage: eval.
#include "eval/answer.h"

#include <nlohmann/json.hpp>

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
    try {
        const Json line = Json::parse(text);
        Answer a;
        line.at("task").get_to(a.task);
        line.at("length").get_to(a.length);
        line.at("sample").get_to(a.sample);
        line.at("index").get_to(a.index);
        line.at("turn").get_to(a.turn);
        line.at("policy").get_to(a.policy);
        line.at("budget").get_to(a.budget);
        a.chosen = line.value("chosen", "");
        a.groups = line.value("groups", a.groups);
        a.refused = line.value("refused", "");
        if (a.refused.empty()) {
            line.at("prediction").get_to(a.prediction);
            line.at("score").get_to(a.score);
            if (line.contains("score_per_character")) { a.score_per_character = line["score_per_character"].get<double>(); }
            a.references = line.value("references", a.references);
            a.fields = line.value("fields", a.fields);
            a.prompt = line.value("prompt", "");
        }
        line.at("n_prompt").get_to(a.n_prompt);
        line.at("n_new").get_to(a.n_new);
        a.n_cut = line.value("n_cut", 0);
        line.at("kept").get_to(a.kept);
        a.kv_bytes = line.value("kv_bytes", int64_t{0});
        line.at("n_kv_heads").get_to(a.n_kv_heads);
        a.lanes = line.value("lanes", a.lanes);
        line.at("prefill_s").get_to(a.prefill_s);
        line.at("answer_s").get_to(a.answer_s);
        return a;
    } catch (const Json::exception & error) { return {ErrorCode::kBadFile, error.what()}; }
}

}  // namespace pith
