// run.cpp - `pith run`: a context, questions about it, and a KV cache that stays inside its budget.
//
// With one question (or --question-aware) context and question are prefilled and compressed together, so that what is kept is
// chosen in the question's sight; once per question. With several (or --question-later) the context is prefilled and compressed
// once; each question follows at its true positions on the compressed cache, which is cut back after the answer.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "engine_flags.h"
#include "errors.h"
#include "foreign_text.h"
#include "generate.h"
#include "interrupt.h"
#include "ledger_report.h"
#include "npy_file.h"
#include "progress.h"
#include "read_text.h"
#include "sampler_flags.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace pith::app {
namespace {

struct RunFlags {
    ModelFlags model;
    SessionFlags session;
    SamplerFlags sampler;
    std::string file;
    std::string token_ids;  // a file of them: the whole prompt
    std::string logits;     // a file for them
    std::vector<std::string> prompts;
    std::string system_prompt;
    int64_t n_predict = 512;
    bool pin_system = false;
    bool question_aware = false;
    bool question_later = false;
    bool raw = false;
    bool json = false;
    bool no_stream = false;
    bool ignore_eos = false;
    bool kept = false;
};

// Original positions by layer and KV head.
using Positions = std::vector<std::vector<std::vector<int32_t>>>;

struct Answer {
    std::string question;
    Generated generated;
    int64_t first_logits = 0;  // rows of --logits: [first_logits, end_logits)
    int64_t end_logits = 0;
};

struct RunOutcome {
    std::vector<Answer> answers;
    std::vector<Positions> kept;  // of each session, at its end
    Ledger ledger;
};

void add_flags(CLI::App & command, RunFlags & flags) {
    flags.model.add_to(command);
    command.add_option("-f,--file", flags.file, "Text to read first: the context ('-': standard input)");
    command.add_option("-p,--prompt", flags.prompts, "Prompt, or a question on the context; may be repeated")
        ->allow_extra_args(false);
    command.add_option("--token-ids", flags.token_ids,
                       "Token ids as the whole prompt, instead of text: a file of numbers ('-': standard input)");
    command.add_option("--system-prompt", flags.system_prompt, "System prompt (-sys)");
    command.add_flag("--pin-system", flags.pin_system, "Never evict the system prompt");
    command.add_option("-n,--n-predict", flags.n_predict, "Tokens to generate at most; -1: until the model ends")
        ->capture_default_str();
    flags.session.add_to(command);
    command.add_flag("--question-aware", flags.question_aware,
                     "Compress context and question together, once per question (default with one question)");
    command
        .add_flag("--question-later", flags.question_later,
                  "Compress the context before the question is known (default with several: one compression serves all)")
        ->excludes("--question-aware");
    command.add_flag("--raw", flags.raw, "Leave out the model's chat template");
    flags.sampler.add_to(command);
    command.add_flag("--ignore-eos", flags.ignore_eos, "Go on where the model would end");
    command.add_flag("--json", flags.json, "One JSON object on standard output");
    command.add_flag("--kept", flags.kept, "With --json: the positions that every layer's KV heads hold at the end");
    command.add_option("--logits", flags.logits,
                       "Write the logits that each token was chosen from to this file: .npy, f32 [tokens, vocabulary]");
    command.add_flag("--no-stream", flags.no_stream, "Print an answer when it is whole");
}

// --token-ids is the whole prompt, as it is.
Status check_token_flags(const RunFlags & flags) {
    if (flags.token_ids.empty()) { return {}; }
    if (!flags.file.empty() || !flags.prompts.empty() || !flags.system_prompt.empty()) {
        return {ErrorCode::kInvalidArgument, "--token-ids is the whole prompt: leave out -f, -p and --system-prompt"};
    }
    return {};
}

// The texts the user gave, checked as far as they can be without a model.
Result<PromptRequest> read_request(const RunFlags & flags) {
    PromptRequest request;
    if (!flags.token_ids.empty()) {
        request.questions = {""};  // what is answered has no text
        return request;
    }
    request.system = flags.system_prompt;
    std::vector<std::string> questions = flags.prompts;
    if (!flags.file.empty()) {
        PITH_ASSIGN_OR_RETURN(request.context, read_text(flags.file));
        if (request.context.empty()) {
            return {ErrorCode::kInvalidArgument, "the prompt is empty: '" + flags.file + "' has no text"};
        }
    }
    if (questions.empty() && !request.context.empty()) { questions.emplace_back(); }  // the file is the whole prompt
    for (size_t i = 0; i < questions.size(); ++i) {
        const std::string name = "prompt " + std::to_string(i + 1);
        if (const auto bad = invalid_utf8_offset(questions[i])) {
            return {ErrorCode::kInvalidArgument, name + " is not UTF-8: byte " + std::to_string(*bad) + " begins no character"};
        }
        if (questions[i].empty() && (request.context.empty() || questions.size() > 1)) {
            return {ErrorCode::kInvalidArgument, "the prompt is empty: " + name + " has no text"};
        }
    }
    if (questions.empty()) { return {ErrorCode::kInvalidArgument, "the prompt is empty: give text with -p or -f"}; }
    if (const auto bad = invalid_utf8_offset(request.system)) {
        return {ErrorCode::kInvalidArgument,
                "the system prompt is not UTF-8: byte " + std::to_string(*bad) + " begins no character"};
    }
    request.questions = std::move(questions);
    return request;
}

// One run of the command, from loaded model to answers.
class Runner {
public:
    Runner(const RunFlags & flags, SamplerOptions sampler, SessionOptions options, const Model & model,
           const Tokenizer & tokenizer, Prompt prompt, const PromptRequest & request, NpyFile * logits)
        : flags_(flags),
          sampler_(std::move(sampler)),
          options_(std::move(options)),
          model_(model),
          tokenizer_(tokenizer),
          prompt_(std::move(prompt)),
          request_(request),
          logits_(logits),
          cancel_(catch_interrupt()) {
        if (flags.pin_system && prompt_.n_system > 0) { options_.pinned.push_back({0, prompt_.n_system}); }
    }

