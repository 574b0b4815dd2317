// sampler_flags.h - how the next token is drawn: llama.cpp's flags, with its defaults.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "pith/text.h"

namespace pith::app {

struct SamplerFlags {
    SamplerOptions sampler;
    std::vector<std::string> logit_bias;  // "15043+1", "15043-1", "15043-inf"
    std::vector<std::string> dry_breakers;
    int draft_ngram = 0;  // SessionOptions::draft_ngram
    std::string grammar, grammar_file, json_schema, json_schema_file;

    void add_to(CLI::App & command);
    // Reads the files, turns a schema into a grammar, and checks all that can be checked without a model.
    // Errors: kInvalidArgument (a usage error), kNotFound, kIo.
    Result<SamplerOptions> options() const;
};

}  // namespace pith::app
