// common_words.cpp - RULER's common words (cwe): a numbered list, ten words in it more often than the rest. Stage: benchmarks.
// Pure C++; see ruler.h.
//
// Common words stand 30 times and others 3 times; under 4,096 tokens 6 times and once. A worked example of a short list comes
// first. Differs: where the list of plain words ends (RULER takes another dictionary then), compounds of two nouns follow.
#include <algorithm>
#include <set>
#include <utility>

#include "benchmarks/generate/fit.h"
#include "benchmarks/ruler/ruler.h"
#include "tasks/concat.h"
#include "tasks/word_lists.h"
#include "tasks/wording.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;
using corpus::Random;

constexpr std::string_view kQuestionMarks[] = {"Question: What are the 10 most common words"};
constexpr RulerForm kForm = {kQuestionMarks, "Answer:", 120, false};
constexpr int kCommon = 10;

struct Counts {
    int common, other;                  // times in the list
    int example_words;                  // of the worked example
    int example_common, example_other;  // times in its list
};
constexpr Counts kShort = {6, 1, 20, 3, 1};  // under kLongFrom tokens
constexpr Counts kLong = {30, 3, 40, 10, 3};
constexpr int kLongFrom = 4096;

// Different words in random order; as many as are asked for.
class WordDrawer {
public:
    explicit WordDrawer(Random random) : random_(random) {
        const auto all = corpus::common_words();
        for (const int i : random_.draw(static_cast<int>(all.size()), static_cast<int>(all.size()))) {
            words_.emplace_back(all[static_cast<size_t>(i)]);
        }
    }

    std::span<const std::string> first(int n) {
        while (static_cast<int>(words_.size()) < n) {
            const auto front = random_.pick(corpus::nouns());
            const auto back = random_.pick(corpus::nouns());
            std::string word = concat({front, "-", back});
            if (front != back && compounds_.insert(word).second) { words_.push_back(std::move(word)); }
        }
        return std::span(words_).first(static_cast<size_t>(n));
    }

private:
    Random random_;
    std::vector<std::string> words_;
    std::set<std::string> compounds_;
};

std::string shuffled_list(std::span<const std::string> words, int n_common_times, int n_other_times, uint64_t order) {
    std::vector<std::string_view> list;
    for (size_t i = 0; i < words.size(); ++i) {
        list.insert(list.end(), static_cast<size_t>(i < kCommon ? n_common_times : n_other_times), words[i]);
    }
    Random(order).shuffle(list);
    return corpus::numbered_list(list);
}

std::string ask(std::string_view list) {
    return concat({corpus::kCommonPreamble, list, corpus::common_question(kCommon)});
}

class Builder {
public:
    Builder(Random random, const Counts & counts) : counts_(counts), order_(random.next()), words_(Random(random.next())) {
        WordDrawer drawer(Random(random.next()));
        const auto words = drawer.first(counts.example_words);
        const auto common = words.first(kCommon);
        const std::vector<std::string_view> answers(common.begin(), common.end());
        example_ = concat({ask(shuffled_list(words, counts.example_common, counts.example_other, random.next())),
                           corpus::common_prefix(kCommon), " ", corpus::numbered_list(answers), "\n"});
    }

    RulerText text(int n_words) {
        const auto words = words_.first(n_words);
        const auto common = words.first(kCommon);
        return {example_ + ask(shuffled_list(words, counts_.common, counts_.other, order_)),
                corpus::common_prefix(kCommon),
                {common.begin(), common.end()}};
    }

private:
    const Counts & counts_;
    uint64_t order_;
    WordDrawer words_;
    std::string example_;
};

class CommonWordsTask final : public RulerTask {
public:
    CommonWordsTask() : RulerTask("cwe", "the ten most common words of a list", kForm) {}

protected:
    Result<std::vector<RulerText>> generate(const SampleRequest & request, int n_samples) const override {
        const int limit = request.n_tokens - form().max_new_tokens;
        std::vector<RulerText> texts;
        for (int i = 0; i < n_samples; ++i) {
            Builder builder(random(request, i), request.n_tokens + request.n_overhead < kLongFrom ? kShort : kLong);
            const Fit found = most_that_fit(kCommon + 1, std::max(kCommon + 1, request.n_tokens), limit, [&](int n) {
                const RulerText text = builder.text(n);
                return request.count(text.input + text.answer_prefix);
            });
            if (found.n_units < 0) { return too_small("cwe", found.n_tokens + form().max_new_tokens, request.n_tokens); }
            texts.push_back(builder.text(found.n_units));
        }
        return texts;
    }
};

}  // namespace

std::unique_ptr<Task> ruler_common_words_task() {
    return std::make_unique<CommonWordsTask>();
}

}  // namespace pith::benchmarks
