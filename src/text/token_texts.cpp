// token_texts.cpp - the vocabulary, sorted by bytes. Stage: text.
#include "text/token_texts.h"

#include <algorithm>

namespace pith {

TokenTexts::TokenTexts(const Tokenizer & tokenizer) {
    const int32_t n = tokenizer.n_vocab();
    begins_.push_back(0);
    for (int32_t token = 0; token < n; ++token) {
        const std::string piece = tokenizer.piece(token, /*special=*/true);
        const bool says_something = !piece.empty() && piece.front() != '\0';
        if (says_something) { bytes_ += piece; }
        begins_.push_back(bytes_.size());
        is_end_.push_back(tokenizer.is_end_of_generation(token));
        longest_ = std::max(longest_, piece.size());
        if (says_something && !is_end_.back()) { in_order_.push_back({token, 0}); }
    }
    std::ranges::stable_sort(in_order_, {}, [this](const Place & place) { return text(place.token); });
    for (size_t i = 1; i < in_order_.size(); ++i) {
        const std::string_view before = text(in_order_[i - 1].token);
        const std::string_view here = text(in_order_[i].token);
        const auto parted = std::ranges::mismatch(before, here);
        in_order_[i].n_shared = static_cast<uint32_t>(parted.in1 - before.begin());
    }
}

}  // namespace pith
