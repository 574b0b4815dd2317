// generate.cpp - the decode loop of `pith run` and `pith chat`.
#include "generate.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace pith::app {
namespace {

// Holds back the bytes of a character that is not whole yet.
class Screen {
public:
    explicit Screen(bool visible) : visible_(visible) {}
    void add(const std::string & piece) {
        waiting_ += piece;
        write(waiting_.size() - incomplete_utf8_tail(waiting_));
    }
    void finish() { write(waiting_.size()); }

private:
    void write(size_t n_bytes) {
        if (visible_ && n_bytes > 0) {
            std::fwrite(waiting_.data(), 1, n_bytes, stdout);
            std::fflush(stdout);
        }
        waiting_.erase(0, n_bytes);
    }
    bool visible_;
    std::string waiting_;
};

std::vector<int32_t> end_tokens(const Tokenizer & tokenizer) {
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
        if (tokenizer.is_end_of_generation(token)) { tokens.push_back(token); }
    }
    return tokens;
}

}  // namespace

Result<Generated> generate(Session & session, const Tokenizer & tokenizer, Sampler & sampler, const GenerateOptions & options) {
    Generated out;
    Screen screen(options.stream);
    const std::vector<int32_t> banned = options.ignore_eos ? end_tokens(tokenizer) : std::vector<int32_t>{};
    std::vector<float> logits;
    out.stop = "limit";
    int32_t pending = -1;  // said, not yet fed
    while (options.n_predict < 0 || out.n_generated < options.n_predict) {
        if (options.cancel != nullptr && options.cancel->load()) {
            out.stop = "interrupt";
            break;
        }
        if (pending >= 0) { PITH_RETURN_IF_ERROR(session.append(std::exchange(pending, -1))); }
        logits.assign(session.logits().begin(), session.logits().end());
        if (logits.empty()) { return {ErrorCode::kInternal, "the session has no logits to go on from"}; }
        if (options.on_logits) { PITH_RETURN_IF_ERROR(options.on_logits(logits)); }
        for (const int32_t token : banned) { logits[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity(); }
        PITH_ASSIGN_OR_RETURN(const int32_t token, sampler.sample(logits));
        if (!options.ignore_eos && tokenizer.is_end_of_generation(token)) {
            out.stop = "end";
            break;
        }
        const std::string piece = tokenizer.piece(token);
        out.text += piece;
        out.tokens.push_back(token);
        ++out.n_generated;
        screen.add(piece);
        pending = token;
    }
    screen.finish();
    out.unfed = pending;
    return out;
}

}  // namespace pith::app
