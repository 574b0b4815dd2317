// formulas.h - what the matrix compares the parts of a policy with: one formula for each, slow and obvious, written from the
// paper and not from src/.
//
// A formula is a constant in a test's file. Its constructor makes it known; the matrix finds it by the part's name and fails
// for a part that has none:
//
//   const Known<ScorerFormula> kKNorm({"knorm", [](const PartVariant & scorer, const LayerEvidence & evidence, int h) { … }});
#pragma once

#include <string_view>
#include <vector>

#include "policy/reference.h"
#include "policy/reference_parts.h"

namespace pith::test {

// "exact": the formula's arithmetic is the policy's own, so that no score may be off by a bit.
inline constexpr double kExact = 0;
inline constexpr double kRounded = 1e-5;

struct ScorerFormula {
    std::string_view name;
    // The scores of one lane's entries; higher = keep.
    std::vector<float> (*scores)(const PartVariant & scorer, const LayerEvidence & evidence, int kv_head);
    double tolerance = kRounded;  // how far the policy's scores may be off, relative to the largest of the lane
    bool by_position = false;     // as Scorer::by_position(): no policy has it beside a part that compares scores
    bool is_absolute = false;     // as Scorer::is_absolute(): only such a one goes with an allocator that may keep less
};

struct RefinerFormula {
    std::string_view name;
    // [K] from the scorer's [K] and [H]; `heads` is empty where the scorer has none.
    // net_budgets: [K] what each lane keeps beside what is protected, where all keep as many.
    Lanes (*refine)(const PartVariant & refiner, const LayerEvidence & evidence, const Lanes & base, const Lanes & heads,
                    const std::vector<int64_t> & net_budgets);
    double tolerance = kRounded;
};

struct AllocatorFormula {
    std::string_view name;
    // [n_lanes]. cascade: when layer n_arrived - 1 has just come, every layer before being cut already; else all have arrived.
    std::vector<double> (*weights)(const PartVariant & allocator, const ReferenceCase & c, int n_arrived, bool cascade);
    bool compares_scores = false;  // as Allocator::compares_scores()
    bool keeps_less = false;       // as Allocator::keeps_less(): weights count entries, and their sum is what is kept
};

struct SelectorFormula {
    std::string_view name;
    // [n_lanes] the kept entries, ascending, when the lanes have these shares beside what is protected.
    KeptLanes (*keep)(const PartVariant & selector, const ReferenceCase & c, const std::vector<int> & shares);
    bool compares_scores = true;  // as Selector::compares_scores()
};

template <class Formula>
class Known {
public:
    explicit Known(const Formula & formula) { all().push_back(formula); }

    // nullptr: there is none of this name.
    static const Formula * find(std::string_view name) {
        for (const Formula & formula : all()) {
            if (formula.name == name) { return &formula; }
        }
        return nullptr;
    }
    // Throws std::runtime_error that names the part where there is none.
    static const Formula & of(const PartVariant & part) {
        const Formula * formula = find(part.name);
        if (formula == nullptr) { missing(part.name); }
        return *formula;
    }

private:
    static std::vector<Formula> & all() {
        static std::vector<Formula> formulas;
        return formulas;
    }
};

}  // namespace pith::test
