// answer_parser.cpp - thoughts first, then calls. Stage: serve.
#include "serve/answer_parser.h"

#include <iterator>
#include <utility>

namespace pith::serve {

namespace {

// Where calls are looked for, the end of a message is told: whom the next one is for may follow.
ReasoningMarks marks_of(const AnswerForm & form) {
    ReasoningMarks marks = form.reasoning;
    if (form.tools) { std::erase(marks.silent, marks.close); }
    return marks;
}

}  // namespace

AnswerParser::AnswerParser(const AnswerForm & form)
    : reasoning_(marks_of(form), {form.close_token >= 0, !form.mark_tokens.empty()}),
      shown_(form.shown),
      hides_reasoning_(form.hides_reasoning) {
    if (form.tools) { calls_.emplace(*form.tools, form.functions, form.only_one_call, form.texts); }
}

bool AnswerParser::wants(std::string_view name) const {
    return reasoning_.is_part_of_mark(name) || shown_.is_part_of_mark(name) || (calls_ && calls_->is_part_of_mark(name));
}

void AnswerParser::add_thought(std::string thought, AnswerPiece & piece) const {
    if (!hides_reasoning_) { piece.reasoning = std::move(thought); }
}

void AnswerParser::add_answer(ToolCallSplitter::Pieces pieces, AnswerPiece & piece) {
    piece.text += pieces.content;
    std::move(pieces.calls.begin(), pieces.calls.end(), std::back_inserter(piece.calls));
}

AnswerPiece AnswerParser::add(std::string_view text) {
    AnswerPiece piece;
    ReasoningSplitter::Pieces parts = reasoning_.add(text);
    add_thought(std::move(parts.reasoning), piece);
    if (calls_) {
        add_answer(calls_->add(parts.answer), piece);
    } else {
        piece.text = std::move(parts.answer);
    }
    return piece;
}

AnswerPiece AnswerParser::finish() {
    AnswerPiece piece;
    ReasoningSplitter::Pieces parts = reasoning_.finish();
    add_thought(std::move(parts.reasoning), piece);
    if (calls_) {
        add_answer(calls_->add(parts.answer), piece);
        add_answer(calls_->finish(), piece);
    } else {
        piece.text = std::move(parts.answer);
    }
    return piece;
}

}  // namespace pith::serve
