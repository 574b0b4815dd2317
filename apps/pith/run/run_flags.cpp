// run_flags.cpp - the options of `pith run`, checked and read before anything is loaded.
#include "app/run/run_flags.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "app/run/piped_text.h"
#include "common/base/escapes.h"
#include "common/base/read_text.h"
#include "common/options/options.h"
#include "common/options/read_arguments.h"
#include "core/check.h"
#include "core/text.h"
#include "pith/budget.h"

namespace pith::app {
namespace {

// A prompt a line; empty lines are none.
Status read_lines(const std::string & path, std::vector<std::string> & prompts) {
    PITH_ASSIGN_OR_RETURN(const std::string text, read_plain_text(path));
    const size_t n_before = prompts.size();
    for (std::string_view line : split(text, '\n')) {
        if (!line.empty()) { prompts.emplace_back(line); }
    }
    if (prompts.size() > n_before) { return {}; }
    return {ErrorCode::kInvalidArgument, "the prompt is empty: '" + path + "' has no line of text"};
}

}  // namespace

void RunFlags::add_to(CLI::App & command) {
    add_answer_options(command);
    add(command, option("--file"), file);
    auto * at_a_time = add(command, option("--parallel"), parallel);
    at_a_time->capture_default_str();
    auto * ids = add(command, option("--token-ids"), token_ids);
    auto * system = add(command, option("--system-prompt"), system_prompt);
    auto * system_file = add(command, option("--system-prompt-file"), system_prompt_file);
    system_file->excludes(system);
    add(command, option("--pin-system"), pin_system);
    session.add_to(command, "auto", "auto");
    session.add_tolerance_to(command);
    session.cold.add_to(command);
    auto * aware = command
                       .add_flag("--question-aware", question_aware,
                                 "Compress context and question together, once per question (default with one question)")
                       ->group(kCacheHeading);
    auto * later =
        command
            .add_flag("--question-later", question_later,
                      "Compress the context before any question is known (default: all are; several share one compression)")
            ->group(kCacheHeading);
    later->excludes(aware);
    auto * raw_text = add(command, option("--raw"), raw, "Leave out the model's chat template (-no-cnv)");
    auto * from = command
                      .add_option("--cache", cache,
                                  "Go on from a cache file, under the settings it was saved with (`pith ask` says the same)")
                      ->group(kFilesHeading);
    for (CLI::Option * other : {at_a_time, ids, system, system_file, aware, later, raw_text}) { from->excludes(other); }
    for (const char * name :
         {"--policy", "--budget", "--tolerance", "--heads", "--cache-type-k", "--cache-type-v", "--no-kv-rotation",
          "--no-context-shift", "--cold", "--cold-size", "--look-back", "--prefill", "--chunk", "--evict-every", "--grid"}) {
        from->excludes(command.get_option(name));
    }
    auto * endless =
        command
            .add_flag("--follow", follow,
                      "Read -f as it grows, until Ctrl-C, or standard input until it ends, on and on inside the "
                      "budget; -p is answered where standard input ends. With --cache: where that file's text goes "
                      "on")
            ->group(kFilesHeading);
    for (CLI::Option * other : {at_a_time, ids, aware, later}) { endless->excludes(other); }
    command
        .add_option("--save-every", save_every,
                    "With --follow: write --save-cache whenever so many tokens have come; 0: at the end")
        ->capture_default_str()
        ->group(kFilesHeading);
}

void RunFlags::add_answer_options(CLI::App & command) {
    model.add_to(command, /*is_required=*/false);
    add(command, option("--prompt"), prompts)->allow_extra_args(false);
    command.add_option(kPromptWords, prompt_words, "The prompt, as with -p");
    command.add_option("--prompts", prompts_file, "More of them: a file of one a line ('-': standard input)")
        ->group(kTextHeading);
    add(command, option("--escape"), escape);
    add(command, option("--n-predict"), n_predict)->capture_default_str();
    reverse_prompt.add_to(command);
    chat_template.add_to(command);
    sampler.add_to(command);
    command
        .add_option("--save-cache", save_cache,
                    "Save prompt and answer to this cache file, to go on from with --cache (one prompt)")
        ->group(kFilesHeading);
    add(command, option("--ask-budget"), ask_budget);
    add(command, option("--ask-policy"), ask_policy);
    add(command, option("--no-repair"), no_repair);
    session.cold.add_repair_every_to(command);
    const auto of_answer = [](CLI::Option * added) { added->group(kTextHeading); };
    of_answer(command.add_flag("--ignore-eos", ignore_eos, "Go on where the model would end"));
    add(command, option("--json"), json);
    add(command, option("--quiet"), quiet);
    of_answer(command.add_flag("--kept", kept, "With --json: the positions that every layer's KV heads hold at the end"));
    of_answer(
        command
            .add_option(
                "--logprobs,--n-probs", n_logprobs,
                "With --json: the log-probability of every token said, and of so many likeliest ones in its place; 0: none")
            ->capture_default_str());
    of_answer(command.add_option(
        "--logits", logits, "Write the logits that each token was chosen from to this file: .npy, f32 [tokens, vocabulary]"));
    of_answer(command.add_flag("--no-stream", no_stream, "Print an answer when it is whole"));
}

Status RunFlags::take_prompt_words() {
    if (prompt_words.empty()) { return {}; }
    std::ranges::transform(prompt_words, prompt_words.begin(), as_typed);
    const std::string & first = prompt_words.front();
    if (!prompts.empty()) {
        return {ErrorCode::kInvalidArgument,
                "'" + first + "' is no option's value, and -p gives a prompt: leave one of them out"};
    }
    if (prompt_words.size() == 1 && first.ends_with(".gguf")) {
        return {ErrorCode::kInvalidArgument, "'" + first + "' stands where the prompt does: give a model with -m"};
    }
    std::string & prompt = prompts.emplace_back();
    for (const std::string & word : prompt_words) { prompt += (prompt.empty() ? "" : " ") + word; }
    return {};
}

Status RunFlags::check() const {
    const auto wrong = [](const std::string & what) { return Status(ErrorCode::kInvalidArgument, what); };
    const bool has_system = !system_prompt.empty() || !system_prompt_file.empty();
    PITH_RETURN_IF_ERROR(check_at_least("--n-predict", n_predict, -1));
    if (kept && !json) { return wrong("--kept prints into the JSON object: give --json, too"); }
    PITH_RETURN_IF_ERROR(check_at_least("--parallel", parallel, 1));
    if (n_logprobs < 0) { return wrong("--logprobs is " + std::to_string(n_logprobs) + ": give 0 (none) or more"); }
    if (n_logprobs > 0 && !json) { return wrong("--logprobs prints into the JSON object: give --json, too"); }
    if (chat_template.any() && (raw || !token_ids.empty())) {
        return wrong(std::string(raw ? "--raw" : "--token-ids") +
                     " is the prompt without a chat template: leave it out, or what the template is given");
    }
    if (pin_system && !has_system) { return wrong("--pin-system needs a --system-prompt to pin"); }
    if (!token_ids.empty() && (!file.empty() || !prompts.empty() || !prompts_file.empty() || has_system)) {
        return wrong("--token-ids is the whole prompt: leave out -f, -p, --prompts and --system-prompt");
    }
    if (!save_cache.empty() && (prompts.size() > 1 || !prompts_file.empty() || parallel > 1)) {
        return wrong("--save-cache keeps one prompt and its answer: give one -p, without --prompts and --parallel");
    }
    PITH_RETURN_IF_ERROR(check_at_least("--save-every", save_every, 0));
    if (!cache.empty() && !file.empty() && !follow) {
        return wrong("--cache excludes --file: the file's text is in the cache; more of it is read with --follow");
    }
    if (ask_budget.empty() && !ask_policy.empty()) { return wrong("--ask-policy keeps to a budget: give --ask-budget, too"); }
    if (!ask_budget.empty()) {
        if (cache.empty() || follow) {
            return wrong("--ask-budget is for questions on a cache file: give --cache FILE, or use `pith ask`");
        }
        PITH_RETURN_IF_ERROR(ask_eviction().status());
    }
    if (!follow && save_every > 0) { return wrong("--save-every saves while a text is followed: give --follow, too"); }
    if (save_every > 0 && save_cache.empty()) { return wrong("--save-every needs a file: name it with --save-cache"); }
    if (follow && (prompts.size() > 1 || !prompts_file.empty())) {
        return wrong("--follow asks one question, at the end: give one -p, without --prompts");
    }
    if (follow && !prompts.empty() && !file.empty() && file != "-") {
        return wrong("--follow reads '" + file +
                     "' until Ctrl-C, so that -p would never be answered: leave it out, and ask the file of "
                     "--save-cache with `pith ask`");
    }
    if (file == "-" && prompts_file == "-") { return wrong("-f and --prompts both read standard input: give one a file"); }
    return {};
}

Result<std::optional<Eviction>> RunFlags::ask_eviction() const {
    if (ask_budget.empty()) { return std::optional<Eviction>(); }
    Eviction asked;
    PITH_ASSIGN_OR_RETURN(asked.budget, Budget::parse(ask_budget, {"--ask-budget"}));
    if (!ask_policy.empty()) { PITH_ASSIGN_OR_RETURN(asked.policy, PolicyChoice::parse(ask_policy)); }
    return std::optional(std::move(asked));
}

Result<PromptRequest> RunFlags::read_texts() const {
    PromptRequest request;
    if (!token_ids.empty()) {
        request.questions = {""};  // what is answered has no text
        return request;
    }
    PITH_ASSIGN_OR_RETURN(request.system,
                          read_system_prompt(system_prompt_file, escape ? unescaped(system_prompt) : system_prompt));
    std::vector<std::string> questions = prompts;
    if (!prompts_file.empty()) { PITH_RETURN_IF_ERROR(read_lines(prompts_file, questions)); }
    if (escape) { std::ranges::transform(questions, questions.begin(), unescaped); }
    if (follow) {
        for (const std::string & question : questions) { PITH_RETURN_IF_ERROR(check_utf8("the prompt", question)); }
        request.questions = std::move(questions);
        return request;
    }
    const bool is_for_template = chat_template.tools == "-" || chat_template.file == "-";  // which are read later
    if (file.empty() && cache.empty() && !questions.empty() && !is_for_template) {
        PITH_ASSIGN_OR_RETURN(request.context, read_piped_context());
    }
    if (file.empty() && questions.empty() && isatty(STDIN_FILENO) != 1) {
        PITH_ASSIGN_OR_RETURN(std::string piped, read_piped_prompt());
        questions.push_back(std::move(piped));
    }
    if (!file.empty()) {
        PITH_ASSIGN_OR_RETURN(request.context, read_plain_text(file));
        if (request.context.empty()) {
            return {ErrorCode::kInvalidArgument, "the prompt is empty: '" + file + "' has no text"};
        }
    }
    if (questions.empty() && !request.context.empty()) { questions.emplace_back(); }  // the file is the whole prompt
    for (size_t i = 0; i < questions.size(); ++i) {
        const std::string name = "prompt " + std::to_string(i + 1);
        PITH_RETURN_IF_ERROR(check_utf8(name, questions[i]));
        if (questions[i].empty() && (request.context.empty() || questions.size() > 1)) {
            return {ErrorCode::kInvalidArgument, "the prompt is empty: " + name + " has no text"};
        }
    }
    if (questions.empty()) { return {ErrorCode::kInvalidArgument, "the prompt is empty: give text with -p or -f"}; }
    request.questions = std::move(questions);
    return request;
}

}  // namespace pith::app
