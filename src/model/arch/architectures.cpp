// architectures.cpp - the list of architectures.def. Stage: model.
#include <algorithm>
#include <vector>

#include "model/arch/architecture.h"

namespace pith {

#define PITH_ARCHITECTURE(name) Architecture name##_architecture();
#include "model/arch/architectures.def"
#undef PITH_ARCHITECTURE

std::span<const Architecture> architectures() {
    static const std::vector<Architecture> kArchitectures = {
#define PITH_ARCHITECTURE(name) name##_architecture(),
#include "model/arch/architectures.def"
#undef PITH_ARCHITECTURE
    };
    return kArchitectures;
}

namespace {

// What Ollama's conversions call some of them.
struct OtherArchitectureName {
    std::string_view other;
    std::string_view name;
};
constexpr OtherArchitectureName kOtherArchitectureNames[] = {{"gptoss", "gpt-oss"}, {"olmo3", "olmo2"}};

}  // namespace

const Architecture * find_architecture(std::string_view name) {
    for (const OtherArchitectureName & one : kOtherArchitectureNames) {
        if (name == one.other) { name = one.name; }
    }
    const auto found = std::ranges::find(architectures(), name, &Architecture::name);
    return found == architectures().end() ? nullptr : &*found;
}

std::string architecture_names() {
    std::string names;
    for (const Architecture & one : architectures()) { names.append(names.empty() ? "" : ", ").append(one.name); }
    return names;
}

}  // namespace pith
