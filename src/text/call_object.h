// call_object.h - a JSON object that may be a call in a form that no template asks for. Stage: text.
//
//   {"name": "f", "arguments": {…}}                                  what most models fall back to
//   {{"name": "f", "arguments": {…}}}                                braces doubled, as templates print them in their examples
//   {"type": "function", "function": {"name": "f", "arguments": {…}}}  OpenAI's
//   also "parameters", "args" or "input"; "function", "tool", "tool_name" for the name; arguments as JSON in a string
// Told character by character, so that an object that is no call is known as one at its first foreign key or name, and what
// stands behind it need not wait.   Threads: one at a time. Cost: linear.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "text/tagged_call.h"

namespace pith {

// A byte inside a string, behind a backslash where escaped. Line breaks and tabs, which JSON forbids there and models write in
// code, are escaped.
void add_in_json_string(char c, bool escaped, std::string & json);

class CallObject {
public:
    enum class State { kOpen, kWhole, kNone };  // kNone: it is no call

    // The next character, first a '{'. kNone: it does not belong; what came before may still be a call (is_nearly_whole()).
    // names: of the functions there are.
    State add(char c, const std::set<std::string> & names);
    // Only braces are missing: models forget them.
    bool is_nearly_whole() const { return has_name_ && has_arguments_ && !in_string_ && expects_ == Expects::kNext; }
    // The call, with the braces that are missing. Nothing: it is none after all, as arguments are no object, or are what
    // describes the function. may_be_bare: a name by itself will do.
    std::optional<TaggedCall> read(bool may_be_bare) const;

private:
    enum class Expects { kKey, kColon, kValue, kNext };
    enum class Key { kNone, kName, kArguments, kWrapper, kOther };

    bool at_call() const { return depth() <= level_; }
    size_t depth() const { return open_.size(); }
    static Key kind_of(const std::string & key);
    bool begin_value(char c);
    bool open(char c);
    bool close(char c);
    bool end_string(const std::set<std::string> & names);
    bool add_scalar(char c);
    void add_in_string(char c);
    void end_value();

    std::string open_;        // the brackets that are open; a doubled brace counts once
    std::string text_;        // all of it, as JSON
    size_t level_ = 1;        // of the object with the name
    bool just_open_ = false;  // a brace, and nothing behind it
    Expects expects_ = Expects::kKey;
    std::string key_;
    bool in_string_ = false;
    bool escaped_ = false;
    size_t string_at_ = 0;  // in text_
    bool in_scalar_ = false;
    bool has_name_ = false;
    bool has_arguments_ = false;
    size_t arguments_at_ = 0;  // in text_
    size_t arguments_end_ = 0;
    std::string name_;
};

}  // namespace pith
