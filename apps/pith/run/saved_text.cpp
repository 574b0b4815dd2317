// saved_text.cpp - notes, and the template's pieces.
#include "app/run/saved_text.h"

#include <algorithm>
#include <cstdlib>

#include "text/chat_frame.h"
#include "text/plain_text.h"
#include "text/prompt.h"

namespace pith::app {

namespace {

// Tokens of text that goes on: without the space that some tokenisers put in front of all they are given.
Result<std::vector<int32_t>> encode_behind(const Tokenizer & tokenizer, const std::string & text, bool has_cuts) {
    const auto encode = [&](const std::string & one) {
        return has_cuts ? encode_cut(tokenizer, one, false) : tokenizer.encode(one, false, true);
    };
    PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> line, encode("\n"));
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, encode("\n" + text));
    if (common_prefix(line, tokens) < line.size()) { return encode(text); }  // the line's end has become part of a word
    tokens.erase(tokens.begin(), tokens.begin() + std::ssize(line));
    return tokens;
}

}  // namespace

CacheNotes to_notes(const SavedText & text) {
    CacheNotes notes = {{"template", text.uses_template ? "yes" : "no"},
                        {"turn", text.open_turn ? "open" : "answered"},
                        {"pending", std::to_string(text.pending)},
                        {"turns", std::to_string(text.n_turns)},
                        {"system", text.system},
                        {"chat-template", text.uses_template ? text.chat_template : ""}};
    if (text.place != StreamPlace()) {
        notes.emplace_back("stream-bytes", std::to_string(text.place.n_bytes));
        notes.emplace_back("stream-tokens", std::to_string(text.place.n_tokens));
        notes.emplace_back("stream-hash", std::to_string(text.place.tail_hash));
    }
    return notes;
}

SavedText saved_text(const CacheNotes & notes) {
    const auto note = [&notes](const char * name) {
        const auto found = std::ranges::find(notes, name, &CacheNotes::value_type::first);
        return found == notes.end() ? std::string() : found->second;
    };
    SavedText text;
    text.uses_template = note("template") == "yes";
    text.open_turn = note("turn") == "open";
    const std::string pending = note("pending");
    text.pending = pending.empty() ? -1 : static_cast<int32_t>(std::strtol(pending.c_str(), nullptr, 10));
    text.n_turns = std::max(0, static_cast<int>(std::strtol(note("turns").c_str(), nullptr, 10)));
    text.system = note("system");
    text.chat_template = note("chat-template");
    text.place.n_bytes = std::strtoull(note("stream-bytes").c_str(), nullptr, 10);
    text.place.n_tokens = std::max<int64_t>(0, std::strtoll(note("stream-tokens").c_str(), nullptr, 10));
    text.place.tail_hash = std::strtoull(note("stream-hash").c_str(), nullptr, 10);
    return text;
}

Result<ContextTokens> context_tokens(const Tokenizer & tokenizer, const SavedText & text, const std::string & context) {
    ChatFrame frame;
    if (text.uses_template) {
        PITH_ASSIGN_OR_RETURN(frame, chat_frame(tokenizer, !text.system.empty()));
    } else {
        frame = plain_frame(text.system);
    }
    // Under a template, what the user wrote stays text, whatever special tokens' names it has.
    const auto plain = [&](const std::string & words) {
        return text.uses_template ? as_plain_text(tokenizer, words) : Result<std::string>(words);
    };
    const auto tokens_of = [&](const std::string & words) {
        return text.uses_template ? encode_cut(tokenizer, words, true) : tokenizer.encode(words, true, true);
    };
    PITH_ASSIGN_OR_RETURN(std::string system, plain(text.system));
    system.insert(0, frame.before_system);
    PITH_ASSIGN_OR_RETURN(const std::string words, plain(context));
    ContextTokens all;
    PITH_ASSIGN_OR_RETURN(all.tokens, tokens_of(system + frame.before_user + words));
    if (!text.system.empty()) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> alone, tokens_of(system));
        all.n_system = static_cast<int>(common_prefix(alone, all.tokens));
    }
    return all;
}

Result<std::vector<int32_t>> further_tokens(const Tokenizer & tokenizer, const SavedText & text, const std::string & words) {
    if (!text.uses_template) { return encode_behind(tokenizer, words, false); }
    PITH_ASSIGN_OR_RETURN(const std::string plain, as_plain_text(tokenizer, words));
    return encode_behind(tokenizer, plain, true);
}

Result<std::vector<int32_t>> continuation(const Tokenizer & tokenizer, const SavedText & text, const std::string & words) {
    std::vector<int32_t> tokens;
    if (text.uses_template) {
        PITH_ASSIGN_OR_RETURN(const ChatFrame frame, chat_frame(tokenizer, !text.system.empty()));
        PITH_ASSIGN_OR_RETURN(std::string whole, as_plain_text(tokenizer, words));
        whole += frame.after_user;
        if (!text.open_turn) {
            PITH_ASSIGN_OR_RETURN(const std::string between, between_turns(tokenizer));
            whole.insert(0, between);
        }
        PITH_ASSIGN_OR_RETURN(tokens, encode_behind(tokenizer, whole, true));
    } else {
        PITH_ASSIGN_OR_RETURN(tokens, encode_behind(tokenizer, words, false));
    }
    if (text.pending >= 0) { tokens.insert(tokens.begin(), text.pending); }
    return tokens;
}

}  // namespace pith::app
