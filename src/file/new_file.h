// new_file.h - a file that appears whole or not at all. Stage: file.
//
// Bytes go to a file beside it, PATH.tmp; publish() renames that, so a failure leaves what was there before. What is not
// published is removed.   Threads: one at a time.
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
    // suffix: where several processes may write the same path, each has its own.
    // Errors: kIo, here and below: "'PATH' cannot be written: No space left on device".
    static Result<NewFile> create(const std::string & path, std::string_view suffix = ".tmp");
    // Of mode 0600, and on the disk before it is published. What a process that was killed left beside `path` is used again;
    // two that write the same path at a time: the second is refused.
    static Result<NewFile> create_private(const std::string & path);
    // Removes what create_private(path) left beside it, unless whoever writes there lives. false: somebody does.
    static bool remove_abandoned(const std::string & path);

    Status write(const void * data, size_t size_bytes);
    // The next bytes go over the first ones.
    Status rewind();
    // All bytes are there; only publish() may follow.
    Status close();
    // Closes it too, where it is open.
    Status publish();

    NewFile(NewFile && other) noexcept;
    NewFile & operator=(NewFile &&) = delete;
    ~NewFile();

private:
    struct CloseFile {
        void operator()(std::FILE * file) const { std::fclose(file); }
    };
    NewFile(std::string path, std::string unfinished) : path_(std::move(path)), unfinished_(std::move(unfinished)) {}
    Status failure() const;

    std::string path_;
    std::string unfinished_;  // its path; empty: there is no such file any more
    bool private_ = false;
    std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace pith
