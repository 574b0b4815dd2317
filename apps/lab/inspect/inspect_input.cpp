// inspect_input.cpp - finds the texts, and leaves out those that do not fit.
#include "app/inspect/inspect_input.h"

#include <algorithm>
#include <utility>

#include "common/base/read_text.h"
#include "common/options/options.h"
#include "core/check.h"
#include "engine/probe/built_in_task.h"
#include "eval/sample_file.h"
#include "eval/sample_prompt.h"
#include "text/prompt.h"

namespace pith::app {
namespace {

constexpr int kBuiltInTokens = 1024;

Result<std::vector<int32_t>> read_ids(const std::string & path, const Tokenizer & tokenizer) {
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> ids, read_token_ids(path));
    PITH_RETURN_IF_ERROR(check_token_ids(ids, tokenizer.n_vocab()));
    return ids;
}

void add_text(std::vector<int32_t> context, const std::vector<int32_t> & question, const InspectInput & input,
              InspectTexts & texts) {
    context.insert(context.end(), question.begin(), question.end());
    texts.tokens.push_back(std::move(context));
    texts.n_later.push_back(input.question_later ? static_cast<int>(question.size()) : 0);
}

// The text of -f and the question of -p, or the prompt of -p alone.
Result<Prompt> read_own_text(const InspectInput & input, const Tokenizer & tokenizer) {
    PromptRequest request;
    if (!input.file.empty()) {
        PITH_ASSIGN_OR_RETURN(request.context, read_plain_text(input.file));
        if (request.context.empty()) { return {ErrorCode::kInvalidArgument, "'" + input.file + "' has no text"}; }
    }
    request.questions = {input.prompt};
    request.use_template = !input.raw && tokenizer.has_chat_template();
    return build_prompt(tokenizer, request);
}

// A fact hidden in the built-in text of this index, asked for; or why it does not fit.
Status add_built_in_text(const InspectInput & input, const Tokenizer & tokenizer, int index, InspectTexts & texts) {
    corpus::TaskOptions options;
    options.n_tokens = input.n_tokens.value_or(kBuiltInTokens);
    options.seed = input.seed;
    options.index = static_cast<uint64_t>(index);
    PITH_ASSIGN_OR_RETURN(const BuiltInTask made, make_built_in_task("single", options, count_tokens_of(tokenizer)));
    if (!made.too_short.empty()) {
        texts.left_out.push_back("text " + std::to_string(index + 1) + ": " + made.too_short + ", but --tokens is " +
                                 std::to_string(options.n_tokens) + ": raise it");
        return {};
    }
    PromptRequest request;
    request.context = made.task.context;
    request.questions = {made.task.question + made.task.answer_prefix};
    request.use_template = false;
    PITH_ASSIGN_OR_RETURN(const Prompt prompt, build_prompt(tokenizer, request));
    add_text(prompt.context, prompt.questions.front(), input, texts);
    return {};
}

Status add_sample(const InspectInput & input, const Model & model, const Tokenizer & tokenizer, const FileSample & one,
                  InspectTexts & texts) {
    PromptRules rules;
    rules.chat = (one.task == nullptr ? !one.sample.turns.front().question.empty() : one.task->rules().chat) && !input.raw &&
                 tokenizer.has_chat_template();
    if (one.task != nullptr) {
        rules.too_long = one.task->rules().too_long;
        rules.prefix_asked = one.task->rules().prefix_asked && !input.raw;
    }
    rules.n_ctx = input.n_tokens.value_or(model.info().n_ctx_train);
    PITH_ASSIGN_OR_RETURN(const SampleTokens tokens, tokenise_sample(tokenizer, one.sample, rules));
    if (!tokens.too_long.empty()) {
        const std::string task = one.task == nullptr ? "" : "task '" + one.task->rules().name + "', ";
        texts.left_out.push_back(task + tokens.too_long +
                                 (input.n_tokens ? ": raise --tokens"
                                                 : ", the length that the model was trained on: give a larger one with "
                                                   "--tokens"));
        return {};
    }
    std::vector<int32_t> asked = tokens.turns.front().question;
    const std::vector<int32_t> & prefix = tokens.turns.front().prefix;
    asked.insert(asked.end(), prefix.begin(), prefix.end());
    add_text(tokens.context, asked, input, texts);
    return {};
}

Status add_samples(const InspectInput & input, const Model & model, const Tokenizer & tokenizer, InspectTexts & texts) {
    SampleFileRequest request;
    request.name = input.data;
    if (!input.data.empty()) { PITH_ASSIGN_OR_RETURN(request.text, read_text(input.data)); }
    request.task = input.task;
    request.n_samples = input.n_texts.value_or(0);
    request.seed = input.seed;
    request.count = count_tokens_of(tokenizer);
    PITH_ASSIGN_OR_RETURN(const int overhead, prompt_overhead(tokenizer, !input.raw && tokenizer.has_chat_template()));
    request.n_tokens = std::max(1, input.n_tokens.value_or(kBuiltInTokens) - overhead);
    request.n_overhead = overhead;
    auto samples = read_samples(request);
    if (samples.status().code() == ErrorCode::kBudget) {
        return {ErrorCode::kInvalidArgument, samples.status().wording() + " by --tokens: raise it"};
    }
    PITH_RETURN_IF_ERROR(samples.status());
    for (const FileSample & one : *samples) { PITH_RETURN_IF_ERROR(add_sample(input, model, tokenizer, one, texts)); }
    return {};
}

}  // namespace

