// chat_frame.cpp - splits rendered templates at markers. Stage: text.
#include "text/chat_frame.h"

#include <string_view>
#include <vector>

#include "core/items.h"
#include "core/text.h"

namespace pith {
namespace {

constexpr std::string_view kSystemMarker = "@@pith:system:7c1e@@";
constexpr std::string_view kUserMarker = "@@pith:user:7c1e@@";
constexpr std::string_view kAnswerMarker = "@@pith:answer:7c1e@@";

}  // namespace

Result<ChatFrame> chat_frame(const Tokenizer & tokenizer, bool with_system) {
    std::vector<ChatMessage> messages;
    if (with_system) { messages.push_back({"system", std::string(kSystemMarker)}); }
    messages.push_back({"user", std::string(kUserMarker)});
    PITH_ASSIGN_OR_RETURN(const std::string text, tokenizer.apply_chat_template(messages, true));
    const size_t at_user = text.find(kUserMarker);
    const size_t at_system = with_system ? text.find(kSystemMarker) : 0;
    const auto is_there_again = [&text](std::string_view marker, size_t at) {
        return text.find(marker, at + marker.size()) != std::string::npos;
    };
    if (at_user == std::string::npos || at_system == std::string::npos || at_system > at_user ||
        is_there_again(kUserMarker, at_user) || (with_system && is_there_again(kSystemMarker, at_system))) {
        return {ErrorCode::kUnsupported,
                "the model's chat template has no one place for a system prompt and a user message in that order: use " +
                    item::kRaw};
    }
    ChatFrame frame;
    if (with_system) {
        frame.before_system = text.substr(0, at_system);
        const size_t end = at_system + kSystemMarker.size();
        frame.before_user = text.substr(end, at_user - end);
    } else {
        frame.before_user = text.substr(0, at_user);
    }
    frame.after_user = text.substr(at_user + kUserMarker.size());
    return frame;
}

ChatFrame plain_frame(std::string_view system) {
    ChatFrame frame;
    if (!ends_in_space(system)) { frame.before_user = "\n\n"; }
    return frame;
}

Result<std::string> between_turns(const Tokenizer & tokenizer) {
    const std::vector<ChatMessage> messages = {
        {"user", "Hello"}, {"assistant", std::string(kAnswerMarker)}, {"user", std::string(kUserMarker)}};
    PITH_ASSIGN_OR_RETURN(const std::string text, tokenizer.apply_chat_template(messages, true));
    const size_t at_answer = text.find(kAnswerMarker);
    const size_t begin = at_answer + kAnswerMarker.size();
    const size_t end = text.find(kUserMarker);
    if (at_answer == std::string::npos || end == std::string::npos || end < begin) {
        return {ErrorCode::kUnsupported, "the model's chat template has no place for a second question: use " + item::kRaw};
    }
    return text.substr(begin, end - begin);
}

}  // namespace pith
