// document_builder.cpp - see document_builder.h.
#include "corpus/document_builder.h"

#include <algorithm>

#include "corpus/concat.h"
#include "corpus/worlds.h"

namespace pith::corpus {

DocumentBuilder::DocumentBuilder(std::string kind, int n_tokens, const CountTokens & count)
    : room_(n_tokens - 1), count_(count) {
    document_.kind = std::move(kind);
}

int DocumentBuilder::cost(std::string_view text) {
    const auto [found, fresh] = known_.try_emplace(std::string(text), 0);
    if (fresh) { found->second = count_(text); }
    return found->second;
}

int DocumentBuilder::cost(const std::vector<Segment> & segments) {
    int total = 0;
    for (const auto & segment : segments) { total += cost(segment.text) + (segment.end ? 1 : 0); }
    return total;
}

bool DocumentBuilder::add(std::vector<Segment> segments) {
    const int needs = cost(segments);
    if (needs > room_) { return false; }
    room_ -= needs;
    for (auto & segment : segments) { document_.segments.push_back(std::move(segment)); }
    return true;
}

bool DocumentBuilder::add(std::string text, float weight, bool end) {
    return add({Segment{std::move(text), weight, end}});
}

std::vector<Segment> statement_segments(std::string_view statement, std::string_view answer, float weight,
                                        float answer_weight) {
    SplitStatement parts = split_statement(statement, answer);
    return {{std::move(parts.before), weight}, {std::move(parts.answer), answer_weight}, {std::move(parts.after), weight}};
}

std::vector<Segment> needle_segments(std::string_view key, std::string_view value, bool known) {
    const float fresh = known ? kAnswerWeight : kRandomWeight;
    return {{"One of the special magic numbers for", kPlainWeight},
            {concat({" ", key}), fresh},
            {" is:", kPlainWeight},
            {concat({" ", value}), fresh},
            {".", kPlainWeight}};
}

namespace {

// Puts a separator in front of a sentence: it starts a line, or follows a space.
std::vector<Segment> separated(std::vector<Segment> sentence, std::string_view separator) {
    if (!sentence.empty()) { sentence.front().text = concat({separator, sentence.front().text}); }
    return sentence;
}

struct Line {
    std::vector<Segment> segments;
    bool hidden = false;
};

// Haystack sentences in lines; a line is where a hidden sentence may stand.
std::vector<Line> haystack(DocumentBuilder & builder, const Layout & layout, Random & random, int room) {
    std::vector<Line> lines;
    for (int i = 0; room > 0; ++i) {
        std::string sentence = layout.noise ? std::string(noise_sentence(i)) : filler_sentence(random);
        const bool line_start = layout.noise && i % kNoiseSentences == 0;
        const int needs = builder.cost(concat({line_start ? "\n" : " ", sentence}));
        if (needs > room) { break; }
        room -= needs;
        if (!layout.noise || line_start) {
            lines.push_back({{{std::move(sentence), kPlainWeight}}});
        } else {
            lines.back().segments.push_back({concat({" ", sentence}), kPlainWeight});
        }
    }
    return lines;
}

}  // namespace

bool lay_out(DocumentBuilder & builder, Layout layout, Random & random) {
    if (layout.questions.empty()) { return false; }
    const int n_tokens = builder.room();
    int hidden_cost = layout.preamble.empty() ? 0 : builder.cost(layout.preamble);
    for (const auto & sentence : layout.hidden) { hidden_cost += builder.cost(sentence) + 1; }
    if (hidden_cost + builder.cost(layout.questions.front().segments) > n_tokens) { return false; }

    const int room = static_cast<int>(layout.share * n_tokens) - hidden_cost;
    std::vector<Line> lines = haystack(builder, layout, random, room);
    // Random places for the hidden sentences that keep their order. In a story the first sentence is haystack: a hidden one
    // would start without a space, and its name would be other pieces than in the question.
    const int first = layout.noise || lines.empty() ? 0 : 1;
    std::vector<int> places;
    for (size_t i = 0; i < layout.hidden.size(); ++i) {
        places.push_back(random.between(first, static_cast<int>(lines.size())));
    }
    std::sort(places.begin(), places.end());
    for (size_t i = layout.hidden.size(); i-- > 0;) {
        lines.insert(lines.begin() + places[i], Line{std::move(layout.hidden[i]), true});
    }
    if (!layout.preamble.empty()) { builder.add(layout.preamble, kPlainWeight); }
    for (size_t i = 0; i < lines.size(); ++i) {
        const std::string_view separator = i == 0 ? "" : layout.noise ? "\n" : " ";
        builder.add(separated(std::move(lines[i].segments), separator));
    }
    for (auto & question : layout.questions) {
        builder.add(std::move(question.segments));  // one that does not fit is left out; a shorter one may
    }
    return true;
}

}  // namespace pith::corpus
