// text_pattern.cpp - a pattern becomes a tree, and the tree from its end on a set of texts. Stage: text.
#include "text/text_pattern.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar.h"

namespace pith {
namespace {

using Id = RegularTexts::Id;
using Span = std::pair<char32_t, char32_t>;
using Spans = std::vector<Span>;

constexpr int kMostDepth = 100;
constexpr size_t kMostPattern = 4096;  // characters

const Spans kDigits = {{'0', '9'}};
const Spans kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Spans kBlanks = {{'\t', '\r'}, {' ', ' '}};
// What somebody takes for a blank.
const Spans kAnyBlanks = {{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                          {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                          {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Spans kLineBreaks = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
const Spans kBeyondAscii = {{0x80, kMostCharacter}};

Characters set_of(Spans spans) {
    return merged_spans(std::move(spans));
}
Characters all_but_these(const Spans & spans) {
    const Characters these = set_of(spans);
    Characters out;
    char32_t begin = 0;
    for (size_t i = 0; i < these.size(); i += 2) {
        if (these[i] > begin) { out.insert(out.end(), {begin, these[i] - 1}); }
        begin = these[i + 1] + 1;
    }
    if (begin <= kMostCharacter) { out.insert(out.end(), {begin, kMostCharacter}); }
    return out;
}
Spans spans_of(const Characters & set) {
    Spans out;
    for (size_t i = 0; i < set.size(); i += 2) { out.emplace_back(set[i], set[i + 1]); }
    return out;
}
void add(Spans & spans, const Spans & more) {
    spans.insert(spans.end(), more.begin(), more.end());
}

struct Node {
    enum class Kind : uint8_t { kSet, kSequence, kEither, kTimes, kAhead, kNotAhead, kBegin, kEnd };
    Kind kind = Kind::kSequence;
    Characters set;
    std::vector<Node> of;
    int low = 0;
    int high = 0;
    bool looks = false;  // something in it is of no width
};

class PatternReader {
public:
    explicit PatternReader(std::u32string_view text) : text_(text) {}

    Result<Node> read() {
        PITH_ASSIGN_OR_RETURN(Node all, alternatives());
        if (at_ < text_.size()) { return bad("a ')' too many"); }
        return all;
    }
    bool looks_for_absence() const { return looks_for_absence_; }

private:
    static Status bad(const std::string & what) { return {ErrorCode::kInvalidArgument, what}; }
    static Status unknown(const std::string & what) { return bad("'" + what + "' is not understood"); }
    bool at_end() const { return at_ == text_.size(); }
    char32_t here() const { return at_end() ? 0 : text_[at_]; }
    bool take(std::u32string_view what) {
        if (!text_.substr(at_).starts_with(what)) { return false; }
        at_ += what.size();
        return true;
    }

    Result<Node> alternatives() {
        Node out;
        out.kind = Node::Kind::kEither;
        do {
            PITH_ASSIGN_OR_RETURN(Node one, sequence());
            out.looks = out.looks || one.looks;
            out.of.push_back(std::move(one));
        } while (take(U"|"));
        if (out.of.size() == 1) { return std::move(out.of[0]); }
        return out;
    }

    Result<Node> sequence() {
        Node out;
        while (!at_end() && here() != '|' && here() != ')') {
            PITH_ASSIGN_OR_RETURN(Node one, atom());
            PITH_RETURN_IF_ERROR(repetition(one));
            out.looks = out.looks || one.looks;
            out.of.push_back(std::move(one));
        }
        return out;
    }

    // {m,n} or nothing that is one.
    bool counts(int & low, int & high) {
        const size_t begin = at_;
        const auto number = [&](int & value) {
            const size_t first = at_;
            int64_t n = 0;
            for (; here() >= '0' && here() <= '9'; ++at_) { n = std::min<int64_t>(n * 10 + (here() - '0'), 1 << 20); }
            value = static_cast<int>(n);
            return at_ > first;
        };
        bool good = take(U"{") && number(low);
        high = low;
        if (good && take(U",")) {
            if (!number(high)) { high = -1; }
        }
        good = good && take(U"}");
        if (!good) { at_ = begin; }
        return good;
    }
    Status repetition(Node & one) {
        int low = 0;
        int high = -1;
        if (take(U"*")) {
        } else if (take(U"+")) {
            low = 1;
        } else if (take(U"?")) {
            high = 1;
        } else if (here() != '{' || !counts(low, high)) {
            return {};
        }
        take(U"?");  // lazy: the same texts
        if (here() == '+' || here() == '*') { return unknown("a repetition of a repetition"); }
        if (high >= 0 && high < low) { return bad("a repetition ends before it begins"); }
        Node out;
        out.kind = Node::Kind::kTimes;
        out.low = low;
        out.high = high;
        out.looks = one.looks;
        out.of.push_back(std::move(one));
        one = std::move(out);
        return {};
    }

    static Node node(Node::Kind kind) {
        Node out;
        out.kind = kind;
        out.looks = true;
        return out;
    }
    static Node set(Characters characters) {
        Node out;
        out.kind = Node::Kind::kSet;
        out.set = std::move(characters);
        return out;
    }

    Result<Node> atom() {
        const char32_t c = here();
        if (c == '(') { return group(); }
        if (c == '[') { return bracketed(); }
        ++at_;
        if (c == '^') { return node(Node::Kind::kBegin); }
        if (c == '$') { return node(Node::Kind::kEnd); }
        if (c == '.') { return set(all_but_these(kLineBreaks)); }
        if (c == '*' || c == '+' || c == '?') { return bad("nothing stands before a repetition"); }
        if (c != '\\') { return set({c, c}); }
        if (take(U"A")) { return node(Node::Kind::kBegin); }
        if (take(U"Z") || take(U"z")) { return node(Node::Kind::kEnd); }
        Spans spans;
        PITH_RETURN_IF_ERROR(escape(spans));
        return set(set_of(std::move(spans)));
    }

    Result<Node> group() {
        if (depth_ == kMostDepth) { return bad("its groups are nested deeper than " + std::to_string(kMostDepth)); }
        ++at_;
        Node::Kind kind = Node::Kind::kSequence;
        if (take(U"?=")) {
            kind = Node::Kind::kAhead;
        } else if (take(U"?!")) {
            kind = Node::Kind::kNotAhead;
            looks_for_absence_ = true;
        } else if (take(U"?<=") || take(U"?<!")) {
            return unknown("(?<");
        } else if (take(U"?<") || take(U"?P<")) {
            while (!at_end() && here() != '>') { ++at_; }
            if (!take(U">")) { return bad("a group's name does not end"); }
        } else if (!take(U"?:") && here() == '?') {
            return unknown("(?");
        }
        ++depth_;
        PITH_ASSIGN_OR_RETURN(Node inside, alternatives());
        --depth_;
        if (!take(U")")) { return bad("a ')' is missing"); }
        if (kind == Node::Kind::kSequence) { return inside; }
        Node out = node(kind);
        out.of.push_back(std::move(inside));
        return out;
    }

    Status hexadecimal(size_t n, Spans & spans) {
        char32_t value = 0;
        for (size_t i = 0; i < n; ++i, ++at_) {
            const char32_t c = here();
            const bool is_digit = c >= '0' && c <= '9';
            const bool is_letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            if (!is_digit && !is_letter) { return bad("hexadecimal digits are missing"); }
            value = value * 16 + (is_digit ? c - '0' : (c | 0x20U) - 'a' + 10);
        }
        if (value >= 0xD800 && value <= 0xDFFF) { return unknown("\\ud…"); }
        spans.emplace_back(value, value);
        return {};
    }

    // Behind a backslash.
    Status escape(Spans & spans) {
        static const std::map<char32_t, char32_t> kSingle = {{'t', '\t'}, {'n', '\n'}, {'r', '\r'},
                                                             {'f', '\f'}, {'v', '\v'}, {'0', '\0'}};
        if (at_end()) { return bad("it ends behind a \\"); }
        const char32_t c = text_[at_++];
        if (const auto one = kSingle.find(c); one != kSingle.end()) {
            spans.emplace_back(one->second, one->second);
            return {};
        }
        Spans opposite;
        switch (c) {
            case 'd':
                add(spans, kDigits);
                return {};
            case 'w':
                add(spans, kWord);
                has_class_ = true;
                return {};
            case 's':
                add(spans, kBlanks);
                has_blanks_ = true;
                return {};
            case 'D':
            case 'W':
                opposite = c == 'D' ? kDigits : kWord;
                add(opposite, kBeyondAscii);
                add(spans, spans_of(all_but_these(opposite)));
                return {};
            case 'S':
                add(spans, spans_of(all_but_these(kAnyBlanks)));
                return {};
            case 'x':
                return hexadecimal(2, spans);
            case 'u':
                return hexadecimal(4, spans);
            default:
                break;
        }
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9');
        if (is_letter) { return unknown(std::string("\\") + static_cast<char>(c)); }
        spans.emplace_back(c, c);
        return {};
    }

    Result<Node> bracketed() {
        ++at_;
        const bool others = take(U"^");
        has_class_ = false;
        has_blanks_ = false;
        Spans spans;
        while (!take(U"]")) {
            if (at_end()) { return bad("a ']' is missing"); }
            Spans low;
            PITH_RETURN_IF_ERROR(of_class(low));
            const bool is_range = here() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
            if (!is_range) {
                add(spans, low);
                continue;
            }
            ++at_;
            Spans high;
            PITH_RETURN_IF_ERROR(of_class(high));
            const auto is_one = [](const Spans & some) { return some.size() == 1 && some[0].first == some[0].second; };
            if (!is_one(low) || !is_one(high)) {
                add(spans, low);
                add(spans, high);
                spans.emplace_back('-', '-');
                continue;
            }
            if (high[0].first < low[0].first) { return bad("a range ends before it begins"); }
            spans.emplace_back(low[0].first, high[0].first);
        }
        if (others && has_class_) { add(spans, kBeyondAscii); }  // where it is not the same everywhere what \w is
        if (others && has_blanks_) { add(spans, kAnyBlanks); }
        return set(others ? all_but_these(spans) : set_of(std::move(spans)));
    }
    Status of_class(Spans & spans) {
        const char32_t c = text_[at_++];
        if (c != '\\') {
            spans.emplace_back(c, c);
            return {};
        }
        if (take(U"b")) {
            spans.emplace_back('\b', '\b');
            return {};
        }
        if (here() == 'd') { has_class_ = true; }
        return escape(spans);
    }

    std::u32string_view text_;
    size_t at_ = 0;
    int depth_ = 0;
    bool has_class_ = false;   // \w or \d, in the brackets that are read
    bool has_blanks_ = false;  // \s
    bool looks_for_absence_ = false;
};

// The texts that a node and then `rest` say.
class PatternWriter {
public:
    explicit PatternWriter(RegularTexts & texts) : texts_(texts) {}

    // at_begin: nothing stands before it.
    Result<Id> write(const Node & node, Id rest, bool at_begin) {
        switch (node.kind) {
            case Node::Kind::kSet:
                return texts_.then(texts_.one_of(node.set), rest);
            case Node::Kind::kBegin:
                return at_begin ? rest : RegularTexts::kNothing;
            case Node::Kind::kEnd:
                return texts_.both({rest, RegularTexts::kEmpty});
            case Node::Kind::kAhead:
            case Node::Kind::kNotAhead: {
                PITH_ASSIGN_OR_RETURN(const Id ahead, write(node.of[0], RegularTexts::kAll, at_begin));
                return texts_.both({rest, node.kind == Node::Kind::kAhead ? ahead : texts_.all_but(ahead)});
            }
            case Node::Kind::kEither: {
                std::vector<Id> all;
                for (const Node & one : node.of) {
                    PITH_ASSIGN_OR_RETURN(const Id some, write(one, rest, at_begin));
                    all.push_back(some);
                }
                return texts_.either(std::move(all));
            }
            case Node::Kind::kSequence: {
                size_t n_before = 0;  // of no width
                while (n_before < node.of.size() && is_of_no_width(node.of[n_before])) { ++n_before; }
                for (size_t i = node.of.size(); i-- > 0;) {
                    PITH_ASSIGN_OR_RETURN(rest, write(node.of[i], rest, at_begin && i <= n_before));
                }
                return rest;
            }
            case Node::Kind::kTimes: {
                if (!node.looks) {
                    PITH_ASSIGN_OR_RETURN(const Id one, write(node.of[0], RegularTexts::kEmpty, false));
                    return texts_.then(texts_.times(one, node.low, node.high), rest);
                }
                if (node.high < 0 || node.high > 1) {
                    return {ErrorCode::kInvalidArgument, "a repetition of '^', '$' or '(?' is not understood"};
                }
                PITH_ASSIGN_OR_RETURN(const Id once, write(node.of[0], rest, at_begin));
                return node.low == 1 ? once : texts_.either({rest, once});
            }
        }
        return RegularTexts::kNothing;
    }

private:
    static bool is_of_no_width(const Node & node) {
        return node.kind != Node::Kind::kSet && node.kind != Node::Kind::kTimes && node.kind != Node::Kind::kEither &&
               node.kind != Node::Kind::kSequence;
    }
    RegularTexts & texts_;
};

}  // namespace

std::u32string characters_of(std::string_view utf8) {
    std::u32string out;
    for (size_t i = 0; i < utf8.size();) {
        const auto lead = static_cast<unsigned char>(utf8[i]);
        const size_t n_bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        char32_t c = n_bytes == 1 ? lead : lead & (0xFFU >> (n_bytes + 1));
        for (size_t k = 1; k < n_bytes && i + k < utf8.size(); ++k) {
            c = (c << 6U) | (static_cast<unsigned char>(utf8[i + k]) & 0x3FU);
        }
        out.push_back(c);
        i += n_bytes;
    }
    return out;
}

Result<Id> texts_with_pattern(RegularTexts & texts, std::string_view pattern) {
    const std::u32string characters = characters_of(pattern);
    if (characters.size() > kMostPattern) {
        return {ErrorCode::kInvalidArgument, "has more than " + std::to_string(kMostPattern) + " characters"};
    }
    PatternReader reader(characters);
    PITH_ASSIGN_OR_RETURN(const Node all, reader.read());
    PatternWriter writer(texts);
    const Id any = texts.one_of({0, kMostCharacter});
    PITH_ASSIGN_OR_RETURN(const Id first, writer.write(all, RegularTexts::kAll, /*at_begin=*/true));
    PITH_ASSIGN_OR_RETURN(const Id later, writer.write(all, RegularTexts::kAll, /*at_begin=*/false));
    const Id found = texts.either({first, texts.then(texts.times(any, first == later ? 0 : 1, -1), later)});
    if (!reader.looks_for_absence()) { return found; }
    // What is no line break to one reader's '.' is none to the other's.
    return texts.both({found, texts.times(texts.one_of(all_but_these({{'\r', '\r'}, {0x2028, 0x2029}})), 0, -1)});
}

}  // namespace pith
