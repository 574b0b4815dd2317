// auto_budget.h - `--budget auto` says, once, when the memory that it may take is full.
#pragma once

#include "pith/session.h"

namespace pith::app {

class AutoBudget {
public:
    explicit AutoBudget(const Budget & budget) : waiting_(budget.kind == BudgetKind::kAuto) {}
    // Call it when tokens have come. One line on stderr where the session has begun to evict.
    void look_at(const Session & session);

private:
    bool waiting_;
};

}  // namespace pith::app
