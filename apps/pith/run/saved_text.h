// saved_text.h - what a cache file says of its text: whose turn it is, and what the next words are put into.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/session.h"
#include "pith/text.h"

namespace pith::app {

struct SavedText {
    bool uses_template = false;  // the model's chat template is around it
    bool open_turn = false;      // the user's turn has begun: a question belongs into it
    int32_t pending = -1;        // said, and not fed yet; -1: all was fed
    int n_turns = 0;             // questions that were answered
    std::string system;          // prompt
    std::string chat_template;   // that is around it; empty: not known
};

CacheNotes to_notes(const SavedText & text);
// A file that another program saved: plain text.
SavedText saved_text(const CacheNotes & notes);

// The tokens that go behind it: what was not fed, and the user's words with what the template puts around them.
// Errors: kInvalidArgument (no UTF-8), kUnsupported (a template libllama does not know).
Result<std::vector<int32_t>> continuation(const Tokenizer & tokenizer, const SavedText & text, const std::string & words);

}  // namespace pith::app
