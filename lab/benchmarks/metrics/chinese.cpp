// chinese.cpp - cuts a text into characters and hands them to the metrics for words.
#include "benchmarks/metrics/chinese.h"

#include <string>
#include <vector>

#include "benchmarks/metrics/answer_f1.h"
#include "benchmarks/metrics/rouge.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

bool is_ascii_word(char32_t c) {
    return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9');
}

std::vector<std::u32string> tokens_of(std::u32string_view text) {
    std::vector<std::u32string> tokens;
    bool in_word = false;
    for (const char32_t c : text) {
        const bool goes_on = is_ascii_word(c) && in_word;
        if (!goes_on) { tokens.emplace_back(); }
        tokens.back() += c;
        in_word = is_ascii_word(c);
    }
    return tokens;
}

std::string spaced(std::string_view utf8) {
    std::u32string text;
    for (const std::u32string & token : tokens_of(code_points(utf8))) { text += (text.empty() ? U"" : U" ") + token; }
    return to_utf8(text);
}

}  // namespace

double character_token_f1(std::string_view prediction, std::string_view reference) {
    return bag_f1(without_punctuation(tokens_of(lower(code_points(prediction)))),
                  without_punctuation(tokens_of(lower(code_points(reference)))));
}

double character_rouge_l(std::string_view prediction, std::string_view reference) {
    return rouge_l(spaced(prediction), spaced(reference));
}

}  // namespace pith::benchmarks
