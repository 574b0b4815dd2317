// model_identity.h - which model, to the bit: what K/V rows and logits of a saved context depend on. Stage: model.
//
// Another quantisation is another model here; a file that was renamed, split or given another title is not. What was learnt on
// a model and serves its quantisations, too, goes by the fingerprint (fingerprint.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "file/gguf_header.h"
#include "file/mapped_file.h"

namespace pith {

// What it is called in messages, and its value, in this order: architecture, metadata, tensor table, weights, LoRA adapter,
// gates. Hashes are 16 hexadecimal digits (core/hash64.h); "none" where there is no adapter, or no gates.
using ModelIdentity = std::vector<std::pair<std::string, std::string>>;

inline constexpr const char * kLoraItem = "LoRA adapter";
inline constexpr const char * kGatesItem = "gates";

// The first item of `saved` that is another in `here`: its name and both values.
struct IdentityDifference {
    std::string item, saved, here;
};
std::optional<IdentityDifference> first_difference(const ModelIdentity & saved, const ModelIdentity & here);

// A GGUF file's bytes and what its header says of them.
struct IdentitySource {
    const GgufHeader * header = nullptr;
    std::span<const uint8_t> bytes;
    const MappedFile * file = nullptr;  // that they are of, to be read as a whole (mapped_file.h); null: they are memory
};

// Of the keys that begin with `prefix`, in the order of their names: names and values. Of arrays that are not kept
// (gguf_header.h) the length alone.
std::string metadata_hash(const GgufHeader & header, std::span<const std::string> prefixes);
// Names, types and shapes of all tensors, in the order of their names, whichever file they lie in.
std::string table_hash(std::span<const IdentitySource> files);
// The hashes of their bytes, tensor by tensor in the same order. Of files whose tensors come to more than sampled_above bytes,
// of each tensor that is larger than kSampledBlocks blocks of kSampledBlockBytes so many, evenly spread, the first and the last
// among them. Cost: reads those bytes on all CPUs, gigabytes a second where they are in memory.
inline constexpr size_t kSampledAboveBytes = size_t{1} << 30U;
inline constexpr size_t kSampledBlocks = 256;
inline constexpr size_t kSampledBlockBytes = 4096;
std::string contents_hash(std::span<const IdentitySource> files, size_t sampled_above = kSampledAboveBytes);

}  // namespace pith
