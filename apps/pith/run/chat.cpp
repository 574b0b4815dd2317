// chat.cpp - `pith chat`: a conversation in the terminal, inside a KV-cache budget.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/run/auto_budget.h"
#include "app/run/conversation.h"
#include "app/run/line_editor.h"
#include "app/run/loaded_model.h"
#include "app/run/run_outcome.h"
#include "app/shell/commands.h"
#include "common/base/args.h"
#include "common/base/errors.h"
#include "common/base/escapes.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/base/read_text.h"
#include "common/flags/chat_template_flags.h"
#include "common/flags/engine_flags.h"
#include "common/flags/reverse_prompt.h"
#include "common/flags/sampler_flags.h"
#include "common/options/options.h"
#include "core/check.h"
#include "plan/budget_check.h"

namespace pith::app {
namespace {

struct ChatFlags {
    ModelFlags model;
    SessionFlags session;
    SamplerFlags sampler;
    ReversePromptFlags reverse_prompt;
    ChatTemplateFlags chat_template;
    std::string system_prompt;
    std::string system_prompt_file;
    std::string in_prefix;
    std::string in_suffix;
    std::optional<int64_t> n_predict;
    bool escape = false;
    bool raw = false;
};

constexpr int64_t kRawAnswer = 128;  // tokens at most, where nobody says: a text that goes on seldom ends by itself

// The system prompt, and what goes around every message.
Status read_texts(const ChatFlags & flags, ConversationOptions & options) {
    const auto given = [&flags](const std::string & text) { return flags.escape ? unescaped(text) : text; };
    PITH_ASSIGN_OR_RETURN(options.system, read_system_prompt(flags.system_prompt_file, given(flags.system_prompt)));
    options.in_prefix = given(flags.in_prefix);
    options.in_suffix = given(flags.in_suffix);
    PITH_RETURN_IF_ERROR(check_utf8("--in-prefix", options.in_prefix));
    return check_utf8("--in-suffix", options.in_suffix);
}

constexpr const char * kHelp =
    "/help            this\n"
    "/clear           begin again\n"
    "/undo            take the last turn back\n"
    "/retry           take the last answer back and answer again\n"
    "/system TEXT     begin again with this system prompt (no text: show it)\n"
    "/policy P B      read the conversation again under policy P with budget B (no names: show them)\n"
    "/kept            the conversation as the cache holds it: what every head dropped is left out\n"
    "/save FILE       keep the conversation in a file\n"
    "/load FILE       go on with the one in a file (of /save, `pith run --save-cache`, or `pith compress`)\n"
    "/stats           what the cache holds and what it cost\n"
    "/exit            end (Ctrl-D)\n"
    "A line that ends in \\ goes on in the next. Ctrl-C stops an answer and keeps what was said.\n";

class Chat {
public:
    Chat(Conversation & conversation, const Tokenizer & tokenizer)
        : conversation_(conversation), tokenizer_(tokenizer), auto_budget_(conversation.options().session.budget) {}

    int run() {
        if (isatty(STDIN_FILENO) != 0) { std::fputs("/help lists the commands; Ctrl-D ends.\n", stderr); }
        for (;;) {
            const LineEditor::Input input = editor_.read("> ", ". ");
            if (input.what == LineEditor::What::kEnd) { break; }
            if (input.what == LineEditor::What::kInterrupt) {
                std::fputs("\n(Ctrl-D or /exit ends)\n", stderr);
                continue;
            }
            const size_t first = input.text.find_first_not_of(" \t");
            if (first == std::string::npos) { continue; }
            const std::string text = input.text.substr(first);
            if (text == "/exit" || text == "/quit") { break; }
            const Status status = text[0] == '/' ? command(text) : say(text);
            if (!status.ok()) { fail(status); }  // the conversation goes on
        }
        // Where nobody was there to see it, somebody must be told.
        const bool was_in_vain = n_failed_ > 0 && n_answered_ == 0 && isatty(STDIN_FILENO) == 0;
        return was_in_vain ? kExitFailed : kExitOk;
    }

private:
    // The line goes when all is read: what follows is the answer's.
    static Conversation::Progress progress_on(std::unique_ptr<ProgressLine> & line) {
        line = std::make_unique<ProgressLine>("reading");
        return [&line](int64_t n_done, int64_t n_total) {
            if (line) { line->show_tokens(n_done, n_total); }
            if (n_done >= n_total) { line.reset(); }
        };
    }

    Status say(const std::string & message) {
        every_interrupt() = false;
        std::unique_ptr<ProgressLine> line;
        const auto turn = conversation_.say(message, every_interrupt(), /*stream=*/true, progress_on(line));
        line.reset();
        if (turn.status().code() == ErrorCode::kCancelled) {
            std::fputs("(not read)\n", stderr);
            return {};
        }
        std::puts("");
        std::fflush(stdout);
        ++(turn.ok() ? n_answered_ : n_failed_);
        PITH_RETURN_IF_ERROR(turn.status());
        if (turn->kv_missed >= 0) {
            tell_of_missed(turn->kv_missed, turn->n_returned, conversation_.session().ledger().n_lanes);
        }
        tell_of_context_shift();
        auto_budget_.look_at(conversation_.session());
        last_ = message;
        return {};
    }

