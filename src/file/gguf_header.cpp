// gguf_header.cpp - reads a GGUF header with every length checked. Stage: file.
#include "file/gguf_header.h"

#include <bit>
#include <cstring>
#include <limits>
#include <unordered_set>

namespace pith {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF's little-endian numbers are copied as they are");

enum GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

// Bytes of one number of this type; 0 for strings, arrays and unknown types.
size_t number_size(uint32_t type) {
    switch (type) {
        case kU8:
        case kI8:
        case kBool:
            return 1;
        case kU16:
        case kI16:
            return 2;
        case kU32:
        case kI32:
        case kF32:
            return 4;
        case kU64:
        case kI64:
        case kF64:
            return 8;
        default:
            return 0;
    }
}

constexpr size_t kMaxNameBytes = 65535;
constexpr size_t kMaxTextBytes = size_t{64} << 20U;  // of a chat template, or of whatever else is told as text
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
// Published models have at most some 3,000 tensors, and less than 1,000 keys. ggml's reader, which is given the file later,
// compares each name with all before it.
constexpr uint64_t kMaxEntries = 8192;
constexpr size_t kMinKeyBytes = 8 + 1 + 4 + 1;         // name length, name, type, value
constexpr size_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // name length, n_dims, one size, type, offset

class Reader {
public:
    Reader(std::span<const uint8_t> bytes, const std::string & path) : bytes_(bytes), path_(path) {}

    size_t position() const { return position_; }
    size_t left() const { return bytes_.size() - position_; }

    Status bad(const std::string & what) const {
        return {ErrorCode::kBadFile, "'" + path_ + "' is no usable GGUF file: " + what};
    }
    Status cut_off() const {
        return bad("its header is cut off or damaged at byte " + std::to_string(position_) + " of " +
                   std::to_string(bytes_.size()) + " (fetch the file again)");
    }

    template <class T>
    Status read(T & out) {
        if (left() < sizeof(T)) { return cut_off(); }
        std::memcpy(&out, bytes_.data() + position_, sizeof(T));
        position_ += sizeof(T);
        return {};
    }

    // What is longer is not copied: a damaged length would take as much memory as the file has.
    Status read_string(std::string & out, uint64_t most, const char * what) {
        uint64_t n = 0;
        PITH_RETURN_IF_ERROR(read(n));
        if (n > left()) { return cut_off(); }
        if (n > most) {
            return bad(std::string(what) + " of " + std::to_string(n) + " bytes (at most " + std::to_string(most) + ")");
        }
        out.assign(reinterpret_cast<const char *>(bytes_.data() + position_), static_cast<size_t>(n));
        position_ += static_cast<size_t>(n);
        return {};
    }

    Status skip(uint64_t n) {
        if (n > left()) { return cut_off(); }
        position_ += static_cast<size_t>(n);
        return {};
    }

    // One number of `type`: as int64_t, or as double for floats.
    Status read_number(uint32_t type, GgufValue & out) {
        switch (type) {
            case kU8:
            case kBool:
                return read_as<uint8_t, int64_t>(out);
            case kI8:
                return read_as<int8_t, int64_t>(out);
            case kU16:
                return read_as<uint16_t, int64_t>(out);
            case kI16:
                return read_as<int16_t, int64_t>(out);
            case kU32:
                return read_as<uint32_t, int64_t>(out);
            case kI32:
                return read_as<int32_t, int64_t>(out);
            case kU64:
                return read_as<uint64_t, int64_t>(out);  // values of 2^63 and more turn negative: refused as counts later
            case kI64:
                return read_as<int64_t, int64_t>(out);
            case kF32:
                return read_as<float, double>(out);
            case kF64:
                return read_as<double, double>(out);
            default:
                return bad("metadata of unknown type " + std::to_string(type));
        }
    }

private:
    template <class Stored, class Wide>
    Status read_as(GgufValue & out) {
        Stored value{};
        PITH_RETURN_IF_ERROR(read(value));
        out = static_cast<Wide>(value);
        return {};
    }

