// download.cpp - one file.
#include "common/models/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/models/http.h"
#include "common/models/sha256.h"
#include "file/written_pages.h"

namespace pith::app {
namespace {

constexpr int kMaxFruitless = 3;  // connections in a row that brought nothing

std::string incomplete(const std::string & to) {
    return to + ".incomplete";
}

// The file that is being filled, locked against other processes.
class PartialFile {
public:
    ~PartialFile() {
        if (fd_ >= 0) { ::close(fd_); }
    }

    // Reads what is there for the checksum. Errors: kIo.
    Status open(const std::string & path, uint64_t whole) {
        path_ = path;
        fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd_ < 0) { return io_error("open"); }
        if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK) { return {ErrorCode::kIo, "another process is fetching '" + path + "': wait for it"}; }
            // Some network file systems have no locks.
        }
        struct stat info {
        }, named{};
        if (fstat(fd_, &info) != 0) { return io_error("inspect"); }
        // Between the two calls above another process may have given it its name, or deleted it.
        if (::stat(path.c_str(), &named) != 0 || named.st_ino != info.st_ino) {
            return {ErrorCode::kIo, "another process has just fetched '" + path + "': run the command again"};
        }
        if (static_cast<uint64_t>(info.st_size) > whole) { return restart(); }
        return read_all();
    }

    Status restart() {
        if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) != 0) { return io_error("write"); }
        size_ = 0;
        sum_ = {};
        return {};
    }

    Status add(std::string_view bytes) {
        for (size_t done = 0; done < bytes.size();) {
            const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
            if (n < 0 && errno == EINTR) { continue; }
            if (n <= 0) { return io_error("write"); }
            done += static_cast<size_t>(n);
        }
        size_ += bytes.size();
        sum_.add(bytes);
        return {};
    }

    Status finish(const std::string & to) {
        if (fsync(fd_) != 0) { return io_error("write"); }
        if (std::rename(path_.c_str(), to.c_str()) != 0) { return io_error("rename"); }
        drop_written_pages(fd_);
        return {};
    }

    void remove() const { ::unlink(path_.c_str()); }
    uint64_t size() const { return size_; }
    std::string checksum() { return sum_.hex(); }

private:
    Status io_error(const char * what) const {
        return {ErrorCode::kIo, "cannot " + std::string(what) + " '" + path_ + "': " + std::strerror(errno)};
    }

    Status read_all() {
        std::vector<char> buffer(1 << 20);
        while (true) {
            const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
            if (n < 0 && errno == EINTR) { continue; }
            if (n < 0) { return io_error("read"); }
            if (n == 0) { return {}; }
            size_ += static_cast<uint64_t>(n);
            sum_.add({buffer.data(), static_cast<size_t>(n)});
        }
    }

    int fd_ = -1;
    std::string path_;
    uint64_t size_ = 0;
    Sha256 sum_;
};

Status wait(std::chrono::seconds time, const std::atomic<bool> * cancel) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
        if (cancel != nullptr && cancel->load()) { return {ErrorCode::kCancelled, "stopped"}; }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return {};
}

class Fetch {
public:
    explicit Fetch(const Download & what) : what_(what), line_(what.label) {}

    Status run() {
        PITH_RETURN_IF_ERROR(file_.open(incomplete(what_.to), what_.size));
        n_before_ = file_.size();
        uint64_t furthest = file_.size();  // a server that knows no parts may break off earlier each time
        for (int n_fruitless = 0; file_.size() < what_.size;) {
            const HttpRequest request{what_.url, what_.token, file_.size(), what_.cancel};
            is_first_ = true;
            const auto sink = [this](const HttpAnswer & head, std::string_view bytes) { return take(head, bytes); };
            PITH_ASSIGN_OR_RETURN(const HttpAnswer answer, http_get(request, sink));
            if (file_.size() >= what_.size) { break; }
            const int status = answer.status;
            const bool may_pass = status == 0 || status == 200 || status == 206 || status == 429 || status >= 500;
            if (status == 416) { return wrong_length("shorter"); }  // the server's file ends where ours does
            if (!may_pass) { return http_error(status, "'" + what_.url + "'", what_.url, !what_.token.empty()); }
            n_fruitless = file_.size() > furthest ? 0 : n_fruitless + 1;
            furthest = std::max(furthest, file_.size());
            if (n_fruitless >= kMaxFruitless) { return broken(answer); }
            PITH_RETURN_IF_ERROR(wait(std::chrono::seconds(1 << n_fruitless), what_.cancel));
        }
        return check();
    }

private:
    Status take(const HttpAnswer & head, std::string_view bytes) {
        if (std::exchange(is_first_, false)) { PITH_RETURN_IF_ERROR(begin(head)); }
        if (bytes.size() > what_.size - file_.size()) { return wrong_length("longer"); }
        PITH_RETURN_IF_ERROR(file_.add(bytes));
        line_.show_bytes(file_.size(), what_.size, n_before_);
        return {};
    }

    // What comes must go on where the file ends. A server that knows no parts sends all from the beginning.
    Status begin(const HttpAnswer & head) {
        const uint64_t first = head.status == 206 ? head.begin : 0;
        if (first == file_.size()) { return {}; }
        n_before_ = 0;
        PITH_RETURN_IF_ERROR(file_.restart());
        if (first == 0) { return {}; }
        return {ErrorCode::kIo, "the server sends another part of '" + what_.url + "' than it was asked for: fetch it again"};
    }

    Status wrong_length(const char * how) const {
        file_.remove();
        return {ErrorCode::kBadFile, "'" + what_.url + "' is " + how + " than the " + std::to_string(what_.size) +
                                         " bytes that were announced, and was deleted: fetch it again"};
    }

    Status check() {
        const std::string sum = file_.checksum();
        if (!what_.sha256.empty() && sum != what_.sha256) {
            file_.remove();
            return {ErrorCode::kBadFile, "'" + what_.url + "' came damaged and was deleted: its sha256 is " + sum +
                                             ", the hub says " + what_.sha256 + "; fetch it again"};
        }
        return file_.finish(what_.to);
    }

    Status broken(const HttpAnswer & answer) const {
        const std::string reason = !answer.broken.empty() ? answer.broken : "HTTP " + std::to_string(answer.status);
        return {ErrorCode::kIo, "fetching '" + what_.url + "' broke off at " + bytes_text(file_.size()) + " of " +
                                    bytes_text(what_.size) + " (" + reason + "): the same command goes on there"};
    }

    const Download & what_;
    ProgressLine line_;
    PartialFile file_;
    uint64_t n_before_ = 0;
    bool is_first_ = true;  // piece of an answer's body
};

}  // namespace

uint64_t bytes_of_earlier(const std::string & to) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(incomplete(to), error);
    return error ? 0 : size;
}

Status download(const Download & download) {
    return Fetch(download).run();
}

Status http_error(int status, const std::string & what, const std::string & url, bool had_token) {
    const std::string hub(origin_of(url));
    if (status == 404) { return {ErrorCode::kNotFound, what + " is not on " + hub + " (HTTP 404)"}; }
    if (status == 401 || status == 403) {
        const std::string rest = had_token ? "; the token that was given does not open it"
                                           : ": accept its terms there and give a token with --hf-token or HF_TOKEN";
        return {ErrorCode::kIo,
                hub + " refuses " + what + " (HTTP " + std::to_string(status) + "): it is gated, private or not there" + rest};
    }
    return {ErrorCode::kIo, hub + " does not give " + what + " (HTTP " + std::to_string(status) + ")"};
}

}  // namespace pith::app
