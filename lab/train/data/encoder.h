// encoder.h - text to tokens at training speed: the vocabulary's own merges, words remembered. Stage: train.
// Gives what SentencePiece and libllama give for this vocabulary: merges never cross a space, the best score goes first,
// the leftmost of equal scores; a character without a piece becomes its bytes.
// Pure C++: no I/O.   Threads: one at a time (words are remembered).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pith/status.h"
#include "train/data/vocabulary.h"

namespace pith::train {

class Encoder {
public:
    // Errors: kInvalidArgument when the vocabulary lacks a byte token (names it).
    static Result<Encoder> make(const Vocabulary & vocabulary);

    void append(std::string_view text, std::vector<int32_t> & out);
    int count(std::string_view text);
    std::string decode(const std::vector<int32_t> & tokens) const;
    int32_t bos() const { return bos_; }
    int32_t eos() const { return eos_; }
    // The control tokens of the chat template; -1 where the vocabulary has none.
    int32_t turn_start() const { return turn_start_; }
    int32_t turn_end() const { return turn_end_; }

private:
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
    };
    template <class T>
    using TextMap = std::unordered_map<std::string, T, Hash, std::equal_to<>>;

    const std::vector<int32_t> & word(std::string_view text);
    std::vector<int32_t> merge(std::string_view text) const;

    TextMap<int32_t> ids_;
    std::vector<std::string> pieces_;
    std::vector<float> scores_;
    int32_t bytes_[256] = {};
    int32_t bos_ = 1;
    int32_t eos_ = 2;
    int32_t turn_start_ = -1;
    int32_t turn_end_ = -1;
    TextMap<std::vector<int32_t>> words_;
};

}  // namespace pith::train
