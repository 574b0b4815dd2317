// loose_calls.cpp - byte by byte: text, the marks in front of a call, the call, what closes it. Stage: text.
#include "text/loose_calls.h"

#include <algorithm>
#include <utility>

#include "core/json_syntax.h"
#include "core/text.h"
#include "text/tool_marks.h"

namespace pith {
namespace {

using tool_marks::is_blank;
using tool_marks::kBlanks;

constexpr size_t kMostInfo = 20;  // bytes of the word behind a fence
constexpr size_t kMostName = 200;
constexpr int kMostMarks = 3;

bool is_of_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+';
}

// Whether one of the texts begins so; is_whole: and is no longer.
template <class Texts>
bool begins_one_of(const Texts & texts, std::string_view word, bool is_whole) {
    return std::ranges::any_of(texts, [&](std::string_view text) { return is_whole ? text == word : text.starts_with(word); });
}

}  // namespace

LooseCalls::LooseCalls(std::set<std::string> names, TextParameters texts, bool only_one)
    : names_(std::move(names)), texts_(std::move(texts)), only_one_(only_one) {}

// --- what is said, and what may be a call ---

// Blanks at the end wait: in front of a call they are nothing that was said.
void LooseCalls::say(std::string_view text, std::string & content) {
    blocks_.add(text);
    const size_t end = text.find_last_not_of(kBlanks) + 1;  // 0: nothing but blanks
    if (end > 0) {
        content += std::exchange(blanks_, {});
        content += text.substr(0, end);
    }
    blanks_ += text.substr(end);
}

// What follows is said in the block that a call began, if its fence has not been closed.
void LooseCalls::leave_call() {
    if (!std::exchange(is_behind_, false)) { return; }
    blocks_.begin_line(std::exchange(n_open_, 0));
}

// It was no call. What stands in it is not looked at again.
void LooseCalls::let_go(std::string & content) {
    leave_call();
    in_json_ = in_json_ || (state_ == State::kObject && n_ticks_ == 0);
    state_ = State::kText;
    say(std::exchange(held_, {}), content);
}

void LooseCalls::begin(State state) {
    state_ = state;
    held_.clear();
    word_.clear();
    n_ticks_ = 0;
    n_marks_ = 0;
    is_list_ = false;
}

void LooseCalls::begin_object() {
    state_ = State::kObject;
    object_.emplace();
}

void LooseCalls::end_call(TaggedCall call) {
    found_.push_back(std::move(call));
    ++n_calls_;
    if (n_ticks_ > 0) { n_open_ = n_ticks_; }
    is_behind_ = true;
    blanks_.clear();
    begin(State::kBehind);
}

bool LooseCalls::step_text(char c, std::string & content) {
    if (blocks_.is_behind_blank_line()) { in_json_ = false; }
    if (!blocks_.is_inside()) {
        const bool may_be_bare = blocks_.begins_line() && !in_json_;
        const State next = c == '`'                  ? State::kTicks
                           : c == '<'                ? State::kMark
                           : c == '[' && may_be_bare ? State::kMark
                           : c == '{' && may_be_bare ? State::kObject
                                                     : State::kText;
        if (next != State::kText) {
            begin(next);
            if (next == State::kObject) { begin_object(); }
            return false;
        }
    }
    say({&c, 1}, content);
    return true;
}

// --- marks in front of a call ---

bool LooseCalls::step_ticks(char c, std::string & content) {
    if (c == '`') {
        held_ += c;
        ++n_ticks_;
        return true;
    }
    if (n_ticks_ < CodeBlocks::kFewestTicks) {
        n_ticks_ = 0;
        let_go(content);
    } else {
        word_.clear();
        state_ = State::kInfo;
    }
    return false;
}

bool LooseCalls::step_info(char c, std::string & content) {
    if (c == '\n' || c == '{' || c == '[' || c == '<') {
        state_ = State::kOpening;
        return false;
    }
    if (!is_blank(c) && !(is_of_word(c) && word_.size() < kMostInfo)) {
        let_go(content);
        return false;
    }
    word_ += c;
    held_ += c;
    return true;
}

