// policy.h - a named composition: [gated +] scorer [+ refiner] [+ allocator] [+ selector]. Stage: all pure ones.
// Pure C++: no ggml, no I/O.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pith/status.h"
#include "policy/evidence/evidence.h"

namespace pith {

class Scorer;
class Refiner;
class Allocator;
class Selector;

// What the model was loaded with.
enum class KnownGates {
    kNone,
    kThreshold,  // trained to evict what is not above a threshold
    kRank,       // they say how much an entry matters, and a budget decides
};

// Grammar: parts joined by '+', options after ':', e.g. "snapkv:window=16:pool=avg5+ada:alpha=0.2"; aliases in policy.cpp.
// Immutable after parse; copies share the parts. Threads: const-safe.
class Policy {
public:
    // Texts of users become policies in a PolicyChoice, and nowhere else.
    // Errors: kInvalidArgument naming the part or option, with the nearest known name; two parts of one kind; `auto`, which is
    // none but stands for one (auto_policy.h).
    static Result<Policy> parse(std::string_view text);

    // Copies of one: of the same name, and with the same parts.
    bool operator==(const Policy &) const = default;

    const std::string & name() const { return name_; }  // as the user wrote it
    bool evicts() const;                                // false for `full`
    EvidenceNeeds needs() const;
    bool gated() const { return gated_; }  // entries that the model's gates say no to are never cached
    bool needs_gate() const;               // gated, or scored by what gates say
    // Errors: kInvalidArgument: it needs gates and the model has none, or has some that only rank.
    Status check_gates(KnownGates gates) const;
    // What its scorer needs is what the newest queries attended to: it keeps what they look for, as though they asked. Each
    // scorer says so by its needs().
    bool judges_by_newest_queries() const;
    // Its scorer needs the text to be read again before anything is evicted: a second pass over what is new.
    bool rereads() const { return evicts() && needs().reread_max; }
    // Its scorer is a function of its user's: another process may know another by that name.
    bool is_custom() const;
    bool wants_importance() const;       // EvictionTarget::importance must be given
    bool ranks_across_layers() const;    // scores of different layers' entries are compared
    bool wants_all_layers() const;       // a one-shot prefill cannot evict before its last layer
    bool keeps_less() const;             // it may keep less than the budget, also of what fits in that
    int n_sinks() const;                 // protected first positions
    int n_recent(int64_t budget) const;  // protected newest entries of each lane under this mean budget
    // Why the policy chooses nothing where it keeps so many entries a lane of a longer text: what it protects, or gives every
    // lane alike, takes them all. Empty: it chooses.
    std::string why_no_choice(int64_t budget) const;

    const Scorer & scorer() const { return *scorer_; }
    const Refiner * refiner() const { return refiner_.get(); }  // may be null
    const Allocator & allocator() const { return *allocator_; }
    const Selector & selector() const { return *selector_; }

private:
    std::string name_;
    bool gated_ = false;
    std::shared_ptr<const Scorer> scorer_;
    std::shared_ptr<const Refiner> refiner_;
    std::shared_ptr<const Allocator> allocator_;
    std::shared_ptr<const Selector> selector_;
};

}  // namespace pith
