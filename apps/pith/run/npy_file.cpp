// npy_file.cpp - see npy_file.h.
#include "app/run/npy_file.h"

#include <bit>
#include <utility>

namespace pith::app {
namespace {

constexpr size_t kHeaderBytes = 128;   // a multiple of 64, with room for any shape
constexpr size_t kPreambleBytes = 10;  // magic, version, length of the rest

}  // namespace

Result<NpyFile> NpyFile::create(const std::string & path, int64_t n_columns) {
    PITH_ASSIGN_OR_RETURN(NewFile bytes, NewFile::create(path));
    NpyFile file(path, n_columns, std::move(bytes));
    PITH_RETURN_IF_ERROR(file.write_header());
    return file;
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
    return file_.write(header.data(), header.size());
}

Status NpyFile::add(std::span<const float> row) {
    PITH_RETURN_IF_ERROR(file_.write(row.data(), row.size_bytes()));
    ++n_rows_;
    return {};
}

Status NpyFile::close() {
    PITH_RETURN_IF_ERROR(file_.rewind());
    PITH_RETURN_IF_ERROR(write_header());
    return file_.publish();
}

}  // namespace pith::app
