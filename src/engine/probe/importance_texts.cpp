// importance_texts.cpp - texts cut into prompts of one length.
#include "engine/probe/importance_texts.h"

#include <algorithm>
#include <utility>

#include "core/items.h"
#include "engine/probe/built_in_task.h"

namespace pith {

Result<std::vector<std::vector<int32_t>>> pieces_of_texts(const Tokenizer & tokenizer, const std::vector<std::string> & texts,
                                                          const ImportanceTextOptions & options) {
    PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> begin, tokenizer.encode("", true, false));
    const auto n_room = static_cast<size_t>(std::max(options.n_tokens - static_cast<int>(begin.size()), 1));
    std::vector<std::vector<int32_t>> all;
    for (const std::string & text : texts) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer.encode(text, false, false));
        for (size_t at = 0; at < tokens.size(); at += n_room) {
            std::vector<int32_t> piece = begin;
            const size_t end = std::min(at + n_room, tokens.size());
            piece.insert(piece.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
                         tokens.begin() + static_cast<std::ptrdiff_t>(end));
            if (std::ssize(piece) >= kShortestImportanceText) { all.push_back(std::move(piece)); }
        }
    }
    if (all.size() < 2) {
        return {ErrorCode::kInvalidArgument, "the text has too few tokens to learn from and to judge by: give one of " +
                                                 std::to_string(2 * options.n_tokens) + " or more, or lower " +
                                                 item::kTextTokens + " (" + std::to_string(options.n_tokens) +
                                                 "; a piece has at least " + std::to_string(kShortestImportanceText) + ")"};
    }
    const auto n = std::min(all.size(), static_cast<size_t>(options.n_texts));
    std::vector<std::vector<int32_t>> chosen;
    for (size_t i = 0; i < n; ++i) { chosen.push_back(std::move(all[i * all.size() / n])); }
    return chosen;
}

Result<std::vector<std::vector<int32_t>>> generated_texts(const Tokenizer & tokenizer, const ImportanceTextOptions & options) {
    std::vector<std::vector<int32_t>> all;
    for (int i = 0; i < options.n_texts; ++i) {
        corpus::TaskOptions task;
        task.n_tokens = options.n_tokens;
        task.haystack = i % 2 == 0 ? corpus::Haystack::kWorld : corpus::Haystack::kNoise;
        task.seed = options.seed;
        task.index = static_cast<uint64_t>(i);
        PITH_ASSIGN_OR_RETURN(const BuiltInTask made, make_built_in_task("multikey", task, count_tokens_of(tokenizer)));
        if (!made.too_short.empty()) {
            return {ErrorCode::kInvalidArgument, "importance: " + made.too_short + ", but " + item::kTextTokens + " is " +
                                                     std::to_string(options.n_tokens) + ": raise it"};
        }
        PITH_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                              tokenizer.encode(made.task.prompt() + made.task.completion, true, false));
        all.push_back(std::move(tokens));
    }
    return all;
}

}  // namespace pith
