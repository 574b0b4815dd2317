// run_flags.h - what `pith run` is asked to do, and the texts that it is asked about.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/flags/chat_template_flags.h"
#include "common/flags/engine_flags.h"
#include "common/flags/reverse_prompt.h"
#include "common/flags/sampler_flags.h"
#include "pith/batch_engine.h"
#include "text/prompt.h"

namespace pith::app {

struct RunFlags {
    ModelFlags model;
    SessionFlags session;
    SamplerFlags sampler;
    ReversePromptFlags reverse_prompt;
    ChatTemplateFlags chat_template;
    ReasoningMarks reasoning_marks;  // of the model's template, once it is loaded
    std::string file;
    std::string prompts_file;  // one a line
    std::string token_ids;     // a file of them: the whole prompt
    std::string logits;        // a file for them
    std::string cache;         // a file to go on from
    std::string save_cache;    // and one for what the session then holds
    std::string ask_budget;    // empty: what a cache file holds is asked as it is
    std::string ask_policy;    // empty: auto
    int64_t save_every = 0;    // tokens
    bool follow = false;       // the text goes on coming
    std::vector<std::string> prompts;
    std::vector<std::string> prompt_words;  // the prompt again, without -p
    std::string system_prompt;
    std::string system_prompt_file;
    int64_t n_predict = 512;
    int n_logprobs = 0;
    int parallel = 1;  // answers at a time
    bool pin_system = false;
    bool question_aware = false;
    bool question_later = false;
    bool raw = false;
    bool escape = false;
    bool json = false;
    bool quiet = false;
    bool no_stream = false;
    bool ignore_eos = false;
    bool kept = false;
    bool no_repair = false;

    void add_to(CLI::App & command);
    // Of them what a session that was read before leaves to say.
    void add_answer_options(CLI::App & command);
    // The words that are no option's are the prompt.   Errors: kInvalidArgument: there is one, or it is a model's file.
    Status take_prompt_words();
    // Errors: kInvalidArgument: flags that do not go together. Those of session and sampler are theirs to check.
    Status check() const;
    // --ask-budget and --ask-policy. None: a cache file is asked as it is.   Errors: kInvalidArgument.
    Result<std::optional<Eviction>> ask_eviction() const;
    // The texts the user gave, checked as far as they can be without a model; from standard input where nobody said what is
    // asked. Errors: kInvalidArgument (no text, no UTF-8), kNotFound, kIo.
    Result<PromptRequest> read_texts() const;
};

}  // namespace pith::app
