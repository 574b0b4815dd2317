// reasoning.cpp - the marks there are, and a text between them. Stage: text.
#include "text/reasoning.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace pith {
namespace {

struct Known {
    std::string_view open;
    std::string_view close;
};
// Where templates and models have them: qwen3, deepseek-r1, glm4.5, smollm3, minimax-m2, hunyuan; seed-oss; magistral;
// command-a; exaone-deep; gemma 4.
constexpr Known kKnown[] = {{"<think>", "</think>"},     {"<seed:think>", "</seed:think>"},
                            {"[THINK]", "[/THINK]"},     {"<|START_THINKING|>", "<|END_THINKING|>"},
                            {"<thought>", "</thought>"}, {"<|channel>thought", "<channel|>"}};
constexpr std::string_view kChannel = "<|channel|>analysis<|message|>";  // gpt-oss

bool is_space(char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0;
}

std::string_view without_space_behind(std::string_view text) {
    while (!text.empty() && is_space(text.back())) { text.remove_suffix(1); }
    return text;
}

// How many bytes at the end of `text` may be the beginning of `mark`.
size_t begun(std::string_view text, std::string_view mark) {
    for (size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n) {
        if (text.ends_with(mark.substr(0, n))) { return n; }
    }
    return 0;
}

}  // namespace

ReasoningMarks reasoning_marks(std::string_view chat_template, std::string_view prompt_end) {
    const auto holds = [chat_template](std::string_view text) { return chat_template.find(text) != std::string_view::npos; };
    ReasoningMarks marks;
    if (holds(kChannel)) {
        marks.open = kChannel;
        marks.close = "<|end|>";
        marks.answer = "<|channel|>final<|message|>";
        marks.silent = {"<|start|>assistant", marks.answer, "<|channel|>commentary<|message|>", marks.close};
        return marks;
    }
    for (const Known & known : kKnown) {
        if (!holds(known.open) || !holds(known.close)) { continue; }
        marks.open = known.open;
        marks.close = known.close;
        marks.begins_open = without_space_behind(prompt_end).ends_with(known.open);
        return marks;
    }
    return marks;
}

bool ReasoningMarks::is_in(std::string_view text) const {
    return any() && (text.find(open) != std::string_view::npos || text.find(close) != std::string_view::npos);
}

bool ReasoningMarks::is_open_behind(std::string_view text) const {
    const size_t begin = any() ? text.rfind(open) : std::string_view::npos;
    return begin != std::string_view::npos && text.find(close, begin + open.size()) == std::string_view::npos;
}

bool ReasoningMarks::is_part_of_mark(std::string_view name) const {
    const auto is_in = [name](const std::string & mark) { return mark.find(name) != std::string::npos; };
    return !name.empty() && (is_in(open) || is_in(close) || std::ranges::any_of(silent, is_in));
}

ReasoningSplitter::ReasoningSplitter(ReasoningMarks marks, ByToken by_token)
    : marks_(std::move(marks)), by_token_(by_token), inside_(marks_.begins_open), begins_(inside_) {}

void ReasoningSplitter::drop(size_t n_bytes) {
    waiting_.erase(0, n_bytes);
    n_dropped_ += n_bytes;
}

size_t ReasoningSplitter::find_mark(std::string_view mark) const {
    size_t at = waiting_.find(mark);
    const bool by_token = inside_ ? by_token_.close : by_token_.silent && mark != marks_.open;
    while (by_token && at != std::string::npos && !tokens_.contains(n_dropped_ + at)) { at = waiting_.find(mark, at + 1); }
    return at;
}

void ReasoningSplitter::emit(std::string_view text, Pieces & out) {
    while (begins_ && !text.empty() && is_space(text.front())) { text.remove_prefix(1); }
    if (text.empty()) { return; }
    begins_ = false;
    said_ = said_ || (!inside_ && !std::ranges::all_of(text, is_space));
    (inside_ ? out.reasoning : out.answer) += text;
}

ReasoningSplitter::Pieces ReasoningSplitter::add(std::string_view text) {
    Pieces out;
    if (!marks_.any()) {
        out.answer = text;
        return out;
    }
    waiting_ += text;
    for (;;) {
        // What may come next, and the first of it that is there.
        std::vector<std::string_view> expected;
        if (inside_) {
            expected.push_back(marks_.close);
        } else {
            if (!said_) { expected.push_back(marks_.open); }
            expected.insert(expected.end(), marks_.silent.begin(), marks_.silent.end());
        }
        size_t at = std::string::npos;
        size_t n_kept = 0;
        std::string_view found;
        for (const std::string_view mark : expected) {
            const size_t here = find_mark(mark);
            if (here < at) {
                at = here;
                found = mark;
            }
            n_kept = std::max(n_kept, begun(waiting_, mark));
        }
        if (at == std::string::npos) {
            const std::string_view known = std::string_view(waiting_).substr(0, waiting_.size() - n_kept);
            if (!inside_ && !said_ && std::ranges::all_of(known, is_space)) { return out; }  // a thought may follow
            emit(known, out);
            drop(waiting_.size() - n_kept);
            return out;
        }
        const bool opens = !inside_ && found == marks_.open;
        // White space alone in front of an opening mark is no answer; behind an answer's beginning it is none.
        if (!opens || waiting_.find_first_not_of(" \t\r\n") < at) {
            emit(std::string_view(waiting_).substr(0, at), out);
            drop(at);
            at = 0;
            if (opens) { continue; }
        }
        const bool closes = inside_ && found == marks_.close;
        drop(at + found.size());
        if (opens || closes) { inside_ = opens; }
        begins_ = true;
    }
}

ReasoningSplitter::Pieces ReasoningSplitter::finish() {
    Pieces out;
    emit(waiting_, out);
    waiting_.clear();
    return out;
}

}  // namespace pith
