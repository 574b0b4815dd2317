// text_length.cpp - the refusal and the warning.
#include "app/run/text_length.h"

#include <utility>

#include "common/base/errors.h"
#include "core/text.h"

namespace pith::app {

Status check_context_size(const std::string & what, int64_t n_tokens, int ctx_size) {
    if (ctx_size == 0 || n_tokens <= ctx_size) { return {}; }
    return {ErrorCode::kInvalidArgument, what + " has " + with_commas(n_tokens) + " tokens, --ctx-size is " +
                                             std::to_string(ctx_size) + ": raise it, or leave it out"};
}

void warn_past_training(const Model & model, int64_t n_tokens, const Ledger & ledger, bool context_shift) {
    static bool told = false;
    const int n_train = model.info().n_ctx_train;
    const bool moves = ledger.budget_entries > 0 && context_shift;
    if (n_train == 0 || n_tokens <= n_train || moves || std::exchange(told, true)) { return; }
    warn("the text has " + with_commas(n_tokens) + " tokens, the model was trained on " + with_commas(n_train) +
         ": answers may be poor; " +
         (ledger.budget_entries > 0 ? "without --no-context-shift what is kept moves together past that length"
                                    : "read within a --budget that it exceeds, what is kept moves together past that length"));
}

}  // namespace pith::app
