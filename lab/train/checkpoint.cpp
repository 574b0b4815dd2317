// checkpoint.cpp - a training run's state as one file: what the next step depends on, nothing else. Stage: train.
// Layout: "PITHCKPT", version, step, fingerprint, state, then for each parameter its name, size, value, m and v (f32, host
// order); since version 2 the checksum of all that.
#include <ggml.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>

#include "file/new_file.h"
#include "train/trainer.h"

namespace pith::train {
namespace {

constexpr char kMagic[8] = {'P', 'I', 'T', 'H', 'C', 'K', 'P', 'T'};
constexpr uint32_t kVersion = 2;
constexpr uint32_t kWithoutChecksum = 1;
constexpr uint64_t kMaxText = 1 << 24;

// FNV-1a over 64-bit words: what a disk or a cable turns over must be seen, no more.
class Checksum {
public:
    void add(const void * data, size_t size_bytes) {
        const auto * bytes = static_cast<const char *>(data);
        for (size_t i = 0; i < size_bytes; i += sizeof(uint64_t)) {
            uint64_t word = 0;
            std::memcpy(&word, bytes + i, std::min(sizeof(word), size_bytes - i));
            value_ = (value_ ^ word) * 0x100000001B3U;
        }
    }
    uint64_t value() const { return value_; }

private:
    uint64_t value_ = 0xCBF29CE484222325U;
};

struct Writer {
    NewFile file;
    Checksum sum;
    Status write(const void * data, size_t size_bytes) {
        sum.add(data, size_bytes);
        return file.write(data, size_bytes);
    }
};
struct Reader {
    std::ifstream file;
    Checksum sum;
    bool read(void * data, size_t size_bytes) {
        if (!file.read(static_cast<char *>(data), static_cast<std::streamsize>(size_bytes))) { return false; }
        sum.add(data, size_bytes);
        return true;
    }
};

template <class T>
Status put(Writer & out, const T & value) {
    return out.write(&value, sizeof(T));
}
Status put_text(Writer & out, const std::string & text) {
    PITH_RETURN_IF_ERROR(put(out, static_cast<uint64_t>(text.size())));
    return out.write(text.data(), text.size());
}
Status put_parameter(Writer & out, const Parameter & p) {
    PITH_RETURN_IF_ERROR(put_text(out, p.name));
    PITH_RETURN_IF_ERROR(put(out, ggml_nelements(p.value)));
    for (const ggml_tensor * t : {p.value, p.m, p.v}) { PITH_RETURN_IF_ERROR(out.write(t->data, ggml_nbytes(t))); }
    return {};
}

template <class T>
bool get(Reader & in, T & value) {
    return in.read(&value, sizeof(T));
}
bool get_text(Reader & in, std::string & text) {
    uint64_t size = 0;
    if (!get(in, size) || size > kMaxText) { return false; }
    text.resize(size);
    return in.read(text.data(), size);
}

Status bad_file(const std::string & path, const std::string & what) {
    return {ErrorCode::kBadFile, "checkpoint '" + path + "' " + what + ": delete it to start anew"};
}

}  // namespace

Status Trainer::save(const std::string & path, const std::string & fingerprint, const std::string & state) const {
    PITH_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
    Writer out{std::move(file), {}};
    PITH_RETURN_IF_ERROR(out.write(kMagic, sizeof(kMagic)));
    PITH_RETURN_IF_ERROR(put(out, kVersion));
    PITH_RETURN_IF_ERROR(put(out, n_steps_));
    PITH_RETURN_IF_ERROR(put_text(out, fingerprint));
    PITH_RETURN_IF_ERROR(put_text(out, state));
    for (const Parameter & p : model_.parameters->list()) { PITH_RETURN_IF_ERROR(put_parameter(out, p)); }
    PITH_RETURN_IF_ERROR(put(out, out.sum.value()));
    PITH_RETURN_IF_ERROR(out.file.sync());
    return out.file.publish();
}

Result<std::string> Trainer::load(const std::string & path, const std::string & fingerprint) {
    Reader in{std::ifstream(path, std::ios::binary), {}};
    if (!in.file) { return {ErrorCode::kNotFound, "no checkpoint '" + path + "'"}; }
    char magic[sizeof(kMagic)] = {};
    uint32_t version = 0;
    int64_t step = 0;
    std::string made_with;
    std::string state;
    if (!in.read(magic, sizeof(magic)) || !std::equal(magic, magic + sizeof(magic), kMagic)) {
        return bad_file(path, "is not a checkpoint");
    }
    if (!get(in, version) || version > kVersion || version < kWithoutChecksum) {
        return bad_file(path, "has version " + std::to_string(version));
    }
    if (!get(in, step) || !get_text(in, made_with) || !get_text(in, state)) { return bad_file(path, "is cut off"); }
    if (made_with != fingerprint) {
        return {ErrorCode::kInvalidArgument,
                "checkpoint '" + path + "' was made with other options, text or model: give the same ones, or another folder"};
    }
    // Everything is read before anything changes.
    std::vector<std::vector<float>> read;
    for (const Parameter & p : model_.parameters->list()) {
        std::string name;
        int64_t n = 0;
        if (!get_text(in, name) || !get(in, n)) { return bad_file(path, "is cut off"); }
        if (name != p.name || n != ggml_nelements(p.value)) {
            return bad_file(path, "holds '" + name + "' where '" + p.name + "' belongs");
        }
        for (int i = 0; i < 3; ++i) {
            std::vector<float> data(static_cast<size_t>(n));
            if (!in.read(data.data(), data.size() * sizeof(float))) { return bad_file(path, "is cut off"); }
            read.push_back(std::move(data));
        }
    }
    if (version > kWithoutChecksum) {
        const uint64_t expected = in.sum.value();
        uint64_t found = 0;
        if (!get(in, found)) { return bad_file(path, "is cut off"); }
        if (found != expected) { return bad_file(path, "is damaged: its checksum is another"); }
    }
    if (in.file.peek() != std::ifstream::traits_type::eof()) { return bad_file(path, "goes on after its end"); }
    size_t i = 0;
    for (const Parameter & p : model_.parameters->list()) {
        for (ggml_tensor * t : {p.value, p.m, p.v}) {
            std::copy(read[i].begin(), read[i].end(), values(t));
            ++i;
        }
    }
    n_steps_ = step;
    return state;
}

}  // namespace pith::train
