// samples.cpp - sequences from the generator, or from the user's own tokens. Stage: train.
#include "train/data/samples.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "train/data/vocabulary.h"

namespace pith::train {
namespace {

class GeneratedSamples final : public Samples {
public:
    GeneratedSamples(Encoder encoder, const GeneratedText & options) : encoder_(std::move(encoder)), options_(options) {}

    int n_tokens() const override { return options_.n_tokens; }
    int64_t n_samples() const override { return options_.n_samples; }
    std::string fingerprint() const override {
        std::string text = "generator seed " + std::to_string(options_.seed) + " samples " + std::to_string(options_.n_samples);
        text += " prompts " + std::to_string(options_.prompt_weight);
        for (const TaskShare & t : options_.tasks) {
            text.append(" ").append(t.id).append(" ").append(std::to_string(t.share));
        }
        return text;
    }
    Batch batch(int64_t first, int n) override { return make(corpus::SeedSpace::kTraining, first, n); }
    Batch held_out(int64_t first, int n) override { return make(corpus::SeedSpace::kValidation, first, n); }

private:
    // Another seed than the reference model's own documents: the gates learn on text that it has not seen.
    Batch make(corpus::SeedSpace space, int64_t first, int n) {
        constexpr uint64_t kSeedShift = 1000;
        return make_batch(encoder_, {space, options_.seed + kSeedShift, options_.tasks, options_.prompt_weight},
                          static_cast<uint64_t>(first), {options_.n_tokens, n});
    }
    Encoder encoder_;
    GeneratedText options_;
};

constexpr int64_t kHeldOutPart = 20, kMostHeldOut = 32;

int64_t n_held_out_of(int64_t n) {
    return std::min(n / kHeldOutPart, kMostHeldOut);
}

uint64_t hash_of(const std::vector<int32_t> & tokens, uint64_t hash = 14695981039346656037ULL) {
    for (const int32_t t : tokens) { hash = (hash ^ static_cast<uint32_t>(t)) * 1099511628211ULL; }
    return hash;
}

// An order of n things for every epoch.
class EpochOrder {
public:
    EpochOrder(int64_t n, uint64_t seed) : order_(static_cast<size_t>(n)), seed_(seed) {}
    int64_t at(int64_t epoch, int64_t i) {
        if (epoch != epoch_) {
            epoch_ = epoch;
            std::iota(order_.begin(), order_.end(), 0);
            corpus::Random random(corpus::SeedSpace::kTraining, seed_, static_cast<uint64_t>(epoch));
            random.shuffle(order_);
        }
        return order_[static_cast<size_t>(i)];
    }

private:
    std::vector<int64_t> order_;
    uint64_t seed_;
    int64_t epoch_ = -1;
};

class TokenSamples final : public Samples {
public:
    TokenSamples(std::vector<int32_t> tokens, int64_t n_samples, int64_t n_held_out, const TokenText & options)
        : tokens_(std::move(tokens)),
          n_samples_(n_samples),
          n_held_out_(n_held_out),
          options_(options),
          order_(n_blocks() - n_held_out, options.seed) {}

    int n_tokens() const override { return options_.n_tokens; }
    int64_t n_samples() const override { return n_samples_; }
    std::string fingerprint() const override {
        return "tokens " + std::to_string(tokens_.size()) + " hash " + std::to_string(hash_of(tokens_)) + " samples " +
               std::to_string(n_samples_) + " seed " + std::to_string(options_.seed);
    }
    Batch batch(int64_t first, int n) override {
        Batch out;
        out.shape = {options_.n_tokens, n};
        for (int64_t i = first; i < first + n; ++i) { append(out, order_.at(i / n_samples_, i % n_samples_)); }
        return out;
    }
    Batch held_out(int64_t first, int n) override {
        Batch out;
        out.shape = {options_.n_tokens, static_cast<int>(std::clamp<int64_t>(n_held_out_ - first, 0, n))};
        for (int i = 0; i < out.shape.n_sequences; ++i) { append(out, n_blocks() - n_held_out_ + first + i); }
        return out;
    }

private:
    int64_t n_blocks() const { return (static_cast<int64_t>(tokens_.size()) - 1) / options_.n_tokens; }
    void append(Batch & out, int64_t block) const {
        const auto begin = tokens_.begin() + block * options_.n_tokens;
        out.tokens.insert(out.tokens.end(), begin, begin + options_.n_tokens);
        out.targets.insert(out.targets.end(), begin + 1, begin + 1 + options_.n_tokens);
        out.weights.resize(out.tokens.size(), 1.0F);
        out.n_gated.push_back(options_.n_tokens);
    }

    std::vector<int32_t> tokens_;
    int64_t n_samples_;
    int64_t n_held_out_;
    TokenText options_;
    EpochOrder order_;
};

class PairSamples final : public Samples {
public:
    PairSamples(std::vector<PromptPair> pairs, const PairText & options)
        : pairs_(std::move(pairs)),
          n_held_out_(n_held_out_of(static_cast<int64_t>(pairs_.size()))),
          order_(n_samples(), options.seed),
          seed_(options.seed) {
        for (const PromptPair & p : pairs_) { n_tokens_ = std::max(n_tokens_, size_of(p)); }
    }
    // Tokens that are read: the last one is only a target.
    static int size_of(const PromptPair & pair) { return static_cast<int>(pair.prompt.size() + pair.completion.size()) - 1; }

