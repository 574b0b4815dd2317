// engine.h - start here: the whole public API.
//
//   auto model   = pith::Model::load("qwen2.5-3b-q4_0.gguf");             // Result<Model>
//   auto session = model->session({.policy = "snapkv", .budget = 1024});  // Result<Session>
//   session->prefill(tokens);                                             // evicts as scheduled
//   auto next = session->decode();                                        // one token
//   session->ledger().kv_allocated_bytes;                                 // what it cost
//
// Nothing here prints, throws on bad input, or aborts: errors come back as Status (status.h).
#pragma once

#include "pith/batch_engine.h"    // many sequences at once
#include "pith/budget.h"          // how much may be kept
#include "pith/cache_file.h"      // sessions in files
#include "pith/chat.h"            // conversations as JSON
#include "pith/custom_scorer.h"   // a scorer of one's own
#include "pith/device_failure.h"  // the last word of a process whose device is gone
#include "pith/devices.h"         // where layers lie
#include "pith/ledger.h"          // what it cost
#include "pith/log.h"             // where log lines go
#include "pith/model.h"           // GGUF files
#include "pith/policies.h"        // what may be kept
#include "pith/policy_choice.h"   // the one that is chosen
#include "pith/session.h"         // prefill, decode, evict
#include "pith/status.h"          // Status, Result<T>
#include "pith/text.h"            // tokens, chat templates, sampling
