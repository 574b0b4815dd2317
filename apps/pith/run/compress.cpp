// compress.cpp - `pith compress`: a text read and compressed once, into a file that questions are asked of later (`pith ask`).
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/run/loaded_model.h"
#include "app/run/run_outcome.h"
#include "app/run/saved_text.h"
#include "app/run/text_length.h"
#include "app/shell/commands.h"
#include "cache/cache_file.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/base/read_text.h"
#include "common/flags/chat_template_flags.h"
#include "common/flags/engine_flags.h"
#include "common/flags/reread_words.h"
#include "common/flags/unseen_question.h"
#include "common/options/options.h"
#include "core/check.h"
#include "core/parse_tolerance.h"
#include "core/text.h"
#include "engine/parts/model_parts.h"
#include "pith/cache_file.h"
#include "plan/budget_check.h"
#include "policy/tolerance.h"

namespace pith::app {
namespace {

struct CompressFlags {
    ModelFlags model;
    SessionFlags session;
    std::string file;
    std::string output;
    std::vector<std::string> questions;
    std::string system_prompt;
    std::string system_prompt_file;
    bool pin_system = false;
    ChatTemplateFlags chat_template;
    bool raw = false;
    bool json = false;
    bool quiet = false;
    std::string effort;  // empty: not said
};

// Of a plain `pith compress`, where nobody said what will be asked, or what to keep: nothing that is evicted is lost.
bool keeps_what_is_evicted(const CompressFlags & flags, const SessionOptions & options, const ModelInfo & model,
                           int64_t n_tokens) {
    const bool is_plain = flags.questions.empty() && flags.effort.empty() && flags.session.cold.type.empty() &&
                          !flags.session.tolerance && options.policy.is_auto();
    const bool moves = model.n_ctx_train > 0 && n_tokens > model.n_ctx_train;  // keys, and then nothing comes back
    return is_plain && options.budget.kind != BudgetKind::kNone && !moves;
}

// Nothing foretells what a second reading would say, so the tolerance is of that itself.
bool rereads_for_tolerance(const CompressFlags & flags, const Model & model) {
    const bool is_auto = flags.session.policy.empty() || PolicyChoice(flags.session.policy).is_auto();
    return flags.session.tolerance && is_auto && flags.effort != "quick" && known_gates(model) == KnownGates::kNone;
}

struct Texts {
    std::string context;
    std::string system;
};

Result<Texts> read_texts(const CompressFlags & flags) {
    Texts texts;
    PITH_ASSIGN_OR_RETURN(texts.system, read_system_prompt(flags.system_prompt_file, flags.system_prompt));
    PITH_ASSIGN_OR_RETURN(texts.context, read_plain_text(flags.file));
    if (texts.context.empty()) {
        return {ErrorCode::kInvalidArgument, "there is nothing to compress: '" + flags.file + "' has no text"};
    }
    for (const std::string & question : flags.questions) {
        if (question.empty()) { return {ErrorCode::kInvalidArgument, "-p is empty: give a question, or leave it out"}; }
        PITH_RETURN_IF_ERROR(check_utf8("a question", question));
    }
    return texts;
}

// The context up to where a question goes.
Result<ContextTokens> encode_context(const Tokenizer & tokenizer, const Texts & texts, const SavedText & saved) {
    std::string context = texts.context;
    if (context.back() != '\n') { context += saved.uses_template ? "\n\n" : "\n"; }
    return context_tokens(tokenizer, saved, context);
}

// All questions, one behind the other.
Result<std::vector<int32_t>> encode_questions(const Tokenizer & tokenizer, const CompressFlags & flags,
                                              const SavedText & saved) {
    std::vector<int32_t> all;
    for (const std::string & question : flags.questions) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> asked, continuation(tokenizer, saved, question));
        all.insert(all.end(), asked.begin(), asked.end());
    }
    return all;
}

