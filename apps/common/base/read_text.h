// read_text.h - text, or token ids, from a file or from standard input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/status.h"

namespace pith::app {

// path "-": standard input. Errors: kNotFound, kIo, kInvalidArgument (not UTF-8: names path and byte; larger than
// file/read_file.h reads); an empty file is no error.
Result<std::string> read_text(const std::string & path);
// The same without what Windows' editors put in: a byte-order mark in front goes, "\r\n" becomes "\n". For what a person
// writes; data that must stay as they are come by read_text().
Result<std::string> read_plain_text(const std::string & path);
void drop_byte_order_mark(std::string & text);

// Errors: kInvalidArgument: names `name` and the byte.
Status check_utf8(const std::string & name, const std::string & text);

// What the file has, less the line end that an editor puts behind it; without a file, what was given instead.
// Errors: those of read_text() and check_utf8().
Result<std::string> read_system_prompt(const std::string & path, const std::string & given);

// Whole numbers between blanks, commas, line ends or brackets: what `pith tokenize` prints, a JSON array, a column of a table.
// Errors: those of read_text(), kInvalidArgument (a word that is no token id: names it and its place; none at all).
Result<std::vector<int32_t>> read_token_ids(const std::string & path);
// Errors: kInvalidArgument: an id that the vocabulary does not have; names it and its place.
Status check_token_ids(const std::vector<int32_t> & ids, int n_vocab);

}  // namespace pith::app
