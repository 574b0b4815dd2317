// sentencepiece.cpp - the only file that sees SentencePiece; without it (PITH_HAVE_SENTENCEPIECE unset) its functions say so.
#include "corpus/corpus.h"
#include "train/data/vocabulary.h"

#ifdef PITH_HAVE_SENTENCEPIECE
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#endif

namespace pith::train {

#ifndef PITH_HAVE_SENTENCEPIECE

namespace {
Status unsupported() {
    return {ErrorCode::kUnsupported,
            "this Pith was built without SentencePiece, which trains vocabularies: install libsentencepiece-dev or run "
            "scripts/setup, then build again"};
}
}  // namespace

bool can_train_vocabulary() {
    return false;
}
Result<Vocabulary> train_vocabulary(std::span<const std::string>, const VocabularyOptions &) {
    return unsupported();
}
Result<std::vector<int32_t>> encode_with_sentencepiece(const Vocabulary &, std::string_view) {
    return unsupported();
}

#else

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // "▁"
constexpr int kNumberPieces = 200;
constexpr int kHexPieces = 120;
constexpr int kCapitalPieces = 26;
constexpr int kControlPieces = 2;
constexpr int kOwnPieces = kNumberPieces + kHexPieces + kCapitalPieces + kControlPieces;
constexpr int kMinSize = 768;
constexpr int kMaxSize = 32768;
// Merges of higher score come first. Pairs of digits share one score, so the leftmost goes first; then the space joins
// the first pair, or a lone digit. No other piece holds a digit, so these never compete with the words' scores.
constexpr float kPairScore = -1.0F;
constexpr float kSpacePairScore = -2.0F;
constexpr float kSpaceDigitScore = -3.0F;
// A capital after a space, for names of random capitals: joined last, after all words.
constexpr float kSpaceCapitalScore = -1e6F;

struct Piece {
    std::string text;
    float score = 0;
    TokenType type = TokenType::kNormal;
};

// The little of protobuf's wire format that sentencepiece_model.proto needs:
//   ModelProto { repeated SentencePiece pieces = 1; ... }   SentencePiece { string piece = 1; float score = 2; Type type = 3; }
class WireReader {
public:
    explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

    struct Field {
        uint64_t number = 0;
        uint64_t varint = 0;       // wire type 0
        std::string_view payload;  // wire types 1, 2 and 5
        std::string_view raw;      // tag included
    };
    bool done() const { return at_ >= bytes_.size(); }
    // Empty on malformed input.
    std::optional<Field> next() {
        const size_t begin = at_;
        const auto tag = varint();
        if (!tag) { return std::nullopt; }
        Field field;
        field.number = *tag >> 3;
        size_t length = 0;
        switch (*tag & 7) {
            case 0: {
                const auto value = varint();
                if (!value) { return std::nullopt; }
                field.varint = *value;
                break;
            }
            case 1:
                length = 8;
                break;
            case 2: {
                const auto value = varint();
                if (!value) { return std::nullopt; }
                length = static_cast<size_t>(*value);
                break;
            }
            case 5:
                length = 4;
                break;
            default:
                return std::nullopt;
        }
        if (length > bytes_.size() - at_) { return std::nullopt; }
        field.payload = bytes_.substr(at_, length);
        at_ += length;
        field.raw = bytes_.substr(begin, at_ - begin);
        return field;
    }

private:
    std::optional<uint64_t> varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
            const auto byte = static_cast<uint8_t>(bytes_[at_++]);
            value |= static_cast<uint64_t>(byte & 0x7F) << shift;
            if ((byte & 0x80) == 0) { return value; }
        }
        return std::nullopt;
    }

    std::string_view bytes_;
    size_t at_ = 0;
};

void append_varint(std::string & out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) { out += static_cast<char>(value | 0x80); }
    out += static_cast<char>(value);
}

std::string encode_piece(const Piece & piece) {
    std::string body = "\x0A";
    append_varint(body, piece.text.size());
    body += piece.text;
    body += '\x15';
    char score[sizeof(float)];
    std::memcpy(score, &piece.score, sizeof(float));  // little-endian, as every platform Pith builds for
    body.append(score, sizeof(float));
    body += '\x18';
    append_varint(body, static_cast<uint64_t>(piece.type));
    std::string out = "\x0A";
    append_varint(out, body.size());
    return out + body;
}

// Takes a model apart: its pieces, and all its other fields as they are.
bool parse_model(std::string_view model, std::vector<Piece> & pieces, std::string & others) {
    WireReader reader(model);
    while (!reader.done()) {
        const auto field = reader.next();
        if (!field) { return false; }
        if (field->number != 1) {
            others += field->raw;
            continue;
        }
        Piece piece;
        WireReader inner(field->payload);
        while (!inner.done()) {
            const auto part = inner.next();
            if (!part) { return false; }
            if (part->number == 1) { piece.text = part->payload; }
            if (part->number == 2 && part->payload.size() == sizeof(float)) {
                std::memcpy(&piece.score, part->payload.data(), sizeof(float));
            }
            if (part->number == 3) { piece.type = static_cast<TokenType>(part->varint); }
        }
        pieces.push_back(std::move(piece));
    }
    return true;
}

