// hub_files.h - the files of a repository on the hub, and which of them are the model that was asked for.
// Pure C++: no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/models/hf_reference.h"
#include "pith/status.h"

namespace pith::app {

struct HubFile {
    std::string path;  // in the repository
    uint64_t size = 0;
    std::string sha256;  // empty: not known (of a file that is kept in git itself)
    std::string blob;    // its name among a cache's blobs: the sha256, or git's object id
};

// The hub's answer to /api/models/USER/REPO/tree/REVISION. What could not be a file's path, or has no size, is
// left out.
// Errors: kBadFile: no such list.
Result<std::vector<HubFile>> parse_hub_tree(std::string_view json);

// All parts of one model, in order: of the quantisation that the reference names, else Q4_K_M, else Q8_0, else the first;
// or `file`, where that is not empty.
// Errors: kNotFound: there is none; says which there are.
Result<std::vector<HubFile>> choose_model(const std::vector<HubFile> & files, const HfReference & reference,
                                          const std::string & file);

// n hexadecimal digits.
bool is_hex(std::string_view text, size_t n);

}  // namespace pith::app
