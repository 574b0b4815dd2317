// appended_file.h - a file that grows by whole pieces. Stage: file.
//
// Each piece is handed to the system at once. Of one that cannot be written whole nothing stays: the file is cut back to the
// pieces before it, and no other is taken. A process that is killed leaves at most a half piece at the end, for whoever opens
// the file next to cut off.   Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith {

class AppendedFile {
public:
    // Made where it is not there, for its owner alone (mode 0600). Errors: kIo, here and below: "'PATH' cannot be written: No
    // space left on device".
    static Result<AppendedFile> open(const std::string & path);

    // Whether nobody else who asks has it open. Where the file system has no locks: true.
    bool lock();
    Status append(std::string_view piece);
    Status cut(uint64_t size_bytes);  // its first so many bytes stay
    // Until all of it is on the disk: what a system finds out only then is an error, too.
    Status sync();

    AppendedFile(AppendedFile && other) noexcept;
    AppendedFile & operator=(AppendedFile &&) = delete;
    ~AppendedFile();

private:
    AppendedFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
    Status failure() const;

    std::string path_;
    int file_ = -1;
    Status failed_;  // the first piece that could not be written
};

}  // namespace pith
