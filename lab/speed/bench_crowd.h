// bench_crowd.h - many chats that live in one process: what they take of its memory, by the ledger and by the system, and how
// fast they are read and answer together. Stage: speed.
//
// A prefix of random tokens is read once and kept; as many chats as asked for go on from it, each with tokens of its own, and
// answer together once all of them have been read. The tokens of answers are chosen at random. Then, where asked for, one more
// prompt is read beside them in one shot, and the time between their tokens is looked at.
// Errors: those of engines.   Threads: one at a time.   Memory: the crowd's, to the end of the call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/resident.h"
#include "pith/batch_engine.h"
#include "pith/model.h"

namespace pith {

struct CrowdOptions {
    SessionOptions session;  // threads, types, budget, chunk
    std::vector<PolicyChoice> policies;
    int n_chats = 100;
    int64_t n_prefix = 15360;  // tokens that all share
    int64_t n_tail = 1024;     // and of each its own
    int n_generate = 32;       // timed tokens of each answer
    int64_t n_long = 0;        // tokens of a prompt that is then read in one shot; 0: none
    int n_repetitions = 1;
    uint32_t seed = 1;
    std::function<void(const std::string & what)> progress;
    const std::atomic<bool> * cancel = nullptr;
};

struct CrowdReport {
    double prefix_tps = 0;
    double tail_tps = 0;    // of all chats together
    double decode_tps = 0;  // of all chats together
    int64_t n_tokens = 0;   // that a chat has seen at the end
    // Forks that had read nothing yet when the others began to: what they had added to the K/V, as a share of the prefix's.
    int n_forks = 0;
    double fork_growth = 0;
    // While the long prompt was read: from one token of an answer to the next.
    int64_t n_long_steps = 0;
    double long_s = 0;        // all of it
    double token_s = 0;       // median before
    double median_gap_s = 0;  // and meanwhile
    double longest_gap_s = 0;
    double longest_unit_s = 0;  // of the prompt
    size_t kv_full_bytes = 0;   // what K/V would take had every chat its own and evicted nothing
    EngineLedger ledger;        // at the end
    ResidentBytes resident;     // at the end; of the whole process
    // What of the ledger lies in the process's anonymous memory.
    size_t ledger_bytes() const {
        return ledger.weight_bytes + (ledger.kv_allocated_bytes - ledger.kv_kept_bytes) + ledger.activation_bytes +
               ledger.evidence_bytes + ledger.undo_bytes + ledger.sequence_bytes;
    }
};

Result<CrowdReport> measure_crowd(const Model & model, const CrowdOptions & options);

}  // namespace pith
