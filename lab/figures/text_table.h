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

}  // namespace pith
