// auto_budget.cpp - the line.
#include "app/run/auto_budget.h"

#include <string>

#include "common/base/errors.h"
#include "core/text.h"

namespace pith::app {

void AutoBudget::look_at(const Session & session) {
    if (!waiting_) { return; }
    const Ledger & ledger = session.ledger();
    if (ledger.evicted_entries == 0) { return; }
    waiting_ = false;
    warn("--budget auto: the memory that is left here holds " + with_commas(ledger.budget_entries) +
         " tokens per head, and the text is longer: what matters less is evicted from now on");
}

}  // namespace pith::app
