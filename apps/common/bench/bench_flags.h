// bench_flags.h - the flags of `pith bench`, all of them: those of speed at given depths, which pith measures, and those of the
// other modes, which pith-lab does.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/bench/bench_lists.h"
#include "common/flags/engine_flags.h"
#include "engine/probe/bench.h"

namespace pith::app {

// --batch.
struct BatchFlags {
    std::vector<int> batches;
    bool own = false;
};

// --crowd.
struct CrowdFlags {
    int n_chats = 0;
    int64_t n_prefix = 15360;
    int64_t n_tail = 1024;
    int64_t n_long = 0;
};

struct BenchFlags {
    ModelFlags model;
    SessionFlags session;
    std::vector<int64_t> depths = {0};
    int n_prompt = -1;
    int n_generate = -1;
    BenchListFlags lists;  // as given
    std::optional<int> n_repetitions;
    bool scoring = false;
    bool profile = false;
    bool gates = false;
    bool in_turns = false;
    bool paced = false;
    BatchFlags batch;                     // of --batch; no batches: not asked for
    std::optional<int> n_chats;           // of --crowd
    CrowdFlags crowd;                     // its lengths
    std::optional<int64_t> n_endless;     // of --endless
    std::optional<std::string> policies;  // what `--policies` is given; "all" where nothing is
    bool no_llama = false;
    bool no_interleave = false;
    bool json = false;

    void add_to(CLI::App & command);
    // What two of them together ask for. Errors: kInvalidArgument: names the flags.
    Status check() const;
    // The flag that asks for something else than speed at given depths, which pith-lab measures; empty: none does.
    std::string mode() const;
    // llama.cpp's programs take no adapter and are told of no devices: they would measure something else.
    bool beside_llama() const;
    // After lists.give_first(). Errors: kInvalidArgument: what a flag's value is.
    Result<BenchOptions> options() const;
};

}  // namespace pith::app
