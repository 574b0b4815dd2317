// session_options.h - what sessions and engines share in the C interface: options, lanes, ledgers. Stage: façade.
#pragma once

#include "pith/pith.h"
#include "pith/session.h"

namespace pith::c {

// given may be NULL: the defaults. Errors: kInvalidArgument.
Result<SessionOptions> session_options(const pith_session_options * given);

// Errors: kInvalidArgument: names the field.
Result<KvType> kv_type(Item field, const char * text);

// Errors: kInvalidArgument: names the lane, and how many there are.
Status check_lane(int32_t layer, int32_t kv_head, int n_layers, int n_kv_heads);

// Its texts are the ledger's.
pith_ledger ledger_of(const Ledger & ledger);

}  // namespace pith::c
