// registry.h - every part and alias there is, filled from the .def lists. Stage: set-up.
// Pure C++: no ggml, no I/O.
// A new part is a file, a line in a .def list, a row in docs/policies.md and a test (CONTRIBUTING.md); all else reads this.
#pragma once

#include <span>
#include <string_view>

#include "policy/allocate/allocator.h"
#include "policy/refine/refiner.h"
#include "policy/score/scorer.h"
#include "policy/select/selector.h"

namespace pith {

// Decides while the prompt is read whether an entry is cached at all; what it lets in is the other parts' business.
struct Admission {};
using AdmissionInfo = PartInfo<Admission>;

struct Alias {
    std::string_view name;
    std::string_view meaning;  // parts joined by '+'
    std::string_view help;
    std::string_view paper;
};

// In the order of their lists; the first allocator and the first selector are the defaults. Threads: const-safe.
std::span<const AdmissionInfo> admissions();
std::span<const ScorerInfo> scorers();
std::span<const RefinerInfo> refiners();
std::span<const AllocatorInfo> allocators();
std::span<const SelectorInfo> selectors();
std::span<const Alias> aliases();

}  // namespace pith
