// model_folders.cpp - the table of folders.
// Sources: Ollama's FAQ (OLLAMA_MODELS); LM Studio's "Import Models"; Hugging Face's "Hub Local Cache"; llama.cpp's
// LLAMA_CACHE.
#include "common/models/model_folders.h"

#include <cstdlib>

namespace pith::app {
namespace {

struct Choice {
    const char * variable;
    const char * below;
};

// The first variable that is set, and the folder below it.
std::string first_set(const Environment & environment, std::initializer_list<Choice> choices) {
    for (const Choice & choice : choices) {
        const std::string value = environment(choice.variable);
        if (!value.empty()) { return value + choice.below; }
    }
    return {};
}

}  // namespace

std::string_view to_string(ModelOrigin origin) {
    switch (origin) {
        case ModelOrigin::kOllama:
            return "Ollama";
        case ModelOrigin::kLmStudio:
            return "LM Studio";
        case ModelOrigin::kHuggingFace:
            return "Hugging Face";
        case ModelOrigin::kLlamaCpp:
            return "llama.cpp";
        case ModelOrigin::kPith:
            return "Pith";
    }
    return "";
}

Environment process_environment() {
    return [](const char * name) {
        const char * value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
}

std::string hub_cache_folder(const Environment & environment) {
    return first_set(environment, {{"HF_HUB_CACHE", ""},
                                   {"HUGGINGFACE_HUB_CACHE", ""},
                                   {"HF_HOME", "/hub"},
                                   {"XDG_CACHE_HOME", "/huggingface/hub"},
                                   {"HOME", "/.cache/huggingface/hub"}});
}

std::vector<ModelFolder> model_folders(const Environment & environment) {
    std::vector<ModelFolder> folders;
    const auto add = [&](ModelOrigin origin, const std::string & path) {
        if (!path.empty()) { folders.push_back({origin, path}); }
    };
    add(ModelOrigin::kOllama, first_set(environment, {{"OLLAMA_MODELS", ""}, {"HOME", "/.ollama/models"}}));
    add(ModelOrigin::kOllama, "/usr/share/ollama/.ollama/models");  // where it runs as a service
    add(ModelOrigin::kLmStudio, first_set(environment, {{"HOME", "/.lmstudio/models"}}));
    add(ModelOrigin::kLmStudio, first_set(environment, {{"HOME", "/.cache/lm-studio/models"}}));  // before 2025
    add(ModelOrigin::kHuggingFace, hub_cache_folder(environment));
    add(ModelOrigin::kLlamaCpp,
        first_set(environment, {{"LLAMA_CACHE", ""}, {"XDG_CACHE_HOME", "/llama.cpp"}, {"HOME", "/.cache/llama.cpp"}}));
    add(ModelOrigin::kPith,
        first_set(environment, {{"PITH_MODELS", ""}, {"XDG_CACHE_HOME", "/pith/models"}, {"HOME", "/.cache/pith/models"}}));
    return folders;
}

}  // namespace pith::app
