// bench.cpp - `pith bench` with what the laboratory measures: a profile, gates, cases in turns, batches, crowds, what policies
// cost, texts without end.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/bench/bench_modes.h"
#include "app/bench/bench_policies.h"
#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/bench/bench_flags.h"

namespace pith::app {
namespace {

// What --profile, --gates and --in-turns measure where nothing else is asked for.
void apply_mode_defaults(BenchFlags & flags) {
    if (flags.n_generate < 0) { flags.n_generate = flags.profile ? 256 : flags.gates ? 64 : 128; }
    if (!flags.n_repetitions) { flags.n_repetitions = flags.profile ? 1 : flags.gates ? 3 : 7; }
}

// What --crowd and --endless measure where nothing else is asked for: one policy that evicts.
void apply_eviction_defaults(BenchFlags & flags) {
    if (flags.session.policy.empty()) {
        flags.session.policy = "snapkv";
        if (!flags.session.budget) { flags.session.budget = "512"; }
    }
    if (flags.n_generate < 0) { flags.n_generate = flags.n_endless ? static_cast<int>(*flags.n_endless / 10) : 32; }
    flags.n_repetitions = 1;
}

// --policies: --depth, where given, is the length of the one prompt.
int policies_command(BenchFlags flags) {
    BenchPoliciesFlags costs;
    costs.policies = *flags.policies;
    costs.json = flags.json;
    if (flags.depths.size() > 1) { return fail_usage("--policies measures one depth: give one --depth"); }
    if (flags.depths.front() != 0) { costs.n_prompt = static_cast<int>(flags.depths.front()); }
    if (flags.n_prompt >= 0) { costs.n_prompt = flags.n_prompt; }
    if (flags.n_repetitions) { costs.n_repetitions = *flags.n_repetitions; }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    return bench_policies(flags.model, flags.session, costs);
}

int bench_command(BenchFlags flags) {
    if (const Status status = flags.check(); !status.ok()) { return fail_usage(status); }
    if (flags.mode().empty()) {
        return fail_usage(
            "speed at given depths is measured by `pith bench`; here give one of --policies, --profile, --gates, --in-turns, "
            "--batch, --crowd and --endless");
    }
    flags.lists.give_first(flags.n_prompt, flags.n_generate, flags.session);
    if (flags.policies) { return policies_command(flags); }
    if (flags.profile || flags.gates || flags.in_turns) { apply_mode_defaults(flags); }
    const bool one_policy = flags.n_chats || flags.n_endless;
    if (one_policy) { apply_eviction_defaults(flags); }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    auto options = flags.options();
    if (!options.ok()) { return fail_usage(options.status()); }
    if (one_policy && options->policies.size() > 1) { return fail_usage("--crowd and --endless measure one policy: give one"); }
    if (flags.n_chats) {
        flags.crowd.n_chats = *flags.n_chats;
        return bench_crowd(flags.model, *options, flags.crowd, flags.json);
    }
    if (flags.n_endless) { return bench_endless(flags.model, *options, *flags.n_endless, flags.json); }
    if (flags.profile) { return bench_profile(flags.model, *options, flags.json); }
    if (flags.gates) {
        const std::vector<int> & given = flags.lists.prompts;
        const std::vector<int> lengths = given.empty() ? std::vector<int>{2048, 8192} : given;
        return bench_gates(flags.model, *options, lengths, flags.json);
    }
    if (!flags.batch.batches.empty()) {
        if (!flags.n_repetitions) { options->n_repetitions = 3; }
        return bench_batch(*options, flags.batch, flags.beside_llama(), flags.json);
    }
    options->n_prompt = std::max(flags.n_prompt, 0);
    return bench_in_turns(flags.model, *options, options->lists.budgets,
                          flags.paced  ? TurnsOutput::kPaced
                          : flags.json ? TurnsOutput::kJson
                                       : TurnsOutput::kTable);
}

}  // namespace

void add_bench_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<BenchFlags>();
    CLI::App * command =
        root.add_subcommand("bench", "What decoding, policies, gates, batches, crowds and texts without end cost");
    flags->add_to(*command);
    command->callback([flags, &exit_code] { exit_code = bench_command(*flags); });
}

}  // namespace pith::app
