// ngram_draft.cpp - chains of places by hash, and rates by length of match.
#include "engine/draft/ngram_draft.h"

#include <algorithm>
#include <bit>

namespace pith {

// Before anything is known, as many tries as a few tokens soon outweigh. Matches shorter than 4, 5, 7, 9, 13, 17, 25 tokens,
// and longer ones.
const std::array<NgramDraft::HitRate, 8> NgramDraft::kPriors = {{
    {1.2, 4},
    {1.6, 4},
    {2.0, 4},
    {2.4, 4},
    {2.8, 4},
    {3.2, 4},
    {3.4, 4},
    {3.6, 4},
}};

size_t NgramDraft::rate_of(int length) {
    constexpr std::array<int, 7> kEnds = {4, 5, 7, 9, 13, 17, 25};
    return static_cast<size_t>(std::ranges::upper_bound(kEnds, length) - kEnds.begin());
}

// What came long ago counts for less and less.
void NgramDraft::HitRate::count(bool hit) {
    constexpr double kMostTries = 64;
    hits += hit ? 1 : 0;
    tries += 1;
    if (tries < kMostTries) { return; }
    hits /= 2;
    tries /= 2;
}

void NgramDraft::restart() {
    tokens_.clear();
    previous_.clear();
    newest_.clear();
    found_ = {};
    looks_ = false;
}

void NgramDraft::read(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) { push(token); }
    looks_ = false;
}

void NgramDraft::follow(int32_t token) {
    if (!looks_) { found_ = find(); }
    if (found_.next > 0) { rates_[rate_of(found_.length)].count(tokens_[found_.next] == token); }
    push(token);
    found_ = find();
    looks_ = true;
}

void NgramDraft::push(int32_t token) {
    const size_t n = tokens_.size() + 1;
    previous_.resize(n, -1);  // where memory ends, it may be longer than tokens_, never shorter
    constexpr size_t kFewest = 1024;
    if (newest_.size() < n) {  // twice as many hashes: all places once more
        std::vector<int32_t> none(std::bit_ceil(std::max(kFewest, n + 1)), -1);
        newest_.swap(none);
        for (size_t i = 0; i < tokens_.size(); ++i) { index(i); }
    }
    tokens_.push_back(token);
    index(n - 1);
}

void NgramDraft::index(size_t last) {
    if (last + 1 < kNgram) { return; }
    int32_t & newest = newest_[slot_of(last)];
    previous_[last] = newest;
    newest = static_cast<int32_t>(last);
}

size_t NgramDraft::slot_of(size_t last) const {
    uint64_t hash = 0;
    for (size_t i = last + 1 - kNgram; i <= last; ++i) {
        hash = (hash ^ static_cast<uint32_t>(tokens_[i])) * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 29U;
    }
    return static_cast<size_t>(hash) & (newest_.size() - 1);
}

// Of equals the newest.
NgramDraft::Found NgramDraft::find() const {
    Found best;
    if (tokens_.size() <= kNgram) { return best; }
    const size_t last = tokens_.size() - 1;
    int32_t place = previous_[last];
    for (int n = 0; n < kCandidates && place >= 0 && best.length < kLongestMatch; ++n) {
        const auto end = static_cast<size_t>(place);
        int length = 0;
        while (length < kLongestMatch && static_cast<size_t>(length) <= end &&
               tokens_[end - static_cast<size_t>(length)] == tokens_[last - static_cast<size_t>(length)]) {
            ++length;
        }
        if (length >= kNgram && length > best.length) { best = {end + 1, length}; }
        place = previous_[end];
    }
    return best;
}

// With q_i the chance that the first i tokens come true, a pass of n + k rows gives n + q_1 + … + q_k tokens for what it costs.
std::span<const int32_t> NgramDraft::propose(int most, int n_others, const PassCost & cost) {
    draft_.clear();
    if (!looks_) { found_ = find(); }
    looks_ = true;
    if (found_.next == 0) { return {}; }
    double n_tokens = n_others + 1;
    double chance = 1;
    double best = n_tokens / cost.of_rows(n_others + 1);
    int n_best = 0;
    for (int k = 1; k <= most; ++k) {
        chance *= rates_[rate_of(found_.length + k - 1)].value();
        n_tokens += chance;
        const double rate = n_tokens / cost.of_rows(n_others + 1 + k);
        const bool is_power_of_two = (k & (k - 1)) == 0;  // the graphs of passes are kept, one for each number of rows
        if (rate <= best || !is_power_of_two) { continue; }
        best = rate;
        n_best = k;
    }
    for (size_t i = found_.next; std::ssize(draft_) < n_best; ++i) {  // behind the text's end the draft itself goes on
        draft_.push_back(i < tokens_.size() ? tokens_[i] : draft_[i - tokens_.size()]);
    }
    return draft_;
}

size_t NgramDraft::size_bytes() const {
    return (tokens_.capacity() + previous_.capacity() + newest_.capacity() + draft_.capacity()) * sizeof(int32_t);
}

}  // namespace pith
