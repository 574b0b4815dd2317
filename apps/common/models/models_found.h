// models_found.h - the models that lie in other programs' folders: read from names, links and manifests, no model is opened.
//   Ollama        manifests/HOST/NAMESPACE/MODEL/TAG, JSON whose model layer's digest names blobs/sha256-DIGEST
//   LM Studio     USER/REPO/FILE.gguf
//   Hugging Face  hub_cache.h
//   llama.cpp     USER_REPO_FILE.gguf, all in one folder; since 2026 as Hugging Face
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/models/model_folders.h"

namespace pith::app {

struct FoundModel {
    std::string name;                  // -m NAME finds it; no two models have the same
    std::vector<std::string> aliases;  // -m finds it by these where they are no other model's
    std::string path;                  // the GGUF file, of a split one the first part
    uint64_t size = 0;                 // bytes, of all parts
    ModelOrigin origin = ModelOrigin::kOllama;
    std::string problem;  // why there is no file at `path`; empty: there is
};

// Folder by folder, sorted by name in each. A file that lies in several folders is listed once.
// Folders that are not there, or cannot be read, hold nothing.
std::vector<FoundModel> find_models(std::span<const ModelFolder> folders);

}  // namespace pith::app
