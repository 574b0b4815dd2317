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
    // keeps_open: for read().
    static Result<MappedFile> open(const std::string & path, const char * kind = "model", bool keeps_open = false);

    MappedFile(MappedFile && other) noexcept;
    MappedFile & operator=(MappedFile && other) noexcept;
    ~MappedFile();

    std::span<const uint8_t> bytes() const { return {data_, size_}; }
    void * data() const { return data_; }
    // The bytes [offset, offset + buffer.size()), for whoever reads all of a large file once: copied to the buffer where the
    // file was kept open, which makes nothing of it resident here, and costs half of the time where the pages lie anywhere in
    // memory and touching one is dear (virtual machines). Otherwise, or where the system cannot read them, they are read where
    // they are mapped.
    std::span<const uint8_t> read(size_t offset, std::span<uint8_t> buffer) const;
    // The same bytes, always into the buffer, for whoever lives on when they cannot be read: where the file was kept open no
    // page of the mapping is touched, as that would end the process. REQUIRES: inside the file as it was opened. Errors: kIo.
    Status copy(size_t offset, std::span<uint8_t> buffer) const;

    // Asks the kernel to read the file ahead.
    void prefetch() const;
    // Gives back the pages that lie wholly inside [offset, offset + size); they are read again if touched.
    void drop(size_t offset, size_t size) const;

private:
    MappedFile(uint8_t * data, size_t size, int descriptor) : data_(data), size_(size), descriptor_(descriptor) {}
    void close();
    size_t read_some(size_t offset, std::span<uint8_t> buffer) const;  // of a file that was kept open: bytes read

    uint8_t * data_ = nullptr;
    size_t size_ = 0;
    int descriptor_ = -1;  // none: it was not kept open
};

}  // namespace pith
