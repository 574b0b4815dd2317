// registry.cpp - collects the parts that the .def lists name.
#include "policy/registry.h"

#include <vector>

namespace pith {

#define PITH_SCORER(name) ScorerInfo name##_scorer();
#include "policy/score/scorers.def"
#undef PITH_SCORER
#define PITH_REFINER(name) RefinerInfo name##_refiner();
#include "policy/refine/refiners.def"
#undef PITH_REFINER
#define PITH_ALLOCATOR(name) AllocatorInfo name##_allocator();
#include "policy/allocate/allocators.def"
#undef PITH_ALLOCATOR
#define PITH_SELECTOR(name) SelectorInfo name##_selector();
#include "policy/select/selectors.def"
#undef PITH_SELECTOR

std::span<const AdmissionInfo> admissions() {
    static const std::vector<AdmissionInfo> kParts = {
        {"gated",
         "what the model's gates say no to is never cached, whatever the budget (needs gates)",
         "",
         "In-context KV-Cache Eviction for LLMs via Attention-Gate",
         {},
         [](const Options &) { return std::make_shared<const Admission>(); }}};
    return kParts;
}

std::span<const ScorerInfo> scorers() {
    static const std::vector<ScorerInfo> kParts = {
#define PITH_SCORER(name) name##_scorer(),
#include "policy/score/scorers.def"
#undef PITH_SCORER
    };
    return kParts;
}

std::span<const RefinerInfo> refiners() {
    static const std::vector<RefinerInfo> kParts = {
#define PITH_REFINER(name) name##_refiner(),
#include "policy/refine/refiners.def"
#undef PITH_REFINER
    };
    return kParts;
}

std::span<const AllocatorInfo> allocators() {
    static const std::vector<AllocatorInfo> kParts = {
#define PITH_ALLOCATOR(name) name##_allocator(),
#include "policy/allocate/allocators.def"
#undef PITH_ALLOCATOR
    };
    return kParts;
}

std::span<const SelectorInfo> selectors() {
    static const std::vector<SelectorInfo> kParts = {
#define PITH_SELECTOR(name) name##_selector(),
#include "policy/select/selectors.def"
#undef PITH_SELECTOR
    };
    return kParts;
}

std::span<const Alias> aliases() {
    static const std::vector<Alias> kAliases = {
#define PITH_ALIAS(name, meaning, help, paper) {name, meaning, help, paper},
#include "policy/aliases.def"
#undef PITH_ALIAS
    };
    return kAliases;
}

}  // namespace pith
