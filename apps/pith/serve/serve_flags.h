// serve_flags.h - what `pith serve` is asked to do: llama-server's names where it has them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/flags/chat_template_flags.h"
#include "common/flags/engine_flags.h"
#include "common/flags/reverse_prompt.h"
#include "common/flags/sampler_flags.h"
#include "serve/api.h"
#include "serve/generator.h"
#include "serve/http_server.h"

namespace pith::app {

struct ServeFlags {
    ModelFlags model;
    SessionFlags session;
    SamplerFlags sampler;
    ChatTemplateFlags chat_template;
    ReversePromptFlags reverse_prompts;
    serve::HttpOptions http;
    std::string alias;
    std::vector<std::string> api_keys;  // each may hold several, between commas
    std::string api_key_file;           // one a line
    std::string ceiling = "auto";
    std::string cache_dir;  // empty: none
    std::string cache_size = "8G";
    int cache_ram_mib = 8192;  // as llama-server has it; -1: as much as the ceiling leaves, 0: none
    bool share_prefix = false;
    int64_t n_predict = -1;
    int parallel = 0;
    int most_waiting = 256;
    int most_body_mib = 32;
    double request_timeout_s = 0;
    double shutdown_timeout_s = 25;  // less than the 30 that Kubernetes gives before it kills; below 0: no limit
    bool no_slots = false;
    bool no_page = false;
    bool no_pin_system = false;
    bool no_repair = false;
    bool priorities = false;
    bool ignore_eos = false;
    std::vector<std::string> read_first;  // files of requests' bodies

    void add_to(CLI::App & command);
    // Errors: kInvalidArgument: flags that make no sense.
    Status check() const;
    // Errors: kNotFound, kIo; kInvalidArgument: no key, or one with a blank in it.
    Result<std::vector<std::string>> read_keys() const;
    // What states of who brings each key are called: nothing of a key can be read from it. Empty: all share theirs.
    std::vector<std::string> owners(const std::vector<std::string> & keys) const;
    Result<serve::GeneratorOptions> generator_options(const SessionOptions & session) const;
};

}  // namespace pith::app
