// cache_file.h - a session in a file: what it says of itself. Saved by Session::save(), opened by Model::open_session() and
// Session::load(); docs/caches.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
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
    int64_t n_layers = 0;
    int64_t n_kv_heads = 0;
    int64_t n_entries = 0;  // kept, all lanes
    uint64_t kv_bytes = 0;  // of their rows
    uint64_t kv_full_bytes = 0;
    CacheNotes notes;
};

// All of the file that can be checked without its model: every byte against its hash, and all numbers against each other.
// Errors: kNotFound, kIo; kBadFile (no cache file, or damaged: says where), kUnsupported (another version of the format).
Result<CacheFileInfo> read_cache_info(const std::string & path);

}  // namespace pith
