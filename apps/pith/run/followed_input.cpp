// followed_input.cpp - bytes as they come, cut where the text says.
#include "app/run/followed_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "core/hash64.h"
#include "text/utf8.h"

namespace pith::app {
namespace {

constexpr int kWaitMs = 200;  // until a growing file, or a signal that came just before the wait, is looked at again

bool begins_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80;
}

uint64_t hash_of(std::string_view text) {
    return hash64(std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
}

}  // namespace

size_t piece_end(std::string_view text, bool is_all) {
    constexpr size_t kMost = FollowedInput::kMostPiece;
    const bool has_most = text.size() > kMost;  // and the byte behind it
    const size_t line_end = text.substr(0, kMost).find('\n');
    if (line_end != std::string_view::npos) {
        const size_t next_line = text.find_first_not_of('\n', line_end);
        if (next_line != std::string_view::npos) { return std::min(next_line, kMost); }
        return has_most ? kMost : is_all ? text.size() : 0;
    }
    if (!has_most) { return is_all ? text.size() : 0; }
    const size_t space = text.rfind(' ', kMost - 1);
    if (space != std::string_view::npos && space > kMost / 2) { return space; }
    size_t end = kMost;
    while (end > kMost - 4 && !begins_character(text[end])) { --end; }
    return end;
}

FollowedInput::FollowedInput(FollowedInput && other) noexcept
    : name_(std::move(other.name_)),
      file_(std::exchange(other.file_, -1)),
      is_file_(other.is_file_),
      stop_(other.stop_),
      text_(std::move(other.text_)),
      tail_(std::move(other.tail_)),
      n_bytes_(other.n_bytes_),
      ended_(other.ended_) {}

FollowedInput::~FollowedInput() {
    if (is_file_ && file_ >= 0) { close(file_); }
}

Result<FollowedInput> FollowedInput::open(const std::string & path, uint64_t n_bytes, uint64_t tail_hash,
                                          const std::atomic<bool> & stop) {
    const bool is_file = path != "-";
    const std::string name = is_file ? "'" + path + "'" : "standard input";
    const int file = is_file ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (file < 0) { return {ErrorCode::kNotFound, name + " cannot be opened: " + std::strerror(errno)}; }
    FollowedInput input(name, file, is_file, stop);
    if (n_bytes > 0) { PITH_RETURN_IF_ERROR(input.skip(n_bytes, tail_hash)); }
    return input;
}

uint64_t FollowedInput::tail_hash() const {
    return hash_of(tail_);
}

// Past what was read before: of a file by its length, of a pipe byte by byte.
Status FollowedInput::skip(uint64_t n_bytes, uint64_t tail_hash) {
    struct stat about {};
    const bool can_seek = fstat(file_, &about) == 0 && S_ISREG(about.st_mode) && about.st_size >= 0;
    const auto size = static_cast<uint64_t>(can_seek ? about.st_size : 0);
    const auto too_short = [&](uint64_t n_there) {
        return Status(ErrorCode::kInvalidArgument,
                      name_ + " has " + std::to_string(n_there) + " bytes, and " + std::to_string(n_bytes) +
                          " of it were read before: give the text that the cache file goes on with");
    };
    if (can_seek && size < n_bytes) { return too_short(size); }
    if (can_seek) {
        n_bytes_ = n_bytes - std::min<uint64_t>(n_bytes, kTail);
        if (lseek(file_, static_cast<off_t>(n_bytes_), SEEK_SET) < 0) {
            return {ErrorCode::kIo, name_ + " cannot be read: " + std::strerror(errno)};
        }
    }
    while (n_bytes_ < n_bytes && !stop_->load()) {
        if (text_.empty()) {
            if (ended_) { return too_short(n_bytes_); }
            PITH_RETURN_IF_ERROR(read_more());
        }
        take(static_cast<size_t>(std::min<uint64_t>(text_.size(), n_bytes - n_bytes_)));
    }
    if (n_bytes_ == n_bytes && hash_of(tail_) != tail_hash) {
        return {ErrorCode::kInvalidArgument, name_ + " is another text: its bytes in front of byte " + std::to_string(n_bytes) +
                                                 " are not those that were read before"};
    }
    return {};
}

// The first n bytes that are there.
std::string FollowedInput::take(size_t n) {
    std::string taken = text_.substr(0, n);
    text_.erase(0, n);
    tail_ += taken;
    if (tail_.size() > kTail) { tail_.erase(0, tail_.size() - kTail); }
    n_bytes_ += n;
    return taken;
}

// Waits a while for some.
Status FollowedInput::read_more() {
    struct stat about {};
    const bool has_size = fstat(file_, &about) == 0 && S_ISREG(about.st_mode);
    if (!has_size) {  // a pipe: reading it may wait for ever
        pollfd waited{file_, POLLIN, 0};
        const int n = poll(&waited, 1, kWaitMs);
        if (n == 0 || (n < 0 && errno == EINTR)) { return {}; }
    }
    std::array<char, size_t{16} << 10U> bytes;
    const ssize_t n = read(file_, bytes.data(), bytes.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) { return {}; }
    if (n < 0) { return {ErrorCode::kIo, name_ + " cannot be read: " + std::strerror(errno)}; }
    text_.append(bytes.data(), static_cast<size_t>(n));
    if (n > 0) { return {}; }
    if (!is_file_) {
        ended_ = true;
        return {};
    }
    if (has_size && static_cast<uint64_t>(about.st_size) < n_bytes_ + text_.size()) {
        return {ErrorCode::kInvalidArgument,
                name_ + " has become shorter: " + std::to_string(n_bytes_ + text_.size()) + " bytes of it have been read"};
    }
    poll(nullptr, 0, kWaitMs);
    return {};
}

Result<std::optional<std::string>> FollowedInput::next() {
    for (;;) {
        if (stop_->load()) { return std::optional<std::string>(); }
        const size_t end = piece_end(text_, ended_);
        if (end > 0) {
            const auto bad = invalid_utf8_offset(std::string_view(text_).substr(0, end));
            if (bad) {
                return Status(ErrorCode::kInvalidArgument, name_ + " is not UTF-8: byte " + std::to_string(n_bytes_ + *bad) +
                                                               " begins no character; convert it (iconv -t UTF-8)");
            }
            return std::optional<std::string>(take(end));
        }
        if (ended_) { return std::optional<std::string>(); }
        PITH_RETURN_IF_ERROR(read_more());
    }
}

}  // namespace pith::app
