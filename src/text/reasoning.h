// reasoning.h - an answer told apart: what was thought, and what is said. Stage: text.
//
// Only where the chat template says how its model marks thoughts (<think>…</think>, gpt-oss's channels …). A mark that opens
// one counts where nothing has been said yet, so that an answer may speak of marks. Threads: one at a time. Cost: linear.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pith {

struct ReasoningMarks {
    std::string open;  // empty: no marks, all is answer
    std::string close;
    std::vector<std::string> silent;  // around an answer: neither thought nor said
    std::string answer;               // of these, what must stand in front of one that says its first word at once
    bool begins_open = false;         // the prompt ends with the mark that opens one

    bool any() const { return !open.empty(); }
    // Whether a text has one of the two marks; whether it ends inside a thought.
    bool is_in(std::string_view text) const;
    bool is_open_behind(std::string_view text) const;
    // Whether a special token's name may be part of a mark, and has to be told to a splitter.
    bool is_part_of_mark(std::string_view name) const;
};

// chat_template: Jinja.   prompt_end: the prompt's last text, behind the user's message.
ReasoningMarks reasoning_marks(std::string_view chat_template, std::string_view prompt_end);

class ReasoningSplitter {
public:
    // Of marks that are tokens of the vocabulary, or begin with one, letters alone are none: an answer may speak of them.
    struct ByToken {
        bool close = false;   // the closing mark is one
        bool silent = false;  // those around answers begin with one
    };
    explicit ReasoningSplitter(ReasoningMarks marks, ByToken by_token = {false, false});

    struct Pieces {
        std::string reasoning;
        std::string answer;
    };
    // The next text of the answer, with special tokens by name. What may be the beginning of a mark is kept until it is known.
    Pieces add(std::string_view text);
    Pieces finish();
    // Such a token stands at this byte of all that is added.
    void note_token(size_t at) { tokens_.insert(at); }
    bool is_inside() const { return inside_; }  // a thought
    bool is_part_of_mark(std::string_view name) const { return marks_.is_part_of_mark(name); }

private:
    void emit(std::string_view text, Pieces & out);
    void drop(size_t n_bytes);
    size_t find_mark(std::string_view mark) const;

    ReasoningMarks marks_;
    ByToken by_token_;
    std::set<size_t> tokens_;  // where they stand
    size_t n_dropped_ = 0;     // bytes that stood before what waits
    std::string waiting_;
    bool inside_ = false;
    bool said_ = false;  // something of the answer
    bool begins_;        // behind a mark, where white space is nobody's
};

}  // namespace pith
