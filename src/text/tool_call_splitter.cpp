// tool_call_splitter.cpp - marks, objects and what stands between them. Stage: text.
#include "text/tool_call_splitter.h"

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "text/call_object.h"
#include "text/tagged_call.h"
#include "text/tool_marks.h"

namespace pith {
namespace {

using tool_marks::is_blank;
using tool_marks::kBlanks;

constexpr size_t kMostHeader = 400;    // bytes between a mark and what it announces
constexpr size_t kMostWaiting = 8192;  // behind a tag that may have ended a call, until a value's own end is given up

}  // namespace

ToolCallSplitter::ToolCallSplitter(ToolForm form, std::set<std::string> names, bool only_one, TextParameters texts)
    : form_(form), names_(std::move(names)), only_one_(only_one), texts_(std::move(texts)), loose_(names_, texts_, only_one) {
    switch (form) {
        case ToolForm::kTagged:
        case ToolForm::kPairs:
        case ToolForm::kParameters:
            opens_ = {tool_marks::kTagOpen};
            break;
        case ToolForm::kList:
        case ToolForm::kNamed:
            opens_ = {tool_marks::kListOpen};
            break;
        case ToolForm::kBare:
            opens_ = {tool_marks::kPython};
            break;
        case ToolForm::kHarmony:
            opens_ = {tool_marks::kCommentary, tool_marks::kAnalysisTo};
            break;
        case ToolForm::kFenced:
            opens_ = {tool_marks::kFence};
            break;
    }
}

bool ToolCallSplitter::is_part_of_mark(std::string_view name) const {
    if (name.empty()) { return false; }
    if (form_ == ToolForm::kHarmony) {
        return std::ranges::find(tool_marks::kHarmonyNames, name) != std::end(tool_marks::kHarmonyNames);
    }
    if (form_ == ToolForm::kNamed && (name == tool_marks::kArguments || name == tool_marks::kCallId)) { return true; }
    if (is_argument_tag(form_, name)) { return true; }
    if ((form_ == ToolForm::kTagged || has_tagged_arguments(form_)) && name == tool_marks::kTagClose) { return true; }
    return std::ranges::find(opens_, name) != opens_.end();
}

// It may still be a call in another form.
void ToolCallSplitter::say(std::string_view text, Pieces & out) {
    if (text.find_first_not_of(kBlanks) != std::string_view::npos) {
        said_ = true;
        begins_message_ = false;
    }
    tell(loose_.add(text, out.content), out);
}

void ToolCallSplitter::tell(std::vector<TaggedCall> calls, Pieces & out) {
    for (TaggedCall & call : calls) {
        out.calls.push_back({n_calls_++, std::move(call.name), std::move(call.arguments)});
        ++n_whole_;
        said_ = true;
    }
}

// It was no call.
void ToolCallSplitter::give_back(Pieces & out) {
    state_ = State::kText;
    said_ = true;  // what stands in it is not looked at again
    begins_message_ = false;
    say(std::exchange(raw_, {}), out);
}

void ToolCallSplitter::begin_object() {
    state_ = State::kObject;
    scanner_ = CallScanner();
    named_ = false;
}

void ToolCallSplitter::begin_call(const std::string & name, Pieces & out) {
    tell(loose_.meet_call(out.content), out);
    named_ = true;
    has_arguments_ = false;
    raw_.clear();
    out.calls.push_back({n_calls_++, name, ""});
}

void ToolCallSplitter::add_arguments(std::string text, Pieces & out) {
    if (text.empty()) { return; }
    has_arguments_ = true;
    out.calls.push_back({n_calls_ - 1, "", std::move(text)});
}

void ToolCallSplitter::end_call(Pieces & out) {
    if (!has_arguments_) { add_arguments("{}", out); }
    ++n_whole_;
    said_ = true;
    state_ = State::kBehind;
}

bool ToolCallSplitter::step_text(Pieces & out) {
    // At the beginning an object by itself may be a call.
    const bool may_be_bare = !said_ && form_ == ToolForm::kBare;
    const size_t first = waiting_.find_first_not_of(kBlanks);
    if (may_be_bare && first != std::string::npos && waiting_[first] == '{') {
        raw_ = waiting_.substr(0, first);
        waiting_.erase(0, first);
        marked_ = false;
        begin_object();
        return true;
    }
    // gpt-oss may begin with whom it speaks to, behind the end of its prompt or of a message.
    if (form_ == ToolForm::kHarmony && (!said_ || begins_message_) && first != std::string::npos) {
        const std::string_view text = std::string_view(waiting_).substr(first);
        if (text.starts_with(tool_marks::kRecipient)) {
            raw_.clear();
            state_ = State::kHeader;
            return true;
        }
        if (tool_marks::kRecipient.starts_with(text)) { return false; }
    }
    size_t at = std::string::npos;
    std::string_view found;
    size_t n_kept = 0;
    const auto look_for = [&](std::string_view mark) {
        if (const size_t here = waiting_.find(mark); here < at) {
            at = here;
            found = mark;
        }
        for (size_t n = std::min(waiting_.size(), mark.size() - 1); n > n_kept; --n) {
            if (waiting_.ends_with(mark.substr(0, n))) {
                n_kept = n;
                break;
            }
        }
    };
    for (const std::string_view mark : opens_) { look_for(mark); }
    if (form_ == ToolForm::kHarmony) {
        for (const std::string_view mark : {tool_marks::kEnd, tool_marks::kAssistant}) { look_for(mark); }
    }
    if (at == std::string::npos) {
        const size_t n = waiting_.size() - n_kept;
        say(std::string_view(waiting_).substr(0, n), out);
        waiting_.erase(0, n);
        return false;
    }
    say(std::string_view(waiting_).substr(0, at), out);
    waiting_.erase(0, at + found.size());
    if (std::ranges::find(opens_, found) == opens_.end()) {  // a mark around what is said
        begins_message_ = true;
        return true;
    }
    raw_ = found;
    marked_ = true;
    state_ = has_tagged_arguments(form_) ? State::kInside : State::kHeader;
    return true;
}

// Where the call ends that has begun: a value may hold the very tag that ends calls, where a value's own end follows. npos: not
// yet.
size_t ToolCallSplitter::end_of_inside() const {
    const bool pairs = form_ == ToolForm::kPairs;
    const std::string_view opens = pairs ? tool_marks::kValueOpen : tool_marks::kParameterOpen;
    const std::string_view closes = pairs ? tool_marks::kValueClose : tool_marks::kParameterClose;
    const std::string_view text = waiting_;
    for (size_t from = 0;;) {
        const size_t end = text.find(tool_marks::kTagClose, from);
        const size_t value = end == std::string_view::npos ? end : text.rfind(opens, end);
        if (value == std::string_view::npos) { return end; }
        const size_t close = text.find(closes, value);
        const std::string_view before = trim(text.substr(0, end));
        const bool is_whole = !pairs && (before.ends_with(tool_marks::kFunctionClose) || before.starts_with('{'));
        if (close < end || is_whole) { return end; }
        // One that was never closed ends with its call.
        if (text.find(tool_marks::kTagOpen, end) < close) { return end; }
        if (close == std::string_view::npos) { return text.size() - end > kMostWaiting ? end : close; }
        from = close;
    }
}

// All that stands between the tags of a call: its arguments are no JSON, so it is told when it is whole.
bool ToolCallSplitter::step_inside(Pieces & out) {
    const size_t end = end_of_inside();
    if (end == std::string::npos) { return false; }
    const std::string inside = waiting_.substr(0, end);
    waiting_.erase(0, end + tool_marks::kTagClose.size());
    const auto call = read_tagged_call(form_, inside, texts_);
    if (!call || !names_.contains(call->name)) {
        raw_ += inside + std::string(tool_marks::kTagClose);
        give_back(out);
        return true;
    }
    begin_call(call->name, out);
    add_arguments(call->arguments, out);
    end_call(out);
    return true;
}

// Between a mark and the call's object or arguments.
bool ToolCallSplitter::step_header(Pieces & out) {
    if (form_ == ToolForm::kHarmony) {
        const size_t end = waiting_.find(tool_marks::kMessage);
        if (end > kMostHeader - tool_marks::kMessage.size()) {
            if (waiting_.size() < kMostHeader) { return false; }
            give_back(out);
            return true;
        }
        const std::string header = waiting_.substr(0, end);
        waiting_.erase(0, end + tool_marks::kMessage.size());
        const size_t at = header.find(tool_marks::kRecipient);
        if (at == std::string::npos) {  // said to the user, before calls
            raw_.clear();
            state_ = State::kText;
            return true;
        }
        const size_t begin = at + tool_marks::kRecipient.size();
        const std::string name = header.substr(begin, header.find_first_of(" <\n", begin) - begin);
        if (!names_.contains(name)) {
            raw_ += header + std::string(tool_marks::kMessage);
            give_back(out);
            return true;
        }
        begin_call(name, out);
        state_ = State::kArguments;
        depth_ = 0;
        return true;
    }
    const bool is_list = form_ == ToolForm::kList || form_ == ToolForm::kNamed;
    const size_t first = waiting_.find_first_not_of(is_list ? " \t\r\n[" : kBlanks);
    if (first == std::string::npos) { return false; }
    if (waiting_[first] == '{') {
        raw_ += waiting_.substr(0, first);
        waiting_.erase(0, first);
        begin_object();
        return true;
    }
    if (!is_list) {
        give_back(out);
        return true;
    }
    // name[ARGS]{…}, name[CALL_ID]…[ARGS]{…}; the marks may be tokens that have no text.
    const size_t brace = waiting_.find('{', first);
    if (brace >= kMostHeader) {
        if (waiting_.size() < kMostHeader) { return false; }
        give_back(out);
        return true;
    }
    const size_t end =
        std::min({brace, waiting_.find(tool_marks::kArguments, first), waiting_.find(tool_marks::kCallId, first)});
    std::string name = waiting_.substr(first, end - first);
    while (!name.empty() && is_blank(name.back())) { name.pop_back(); }
    raw_ += waiting_.substr(0, brace);
    waiting_.erase(0, brace);
    if (!names_.contains(name)) {
        give_back(out);
        return true;
    }
    begin_call(name, out);
    state_ = State::kArguments;
    depth_ = 0;
    return true;
}

bool ToolCallSplitter::step_object(Pieces & out) {
    // By its keys, where no mark stands in front, or by its name.
    const auto is_no_call = [this] {
        return !named_ &&
               ((!marked_ && scanner_.is_foreign()) || (!scanner_.name().empty() && !names_.contains(scanner_.name())));
    };
    size_t n = 0;
    while (n < waiting_.size() && !scanner_.done() && !is_no_call()) {
        scanner_.add(waiting_[n++]);
        const bool is_call = !scanner_.name().empty() && (marked_ || scanner_.has_arguments());
        if (is_call && !named_ && !is_no_call()) { begin_call(scanner_.name(), out); }
    }
    if (!named_) { raw_ += waiting_.substr(0, n); }
    waiting_.erase(0, n);
    if (is_no_call()) {
        give_back(out);
        return true;
    }
    if (named_) { add_arguments(scanner_.take_arguments(), out); }
    if (!scanner_.done()) { return false; }
    if (named_) {
        end_call(out);
    } else {
        give_back(out);
    }
    return true;
}

// An object by itself, the arguments.
bool ToolCallSplitter::step_arguments(Pieces & out) {
    std::string more;
    bool whole = false;
    size_t n = 0;
    for (; n < waiting_.size() && !whole; ++n) {
        const char c = waiting_[n];
        if (depth_ == 0 && c != '{') {
            if (is_blank(c)) { continue; }
            whole = true;  // no object: the call has no arguments
            break;
        }
        if (in_string_) {
            add_in_json_string(c, escaped_, more);
            in_string_ = escaped_ || c != '"';
            escaped_ = !escaped_ && c == '\\';
            continue;
        }
        more += c;
        in_string_ = c == '"';
        depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        whole = depth_ == 0;
    }
    waiting_.erase(0, n);
    add_arguments(std::move(more), out);
    if (!whole) { return false; }
    end_call(out);
    return true;
}

// Behind a call: what closes it, another, or more that is said.
bool ToolCallSplitter::step_behind(Pieces & out) {
    const size_t first = waiting_.find_first_not_of(kBlanks);
    if (first == std::string::npos) { return false; }
    const std::string_view text = std::string_view(waiting_).substr(first);
    std::vector<std::string_view> closes = {",", ";"};
    switch (form_) {
        case ToolForm::kTagged:
            closes = {tool_marks::kTagClose};
            break;
        case ToolForm::kPairs:
        case ToolForm::kParameters:
            closes = {};
            break;
        case ToolForm::kList:
        case ToolForm::kNamed:
            closes = {",", "]"};
            break;
        case ToolForm::kFenced:
            closes = {tool_marks::kFenceEnd, ",", ";"};
            break;
        case ToolForm::kHarmony:
            closes = {tool_marks::kCall, tool_marks::kEnd, tool_marks::kAssistant};
            break;
        case ToolForm::kBare:
            break;
    }
    const bool is_fence = form_ == ToolForm::kFenced && text.starts_with(tool_marks::kFence);
    if (form_ == ToolForm::kFenced && tool_marks::kFence.starts_with(text) && !is_fence) {
        return false;
    }  // this one's end, or the next
    for (const std::string_view mark : closes) {
        if (text.starts_with(mark) && !is_fence) {
            waiting_.erase(0, first + mark.size());
            begins_message_ = form_ == ToolForm::kHarmony;
            return true;
        }
        if (mark.starts_with(text)) { return false; }
    }
    if (text.front() == '{' && form_ != ToolForm::kHarmony && !has_tagged_arguments(form_)) {
        waiting_.erase(0, first);
        raw_.clear();
        begin_object();
        return true;
    }
    for (const std::string_view mark : opens_) {
        if (mark.starts_with(text) && mark != text) { return false; }
    }
    state_ = State::kText;
    return step_text(out);
}

bool ToolCallSplitter::step(Pieces & out) {
    if (waiting_.empty()) { return false; }
    switch (state_) {
        case State::kText:
            return step_text(out);
        case State::kHeader:
            return step_header(out);
        case State::kInside:
            return step_inside(out);
        case State::kObject:
            return step_object(out);
        case State::kArguments:
            return step_arguments(out);
        case State::kBehind:
            return step_behind(out);
    }
    return false;
}

ToolCallSplitter::Pieces ToolCallSplitter::add(std::string_view text) {
    Pieces out;
    waiting_ += text;
    while (!is_over() && step(out)) {}
    if (is_over()) { waiting_.clear(); }
    return out;
}

ToolCallSplitter::Pieces ToolCallSplitter::finish() {
    Pieces out;
    if (is_over()) { return out; }
    const bool is_open = state_ == State::kHeader || state_ == State::kInside;
    if (is_open || (state_ == State::kObject && !named_)) { give_back(out); }
    if (state_ == State::kText) { say(std::exchange(waiting_, {}), out); }
    tell(loose_.finish(out.content), out);
    return out;
}

}  // namespace pith
