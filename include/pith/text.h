// text.h - tokens, chat templates and sampling, by libllama.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith {

struct ChatMessage {
    std::string role;  // "system", "user", "assistant"
    std::string content;
};

// The tokeniser of a GGUF model. Threads: const-safe.
class Tokenizer {
public:
    // Loads the vocabulary only. Errors: kNotFound, kBadFile, kUnsupported (a vocabulary without byte tokens, names it).
    static Result<Tokenizer> load(const std::string & gguf_path);

    // add_special: begin-of-sequence where the model wants it. parse_special: "<|im_end|>" and the like become one token.
    // Errors: kInvalidArgument for invalid UTF-8 (names the byte offset).
    Result<std::vector<int32_t>> encode(std::string_view text, bool add_special, bool parse_special) const;
    std::string decode(std::span<const int32_t> tokens) const;  // special tokens left out
    std::string piece(int32_t token, bool special = false) const;
    int n_vocab() const;
    int32_t bos() const;  // -1: none
    int32_t eos() const;  // -1: none
    bool is_end_of_generation(int32_t token) const;

    bool has_chat_template() const;
    // Errors: kUnsupported when libllama does not know the model's template.
    Result<std::string> apply_chat_template(std::span<const ChatMessage> messages, bool add_assistant) const;

    Tokenizer(Tokenizer &&) noexcept;
    Tokenizer & operator=(Tokenizer &&) noexcept;
    ~Tokenizer();

    struct Impl;

private:
    explicit Tokenizer(std::unique_ptr<Impl> impl);
    friend class Sampler;
    std::unique_ptr<Impl> impl_;
};

struct SamplerOptions {
    float temperature = 0.8F;  // 0: greedy
    int top_k = 40;
    float top_p = 0.95F;
    float min_p = 0.05F;
    float repeat_penalty = 1.0F;
    int repeat_last_n = 64;
    uint32_t seed = 0xFFFFFFFF;  // this value: random
};

// Threads: one at a time.
class Sampler {
public:
    static Result<Sampler> make(const SamplerOptions & options);
    int32_t sample(std::span<const float> logits);  // picks and remembers
    void reset();

    Sampler(Sampler &&) noexcept;
    Sampler & operator=(Sampler &&) noexcept;
    ~Sampler();

private:
    struct Impl;
    explicit Sampler(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace pith
