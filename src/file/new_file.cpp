// new_file.cpp - writes beside the target, then renames.
#include "file/new_file.h"

#include <cerrno>
#include <cstring>

namespace pith {

Result<NewFile> NewFile::create(const std::string & path, std::string_view suffix) {
    NewFile file(path, path + std::string(suffix));
    file.file_.reset(std::fopen(file.unfinished_.c_str(), "wb"));
    if (file.file_) { return file; }
    const Status status = file.failure();
    file.unfinished_.clear();  // whatever is there is not ours
    return status;
}

NewFile::NewFile(NewFile && other) noexcept
    : path_(std::move(other.path_)),
      unfinished_(std::exchange(other.unfinished_, std::string())),
      file_(std::move(other.file_)) {}

NewFile::~NewFile() {
    file_.reset();
    if (!unfinished_.empty()) { std::remove(unfinished_.c_str()); }
}

Status NewFile::failure() const {
    return {ErrorCode::kIo, "'" + path_ + "' cannot be written: " + std::strerror(errno)};
}

Status NewFile::write(const void * data, size_t size_bytes) {
    return std::fwrite(data, 1, size_bytes, file_.get()) == size_bytes ? Status() : failure();
}

Status NewFile::rewind() {
    return std::fseek(file_.get(), 0, SEEK_SET) == 0 ? Status() : failure();
}

Status NewFile::close() {
    return std::fclose(file_.release()) == 0 ? Status() : failure();
}

Status NewFile::publish() {
    if (file_) { PITH_RETURN_IF_ERROR(close()); }
    if (std::rename(unfinished_.c_str(), path_.c_str()) != 0) { return failure(); }
    unfinished_.clear();
    return {};
}

}  // namespace pith
