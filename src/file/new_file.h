// new_file.h - a file that appears whole or not at all. Stage: file.
//
// Bytes are written to a temporary file in the same folder, and publish() moves it to the path. If anything fails before that,
// the path holds what it held before, and the temporary file is removed. It overwrites no other file on the way: on Linux it
// has no name until publish(), which then gives it one that is free. If the path is a symbolic link, the file that the link
// points to is replaced. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "pith/status.h"

namespace pith {

class NewFile {
public:
    // If the process is killed, nothing is left behind. Only on a file system that cannot make files without a name, the
    // temporary file remains, as .pith-PID-N.tmp.
    // Errors, here and below: kIo, e.g. "'PATH' cannot be written: No space left on device".
    static Result<NewFile> create(const std::string & path);

    // The first bytes of a file of some kind, by which an earlier, unfinished one is recognised: `magic` when it is finished;
    // until then the same, or `n_zeros` zero bytes.
    struct Beginning {
        std::string_view magic;
        size_t n_zeros = 0;
    };
    // The same for a file that only its owner may read (mode 0600), and whose bytes are on the disk before publish() returns.
    // Its temporary file is PATH.tmp, locked as long as it is written: if a killed process left one there, it is written over;
    // if a living process holds the lock, create_private() fails.
    // Errors: also kInvalidArgument when PATH.tmp exists and does not begin as `beginning` says; that file is left alone.
    static Result<NewFile> create_private(const std::string & path, const Beginning & beginning);
    // Fails where create_private() would because of what lies at PATH.tmp, with the same errors. Changes nothing.
    static Status check_private(const std::string & path, const Beginning & beginning);
    // Removes a PATH.tmp that a killed process left. false: a living process is writing it, and it stays.
    static bool remove_abandoned(const std::string & path);

    Status write(const void * data, size_t size_bytes);
    // Goes back to the beginning: the next write() overwrites the first bytes.
    Status rewind();
    // After the last byte: what was written is on the disk when this returns. So, after a power failure, there is either the
    // file whose place it takes or this one, whole.
    Status sync();
    // After the last byte. Only publish() may follow.
    Status close();
    // Moves the file to the path. Calls close() first if that has not been done.
    Status publish();

    NewFile(NewFile && other) noexcept;
    NewFile & operator=(NewFile &&) = delete;
    ~NewFile();

private:
    struct CloseFile {
        void operator()(std::FILE * file) const { std::fclose(file); }
    };
    NewFile(std::string path, std::string target) : path_(std::move(path)), target_(std::move(target)) {}
    Status failure() const;
    Status take(int opened);
    Status give_name();

    std::string path_;        // as the caller gave it
    std::string target_;      // the same, or the file that this link points to
    std::string unfinished_;  // path of the temporary file; empty: it has no name, or has been moved or removed
    int unnamed_ = -1;        // descriptor of the temporary file, as long as it has no name
    bool private_ = false;
    std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace pith
