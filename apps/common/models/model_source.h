// model_source.h - where a command's model comes from: -m FILE, -m NAME of a model that another program keeps, -hf USER/REPO.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pith/status.h"

namespace pith::app {

struct ModelSource {
    std::string path;  // a file once find() succeeded
    std::string hf_repo;
    std::string hf_file;
    std::string hf_token;
    bool offline = false;
    bool required = false;  // else the built-in model is what nobody names

    void add_to(CLI::App & command, bool is_required);
    bool named() const { return !path.empty() || !hf_repo.empty(); }
    // Makes `path` a file's: looks in other programs' folders, fetches, or takes the built-in model. After the first time it
    // does nothing.
    // Errors: kInvalidArgument: a usage error; kNotFound; those of fetch_model() and reference_model().
    Status find();
};

// The file that -m's value means: one that is there, or a model's that another program keeps.
// Errors: those of match_model(); kBadFile: the other program's file is gone.
Result<std::string> find_model_file(const std::string & name);

}  // namespace pith::app
