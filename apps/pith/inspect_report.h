// inspect_report.h - an inspection for people (tables), programs (JSON, CSV) and eyes (SVG).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "eval/inspect.h"
#include "eval/inspect_texts.h"
#include "ledger_report.h"
#include "pith/text.h"

namespace pith::app {

void print_inspection(const Inspection & inspection);
void print_texts(const std::vector<TextsRow> & rows);
Json texts_json(const std::vector<TextsRow> & rows);
Json inspection_json(const Inspection & inspection, const Tokenizer & tokenizer);

struct NamedText {
    std::string name;  // of a file
    std::string text;
};
// One table a file: summary, layers, heads, lanes, kept, tokens, scores, pairs, model, attention, distances. docs/inspect.md
// has every column.
std::vector<NamedText> inspection_csv(const Inspection & inspection, const Tokenizer & tokenizer);

// A cell of a CSV: in quotes, line breaks as \n.
std::string quoted_cell(const std::string & text);

// The names that `only` may have.
std::vector<std::string> inspection_figures();
//   only   names of figures; empty: all of them
std::string inspection_svg(const Inspection & inspection, const std::vector<std::string> & only = {});

}  // namespace pith::app
