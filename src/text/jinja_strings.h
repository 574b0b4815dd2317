// jinja_strings.h - texts as Jinja sees them: characters, not bytes, and cut as Python cuts. For minja, which does neither
// (cmake/minja_corrections.cmake puts these in). Stage: text.
// Threads: const-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pith::jinja {

// Characters; a byte that begins none is one of its own.
int64_t length(const std::string & text);

// Its characters from `start` on, by `step`, up to `end`, which is left out. REQUIRES: clamp_slice().
std::string slice(const std::string & text, int64_t start, int64_t end, int64_t step);

// As Python's str.split and str.rsplit. separator nullptr: runs of white space, none at the ends. most: cuts; below 0: all.
// from_end: the cuts nearest to the end.
std::vector<std::string> split(const std::string & text, const std::string * separator, int64_t most, bool from_end);

// Where a slice of so many items begins and ends for a step of this sign, as Python clamps it.
void clamp_slice(int64_t length, int64_t step, int64_t & start, int64_t & end);

}  // namespace pith::jinja
