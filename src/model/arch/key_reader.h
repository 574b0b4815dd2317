// key_reader.h - an architecture's keys in a GGUF's metadata, checked. Stage: model.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "file/gguf_header.h"
#include "pith/status.h"

namespace pith {

// Reads "<architecture>.<key>". Errors name the key, its value and the limit; a missing key leaves `out` untouched unless it is
// required.   The header and the path must outlive it.
class KeyReader {
public:
    KeyReader(const GgufHeader & header, const std::string & path, std::string prefix)
        : header_(header), path_(path), prefix_(std::move(prefix)) {}

    bool has(const std::string & key) const { return header_.find(prefix_ + key) != nullptr; }
    size_t list_size(const std::string & key) const;  // 0: there is no list
    bool is_list(const std::string & key) const { return list_size(key) > 0; }
    // Whether it is a list of numbers that are not all the same.
    bool differs(const std::string & key) const;
    std::optional<std::string> text(const std::string & key) const { return header_.string(prefix_ + key); }

    // A list, as of one value a layer, is read where all its values are the same.
    Status integer(const std::string & key, int min, int max, int & out, bool required = true) const;
    Status real(const std::string & key, float min, float & out, bool required = false) const;
    Status flag(const std::string & key, bool & out) const;
    // n_more: so many numbers may follow, which are not read (of blocks behind the last layer).
    Status numbers(const std::string & key, size_t n, std::vector<double> & out, bool required = false,
                   size_t n_more = 0) const;

    // The size of a tensor in dimension `dim`, for what files leave out of their keys; 0: the file has no such tensor.
    // Of split files: in the first part.
    int64_t tensor_size(std::string_view name, int dim) const;
    // The same of the first "blk.N<end>" in the file, whichever block has one.
    int64_t block_tensor_size(std::string_view end, int dim) const;

    // kUnsupported where a key says something that nobody has read: it would change the result. 0 and 1 say nothing.
    Status refuse_unread(const std::string & key) const;

    Status bad(const std::string & key, const std::string & what) const {
        return {ErrorCode::kBadFile, "'" + path_ + "': metadata '" + prefix_ + key + "' " + what};
    }
    Status unsupported(const std::string & key, const std::string & what) const {
        return {ErrorCode::kUnsupported, "'" + path_ + "': metadata '" + prefix_ + key + "' " + what};
    }

private:
    Status number(const std::string & key, bool required, bool arrays, std::optional<double> & out) const;
    Status from_array(const std::string & key, const GgufArray & array, std::optional<double> & out) const;

    const GgufHeader & header_;
    const std::string & path_;
    std::string prefix_;
    mutable std::set<std::string> read_;
};

}  // namespace pith
