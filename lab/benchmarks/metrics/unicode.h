// unicode.h - text as Python sees it: code points, white space, letters, digits, case. Stage: benchmarks.
// Pure C++.   Threads: pure functions.   Cost: one pass.
//
// The benchmarks' metrics were written in Python; what its str and re do with text beyond ASCII is part of a score. White space
// and decimal digits are exact in the basic plane; what is a letter is exact for Latin, Greek, Cyrillic, the blocks of
// punctuation and symbols, CJK and full-width forms, and elsewhere every code point counts as one. Case is mapped one to one
// for the letters that languages written in Latin, Greek and Cyrillic use (ß stays ß, every Σ becomes σ); phonetic and historic
// letters keep theirs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pith::benchmarks {

// A byte that is no part of valid UTF-8 becomes U+FFFD.
std::u32string code_points(std::string_view utf8);
std::string to_utf8(std::u32string_view text);

bool is_space(char32_t c);    // str.isspace
bool is_decimal(char32_t c);  // \d
bool is_word(char32_t c);     // \w
char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);

std::u32string lower(std::u32string_view text);
std::u32string upper(std::u32string_view text);
std::string lower(std::string_view utf8);

// str.strip() and str.split(), views into `text`.
std::u32string_view strip(std::u32string_view text);
std::vector<std::u32string_view> split_words(std::u32string_view text);
// str.strip() of UTF-8, a view into `utf8`.
std::string_view strip(std::string_view utf8);

// Runs of decimal digits: re.findall(r"\d+").
std::vector<std::u32string_view> digit_runs(std::u32string_view text);

// Each of `characters` in the text becomes a space.
std::u32string with_spaces_for(std::u32string_view text, std::u32string_view characters);

// Every `from` becomes `to`, left to right, what was put in not looked at again: str.replace.
std::u32string replace_all(std::u32string_view text, std::u32string_view from, std::u32string_view to);

}  // namespace pith::benchmarks
