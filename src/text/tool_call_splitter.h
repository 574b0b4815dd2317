// tool_call_splitter.h - an answer told apart while it comes: what is said, and which functions it calls. Stage: text.
// Threads: one at a time. Cost: linear.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/call_scanner.h"
#include "text/loose_calls.h"
#include "text/tool_calls.h"

namespace pith {

// The next of a call.
struct ToolCallPiece {
    int index = 0;          // of the call, in the answer
    std::string name;       // in a call's first piece alone
    std::string arguments;  // JSON as the model wrote it, from where the last piece ended
};

class ToolCallSplitter {
public:
    // names: of the functions there are. only_one: what comes behind the first call is dropped. texts: for forms with tagged
    // arguments.
    ToolCallSplitter(ToolForm form, std::set<std::string> names, bool only_one, TextParameters texts = {});

    struct Pieces {
        std::string content;
        std::vector<ToolCallPiece> calls;
    };
    // The next text of the answer, special tokens by name where is_part_of_mark() says so. What may be the beginning of a call
    // is kept until it is known; what turns out to be none is content.
    Pieces add(std::string_view text);
    Pieces finish();
    bool is_part_of_mark(std::string_view name) const;
    int n_calls() const { return n_calls_; }  // whose name is known
    // A call is whole, and no other may follow.
    bool is_over() const { return only_one_ && n_whole_ > 0; }

private:
    enum class State { kText, kHeader, kInside, kObject, kArguments, kBehind };

    bool step(Pieces & out);  // false: what waits must wait for more
    bool step_text(Pieces & out);
    bool step_header(Pieces & out);
    size_t end_of_inside() const;
    bool step_inside(Pieces & out);
    bool step_object(Pieces & out);
    bool step_arguments(Pieces & out);
    bool step_behind(Pieces & out);
    void say(std::string_view text, Pieces & out);
    void tell(std::vector<TaggedCall> calls, Pieces & out);
    void begin_object();
    void begin_call(const std::string & name, Pieces & out);
    void add_arguments(std::string text, Pieces & out);
    void end_call(Pieces & out);
    void give_back(Pieces & out);

    ToolForm form_;
    std::set<std::string> names_;
    bool only_one_;
    TextParameters texts_;
    std::vector<std::string_view> opens_;  // marks that a call may stand behind
    State state_ = State::kText;
    std::string waiting_;
    std::string raw_;              // of a call whose name is not known yet
    bool said_ = false;            // something that is no blank
    bool begins_message_ = false;  // behind the end of another: nothing of it has been said
    bool marked_ = false;          // the call stands behind a mark
    bool named_ = false;           // the call's name has been told
    bool has_arguments_ = false;
    CallScanner scanner_;
    LooseCalls loose_;  // in what is said
    int depth_ = 0;     // of arguments by themselves
    bool in_string_ = false;
    bool escaped_ = false;
    int n_calls_ = 0;
    int n_whole_ = 0;
};

}  // namespace pith
