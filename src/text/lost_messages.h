// lost_messages.h - whether a chat template writes all that it is given, and the same words in messages that it takes. Stage:
// text.
//
// Some write the first system message alone, or only one at the beginning, and say nothing of the others.
// Threads: const-safe. Cost: where a system message stands behind another message, or a text is not found as it is: one
// rendering more.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "pith/text.h"

namespace pith {

// The system and user messages that `rendered`, the template's text for them, leaves out; ascending. Nothing where the template
// cannot be asked.   cut: names of special tokens in it are cut (plain_text.h).
std::vector<size_t> lost_messages(const Tokenizer & tokenizer, std::span<const ChatMessage> messages,
                                  const ChatOptions & options, std::string_view rendered, bool cut);

// Whether a system message stands behind another message.
bool has_late_system(std::span<const ChatMessage> messages);
// All of them in one, in front of the others.
std::vector<ChatMessage> with_one_system(std::span<const ChatMessage> messages);

// For templates that want user and assistant in turns: neighbours of one role in one message, but for calls and results.
std::vector<ChatMessage> with_neighbours_joined(std::span<const ChatMessage> messages);
// And for those that want the assistant behind a call's result: what a user says there stands in the result.
std::vector<ChatMessage> with_words_in_results(std::span<const ChatMessage> messages);

}  // namespace pith
