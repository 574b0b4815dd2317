// training_texts.h - the texts that a command trains on: a text file, or JSON lines.
#pragma once

#include <string>
#include <vector>

#include "pith/status.h"

namespace pith::app {

// "*.jsonl": one JSON object a line, its text in `field`; blank lines are skipped. Any other file is one text.
// Errors: as read_text; kBadFile (a line that is no JSON object or has no text in `field`: names the line).
Result<std::vector<std::string>> read_training_texts(const std::vector<std::string> & paths, const std::string & field);

struct TextPair {
    std::string prompt;
    std::string completion;
};
// JSON lines, a prompt and a completion in each. Errors: as above.
Result<std::vector<TextPair>> read_training_pairs(const std::vector<std::string> & paths, const std::string & prompt_field,
                                                  const std::string & completion_field);

}  // namespace pith::app
