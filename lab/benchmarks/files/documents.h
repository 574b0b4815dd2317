// documents.h - the long texts of a data file, for perplexities. Stage: benchmarks.
// Pure C++: the file comes in as text.
//
// JSON lines (or one JSON list) with the text in the field `chapter` (BookSum as kmfoda/booksum publishes it; its summaries are
// not read) or `text` (PG-19, WikiText and the like).
// Errors: those of records.h; kBadFile: neither field, an empty text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith::benchmarks {

// In the file's order. A text that comes again is taken once: BookSum has a line for each summary of a chapter.
Result<std::vector<std::string>> read_documents(std::string_view text, const std::string & file);

}  // namespace pith::benchmarks