    std::span<const uint8_t> bytes_;
    const std::string & path_;
    size_t position_ = 0;
};

double as_double(const GgufValue & value) {
    if (const auto * i = std::get_if<int64_t>(&value)) { return static_cast<double>(*i); }
    return std::get<double>(value);
}

Status read_array(Reader & in, GgufArray & out) {
    uint32_t type = 0;
    PITH_RETURN_IF_ERROR(in.read(type));
    PITH_RETURN_IF_ERROR(in.read(out.n));
    if (type == kString) {
        for (uint64_t i = 0; i < out.n; ++i) {  // every string takes at least 8 bytes: ends with the file at the latest
            uint64_t length = 0;
            PITH_RETURN_IF_ERROR(in.read(length));
            PITH_RETURN_IF_ERROR(in.skip(length));
        }
        return {};
    }
    const size_t item = number_size(type);
    if (item == 0) { return in.bad("an array of unknown type " + std::to_string(type)); }
    if (out.n > in.left() / item) { return in.cut_off(); }
    out.is_numeric = true;
    if (out.n > GgufArray::kMaxKeptNumbers) { return in.skip(out.n * item); }
    for (uint64_t i = 0; i < out.n; ++i) {
        GgufValue value;
        PITH_RETURN_IF_ERROR(in.read_number(type, value));
        out.numbers.push_back(as_double(value));
    }
    return {};
}

Status read_metadata(Reader & in, uint64_t n_keys, GgufHeader & header) {
    for (uint64_t i = 0; i < n_keys; ++i) {
        std::string key;
        uint32_t type = 0;
        PITH_RETURN_IF_ERROR(in.read_string(key, kMaxNameBytes, "a metadata key"));
        if (key.empty()) { return in.bad("a metadata key of 0 bytes"); }
        PITH_RETURN_IF_ERROR(in.read(type));
        GgufValue value;
        if (type == kString) {
            PITH_RETURN_IF_ERROR(in.read_string(value.emplace<std::string>(), kMaxTextBytes, "a text in its metadata"));
        } else if (type == kArray) {
            PITH_RETURN_IF_ERROR(read_array(in, value.emplace<GgufArray>()));
        } else {
            PITH_RETURN_IF_ERROR(in.read_number(type, value));
        }
        // ggml, and libllama behind it, end the process over these.
        if (key == "general.alignment" && type != kU32) { return in.bad("its general.alignment is no 32-bit number"); }
        if ((key == "split.count" || key == "split.no") && type != kU16) {
            return in.bad("its " + key + " is no 16-bit number without sign");
        }
        if (!header.metadata.emplace(key, std::move(value)).second) {
            return in.bad("metadata key '" + key + "' occurs twice");
        }
    }
    return {};
}

// Sizes whose product, in bytes, does not fit 63 bits are refused here, so that later arithmetic cannot overflow.
Status set_size(const Reader & in, GgufTensor & tensor) {
    const int64_t block = ggml_blck_size(tensor.type);
    if (tensor.ne[0] % block != 0) {
        return in.bad("tensor '" + tensor.name + "' has rows of " + std::to_string(tensor.ne[0]) + " elements, which type " +
                      ggml_type_name(tensor.type) + " (blocks of " + std::to_string(block) + ") cannot hold");
    }
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 64;  // 64: more than any type's bytes per element
    int64_t n = 1;
    for (const int64_t size : tensor.ne) {
        if (size < 1 || size > kMax / n) {
            return in.bad("tensor '" + tensor.name + "' has the impossible shape " + shape_text(tensor.ne));
        }
        n *= size;
    }
    tensor.size = static_cast<size_t>(n / block) * ggml_type_size(tensor.type);
    return {};
}

Status read_tensor(Reader & in, const std::string & path, GgufTensor & tensor) {
    uint32_t n_dims = 0;
    uint32_t type = 0;
    PITH_RETURN_IF_ERROR(in.read_string(tensor.name, GGML_MAX_NAME - 1, "a tensor name"));
    if (tensor.name.empty()) { return in.bad("a tensor name of 0 bytes"); }
    PITH_RETURN_IF_ERROR(in.read(n_dims));
    if (n_dims > 4) { return in.bad("tensor '" + tensor.name + "' has " + std::to_string(n_dims) + " dimensions (at most 4)"); }
    for (uint32_t d = 0; d < n_dims; ++d) { PITH_RETURN_IF_ERROR(in.read(tensor.ne[d])); }
    PITH_RETURN_IF_ERROR(in.read(type));
    PITH_RETURN_IF_ERROR(in.read(tensor.offset));
    if (type >= GGML_TYPE_COUNT || ggml_blck_size(static_cast<ggml_type>(type)) == 0) {
        return {ErrorCode::kUnsupported, "'" + path + "': tensor '" + tensor.name + "' has type number " +
                                             std::to_string(type) +
                                             ", which this build of ggml does not know (re-quantise the model)"};
    }
    tensor.type = static_cast<ggml_type>(type);
    return set_size(in, tensor);
}

// Offsets in the table count from the data section; from here on they count from the file's first byte.
Status place_tensors(const Reader & in, uint64_t file_size, uint64_t alignment, std::vector<GgufTensor> & tensors) {
    const uint64_t data_begin = (in.position() + alignment - 1) / alignment * alignment;
    for (GgufTensor & tensor : tensors) {
        if (tensor.offset % alignment != 0) {
            return in.bad("tensor '" + tensor.name + "' begins at data byte " + std::to_string(tensor.offset) +
                          ", no multiple of the file's alignment " + std::to_string(alignment));
        }
        const uint64_t room = file_size > data_begin ? file_size - data_begin : 0;
        if (tensor.offset > room || tensor.size > room - tensor.offset) {
            return in.bad("tensor '" + tensor.name + "' needs " + std::to_string(tensor.size) + " bytes at data byte " +
                          std::to_string(tensor.offset) + ", but the file has only " + std::to_string(room) +
                          " bytes of data: it is truncated (fetch it again)");
        }
        tensor.offset += data_begin;
    }
    return {};
}

Status check_magic(Reader & in, const std::string & path) {
    char magic[4] = {};
    uint32_t version = 0;
    if (!in.read(magic).ok() || std::memcmp(magic, "GGUF", 4) != 0) {
        return in.bad("it does not begin with 'GGUF' (is it another kind of file?)");
    }
    PITH_RETURN_IF_ERROR(in.read(version));
    if (version == 2 || version == 3) { return {}; }
    if ((version & 0xFFFF) == 0) {
        return {ErrorCode::kUnsupported, "'" + path + "' is a big-endian GGUF file: convert it to little-endian"};
    }
    return {ErrorCode::kUnsupported,
            "'" + path + "' has GGUF version " + std::to_string(version) + "; versions 2 and 3 can be read"};
}

}  // namespace

