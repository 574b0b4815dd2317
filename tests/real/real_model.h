// real_model.h - the trained models that scripts/fetch_models fetches: where they are, loaded once a program, and tests that
// are skipped by name where a file is missing.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pith/engine.h"
#include "real/story.h"

namespace pith::testing {

struct RealModelFile {
    const char * name;  // as scripts/fetch_models knows it
    const char * file;
};
inline constexpr RealModelFile kSmolLM2 = {"smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf"};
inline constexpr RealModelFile kGemma3 = {"gemma3-270m", "gemma-3-270m.Q4_K_M.gguf"};
inline constexpr RealModelFile kQwenCoder = {"qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"};

// The folder that scripts/fetch_models fills.
inline std::filesystem::path real_model_folder() {
    for (const auto & [variable, below] :
         {std::pair("PITH_MODELS", ""), std::pair("XDG_CACHE_HOME", "pith/models"), std::pair("HOME", ".cache/pith/models")}) {
        const char * folder = std::getenv(variable);
        if (folder != nullptr && *folder != '\0') { return std::filesystem::path(folder) / below; }
    }
    return {};
}

inline std::string path_of(const RealModelFile & model) {
    return (real_model_folder() / model.file).string();
}

inline std::string missing(const RealModelFile & model) {
    return std::string(model.name) + " is not here (" + path_of(model) + "): scripts/fetch_models " + model.name;
}

// What a test cannot do without: it ends with the message.
template <class T>
T needed(Result<T> result) {
    if (!result.ok()) { throw std::runtime_error(result.status().message()); }
    return std::move(*result);
}

// Tests on one of them, all with the same loaded model.
template <const RealModelFile & kFile>
class OnRealModel : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(path())) { GTEST_SKIP() << missing(kFile); }
    }

    static const std::string & path() {
        static const std::string path = path_of(kFile);
        return path;
    }
    static const Model & model() {
        static const Model model = needed(Model::load(path()));
        return model;
    }
    static const Tokenizer & tokenizer() {
        static const Tokenizer tokenizer = needed(Tokenizer::load(path()));
        return tokenizer;
    }
    static std::vector<int32_t> encode(std::string_view text) { return needed(tokenizer().encode(text, true, true)); }
    // The first n tokens of it.
    static std::vector<int32_t> story(size_t n) {
        auto tokens = encode(kStory);
        EXPECT_GE(tokens.size(), n);
        tokens.resize(n);
        return tokens;
    }
    static std::string prompt_of(const std::string & message) {
        const ChatMessage user{"user", message};
        return needed(tokenizer().apply_chat_template(std::span(&user, 1), true));
    }
};

}  // namespace pith::testing
