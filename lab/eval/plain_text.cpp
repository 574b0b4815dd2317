// plain_text.cpp - tokenises a generated document piece by piece. Stage: eval.
#include "eval/plain_text.h"

#include "corpus/corpus.h"
#include "engine/probe/built_in_task.h"

namespace pith {
namespace {

constexpr int kSpareTokens = 64;  // asked for beyond the text's length: documents end a little short of their limit

}  // namespace

Result<std::vector<int32_t>> tokens_before_text(const Tokenizer & tokenizer) {
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer.encode("", true, false));
    const bool begins = tokenizer.bos() >= 0 && !tokens.empty() && tokens.front() == tokenizer.bos();
    tokens.resize(begins ? 1 : 0);
    return tokens;
}

Result<std::vector<int32_t>> make_plain_tokens(const Tokenizer & tokenizer, uint64_t seed, int index, int n) {
    const corpus::Document document = corpus::make_plain_text(
        corpus::SeedSpace::kValidation, seed, static_cast<uint64_t>(index), n + kSpareTokens, count_tokens_of(tokenizer));
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokens_before_text(tokenizer));
    for (const corpus::Segment & segment : document.segments) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> piece, tokenizer.encode(segment.text, false, false));
        tokens.insert(tokens.end(), piece.begin(), piece.end());
    }
    if (static_cast<int>(tokens.size()) < n) {
        return Status(ErrorCode::kInternal, "a held-out text has " + std::to_string(tokens.size()) + " tokens where " +
                                                std::to_string(n) + " were asked for");
    }
    tokens.resize(static_cast<size_t>(n));
    return tokens;
}

}  // namespace pith
