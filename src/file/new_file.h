// new_file.h - a file that appears whole or not at all. Stage: file.
//
// Bytes go to a file beside it; publish() puts that in its place, so a failure leaves what was there before, and what is not
// published is removed. No file of somebody else's is written over on the way: the one beside it has no name before it is
// whole, and a name of its own then. Where the path is a symbolic link, the file that it stands for is written. Threads: one at
// a time.
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
    // A process that is killed leaves nothing of it (where the file system has no files without names: .pith-PID-N.tmp beside
    // it). Errors: kIo, here and below: "'PATH' cannot be written: No space left on device".
    static Result<NewFile> create(const std::string & path);

    // How files of a kind begin: a finished one with `magic`, one that is being written with that, or with so many zeros.
    struct Beginning {
        std::string_view magic;
        size_t n_zeros = 0;
    };
    // Of mode 0600, and on the disk before it is published. It is written as PATH.tmp, under a lock: what a process that was
    // killed left there is used again, and of two that write the same path at a time the second is refused.
    // Errors: also kInvalidArgument: something else lies at PATH.tmp, which is left alone; names it.
    static Result<NewFile> create_private(const std::string & path, const Beginning & beginning);
    // Whether create_private() would find something else there. Changes nothing. Errors: its.
    static Status check_private(const std::string & path, const Beginning & beginning);
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
    NewFile(std::string path, std::string target) : path_(std::move(path)), target_(std::move(target)) {}
    Status failure() const;
    Status take(int opened);
    Status give_name();

    std::string path_;        // as it was asked for
    std::string target_;      // the same, or what that link stands for
    std::string unfinished_;  // the path of the file beside it; empty: it has no name, or is there no more
    int unnamed_ = -1;        // the file without a name, to give it one
    bool private_ = false;
    std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace pith
