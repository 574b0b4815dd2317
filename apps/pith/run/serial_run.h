// serial_run.h - `pith run`, one answer after the other, each as it comes: with all that a session can and an engine's request
// cannot (files, logits, kept positions, texts that go on coming, second stages).
#pragma once

#include "app/run/npy_file.h"
#include "app/run/run_job.h"
#include "pith/cache_file.h"

namespace pith::app {

// cached: the file of --cache; null: none. logits: where --logits goes; null: nowhere. Ctrl-C keeps what was said so far.
// Errors: those of sessions, samplers and files.
Result<RunOutcome> run_serial(const RunJob & job, const SessionFile * cached, NpyFile * logits);

}  // namespace pith::app
