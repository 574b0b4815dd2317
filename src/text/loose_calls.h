// loose_calls.h - calls that a model writes in another form than its template's, found in what it says. Stage: text.
//
// Real models fall back to JSON: in a code block, between tags of other families, with the doubled braces of their template's
// example, by itself, as a list, one after another. Such a text is a call if
//   - it names a function that there is, and its arguments are a JSON object (call_object.h);
//   - it begins a line or a code block, or stands behind a tag (<tool_call>, <tools> …); but not in a code block or in JSON
//   that
//     began as something else.
// What may still become one is held back, and let go at the first byte that cannot belong to a call; a call is told when it is
// whole. What stands before and behind it stays what is said, less the fences and tags around the call and the blanks before
// it. Threads: one at a time. Cost: linear.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/call_object.h"
#include "text/code_blocks.h"
#include "text/tagged_call.h"

namespace pith {

class LooseCalls {
public:
    // names: of the functions there are.   only_one: what comes behind the first call is dropped.
    LooseCalls(std::set<std::string> names, TextParameters texts, bool only_one);

    // The next of what is said. What is known to be no call is added to content; returns the calls.
    std::vector<TaggedCall> add(std::string_view text, std::string & content);
    // All has been said.
    std::vector<TaggedCall> finish(std::string & content);
    // A call in the template's own form stands here: the marks in front of it are nothing that is said, nor is what closes
    // them.
    std::vector<TaggedCall> meet_call(std::string & content);

private:
    // What the next byte is looked at for. kOpening: marks in front of a call. kTagged: what follows <function=.
    // kBehind: what closes a call, or another.
    enum class State { kText, kTicks, kInfo, kOpening, kMark, kObject, kTagged, kBehind };

    void take(char c, std::string & content);
    // false: the byte has not been taken; the state is another one.
    bool step(char c, std::string & content);
    bool step_text(char c, std::string & content);
    bool step_ticks(char c, std::string & content);
    bool step_info(char c, std::string & content);
    bool step_opening(char c, std::string & content);
    bool step_mark(char c, std::string & content);
    bool step_object(char c, std::string & content);
    bool step_tagged(char c, std::string & content);
    bool step_behind(char c, std::string & content);
    bool step_close(char c, std::string & content);
    void begin(State state);
    void begin_object();
    std::optional<TaggedCall> tagged_call() const;
    void end_call(TaggedCall call);
    void end_candidate(std::string & content);
    void leave_call();
    void let_go(std::string & content);
    void say(std::string_view text, std::string & content);
    bool is_over() const { return only_one_ && n_calls_ > 0; }

    std::set<std::string> names_;
    TextParameters texts_;
    bool only_one_;
    State state_ = State::kText;
    CodeBlocks blocks_;     // of what has been said
    bool in_json_ = false;  // that began like a call and is none, up to a blank line
    std::string blanks_;    // at the end of what has been said: in front of a call they are nothing
    // What may be a call.
    std::string held_;
    std::string word_;    // its end, which may be a mark
    size_t n_ticks_ = 0;  // of its fence
    int n_marks_ = 0;     // others that stand in front
    bool is_list_ = false;
    std::optional<CallObject> object_;
    // Behind a call.
    bool is_behind_ = false;  // one, and nothing has been said since
    size_t n_open_ = 0;       // backticks of its fence, which is still to be closed
    std::vector<TaggedCall> found_;
    int n_calls_ = 0;
};

}  // namespace pith
