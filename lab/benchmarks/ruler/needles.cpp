// needles.cpp - RULER's eight needle tasks: keys and values hidden in noise, essays or other needles. Stage: benchmarks.
// Pure C++; see ruler.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "benchmarks/generate/essay.h"
#include "benchmarks/generate/fit.h"
#include "benchmarks/ruler/ruler.h"
#include "core/text.h"
#include "tasks/concat.h"
#include "tasks/identifiers.h"
#include "tasks/word_lists.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;
using corpus::Random;

enum class Haystack { kNoise, kEssay, kNeedles };
enum class Kind { kWords, kNumbers, kUuids };

struct Shape {
    std::string_view name;
    std::string_view help;
    Haystack haystack;
    Kind keys;
    Kind values;
    int n_keys;
    int n_values;   // of each key
    int n_queries;  // keys asked for
};

constexpr std::array<Shape, 8> kShapes = {{
    {"niah_single_1", "a number in repeated noise", Haystack::kNoise, Kind::kWords, Kind::kNumbers, 1, 1, 1},
    {"niah_single_2", "a number in essays", Haystack::kEssay, Kind::kWords, Kind::kNumbers, 1, 1, 1},
    {"niah_single_3", "a uuid in essays", Haystack::kEssay, Kind::kWords, Kind::kUuids, 1, 1, 1},
    {"niah_multikey_1", "four keys in essays, one asked", Haystack::kEssay, Kind::kWords, Kind::kNumbers, 4, 1, 1},
    {"niah_multikey_2", "nothing but needles, one asked", Haystack::kNeedles, Kind::kWords, Kind::kNumbers, 1, 1, 1},
    {"niah_multikey_3", "nothing but needles, keys and values uuids", Haystack::kNeedles, Kind::kUuids, Kind::kUuids, 1, 1, 1},
    {"niah_multivalue", "four values of one key in essays", Haystack::kEssay, Kind::kWords, Kind::kNumbers, 1, 4, 1},
    {"niah_multiquery", "four keys in essays, all asked", Haystack::kEssay, Kind::kWords, Kind::kNumbers, 4, 1, 4},
}};

constexpr std::array<std::string_view, 2> kQuestionMarks = {"What is the special magic", "What are all the special magic"};
constexpr RulerForm kForm = {kQuestionMarks, "The special magic", 128, false};
constexpr int kDepths = 40;  // places in an essay: per cent, evenly from 0 to 100, rounded

std::string_view plural(Kind kind) {
    return kind == Kind::kWords ? "words" : kind == Kind::kNumbers ? "numbers" : "uuids";
}

// Keys and values, each drawn once.
class Drawer {
public:
    explicit Drawer(Random random) : random_(random) {}

    std::string draw(Kind kind) {
        while (true) {
            std::string item = draw_any(kind);
            if (drawn_.insert(item).second) { return item; }
        }
    }

private:
    std::string draw_any(Kind kind) {
        if (kind == Kind::kUuids) { return corpus::draw_uuid(random_); }
        if (kind == Kind::kNumbers) { return std::to_string(random_.between(1000000, 9999999)); }
        const auto adjective = random_.pick(corpus::adjectives());
        const auto noun = random_.pick(corpus::nouns());
        return concat({adjective, "-", noun});
    }

    Random random_;
    std::set<std::string> drawn_;
};

std::string needle(Kind values, std::string_view key, std::string_view value) {
    return concat({"One of the special magic ", plural(values), " for ", key, " is: ", value, "."});
}

// One sample; contexts of any length are made from the same keys, values and haystack.
class Builder {
public:
    Builder(const Shape & shape, Random random, const Essay * essay)
        : shape_(shape), essay_(essay), places_(random.next()), drawer_(Random(random.next())) {
        std::vector<std::string> keys;
        std::vector<std::vector<std::string>> values;
        for (int k = 0; k < shape.n_keys; ++k) {
            keys.push_back(drawer_.draw(shape.keys));
            values.emplace_back();
            for (int v = 0; v < shape.n_values; ++v) {
                values.back().push_back(drawer_.draw(shape.values));
                needles_.push_back(needle(shape.values, keys.back(), values.back().back()));
            }
        }
        random.shuffle(needles_);
        std::vector<std::string> asked;
        for (const int k : random.draw(shape.n_queries, shape.n_keys)) {
            asked.push_back(keys[static_cast<size_t>(k)]);
            const auto & found = values[static_cast<size_t>(k)];
            answers_.insert(answers_.end(), found.begin(), found.end());
        }
        query_ = asked.back();
        if (asked.size() > 1) {
            asked.pop_back();
            query_ = concat({join(asked, ", "), ", and ", query_});
        }
    }

    int n_needles() const { return static_cast<int>(needles_.size()); }

