// answer_f1.cpp - normalise, count what both bags hold, F1.
#include "benchmarks/metrics/answer_f1.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

constexpr std::u32string_view kAsciiPunctuation = U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::u32string_view kChinesePunctuation =
    U"！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—"
    U"‘’‛“”„‟…‧﹏.";

bool is_one_of(char32_t c, std::u32string_view characters) {
    return characters.find(c) != std::u32string_view::npos;
}

// The articles as words of their own, bounded by anything that is no letter, digit or underscore, become spaces.
std::u32string without_articles(std::u32string_view text) {
    std::u32string out;
    for (size_t at = 0; at < text.size();) {
        if (!is_word(text[at])) {
            out += text[at++];
            continue;
        }
        size_t end = at;
        while (end < text.size() && is_word(text[end])) { ++end; }
        const std::u32string_view word = text.substr(at, end - at);
        const bool article = word == U"a" || word == U"an" || word == U"the";
        out += article ? std::u32string_view(U" ") : word;
        at = end;
    }
    return out;
}

template <class Token>
double f1_of_bags(std::vector<Token> prediction, std::vector<Token> reference) {
    std::sort(prediction.begin(), prediction.end());
    std::sort(reference.begin(), reference.end());
    std::vector<Token> shared;
    std::set_intersection(prediction.begin(), prediction.end(), reference.begin(), reference.end(), std::back_inserter(shared));
    if (shared.empty()) { return 0; }
    const auto n_same = static_cast<double>(shared.size());
    const double precision = n_same / static_cast<double>(prediction.size());
    const double recall = n_same / static_cast<double>(reference.size());
    return 2 * precision * recall / (precision + recall);
}

// By the Chinese rules.
bool is_left_out(char32_t c) {
    return is_space(c) || is_one_of(c, kAsciiPunctuation) || is_one_of(c, kChinesePunctuation);
}

std::vector<char32_t> characters(std::string_view text) {
    std::vector<char32_t> out;
    for (const char32_t c : lower(code_points(text))) {
        if (!is_left_out(c)) { out.push_back(c); }
    }
    return out;
}

double best(double (*f1)(std::string_view, std::string_view), std::string_view prediction,
            std::span<const std::string> references) {
    double best = 0;
    for (const std::string & reference : references) { best = std::max(best, f1(prediction, reference)); }
    return best;
}

}  // namespace

std::u32string normalized_answer(std::string_view text) {
    std::u32string kept;
    for (const char32_t c : lower(code_points(text))) {
        if (!is_one_of(c, kAsciiPunctuation)) { kept += c; }
    }
    std::u32string joined;
    const std::u32string without = without_articles(kept);
    for (const std::u32string_view word : split_words(without)) {
        if (!joined.empty()) { joined += U' '; }
        joined += word;
    }
    return joined;
}

double bag_f1(std::vector<std::u32string> prediction, std::vector<std::u32string> reference) {
    return f1_of_bags(std::move(prediction), std::move(reference));
}

std::vector<std::u32string> without_punctuation(const std::vector<std::u32string> & tokens) {
    std::vector<std::u32string> out;
    for (std::u32string token : tokens) {
        std::erase_if(token, is_left_out);
        if (!token.empty()) { out.push_back(std::move(token)); }
    }
    return out;
}

double answer_f1(std::string_view prediction, std::string_view reference) {
    const std::u32string said = normalized_answer(prediction);
    const std::u32string right = normalized_answer(reference);
    return f1_of_bags(split_words(said), split_words(right));
}

double character_f1(std::string_view prediction, std::string_view reference) {
    return f1_of_bags(characters(prediction), characters(reference));
}

double best_answer_f1(std::string_view prediction, std::span<const std::string> references) {
    return best(answer_f1, prediction, references);
}

double best_character_f1(std::string_view prediction, std::span<const std::string> references) {
    return best(character_f1, prediction, references);
}

}  // namespace pith::benchmarks
