// vocabulary.h - the reference model's tokeniser: SentencePiece at training time, libllama ever after.
//
// BPE pieces with byte fallback, trained by SentencePiece on the words; then the numbers get a fixed rule: digits are
// taken in pairs from the left (" 4372918" is "▁43" "72" "91" "8"), by giving all pairs one score, since both
// SentencePiece and libllama merge the leftmost of equal scores first; so do a digit and a letter of a … f, for uuids. The
// chat template is ChatML, with its two control tokens. No space prefix is added, so a text may be
// tokenised in parts that start at a space, a line break or punctuation.
// Errors: kUnsupported when Pith was built without SentencePiece (set_vocabulary and write_vocabulary work without it).
// Threads: none shared; training is single-threaded and deterministic, about a second.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

struct gguf_context;

namespace pith::train {

// Values of tokenizer.ggml.token_type.
enum class TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Vocabulary {
    std::vector<std::string> pieces;  // as SentencePiece writes them, "▁" for the space
    std::vector<float> scores;
    std::vector<TokenType> types;
    int32_t unk = 0;
    int32_t bos = 1;
    int32_t eos = 2;
    int32_t turn_start = -1;  // the control tokens of the chat template; -1: none
    int32_t turn_end = -1;
    void find_turns();                // sets them from the pieces
    std::string sentencepiece_model;  // the serialised model with the same pieces: the judge in tests
    int size() const { return static_cast<int>(pieces.size()); }
};

struct VocabularyOptions {
    int size = 2048;  // all pieces: 5 special, 256 bytes, 320 of digits, letters and words. REQUIRES: 768 … 32768
};

bool can_train_vocabulary();  // built with SentencePiece

// Trains on sentences (corpus::vocabulary_sentences()). The result may hold fewer pieces than asked for when the text
// has no more. Errors: kUnsupported, kInvalidArgument (no text, size out of range), kInternal (SentencePiece's message).
Result<Vocabulary> train_vocabulary(std::span<const std::string> sentences, const VocabularyOptions & options = {});

// Token ids by SentencePiece itself. Errors: kUnsupported, kInternal.
Result<std::vector<int32_t>> encode_with_sentencepiece(const Vocabulary & vocabulary, std::string_view text);

// Sets tokenizer.ggml.*: model "llama", tokens, scores, token_type, bos/eos/unknown ids, add_bos_token true,
// add_eos_token false, add_space_prefix false; where it has the tokens of turns also eot id and chat_template.
void set_vocabulary(gguf_context * gguf, const Vocabulary & vocabulary);

// A GGUF with nothing but the tokeniser, which libllama loads with vocab_only. Errors: kIo (names the path).
Status write_vocabulary(const std::string & path, const Vocabulary & vocabulary);

// The vocabulary of a GGUF that export_gguf wrote.
// Errors: kBadFile; kUnsupported for any other tokeniser (Encoder would not give what libllama gives).
Result<Vocabulary> read_vocabulary(const std::string & path);

}  // namespace pith::train
