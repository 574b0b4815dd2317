// saved_text.cpp - notes, and the template's pieces.
#include "app/run/saved_text.h"

#include <algorithm>
#include <cstdlib>

#include "text/chat_frame.h"
#include "text/plain_text.h"

namespace pith::app {

CacheNotes to_notes(const SavedText & text) {
    return {{"template", text.uses_template ? "yes" : "no"},
            {"turn", text.open_turn ? "open" : "answered"},
            {"pending", std::to_string(text.pending)},
            {"turns", std::to_string(text.n_turns)},
            {"system", text.system}};
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
    return text;
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
        PITH_ASSIGN_OR_RETURN(tokens, encode_cut(tokenizer, whole, false));
    } else {
        PITH_ASSIGN_OR_RETURN(tokens, tokenizer.encode(words, false, true));
    }
    if (text.pending >= 0) { tokens.insert(tokens.begin(), text.pending); }
    return tokens;
}

}  // namespace pith::app
