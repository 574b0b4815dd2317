// prompt_length.cpp - pieces are counted until they are too many.
#include "serve/prompt_length.h"

#include <algorithm>

#include "text/plain_text.h"
#include "text/utf8.h"

namespace pith::serve {
namespace {

constexpr size_t kUsualBytes = 8;  // for a token; of prose and code four
constexpr size_t kPiece = 65'536;  // bytes
constexpr int64_t kOfEnds = 16;    // tokens of a piece that the whole text may not have

// No longer than a piece, and of whole characters.
std::string_view first_piece(std::string_view text) {
    return text.substr(0, whole_characters(text, kPiece));
}

}  // namespace

int64_t tokens_over_context(const Tokenizer & tokenizer, std::span<const std::string_view> texts, int64_t n_context) {
    size_t n_bytes = 0;
    for (const std::string_view text : texts) { n_bytes += text.size(); }
    if (n_bytes <= kUsualBytes * static_cast<size_t>(std::max<int64_t>(n_context, 0)) + kPiece) { return 0; }
    size_t n_read = 0;
    int64_t n_tokens = 0;
    for (std::string_view text : texts) {
        while (!text.empty()) {
            const std::string_view piece = first_piece(text);
            const auto tokens = encode_cut(tokenizer, piece, /*add_special=*/false);
            if (piece.empty() || !tokens.ok()) { return 0; }  // whoever tokenises all of it says what is wrong
            n_tokens += std::max<int64_t>(std::ssize(*tokens) - kOfEnds, 0);
            n_read += piece.size();
            text.remove_prefix(piece.size());
            if (n_tokens > n_context) {
                const double of_all = static_cast<double>(n_bytes) / static_cast<double>(n_read);
                return static_cast<int64_t>(static_cast<double>(n_tokens) * of_all);
            }
        }
    }
    return 0;
}

}  // namespace pith::serve
