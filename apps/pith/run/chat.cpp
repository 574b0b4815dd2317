// chat.cpp - `pith chat`: a conversation in the terminal, inside a KV-cache budget.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/run/chat_loop.h"
#include "app/run/conversation.h"
#include "app/run/loaded_model.h"
#include "app/run/terminal_markdown.h"
#include "app/shell/commands.h"
#include "common/base/args.h"
#include "common/base/errors.h"
#include "common/base/escapes.h"
#include "common/base/interrupt.h"
#include "common/base/read_text.h"
#include "common/flags/chat_template_flags.h"
#include "common/flags/engine_flags.h"
#include "common/flags/reverse_prompt.h"
#include "common/flags/sampler_flags.h"
#include "common/options/options.h"
#include "core/check.h"
#include "core/text.h"
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
    options.ctx_size = flags.session.ctx_size;
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
    options.colours = shows_colours(STDOUT_FILENO) && !options.raw && options.sampler.grammar.empty();
    auto conversation = Conversation::open(loaded->model, tokenizer, options);
    if (!conversation.ok()) { return fail(conversation.status()); }
    if (const std::string problem = tokenizer.chat_template_problem(); !problem.empty()) { warn(problem); }
    if (options.raw && !flags.raw) {
        warn("the model has no chat template: it goes on with what you write" +
             (flags.n_predict ? "; " : ", " + std::to_string(kRawAnswer) + " tokens at a time (-n); ") +
             "--chat-template chatml, or another name, makes messages of it (--raw: without this line)");
    }
    every_interrupt();
    const std::string & name = loaded->model.info().name;
    return ChatLoop(*conversation, tokenizer)
        .run(name.empty() ? std::filesystem::path(flags.model.path).filename().string() : without_controls(name));
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
    flags->session.cold.add_to(*command);
    flags->session.cold.add_repair_every_to(*command);
    flags->session.tolerant_budget = "auto";  // a share of the first message says nothing of those to come
    flags->sampler.add_to(*command);
    command->callback([flags, &exit_code] { exit_code = chat_command(*flags); });
}

}  // namespace pith::app
