// run_report.cpp - for people the ledger, for programs one JSON object.
#include "app/run/run_report.h"

#include <cstdio>
#include <string>

#include "common/base/flag_names.h"
#include "common/base/ledger_report.h"

namespace pith::app {
namespace {

// A token by its name: what the text leaves out has one, too.
Json named_logprob(const Tokenizer & tokenizer, int32_t token, float logprob) {
    return {{"id", token}, {"token", tokenizer.piece(token, /*special=*/true)}, {"logprob", logprob}};
}

// As llama.cpp's server gives them.
Json logprobs_of(const Tokenizer & tokenizer, const Generated & generated) {
    Json all = Json::array();
    for (size_t i = 0; i < generated.logprobs.size(); ++i) {
        Json entry = named_logprob(tokenizer, generated.tokens[i], generated.logprobs[i].logprob);
        Json & top = entry["top_logprobs"] = Json::array();
        for (const auto & [token, logprob] : generated.logprobs[i].top) {
            top.push_back(named_logprob(tokenizer, token, logprob));
        }
        all.push_back(std::move(entry));
    }
    return all;
}

}  // namespace

void print_outcome(const RunFlags & flags, const Tokenizer & tokenizer, const RunOutcome & outcome, bool interrupted) {
    if (!flags.json) {
        if (flags.quiet) { return; }
        std::fprintf(stderr, "\n%s", ledger_lines(outcome.ledger).c_str());
        if (flags.parallel > 1) {
            std::fprintf(stderr, "parallel %lld answers at a time at most, %lld steps", static_cast<long long>(flags.parallel),
                         static_cast<long long>(outcome.n_steps));
            if (outcome.longest_unit_s > 0) {
                std::fprintf(stderr, "; a prompt read layer by layer delayed others' tokens by %.0f ms at most",
                             1e3 * outcome.longest_unit_s);
            }
            std::fputc('\n', stderr);
        }
        return;
    }
    Json object;
    std::string joined;
    Json answers = Json::array();
    int64_t n_said = 0;
    for (const RunAnswer & answer : outcome.answers) {
        n_said += answer.generated.n_generated;
        joined += (joined.empty() ? "" : "\n") + answer.generated.text;
        answers.push_back({{"question", answer.question},
                           {"text", answer.generated.text},
                           {"tokens", answer.generated.tokens},
                           {"n_generated", answer.generated.n_generated},
                           {"stop", answer.generated.stop}});
        if (!answer.generated.failure.ok()) { answers.back()["error"] = message_of(answer.generated.failure); }
        if (answer.kv_missed >= 0) {
            answers.back()["kv_missed"] = answer.kv_missed;
            answers.back()["returned_entries"] = answer.n_returned;
        }
        if (!answer.generated.reasoning.empty()) { answers.back()["reasoning"] = answer.generated.reasoning; }
        if (flags.n_logprobs > 0) { answers.back()["logprobs"] = logprobs_of(tokenizer, answer.generated); }
        if (!flags.logits.empty()) { answers.back()["logits_rows"] = {answer.first_logits, answer.end_logits}; }
    }
    object["model"] = flags.model.path;
    if (!flags.model.gate.empty()) { object["gate"] = flags.model.gate; }
    if (!flags.model.lora.empty()) {
        object["lora"] = flags.model.lora;
        object["lora_scale"] = flags.model.lora_scale;
    }
    object["text"] = joined;
    object["answers"] = answers;
    add_ledger(object, outcome.ledger);
    if (outcome.in_sight) { object["questions_in_sight"] = *outcome.in_sight; }
    if (flags.parallel > 1) {
        object["parallel"] = flags.parallel;
        object["n_steps"] = outcome.n_steps;
        object["longest_unit_s"] = outcome.longest_unit_s;
    }
    object["n_generated"] = n_said;  // the ledger counts the tokens fed: an answer's last one is not
    if (!flags.logits.empty()) { object["logits"] = flags.logits; }
    object["interrupted"] = interrupted;
    // One session has served all questions, or each one had its own.
    if (flags.kept) { object["kept"] = outcome.kept.size() == 1 ? Json(outcome.kept[0]) : Json(outcome.kept); }
    print_json(object);
}

}  // namespace pith::app