// Whether it was compressed in the questions' sight; nullopt: there are none, or nothing was evicted without it.
Result<std::optional<bool>> read_context(Session & session, const std::vector<int32_t> & context,
                                         const std::vector<int32_t> & questions) {
    RunHooks hooks;
    hooks.cancel = &catch_interrupt();
    ProgressLine line("prefill");
    hooks.progress = [&line](int64_t n_done, int64_t n_total) { line.show_tokens(n_done, n_total); };
    if (questions.empty()) {
        PITH_RETURN_IF_ERROR(session.prefill(context, hooks));
        return std::optional<bool>();
    }
    PITH_ASSIGN_OR_RETURN(const bool seen, session.prefill_for_questions(context, questions, hooks));
    return seen || session.ledger().evicted_entries > 0 ? std::optional(seen) : std::nullopt;
}

void print_outcome(const CompressFlags & flags, const Ledger & ledger, const CacheFileInfo & info,
                   std::optional<bool> in_sight) {
    if (flags.json) {
        Json object = {{"model", flags.model.path}, {"file", flags.output}, {"file_bytes", info.file_bytes}};
        add_ledger(object, ledger);
        if (in_sight) { object["questions_in_sight"] = *in_sight; }
        print_json(object);
        return;
    }
    std::printf("%s: %s tokens in %s, %.1f %% of the whole cache's %s\n", flags.output.c_str(),
                with_commas(info.n_tokens).c_str(), bytes_text(info.file_bytes).c_str(),
                100.0 * static_cast<double>(info.file_bytes) / static_cast<double>(info.kv_full_bytes),
                bytes_text(info.kv_full_bytes).c_str());
    if (info.n_cold_entries > 0) {
        std::printf("%s of it what was evicted, %s\n", bytes_text(info.cold_bytes).c_str(),
                    std::string(to_string(*info.options.cold)).c_str());
    }
    if (!flags.quiet) { std::fputs(ledger_lines(ledger).c_str(), stderr); }
}