bool holds_digit(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<Piece> number_pieces() {
    std::vector<Piece> pieces;
    const auto pair = [](int n) { return std::string{static_cast<char>('0' + n / 10), static_cast<char>('0' + n % 10)}; };
    for (int n = 0; n < 100; ++n) { pieces.push_back({pair(n), kPairScore}); }
    for (int n = 10; n < 100; ++n) { pieces.push_back({std::string(kSpace) + pair(n), kSpacePairScore}); }
    for (int n = 0; n < 10; ++n) { pieces.push_back({std::string(kSpace) + std::to_string(n), kSpaceDigitScore}); }
    return pieces;
}

// A digit beside one of a … f: uuids become about half as many tokens. Two letters are left to the words.
std::vector<Piece> hex_pieces() {
    std::vector<Piece> pieces;
    for (char digit = '0'; digit <= '9'; ++digit) {
        for (char letter = 'a'; letter <= 'f'; ++letter) {
            pieces.push_back({{digit, letter}, kPairScore});
            pieces.push_back({{letter, digit}, kPairScore});
        }
    }
    return pieces;
}

std::vector<Piece> capital_pieces() {
    std::vector<Piece> pieces;
    for (char c = 'A'; c <= 'Z'; ++c) { pieces.push_back({std::string(kSpace) + c, kSpaceCapitalScore}); }
    return pieces;
}

std::vector<Piece> control_pieces() {
    return {{std::string(corpus::kTurnStartText), 0, TokenType::kControl},
            {std::string(corpus::kTurnEndText), 0, TokenType::kControl}};
}

// Lines of all sentences: a line break is a byte token and joins nothing.
class LineIterator : public sentencepiece::SentenceIterator {
public:
    explicit LineIterator(std::span<const std::string> sentences) {
        // Every printable character stays reachable without bytes (the option required_chars ends the process in 0.1.97).
        std::string ascii;
        for (char c = '!'; c <= '~'; ++c) { ascii += {' ', c}; }
        lines_.push_back(ascii);
        for (const auto & sentence : sentences) {
            for (size_t begin = 0; begin < sentence.size();) {
                const size_t end = std::min(sentence.find('\n', begin), sentence.size());
                if (end > begin) { lines_.push_back(sentence.substr(begin, end - begin)); }
                begin = end + 1;
            }
        }
    }
    bool done() const override { return at_ >= lines_.size(); }
    void Next() override { ++at_; }
    const std::string & value() const override { return lines_[at_]; }
    sentencepiece::util::Status status() const override { return {}; }

private:
    std::vector<std::string> lines_;
    size_t at_ = 0;
};

Status from_sentencepiece(std::string_view doing, const sentencepiece::util::Status & status) {
    return {ErrorCode::kInternal, "SentencePiece failed while " + std::string(doing) + ": " + status.ToString()};
}

std::unordered_map<std::string, std::string> trainer_options(int size) {
    return {{"model_type", "bpe"},
            {"vocab_size", std::to_string(size)},
            {"hard_vocab_limit", "false"},
            {"byte_fallback", "true"},
            {"character_coverage", "1.0"},
            {"normalization_rule_name", "identity"},
            {"remove_extra_whitespaces", "false"},
            {"add_dummy_prefix", "false"},
            {"split_digits", "true"},
            {"split_by_number", "true"},
            {"unk_id", "0"},
            {"bos_id", "1"},
            {"eos_id", "2"},
            {"pad_id", "-1"},
            {"num_threads", "1"},
            {"max_sentence_length", "1000000"},
            {"minloglevel", "3"}};
}

}  // namespace

bool can_train_vocabulary() {
    return true;
}

Result<Vocabulary> train_vocabulary(std::span<const std::string> sentences, const VocabularyOptions & options) {
    if (sentences.empty()) {
        return {ErrorCode::kInvalidArgument, "a vocabulary needs text to be trained on, but got no sentences"};
    }
    if (options.size < kMinSize || options.size > kMaxSize) {
        return {ErrorCode::kInvalidArgument, "the vocabulary size " + std::to_string(options.size) + " is outside " +
                                                 std::to_string(kMinSize) + " … " + std::to_string(kMaxSize) +
                                                 ": choose one inside"};
    }
    LineIterator lines(sentences);
    std::string model;
    const auto trained = sentencepiece::SentencePieceTrainer::Train(trainer_options(options.size - kOwnPieces), &lines, &model);
    if (!trained.ok()) { return from_sentencepiece("training the vocabulary", trained); }

    std::vector<Piece> pieces;
    std::string others;
    if (!parse_model(model, pieces, others)) { return {ErrorCode::kInternal, "SentencePiece's model could not be read back"}; }
    std::erase_if(pieces, [](const Piece & piece) {
        return piece.type == TokenType::kNormal && piece.text.size() > 1 && holds_digit(piece.text);
    });
    const auto is_learnt = [&](const Piece & own) {
        return std::any_of(pieces.begin(), pieces.end(), [&](const Piece & p) { return p.text == own.text; });
    };
    for (const auto & make : {number_pieces, hex_pieces, capital_pieces, control_pieces}) {
        for (auto & piece : make()) {
            if (!is_learnt(piece)) { pieces.push_back(std::move(piece)); }  // a capital after a space may have been
        }
    }

    Vocabulary out;
    for (const auto & piece : pieces) {
        out.pieces.push_back(piece.text);
        out.scores.push_back(piece.score);
        out.types.push_back(piece.type);
        out.sentencepiece_model += encode_piece(piece);
    }
    out.find_turns();
    out.sentencepiece_model += others;
    return out;
}

Result<std::vector<int32_t>> encode_with_sentencepiece(const Vocabulary & vocabulary, std::string_view text) {
    sentencepiece::SentencePieceProcessor processor;
    if (const auto status = processor.LoadFromSerializedProto(vocabulary.sentencepiece_model); !status.ok()) {
        return from_sentencepiece("loading the vocabulary", status);
    }
    std::vector<int> ids;
    if (const auto status = processor.Encode(text, &ids); !status.ok()) {
        return from_sentencepiece("encoding a text", status);
    }
    return std::vector<int32_t>(ids.begin(), ids.end());
}

#endif

}  // namespace pith::train
