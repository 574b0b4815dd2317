// text.h - tokens, chat templates and sampling, by libllama.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/status.h"

namespace pith {

struct ChatMessage {
    std::string role;  // "system", "user", "assistant", "tool"
    std::string content;
    std::string reasoning = {};     // what an answer was thought out with; the template says what of it stays
    std::string tool_calls = {};    // an answer's: a JSON array as OpenAI's [{"id", "type", "function": {"name", "arguments"}}]
    std::string tool_call_id = {};  // a tool's result: the call that it answers
    std::string name = {};          // and the tool
};

enum class Reasoning { kAuto, kOn, kOff };  // kAuto: as the template has it by itself

struct ChatOptions {
    bool add_assistant = true;               // to the end, up to where the answer begins
    std::string tools = {};                  // a JSON array as OpenAI's [{"type", "function": {"name", "parameters"}}]
    std::string variables = {};              // a JSON object of more that the template reads: {"enable_thinking": false}
    Reasoning reasoning = Reasoning::kAuto;  // sets the variables that templates ask for it
};

// The tokeniser of a GGUF model. Threads: const-safe.
class Tokenizer {
public:
    // Loads the vocabulary only. Errors: kNotFound, kBadFile, kUnsupported (a vocabulary without byte tokens, names it).
    static Result<Tokenizer> load(const std::string & gguf_path);

    // add_special: begin-of-sequence where the model wants it, once also where the text, a rendered template, has it already;
    // never an end. parse_special: "<|im_end|>" and the like become one token.
    // Errors: kInvalidArgument for invalid UTF-8 (names the byte offset).
    Result<std::vector<int32_t>> encode(std::string_view text, bool add_special, bool parse_special) const;
    std::string decode(std::span<const int32_t> tokens) const;  // special tokens left out
    std::string piece(int32_t token, bool special = false) const;
    int n_vocab() const;
    int32_t bos() const;  // -1: none
    int32_t eos() const;  // -1: none
    bool is_end_of_generation(int32_t token) const;
    std::vector<int32_t> end_of_generation_tokens() const;  // all for which that holds, ascending

    bool has_chat_template() const;
    // The template in place of the model's own, and what holds where apply_chat_template() is given no options. `source`:
    // Jinja, or the name of one of libllama's templates ("chatml"); empty: the model's own. Errors: kInvalidArgument: the name,
    // a JSON text; all is then as before.
    Status set_chat_template(const std::string & source, const ChatOptions & defaults = {});
    const std::string & chat_template() const;  // as it is used; empty: none
    // The template is rendered as the Jinja that it is, in a process of its own (a fork of this one) within limits: it is
    // somebody else's program. What cannot be rendered so libllama's list of templates renders, where it knows the template;
    // the log says so. Errors: kInvalidArgument: the template refuses the messages; JSON that cannot be read; kUnsupported: why
    // neither renders it.
    Result<std::string> apply_chat_template(std::span<const ChatMessage> messages, const ChatOptions & options) const;
    Result<std::string> apply_chat_template(std::span<const ChatMessage> messages, bool add_assistant) const;
    std::string chat_template_problem() const;  // why libllama's list was asked; empty: it was not

    Tokenizer(Tokenizer &&) noexcept;
    Tokenizer & operator=(Tokenizer &&) noexcept;
    ~Tokenizer();

    struct Impl;

private:
    explicit Tokenizer(std::unique_ptr<Impl> impl);
    friend class PlainText;
    friend class Sampler;
    std::unique_ptr<Impl> impl_;
};

// What llama.cpp's tools offer, with their defaults and in their order: logit bias, penalties, DRY, top-n-sigma, top-k,
// typical, top-p, min-p, XTC, temperature, draw; or mirostat in place of all behind the bias. The same seed draws the same
// tokens.
struct SamplerOptions {
    float temperature = 0.8F;     // 0: the likeliest
    float dynatemp_range = 0.0F;  // the temperature moves this far to both sides, by the entropy; 0: it stays
    float dynatemp_exponent = 1.0F;
    int top_k = 40;                 // 0: all
    float top_p = 0.95F;            // 1: all
    float min_p = 0.05F;            // 0: all
    float typical_p = 1.0F;         // 1: all
    float top_n_sigma = -1.0F;      // below 0: all
    float xtc_probability = 0.0F;   // 0: off
    float xtc_threshold = 0.1F;     // above 0.5: off
    float repeat_penalty = 1.0F;    // 1: off
    float presence_penalty = 0.0F;  // 0: off
    float frequency_penalty = 0.0F;
    int repeat_last_n = 64;       // tokens that the penalties look back; 0: off, -1: all
    float dry_multiplier = 0.0F;  // 0: off
    float dry_base = 1.75F;
    int dry_allowed_length = 2;
    int dry_last_n = 64;  // 0: off, -1: all
    std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};
    int mirostat = 0;  // 1 or 2: that version
    float mirostat_tau = 5.0F;
    float mirostat_eta = 0.1F;
    std::vector<std::pair<int32_t, float>> logit_bias;  // added to the token's logit; -infinity: never said
    std::string grammar;                                // GBNF; empty: any text
    uint32_t seed = 0xFFFFFFFF;                         // this value: random
};

// Draws tokens. Threads: one at a time.
class Sampler {
public:
    // The tokenizer must outlive the sampler; DRY and grammars need it, the others do without. Tokens that its file says must
    // never be said (tokenizer.ggml.suppress_tokens) are not.
    // Errors: kInvalidArgument: names the option, its value and what it may be; a grammar that cannot be read.
    static Result<Sampler> make(const SamplerOptions & options, const Tokenizer * tokenizer = nullptr);

    // Picks a token, and remembers it.   logits [n_vocab]; of no logits: -1.
    // Errors: kUnsupported when no token goes on with the grammar.
    Result<int32_t> sample(std::span<const float> logits);
    // A token of the prompt: the penalties look back on it. The grammar does not.
    void accept(int32_t token);
    // While it is paused, the grammar neither forbids a token nor follows one: it begins where a thought in front of it has
    // ended.
    void pause_grammar(bool paused);
    // A new answer: the grammar begins anew. Draws and penalties go on.
    void begin_answer();
    // As it was made: nothing accepted, the draws from the seed on.
    void reset();

    Sampler(Sampler &&) noexcept;
    Sampler & operator=(Sampler &&) noexcept;
    ~Sampler();

private:
    struct Impl;
    explicit Sampler(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// A grammar (GBNF) whose texts are the JSON values that fit the schema. What is understood: docs/run.md.
// Errors: kInvalidArgument: no JSON, or a keyword that is not understood: names it and where it stands.
Result<std::string> grammar_of_json_schema(std::string_view schema);

// The n likeliest tokens and the logarithms of their probabilities (softmax of the logits as they are, before any sampler), the
// likeliest first; of equals the lower id. Cost: O(n_vocab).
std::vector<std::pair<int32_t, float>> top_log_probabilities(std::span<const float> logits, int n);
// The logarithm of one token's probability.
float log_probability(std::span<const float> logits, int32_t token);

}  // namespace pith