const GgufValue * GgufHeader::find(const std::string & key) const {
    const auto it = metadata.find(key);
    return it == metadata.end() ? nullptr : &it->second;
}

std::optional<std::string> GgufHeader::string(const std::string & key) const {
    const GgufValue * value = find(key);
    const auto * text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    return text == nullptr ? std::nullopt : std::optional<std::string>(*text);
}

Result<GgufHeader> parse_gguf(std::span<const uint8_t> bytes, const std::string & path) {
    Reader in(bytes, path);
    PITH_RETURN_IF_ERROR(check_magic(in, path));
    uint64_t n_tensors = 0;
    uint64_t n_keys = 0;
    PITH_RETURN_IF_ERROR(in.read(n_tensors));
    PITH_RETURN_IF_ERROR(in.read(n_keys));
    if (n_keys > in.left() / kMinKeyBytes || n_tensors > in.left() / kMinTensorBytes) {
        return in.bad("it announces " + std::to_string(n_tensors) + " tensors and " + std::to_string(n_keys) +
                      " metadata keys, more than its " + std::to_string(bytes.size()) + " bytes can hold");
    }
    if (n_keys > kMaxEntries || n_tensors > kMaxEntries) {
        return {ErrorCode::kUnsupported, "'" + path + "' has " + std::to_string(n_tensors) + " tensors and " +
                                             std::to_string(n_keys) + " metadata keys: at most " + std::to_string(kMaxEntries) +
                                             " of each are read (is it a language model?)"};
    }

    GgufHeader header;
    PITH_RETURN_IF_ERROR(read_metadata(in, n_keys, header));
    uint64_t alignment = kDefaultAlignment;
    if (const GgufValue * value = header.find("general.alignment")) {
        alignment = static_cast<uint64_t>(std::get<int64_t>(*value));
    }
    if (alignment < 8 || alignment > kMaxAlignment || !std::has_single_bit(alignment)) {
        return in.bad("its general.alignment is " + std::to_string(alignment) + ": a power of two from 8 is required");
    }

    std::unordered_set<std::string> names;
    for (uint64_t i = 0; i < n_tensors; ++i) {  // grown as read: the announced count is not trusted with memory
        GgufTensor & tensor = header.tensors.emplace_back();
        PITH_RETURN_IF_ERROR(read_tensor(in, path, tensor));
        if (!names.insert(tensor.name).second) { return in.bad("tensor '" + tensor.name + "' occurs twice"); }
    }
    PITH_RETURN_IF_ERROR(place_tensors(in, bytes.size(), alignment, header.tensors));
    return header;
}

std::string shape_text(std::span<const int64_t> ne) {
    size_t n = ne.size();
    while (n > 1 && ne[n - 1] == 1) { --n; }
    std::string text = "[";
    for (size_t i = 0; i < n; ++i) { text += (i == 0 ? "" : ", ") + std::to_string(ne[i]); }
    return text + "]";
}

}  // namespace pith