int compress_command(CompressFlags flags) {
    const auto given = flags.session.options(!flags.model.gate.empty());
    if (!given.ok()) { return fail_usage(given.status()); }
    SessionOptions options = *given;
    if (flags.raw && flags.chat_template.any()) {
        return fail_usage("--raw is the text without a chat template: leave it out, or what the template is given");
    }
    if (flags.pin_system && flags.system_prompt.empty() && flags.system_prompt_file.empty()) {
        return fail_usage("--pin-system needs a --system-prompt to pin");
    }
    const bool chooses = flags.session.policy.empty() || PolicyChoice(flags.session.policy).is_auto();
    if (flags.effort == "full" && (!flags.questions.empty() || !chooses)) {
        return fail_usage("--effort full lets a second reading of the text choose what stays, where " +
                          std::string(chooses ? "-p" : "--policy") + " does: leave one of them out");
    }
    if (const Status status = check_protected(options); !status.ok()) { return fail(status); }
    if (const Status status = check_can_save(flags.output); !status.ok()) { return fail(status); }
    const auto texts = read_texts(flags);
    if (!texts.ok()) { return fail(texts.status()); }
    std::optional<LoadedModel> loaded;
    if (const int code = load_model(flags.model, flags.chat_template, loaded); code != kExitOk) { return code; }
    const Tokenizer & tokenizer = loaded->tokenizer;
    if (rereads_for_tolerance(flags, loaded->model)) {
        const auto rereading = with_tolerance(PolicyChoice(), *parse_tolerance(*flags.session.tolerance), kTolerantRereading);
        if (!rereading.ok()) { return fail(rereading.status()); }
        options.policy = *rereading;
    }

    SavedText saved;
    saved.uses_template = !flags.raw && tokenizer.has_chat_template();
    saved.open_turn = true;
    saved.system = texts->system;
    saved.chat_template = tokenizer.chat_template();
    const auto context = encode_context(tokenizer, *texts, saved);
    if (!context.ok()) { return fail(context.status()); }
    const auto questions = encode_questions(tokenizer, flags, saved);
    if (!questions.ok()) { return fail(questions.status()); }
    const int64_t n_all = std::ssize(context->tokens) + std::ssize(*questions);
    if (const Status status = check_context_size("the text", n_all, flags.session.ctx_size); !status.ok()) {
        return fail(status);
    }
    if (keeps_what_is_evicted(flags, options, loaded->model.info(), std::ssize(context->tokens))) {
        options.cold = KvType::kQ4_0;
        options.look_back = true;
    }
    // Where it is known what will be asked, that judges; where nothing is lost, any choice is mended later; else what a
    // repetition of the text looks up judges.
    options.auto_may_reread = flags.questions.empty() && (flags.effort == "full" || (flags.effort.empty() && !options.cold));
    const Status words = set_reread_words(tokenizer, saved.uses_template, options);
    if (!words.ok()) { return fail(words); }
    if (flags.pin_system && context->n_system > 0) { options.pinned.push_back({0, context->n_system}); }
    auto session = loaded->model.session(options);
    if (!session.ok() && session.status().code() == ErrorCode::kUnsupported && options.cold &&
        flags.session.cold.type.empty()) {
        options.cold = KvType::kF16;  // heads of a size that q4_0's blocks do not divide
        session = loaded->model.session(options);
    }
    if (!session.ok()) { return fail(session.status()); }
    if (rereads_for_tolerance(flags, loaded->model)) {
        tell_read_twice();
    } else {
        tell_of_second_reading(loaded->model, options);
    }
    if (flags.questions.empty() && !options.cold) {
        warn_of_unseen_question(std::span(&options.policy, 1), loaded->model, options.heads_file,
                                "name the questions that will be asked with -p");
    }
    const auto in_sight = read_context(*session, context->tokens, *questions);
    if (!in_sight.ok()) { return fail(in_sight.status()); }
    if (*in_sight == false) { warn_of_unseen_questions(session->ledger(), questions->size(), options.chunk, ""); }
    if (const Status status = session->save(flags.output, to_notes(saved)); !status.ok()) { return fail(status); }
    warn_past_training(loaded->model, session->n_tokens(), session->ledger(), options.context_shift);
    const auto info = read_cache_info(flags.output);
    if (!info.ok()) { return fail(info.status()); }
    print_outcome(flags, session->ledger(), *info, *in_sight);
    return kExitOk;
}

}  // namespace

void add_compress_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<CompressFlags>();
    CLI::App * command = root.add_subcommand("compress", "Read a text once, and keep what a budget holds of it in a file");
    flags->model.add_to(*command, /*is_required=*/false);
    add(*command, option("--file"), flags->file, "Text to compress ('-': standard input)")->required();
    command->add_option("-o,--output", flags->output, "The file: `pith ask` and `pith run --cache` go on from it")->required();
    add(*command, option("--prompt"), flags->questions,
        "A question that will be asked: what is kept is chosen in the sight of all that are given")
        ->allow_extra_args(false);
    auto * system = add(*command, option("--system-prompt"), flags->system_prompt);
    add(*command, option("--system-prompt-file"), flags->system_prompt_file)->excludes(system);
    add(*command, option("--pin-system"), flags->pin_system);
    command
        ->add_option(
            "--effort", flags->effort,
            "Where no question (-p) is known and nothing of what is evicted is kept (--cold none, or --effort without "
            "--cold): full reads the text twice and keeps what its repetition looks up (1.7 to 1.9 times the time); quick "
            "reads it once (default: full)")
        ->check(CLI::IsMember({"full", "quick"}));
    add(*command, option("--raw"), flags->raw, "Leave out the model's chat template (-no-cnv)");
    flags->chat_template.add_to(*command);
    add(*command, option("--json"), flags->json);
    add(*command, option("--quiet"), flags->quiet);
    flags->session.add_to(*command, "auto", "auto");
    flags->session.add_tolerance_to(*command);
    flags->session.cold.add_to(
        *command, "q4_0 and --look-back in the file, where neither --policy, -p, --tolerance nor --effort is given");
    command->callback([flags, &exit_code] { exit_code = compress_command(*flags); });
}

}  // namespace pith::app
