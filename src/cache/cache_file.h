// cache_file.h - the container of a saved context: named sections, each with a hash of its bytes. Stage: cache.
//
// docs/cache-format.md has the format. A header of kHeaderBytes (magic, version, size of the file, its own hash, the table of
// sections), then the sections, each at a multiple of kAlign, with zeros between them and nothing behind the last. What is read
// has been checked whole: a bit that was flipped anywhere, the header and the zeros included, is refused. No number of the file
// is believed before it has been compared with the file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/hash64.h"
#include "file/mapped_file.h"
#include "file/new_file.h"
#include "pith/status.h"

namespace pith {

inline constexpr uint32_t kCacheFileVersion = 7;

struct CacheSection {
    static constexpr size_t kMostName = 15;

    std::string name;
    uint64_t offset = 0;  // from the beginning of the file
    uint64_t size = 0;    // bytes
    uint64_t hash = 0;    // of them (core/hash64.h)
};

struct CacheFileLayout {
    static constexpr std::string_view kMagic = "PITHKV\r\n";
    static constexpr size_t kHeaderBytes = 1024;
    static constexpr size_t kAlign = 64;
    static constexpr size_t kHashAt = 24;   // in the header
    static constexpr size_t kTableAt = 32;  // 40 bytes a section: name [16], offset, size, hash
    static constexpr size_t kMostSections = 24;
};

// Writes one: section by section, each in pieces of any size. The file is there, of mode 0600, when publish() has succeeded;
// before, and if anything fails, what was there is untouched.   Errors: kIo (path and reason).   Threads: one at a time.
class CacheFileWriter {
public:
    static Result<CacheFileWriter> create(const std::string & path);

    // REQUIRES: a name of at most CacheSection::kMostName bytes; at most kMostSections of them.
    Status begin(std::string_view section);
    Status write(std::span<const uint8_t> bytes);  // into the section begun last
    Status add(std::string_view section, std::span<const uint8_t> bytes) {
        PITH_RETURN_IF_ERROR(begin(section));
        return write(bytes);
    }
    Status publish();

private:
    explicit CacheFileWriter(NewFile file) : file_(std::move(file)) {}
    void end_section();

    NewFile file_;
    std::vector<CacheSection> sections_;
    Hash64 hash_;             // of the section begun last
    uint64_t n_written_ = 0;  // of the file
};

// The sections of bytes that are a whole file; it refers to them.
// Errors: kBadFile (no such file, or damaged: names the path and the section), kUnsupported (another version).
class CacheFileView {
public:
    // mapped: whose bytes they are; null: no file's. Of a file little is resident at a time.
    static Result<CacheFileView> parse(std::span<const uint8_t> bytes, const std::string & path,
                                       std::shared_ptr<const MappedFile> mapped = nullptr);

    const std::vector<CacheSection> & sections() const { return sections_; }
    // Errors: kBadFile: there is none.
    Result<std::span<const uint8_t>> section(std::string_view name) const;
    bool has(std::string_view name) const;
    const CacheSection & entry(std::string_view name) const;  // of the table. REQUIRES: has(name)
    // The file, for whoever goes on reading it when this is gone. Null: of bytes that are no file.
    const std::shared_ptr<const MappedFile> & mapped() const { return mapped_; }
    const std::string & path() const { return path_; }
    // These bytes of it have been read: what of a file is resident of them goes.
    void let_go(std::span<const uint8_t> bytes) const;
    // What readers of a section say of bytes that make no sense.
    Status damaged(const std::string & what) const;

private:
    CacheFileView() = default;
    // These bytes, in `room` where they are a file's: a page of a mapping that cannot be read would end the process.
    // Errors: kIo: the file and the reason.
    Result<std::span<const uint8_t>> read(uint64_t begin, uint64_t size, std::vector<uint8_t> & room) const;
    Result<uint64_t> hash_of(uint64_t begin, uint64_t size, std::vector<uint8_t> & room) const;

    std::shared_ptr<const MappedFile> mapped_;
    std::span<const uint8_t> bytes_;
    std::string path_;
    std::vector<CacheSection> sections_;
};

// The same of a file, mapped as long as the object lives. Errors: also kNotFound, kIo.   Threads: const-safe.
class CacheFile {
public:
    static Result<CacheFile> open(const std::string & path);
    const CacheFileView & view() const { return view_; }
    size_t size_bytes() const { return view_.mapped()->bytes().size(); }

private:
    explicit CacheFile(CacheFileView view) : view_(std::move(view)) {}

    CacheFileView view_;
};

// Whether a cache file may be written there, asked before the work whose result it is to hold: not over a file of another kind,
// there or where it lies until it is whole. Leaves no trace.
// Errors: those of check_can_write(); kInvalidArgument: there is such a file; names it.
Status check_can_save(const std::string & path);

}  // namespace pith
