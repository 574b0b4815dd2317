// plain_text.cpp - where to cut, and the tokens of what was cut. Stage: text.
#include "text/plain_text.h"

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/json_syntax.h"
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

// Of user-defined tokens, which libllama keeps whole wherever they stand, those that look like a control token's name:
// gpt-oss's frame is made of such ones. The others are text.
bool is_framed(std::string_view text) {
    const auto is_between = [text](std::string_view open, std::string_view close) {
        return text.size() > open.size() + close.size() && text.starts_with(open) && text.ends_with(close);
    };
    return is_between("<|", "|>") || is_between("<\xEF\xBD\x9C", "\xEF\xBD\x9C>");
}

std::vector<std::string> special_names(const llama_vocab * vocab) {
    std::vector<std::string> names;
    for (int32_t id = 0; id < llama_vocab_n_tokens(vocab); ++id) {
        const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(vocab, id));
        const char * given = llama_vocab_get_text(vocab, id);
        const std::string_view text = given == nullptr ? "" : given;
        const bool is_special = (attributes & static_cast<unsigned>(LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
        if (is_special || is_framed(text)) { names.emplace_back(text); }
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

namespace {

// Cut everywhere but within the marks of thoughts. gpt-oss's are control tokens, whose names no text may bring.
std::string cut_between_marks(const PlainText & plain, std::string_view text, const ReasoningMarks & marks,
                              std::string_view by) {
    if (!marks.any() || !marks.silent.empty()) { return plain.cut(text, by); }
    const std::array<std::string_view, 2> both = {marks.open, marks.close};
    std::array<size_t, 2> next = {text.find(both[0]), text.find(both[1])};
    std::string out;
    size_t at = 0;
    while (at < text.size()) {
        const size_t i = next[0] < next[1] ? 0 : 1;
        const size_t end = std::min(next[i], text.size());
        out += plain.cut(text.substr(at, end - at), by);
        if (end == text.size()) { break; }
        out += both[i];
        at = end + both[i].size();
        for (size_t k = 0; k < both.size(); ++k) {
            if (next[k] < at) { next[k] = text.find(both[k], at); }
        }
    }
    return out;
}

// Of calls, whose arguments may be a JSON text inside of the JSON text, which templates read: written anew without escapes that
// it does not need where these hide a name (\u003c is '<').
std::string with_plain_escapes(const PlainText & plain, const std::string & tool_calls) {
    if (tool_calls.find("\\u") == std::string::npos || !json_problem(tool_calls).empty()) { return tool_calls; }
    using Calls = nlohmann::ordered_json;
    Calls calls = Calls::parse(tool_calls, nullptr, /*allow_exceptions=*/false);
    if (!calls.is_array()) { return tool_calls; }
    bool changes = false;
    for (Calls & call : calls) {
        if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) { continue; }
        if (const auto arguments = call["function"].find("arguments");
            arguments != call["function"].end() && arguments->is_string()) {
            const auto & said = arguments->get_ref<const std::string &>();
            if (said.find("\\u") == std::string::npos || !json_problem(said).empty()) { continue; }
            const Calls read = Calls::parse(said, nullptr, /*allow_exceptions=*/false);
            std::string bare = read.dump(-1, ' ', false, Calls::error_handler_t::replace);
            if (read.is_discarded() || plain.cut(bare) == bare) { continue; }  // as the model wrote it
            *arguments = std::move(bare);
            changes = true;
        }
    }
    if (!changes) { return tool_calls; }
    return calls.dump(-1, ' ', false, Calls::error_handler_t::replace);
}

}  // namespace

Result<std::string> as_plain_text(const Tokenizer & tokenizer, std::string_view text) {
    if (invalid_utf8_offset(text)) { return tokenizer.encode(text, false, false).status(); }  // which names the place
    return PlainText::of(tokenizer).cut(text);
}

Result<std::string> as_plain_answer(const Tokenizer & tokenizer, std::string_view text, const ReasoningMarks & marks) {
    if (invalid_utf8_offset(text)) { return tokenizer.encode(text, false, false).status(); }
    return cut_between_marks(PlainText::of(tokenizer), text, marks, std::string_view(&kCut, 1));
}

Result<std::string> render_plain_chat(const Tokenizer & tokenizer, std::span<const ChatMessage> messages,
                                      const ChatOptions & options) {
    std::vector<ChatMessage> cut(messages.begin(), messages.end());
    ChatOptions cut_options = options;
    const PlainText & plain = PlainText::of(tokenizer);
    const ReasoningMarks marks = reasoning_marks(tokenizer.chat_template(), "");
    std::vector<std::string *> texts = {&cut_options.tools};
    std::vector<std::string *> said;  // by the model: templates look for the marks of thoughts there
    for (ChatMessage & message : cut) {
        message.tool_calls = with_plain_escapes(plain, message.tool_calls);
        texts.insert(texts.end(),
                     {&message.role, &message.reasoning, &message.tool_calls, &message.tool_call_id, &message.name});
        (message.role == "assistant" ? said : texts).push_back(&message.content);
    }
    const auto is_free = [&](const std::string & mark) {
        const auto lacks = [&](const std::string * text) { return text->find(mark) == std::string::npos; };
        return std::ranges::all_of(texts, lacks) && std::ranges::all_of(said, lacks);
    };
    int i = 0;
    while (i < kNoncharacters && !is_free(noncharacter(i))) { ++i; }
    if (i == kNoncharacters) {
        return {ErrorCode::kInvalidArgument, "the messages hold all noncharacters of Unicode, U+FDD0 to U+FDEF: take one out"};
    }
    const std::string mark = noncharacter(i);
    for (std::string * text : said) { *text = cut_between_marks(plain, *text, marks, mark); }
    for (std::string * text : texts) { *text = plain.cut(*text, mark); }
    PITH_ASSIGN_OR_RETURN(const std::string rendered, tokenizer.apply_chat_template(cut, cut_options));
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
