// saved_text.h - what a cache file says of its text: whose turn it is, and what the next words are put into.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/session.h"
#include "pith/text.h"

namespace pith::app {

// How far a text that goes on coming has been read (followed_input.h).
struct StreamPlace {
    uint64_t n_bytes = 0;    // in front of the piece that comes next, or that has been begun
    int64_t n_tokens = 0;    // of that piece, read already
    uint64_t tail_hash = 0;  // of the last bytes in front of it
    bool operator==(const StreamPlace &) const = default;
};

struct SavedText {
    bool uses_template = false;  // the model's chat template is around it
    bool open_turn = false;      // the user's turn has begun: a question belongs into it
    int32_t pending = -1;        // said, and not fed yet; -1: all was fed
    int n_turns = 0;             // questions that were answered
    std::string system;          // prompt
    std::string chat_template;   // that is around it; empty: not known
    StreamPlace place = {};      // of `pith run --follow`
};

CacheNotes to_notes(const SavedText & text);
// A file that another program saved: plain text.
SavedText saved_text(const CacheNotes & notes);

// The tokens of a text that questions come behind: what the template puts in front of it, the system prompt, and the text as
// the first part of a user's message.   Errors: as below.
struct ContextTokens {
    std::vector<int32_t> tokens;
    int n_system = 0;  // of them, up to the end of the system prompt
};
Result<ContextTokens> context_tokens(const Tokenizer & tokenizer, const SavedText & text, const std::string & context);
// More of the same text, where the user's turn is still open.
Result<std::vector<int32_t>> further_tokens(const Tokenizer & tokenizer, const SavedText & text, const std::string & words);

// The tokens that go behind it: what was not fed, and the user's words with what the template puts around them.
// Errors: kInvalidArgument (no UTF-8), kUnsupported (a template libllama does not know).
Result<std::vector<int32_t>> continuation(const Tokenizer & tokenizer, const SavedText & text, const std::string & words);

}  // namespace pith::app
