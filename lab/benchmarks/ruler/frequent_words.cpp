// frequent_words.cpp - RULER's frequent words (fwe): coded words whose counts follow a zeta distribution. Stage: benchmarks.
// Pure C++; see ruler.h.
//
//   the word of rank k stands floor(N k⁻² / ζ(2)) times; the first rank is "...", ranks 2 to 4 are the answer
//   words: (n_tokens − new tokens) / 50, of six random letters
#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "benchmarks/generate/fit.h"
#include "benchmarks/ruler/ruler.h"
#include "tasks/concat.h"
#include "tasks/identifiers.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;
using corpus::Random;

constexpr std::string_view kQuestionMarks[] = {"Question: Do not provide any explanation"};
constexpr RulerForm kForm = {kQuestionMarks, "Answer:", 50, false};
constexpr int kLetters = 6;
constexpr int kTokensPerWord = 50;  // of the limit
constexpr int kRanks = 5;           // the dots, three answers, and one that is none
constexpr int kLeast = 80;          // N from which ranks 4 and 5 differ: N / ζ(2) · (1/16 − 1/25) > 1

std::vector<std::string> draw_words(Random & random, int n) {
    std::set<std::string> drawn;
    std::vector<std::string> words = {"..."};
    while (static_cast<int>(words.size()) < n) {
        std::string word = corpus::draw_letters(random, 'a', kLetters);
        if (drawn.insert(word).second) { words.push_back(std::move(word)); }
    }
    return words;
}

RulerText make_text(const std::vector<std::string> & words, int n, uint64_t order) {
    constexpr double kZeta = std::numbers::pi * std::numbers::pi / 6;
    std::vector<std::string_view> list;
    for (size_t i = 0; i < words.size(); ++i) {
        const auto rank = static_cast<double>(i + 1);
        list.insert(list.end(), static_cast<size_t>(n / (rank * rank) / kZeta), words[i]);
    }
    Random(order).shuffle(list);
    RulerText text;
    text.input =
        "Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared "
        "coded "
        "words.";
    for (const auto word : list) { text.input += concat({" ", word}); }
    text.input +=
        "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently "
        "appeared words "
        "in the above coded text?";
    text.answer_prefix = " Answer: According to the coded text above, the three most frequently appeared words are:";
    text.outputs.assign(words.begin() + 1, words.begin() + 4);
    return text;
}

class FrequentWordsTask final : public RulerTask {
public:
    FrequentWordsTask() : RulerTask("fwe", "the three most frequent words of a coded text", kForm) {}

protected:
    Result<std::vector<RulerText>> generate(const SampleRequest & request, int n_samples) const override {
        const int limit = request.n_tokens - form().max_new_tokens;
        std::vector<RulerText> texts;
        for (int i = 0; i < n_samples; ++i) {
            Random drawn = random(request, i);
            const uint64_t order = drawn.next();
            const auto words = draw_words(drawn, std::max(limit / kTokensPerWord, kRanks));
            const Fit found = most_that_fit(kLeast, std::max(kLeast, 2 * request.n_tokens), limit, [&](int n) {
                const RulerText text = make_text(words, n, order);
                return request.count(text.input + text.answer_prefix);
            });
            if (found.n_units < 0) { return too_small("fwe", found.n_tokens + form().max_new_tokens, request.n_tokens); }
            texts.push_back(make_text(words, found.n_units, order));
        }
        return texts;
    }
};

}  // namespace

std::unique_ptr<Task> ruler_frequent_words_task() {
    return std::make_unique<FrequentWordsTask>();
}

}  // namespace pith::benchmarks
