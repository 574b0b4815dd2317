// corpus.cpp - which recipe writes which document of which length; and the words for the vocabulary.
#include "corpus/corpus.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "corpus/document_builder.h"
#include "tasks/concat.h"
#include "tasks/word_lists.h"
#include "tasks/wording.h"
#include "tasks/words.h"
#include "tasks/worlds.h"

namespace pith::corpus {
namespace {

using Recipe = Document (*)(Random &, int, const CountTokens &);

struct Named {
    std::string_view name;
    Recipe recipe;
};
constexpr std::array<Named, 8> kKinds = {{{"pairs", pairs_document},
                                          {"copy", copy_document},
                                          {"needles", needle_document},
                                          {"world", world_document},
                                          {"vt", tracking_document},
                                          {"counts", counts_document},
                                          {"talk", talk_document},
                                          {"text", text_document}}};

// Shares of the recipes by document length, in the order of kKinds. Recall forms first on short, dense documents (pairs,
// copies); longer ones keep a little of it and turn to the tasks themselves.
struct Shares {
    int up_to;  // tokens
    std::array<double, kKinds.size()> of;
};
constexpr std::array<Shares, 5> kShares = {{
    {64, {0.55, 0.30, 0.15, 0.00, 0.00, 0.00, 0.00, 0.00}},
    {128, {0.24, 0.14, 0.26, 0.13, 0.06, 0.10, 0.05, 0.02}},
    {256, {0.09, 0.11, 0.34, 0.12, 0.08, 0.14, 0.10, 0.02}},
    {512, {0.05, 0.09, 0.39, 0.11, 0.09, 0.14, 0.11, 0.02}},
    {1 << 30, {0.03, 0.09, 0.41, 0.10, 0.09, 0.14, 0.12, 0.02}},
}};

// Documents of another length are other documents, not the same ones cut elsewhere: 12 bits of the stream's 40.
uint64_t stream(uint64_t index, int n_tokens) {
    return index << 12 | (static_cast<uint64_t>(n_tokens) & 0xFFFU);
}

Recipe pick_recipe(Random & random, int n_tokens, const Mixture & mixture) {
    std::array<double, kKinds.size()> shares =
        std::find_if(kShares.begin(), kShares.end(), [&](const auto & s) { return n_tokens <= s.up_to; })->of;
    if (!mixture.empty()) {
        for (size_t i = 0; i < kKinds.size(); ++i) {
            const auto found = mixture.find(kKinds[i].name);
            shares[i] = found == mixture.end() ? 0.0 : found->second;
        }
    }
    double roll = random.uniform() * std::accumulate(shares.begin(), shares.end(), 0.0);
    for (size_t i = 0; i < kKinds.size(); ++i) {
        if (roll < shares[i]) { return kKinds[i].recipe; }
        roll -= shares[i];
    }
    return needle_document;
}

// Words in every form they take in the generator's text: after a space, after a hyphen, at the start of a line.
void append_words(std::vector<std::string> & out, Random & random) {
    // Words of the small worlds are answers and come often: each shall be one piece.
    constexpr int kRepeats = 400;
    for (int round = 0; round < kRepeats; ++round) {
        std::string line;
        for (const words::List list :
             {words::kAdjectives, words::kThings, words::kNames, words::kTowns, words::kRooms, words::kColours, words::kJobs,
              words::kAnimals, words::kActors, words::kVerbs, words::kPlaces, words::kTimes}) {
            for (const auto word : list) { line += concat({" ", word}); }
        }
        for (const auto noun : words::kKeyNouns) { line += concat({" ", random.pick(words::kAdjectives), "-", noun}); }
        for (const auto name : words::kNames) { line += concat({"\n", name}); }
        line += "\nuser\nassistant\nsystem\n";
        for (const auto & fact : make_world(random, 40)) {
            for (const auto & text : fact.statements) { line += concat({" ", text}); }
            for (const auto & text : fact.questions) { line += concat({" ", text}); }
        }
        out.push_back(std::move(line));
    }
    // The many words of keys and lists share pieces.
    constexpr int kRareRepeats = 40;
    for (int round = 0; round < kRareRepeats; ++round) {
        std::string line;
        for (const auto word : common_words()) { line += concat({" ", word}); }
        for (const auto noun : nouns()) { line += concat({" ", random.pick(adjectives()), "-", noun}); }
        out.push_back(std::move(line));
    }
}

// The sentences of the tasks: training never says them, but the vocabulary holds their words.
void append_task_wording(std::vector<std::string> & out) {
    constexpr int kRepeats = 100;
    std::string line;
    for (const bool plural : {false, true}) {
        line += concat({needle_preamble(plural), needle_question("key", plural), needle_prefix("key", plural), "\n"});
    }
    line += concat({needle_sentence("key", "1"), " ", kTrackingPreamble, tracking_question("1"), tracking_prefix(5, "1"), "\n",
                    kCommonPreamble, common_question(10), common_prefix(10), "\n", kFactsPreamble});
    for (int i = 0; i < kNoiseSentences; ++i) { line += concat({" ", noise_sentence(i)}); }
    line +=
        "\nRead the following coded text and track the frequency of each coded word. Find the three most frequently appeared "
        "coded words. Do not provide any explanation. Please ignore the dots. According to the coded text above\nVAR";
    for (int i = 0; i < kRepeats; ++i) { out.push_back(line); }
}

}  // namespace

std::string Document::text() const {
    std::string out;
    for (const auto & segment : segments) { out += segment.text; }
    return out;
}

std::vector<std::string_view> document_kinds() {
    std::vector<std::string_view> out;
    for (const auto & kind : kKinds) { out.push_back(kind.name); }
    return out;
}

Document make_document(SeedSpace space, uint64_t seed, uint64_t index, int n_tokens, const CountTokens & count,
                       const Mixture & mixture) {
    n_tokens = std::max(n_tokens, 48);
    Random random(space, seed, stream(index, n_tokens));
    Document document = pick_recipe(random, n_tokens, mixture)(random, n_tokens, count);
    if (document.segments.empty()) { document = pairs_document(random, n_tokens, count); }
    return document;
}

Document make_plain_text(SeedSpace space, uint64_t seed, uint64_t index, int n_tokens, const CountTokens & count) {
    n_tokens = std::max(n_tokens, 48);
    Random random(space, seed, stream(index, n_tokens));
    return text_document(random, n_tokens, count);
}

std::vector<std::string> vocabulary_sentences() {
    std::vector<std::string> out;
    // Running text, as often as it occurs: a rough count of tokens is enough to size it.
    const CountTokens rough = [](std::string_view text) { return static_cast<int>(text.size() / 4 + 1); };
    for (uint64_t i = 0; i < 300; ++i) { out.push_back(make_document(SeedSpace::kVocabulary, 0, i, 512, rough).text()); }
    Random random(SeedSpace::kVocabulary, 1, 0);
    append_words(out, random);
    append_task_wording(out);
    return out;
}

}  // namespace pith::corpus
