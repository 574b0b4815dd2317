// gguf_mutation.cpp - see gguf_mutation.h. Every change is a replacement of a range of the good file's bytes: several of them
// are put together from the back, so that their places hold.
#include "fuzz/gguf_mutation.h"

#include <gguf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>

namespace pith::testing {
namespace {

using Bytes = std::vector<uint8_t>;

struct Change {
    size_t begin = 0;
    size_t end = 0;
    Bytes in_place;
    std::string what;
};

template <class T>
Bytes bytes_of(T value) {
    Bytes bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
}

void append(Bytes & to, const Bytes & what) {
    to.insert(to.end(), what.begin(), what.end());
}

Bytes string_bytes(const std::string & text) {
    Bytes bytes = bytes_of<uint64_t>(text.size());
    bytes.insert(bytes.end(), text.begin(), text.end());
    return bytes;
}

const char * name_of(MarkKind kind) {
    constexpr std::array kNames = {"the version", "a count",         "a length",         "a value's type",
                                   "a value",     "an array's type", "an array's count", "the dimensions",
                                   "a size",      "a tensor's type", "a tensor's offset"};
    return kNames[static_cast<size_t>(kind)];
}

class Mutator {
public:
    Mutator(const MarkedFile & file, uint64_t seed) : file_(file), random_(seed) {}

    Mutation run() {
        std::map<size_t, Change, std::greater<>> changes;  // from the back
        const size_t n = 1 + below(3);
        for (size_t i = 0; i < n; ++i) {
            Change change = one();
            const auto overlaps = [&](const auto & other) {
                return change.begin < other.second.end + 1 && other.second.begin < change.end + 1;
            };
            if (std::none_of(changes.begin(), changes.end(), overlaps)) { changes.emplace(change.begin, std::move(change)); }
        }
        Mutation result{file_.bytes, {}};
        for (const auto & [begin, change] : changes) {
            result.what += (result.what.empty() ? "" : "; ") + change.what;
            const auto at = result.bytes.begin();
            result.bytes.erase(at + static_cast<std::ptrdiff_t>(begin), at + static_cast<std::ptrdiff_t>(change.end));
            result.bytes.insert(result.bytes.begin() + static_cast<std::ptrdiff_t>(begin), change.in_place.begin(),
                                change.in_place.end());
        }
        return result;
    }

private:
    size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }
    template <class T>
    const T & any(const std::vector<T> & of) {
        return of[below(of.size())];
    }
    uint64_t number_at(const Mark & mark) const {
        uint64_t value = 0;
        std::memcpy(&value, file_.bytes.data() + mark.begin, mark.size);
        return value;
    }
    Bytes copy(const Piece & piece) const {
        return {file_.bytes.begin() + static_cast<std::ptrdiff_t>(piece.begin),
                file_.bytes.begin() + static_cast<std::ptrdiff_t>(piece.end)};
    }

    Change one() {
        switch (below(12)) {
            case 0:
            case 1:
            case 2:
                return other_number(any(file_.marks.numbers));
            case 3:
                return other_kind_of_number();
            case 4:
                return other_value();
            case 5:
                return other_value();
            case 6:
                return piece_gone_or_twice(file_.marks.entries, "entry");
            case 7:
                return piece_gone_or_twice(file_.marks.tensors, "tensor");
            case 8:
                return other_name();
            case 9:
                return other_item();
            case 10:
                return cut_off();
            default:
                return flipped();
        }
    }

