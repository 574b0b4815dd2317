// status.h - results instead of exceptions: every fallible call below apps/ returns Status or Result<T>.
// Pure C++: no ggml, no I/O.
//
// A message names what its reader can set: a budget, a chunk. The library does not know how that is written where the reader
// is, as --budget, "kv_budget" or a field of a struct. So a Status keeps where in its message such names stand, and whoever
// shows it puts his own there: message(names).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pith {

enum class ErrorCode {
    kOk = 0,
    kInvalidArgument,  // an option or value the caller gave cannot be used
    kNotFound,         // a file, tensor or name does not exist
    kBadFile,          // a file is not what it should be: truncated, garbage, wrong kind
    kUnsupported,      // well-formed, but not something Pith runs
    kMissingEvidence,  // a scorer was not given what its needs() asked for
    kNotFinite,        // NaN or infinity where a number is required
    kBudget,           // the budget cannot hold what is protected
    kOutOfMemory,
    kIo,         // reading or writing failed
    kCancelled,  // the caller's cancel flag was seen
    kInternal,   // a broken invariant: a bug in Pith
};

std::string_view to_string(ErrorCode code);

// What a caller can set, by its name in the options of the C++ and C interfaces: "budget", "chunk".
struct Item {
    std::string_view name;
};

// How one kind of reader writes an item; gives the name back where there is no other.
using ItemNames = std::string_view (*)(std::string_view item);

// A message while it is put together: text, and where items' names stand in it. `item::kChunk + " 0: must be at least 1"`
class Wording {
public:
    struct Place {  // of a name in the text, in bytes
        size_t begin = 0;
        size_t size = 0;
    };

    Wording() = default;
    Wording(std::string text) : text_(std::move(text)) {}                             // NOLINT: implicit on purpose
    Wording(const char * text) : text_(text) {}                                       // NOLINT: implicit on purpose
    Wording(Item item) : text_(item.name), places_(1, Place{0, item.name.size()}) {}  // NOLINT: implicit on purpose

    const std::string & text() const { return text_; }
    const std::vector<Place> & places() const { return places_; }  // in the text's order
    Wording & operator+=(const Wording & more);
    Wording part(size_t begin, size_t end) const;  // these bytes of it; a name that they cut becomes text

private:
    std::string text_;
    std::vector<Place> places_;
};
Wording operator+(Wording begin, const Wording & end);

// A code and one line that names the thing, the value, the limit and what to do.
class [[nodiscard]] Status {
public:
    Status() = default;
    // What a message quotes may come from a file that somebody else made: control characters become '?', and of a message over
    // kMostMessageBytes the middle is left out.
    Status(ErrorCode code, Wording message);
    static constexpr size_t kMostMessageBytes = 2000;

    bool ok() const { return code_ == ErrorCode::kOk; }
    explicit operator bool() const { return ok(); }
    ErrorCode code() const { return code_; }
    const std::string & message() const { return message_.text(); }
    std::string message(ItemNames names) const;  // with these names for items
    // The item that the message names first: the one that is wrong, or that helps when it is changed. Empty: it names none.
    std::string_view item() const;
    // For a message that says more around this one, and keeps its items: status.wording() + " (" + name + ")".
    const Wording & wording() const { return message_; }

private:
    ErrorCode code_ = ErrorCode::kOk;
    Wording message_;
};

// A value, or the Status that says why there is none.
// REQUIRES: ok() before value(), * or ->.   Threads: as T.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
    Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose
    Result(ErrorCode code, Wording message) : status_(code, std::move(message)) {}

    bool ok() const { return value_.has_value(); }
    explicit operator bool() const { return ok(); }
    const Status & status() const { return status_; }

    T & value() & { return *value_; }
    const T & value() const & { return *value_; }
    T && value() && { return std::move(*value_); }
    T & operator*() & { return *value_; }
    const T & operator*() const & { return *value_; }
    T && operator*() && { return std::move(*value_); }
    T * operator->() { return &*value_; }
    const T * operator->() const { return &*value_; }

private:
    Status status_;
    std::optional<T> value_;
};

}  // namespace pith

// Return early with the Status of a failed call.
#define PITH_CONCAT_INNER(a, b) a##b
#define PITH_CONCAT(a, b) PITH_CONCAT_INNER(a, b)
#define PITH_RETURN_IF_ERROR(expr)                       \
    do {                                                 \
        ::pith::Status pith_status_ = (expr);            \
        if (!pith_status_.ok()) { return pith_status_; } \
    } while (false)
#define PITH_ASSIGN_OR_RETURN(lhs, expr) PITH_ASSIGN_OR_RETURN_IMPL(PITH_CONCAT(pith_result_, __LINE__), lhs, expr)
#define PITH_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
    auto tmp = (expr);                             \
    if (!tmp.ok()) { return tmp.status(); }        \
    lhs = std::move(tmp).value()
