// reference_model.cpp - finds what comes with the program, from where the program lies.
#include "common/base/reference_model.h"

#include <filesystem>

#include "common/base/program_file.h"
#include "common/base/source_tree.h"

namespace pith::app {
namespace {

namespace fs = std::filesystem;

}  // namespace

Result<std::string> built_in_file(const std::string & name) {
    std::error_code error;
    fs::path folder = program_file().parent_path();
    for (int i = 0; i < kFoldersAbove && folder.has_relative_path(); ++i) {
        folder = folder.parent_path();
        const fs::path installed = folder / "share/pith/models" / name;
        if (fs::exists(installed, error)) { return installed.string(); }
    }
    const std::string source = source_models();
    const fs::path in_source = fs::path(source) / name;
    if (!source.empty() && fs::exists(in_source, error)) { return in_source.lexically_normal().string(); }
    const std::string where = source.empty() ? "share/pith/models above '" + program_file().string() + "'" : "'" + source + "'";
    return {ErrorCode::kNotFound, "'" + name + "', which comes with pith, is not in " + where};
}

Result<std::string> reference_model() {
    auto model = built_in_file("pith-reference.gguf");
    if (model.ok()) { return model; }
    return {ErrorCode::kNotFound, "the built-in model is missing: " + model.status().wording() +
                                      "; give another with -m, install pith again, or run `pith train reference`"};
}

}  // namespace pith::app
