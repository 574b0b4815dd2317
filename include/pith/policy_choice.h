// policy_choice.h - what to keep, as its user chose it: `auto`, or a policy.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith {

// A text is parsed once, where it becomes a choice; what travels from there is the policy itself. Immutable; copies share it.
// Threads: const-safe.
class PolicyChoice {
public:
    PolicyChoice() = default;  // auto
    // Throws nothing: a text that is no policy, or too little memory, makes a choice that check() refuses, and so does whatever
    // is made or done with it.
    PolicyChoice(std::string_view text);                                              // NOLINT: implicit on purpose
    PolicyChoice(const std::string & text) : PolicyChoice(std::string_view(text)) {}  // NOLINT: as above
    PolicyChoice(const char * text) : PolicyChoice(std::string_view(text)) {}         // NOLINT: as above

    // "auto", or parts joined by '+', options after ':', as `pith policies` lists them: "snapkv:window=16+ada".
    // Errors: kInvalidArgument naming the part or option, with the nearest known name; two parts of one kind.
    static Result<PolicyChoice> parse(std::string_view text);
    Status check() const;  // what parse() would have said

    bool is_auto() const;
    const std::string & name() const;  // as its user wrote it, without spaces around
    // By name: "snapkv" and "snapkv:window=32" are two choices, if of one policy.
    friend bool operator==(const PolicyChoice & a, const PolicyChoice & b) { return a.name() == b.name(); }

    struct Impl;

private:
    std::shared_ptr<const Impl> impl_;  // null: auto
};

}  // namespace pith
