// tiny_model.h - random models of a few thousand parameters, written once per process, and random token runs.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/random/random_model.h"
#include "pith/model.h"

namespace pith::testing {

// A file in a fresh folder of this process that goes when the process ends.
inline std::filesystem::path scratch_file(const std::string & name) {
    struct Folder {
        std::filesystem::path path = std::filesystem::temp_directory_path() / ("pith-test-" + std::to_string(getpid()));
        Folder() { std::filesystem::create_directories(path); }
        ~Folder() {
            std::error_code ignored;
            std::filesystem::remove_all(path, ignored);
        }
    };
    static const Folder folder;
    return folder.path / name;
}

inline RandomModelSpec tiny_spec(int n_heads = 4, int n_kv_heads = 2) {
    RandomModelSpec spec;
    spec.n_layers = 3;
    spec.n_heads = n_heads;
    spec.n_kv_heads = n_kv_heads;
    spec.head_dim = 32;
    spec.n_vocab = 384;
    return spec;
}

// The file of a model: a process makes each once, since that takes longer than most tests.
inline Result<std::string> tiny_file(const RandomModelSpec & spec) {
    static std::vector<std::pair<RandomModelSpec, std::string>> made;
    const auto at = std::ranges::find(made, spec, &std::pair<RandomModelSpec, std::string>::first);
    if (at != made.end()) { return at->second; }
    const std::string path = scratch_file("tiny-" + std::to_string(made.size()) + ".gguf");
    PITH_RETURN_IF_ERROR(write_random_model(spec, path));
    made.emplace_back(spec, path);
    return path;
}
inline Result<Model> tiny_model(const RandomModelSpec & spec) {
    PITH_ASSIGN_OR_RETURN(const std::string path, tiny_file(spec));
    return Model::load(path);
}

inline std::vector<int32_t> random_tokens(int n, int n_vocab, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    for (auto & token : tokens) { token = static_cast<int32_t>(random() % static_cast<unsigned>(n_vocab)); }
    return tokens;
}

}  // namespace pith::testing
