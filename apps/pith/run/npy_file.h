// npy_file.h - rows of numbers as NumPy's .npy (format 1.0, f32, C order), written as they come: `numpy.load` reads it.
//
// Appears whole with close(), which completes the header (file/new_file.h). Without close() nothing is left.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "file/new_file.h"
#include "pith/status.h"

namespace pith::app {

class NpyFile {
public:
    // Errors: kIo (path and reason).
    static Result<NpyFile> create(const std::string & path, int64_t n_columns);
    // REQUIRES: row.size() == n_columns.   Errors: kIo.
    Status add(std::span<const float> row);
    Status close();
    int64_t n_rows() const { return n_rows_; }
    int64_t n_columns() const { return n_columns_; }
    const std::string & path() const { return path_; }

private:
    NpyFile(std::string path, int64_t n_columns, NewFile file)
        : path_(std::move(path)), n_columns_(n_columns), file_(std::move(file)) {}
    Status write_header();

    std::string path_;
    int64_t n_columns_ = 0;
    int64_t n_rows_ = 0;
    NewFile file_;
};

}  // namespace pith::app
