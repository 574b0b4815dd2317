// tracking_documents.cpp - chains of variables in noise, and which of them hold a value. See document_builder.h.
#include <algorithm>
#include <set>

#include "corpus/document_builder.h"
#include "corpus/training_wording.h"
#include "tasks/concat.h"
#include "tasks/identifiers.h"
#include "tasks/wording.h"

namespace pith::corpus {
namespace {

struct Chain {
    std::vector<std::string> names;
    std::string value;
};

std::vector<Chain> draw_chains(Random & random, int n, int length, int n_letters) {
    std::set<std::string> drawn;
    const auto fresh = [&](const auto & make) {
        while (true) {
            std::string item = make();
            if (drawn.insert(item).second) { return item; }
        }
    };
    std::vector<Chain> chains;
    for (int c = 0; c < n; ++c) {
        Chain chain;
        for (int i = 0; i < length; ++i) {
            chain.names.push_back(fresh([&] { return draw_letters(random, 'A', n_letters); }));
        }
        chain.value = fresh([&] { return std::to_string(random.between(10000, 99998)); });
        chains.push_back(std::move(chain));
    }
    return chains;
}

// The assignments of all chains, each chain's in its order.
std::vector<std::vector<Segment>> assignments(std::span<const Chain> chains, Random & random) {
    const bool spaced = random.chance(0.5);  // RULER leaves a space after every assignment but the first
    std::vector<size_t> turns;
    for (size_t c = 0; c < chains.size(); ++c) { turns.insert(turns.end(), chains[c].names.size(), c); }
    random.shuffle(turns);
    std::vector<size_t> next(chains.size(), 0);
    std::vector<std::vector<Segment>> lines;
    for (const size_t c : turns) {
        const size_t i = next[c]++;
        std::vector<Segment> line = {
            {"VAR", kPlainWeight}, {concat({" ", chains[c].names[i]}), kRandomWeight}, {" =", kPlainWeight}};
        if (i == 0) {
            line.push_back({concat({" ", chains[c].value}), kRandomWeight});
        } else {
            line.push_back({" VAR", kPlainWeight});
            // One of the newest names of the chains: a little of it can be foreseen.
            line.push_back({concat({" ", chains[c].names[i - 1]}), chains.size() == 1 ? 0.5F : kPlainWeight});
            if (spaced) { line.push_back({" ", kPlainWeight}); }
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

Question track(const Chain & chain, Random & random) {
    const Blanks blanks{.value = chain.value, .n = static_cast<int>(chain.names.size())};
    Question question;
    append_form(question.ask, random.pick(training::kTrackingQuestions), blanks);
    append_form(question.answer, random.pick(training::kTrackingPrefixes), blanks);
    // RULER's prefix ends with a space, and its worked example goes on with another.
    if (random.chance(0.5)) { question.answer.push_back({" ", kPlainWeight}); }
    question.answer.push_back({names_of(chain.names), kAnswerWeight, true});
    return question;
}

}  // namespace

// Some chains, each asked for; the longer documents may begin with a worked example, as RULER's do: several such texts.
Document tracking_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("vt", n_tokens, count);
    const bool large = n_tokens >= 512;
    Layout layout;
    layout.chat = n_tokens > 64 && random.chance(0.4);
    // A long document has a short text of names of three letters first, every other time, as RULER's do.
    if (large && random.chance(0.5)) {
        DocumentBuilder room("vt", n_tokens * random.between(15, 40) / 100, count);
        Layout example;
        example.preamble = random.pick(training::kTrackingPreambles);
        const auto chains = draw_chains(random, 1, random.between(3, 5), 3);
        example.hidden = assignments(chains, random);
        example.questions = {track(chains[0], random)};
        example.share = 1.0;
        if (lay_out(room, std::move(example), random)) { layout.lead = as_example(room.take()); }
    }
    const int length = large ? (random.chance(0.6) ? 5 : random.between(2, 6)) : random.between(2, n_tokens >= 256 ? 5 : 3);
    const int n_chains = large ? random.between(1, 4) : random.between(1, std::max(1, n_tokens / 96));
    const auto chains = draw_chains(random, n_chains, length, large ? 5 : 3);
    if (n_tokens > 128) { layout.preamble = random.pick(training::kTrackingPreambles); }
    layout.hidden = assignments(chains, random);
    for (int round = 0; round < (large ? 1 : 3); ++round) {
        for (const int c : random.draw(n_chains, n_chains)) {
            layout.questions.push_back(track(chains[static_cast<size_t>(c)], random));
        }
    }
    int asked = 0;
    for (const auto & question : layout.questions) {
        asked += builder.cost(question.ask) + builder.cost(question.answer) + (layout.chat ? 9 : 0);
    }
    layout.share = large ? std::max(0.3, 1.0 - static_cast<double>(asked) / n_tokens) : 0.4;
    if (!lay_out(builder, std::move(layout), random)) { return pairs_document(random, n_tokens, count); }
    return builder.take();
}

}  // namespace pith::corpus
