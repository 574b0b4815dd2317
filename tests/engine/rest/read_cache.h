// read_cache.h - all that Pith does with a cache file somebody hands it, told as what went wrong; and bytes that stand for one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pith::testing {

// A fuzzer's bytes: one says which model (of a few), then come the sections in their order, of each u16 its length and its
// bytes. So what is changed is what a section holds: the table and the hashes fit.
std::vector<uint8_t> cache_file_of(std::span<const uint8_t> bytes);

// The file is read, and where it is taken for one a session is opened and fed a few tokens. What is refused is right; the
// result is empty unless a refusal is no clear line.
std::string read_cache(std::span<const uint8_t> bytes);

// Such bytes of sessions that were saved, under policies that leave unlike things behind.
std::vector<std::vector<uint8_t>> cache_seeds();

}  // namespace pith::testing