    Result<RunOutcome> run() {
        const bool later = flags_.question_later || (!flags_.question_aware && request_.questions.size() > 1);
        const bool shared = later && !request_.context.empty() && !request_.questions.front().empty();
        const Status status = shared ? ask_on_compressed_context() : ask_each_on_its_own();
        // Ctrl-C keeps what was said so far.
        if (!status.ok() && status.code() != ErrorCode::kCancelled) { return status; }
        return std::move(outcome_);
    }

private:
    // n_question: tokens at the end that ask.
    Status prefill(Session & session, const std::vector<int32_t> & tokens, size_t n_question = 0) {
        ProgressLine line("prefill");
        RunHooks hooks;
        hooks.n_question = static_cast<int>(n_question);
        hooks.cancel = &cancel_;
        hooks.progress = [&line](int64_t n_done, int64_t n_total) { line.show_tokens(n_done, n_total); };
        return session.prefill(tokens, hooks);
    }

    Status answer(Session & session, Sampler & sampler, size_t index) {
        const bool print = !flags_.json;
        const bool several = request_.questions.size() > 1;
        if (print && several) { std::printf("%s> %s\n", index > 0 ? "\n" : "", request_.questions[index].c_str()); }
        GenerateOptions options;
        options.n_predict = limit(session);
        options.ignore_eos = flags_.ignore_eos;
        options.stream = print && !flags_.no_stream;
        options.cancel = &cancel_;
        const int64_t first_logits = logits_ != nullptr ? logits_->n_rows() : 0;
        if (logits_ != nullptr) {
            options.on_logits = [this](std::span<const float> row) { return logits_->add(row); };
        }
        sampler.reset();
        for (const int32_t token : prompt_.whole(index)) { sampler.accept(token); }  // penalties look back on the prompt
        PITH_ASSIGN_OR_RETURN(Generated generated, generate(session, tokenizer_, sampler, options));
        if (print && flags_.no_stream) { std::fwrite(generated.text.data(), 1, generated.text.size(), stdout); }
        if (print) { std::puts(""); }
        std::fflush(stdout);
        outcome_.answers.push_back(
            {request_.questions[index], std::move(generated), first_logits, logits_ != nullptr ? logits_->n_rows() : 0});
        return {};
    }

