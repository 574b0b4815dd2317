// byte_stream.h - numbers, texts and arrays as bytes, and back with every length checked. Stage: all.
// Pure C++: no ggml, no I/O.
//
// Little-endian, without gaps: a number as it lies in memory, a flag as one byte, a text or an array as its length (u64) and
// its elements.   Threads: one at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace pith {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

template <class T>
concept PlainNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <PlainNumber T>
std::span<const uint8_t> raw_bytes(std::span<const T> values) {
    return {reinterpret_cast<const uint8_t *>(values.data()), values.size_bytes()};
}

class ByteWriter {
public:
    template <PlainNumber T>
    void number(T value) {
        raw(std::span(reinterpret_cast<const uint8_t *>(&value), sizeof value));
    }
    void flag(bool value) { number(static_cast<uint8_t>(value)); }
    void text(std::string_view value) {
        number(uint64_t{value.size()});
        raw(std::span(reinterpret_cast<const uint8_t *>(value.data()), value.size()));
    }
    template <PlainNumber T>
    void array(std::span<const T> values) {
        number(uint64_t{values.size()});
        raw(raw_bytes(values));
    }
    template <PlainNumber T>
    void array(const std::vector<T> & values) {
        array(std::span<const T>(values));
    }
    void raw(std::span<const uint8_t> bytes) {
        if (bytes.empty()) { return; }
        const size_t at = bytes_.size();
        bytes_.resize(at + bytes.size());
        std::memcpy(bytes_.data() + at, bytes.data(), bytes.size());
    }

    std::span<const uint8_t> bytes() const { return bytes_; }

private:
    std::vector<uint8_t> bytes_;
};

// After the first thing that is not there, or is none of its kind, ok() is false and everything that is asked for is 0 or
// empty.
class ByteReader {
public:
    explicit ByteReader(std::span<const uint8_t> bytes) : left_(bytes) {}

    template <PlainNumber T>
    T number() {
        T value{};
        const auto bytes = raw(sizeof value);
        if (!bytes.empty()) { std::memcpy(&value, bytes.data(), sizeof value); }
        return value;
    }
    bool flag() {
        const auto value = number<uint8_t>();
        if (value > 1) { fail(); }
        return value == 1;
    }
    std::string text() {
        const auto bytes = raw(number<uint64_t>());
        return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
    }
    // Nothing is allocated for elements that are not there.
    template <PlainNumber T>
    std::vector<T> array() {
        const auto n = number<uint64_t>();
        if (n > left_.size() / sizeof(T)) { fail(); }
        if (!ok_ || n == 0) { return {}; }
        std::vector<T> values(static_cast<size_t>(n));
        std::memcpy(values.data(), raw(n * sizeof(T)).data(), values.size() * sizeof(T));
        return values;
    }
    // How many things of at least so many bytes each follow.
    size_t count(size_t least_bytes) {
        const auto n = number<uint64_t>();
        if (n > left_.size() / least_bytes) { fail(); }
        return ok_ ? static_cast<size_t>(n) : 0;
    }
    std::span<const uint8_t> raw(uint64_t n) {
        if (n > left_.size()) { fail(); }
        if (!ok_) { return {}; }
        const auto bytes = left_.first(static_cast<size_t>(n));
        left_ = left_.subspan(static_cast<size_t>(n));
        return bytes;
    }

    void fail() { ok_ = false; }
    bool ok() const { return ok_; }
    bool done() const { return ok_ && left_.empty(); }  // nothing is left over

private:
    std::span<const uint8_t> left_;
    bool ok_ = true;
};

}  // namespace pith