void InspectInput::add_to(CLI::App & command) {
    add(command, option("--file"), file, "Text ('-': standard input; default: a built-in one)");
    add(command, option("--prompt"), prompt, "Question after the text; for --gate and --attention also a text of its own");
    add(command, option("--token-ids"), token_ids, "Token ids instead of text: a file of numbers ('-': standard input)");
    command.add_option(
        "--data", data,
        "Means over the samples of this file: JSON lines of a benchmark, of `pith eval --write-samples`, or with a "
        "field `text` or `chapter`");
    command.add_option("--task", task,
                       "FAMILY/NAME: the task that --data is of, where its name does not say so; without --data: whose samples "
                       "are made (default: one fact in noise)");
    add(command, option("--tokens"), n_tokens,
        "Length of a built-in text (default: 1024); with --data: the most that a sample may have");
    command.add_option("--texts,--samples", n_texts,
                       "How many built-in texts (default: 1), or samples of --data (default: all): means and how texts vary");
    add(command, option("--seed"), seed, "Seed of the built-in texts")->capture_default_str();
    add(command, option("--raw"), raw);
    command.add_flag("--question-later", question_later,
                     "Policies do not see the question, which is read behind what they keep (context-only)");
}

Status InspectInput::check(bool prompt_alone) const {
    const std::string texts = "--texts " + std::to_string(n_texts.value_or(1));
    PITH_RETURN_IF_ERROR(check_at_least("--texts (--samples)", n_texts.value_or(1), 1));
    if (!prompt.empty() && file.empty() && !prompt_alone) {
        return {ErrorCode::kInvalidArgument, "-p asks about the text of -f: give both, or neither for the built-in text"};
    }
    if (!token_ids.empty() && (!file.empty() || !prompt.empty())) {
        return {ErrorCode::kInvalidArgument, "--token-ids is the whole text: leave out -f and -p"};
    }
    if (question_later && (!token_ids.empty() || (is_own_text() && (file.empty() || prompt.empty())))) {
        return {ErrorCode::kInvalidArgument,
                "--question-later must know where the question begins: give -f and -p, --data or --task, or neither for the "
                "built-in text"};
    }
    if (is_own_text() && n_texts.value_or(1) > 1) {
        return {
            ErrorCode::kInvalidArgument,
            texts + " is a table over built-in texts or over --data: leave out -f, -p and --token-ids, or look at one text"};
    }
    if (is_own_text() && (!data.empty() || !task.empty())) {
        return {ErrorCode::kInvalidArgument, "--data and --task choose the texts: leave out -f, -p and --token-ids"};
    }
    return data.empty() ? Status() : check_at_least("--tokens", n_tokens.value_or(1), 1);
}

Result<InspectTexts> read_inspect_texts(const InspectInput & input, const Model & model, const Tokenizer & tokenizer) {
    InspectTexts texts;
    if (!input.token_ids.empty()) {
        PITH_ASSIGN_OR_RETURN(std::vector<int32_t> ids, read_ids(input.token_ids, tokenizer));
        add_text(std::move(ids), {}, input, texts);
    } else if (input.is_own_text()) {
        PITH_ASSIGN_OR_RETURN(Prompt prompt, read_own_text(input, tokenizer));
        add_text(std::move(prompt.context), prompt.questions.front(), input, texts);
    } else if (!input.data.empty() || !input.task.empty()) {
        PITH_RETURN_IF_ERROR(add_samples(input, model, tokenizer, texts));
    } else {
        for (int index = 0; index < input.n_texts.value_or(1); ++index) {
            PITH_RETURN_IF_ERROR(add_built_in_text(input, tokenizer, index, texts));
        }
    }
    if (texts.tokens.empty()) {
        return {ErrorCode::kInvalidArgument,
                texts.left_out.empty() ? "'" + input.data + "' has no samples" : "no text fits: " + texts.left_out.front()};
    }
    return texts;
}

}  // namespace pith::app
