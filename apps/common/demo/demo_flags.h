// demo_flags.h - the flags of `pith demo`: it asks questions; with --perplexity, pith-lab measures instead.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/flags/engine_flags.h"
#include "engine/probe/demo.h"

namespace pith::app {

struct DemoFlags {
    ModelFlags model;
    std::vector<std::string> budgets = {"256", "128"};
    std::string policies;
    std::vector<std::string> tasks;
    std::optional<int> n_samples;
    int n_tokens = 1024;
    int n_threads = 0;
    std::string heads;
    uint64_t seed = 1;
    bool question_aware = false;
    bool context_only = false;
    bool share = false;
    bool perplexity = false;
    bool json = false;
    bool csv = false;

    void add_to(CLI::App & command);
    // Question-aware or not; without a flag, or with both, one beside the other.
    std::vector<bool> settings() const;
    // Of a model that was found. Errors: kInvalidArgument: names the flag.
    Result<DemoOptions> options() const;
};

}  // namespace pith::app
