// engine_flags.h - the options that `run` and others share: which model, which policy, how much cache, how many threads.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "common/flags/device_flags.h"
#include "common/models/model_source.h"
#include "pith/model.h"
#include "pith/session.h"

namespace pith::app {

struct ModelFlags : ModelSource {
    bool no_mmap = false;
    bool no_repack = false;
    std::string lora;
    float lora_scale = 1.0F;
    std::string gate;  // empty: none
    DeviceFlags devices;

    void add_to(CLI::App & command, bool is_required = true);
    // ModelSource's, once the devices that are asked for make sense; from then on a server that goes ends the program with one
    // line. Errors: also kInvalidArgument: a usage error.
    Status find();
    ModelOptions options() const;  // REQUIRES: find() succeeded
    bool is_adapted() const { return !lora.empty() && lora_scale != 0.0F; }
    // With a progress line where stderr is a terminal.   REQUIRES: find() succeeded.
    Result<Model> load() const;
};

// --heads FILE
void add_heads_option(CLI::App & command, std::string & path);

struct CacheFlags {
    std::string type_k = "f16";
    std::string type_v = "f16";
    bool no_rotation = false;
    bool no_context_shift = false;

    void add_to(CLI::App & command);
    // Options with type_k, type_v and rotate_kv. Errors: kInvalidArgument.
    template <class Options>
    Status set(Options & options) const {
        PITH_ASSIGN_OR_RETURN(options.type_k, parse_kv_type(type_k));
        PITH_ASSIGN_OR_RETURN(options.type_v, parse_kv_type(type_v));
        options.rotate_kv = !no_rotation;
        if constexpr (requires { options.context_shift; }) { options.context_shift = !no_context_shift; }
        return {};
    }
};

// What becomes of entries that are evicted.
struct ColdFlags {
    std::string type;  // empty: not said; none: they are gone
    std::string most = "8G";
    bool look_back = false;
    int repair_every = SessionOptions().repair_every;

    // --cold, --cold-size, --look-back. default_type: what the command does where --cold is not given; empty: "none"
    void add_to(CLI::App & command, const std::string & default_type = {});
    void add_repair_every_to(CLI::App & command);  // of what answers
    // Errors: kInvalidArgument: a usage error.
    Status set(SessionOptions & options) const;
    bool keeps() const { return !type.empty() && type != "none"; }
};

// One line on stderr, once in a process, where keys are rounded to four bits as they are.
void warn_of_coarse_keys(const SessionOptions & options);

struct SessionFlags {
    std::string policy;
    std::optional<std::string> budget;
    std::string default_budget;  // add_to's; empty: none
    std::optional<std::string> tolerance;
    std::string tolerant_budget = "100%";  // without --budget
    CacheFlags cache;
    std::string heads;  // empty: the file beside the model, if there is one
    ColdFlags cold;
    std::string prefill = "auto";
    int n_threads = 0;
    int ctx_size = 0;
    int chunk = kDefaultChunk;
    int evict_every = kDefaultEvictEvery;
    int grid = 0;

    // default_policy: the policy without --policy. without_budget: the budget without --budget, where the policy is auto.
    void add_to(CLI::App & command, const std::string & default_policy = "auto", const std::string & without_budget = "");
    // --tolerance
    void add_tolerance_to(CLI::App & command);
    // Checks everything that can be checked without a model. Without a policy it is `auto`. has_gates: of the model.
    // Errors: kInvalidArgument: a usage error.
    Result<SessionOptions> options(bool has_gates = false) const;
    // The same where another policy stands for the flag's.
    Result<SessionOptions> options_with(const PolicyChoice & choice, bool has_gates) const;
};

Result<PrefillSchedule> parse_prefill(const std::string & text);

}  // namespace pith::app
