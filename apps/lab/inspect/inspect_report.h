// inspect_report.h - an inspection for people (tables), programs (JSON, CSV) and eyes (SVG).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/ledger_report.h"
#include "inspect/inspect.h"
#include "inspect/inspect_average.h"
#include "inspect/inspect_texts.h"
#include "pith/text.h"

namespace pith::app {

void print_inspection(const Inspection & inspection);
void print_texts(const std::vector<TextsRow> & rows);
// The tables of the full cache: attention of the last query, SCORE's distances.
void print_full_cache(const Inspection & inspection);
Json texts_json(const std::vector<TextsRow> & rows);
Json full_cache_json(const Inspection & inspection);  // a list by layer
Json distance_json(const Inspection & inspection);
Json inspection_json(const Inspection & inspection, const Tokenizer & tokenizer);

struct NamedText {
    std::string name;  // of a file
    std::string text;
};
// One table a file: summary, layers, heads, lanes, kept, tokens, scores, pairs, model, attention, distances. docs/inspect.md
// has every column.
std::vector<NamedText> inspection_csv(const Inspection & inspection, const Tokenizer & tokenizer);

// Several texts: means over them, standard deviations, and the table.
struct InspectMeans {
    InspectAverage average;
    std::vector<TextsRow> rows;
    size_t n_left_out = 0;
};
void print_means(const InspectMeans & means);
Json means_json(const InspectMeans & means);
// As inspection_csv(), without what belongs to one text's tokens; beside each mean its standard deviation.
std::vector<NamedText> means_csv(const InspectMeans & means);
std::string means_svg(const InspectAverage & average, const std::vector<std::string> & only = {});

std::string csv_number(double value);  // six digits: more than a measurement has
// "1 - cosine": what a distance of heads is.
std::string distance_label(const std::string & distance_by);
// D as a table: a line a head. `distance` [layer · H][the same], of the heads of an inspection.
std::string distances_table(const std::vector<double> & distance, const Inspection & of);
// "24 layers", or of a model with windows or recurrent layers "4 of 26 layers (policies govern no others)".
std::string inspected_layers(const Inspection & inspection);

// A cell of a CSV: in quotes, line breaks as \n.
std::string quoted_cell(const std::string & text);

// The names that `only` may have.
std::vector<std::string> inspection_figures();
//   only   names of figures; empty: all of them
std::string inspection_svg(const Inspection & inspection, const std::vector<std::string> & only = {});

}  // namespace pith::app