    // --n-predict, and never past --ctx-size.
    int64_t limit(const Session & session) const {
        if (flags_.session.ctx_size == 0) { return flags_.n_predict; }
        const int64_t room = std::max<int64_t>(0, flags_.session.ctx_size - session.n_tokens());
        return flags_.n_predict < 0 ? room : std::min(flags_.n_predict, room);
    }

    void add_kept(const Session & session) {
        if (!flags_.kept) { return; }
        Positions positions(static_cast<size_t>(session.n_layers()));
        for (int l = 0; l < session.n_layers(); ++l) {
            for (int h = 0; h < session.n_kv_heads(); ++h) {
                const auto lane = session.lane_positions(l, h);
                positions[static_cast<size_t>(l)].emplace_back(lane.begin(), lane.end());
            }
        }
        outcome_.kept.push_back(std::move(positions));
    }

    Status ask_on_compressed_context() {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(sampler_, &tokenizer_));
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(options_));
        const Status status = ask_all(session, sampler);
        outcome_.ledger = session.ledger();
        add_kept(session);
        return status;
    }

    Status ask_all(Session & session, Sampler & sampler) {
        PITH_RETURN_IF_ERROR(prefill(session, prompt_.context));
        const bool several = prompt_.questions.size() > 1;
        std::shared_ptr<Session::Snapshot> compressed;
        if (several) { PITH_ASSIGN_OR_RETURN(compressed, session.snapshot()); }
        for (size_t i = 0; i < prompt_.questions.size() && !cancel_.load(); ++i) {
            if (i > 0) { PITH_RETURN_IF_ERROR(session.restore(compressed)); }
            PITH_RETURN_IF_ERROR(prefill(session, prompt_.questions[i]));
            PITH_RETURN_IF_ERROR(answer(session, sampler, i));
        }
        return {};
    }

    Status ask_each_on_its_own() {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(sampler_, &tokenizer_));
        for (size_t i = 0; i < prompt_.questions.size() && !cancel_.load(); ++i) {
            PITH_ASSIGN_OR_RETURN(Session session, model_.session(options_));
            // A prompt without a context is all question: nothing of it can be judged by the rest.
            const bool asks = !request_.context.empty() && !request_.questions[i].empty();
            Status status = prefill(session, prompt_.whole(i), asks ? prompt_.questions[i].size() : 0);
            if (status.ok()) { status = answer(session, sampler, i); }
            outcome_.ledger = i == 0 ? session.ledger() : combined(outcome_.ledger, session.ledger());
            add_kept(session);
            PITH_RETURN_IF_ERROR(status);
        }
        return {};
    }

    const RunFlags & flags_;
    SamplerOptions sampler_;
    SessionOptions options_;
    const Model & model_;
    const Tokenizer & tokenizer_;
    Prompt prompt_;
    const PromptRequest & request_;
    NpyFile * logits_;  // null: not wanted
    const std::atomic<bool> & cancel_;
    RunOutcome outcome_;
};

void print_outcome(const RunFlags & flags, const RunOutcome & outcome, bool interrupted) {
    if (!flags.json) {
        std::fprintf(stderr, "\n%s", ledger_lines(outcome.ledger).c_str());
        return;
    }
    Json object;
    std::string joined;
    Json answers = Json::array();
    int64_t n_said = 0;
    for (const Answer & answer : outcome.answers) {
        n_said += answer.generated.n_generated;
        joined += (joined.empty() ? "" : "\n") + answer.generated.text;
        answers.push_back({{"question", answer.question},
                           {"text", answer.generated.text},
                           {"tokens", answer.generated.tokens},
                           {"n_generated", answer.generated.n_generated},
                           {"stop", answer.generated.stop}});
        if (!flags.logits.empty()) { answers.back()["logits_rows"] = {answer.first_logits, answer.end_logits}; }
    }
    object["model"] = flags.model.path;
    if (!flags.model.gate.empty()) { object["gate"] = flags.model.gate; }
    if (!flags.model.lora.empty()) {
        object["lora"] = flags.model.lora;
        object["lora_scale"] = flags.model.lora_scale;
    }
    object["text"] = joined;
    object["answers"] = answers;
    add_ledger(object, outcome.ledger);
    object["n_generated"] = n_said;  // the ledger counts the tokens fed: an answer's last one is not
    if (!flags.logits.empty()) { object["logits"] = flags.logits; }
    object["interrupted"] = interrupted;
    // One session has served all questions, or each one had its own.
    if (flags.kept) { object["kept"] = outcome.kept.size() == 1 ? Json(outcome.kept[0]) : Json(outcome.kept); }
    print_json(object);
}

