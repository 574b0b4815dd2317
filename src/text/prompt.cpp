// prompt.cpp - builds prompts whose border between context and question is known. Stage: text.
#include "text/prompt.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace pith {
namespace {

constexpr std::string_view kSystemMarker = "@@pith:system:7c1e@@";
constexpr std::string_view kContextMarker = "@@pith:context:7c1e@@";
constexpr std::string_view kQuestionMarker = "@@pith:question:7c1e@@";

// The text around the three pieces.
struct Frame {
    std::string before_system;
    std::string before_context;
    std::string after_question;
    bool has_system = false;
};

bool ends_in_space(std::string_view text) {
    return text.empty() || std::isspace(static_cast<unsigned char>(text.back())) != 0;
}
bool starts_with_space(std::string_view text) {
    return text.empty() || std::isspace(static_cast<unsigned char>(text.front())) != 0;
}

// Words of the context must not run into those of the question; white space that is there already is left alone.
std::string joined(std::string_view first, std::string_view second, std::string_view separator) {
    const bool apart = first.empty() || second.empty() || ends_in_space(first) || starts_with_space(second);
    return std::string(first) + std::string(apart ? "" : separator) + std::string(second);
}

Result<Frame> chat_frame(const Tokenizer & tokenizer, bool with_system) {
    std::vector<ChatMessage> messages;
    if (with_system) { messages.push_back({"system", std::string(kSystemMarker)}); }
    messages.push_back({"user", std::string(kContextMarker) + std::string(kQuestionMarker)});
    PITH_ASSIGN_OR_RETURN(const std::string text, tokenizer.apply_chat_template(messages, true));
    const size_t at_context = text.find(kContextMarker);
    const size_t at_question = at_context == std::string::npos ? at_context : at_context + kContextMarker.size();
    const size_t at_system = with_system ? text.find(kSystemMarker) : 0;
    if (at_context == std::string::npos || text.compare(at_question, kQuestionMarker.size(), kQuestionMarker) != 0 ||
        at_system == std::string::npos || at_system > at_context) {
        return {ErrorCode::kUnsupported,
                "the model's chat template has no place for a system prompt and a user message in that order: use --raw"};
    }
    Frame frame;
    frame.has_system = with_system;
    if (with_system) {
        frame.before_system = text.substr(0, at_system);
        const size_t end = at_system + kSystemMarker.size();
        frame.before_context = text.substr(end, at_context - end);
    } else {
        frame.before_context = text.substr(0, at_context);
    }
    frame.after_question = text.substr(at_question + kQuestionMarker.size());
    return frame;
}

size_t common_prefix(const std::vector<int32_t> & a, const std::vector<int32_t> & b) {
    const size_t n = std::min(a.size(), b.size());
    return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
                               a.begin());
}

}  // namespace

std::vector<int32_t> Prompt::whole(size_t question) const {
    std::vector<int32_t> tokens = context;
    tokens.insert(tokens.end(), questions[question].begin(), questions[question].end());
    return tokens;
}

Result<Prompt> build_prompt(const Tokenizer & tokenizer, const PromptRequest & request) {
    if (request.questions.empty()) { return {ErrorCode::kInvalidArgument, "no question was given"}; }
    Frame frame;
    if (request.use_template) {
        PITH_ASSIGN_OR_RETURN(frame, chat_frame(tokenizer, !request.system.empty()));
    } else if (!request.system.empty()) {
        frame.has_system = true;
        frame.before_context = ends_in_space(request.system) ? "" : "\n\n";
    }
    const std::string system_text = frame.before_system + (frame.has_system ? request.system : "");
    const std::string head = system_text + frame.before_context + request.context;
    const std::string_view separator = request.use_template ? "\n\n" : "\n";

    PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> head_tokens, tokenizer.encode(head, true, true));
    std::vector<std::vector<int32_t>> wholes;
    size_t n_shared = head_tokens.size();
    for (const std::string & question : request.questions) {
        if (request.context.empty() && question.empty()) {
            return {ErrorCode::kInvalidArgument, "the prompt is empty: give some text with -p or -f"};
        }
        const std::string tail = joined(request.context, question, separator).substr(request.context.size());
        PITH_ASSIGN_OR_RETURN(std::vector<int32_t> whole, tokenizer.encode(head + tail + frame.after_question, true, true));
        if (whole.empty()) { return {ErrorCode::kInvalidArgument, "the prompt has no tokens: give some text with -p or -f"}; }
        n_shared = std::min({n_shared, common_prefix(head_tokens, whole), whole.size() - 1});
        wholes.push_back(std::move(whole));
    }

    Prompt prompt;
    const auto shared = static_cast<std::ptrdiff_t>(n_shared);
    prompt.context.assign(wholes.front().begin(), wholes.front().begin() + shared);
    for (const std::vector<int32_t> & whole : wholes) { prompt.questions.emplace_back(whole.begin() + shared, whole.end()); }
    if (frame.has_system) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> system_tokens, tokenizer.encode(system_text, true, true));
        prompt.n_system = static_cast<int>(common_prefix(system_tokens, wholes.front()));
    }
    return prompt;
}

}  // namespace pith
