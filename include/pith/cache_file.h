// cache_file.h - a session in a file: what it says of itself, and sessions that go on from it. Saved by Session::save(), opened
// by SessionFile, Model::open_session() and Session::load(); docs/cache-format.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pith/session.h"
#include "pith/status.h"

namespace pith {

struct CacheFileInfo {
    uint64_t file_bytes = 0;
    std::vector<std::pair<std::string, uint64_t>> sections;  // names and bytes

    // The model it was saved with: its name and where it was, and what it must be to the bit, item by item (hashes).
    std::string model_name;
    std::string model_path;
    std::string lora_file;  // empty: none; gates, too
    float lora_scale = 1.0F;
    std::string gate_file;
    std::vector<std::pair<std::string, std::string>> model;

    SessionOptions options;  // of the session; n_threads is not in the file
    std::string policy;      // the one that evicts
    Budget budget;           // it keeps
    int64_t budget_entries = 0;
    std::string schedule;
    int64_t n_tokens = 0;
    int64_t n_before = 0;  // the first of them, whose entries are in other files: a part of an engine's state (docs/caches.md)
    bool is_part = false;  // it gives no session: others of its folder must be there, too
    bool is_rows = false;  // it holds evicted entries of an engine's states alone: file_bytes, sections and cold_bytes are said
    int64_t n_layers = 0;
    int64_t n_lanes = 0;         // of the layers that see everything, which are those that policies govern
    int64_t n_entries = 0;       // kept in them
    uint64_t kv_bytes = 0;       // of all layers' rows
    uint64_t state_bytes = 0;    // of recurrent layers
    int64_t n_cold_entries = 0;  // that were evicted, and are on disk (options.cold): not in memory when it is opened
    uint64_t cold_bytes = 0;
    uint64_t kv_full_bytes = 0;  // of all that would be there without evictions
    CacheNotes notes;
};

class Model;

// Where a session that goes on from a file has the file's entries.
enum class Entries : uint8_t {
    kShared,  // once in memory for all sessions of the file, which copy what they change: its ledger counts only that
    kOwn,     // in memory of its own: for a file that gives one session, as Model::open_session() does
};

// A cache file that is read and checked once, for as many sessions as come; the file stays mapped, and whoever writes another
// in its place changes nothing here. Copies share it.   Threads: const-safe; its sessions may run on threads of their own.
class SessionFile {
public:
    // Errors: those of read_cache_info(). A part of a state gives no session.
    static Result<SessionFile> open(const std::string & path);

    const CacheFileInfo & info() const;
    // One that goes on from it, as Model::open_session() gives it.   Cost: of kShared the first copies the entries; others
    // share these, and copy a page (of 4 KiB) where they first write to it: behind the last entry, or where an eviction moves
    // entries. Shared entries stay until the file and all its sessions are gone. Sessions have their own where lanes lie on
    // devices, where another loaded model's sessions share them already, and where the system gives no more memory that can be
    // shared.
    Result<Session> session(const Model & model, int n_threads = 0, Entries entries = Entries::kShared) const;

private:
    struct Impl;
    explicit SessionFile(std::shared_ptr<const Impl> impl);
    std::shared_ptr<const Impl> impl_;
};

// All of the file that can be checked without its model: every byte against its hash, and all numbers against each other.
// Errors: kNotFound, kIo; kBadFile (no cache file, or damaged: says where), kUnsupported (another version of the format).
Result<CacheFileInfo> read_cache_info(const std::string & path);

}  // namespace pith
