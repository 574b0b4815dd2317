// spill_memory.h - bytes that are put aside for a while: in memory, or in a file without a name, where a ceiling leaves no
// memory for them. Stage: cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith {

enum class Spill {
    kMemory,
    kFile,  // without a name, in a folder; gone with the object, and with the process
};

// Whether what is written to files of this folder stays in memory (a tmpfs), where no ceiling counts it.
bool lies_in_memory(const std::string & folder);

// The folder for temporary files: $TMPDIR, or else /tmp; in whose place comes /var/tmp where /tmp lies in memory and /var/tmp
// does not. Empty: there is none. A warning, once, where it lies in memory all the same.
std::string spill_folder();

// A new file without a name in spill_folder(), to be closed by the caller. Errors: kOutOfMemory: names the folder, and why.
Result<int> open_file_without_name();

// Where the file system has no files without names, one has such a name for a moment. letters: six, of its own. Whether a
// file's name is one of them: if nobody has it locked, a process that was killed in that moment left it.
std::string name_put_aside(std::string_view letters);
bool is_put_aside(std::string_view file_name);

class SpillMemory {
public:
    SpillMemory() = default;
    // folder: of files; empty: spill_folder().
    // Errors: kOutOfMemory, also of a folder that is full or not there: names it.
    static Result<SpillMemory> make(size_t size_bytes, Spill where, const std::string & folder = {});
    SpillMemory(SpillMemory && other) noexcept;
    SpillMemory & operator=(SpillMemory && other) noexcept;
    ~SpillMemory();

    uint8_t * data() const { return data_; }
    size_t size_bytes() const { return size_bytes_; }
    size_t memory_bytes() const { return in_file_ ? 0 : size_bytes_; }

private:
    uint8_t * data_ = nullptr;
    size_t size_bytes_ = 0;
    bool in_file_ = false;
};

}  // namespace pith
