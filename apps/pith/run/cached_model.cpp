// cached_model.cpp - paths from the file, where nobody gives others.
#include "app/run/cached_model.h"

#include <filesystem>

namespace pith::app {
namespace {

Status check_there(const std::string & path, const std::string & cache_file, const char * what, const char * flag) {
    std::error_code error;
    if (path.empty() || std::filesystem::exists(path, error)) { return {}; }
    return {ErrorCode::kNotFound, std::string("the ") + what + " that cache file '" + cache_file +
                                      "' was saved with is no longer '" + path + "': say where it is with " + flag};
}

}  // namespace

Status find_model_of(const CacheFileInfo & info, const std::string & cache_file, ModelFlags & model) {
    if (!model.named()) {
        PITH_RETURN_IF_ERROR(check_there(info.model_path, cache_file, "model", "-m"));
        model.path = info.model_path;
    }
    if (model.lora.empty() && !info.lora_file.empty()) {
        PITH_RETURN_IF_ERROR(check_there(info.lora_file, cache_file, "adapter", "--lora"));
        model.lora = info.lora_file;
        model.lora_scale = info.lora_scale;
    }
    if (model.gate.empty() && !info.gate_file.empty()) {
        PITH_RETURN_IF_ERROR(check_there(info.gate_file, cache_file, "file of gates", "--gate"));
        model.gate = info.gate_file;
    }
    return model.find();
}

}  // namespace pith::app