    Status command(const std::string & text) {
        const size_t space = text.find(' ');
        const std::string name = text.substr(0, space);
        const size_t from = space == std::string::npos ? space : text.find_first_not_of(' ', space);
        const std::string rest = from == std::string::npos ? "" : text.substr(from);
        if (name == "/help") {
            std::fputs(kHelp, stdout);
        } else if (name == "/clear") {
            PITH_RETURN_IF_ERROR(conversation_.clear(conversation_.options().system));
        } else if (name == "/undo") {
            PITH_RETURN_IF_ERROR(undo());
        } else if (name == "/retry") {
            if (last_.empty() || conversation_.n_turns() == 0) { return nothing("to answer again"); }
            PITH_RETURN_IF_ERROR(undo());
            return say(last_);
        } else if (name == "/system") {
            if (rest.empty()) {
                std::printf("%s\n", conversation_.options().system.empty() ? "(none)" : conversation_.options().system.c_str());
            } else {
                PITH_RETURN_IF_ERROR(conversation_.clear(rest));
            }
        } else if (name == "/policy") {
            PITH_RETURN_IF_ERROR(policy(rest));
        } else if (name == "/kept") {
            show_kept();
        } else if (name == "/save") {
            if (rest.empty()) { return {ErrorCode::kInvalidArgument, "/save wants the name of a file"}; }
            if (conversation_.session().n_tokens() == 0) { return nothing("to save yet"); }
            PITH_RETURN_IF_ERROR(conversation_.save(rest));
            std::fprintf(stderr, "(saved to %s)\n", rest.c_str());
        } else if (name == "/load") {
            if (rest.empty()) { return {ErrorCode::kInvalidArgument, "/load wants the name of a file"}; }
            PITH_RETURN_IF_ERROR(conversation_.load(rest));
            auto_budget_ = AutoBudget(conversation_.options().session.budget);
            last_.clear();
            std::fprintf(stderr, "(%lld tokens from %s)\n", static_cast<long long>(conversation_.session().n_tokens()),
                         rest.c_str());
        } else if (name == "/stats") {
            std::fputs(ledger_lines(conversation_.session().ledger()).c_str(), stdout);
        } else {
            static const std::vector<std::string> names = {"/help", "/clear", "/undo", "/retry", "/system", "/policy",
                                                           "/kept", "/save",  "/load", "/stats", "/exit"};
            return {ErrorCode::kInvalidArgument,
                    "there is no command '" + name + "'" + did_you_mean(name, names, "; /help lists them")};
        }
        std::fflush(stdout);
        return {};
    }

    static Status nothing(const std::string & what) { return {ErrorCode::kInvalidArgument, "there is nothing " + what}; }

    Status undo() {
        PITH_ASSIGN_OR_RETURN(const bool done, conversation_.undo());
        return done ? Status()
                    : nothing("to take back: the last " + std::to_string(conversation_.undo_depth()) + " turns can be");
    }

    Status policy(const std::string & rest) {
        if (rest.empty()) {
            const SessionOptions & options = conversation_.options().session;
            const std::string budget =
                options.budget.kind == BudgetKind::kNone ? "no budget" : "budget " + options.budget.to_string();
            std::printf("%s, %s\n", policy_text(conversation_.session().ledger()).c_str(), budget.c_str());
            return {};
        }
        const size_t space = rest.find(' ');
        Budget budget;
        if (space != std::string::npos) {
            PITH_ASSIGN_OR_RETURN(budget, Budget::parse(rest.substr(rest.find_first_not_of(' ', space)), {"/policy's budget"}));
        }
        std::unique_ptr<ProgressLine> line;
        PITH_RETURN_IF_ERROR(conversation_.follow(rest.substr(0, space), budget, progress_on(line)));
        line.reset();
        auto_budget_ = AutoBudget(budget);
        auto_budget_.look_at(conversation_.session());
        return {};
    }

    // The tokens that some lane still holds; how many of all.
    void show_kept() const {
        const Session & session = conversation_.session();
        const std::vector<int32_t> & tokens = conversation_.tokens();
        std::vector<bool> kept(tokens.size(), false);
        for (int l = 0; l < session.n_layers(); ++l) {
            for (int h = 0; h < session.n_kv_heads(); ++h) {
                for (const int32_t position : session.lane_positions(l, h)) {
                    if (static_cast<size_t>(position) < kept.size()) { kept[static_cast<size_t>(position)] = true; }
                }
            }
        }
        std::string text;
        bool gap = false;
        for (size_t i = 0; i < tokens.size(); ++i) {
            if (kept[i]) {
                if (gap) { text += " [...] "; }
                text += tokenizer_.piece(tokens[i], true);
            }
            gap = !kept[i];
        }
        const auto n_kept = std::count(kept.begin(), kept.end(), true);
        const Ledger & ledger = session.ledger();
        std::printf("%s\n(%lld of %zu tokens are held by some head; %lld tokens per head on average)\n", text.c_str(),
                    static_cast<long long>(n_kept), tokens.size(),
                    static_cast<long long>(ledger.kept_entries / std::max<int64_t>(1, ledger.n_lanes)));
    }

