// text_pattern.h - the texts in which a pattern is found (ECMA 262, as JSON schemas have it), and those of known formats.
// Stage: text.   Pure C++. Threads: as RegularTexts.
//
// Understood: characters, classes, \d \w \s and their opposites, groups, |, * + ? {m,n} (lazy, too), ^ and $, and looking ahead
// where nothing repeats it. Not: \b, looking behind, references to groups, \p, flags.
// Where ECMA and Python differ (what \w or . holds beyond ASCII, $ before a last line break), a set is what both take.
#pragma once

#include <string>
#include <string_view>

#include "text/regular_texts.h"

namespace pith {

// Errors: kInvalidArgument: what of it is not understood, "'\b' is not understood".
Result<RegularTexts::Id> texts_with_pattern(RegularTexts & texts, std::string_view pattern);

// What a `format` of strings allows; nullptr: the name says nothing about the text.
const std::string * pattern_of_format(std::string_view format);

// The characters of UTF-8.
std::u32string characters_of(std::string_view utf8);

}  // namespace pith
