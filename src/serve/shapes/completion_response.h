// completion_response.h - answers as OpenAI's clients read them, whole or in chunks. Stage: serve.
//
// The keys are OpenAI's and llama-server's; `usage` and `timings` tell of the KV cache, too (docs/serving.md).
// Threads: const-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/text.h"
#include "serve/shapes/answer.h"
#include "serve/shapes/json.h"
#include "serve/shapes/kv_map.h"

namespace pith::serve {

struct WholeCall {
    std::string id;
    std::string name;
    std::string arguments;  // JSON, as the model wrote it
};

struct WholeAnswer {
    std::string text;
    std::string reasoning;
    std::vector<WholeCall> calls;
    std::vector<TokenLogprob> logprobs;  // of all tokens
    std::vector<TokenLogprob> said;      // of those that came with `text`
    AnswerEnd end;

    void add(AnswerPiece piece);
    // The whole of it again, in the order in which it came: what was thought, what is said with its log-probabilities, the
    // calls.
    AnswerPiece piece() const;
};

class CompletionShape {
public:
    enum class Kind { kChat, kText };
    // tokenizer: for the texts of log-probabilities; must live as long as this.
    CompletionShape(Kind kind, std::string model, std::string version, bool with_logprobs, const Tokenizer & tokenizer);

    Json whole(const std::vector<WholeAnswer> & answers) const;

    // Chunks of a stream, in this order; all have the same id.
    Json first_chunk(int index) const;  // chat only: the role
    Json piece_chunk(int index, const AnswerPiece & piece) const;
    Json last_chunk(int index, const AnswerEnd & end) const;
    Json usage_chunk(const std::vector<AnswerEnd> & ends) const;  // no choices: of all of them together
    Json progress_chunk(int index, int64_t n_total, int64_t n_cached, int64_t n_read, double seconds) const;
    Json map_chunk(int index, const KvMap & map) const;  // no choices: "kv_map", and the answer's index in it
    bool is_chat() const { return kind_ == Kind::kChat; }

private:
    Json logprobs(const std::vector<TokenLogprob> & tokens) const;
    Json frame(Json choices, const char * object) const;
    const char * chunk_name() const { return is_chat() ? "chat.completion.chunk" : "text_completion"; }

    Kind kind_;
    std::string model_;
    std::string version_;
    bool with_logprobs_;
    const Tokenizer & tokenizer_;
    std::string id_;
    int64_t created_ = 0;
};

// A list: each token's text, bytes, log-probability, and the likeliest in its place; as chats have it.
Json logprobs_of(const std::vector<TokenLogprob> & tokens, const Tokenizer & tokenizer);
Json usage_of(const std::vector<AnswerEnd> & ends);
Json timings_of(const AnswerCosts & costs);
void add_kv_usage(const AnswerEnd & end, Json & usage);  // usage_of()'s fields of the KV cache

}  // namespace pith::serve
