// plain_text.cpp - where to cut, and the tokens of what was cut. Stage: text.
#include "text/plain_text.h"

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "core/text.h"
#include "text/reasoning.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace pith {
namespace {

constexpr char kCut = '\xFF';
// Noncharacters are UTF-8, and stand for nothing: a template passes them on. U+FDD0 to U+FDEF.
constexpr int kNoncharacters = 32;

std::string noncharacter(int i) {
    return {'\xEF', '\xB7', static_cast<char>(0x90 + i)};
}

// A text in the middle of another. Some tokenisers put a blank in front of every text: there something else stands in front,
// which is taken off again.
Result<std::vector<int32_t>> encode_inside(const Tokenizer & tokenizer, const std::string & text) {
    for (const char * anchor : {"\n", "."}) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> before, tokenizer.encode(anchor, false, true));
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> both, tokenizer.encode(anchor + text, false, true));
        if (both.size() >= before.size() && std::equal(before.begin(), before.end(), both.begin())) {
            return std::vector<int32_t>(both.begin() + static_cast<std::ptrdiff_t>(before.size()), both.end());
        }
    }
    return tokenizer.encode(text, false, true);
}

// libllama keeps user-defined tokens whole wherever they stand: they are text.
std::vector<std::string> special_names(const llama_vocab * vocab) {
    std::vector<std::string> names;
    for (int32_t id = 0; id < llama_vocab_n_tokens(vocab); ++id) {
        const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(vocab, id));
        if ((attributes & static_cast<unsigned>(LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) == 0) { continue; }
        const char * text = llama_vocab_get_text(vocab, id);
        names.emplace_back(text == nullptr ? "" : text);
    }
    return names;
}

}  // namespace

PlainText::PlainText(const std::vector<std::string> & names) {
    for (const std::string & name : names) {
        if (name.empty() || name.size() <= character_bytes(name[0])) { continue; }
        names_[static_cast<uint8_t>(name[0])].push_back(name);
    }
    for (std::vector<std::string> & group : names_) { std::ranges::sort(group); }
}

PlainText::PlainText(const llama_vocab * vocab) : PlainText(special_names(vocab)) {}

const PlainText & PlainText::of(const Tokenizer & tokenizer) {
    return tokenizer.impl_->plain_text;
}

// A vocabulary may have hundreds of names that begin alike, and a text may hold nothing but their beginnings: so not name by
// name. A name that the text begins with stands before the text in order, and whatever stands between the two begins with it,
// too.
bool PlainText::begins_with_name(std::string_view text) const {
    const std::vector<std::string> & names = names_[static_cast<uint8_t>(text[0])];
    while (!text.empty()) {
        const auto behind = std::ranges::upper_bound(names, text);
        if (behind == names.begin()) { return false; }
        const std::string_view nearest = *std::prev(behind);
        if (text.starts_with(nearest)) { return true; }
        text = text.substr(0, static_cast<size_t>(std::ranges::mismatch(text, nearest).in1 - text.begin()));
    }
    return false;
}

std::string PlainText::cut(std::string_view text) const {
    return cut(text, std::string_view(&kCut, 1));
}

std::string PlainText::cut(std::string_view text, std::string_view mark) const {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const size_t n_bytes = std::min(character_bytes(text[at]), text.size() - at);
        out += text.substr(at, n_bytes);
        if (begins_with_name(text.substr(at))) { out += mark; }
        at += n_bytes;
    }
    return out;
}

Result<std::string> as_plain_text(const Tokenizer & tokenizer, std::string_view text) {
    if (invalid_utf8_offset(text)) { return tokenizer.encode(text, false, false).status(); }  // which names the place
    return PlainText::of(tokenizer).cut(text);
}

Result<std::string> render_plain_chat(const Tokenizer & tokenizer, std::span<const ChatMessage> messages,
                                      const ChatOptions & options) {
    const auto all_texts = [](ChatMessage & message) {
        return std::array<std::string *, 3>{&message.content, &message.reasoning, &message.tool_calls};
    };
    std::vector<ChatMessage> cut(messages.begin(), messages.end());
    const auto is_free = [&](const std::string & mark) {
        return std::ranges::all_of(cut, [&](ChatMessage & message) {
            return std::ranges::all_of(all_texts(message),
                                       [&](const std::string * text) { return text->find(mark) == std::string::npos; });
        });
    };
    int i = 0;
    while (i < kNoncharacters && !is_free(noncharacter(i))) { ++i; }
    if (i == kNoncharacters) {
        return {ErrorCode::kInvalidArgument, "the messages hold all noncharacters of Unicode, U+FDD0 to U+FDEF: take one out"};
    }
    const std::string mark = noncharacter(i);
    const ReasoningMarks marks = reasoning_marks(tokenizer.chat_template(), "");
    for (ChatMessage & message : cut) {
        const bool thinks =
            message.role == "assistant" && marks.any() && message.content.find(marks.close) != std::string::npos;
        for (std::string * text : all_texts(message)) {
            if (!thinks) { *text = PlainText::of(tokenizer).cut(*text, mark); }
        }
    }
    PITH_ASSIGN_OR_RETURN(const std::string rendered, tokenizer.apply_chat_template(cut, options));
    std::string out;
    out.reserve(rendered.size());
    size_t begin = 0;
    for (size_t at = rendered.find(mark); at != std::string::npos; at = rendered.find(mark, begin)) {
        out.append(rendered, begin, at - begin);
        out += kCut;
        begin = at + mark.size();
    }
    return out.append(rendered, begin);
}

Result<std::vector<int32_t>> encode_cut(const Tokenizer & tokenizer, std::string_view text, bool add_special) {
    const std::vector<std::string_view> parts = split(text, kCut);
    if (parts.size() < 2) { return tokenizer.encode(text, add_special, true); }
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer.encode(parts.front(), add_special, true));
    for (size_t i = 1; i < parts.size(); ++i) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> more, encode_inside(tokenizer, std::string(parts[i])));
        tokens.insert(tokens.end(), more.begin(), more.end());
    }
    return tokens;
}

}  // namespace pith