    int n_tokens() const override { return n_tokens_; }
    int64_t n_samples() const override { return static_cast<int64_t>(pairs_.size()) - n_held_out_; }
    std::string fingerprint() const override {
        uint64_t hash = 0;
        for (const PromptPair & p : pairs_) { hash = hash_of(p.completion, hash_of(p.prompt, hash + 1)); }
        return "pairs " + std::to_string(pairs_.size()) + " hash " + std::to_string(hash) + " seed " + std::to_string(seed_);
    }
    Batch batch(int64_t first, int n) override {
        Batch out;
        out.shape = {n_tokens_, n};
        for (int64_t i = first; i < first + n; ++i) { append(out, order_.at(i / n_samples(), i % n_samples())); }
        return out;
    }
    Batch held_out(int64_t first, int n) override {
        Batch out;
        out.shape = {n_tokens_, static_cast<int>(std::clamp<int64_t>(n_held_out_ - first, 0, n))};
        for (int i = 0; i < out.shape.n_sequences; ++i) { append(out, n_samples() + first + i); }
        return out;
    }

private:
    void append(Batch & out, int64_t index) const {
        const PromptPair & pair = pairs_[static_cast<size_t>(index)];
        std::vector<int32_t> row = pair.prompt;
        row.insert(row.end(), pair.completion.begin(), pair.completion.end());
        const size_t n = row.size();
        row.resize(static_cast<size_t>(n_tokens_) + 1, row.back());
        out.tokens.insert(out.tokens.end(), row.begin(), row.end() - 1);
        out.targets.insert(out.targets.end(), row.begin() + 1, row.end());
        for (size_t t = 1; t < row.size(); ++t) { out.weights.push_back(t >= pair.prompt.size() && t < n ? 1.0F : 0.0F); }
        out.n_gated.push_back(static_cast<int>(pair.prompt.size()));
    }
    std::vector<PromptPair> pairs_;
    int64_t n_held_out_;
    EpochOrder order_;
    uint64_t seed_;
    int n_tokens_ = 0;
};

}  // namespace

Result<std::unique_ptr<Samples>> make_generated_samples(const std::string & model_path, const GeneratedText & options) {
    PITH_ASSIGN_OR_RETURN(const Vocabulary vocabulary, read_vocabulary(model_path));
    PITH_ASSIGN_OR_RETURN(Encoder encoder, Encoder::make(vocabulary));
    constexpr int kShortest = 48;  // corpus::make_document
    if (options.n_tokens < kShortest) {
        return {ErrorCode::kInvalidArgument, "sequences of " + std::to_string(options.n_tokens) +
                                                 " tokens are too short for the built-in text: give " +
                                                 std::to_string(kShortest) + " or more"};
    }
    PITH_RETURN_IF_ERROR(check_at_least("samples", options.n_samples, 1));
    return std::unique_ptr<Samples>(std::make_unique<GeneratedSamples>(std::move(encoder), options));
}

Result<std::unique_ptr<Samples>> make_token_samples(const std::vector<std::vector<int32_t>> & texts,
                                                    const TokenText & options) {
    if (options.n_tokens < 2 || options.max_samples < 0) {
        return {ErrorCode::kInvalidArgument, "sequences of " + std::to_string(options.n_tokens) + " tokens, " +
                                                 std::to_string(options.max_samples) +
                                                 " of them: give 2 tokens or more, and 0 "
                                                 "samples (all) or more"};
    }
    std::vector<int32_t> tokens;
    for (const auto & text : texts) { tokens.insert(tokens.end(), text.begin(), text.end()); }
    const int64_t n_blocks = tokens.empty() ? 0 : (static_cast<int64_t>(tokens.size()) - 1) / options.n_tokens;
    if (n_blocks < 1) {
        return {ErrorCode::kInvalidArgument,
                tokens.empty() ? "the training text is empty"
                               : "the training text has " + std::to_string(tokens.size()) + " tokens: one sequence needs " +
                                     std::to_string(options.n_tokens + 1) + "; give more text or shorter sequences"};
    }
    const int64_t n_held_out = n_held_out_of(n_blocks);
    int64_t n_samples = n_blocks - n_held_out;
    if (options.max_samples > 0) { n_samples = std::min(n_samples, options.max_samples); }
    return std::unique_ptr<Samples>(std::make_unique<TokenSamples>(std::move(tokens), n_samples, n_held_out, options));
}

Result<std::unique_ptr<Samples>> make_pair_samples(const std::vector<PromptPair> & pairs, const PairText & options,
                                                   size_t * n_left_out) {
    std::vector<PromptPair> fitting;
    int shortest = 0;
    for (const PromptPair & pair : pairs) {
        if (pair.prompt.empty() || pair.completion.empty()) { continue; }
        const int size = PairSamples::size_of(pair);
        shortest = shortest == 0 ? size : std::min(shortest, size);
        if (size <= options.max_tokens) { fitting.push_back(pair); }
    }
    if (n_left_out != nullptr) { *n_left_out = pairs.size() - fitting.size(); }
    if (fitting.empty()) {
        return {ErrorCode::kInvalidArgument, shortest == 0
                                                 ? "there are no prompts with completions to train on"
                                                 : "none of " + std::to_string(pairs.size()) +
                                                       " prompts with completions fits " + std::to_string(options.max_tokens) +
                                                       " tokens: the shortest has " + std::to_string(shortest)};
    }
    return std::unique_ptr<Samples>(std::make_unique<PairSamples>(std::move(fitting), options));
}

}  // namespace pith::train