    // Once: the talk has passed what the model was trained on.
    void tell_of_context_shift() {
        if (told_of_shift_ || conversation_.session().ledger().n_context_shifts == 0) { return; }
        told_of_shift_ = true;
        warn(
            "the talk has passed the length that the model was trained on: what is kept of it has moved together (context "
            "shift), here and from now on whenever it must");
    }

    Conversation & conversation_;
    const Tokenizer & tokenizer_;
    LineEditor editor_;
    AutoBudget auto_budget_;
    std::string last_;  // message
    int n_answered_ = 0;
    bool told_of_shift_ = false;
    int n_failed_ = 0;
};

int chat_command(ChatFlags flags) {
    if (const Status status = check_at_least("--n-predict", flags.n_predict.value_or(-1), -1); !status.ok()) {
        return fail_usage(status);
    }
    if (flags.raw && flags.chat_template.any()) {
        return fail_usage("--raw is a conversation without a chat template: leave it out, or what the template is given");
    }
    ConversationOptions options;
    const auto session = flags.session.options(!flags.model.gate.empty());
    if (!session.ok()) { return fail_usage(session.status()); }
    if (const Status status = check_protected(*session); !status.ok()) { return fail(status); }
    const auto sampler = flags.sampler.options();
    if (!sampler.ok()) { return fail_usage(sampler.status()); }
    options.session = *session;
    options.session.draft_ngram = flags.sampler.draft_ngram;
    options.sampler = *sampler;
    const auto reverse_prompts = flags.reverse_prompt.read(flags.escape);
    if (!reverse_prompts.ok()) { return fail_usage(reverse_prompts.status()); }
    options.reverse_prompts = *reverse_prompts;
    if (const Status status = read_texts(flags, options); !status.ok()) { return fail(status); }
    std::optional<LoadedModel> loaded;
    if (const int code = load_model(flags.model, flags.chat_template, loaded); code != kExitOk) { return code; }
    const Tokenizer & tokenizer = loaded->tokenizer;
    options.raw = flags.raw || !tokenizer.has_chat_template();
    options.n_predict = flags.n_predict.value_or(options.raw ? kRawAnswer : -1);
    if (!options.raw) { options.reasoning = flags.chat_template.marks(tokenizer); }
    options.hide_reasoning = flags.chat_template.hides_reasoning();
    auto conversation = Conversation::open(loaded->model, tokenizer, options);
    if (!conversation.ok()) { return fail(conversation.status()); }
    if (const std::string problem = tokenizer.chat_template_problem(); !problem.empty()) { warn(problem); }
    if (options.raw && !flags.raw) {
        warn("the model has no chat template: it goes on with what you write" +
             (flags.n_predict ? "; " : ", " + std::to_string(kRawAnswer) + " tokens at a time (-n); ") +
             "--chat-template chatml, or another name, makes messages of it (--raw: without this line)");
    }
    every_interrupt();
    return Chat(*conversation, tokenizer).run();
}

}  // namespace

void add_chat_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<ChatFlags>();
    CLI::App * command = root.add_subcommand("chat", "A conversation in the terminal, inside a KV-cache budget");
    flags->model.add_to(*command, /*required=*/false);
    auto * system = add(*command, option("--system-prompt"), flags->system_prompt, "System prompt, never evicted (-sys)");
    add(*command, option("--system-prompt-file"), flags->system_prompt_file)->excludes(system);
    add(*command, option("--n-predict"), flags->n_predict,
        "Tokens of an answer at most; -1: until the model ends (default: -1; without a chat template " +
            std::to_string(kRawAnswer) + ")");
    flags->reverse_prompt.add_to(*command);
    add(*command, option("--in-prefix"), flags->in_prefix);
    add(*command, option("--in-suffix"), flags->in_suffix);
    add(*command, option("--escape"), flags->escape,
        "\\n in -r, --in-prefix, --in-suffix and --system-prompt is a line break, \\t a tab, \\x41 a byte");
    add(*command, option("--raw"), flags->raw,
        "Leave out the chat template: the model goes on with what you write (as where it has none)");
    flags->chat_template.add_to(*command);
    flags->session.add_to(*command, "auto", "auto");
    flags->session.add_tolerance_to(*command);
    flags->session.add_cold_to(*command);
    flags->session.tolerant_budget = "auto";  // a share of the first message says nothing of those to come
    flags->sampler.add_to(*command);
    command->callback([flags, &exit_code] { exit_code = chat_command(*flags); });
}

}  // namespace pith::app
