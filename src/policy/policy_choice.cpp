// policy_choice.cpp - where a policy's text becomes the policy: for flags, requests, C strings and files alike.
#include "pith/policy_choice.h"

#include <new>
#include <utility>

#include "core/text.h"
#include "policy/auto_policy.h"
#include "policy/named_policy.h"

namespace pith {

struct PolicyChoice::Impl {
    std::string name;
    bool is_auto = false;
    Result<Policy> policy;

    explicit Impl(std::string_view text) : name(trim(text)), is_auto(name == kAutoPolicy), policy(Policy::parse(name)) {}
    explicit Impl(Status why) : policy(std::move(why)) {}
    static const Impl & of(const PolicyChoice & choice) {
        static const Impl automatic(kAutoPolicy);
        return choice.impl_ ? *choice.impl_ : automatic;
    }
};

PolicyChoice::PolicyChoice(std::string_view text) {
    // A choice is made of a text on the way into a call, which says what went wrong instead of throwing it. So short a message
    // needs no memory.
    static const Impl kNoMemory(Status(ErrorCode::kOutOfMemory, "out of memory"));
    try {
        impl_ = std::make_shared<const Impl>(text);
    } catch (const std::bad_alloc &) { impl_ = std::shared_ptr<const Impl>(std::shared_ptr<const Impl>(), &kNoMemory); }
}

Result<PolicyChoice> PolicyChoice::parse(std::string_view text) {
    PolicyChoice choice(text);
    PITH_RETURN_IF_ERROR(choice.check());
    return choice;
}

Status PolicyChoice::check() const {
    return is_auto() ? Status() : named_policy(*this).status();
}

bool PolicyChoice::is_auto() const {
    return !impl_ || impl_->is_auto;
}

const std::string & PolicyChoice::name() const {
    return Impl::of(*this).name;
}

Result<Policy> named_policy(const PolicyChoice & choice) {
    return PolicyChoice::Impl::of(choice).policy;
}

}  // namespace pith