    // n units of haystack: words of the essay, or lines.
    RulerText text(int n, std::string_view filler = {}) {
        const bool one = shape_.n_queries * shape_.n_values == 1;
        std::string_view what = plural(shape_.values);
        if (one) { what.remove_suffix(1); }
        const std::string context = shape_.haystack == Haystack::kEssay ? in_essay(n) : in_lines(n);
        RulerText out;
        out.input = concat({one ? "A special magic " : "Some special magic ", what, one ? " is" : " are",
                            " hidden within the following text. Make sure to memorize it. I will quiz you about the ", what,
                            " afterwards.\n", context, filler.empty() ? "" : "\n", filler, "\nWhat ", one ? "is" : "are all",
                            " the special magic ", what, " for ", query_, " mentioned in the provided text?"});
        out.answer_prefix =
            concat({" The special magic ", what, " for ", query_, " mentioned in the provided text ", one ? "is" : "are"});
        out.outputs = answers_;
        return out;
    }

private:
    // Each needle stands before a line of its own choice, the first needle last.
    std::string in_lines(int n) {
        std::vector<int> places = Random(places_).draw(n_needles(), n);
        std::sort(places.begin(), places.end());
        std::string out;
        size_t next = 0;
        for (int i = 0; i < n; ++i) {
            for (; next < places.size() && places[next] == i; ++next) {
                out += concat({needles_[needles_.size() - 1 - next], "\n"});
            }
            out += concat({line(i), i + 1 < n ? "\n" : ""});
        }
        return out;
    }

    const std::string & line(int i) {
        while (static_cast<int>(lines_.size()) <= i) {
            if (shape_.haystack == Haystack::kNoise) {
                lines_.push_back(noise_line());
            } else {
                const std::string key = drawer_.draw(shape_.keys);
                const std::string value = drawer_.draw(shape_.values);
                lines_.push_back(needle(shape_.values, key, value));
            }
        }
        return lines_[static_cast<size_t>(i)];
    }

    std::string in_essay(int n_words) {
        std::vector<int> starts = {0};  // of sentences, in words; and the end
        for (int i = 0; i < n_words; ++i) {
            if (i + 1 == n_words || essay_->ends_sentence(i)) { starts.push_back(i + 1); }
        }
        const int n_sentences = static_cast<int>(starts.size()) - 1;
        std::vector<int> places;
        for (const int step : Random(places_).draw(n_needles(), kDepths)) {
            const int depth = static_cast<int>(std::lround(step * 100.0 / (kDepths - 1)));
            places.push_back(starts[static_cast<size_t>(n_sentences * depth / 100)]);
        }
        std::sort(places.begin(), places.end());
        std::vector<std::string> parts;
        int from = 0;
        for (size_t i = 0; i < places.size(); ++i) {
            parts.emplace_back(essay_->words(from, places[i]));
            parts.push_back(needles_[i]);
            from = places[i];
        }
        parts.emplace_back(essay_->words(from, n_words));
        return join(parts, " ");
    }

    const Shape & shape_;
    const Essay * essay_;
    uint64_t places_;
    Drawer drawer_;
    std::vector<std::string> needles_;
    std::vector<std::string> answers_;
    std::string query_;
    std::vector<std::string> lines_;
};

class NeedleTask final : public RulerTask {
public:
    explicit NeedleTask(const Shape & shape) : RulerTask(shape.name, shape.help, kForm), shape_(shape) {}

protected:
    Result<std::vector<RulerText>> generate(const SampleRequest & request, int n_samples) const override {
        std::optional<Essay> essay;
        if (shape_.haystack == Haystack::kEssay) {
            PITH_ASSIGN_OR_RETURN(essay, Essay::make(request.haystack, request.seed, 0, request.n_tokens, Spacing::kCollapsed));
        }
        std::vector<RulerText> texts;
        for (int i = 0; i < n_samples; ++i) {
            Builder builder(shape_, random(request, i), essay ? &*essay : nullptr);
            PITH_ASSIGN_OR_RETURN(RulerText text, fit(builder, request, essay ? essay->n_words() : request.n_tokens));
            texts.push_back(std::move(text));
        }
        return texts;
    }

private:
    Result<RulerText> fit(Builder & builder, const SampleRequest & request, int most_units) const {
        const int limit = request.n_tokens - form().max_new_tokens;
        const auto count = [&](const RulerText & text) { return request.count(concat({text.input, text.answer_prefix})); };
        const int least_units = shape_.haystack == Haystack::kEssay ? 1 : builder.n_needles();
        const Fit found =
            most_that_fit(least_units, std::max(least_units, most_units), limit, [&](int n) { return count(builder.text(n)); });
        if (found.n_units < 0) { return too_small(shape_.name, found.n_tokens + form().max_new_tokens, request.n_tokens); }
        if (shape_.haystack == Haystack::kEssay) { return builder.text(found.n_units); }
        const std::string filler = fill_gap(request.n_tokens, limit, found.n_tokens,
                                            [&](std::string_view more) { return count(builder.text(found.n_units, more)); });
        return builder.text(found.n_units, filler);
    }

    const Shape & shape_;
};

}  // namespace

Tasks ruler_needle_tasks() {
    Tasks tasks;
    for (const Shape & shape : kShapes) { tasks.push_back(std::make_unique<NeedleTask>(shape)); }
    return tasks;
}

}  // namespace pith::benchmarks
