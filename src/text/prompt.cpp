// prompt.cpp - builds prompts whose border between context and question is known. Stage: text.
#include "text/prompt.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/items.h"
#include "core/text.h"
#include "text/chat_frame.h"
#include "text/plain_text.h"

namespace pith {
namespace {

// Words of the context must not run into those of the question; white space that is there already is left alone.
std::string joined(std::string_view first, std::string_view second, std::string_view separator) {
    const bool apart = first.empty() || second.empty() || ends_in_space(first) || starts_with_space(second);
    return std::string(first) + std::string(apart ? "" : separator) + std::string(second);
}

}  // namespace

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
    const size_t n = std::min(a.size(), b.size());
    return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
                               a.begin());
}

std::vector<int32_t> Prompt::whole(size_t question) const {
    std::vector<int32_t> tokens = context;
    tokens.insert(tokens.end(), questions[question].begin(), questions[question].end());
    return tokens;
}

Result<Prompt> build_prompt(const Tokenizer & tokenizer, const PromptRequest & request) {
    if (request.questions.empty()) { return {ErrorCode::kInvalidArgument, "no question was given"}; }
    const bool has_system = !request.system.empty();
    ChatFrame frame;
    if (request.use_template) {
        PITH_ASSIGN_OR_RETURN(frame, chat_frame(tokenizer, has_system));
    } else {
        frame = plain_frame(request.system);
    }
    // Without a template the texts may be one that the user has rendered: names of special tokens are what they say.
    const auto given = [&](const std::string & text) {
        return request.use_template ? as_plain_text(tokenizer, text) : Result<std::string>(text);
    };
    PITH_ASSIGN_OR_RETURN(std::string system_text, given(request.system));
    system_text.insert(0, frame.before_system);
    PITH_ASSIGN_OR_RETURN(const std::string context, given(request.context));
    const std::string head = system_text + frame.before_user + context;
    const std::string_view separator = request.use_template ? "\n\n" : "\n";
    const auto encode = [&](const std::string & text) {
        return request.use_template ? encode_cut(tokenizer, text, true) : tokenizer.encode(text, true, true);
    };

    PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> head_tokens, encode(head));
    std::vector<std::vector<int32_t>> wholes;
    size_t n_shared = head_tokens.size();
    for (const std::string & question : request.questions) {
        if (request.context.empty() && question.empty()) {
            return {ErrorCode::kInvalidArgument, "the prompt is empty: give some text (" + item::kPrompt + ")"};
        }
        PITH_ASSIGN_OR_RETURN(const std::string asked, given(question));
        const std::string tail = joined(context, asked, separator).substr(context.size());
        PITH_ASSIGN_OR_RETURN(std::vector<int32_t> whole, encode(head + tail + frame.after_user));
        if (whole.empty()) {
            return {ErrorCode::kInvalidArgument, "the prompt has no tokens: give some text (" + item::kPrompt + ")"};
        }
        n_shared = std::min({n_shared, common_prefix(head_tokens, whole), whole.size() - 1});
        wholes.push_back(std::move(whole));
    }

    Prompt prompt;
    const auto shared = static_cast<std::ptrdiff_t>(n_shared);
    prompt.context.assign(wholes.front().begin(), wholes.front().begin() + shared);
    for (const std::vector<int32_t> & whole : wholes) { prompt.questions.emplace_back(whole.begin() + shared, whole.end()); }
    if (has_system) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> system_tokens, encode(system_text));
        prompt.n_system = static_cast<int>(common_prefix(system_tokens, wholes.front()));
    }
    return prompt;
}

}  // namespace pith
