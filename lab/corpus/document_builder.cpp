// document_builder.cpp - see document_builder.h.
#include "corpus/document_builder.h"

#include <algorithm>

#include "corpus/training_wording.h"
#include "tasks/concat.h"
#include "tasks/wording.h"
#include "tasks/worlds.h"

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
    for (const auto & segment : segments) {
        total += (segment.control == Control::kNone ? cost(segment.text) : 1) + (segment.end ? 1 : 0);
    }
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

void open_turn(std::vector<Segment> & out, std::string_view role) {
    out.push_back({std::string(kTurnStartText), kPlainWeight, false, Control::kTurnStart});
    out.push_back({concat({role, "\n"}), kPlainWeight});
}

void close_turn(std::vector<Segment> & out, float weight) {
    out.push_back({std::string(kTurnEndText), weight, false, Control::kTurnEnd});
    out.push_back({"\n", kPlainWeight});
}

std::vector<Segment> as_example(Document document) {
    auto out = std::move(document.segments);
    for (auto & segment : out) { segment.end = false; }
    out.push_back({"\n\n", kPlainWeight});
    return out;
}

std::vector<std::string_view> draw_noise(Random & random) {
    const auto & pool = training::kNoiseSentences;
    std::vector<std::string_view> noise;
    for (const int i : random.draw(random.between(3, 6), static_cast<int>(pool.size()))) {
        noise.push_back(pool[static_cast<size_t>(i)]);
    }
    return noise;
}

void append_answer(std::vector<Segment> & out, std::span<const std::string> answers) {
    out.push_back({completion_of(answers), kAnswerWeight, true});
}

namespace {

void append_key(std::vector<Segment> & out, std::string_view key, Blanks::Keys known) {
    const size_t hyphen = std::min(key.find('-'), key.size());
    const bool is_known = known == Blanks::Keys::kKnown;
    out.push_back({concat({" ", key.substr(0, hyphen)}), is_known ? kAnswerWeight : kRandomWeight});
    if (hyphen == key.size()) { return; }
    out.push_back({std::string(key.substr(hyphen)), known == Blanks::Keys::kNew ? kRandomWeight : kAnswerWeight});
}

void append_keys(std::vector<Segment> & out, std::span<const std::string> keys, Blanks::Keys known) {
    for (size_t i = 0; i < keys.size(); ++i) {
        const bool last = i + 1 == keys.size();
        if (i > 0 && keys.size() > 2) { out.push_back({",", kPlainWeight}); }
        if (i > 0 && last) { out.push_back({" and", kPlainWeight}); }
        append_key(out, keys[i], known);
    }
}

}  // namespace

void append_form(std::vector<Segment> & out, std::string_view form, const Blanks & blanks) {
    std::string text;
    const auto flush = [&] {
        if (text.ends_with(' ')) { text.pop_back(); }  // it belongs to what follows
        if (!text.empty()) { out.push_back({std::move(text), kPlainWeight}); }
        text.clear();
    };
    for (size_t i = 0; i < form.size(); ++i) {
        if (form[i] != '$') {
            text += form[i];
            continue;
        }
        switch (form[++i]) {
            case 'k':
                text += blanks.what;
                break;
            case 'n':
                text += std::to_string(blanks.n);
                break;
            case 'K':
                flush();
                append_keys(out, blanks.keys, blanks.known);
                break;
            default:
                flush();
                out.push_back({concat({" ", blanks.value}), blanks.value_weight});
        }
    }
    if (!text.empty()) { out.push_back({std::move(text), kPlainWeight}); }
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
std::vector<Line> haystack(DocumentBuilder & builder, Filler filler, Random & random, int room) {
    std::vector<Line> lines;
    if (filler == Filler::kNone) { return lines; }
    const bool noise = filler == Filler::kNoise;
    const auto sentences = noise ? draw_noise(random) : std::vector<std::string_view>();
    for (size_t i = 0; room > 0; ++i) {
        std::string sentence = noise ? std::string(sentences[i % sentences.size()]) : filler_sentence(random);
        const bool line_start = noise && i % sentences.size() == 0;
        const int needs = builder.cost(concat({line_start ? "\n" : " ", sentence}));
        if (needs > room) { break; }
        room -= needs;
        if (!noise || line_start) {
            lines.push_back({{{std::move(sentence), kPlainWeight}}});
        } else {
            lines.back().segments.push_back({concat({" ", sentence}), kPlainWeight});
        }
    }
    return lines;
}

// A question as a document or a chat holds it. `first`: the user's turn with the context is open.
std::vector<Segment> question_segments(Question question, bool chat, bool first) {
    std::vector<Segment> out;
    if (!chat) {
        out = std::move(question.ask);
        out.insert(out.end(), question.answer.begin(), question.answer.end());
        return out;
    }
    if (!first) {
        open_turn(out, "user");
        auto & begin = question.ask.front().text;
        if (begin.starts_with('\n')) { begin.erase(0, 1); }
        if (begin.empty()) { question.ask.erase(question.ask.begin()); }
    }
    out.insert(out.end(), question.ask.begin(), question.ask.end());
    close_turn(out, kPlainWeight);
    open_turn(out, "assistant");
    question.answer.back().end = false;
    out.insert(out.end(), question.answer.begin(), question.answer.end());
    close_turn(out, kAnswerWeight);
    return out;
}

}  // namespace

bool lay_out(DocumentBuilder & builder, Layout layout, Random & random) {
    if (layout.questions.empty()) { return false; }
    const int n_tokens = builder.room();
    std::vector<Segment> head;
    if (layout.chat && !layout.system.empty()) {
        open_turn(head, "system");
        head.push_back({layout.system, kPlainWeight});
        close_turn(head, kPlainWeight);
    }
    if (layout.chat) { open_turn(head, "user"); }
    head.insert(head.end(), layout.lead.begin(), layout.lead.end());
    if (!layout.preamble.empty()) { head.push_back({layout.preamble, kPlainWeight}); }
    int hidden_cost = builder.cost(head);
    for (const auto & sentence : layout.hidden) { hidden_cost += builder.cost(sentence) + 1; }
    if (hidden_cost + builder.cost(question_segments(Question(layout.questions.front()), layout.chat, true)) > n_tokens) {
        return false;
    }

    const int room = static_cast<int>(layout.share * n_tokens) - hidden_cost;
    std::vector<Line> lines = haystack(builder, layout.filler, random, room);
    // Random places for the hidden sentences that keep their order. In a story the first sentence is haystack: a hidden one
    // would start without a space, and its name would be other pieces than in the question.
    const bool story = layout.filler == Filler::kStory;
    const int first = !story || lines.empty() ? 0 : 1;
    std::vector<int> places;
    for (size_t i = 0; i < layout.hidden.size(); ++i) {
        places.push_back(random.between(first, static_cast<int>(lines.size())));
    }
    std::sort(places.begin(), places.end());
    for (size_t i = layout.hidden.size(); i-- > 0;) {
        lines.insert(lines.begin() + places[i], Line{std::move(layout.hidden[i]), true});
    }
    builder.add(std::move(head));
    for (size_t i = 0; i < lines.size(); ++i) {
        builder.add(separated(std::move(lines[i].segments), i == 0 ? "" : story ? " " : "\n"));
    }
    bool asked = false;
    for (auto & question : layout.questions) {  // one that does not fit is left out; a shorter one may
        asked = builder.add(question_segments(std::move(question), layout.chat, !asked)) || asked;
    }
    return true;
}

}  // namespace pith::corpus
