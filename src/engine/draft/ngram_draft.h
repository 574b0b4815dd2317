// ngram_draft.h - drafts without a model (prompt lookup): what followed the last few tokens where they stood before. Stage:
// engine. Pure C++: no ggml, no I/O.
//
// The longest of the newest kCandidates places whose last kNgram tokens are those of the text's end proposes its continuation.
// How often such a proposal comes true is counted by how long the match is, at every token of the answer, whether or not a
// draft of it ran: to look costs nothing, so that one that has switched itself off sees when it would win again.
// Everything depends on the tokens alone, so that a run does not differ from the next.
// Source:  Saxena, Prompt Lookup Decoding; Leviathan et al., Fast Inference from Transformers via Speculative Decoding.
// Memory:  12 bytes a token.   Cost: O(kCandidates) a token.   Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pith {

// Rows of a pass against a pass of one row: what it takes longer.
struct PassCost {
    double per_row = 0.0;  // each row behind the first
    double of_rows(int n) const { return 1.0 + per_row * (n - 1); }
};

class NgramDraft {
public:
    static constexpr int kNgram = 3;
    static constexpr int kCandidates = 16;
    static constexpr int kLongestMatch = 32;  // longer ones are equal

    // A text, of which nothing is foretold.
    void restart();
    void read(std::span<const int32_t> tokens);
    // The next token of an answer: whether it was foretold is counted.
    void follow(int32_t token);
    std::span<const int32_t> tokens() const { return tokens_; }

    // What may come next, so many tokens (a power of two, no more than `most`) that a pass with them gains most: none, where it
    // would lose. Valid until the next call. n_others: rows of others in the same pass, a token each.
    std::span<const int32_t> propose(int most, int n_others, const PassCost & cost);

    size_t size_bytes() const;

private:
    struct Found {
        size_t next = 0;  // where the match goes on; 0: there is none
        int length = 0;
    };
    // How often what a match of some length foretold came true.
    struct HitRate {
        double hits;
        double tries;
        double value() const { return hits / tries; }
        void count(bool hit);
    };
    static size_t rate_of(int length);
    void push(int32_t token);
    void index(size_t last);  // the n-gram that ends there
    size_t slot_of(size_t last) const;
    Found find() const;

    std::vector<int32_t> tokens_;
    std::vector<int32_t> previous_;  // [token] the place before with an n-gram of the same hash; -1: none
    std::vector<int32_t> newest_;    // [hash]
    std::vector<int32_t> draft_;
    Found found_;  // for the next token
    bool looks_ = false;
    std::array<HitRate, 8> rates_ = kPriors;

    static const std::array<HitRate, 8> kPriors;
};

}  // namespace pith