Result<Prompt> prompt_of_ids(const RunFlags & flags, const Model & model) {
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> ids, read_token_ids(flags.token_ids));
    PITH_RETURN_IF_ERROR(check_token_ids(ids, model.info().n_vocab));
    Prompt prompt;
    prompt.questions.push_back(std::move(ids));
    return prompt;
}

// Prompts that cannot work at all, and those that merely may not work well.
Status check_length(const RunFlags & flags, const Model & model, const Prompt & prompt) {
    size_t n_longest = 0;
    for (size_t i = 0; i < prompt.questions.size(); ++i) {
        n_longest = std::max(n_longest, prompt.context.size() + prompt.questions[i].size());
    }
    const std::string has = "the prompt has " + std::to_string(n_longest) + " tokens";
    if (flags.session.ctx_size > 0 && n_longest > static_cast<size_t>(flags.session.ctx_size)) {
        return {ErrorCode::kInvalidArgument,
                has + ", --ctx-size is " + std::to_string(flags.session.ctx_size) + ": raise it, or leave it out"};
    }
    const int n_train = model.info().n_ctx_train;
    if (n_train > 0 && n_longest > static_cast<size_t>(n_train)) {
        warn(has + ", the model was trained on " + std::to_string(n_train) + ": answers may be poor");
    }
    return {};
}

int run_command(const RunFlags & flags) {
    if (flags.n_predict < -1) { return fail_usage("--n-predict is " + std::to_string(flags.n_predict) + ": give -1 or more"); }
    if (flags.kept && !flags.json) { return fail_usage("--kept prints into the JSON object: give --json, too"); }
    if (flags.pin_system && flags.system_prompt.empty()) { return fail_usage("--pin-system needs a --system-prompt to pin"); }
    const auto options = flags.session.options(!flags.model.gate.empty());
    if (!options.ok()) { return fail_usage(options.status().message()); }
    const auto sampler = flags.sampler.options();
    if (!sampler.ok()) { return fail_usage(sampler.status().message()); }
    if (const Status status = check_token_flags(flags); !status.ok()) { return fail_usage(status.message()); }
    const auto read = read_request(flags);
    if (!read.ok()) { return fail(read.status()); }

    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    PromptRequest request = *read;
    request.use_template = !flags.raw && tokenizer->has_chat_template();
    const auto prompt = flags.token_ids.empty() ? build_prompt(*tokenizer, request) : prompt_of_ids(flags, *model);
    if (!prompt.ok()) { return fail(prompt.status()); }
    if (const Status status = check_length(flags, *model, *prompt); !status.ok()) { return fail(status); }
    std::optional<NpyFile> logits;
    if (!flags.logits.empty()) {
        auto file = NpyFile::create(flags.logits, model->info().n_vocab);
        if (!file.ok()) { return fail(file.status()); }
        logits.emplace(std::move(*file));
    }

    auto outcome = Runner(flags, *sampler, *options, *model, *tokenizer, *prompt, request, logits ? &*logits : nullptr).run();
    if (!outcome.ok()) { return fail(outcome.status()); }
    if (logits) {
        if (const Status status = logits->close(); !status.ok()) { return fail(status); }
    }
    const bool interrupted = catch_interrupt().load();
    if (options->budget.kind != BudgetKind::kNone && !interrupted) {  // without a budget nothing is compared
        warn_of_foreign_prompt(*model, prompt->whole(0), options->n_threads);
    }
    print_outcome(flags, *outcome, interrupted);
    return interrupted ? kExitInterrupted : kExitOk;
}

}  // namespace

void add_run_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App * command = root.add_subcommand("run", "Generate text, with a KV cache inside a budget");
    add_flags(*command, *flags);
    command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
}

}  // namespace pith::app
