// text_table.h - rows of words as a table for a terminal, for Markdown, or as comma-separated values. Stage: figures.
// Pure: text in, text out.
#pragma once

#include <string>
#include <vector>

namespace pith {

struct TextTable {
    std::vector<std::string> header;
    std::vector<std::vector<std::string>> rows;  // as wide as the header
    size_t n_left = 1;                           // so many columns are words, the others numbers (aligned right)
};

std::string to_text(const TextTable & table);
std::string to_markdown(const TextTable & table);
std::string to_csv(const TextTable & table);  // lines end with \n

// "12.3": `digits` after the point; never "-0.0".
std::string fixed(double value, int digits);

// "[1.2, 3.4]". An end that is not 0 does not look as if it were: "[0.02, 3.4]".
std::string interval_text(double low, double high, int digits);
// "0.0123", "1.0e-05". What is below 0.05 does not look as if it were 0.05.
std::string p_text(double p);

}  // namespace pith
