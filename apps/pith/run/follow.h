// follow.h - `pith run --follow`: a text that goes on coming, read into a session inside its budget, and saved on the way.
//
// The session is fed in calls of as many tokens each, however the text comes, and a piece of text becomes tokens by itself: so
// what it holds depends on the text alone, and a process that goes on from a saved file ends, bit for bit, where one that was
// never ended does.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "app/run/saved_text.h"
#include "pith/session.h"
#include "pith/text.h"

namespace pith::app {

struct FollowOptions {
    std::string input = "-";  // a file, or standard input
    std::string save_cache;   // a file; empty: nothing is saved
    int64_t save_every = 0;   // tokens between saves; 0: at the end alone
    int call = 0;             // tokens of a call
};

// What keeps a session from reading without end.   Errors: kInvalidArgument: names the setting.
Status check_endless(const SessionOptions & options);

// Reads until standard input ends (true) or `stop` is set (false), and saves then, and where something fails.
// begin: tokens in front of the text, where the session is empty. text: whose turn it is, and where in the input it goes on.
// Errors: those of the input (followed_input.h), of Session::prefill() and Session::save().
Result<bool> follow(Session & session, const Tokenizer & tokenizer, std::vector<int32_t> begin, SavedText text,
                    const FollowOptions & options, const std::atomic<bool> & stop);

}  // namespace pith::app
