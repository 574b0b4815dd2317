// random_vocab.h - a SentencePiece-type vocabulary of any size, for models of random weights. Stage: model.
// <unk>, <s>, </s>, 256 byte tokens, the printable ASCII characters, common English fragments, then invented words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pith {

struct RandomVocab {
    std::vector<std::string> pieces;
    std::vector<float> scores;   // descending: earlier pieces merge first
    std::vector<int32_t> types;  // llama_token_type
};

// The smallest n_vocab that holds the special tokens, the byte tokens and the characters.
int min_random_vocab(bool byte_tokens);

// REQUIRES: n_vocab >= min_random_vocab(byte_tokens).
RandomVocab make_random_vocab(int n_vocab, bool byte_tokens);

}  // namespace pith
