// mapped_file.h - a whole file mapped read-only. Stage: file.
// Pages come and go with the kernel's page cache; dropping a range only shrinks this process's resident memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "pith/status.h"

namespace pith {

// Threads: const-safe.
class MappedFile {
public:
    // Errors: kNotFound (no such file), kIo (cannot be read or mapped), kBadFile (a folder or an empty file).
    // kind: what the user took it for, for the messages.
    static Result<MappedFile> open(const std::string & path, const char * kind = "model");

    MappedFile(MappedFile && other) noexcept;
    MappedFile & operator=(MappedFile && other) noexcept;
    ~MappedFile();

    std::span<const uint8_t> bytes() const { return {data_, size_}; }
    void * data() const { return data_; }

    // Asks the kernel to read the file ahead.
    void prefetch() const;
    // Gives back the pages that lie wholly inside [offset, offset + size); they are read again if touched.
    void drop(size_t offset, size_t size) const;

private:
    MappedFile(uint8_t * data, size_t size) : data_(data), size_(size) {}
    void unmap();

    uint8_t * data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace pith
