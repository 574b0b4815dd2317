// file_parts.h - the one or several GGUF files that make up a model. Stage: file.
// A split model's parts are named "<name>-00001-of-0000N.gguf"; the first holds the metadata, each its own tensors.
#pragma once

#include <string>
#include <vector>

#include "file/gguf_header.h"
#include "file/mapped_file.h"
#include "pith/status.h"

namespace pith {

struct FilePart {
    std::string path;
    MappedFile file;
    GgufHeader header;
};

// path: any part of a split model, or the only file. The result begins with the first part.
// Errors: as MappedFile::open and parse_gguf; kNotFound naming the missing part; kBadFile for parts that do not belong
// together.
Result<std::vector<FilePart>> open_parts(const std::string & path);

}  // namespace pith