bool LooseCalls::step_opening(char c, std::string & content) {
    if (is_blank(c)) {
        held_ += c;
    } else if (c == '{') {
        begin_object();
        return false;
    } else if (!is_list_ && (c == '<' || c == '[') && n_marks_ < kMostMarks) {
        word_.clear();
        state_ = State::kMark;
        return false;
    } else if (!is_list_ && c == '`' && n_ticks_ == 0) {
        state_ = State::kTicks;
        return false;
    } else {
        let_go(content);
        return false;
    }
    return true;
}

bool LooseCalls::step_mark(char c, std::string & content) {
    const std::string word = word_ + c;
    const bool is_function = tool_marks::kFunctionOpen.starts_with(word);
    if (word == "[" || is_function || begins_one_of(tool_marks::kLooseOpens, word, /*is_whole=*/false)) {
        held_ += c;
        word_ = word;
        if (word == tool_marks::kFunctionOpen) {
            word_.clear();
            state_ = State::kTagged;
        } else if (begins_one_of(tool_marks::kLooseOpens, word, /*is_whole=*/true)) {
            ++n_marks_;
            state_ = State::kOpening;
        }
        return true;
    }
    is_list_ = word_ == "[";
    if (is_list_) {
        state_ = State::kOpening;
    } else {
        let_go(content);
    }
    return false;
}

// --- calls ---

bool LooseCalls::step_object(char c, std::string & content) {
    const CallObject::State state = object_->add(c, names_);
    const bool is_taken = state != CallObject::State::kNone;
    if (is_taken) { held_ += c; }
    if (state == CallObject::State::kOpen) { return true; }
    const bool is_whole = state == CallObject::State::kWhole || object_->is_nearly_whole();
    auto call = is_whole ? object_->read(/*may_be_bare=*/n_marks_ > 0) : std::nullopt;
    if (call) {
        end_call(std::move(*call));
    } else {
        let_go(content);
        in_json_ = in_json_ && !is_taken;  // all of it has been said
    }
    return is_taken;
}

// name>, then a JSON object or <parameter=key> for each argument, then </function>.
std::optional<TaggedCall> LooseCalls::tagged_call() const {
    const size_t end = word_.find('>');
    if (end == std::string::npos) { return std::nullopt; }
    std::string_view body = trim(std::string_view(word_).substr(end + 1));
    if (body.ends_with(tool_marks::kFunctionClose)) { body.remove_suffix(tool_marks::kFunctionClose.size()); }
    body = trim(body);
    if (body.starts_with('{')) {
        if (!json_problem(body).empty()) { return std::nullopt; }
        return TaggedCall{std::string(trim(std::string_view(word_).substr(0, end))), std::string(body)};
    }
    return read_tagged_call(ToolForm::kParameters, std::string(tool_marks::kFunctionOpen) + word_, texts_);
}

bool LooseCalls::step_tagged(char c, std::string & content) {
    const bool is_named = word_.find('>') != std::string::npos;
    if (!is_named &&
        (c == '<' || c == '\n' || word_.size() >= kMostName || (c == '>' && !names_.contains(std::string(trim(word_)))))) {
        let_go(content);
        return false;
    }
    word_ += c;
    held_ += c;
    if (!is_named) { return true; }
    if (word_.ends_with(tool_marks::kFunctionClose)) {
        if (auto call = tagged_call()) {
            end_call(std::move(*call));
        } else {
            let_go(content);
        }
        return true;
    }
    const std::string_view body = trim(std::string_view(word_).substr(word_.find('>') + 1, kMostName));
    const bool may_be =
        body.empty() || body.starts_with('{') || begins_one_of(tool_marks::kTaggedBody, body.substr(0, 11), false);
    if (!may_be) { let_go(content); }
    return true;
}

// --- behind a call ---

