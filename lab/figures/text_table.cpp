// text_table.cpp - aligns and quotes. Stage: figures.
#include "figures/text_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/csv_field.h"

namespace pith {
namespace {

// Characters, not bytes: a minus sign or "±" takes one place.
size_t width_of(const std::string & text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string padded(const std::string & text, size_t width, bool left) {
    const std::string space(width - std::min(width, width_of(text)), ' ');
    return left ? text + space : space + text;
}

template <class Visit>
void for_each_row(const TextTable & table, const Visit & visit) {
    visit(table.header);
    for (const auto & row : table.rows) { visit(row); }
}

}  // namespace

std::string to_text(const TextTable & table) {
    std::vector<size_t> widths(table.header.size(), 0);
    for_each_row(table, [&](const auto & row) {
        for (size_t c = 0; c < row.size(); ++c) { widths[c] = std::max(widths[c], width_of(row[c])); }
    });
    std::string text;
    for_each_row(table, [&](const auto & row) {
        std::string line;
        for (size_t c = 0; c < row.size(); ++c) { line += (c > 0 ? "  " : "") + padded(row[c], widths[c], c < table.n_left); }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    });
    return text;
}

std::string to_markdown(const TextTable & table) {
    std::string text;
    const auto line = [&text](const std::vector<std::string> & row) {
        for (const std::string & word : row) {
            text += "| ";
            for (const char c : word) { text += c == '|' ? std::string("\\|") : std::string(1, c); }
            text += " ";
        }
        text += "|\n";
    };
    line(table.header);
    for (size_t c = 0; c < table.header.size(); ++c) { text += c < table.n_left ? "|---" : "|---:"; }
    text += "|\n";
    for (const auto & row : table.rows) { line(row); }
    return text;
}

std::string to_csv(const TextTable & table) {
    std::string text;
    for_each_row(table, [&text](const std::vector<std::string> & row) {
        for (size_t c = 0; c < row.size(); ++c) { text += (c > 0 ? "," : "") + csv_field(row[c]); }
        text += "\n";
    });
    return text;
}

std::string fixed(double value, int digits) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%.*f", digits, value);
    const std::string out = text.data();
    return out.find_first_not_of("-0.") == std::string::npos && out[0] == '-' ? out.substr(1) : out;
}

std::string interval_text(double low, double high, int digits) {
    constexpr int kMostDigits = 6;
    const auto end = [digits](double value) {
        int n = digits;
        while (value != 0 && n < kMostDigits && std::abs(value) < 0.5 * std::pow(10.0, -n)) { ++n; }
        return fixed(value, n);
    };
    return "[" + end(low) + ", " + end(high) + "]";
}

std::string p_text(double p) {
    constexpr double kLevel = 0.05;
    if (p < 0.0001) {
        std::array<char, 32> text{};
        std::snprintf(text.data(), text.size(), "%.1e", p);
        return text.data();
    }
    const std::string text = fixed(p, 4);
    return p < kLevel && text == fixed(kLevel, 4) ? fixed(kLevel - 0.0001, 4) : text;
}

}  // namespace pith
