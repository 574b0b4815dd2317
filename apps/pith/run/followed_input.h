// followed_input.h - a text that goes on coming, in pieces: standard input, or a file that grows.
//
// A piece is a line with the line ends behind it, or a part of a longer one, of at most kMostPiece bytes. Where it ends depends
// on the text from its beginning on and on nothing else: not on when which bytes came. Only the end of standard input ends a
// piece, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "pith/status.h"

namespace pith::app {

// Where the first piece of a text ends; 0: that cannot be said before more has come. is_all: nothing comes any more.
size_t piece_end(std::string_view text, bool is_all);

// Threads: one at a time.
class FollowedInput {
public:
    static constexpr size_t kMostPiece = 4096;  // bytes
    static constexpr size_t kTail = 1024;       // by so many bytes in front of it a text is known again

    // path "-": standard input, else a file.   n_bytes: of the text that were read before, whose last ones have this hash.
    // Errors: kNotFound, kIo; kInvalidArgument: the text has fewer bytes, or others.
    static Result<FollowedInput> open(const std::string & path, uint64_t n_bytes, uint64_t tail_hash,
                                      const std::atomic<bool> & stop);

    // The next piece: UTF-8, never empty. Waits until it has come; nullopt: `stop` was set meanwhile, or standard input ended.
    // Errors: kIo; kInvalidArgument: no UTF-8 (names the byte), or the file has become shorter.
    Result<std::optional<std::string>> next();
    bool at_end() const { return ended_ && text_.empty(); }  // of standard input

    uint64_t n_bytes() const { return n_bytes_; }  // of the text, up to the next piece
    uint64_t tail_hash() const;                    // of the last kTail of them

    FollowedInput(FollowedInput && other) noexcept;
    FollowedInput & operator=(FollowedInput &&) = delete;
    ~FollowedInput();

private:
    FollowedInput(std::string name, int file, bool is_file, const std::atomic<bool> & stop)
        : name_(std::move(name)), file_(file), is_file_(is_file), stop_(&stop) {}
    Status read_more();
    Status skip(uint64_t n_bytes, uint64_t tail_hash);
    std::string take(size_t n);

    std::string name_;  // for messages
    int file_ = -1;     // descriptor
    bool is_file_ = false;
    const std::atomic<bool> * stop_;
    std::string text_;  // read, and not yet given out
    std::string tail_;  // what was given out last
    uint64_t n_bytes_ = 0;
    bool ended_ = false;
};

}  // namespace pith::app
