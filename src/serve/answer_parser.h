// answer_parser.h - an answer's text taken apart while it comes: what was thought, what is said, which functions it calls.
// Stage: serve.   Threads: one at a time. Cost: linear.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/shapes/answer.h"
#include "text/reasoning.h"
#include "text/tool_call_splitter.h"

namespace pith::serve {

// What there is to find. Nothing: all of it is said.
struct AnswerForm {
    ReasoningMarks reasoning;
    ReasoningMarks shown;           // of thoughts that are told as they come, marks and all
    bool hides_reasoning = false;   // thoughts are told apart, and nobody is told
    int32_t close_token = -1;       // that ends a thought; -1: the mark's letters do
    std::set<int32_t> mark_tokens;  // that the marks around answers begin with; none: letters do
    std::optional<ToolForm> tools;
    std::set<std::string> functions;  // that may be called
    TextParameters texts;             // of them
    bool only_one_call = false;
};

class AnswerParser {
public:
    explicit AnswerParser(const AnswerForm & form);

    // The next text, and the rest; only texts and calls of the piece are set.
    AnswerPiece add(std::string_view text);
    AnswerPiece finish();
    // A token that ends a thought, or begins a mark, stands at this byte of all that is added.
    void note_token(size_t at) { reasoning_.note_token(at); }
    // Whether a special token's name belongs to a mark, and has to be told to add().
    bool wants(std::string_view name) const;
    bool is_over() const { return calls_ && calls_->is_over(); }  // nothing may come behind the call that it made
    bool is_thinking() const { return reasoning_.is_inside(); }
    bool has_called() const { return calls_ && calls_->n_calls() > 0; }

private:
    void add_thought(std::string thought, AnswerPiece & piece) const;
    void add_answer(ToolCallSplitter::Pieces pieces, AnswerPiece & piece);

    ReasoningSplitter reasoning_;
    ReasoningMarks shown_;
    bool hides_reasoning_;
    std::optional<ToolCallSplitter> calls_;
};

}  // namespace pith::serve
