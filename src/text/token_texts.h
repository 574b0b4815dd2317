// token_texts.h - the texts of all tokens, in order, for whoever asks a question about every one of them. Stage: text.
//
// In the order of their bytes neighbours begin alike, so what was found out about a beginning counts for all that have it.
// Threads: const-safe. Cost to make: O(n_vocab log n_vocab), once a tokeniser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pith/text.h"

namespace pith {

class TokenTexts {
public:
    explicit TokenTexts(const Tokenizer & tokenizer);

    int32_t size() const { return static_cast<int32_t>(is_end_.size()); }
    // Marks as they are written, <|im_end|>; empty: it says nothing, or begins with a zero.
    std::string_view text(int32_t token) const {
        const auto at = static_cast<size_t>(token);
        return std::string_view(bytes_).substr(begins_[at], begins_[at + 1] - begins_[at]);
    }
    bool is_end(int32_t token) const { return is_end_[static_cast<size_t>(token)]; }
    size_t longest() const { return longest_; }  // bytes

    struct Place {
        int32_t token = 0;
        uint32_t n_shared = 0;  // bytes with which the one before it begins, too
    };
    // All but those that end an answer or say nothing.
    const std::vector<Place> & in_order() const { return in_order_; }

private:
    std::string bytes_;
    std::vector<size_t> begins_;
    std::vector<bool> is_end_;
    std::vector<Place> in_order_;
    size_t longest_ = 0;
};

}  // namespace pith