    uint64_t odd_number(uint64_t now) {
        const std::array<uint64_t, 22> odd = {0,
                                              1,
                                              2,
                                              3,
                                              7,
                                              now + 1,
                                              now - 1,
                                              now * 2,
                                              now / 2,
                                              0x7F,
                                              0x80,
                                              0xFFFF,
                                              0x10000,
                                              0x7FFFFFFF,
                                              0x80000000,
                                              0xFFFFFFFF,
                                              0x100000000,
                                              0x7FFFFFFFFFFFFFFF,
                                              0x8000000000000000,
                                              0xFFFFFFFFFFFFFFFF,
                                              file_.bytes.size(),
                                              random_()};
        return odd[below(odd.size())];
    }
    Change other_number(const Mark & mark) {
        const uint64_t value = odd_number(number_at(mark));
        Bytes bytes = bytes_of(value);
        bytes.resize(mark.size);
        return {
            mark.begin, mark.begin + mark.size, std::move(bytes),
            std::string(name_of(mark.kind)) + " at byte " + std::to_string(mark.begin) + " becomes " + std::to_string(value)};
    }
    // Most numbers are lengths of tokens: the others get their turn here.
    Change other_kind_of_number() {
        const auto kind = static_cast<MarkKind>(below(static_cast<size_t>(MarkKind::kOffset) + 1));
        std::vector<Mark> of_kind;
        for (const Mark & mark : file_.marks.numbers) {
            if (mark.kind == kind) { of_kind.push_back(mark); }
        }
        return other_number(any(of_kind.empty() ? file_.marks.numbers : of_kind));
    }
    // Another value, which the header's syntax allows: of the same or another type.
    Change other_value() {
        const Piece & entry = any(file_.marks.entries);
        const auto type = static_cast<uint32_t>(below(GGUF_TYPE_COUNT));
        Bytes bytes = bytes_of(type);
        append(bytes, value_of(type));
        return {entry.value - 4, entry.end, std::move(bytes),
                "'" + entry.name + "' gets a value of type " + std::to_string(type)};
    }
    Bytes value_of(uint32_t type) {
        const std::array<double, 8> odd_floats = {
            0.0, -1.0, 1e-45, 1e38, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
            0.5};
        const uint64_t number = odd_number(random_() % 64);
        const double value = odd_floats[below(odd_floats.size())];
        switch (type) {
            case GGUF_TYPE_UINT8:
            case GGUF_TYPE_INT8:
            case GGUF_TYPE_BOOL:
                return bytes_of(static_cast<uint8_t>(number));
            case GGUF_TYPE_UINT16:
            case GGUF_TYPE_INT16:
                return bytes_of(static_cast<uint16_t>(number));
            case GGUF_TYPE_FLOAT32:
                return bytes_of(static_cast<float>(value));
            case GGUF_TYPE_FLOAT64:
                return bytes_of(value);
            case GGUF_TYPE_UINT64:
            case GGUF_TYPE_INT64:
                return bytes_of(number);
            case GGUF_TYPE_STRING:
                return string_bytes(odd_text());
            case GGUF_TYPE_ARRAY:
                return array_value();
            default:
                return bytes_of(static_cast<uint32_t>(number));
        }
    }
    Bytes array_value() {
        const auto type = static_cast<uint32_t>(below(GGUF_TYPE_COUNT));
        const bool long_items = type == GGUF_TYPE_STRING || type == GGUF_TYPE_ARRAY;
        const size_t n = std::array<size_t, 5>{0, 1, 2, 8, 5000}[below(long_items ? 4 : 5)];
        Bytes bytes = bytes_of(type);
        append(bytes, bytes_of<uint64_t>(n));
        const bool nested = type == GGUF_TYPE_ARRAY;  // which the format's readers refuse
        for (size_t i = 0; i < n; ++i) { append(bytes, nested ? bytes_of<uint32_t>(0) : value_of(type)); }
        return bytes;
    }
    std::string odd_text() {
        switch (below(8)) {
            case 0:
                return "";
            case 1:
                return std::string(size_t{1} << (10 + below(10)), 'x');
            case 2:
                return "line\nend \x1b[31m\xff\xfe";
            case 3:
                return std::string("\0in the middle", 14);
            case 4:
                return "%s%n{{ }} {% for x in range(10) %}";
            default:
                return any(std::vector<std::string>{"llama", "qwen3moe", "gemma3", "bert", "gpt2", "spm", "bpe", "none", "yarn",
                                                    "longrope", "linear", "default", "qwen2", "adapter", "granitemoe", "phi3"});
        }
    }
    Change piece_gone_or_twice(const std::vector<Piece> & pieces, const char * kind) {
        const Piece & piece = any(pieces);
        const Piece & other = any(pieces);
        switch (below(4)) {
            case 0:  // the counts still include it
                return {piece.begin, piece.end, {}, std::string(kind) + " '" + piece.name + "' is gone"};
            case 1:
                return {piece.begin, piece.begin, copy(other), std::string(kind) + " '" + other.name + "' once more"};
            default:
                return {piece.begin, piece.end, copy(other),
                        std::string(kind) + " '" + other.name + "' in place of '" + piece.name + "'"};
        }
    }
    // A key or a tensor's name becomes another's, or an odd text.
    Change other_name() {
        const bool of_entries = below(2) == 0;
        const std::vector<Piece> & pieces = of_entries ? file_.marks.entries : file_.marks.tensors;
        const Piece & piece = any(pieces);
        std::string name = below(3) == 0 ? odd_text() : any(pieces).name;
        if (below(4) == 0) {
            name = any(std::vector<std::string>{"split.count", "split.no", "general.alignment", "blk.99.attn_q.weight",
                                                "blk.0.attn_q.bias", "rope_freqs.weight", "v.patch_embd.weight"});
        }
        return {piece.begin, piece.begin + 8 + piece.name.size(), string_bytes(name),
                "'" + piece.name + "' is called '" + name.substr(0, 40) + "'"};
    }
    // One string of an array (a token, a merge) becomes another.
    Change other_item() {
        std::vector<const Piece *> arrays;
        for (const Piece & entry : file_.marks.entries) {
            if (!entry.items.empty()) { arrays.push_back(&entry); }
        }
        if (arrays.empty()) { return flipped(); }
        const Piece & array = *any(arrays);
        const Piece & item = any(array.items);
        const std::string text = below(2) == 0 ? any(array.items).name : odd_text();
        return {item.begin, item.end, string_bytes(text),
                "a string of '" + array.name + "' becomes '" + text.substr(0, 40) + "'"};
    }
    Change cut_off() {
        const size_t end = below(2) == 0 ? any(file_.marks.numbers).begin : below(file_.bytes.size());
        if (below(4) == 0) { return {file_.bytes.size(), file_.bytes.size(), Bytes(below(5000), 0), "more at the end"}; }
        return {end, file_.bytes.size(), {}, "cut off at byte " + std::to_string(end)};
    }
    Change flipped() {
        const size_t at = below(3) == 0 ? below(file_.bytes.size()) : below(file_.marks.data);
        const auto bit = static_cast<uint8_t>(1U << below(8));
        return {at, at + 1, {static_cast<uint8_t>(file_.bytes[at] ^ bit)}, "a flipped bit in byte " + std::to_string(at)};
    }

    const MarkedFile & file_;
    std::mt19937_64 random_;
};

}  // namespace

Mutation mutate(const MarkedFile & file, uint64_t seed) {
    return Mutator(file, seed).run();
}

}  // namespace pith::testing
