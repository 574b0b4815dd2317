// model_folders.h - where other programs and scripts/fetch_models keep models, by the environment variables and defaults that
// they use themselves. Pure C++: no I/O.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pith::app {

enum class ModelOrigin { kOllama, kLmStudio, kHuggingFace, kLlamaCpp, kPith };
std::string_view to_string(ModelOrigin origin);  // "Ollama", "LM Studio" …

struct ModelFolder {
    ModelOrigin origin;
    std::string path;
};

using Environment = std::function<std::string(const char * name)>;  // "" where it is not set
Environment process_environment();

// In the order in which names are looked up. What is listed need not be there.
std::vector<ModelFolder> model_folders(const Environment & environment);

// Hugging Face's cache, into which models are fetched; empty without HOME and the like.
std::string hub_cache_folder(const Environment & environment);

}  // namespace pith::app
