// inspect_dump.cpp - reads one text, and says what was written.
#include "app/inspect/inspect_dump.h"

#include <cstdio>

#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "core/text.h"
#include "inspect/evidence_dump.h"

namespace pith::app {

void DumpFlags::add_to(CLI::App & command) {
    command.add_option(
        "--dump", path,
        "Write keys, values, queries, attention and hidden states of every layer to this file (safetensors), and end");
    command.add_option("--dump-queries", n_queries, "With --dump: of so many of the last tokens")->capture_default_str();
}

Status DumpFlags::check(const InspectInput & input, bool others) const {
    if (path.empty()) { return {}; }
    PITH_RETURN_IF_ERROR(check_at_least("--dump-queries", n_queries, 1));
    if (others) {
        return {ErrorCode::kInvalidArgument,
                "--dump writes what policies look at, of the full cache: leave out --policy, --budget, --gate, --attention and "
                "--out"};
    }
    if (input.wants_means()) { return {ErrorCode::kInvalidArgument, "--dump is of one text: leave out --data and --texts"}; }
    return {};
}

int inspect_dump_command(const DumpFlags & flags, const InspectInput & input, int chunk, int n_threads, const Model & model,
                         const Tokenizer & tokenizer) {
    const auto texts = read_inspect_texts(input, model, tokenizer);
    if (!texts.ok()) { return fail(texts.status()); }
    EvidenceDumpOptions options;
    options.n_queries = flags.n_queries;
    options.n_threads = n_threads;
    options.chunk = chunk;
    options.cancel = &catch_interrupt();
    const auto dump = dump_evidence(model, texts->tokens.front(), flags.path, options);
    if (!dump.ok()) { return fail(dump.status()); }
    std::printf("%s: %d layers, %s tokens, the last %d queries, %s\n", flags.path.c_str(), dump->n_layers,
                with_commas(dump->n_tokens).c_str(), dump->n_queries, bytes_text(static_cast<size_t>(dump->bytes)).c_str());
    return kExitOk;
}

}  // namespace pith::app