// A mark, or a part of one, in what closes a call.
bool LooseCalls::step_close(char c, std::string & content) {
    const std::string word = word_ + c;
    const bool is_fence = word_.front() == '`';
    if (is_fence ? c == '`' : begins_one_of(tool_marks::kLooseCloses, word, /*is_whole=*/false)) {
        word_ = word;
        const bool is_whole =
            is_fence ? word.size() == n_open_ : begins_one_of(tool_marks::kLooseCloses, word, /*is_whole=*/true);
        if (is_whole) {
            if (is_fence) { n_open_ = 0; }
            held_.clear();
            word_.clear();
        }
        return true;
    }
    // None: the beginning of another call, or said.
    const std::string again = std::exchange(word_, {});
    blanks_ += std::exchange(held_, {});
    if (is_fence) {
        held_ = again;
        let_go(content);
    } else {
        begin(State::kMark);
        for (const char one : again) { take(one, content); }
    }
    return false;
}

bool LooseCalls::step_behind(char c, std::string & content) {
    if (!word_.empty()) { return step_close(c, content); }
    if (is_blank(c) || c == ',' || c == ';') {
        held_ += c;
        return true;
    }
    if (c == '}' || c == ']') {  // of a list, doubled, or too many
        held_.clear();
        return true;
    }
    if (c == '<' || (c == '`' && n_open_ > 0)) {
        word_ = c;
        return true;
    }
    blanks_ += std::exchange(held_, {});
    if (c == '{' || c == '[' || c == '`') {
        begin(c == '{' ? State::kObject : c == '[' ? State::kMark : State::kTicks);
        if (c == '{') { begin_object(); }
        return false;
    }
    let_go(content);
    return false;
}

// --- all of it ---

bool LooseCalls::step(char c, std::string & content) {
    switch (state_) {
        case State::kText:
            return step_text(c, content);
        case State::kTicks:
            return step_ticks(c, content);
        case State::kInfo:
            return step_info(c, content);
        case State::kOpening:
            return step_opening(c, content);
        case State::kMark:
            return step_mark(c, content);
        case State::kObject:
            return step_object(c, content);
        case State::kTagged:
            return step_tagged(c, content);
        case State::kBehind:
            return step_behind(c, content);
    }
    return true;
}

void LooseCalls::take(char c, std::string & content) {
    while (!is_over() && !step(c, content)) {}
}

std::vector<TaggedCall> LooseCalls::add(std::string_view text, std::string & content) {
    for (const char c : text) { take(c, content); }
    return std::exchange(found_, {});
}

// Nothing more comes that belongs to what is held.
void LooseCalls::end_candidate(std::string & content) {
    std::optional<TaggedCall> call;
    if (state_ == State::kObject && object_->is_nearly_whole()) { call = object_->read(/*may_be_bare=*/n_marks_ > 0); }
    if (state_ == State::kTagged) { call = tagged_call(); }
    if (call) {
        end_call(std::move(*call));
    } else if (state_ != State::kText && state_ != State::kBehind) {
        let_go(content);
    }
}

std::vector<TaggedCall> LooseCalls::finish(std::string & content) {
    const bool is_opening =
        state_ == State::kTicks || state_ == State::kInfo || state_ == State::kOpening || state_ == State::kMark;
    if (is_over() || (is_behind_ && (is_opening || state_ == State::kBehind))) { return std::exchange(found_, {}); }
    end_candidate(content);
    if (state_ == State::kText) { content += std::exchange(blanks_, {}); }
    return std::exchange(found_, {});
}

std::vector<TaggedCall> LooseCalls::meet_call(std::string & content) {
    const bool is_fence = n_ticks_ >= CodeBlocks::kFewestTicks && (state_ == State::kTicks || state_ == State::kInfo);
    const bool is_opening = is_fence || state_ == State::kOpening;
    if (!is_opening) { end_candidate(content); }
    blanks_.clear();
    if (state_ == State::kText && blocks_.is_inside()) { return std::exchange(found_, {}); }
    if (is_opening && n_ticks_ > 0) { n_open_ = n_ticks_; }
    is_behind_ = true;
    begin(State::kBehind);
    return std::exchange(found_, {});
}

}  // namespace pith
