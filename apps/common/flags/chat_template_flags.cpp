// chat_template_flags.cpp - the flags, and what they mean to a tokenizer.
#include "common/flags/chat_template_flags.h"

#include <vector>

#include "common/base/read_text.h"
#include "common/options/options.h"
#include "text/chat_frame.h"

namespace pith::app {

void ChatTemplateFlags::add_template_to(CLI::App & command) {
    auto * given = add(command, option("--chat-template"), name_or_text);
    add(command, option("--chat-template-file"), file)->excludes(given);
}

void ChatTemplateFlags::add_to(CLI::App & command) {
    add_template_to(command);
    add(command, option("--chat-template-kwargs"), variables);
    add(command, option("--tools"), tools);
    const auto one_of = [&](const OptionRow & row, std::string & value) {
        add(command, row, value)->check(CLI::IsMember(choices_of(row)))->capture_default_str();
    };
    one_of(option("--reasoning"), reasoning);
    one_of(option("--reasoning-format"), reasoning_format);
}

bool ChatTemplateFlags::any() const {
    return !name_or_text.empty() || !file.empty() || !variables.empty() || !tools.empty() || reasoning != "auto";
}

void ChatTemplateFlags::stay_with(const std::string & saved_template, const Tokenizer & tokenizer) {
    const bool names_one = !name_or_text.empty() || !file.empty();
    if (!names_one && !saved_template.empty() && saved_template != tokenizer.chat_template()) { name_or_text = saved_template; }
}

ChatOptions ChatTemplateFlags::options() const {
    ChatOptions options;
    options.variables = variables;
    options.reasoning = reasoning == "on" ? Reasoning::kOn : reasoning == "off" ? Reasoning::kOff : Reasoning::kAuto;
    return options;
}

Status ChatTemplateFlags::give(Tokenizer & tokenizer) const {
    if (!any()) { return {}; }
    std::string source = name_or_text;
    if (!file.empty()) {
        PITH_ASSIGN_OR_RETURN(source, read_plain_text(file));
        if (source.find('{') == std::string::npos) {
            return {ErrorCode::kInvalidArgument, "--chat-template-file '" + file + "' holds no Jinja"};
        }
    }
    ChatOptions options = this->options();
    if (!tools.empty()) { PITH_ASSIGN_OR_RETURN(options.tools, read_text(tools)); }
    PITH_RETURN_IF_ERROR(tokenizer.set_chat_template(source, options));
    if (!tokenizer.has_chat_template()) {
        return {ErrorCode::kUnsupported,
                "the model has no chat template: give one with --chat-template or --chat-template-file"};
    }
    if (options.tools.empty()) { return {}; }
    const std::vector<ChatMessage> messages = {{"user", "Hello"}};
    ChatOptions without = options;
    without.tools.clear();
    PITH_ASSIGN_OR_RETURN(const std::string with_tools, tokenizer.apply_chat_template(messages, options));
    PITH_ASSIGN_OR_RETURN(const std::string bare, tokenizer.apply_chat_template(messages, without));
    if (with_tools != bare) { return {}; }
    return {ErrorCode::kUnsupported, "--tools: the chat template shows no tools: leave it out, or give another template"};
}

ReasoningMarks ChatTemplateFlags::marks(const Tokenizer & tokenizer) const {
    if (reasoning_format == "none" || !reasoning_marks(tokenizer.chat_template(), "").any()) { return {}; }
    const auto frame = chat_frame(tokenizer, /*with_system=*/false);
    return frame.ok() ? reasoning_marks(tokenizer.chat_template(), frame->after_user) : ReasoningMarks{};
}

}  // namespace pith::app
