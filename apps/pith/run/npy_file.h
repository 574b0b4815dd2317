// npy_file.h - rows of numbers as NumPy's .npy (format 1.0, f32, C order), written as they come: `numpy.load` reads it.
//
// Written to PATH.tmp; close() completes the header and renames. Without close() nothing is left.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

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

    NpyFile(NpyFile &&) noexcept = default;
    NpyFile & operator=(NpyFile &&) = delete;
    ~NpyFile();

private:
    struct CloseFile {
        void operator()(std::FILE * file) const { std::fclose(file); }
    };
    NpyFile(std::string path, int64_t n_columns) : path_(std::move(path)), n_columns_(n_columns) {}
    std::string unfinished() const { return path_ + ".tmp"; }
    Status failure(int reason) const;
    Status write_header();

    std::string path_;
    int64_t n_columns_ = 0;
    int64_t n_rows_ = 0;
    std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace pith::app
