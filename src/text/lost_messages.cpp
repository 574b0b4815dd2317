// lost_messages.cpp - texts looked for in what a template writes; marks in their place where that is not enough. Stage: text.
#include "text/lost_messages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/text.h"
#include "text/plain_text.h"

namespace pith {
namespace {

constexpr size_t kLong = 16;  // bytes that no template writes by chance

bool must_arrive(const ChatMessage & message) {
    return (message.role == "system" || message.role == "user") && !trim(message.content).empty();
}

std::string mark_of(size_t index) {
    return "@@pith:message:" + std::to_string(index) + ":7c1e@@";
}

// By their own texts, in their order. A template may write them otherwise, so this proves nothing where it fails; and a short
// text may be one of the template's own.
bool stand_in(const Tokenizer & tokenizer, std::span<const ChatMessage> messages, std::string_view rendered, bool cut) {
    size_t at = 0;
    for (const ChatMessage & message : messages) {
        if (!must_arrive(message)) { continue; }
        const std::string_view said = trim(message.content);
        const std::string text = cut ? PlainText::of(tokenizer).cut(said) : std::string(said);
        at = rendered.find(text, at);
        if (at == std::string_view::npos || said.size() < kLong) { return false; }
        at += text.size();
    }
    return true;
}

void append_paragraph(const std::string & text, std::string & to) {
    if (!to.empty() && !text.empty()) { to += "\n\n"; }
    to += text;
}

}  // namespace

bool has_late_system(std::span<const ChatMessage> messages) {
    return messages.size() > 1 &&
           std::ranges::any_of(messages.subspan(1), [](const ChatMessage & message) { return message.role == "system"; });
}

std::vector<size_t> lost_messages(const Tokenizer & tokenizer, std::span<const ChatMessage> messages,
                                  const ChatOptions & options, std::string_view rendered, bool cut) {
    if (!has_late_system(messages) && stand_in(tokenizer, messages, rendered, cut)) { return {}; }
    std::vector<ChatMessage> marked(messages.begin(), messages.end());
    for (size_t i = 0; i < marked.size(); ++i) {
        if (must_arrive(marked[i])) { marked[i].content = mark_of(i); }
    }
    const auto text = tokenizer.apply_chat_template(marked, options);
    std::vector<size_t> lost;
    if (!text.ok()) { return lost; }
    for (size_t i = 0; i < marked.size(); ++i) {
        if (must_arrive(messages[i]) && text->find(mark_of(i)) == std::string::npos) { lost.push_back(i); }
    }
    return lost;
}

std::vector<ChatMessage> with_one_system(std::span<const ChatMessage> messages) {
    ChatMessage system = {"system", ""};
    std::vector<ChatMessage> all(1);
    for (const ChatMessage & message : messages) {
        if (message.role != "system") {
            all.push_back(message);
            continue;
        }
        append_paragraph(message.content, system.content);
    }
    all.front() = std::move(system);
    return all;
}

std::vector<ChatMessage> with_neighbours_joined(std::span<const ChatMessage> messages) {
    std::vector<ChatMessage> all;
    for (const ChatMessage & message : messages) {
        const bool is_alike = !all.empty() && all.back().role == message.role && message.role != "tool" &&
                              all.back().tool_calls.empty() && (message.role != "assistant" || message.reasoning.empty());
        if (!is_alike) {
            all.push_back(message);
            continue;
        }
        append_paragraph(message.content, all.back().content);
        all.back().tool_calls = message.tool_calls;
    }
    return all;
}

std::vector<ChatMessage> with_words_in_results(std::span<const ChatMessage> messages) {
    std::vector<ChatMessage> all;
    for (const ChatMessage & message : messages) {
        if (message.role == "user" && !all.empty() && all.back().role == "tool") {
            append_paragraph(message.content, all.back().content);
        } else {
            all.push_back(message);
        }
    }
    return all;
}

}  // namespace pith
