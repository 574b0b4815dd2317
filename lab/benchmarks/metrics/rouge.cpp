// rouge.cpp - both variants over the same subsequences.
#include "benchmarks/metrics/rouge.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "benchmarks/metrics/lcs.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

using Words = std::vector<std::u32string>;

// pltrdy: pieces between full stops, empty ones dropped; a piece of white space alone is the one word "".
std::vector<Words> stop_sentences(std::string_view utf8) {
    const std::u32string text = code_points(utf8);
    std::vector<Words> sentences;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(U'.', at), text.size());
        if (end > at) {
            Words & words = sentences.emplace_back();
            for (const auto word : split_words(std::u32string_view(text).substr(at, end - at))) { words.emplace_back(word); }
            if (words.empty()) { words.emplace_back(); }
        }
        at = end + 1;
    }
    return sentences;
}

// Google: lines, their words in a–z and 0–9.
std::vector<Words> line_sentences(std::string_view utf8) {
    std::vector<Words> sentences;
    Words words;
    std::u32string word;
    const auto end_word = [&] {
        if (!word.empty()) { words.push_back(std::move(word)); }
        word.clear();
    };
    for (const char32_t c : lower(code_points(utf8)) + U"\n") {
        if ((c >= U'a' && c <= U'z') || (c >= U'0' && c <= U'9')) {
            word += c;
            continue;
        }
        end_word();
        if (c != U'\n') { continue; }
        sentences.push_back(std::move(words));  // a line without a word changes no count
        words.clear();
    }
    return sentences;
}

std::map<std::u32string, int> word_counts(const std::vector<Words> & sentences, size_t & n_words) {
    std::map<std::u32string, int> counts;
    n_words = 0;
    for (const Words & sentence : sentences) {
        n_words += sentence.size();
        for (const auto & word : sentence) { ++counts[word]; }
    }
    return counts;
}

}  // namespace

double rouge_l(std::string_view prediction, std::string_view reference) {
    const std::vector<Words> said = stop_sentences(prediction);
    const std::vector<Words> right = stop_sentences(reference);
    if (said.empty() || right.empty()) { return 0; }
    size_t n_words = 0;
    const auto n_said = static_cast<double>(word_counts(said, n_words).size());
    const auto n_right = static_cast<double>(word_counts(right, n_words).size());
    std::set<std::u32string> shared;
    for (const Words & wanted : right) {
        for (const Words & given : said) {
            for (const size_t i : longest_common_subsequence(wanted, given, Tie::kBackInB)) { shared.insert(wanted[i]); }
        }
    }
    const double precision = static_cast<double>(shared.size()) / n_said;
    const double recall = static_cast<double>(shared.size()) / n_right;
    return 2 * precision * recall / (precision + recall + 1e-8);
}

double rouge_lsum(std::string_view prediction, std::string_view reference) {
    const std::vector<Words> said = line_sentences(prediction);
    const std::vector<Words> right = line_sentences(reference);
    size_t n_said = 0;
    size_t n_right = 0;
    std::map<std::u32string, int> left_said = word_counts(said, n_said);
    std::map<std::u32string, int> left_right = word_counts(right, n_right);
    size_t hits = 0;
    for (const Words & wanted : right) {
        std::set<size_t> shared;
        for (const Words & given : said) {
            const auto found = longest_common_subsequence(wanted, given, Tie::kBackInA);
            shared.insert(found.begin(), found.end());
        }
        for (const size_t i : shared) {
            int & given = left_said[wanted[i]];
            int & open = left_right[wanted[i]];
            if (given == 0 || open == 0) { continue; }
            --given, --open, ++hits;
        }
    }
    if (hits == 0) { return 0; }
    const double precision = static_cast<double>(hits) / static_cast<double>(n_said);
    const double recall = static_cast<double>(hits) / static_cast<double>(n_right);
    return 2 * precision * recall / (precision + recall);
}

}  // namespace pith::benchmarks
