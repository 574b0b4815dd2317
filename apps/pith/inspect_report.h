// inspect_report.h - an inspection for people (tables), programs (JSON, CSV) and eyes (SVG).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "eval/inspect.h"
#include "eval/inspect_texts.h"
#include "ledger_report.h"

namespace pith::app {

void print_inspection(const Inspection & inspection);
void print_texts(const std::vector<TextsRow> & rows);
Json texts_json(const std::vector<TextsRow> & rows);
Json inspection_json(const Inspection & inspection);

struct NamedText {
    std::string name;  // of a file
    std::string text;
};
// One table a file: summary, layers, heads, lanes, kept, pairs, model, distances.
std::vector<NamedText> inspection_csv(const Inspection & inspection);
std::string inspection_svg(const Inspection & inspection);

}  // namespace pith::app
