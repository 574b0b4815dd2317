// chat_template.h - a conversation as the text that a model was trained on. Stage: text.
//
// By the template's own Jinja where it can be rendered (jinja.h), else by libllama's list, which recognises templates by pieces
// of them. Threads: const-safe. Cost: a process of its own per text (contained_work.h).
#pragma once

#include <mutex>
#include <span>
#include <string>

#include "pith/text.h"

namespace pith {

class ChatTemplate {
public:
    // Nothing: has() is false.
    ChatTemplate() = default;
    // source: Jinja, or one of libllama's names.   begin_token, end_token: their texts, empty where the model has none.
    ChatTemplate(std::string source, std::string begin_token, std::string end_token);

    bool has() const { return !source_.empty(); }
    const std::string & source() const { return source_; }

    // Errors: as Tokenizer::apply_chat_template.
    Result<std::string> render(std::span<const ChatMessage> messages, const ChatOptions & options) const;
    // Why libllama's list was asked instead; empty: it was not.
    std::string problem() const;

private:
    Result<std::string> by_list(std::span<const ChatMessage> messages, bool add_assistant) const;

    std::string source_;
    std::string begin_token_;
    std::string end_token_;
    bool is_listed_ = false;  // a name
    mutable std::mutex problem_mutex_;
    mutable std::string problem_;
};

// Errors: kInvalidArgument: neither Jinja nor a name of libllama's list; names those that are near.
Status check_chat_template(const std::string & source);
// Errors: kInvalidArgument: tools or variables that are no JSON, or JSON of another kind.
Status check_chat_options(const ChatOptions & options);

}  // namespace pith
