// fields.h - the fields of a JSON object, read by name and type. Stage: serve.
//
// A field that is missing, or null, leaves the value as it was. Errors, all kInvalidArgument, name the field, what it is and
// what it may be.   Threads: one at a time.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/shapes/json.h"

namespace pith::serve {

inline Status wrong(Wording message) {
    return {ErrorCode::kInvalidArgument, std::move(message)};
}

// 'temperature': a field as messages name it; the first that one names is the error's `param`.
inline Wording field(std::string_view name) {
    return "'" + Item{name} + "'";
}

class Fields {
public:
    // REQUIRES: an object, which must live as long as this.
    explicit Fields(const Json & object) : object_(object) {}

    // nullptr: missing or null.
    const Json * find(std::string_view name);
    bool has(std::string_view name) { return find(name) != nullptr; }

    Status read(std::string_view name, bool & value);
    Status read(std::string_view name, float & value);
    Status read(std::string_view name, std::string & value);
    Status read(std::string_view name, int & value, int64_t low, int64_t high);
    Status read(std::string_view name, int64_t & value, int64_t low, int64_t high);
    // One text, or a list of them.
    Status read(std::string_view name, std::vector<std::string> & values);

    // The messages of a chat, one or more.
    Status read_messages(const Json *& list);

    // A field that nobody has asked for is somebody else's, unless its name is nearly that of one that was: then it was
    // misspelt, and what it asks for would be lost.
    Status check_spelling() const;

private:
    const Json & object_;
    std::set<std::string, std::less<>> asked_;
};

// "'temperature' is \"x\": give a number"
Status wrong_field(std::string_view name, const Json & value, const std::string & wanted);

}  // namespace pith::serve
