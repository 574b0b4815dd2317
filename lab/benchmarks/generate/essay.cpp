// essay.cpp - see essay.h.
#include "benchmarks/generate/essay.h"

#include <algorithm>
#include <array>

#include "tasks/worlds.h"

namespace pith::benchmarks {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\f\v";
constexpr int kFactsInWorld = 24;

// Sentences about small worlds, a new world after some fifty of them, in paragraphs.
std::string make_stories(corpus::Random & random, int n_words) {
    std::string out;
    int n_sentences = 0;
    std::vector<corpus::Fact> world;
    for (int n = 0; n < n_words;) {
        if (n_sentences++ % (2 * kFactsInWorld) == 0) { world = corpus::make_world(random, kFactsInWorld); }
        const bool fact = random.chance(0.4);
        const std::string sentence = fact ? random.pick(random.pick(world).statements) : corpus::filler_sentence(random);
        if (!out.empty()) { out += random.chance(0.12) ? "\n\n" : " "; }
        out += sentence;
        n += 1 + static_cast<int>(std::count(sentence.begin(), sentence.end(), ' '));
    }
    return out;
}

bool is_abbreviation(std::string_view word) {
    constexpr std::array<std::string_view, 16> kKnown = {"Mr.",  "Mrs.", "Ms.",  "Dr.", "Prof.", "St.", "Jr.",  "Sr.",
                                                         "e.g.", "i.e.", "etc.", "vs.", "cf.",   "No.", "Fig.", "al."};
    while (!word.empty() && (word.front() == '(' || word.front() == '"' || word.front() == '\'')) { word.remove_prefix(1); }
    const bool initial = word.size() == 2 && word[0] >= 'A' && word[0] <= 'Z' && word[0] != 'I';
    return initial || std::find(kKnown.begin(), kKnown.end(), word) != kKnown.end();
}

}  // namespace

Result<Essay> Essay::make(std::string_view text, uint64_t seed, uint64_t story, int n_words, Spacing spacing) {
    Essay essay;
    if (text.empty()) {
        corpus::Random random = sample_random("essay", seed, story);
        essay.append(make_stories(random, n_words), n_words, spacing);
        return essay;
    }
    if (text.find_first_not_of(kSpaces) == std::string_view::npos) {
        return {ErrorCode::kInvalidArgument,
                "the haystack's text has no words: give another text, or none for the built-in stories"};
    }
    while (essay.n_words() < n_words) { essay.append(text, n_words, spacing); }
    return essay;
}

void Essay::append(std::string_view text, int n_words_wanted, Spacing spacing) {
    size_t end = 0;
    while (n_words() < n_words_wanted) {
        const size_t begin = text.find_first_not_of(kSpaces, end);
        if (begin == std::string_view::npos) { return; }
        if (!text_.empty()) {
            const bool kept = spacing == Spacing::kKept && end > 0;
            text_ += kept ? text.substr(end, begin - end) : spacing == Spacing::kKept ? "\n" : " ";
        }
        end = std::min(text.find_first_of(kSpaces, begin), text.size());
        words_.push_back({text_.size(), text_.size() + end - begin});
        text_ += text.substr(begin, end - begin);
    }
}

std::string_view Essay::word(int i) const {
    return words(i, i + 1);
}

std::string_view Essay::words(int first, int last) const {
    if (first >= last) { return {}; }
    const size_t begin = words_[static_cast<size_t>(first)].begin;
    return std::string_view(text_).substr(begin, words_[static_cast<size_t>(last - 1)].end - begin);
}

bool Essay::ends_sentence(int i) const {
    std::string_view last = word(i);
    if (is_abbreviation(last)) { return false; }
    const size_t mark = last.find_last_not_of("\"')]}\xE2\x80\x9D\x99");  // and ” and ’, byte by byte
    if (mark == std::string_view::npos || std::string_view(".!?").find(last[mark]) == std::string_view::npos) { return false; }
    if (i + 1 >= n_words()) { return true; }
    const char next = word(i + 1).front();
    return next < 'a' || next > 'z';
}

corpus::Random sample_random(std::string_view task, uint64_t seed, uint64_t index) {
    uint32_t hash = 2166136261U;  // FNV-1a
    for (const char c : task) { hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U; }
    return {corpus::SeedSpace::kTask, seed, index << 16 | ((hash >> 16 ^ hash) & 0xFFFFU)};
}

}  // namespace pith::benchmarks
