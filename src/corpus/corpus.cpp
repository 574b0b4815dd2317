// corpus.cpp - which recipe writes which document of which length; and the words for the vocabulary.
#include "corpus/corpus.h"

#include <algorithm>
#include <array>

#include "corpus/concat.h"
#include "corpus/document_builder.h"
#include "corpus/wording.h"
#include "corpus/words.h"
#include "corpus/worlds.h"

namespace pith::corpus {
namespace {

using Recipe = Document (*)(Random &, int, const CountTokens &);

// Shares of the recipes by document length. Recall forms first on short, dense documents (pairs, copies); longer ones
// keep a little of it and turn to the tasks themselves.
struct Mixture {
    int up_to;  // tokens
    double pairs, copy, needles, world, vt, cwe, text, task;
};
constexpr std::array<Mixture, 5> kMixtures = {{
    {64, 0.60, 0.25, 0.15, 0.00, 0.00, 0.00, 0.00, 0.00},
    {128, 0.30, 0.12, 0.40, 0.15, 0.00, 0.00, 0.03, 0.00},
    {256, 0.12, 0.08, 0.45, 0.22, 0.04, 0.04, 0.05, 0.00},
    {512, 0.07, 0.06, 0.45, 0.20, 0.06, 0.04, 0.05, 0.07},
    {1 << 30, 0.04, 0.05, 0.45, 0.15, 0.05, 0.03, 0.04, 0.19},
}};

// A task sample as the benchmarks ask it, with its answer: one question at the very end.
Document whole_task_document(Random & random, int n_tokens, const CountTokens & count) {
    constexpr std::array<std::string_view, 6> kIds = {"single", "single", "multikey", "multikey", "multivalue", "facts"};
    TaskOptions options;
    options.n_tokens = n_tokens;
    options.haystack = random.chance(0.65) ? Haystack::kNoise : Haystack::kWorld;
    options.space = SeedSpace::kTraining;
    options.seed = random.next();
    options.index = random.next();
    auto task = make_task(random.pick(kIds), options, count);
    if (!task.ok()) { return needle_document(random, n_tokens, count); }
    Document document;
    document.kind = "task";
    document.segments = {{task->context, kPlainWeight},
                         {task->question, kPlainWeight},
                         {task->answer_prefix, kPlainWeight},
                         {task->completion, kAnswerWeight, true}};
    return document;
}

// Documents of another length are other documents, not the same ones cut elsewhere: 12 bits of the stream's 40.
uint64_t stream(uint64_t index, int n_tokens) {
    return index << 12 | (static_cast<uint64_t>(n_tokens) & 0xFFFU);
}

Recipe pick_recipe(Random & random, int n_tokens) {
    const Mixture & mixture =
        *std::find_if(kMixtures.begin(), kMixtures.end(), [&](const auto & m) { return n_tokens <= m.up_to; });
    const std::array<std::pair<double, Recipe>, 8> shares = {{{mixture.pairs, pairs_document},
                                                              {mixture.copy, copy_document},
                                                              {mixture.needles, needle_document},
                                                              {mixture.world, world_document},
                                                              {mixture.vt, tracking_document},
                                                              {mixture.cwe, common_document},
                                                              {mixture.text, text_document},
                                                              {mixture.task, whole_task_document}}};
    double roll = random.uniform();
    for (const auto & [share, recipe] : shares) {
        if (roll < share) { return recipe; }
        roll -= share;
    }
    return needle_document;
}

}  // namespace

std::string Document::text() const {
    std::string out;
    for (const auto & segment : segments) { out += segment.text; }
    return out;
}

Document make_document(SeedSpace space, uint64_t seed, uint64_t index, int n_tokens, const CountTokens & count) {
    n_tokens = std::max(n_tokens, 48);
    Random random(space, seed, stream(index, n_tokens));
    Document document = pick_recipe(random, n_tokens)(random, n_tokens, count);
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
    // Every word in each form it takes, often enough to become a piece of its own.
    constexpr int kRepeats = 400;
    Random random(SeedSpace::kVocabulary, 1, 0);
    for (int round = 0; round < kRepeats; ++round) {
        std::string line;
        for (const words::List list :
             {words::kAdjectives, words::kThings, words::kNames, words::kTowns, words::kRooms, words::kColours, words::kJobs,
              words::kAnimals, words::kActors, words::kVerbs, words::kPlaces, words::kTimes}) {
            for (const auto word : list) { line += concat({" ", word}); }
        }
        for (const auto noun : words::kKeyNouns) { line += concat({" ", random.pick(words::kAdjectives), "-", noun}); }
        for (const auto & fact : make_world(random, 40)) {
            for (const auto & text : fact.statements) { line += concat({" ", text}); }
            for (const auto & text : fact.questions) { line += concat({" ", text}); }
        }
        out.push_back(std::move(line));
    }
    return out;
}

}  // namespace pith::corpus
