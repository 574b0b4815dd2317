// encoder.cpp - text to tokens at training speed. Stage: train.
#include "train/data/encoder.h"

#include <algorithm>
#include <cstdio>

namespace pith::train {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // "▁"
constexpr size_t kMaxWords = 200000;

size_t utf8_size(char lead) {
    const auto c = static_cast<unsigned char>(lead);
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

}  // namespace

Result<Encoder> Encoder::make(const Vocabulary & vocabulary) {
    Encoder e;
    e.pieces_ = vocabulary.pieces;
    e.scores_ = vocabulary.scores;
    e.bos_ = vocabulary.bos;
    e.eos_ = vocabulary.eos;
    e.turn_start_ = vocabulary.turn_start;
    e.turn_end_ = vocabulary.turn_end;
    TextMap<int32_t> bytes;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
        const auto i = static_cast<size_t>(id);
        if (vocabulary.types[i] == TokenType::kNormal || vocabulary.types[i] == TokenType::kUserDefined) {
            e.ids_[vocabulary.pieces[i]] = id;
        }
        if (vocabulary.types[i] == TokenType::kByte) { bytes[vocabulary.pieces[i]] = id; }
    }
    for (int b = 0; b < 256; ++b) {
        char name[8];
        std::snprintf(name, sizeof(name), "<0x%02X>", b);
        const auto it = bytes.find(std::string_view(name));
        if (it == bytes.end()) {
            return {ErrorCode::kInvalidArgument, std::string("the vocabulary has no byte token ") + name};
        }
        e.bytes_[b] = it->second;
    }
    return e;
}

// Short texts: quadratic in the word's length, which is rarely over ten.
std::vector<int32_t> Encoder::merge(std::string_view text) const {
    std::vector<std::string> symbols;
    for (size_t i = 0; i < text.size();) {
        const size_t n = std::min(utf8_size(text[i]), text.size() - i);
        symbols.emplace_back(text[i] == ' ' ? kSpace : text.substr(i, n));
        i += n;
    }
    while (true) {
        size_t best = symbols.size();
        float best_score = 0;
        for (size_t i = 0; i + 1 < symbols.size(); ++i) {
            const auto it = ids_.find(symbols[i] + symbols[i + 1]);
            if (it == ids_.end()) { continue; }
            const float score = scores_[static_cast<size_t>(it->second)];
            if (best == symbols.size() || score > best_score) {
                best = i;
                best_score = score;
            }
        }
        if (best == symbols.size()) { break; }
        symbols[best] += symbols[best + 1];
        symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    std::vector<int32_t> out;
    for (const std::string & s : symbols) {
        if (const auto it = ids_.find(s); it != ids_.end()) {
            out.push_back(it->second);
        } else {
            for (const char c : s) { out.push_back(bytes_[static_cast<unsigned char>(c)]); }
        }
    }
    return out;
}

const std::vector<int32_t> & Encoder::word(std::string_view text) {
    if (const auto it = words_.find(text); it != words_.end()) { return it->second; }
    if (words_.size() >= kMaxWords) { words_.clear(); }
    return words_.emplace(std::string(text), merge(text)).first->second;
}

void Encoder::append(std::string_view text, std::vector<int32_t> & out) {
    for (size_t begin = 0; begin < text.size();) {
        size_t end = begin + 1;  // a word: an optional space and what follows, up to the next space or line break
        if (text[begin] != '\n') {
            while (end < text.size() && text[end] != ' ' && text[end] != '\n') { ++end; }
        }
        const auto & ids = word(text.substr(begin, end - begin));
        out.insert(out.end(), ids.begin(), ids.end());
        begin = end;
    }
}

int Encoder::count(std::string_view text) {
    std::vector<int32_t> out;
    append(text, out);
    return static_cast<int>(out.size());
}

std::string Encoder::decode(const std::vector<int32_t> & tokens) const {
    std::string out;
    for (const int32_t t : tokens) {
        if (t == bos_ || t == eos_) { continue; }
        const auto byte = std::find(std::begin(bytes_), std::end(bytes_), t);
        if (byte != std::end(bytes_)) {
            out += static_cast<char>(byte - std::begin(bytes_));
            continue;
        }
        std::string piece = pieces_[static_cast<size_t>(t)];
        for (size_t at = 0; (at = piece.find(kSpace, at)) != std::string::npos;) { piece.replace(at, kSpace.size(), 1, ' '); }
        out += piece;
    }
    return out;
}

}  // namespace pith::train
