// inspect_input.h - the texts that `pith inspect` looks at: one of the user's, built-in ones, or samples of a data set.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pith/model.h"
#include "pith/text.h"

namespace pith::app {

struct InspectInput {
    std::string file;
    std::string token_ids;  // a file of them: the whole text
    std::string prompt;
    std::string data;             // JSON lines
    std::string task;             // FAMILY/NAME: how `data` is read, or whose samples are made
    std::optional<int> n_tokens;  // of a built-in text; the most of a sample of `data`
    std::optional<int> n_texts;
    uint64_t seed = 1;
    bool raw = false;
    bool question_later = false;  // policies do not see the question

    void add_to(CLI::App & command);
    bool is_own_text() const { return !file.empty() || !prompt.empty() || !token_ids.empty(); }
    // Means over texts are wanted, be there only one.
    bool wants_means() const { return !data.empty() || n_texts.value_or(1) > 1; }
    // What can be said without a model. prompt_alone: -p may stand without -f.   Errors: kInvalidArgument: a usage error.
    Status check(bool prompt_alone) const;
};

struct InspectTexts {
    std::vector<std::vector<int32_t>> tokens;  // one or more
    std::vector<int> n_later;           // of each: its last tokens, which policies do not see; 0 without --question-later
    std::vector<std::string> left_out;  // why, for each text that does not fit: one line, which names the option
};

// Reads or makes the texts, as tokens, each with its first question.
// Errors: those of files and tokeniser; kInvalidArgument: none of the texts fits (says why the first does not).
Result<InspectTexts> read_inspect_texts(const InspectInput & input, const Model & model, const Tokenizer & tokenizer);

}  // namespace pith::app
