// reference_model.cpp - finds the built-in model.
#include "reference_model.h"

#include <filesystem>

namespace pith::app {

Result<std::string> reference_model() {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    for (const auto & path : {program.parent_path() / "../share/pith/models/pith-reference.gguf",
                              std::filesystem::path(PITH_SOURCE_MODELS) / "pith-reference.gguf"}) {
        if (std::filesystem::exists(path, error)) { return path.lexically_normal().string(); }
    }
    return {ErrorCode::kNotFound,
            std::string("the built-in model is missing: '") + PITH_SOURCE_MODELS +
                "/pith-reference.gguf' does not exist; give another with -m, or run `pith train reference`"};
}

}  // namespace pith::app
