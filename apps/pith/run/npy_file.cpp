// npy_file.cpp - see npy_file.h.
#include "app/run/npy_file.h"

#include <bit>
#include <cerrno>
#include <cstring>

namespace pith::app {
namespace {

constexpr size_t kHeaderBytes = 128;   // a multiple of 64, with room for any shape
constexpr size_t kPreambleBytes = 10;  // magic, version, length of the rest

}  // namespace

Result<NpyFile> NpyFile::create(const std::string & path, int64_t n_columns) {
    NpyFile file(path, n_columns);
    file.file_.reset(std::fopen(file.unfinished().c_str(), "wb"));
    if (!file.file_) { return Status(ErrorCode::kIo, "'" + path + "' cannot be written: " + std::strerror(errno)); }
    PITH_RETURN_IF_ERROR(file.write_header());
    return file;
}

NpyFile::~NpyFile() {
    if (!file_) { return; }
    file_.reset();
    std::remove(unfinished().c_str());
}

Status NpyFile::failure(int reason) const {
    return {ErrorCode::kIo, "'" + path_ + "' cannot be written: " + std::strerror(reason)};
}

// Always of the same length, so that it can be written again when the number of rows is known.
Status NpyFile::write_header() {
    std::string header("\x93NUMPY\x01\x00", 8);
    const size_t n_rest = kHeaderBytes - kPreambleBytes;
    header += static_cast<char>(n_rest % 256);
    header += static_cast<char>(n_rest / 256);
    header += std::string("{'descr': '") + (std::endian::native == std::endian::little ? '<' : '>') +
              "f4', 'fortran_order': False, 'shape': (" + std::to_string(n_rows_) + ", " + std::to_string(n_columns_) + "), }";
    header.resize(kHeaderBytes - 1, ' ');
    header += '\n';
    if (std::fwrite(header.data(), 1, header.size(), file_.get()) != header.size()) { return failure(errno); }
    return {};
}

Status NpyFile::add(std::span<const float> row) {
    if (std::fwrite(row.data(), sizeof(float), row.size(), file_.get()) != row.size()) { return failure(errno); }
    ++n_rows_;
    return {};
}

Status NpyFile::close() {
    if (std::fseek(file_.get(), 0, SEEK_SET) != 0) { return failure(errno); }
    PITH_RETURN_IF_ERROR(write_header());
    if (std::fclose(file_.release()) != 0) {
        const int reason = errno;
        std::remove(unfinished().c_str());
        return failure(reason);
    }
    if (std::rename(unfinished().c_str(), path_.c_str()) != 0) {
        const int reason = errno;
        std::remove(unfinished().c_str());
        return failure(reason);
    }
    return {};
}

}  // namespace pith::app
