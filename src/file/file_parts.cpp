// file_parts.cpp - opens every part of a split GGUF model. Stage: file.
#include "file/file_parts.h"

#include <cstdio>

namespace pith {
namespace {

constexpr int kMaxParts = 99999;       // five digits in the name
constexpr size_t kMaxTensors = 16384;  // in all parts: a part has as many as parse_gguf() takes

Result<FilePart> open_part(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path, "model", /*keeps_open=*/true));
    PITH_ASSIGN_OR_RETURN(GgufHeader header, parse_gguf(file.bytes(), path));
    return FilePart{path, std::move(file), std::move(header)};
}

// A whole number in the metadata, or `fallback` where it is missing or no number.
int64_t integer_or(const GgufHeader & header, const char * key, int64_t fallback) {
    const GgufValue * value = header.find(key);
    const auto * number = value == nullptr ? nullptr : std::get_if<int64_t>(value);
    return number == nullptr ? fallback : *number;
}

std::string part_path(const std::string & stem, int part, int n_parts) {
    char tail[64];
    std::snprintf(tail, sizeof(tail), "-%05d-of-%05d.gguf", part, n_parts);
    return stem + tail;
}

Status check_part(const FilePart & part, int index, int n_parts) {
    const int64_t no = integer_or(part.header, "split.no", -1);
    const int64_t count = integer_or(part.header, "split.count", -1);
    if (no == index && count == n_parts) { return {}; }
    return {ErrorCode::kBadFile, "'" + part.path + "' should be part " + std::to_string(index + 1) + " of " +
                                     std::to_string(n_parts) + ", but says split.no " + std::to_string(no) +
                                     " (counted from 0) of split.count " + std::to_string(count)};
}

Status check_tensor_count(const std::vector<FilePart> & parts) {
    size_t n = 0;
    for (const FilePart & part : parts) { n += part.header.tensors.size(); }
    const int64_t expected = integer_or(parts.front().header, "split.tensors.count", static_cast<int64_t>(n));
    if (expected == static_cast<int64_t>(n)) { return {}; }
    return {ErrorCode::kBadFile, "'" + parts.front().path + "' announces " + std::to_string(expected) + " tensors in " +
                                     std::to_string(parts.size()) + " parts, but they hold " + std::to_string(n)};
}

}  // namespace

Result<std::vector<FilePart>> open_parts(const std::string & path) {
    std::vector<FilePart> parts;
    PITH_ASSIGN_OR_RETURN(FilePart given, open_part(path));
    const int64_t n_parts = integer_or(given.header, "split.count", 1);
    if (n_parts <= 1) {
        parts.push_back(std::move(given));
        return parts;
    }
    const int64_t no = integer_or(given.header, "split.no", 0);
    if (n_parts > kMaxParts || no < 0 || no >= n_parts) {
        return {ErrorCode::kBadFile,
                "'" + path + "' says it is part " + std::to_string(no) + " (counted from 0) of " + std::to_string(n_parts)};
    }
    const std::string tail = part_path("", static_cast<int>(no) + 1, static_cast<int>(n_parts));
    if (!path.ends_with(tail)) {
        return {ErrorCode::kBadFile, "'" + path + "' is one of " + std::to_string(n_parts) + " parts: its name must end in '" +
                                         tail + "', as the file was split"};
    }
    const std::string stem = path.substr(0, path.size() - tail.size());
    size_t n_tensors = 0;
    for (int i = 0; i < static_cast<int>(n_parts); ++i) {
        PITH_ASSIGN_OR_RETURN(FilePart part, open_part(part_path(stem, i + 1, static_cast<int>(n_parts))));
        PITH_RETURN_IF_ERROR(check_part(part, i, static_cast<int>(n_parts)));
        n_tensors += part.header.tensors.size();
        if (n_tensors > kMaxTensors) {
            return {ErrorCode::kUnsupported, "'" + path + "' has more than " + std::to_string(kMaxTensors) +
                                                 " tensors in its " + std::to_string(n_parts) + " parts: so many are not read"};
        }
        parts.push_back(std::move(part));
    }
    PITH_RETURN_IF_ERROR(check_tensor_count(parts));
    return parts;
}

}  // namespace pith
