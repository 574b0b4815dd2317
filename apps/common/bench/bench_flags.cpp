// bench_flags.cpp - what `pith bench` is asked for.
#include "common/bench/bench_flags.h"

#include <string_view>
#include <utility>

#include "common/options/options.h"
#include "core/text.h"
#include "policy/named_policy.h"
#include "policy/policy.h"

namespace pith::app {

void BenchFlags::add_to(CLI::App & command) {
    model.add_to(command);
    session.add_to(command, "full, and gated with --gate");
    lists.add_to(command);
    add(command, option("--depth"), depths, "Tokens already in the cache, separated by ','")->delimiter(',');
    command.add_option("-r,--repetitions", n_repetitions,
                       "Measurements of each case (default: 5; --policies, --gates: 3; --in-turns: 7; --profile: 1)");
    command.add_flag("--scoring", scoring, "Report the share of prefill that scoring, planning and compaction take");
    add(command, option("--policies"), policies)->expected(0, 1)->default_str("all");
    command.add_flag(
        "--profile", profile,
        "Report where a token's time goes, for a prompt of --depth or -p tokens and -n decoded ones (default: 256)");
    command.add_flag(
        "--gates", gates,
        "Report what the gates of --gate add to prompts of -p tokens (separated by ','; default: 2048,8192) and what they save "
        "behind them, beside the full cache, in turns (default: -n 64 -r 3)");
    command.add_flag("--in-turns", in_turns,
                     "Report the time of a decoded token at each --depth and --budget (separated by ','): one process, prompts "
                     "that grow from depth to depth, all cases measured in turns (default: -n 128 -r 7)");
    command.add_flag("--paced", paced,
                     "With --in-turns: a round for each line of standard input, until it ends, each printed as lines of round, "
                     "case and seconds a token; with -p also a prompt of so many tokens");
    command
        .add_option("--batch", batch.batches,
                    "Report the tokens per second of so many sequences that decode together behind --depth tokens they share "
                    "(separated by ','), beside llama-batched-bench (default: -n 32 -r 3)")
        ->delimiter(',');
    command.add_flag(
        "--own", batch.own,
        "With --batch: each sequence evicts for itself, and holds alone what it keeps (default: one eviction, whose "
        "entries all share)");
    command.add_option("--crowd", n_chats,
                       "Report the memory and the tokens per second of so many chats that live in one process, behind --prefix "
                       "tokens they share and --tail of their own (default: --policy snapkv --budget 512 -n 32)");
    command.add_option("--prefix", crowd.n_prefix, "With --crowd: tokens that all chats share")->capture_default_str();
    command.add_option("--tail", crowd.n_tail, "With --crowd: tokens of each chat's own")->capture_default_str();
    command.add_option("--long", crowd.n_long,
                       "With --crowd: tokens of a prompt that is then read in one shot beside the chats' answers: reports the "
                       "longest time from one of their tokens to the next");
    command.add_option("--endless", n_endless,
                       "Report whether tokens become slower, or memory grows, while so many go through one session: in chunks, "
                       "the last -n one by one (default: a tenth of them; --policy snapkv --budget 512)");
    add(command, option("--no-llama"), no_llama, "Leave llama-bench out");
    command.add_flag("--no-interleave", no_interleave, "All repetitions of a case in one process: quicker at great depths");
    add(command, option("--json"), json);
}

Status BenchFlags::check() const {
    if (int{scoring} + int{profile} + int{gates} + int{in_turns} + int{policies.has_value()} + int{!batch.batches.empty()} +
            int{n_chats.has_value()} + int{n_endless.has_value()} >
        1) {
        return {ErrorCode::kInvalidArgument,
                "--scoring, --policies, --profile, --gates, --in-turns, --batch, --crowd and --endless: give one of them"};
    }
    if (paced && (!in_turns || json)) { return {ErrorCode::kInvalidArgument, "--paced goes with --in-turns, without --json"}; }
    if (batch.own && batch.batches.empty()) { return {ErrorCode::kInvalidArgument, "--own goes with --batch"}; }
    if (gates && model.gate.empty()) {
        return {ErrorCode::kInvalidArgument, "--gates measures gates: name their file with --gate"};
    }
    return lists.check(mode());
}

std::string BenchFlags::mode() const {
    return gates                    ? "--gates"
           : profile                ? "--profile"
           : in_turns               ? "--in-turns"
           : policies               ? "--policies"
           : !batch.batches.empty() ? "--batch"
           : n_chats                ? "--crowd"
           : n_endless              ? "--endless"
                                    : "";
}

bool BenchFlags::beside_llama() const {
    return !no_llama && model.lora.empty() && !model.devices.any();
}

Result<BenchOptions> BenchFlags::options() const {
    BenchOptions options;
    const bool has_gates = !model.gate.empty();
    const std::string list = !session.policy.empty() ? session.policy : has_gates ? "full,gated" : "full";
    options.policies.clear();
    PolicyChoice stands = "full";  // the flags check one policy and its budget: one that evicts stands for the list
    for (const std::string_view name : split(list, ',')) {
        const PolicyChoice & choice = options.policies.emplace_back(name);
        const bool little_said = stands.name() == "full" || stands.is_auto();
        if (choice.is_auto()) {
            if (little_said) { stands = choice; }
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        if (policy.evicts() || (policy.gated() && little_said)) { stands = choice; }
    }
    PITH_ASSIGN_OR_RETURN(options.session, session.options_with(stands, has_gates));
    options.model_path = model.path;
    options.model = model.options();
    options.depths = depths;
    options.n_prompt = n_prompt < 0 ? 512 : n_prompt;
    options.n_generate = n_generate < 0 ? 32 : n_generate;
    PITH_ASSIGN_OR_RETURN(options.lists, lists.read());
    options.n_repetitions = n_repetitions.value_or(options.n_repetitions);
    options.interleave = !no_interleave;
    return options;
}

}  // namespace pith::app
