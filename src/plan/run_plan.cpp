// run_plan.cpp - budgets to entries, and the choice of schedule.
#include "plan/run_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "core/items.h"
#include "core/text.h"

namespace pith {
namespace {

constexpr int kSmallestChunk = 16;
constexpr double kWorthOneShot = 0.9;  // of the entries that chunks would leave

constexpr double kKibibyte = 1024;

// As users write it: in whole KiB, rounded up, so that it does.
std::string typed(double bytes) {
    return Budget(BudgetKind::kBytes, std::ceil(bytes / kKibibyte) * kKibibyte).to_string();
}

std::string kibibytes(double n) {
    return with_commas(static_cast<int64_t>(n)) + " KiB";
}

// What is read again at a time, and what asks for it.
int n_reread(const RunRequest & request, int piece) {
    return request.rereads ? piece + request.n_reread_prompt : 0;
}

// What layers with a window and recurrent ones take, at most.
double bytes_ungoverned(const RunRequest & request) {
    const bool whole = request.prefill == PrefillSchedule::kOneShot || request.whole_prompt;
    const int piece = whole ? std::max(kRereadPiece, request.chunk) : request.chunk;
    const int64_t n_new = int64_t{request.chunk} + request.n_question + n_reread(request, piece);
    return request.ungoverned_bytes ? static_cast<double>(request.ungoverned_bytes(n_new)) : 0.0;
}

// Entries per lane that fit in the bytes beside the ungoverned layers, both partly used pages of a lane counted.
int64_t entries_in(const RunRequest & request, double bytes) {
    const double per_lane =
        (bytes - bytes_ungoverned(request)) / request.n_lanes - 2.0 * static_cast<double>(request.page_bytes);
    return static_cast<int64_t>(std::floor(per_lane / static_cast<double>(request.entry_bytes)));
}

// The other way round, of so many lanes.
double bytes_of_lanes(const RunRequest & request, int n_lanes, int64_t entries) {
    return n_lanes * (static_cast<double>(entries) * static_cast<double>(request.entry_bytes) +
                      2.0 * static_cast<double>(request.page_bytes));
}

double bytes_of(const RunRequest & request, int64_t entries) {
    return bytes_of_lanes(request, request.n_lanes, entries);
}

int64_t least_entries(const RunRequest & request) {
    return std::max<int64_t>(1, request.n_protected);
}

int smallest_chunk(const RunRequest & request) {
    return std::min(request.chunk, kSmallestChunk);
}

// What is asked for beside each other must fit; "auto" says what it came to, and cannot be raised.
Status too_few_bytes(const RunRequest & request, const std::string & purpose, double need, const Wording & or_else) {
    need += bytes_ungoverned(request);
    const bool nothing_else = or_else.text().empty();
    if (request.is_auto) {
        return {ErrorCode::kBudget, item::kBudget + " auto, " + kibibytes(std::floor(request.budget.value / kKibibyte)) +
                                        " of memory here, is too small " + purpose + ", which takes " +
                                        kibibytes(std::ceil(need / kKibibyte)) + (nothing_else ? "" : ": use " + or_else)};
    }
    const bool meant_tokens = request.budget.value < kKibibyte * kKibibyte;  // 4K is 4 KiB, 4k are tokens
    return {ErrorCode::kBudget, item::kBudget + " " + request.budget.to_string() + " is too small " + purpose + ": use " +
                                    item::kBudget + " " + typed(need) + " or more" +
                                    (meant_tokens ? " (these are bytes; tokens per head are written 4096, or 4k)" : "") +
                                    (nothing_else ? "" : ", or " + or_else)};
}

// What a one-shot prefill holds of the whole prompt, and of what is read behind it: a layer, or where it is read again all.
double whole_bytes(const RunRequest & request) {
    if (request.rereads) { return bytes_of(request, request.n_prompt + n_reread(request, kRereadPiece)); }
    const int64_t n_tokens = request.n_prompt + (request.taken_back ? request.n_question : 0);
    return bytes_of_lanes(request, request.n_kv_heads, n_tokens);
}

// What is read behind the prompt before anything is evicted again. Questions that come later are read whole, each.
int n_behind(const RunRequest & request) {
    const int answer = request.grid > 0 ? request.grid : request.evict_every;
    return std::max(
        {answer + n_reread(request, std::min(answer, kRereadPiece)), request.taken_back ? request.n_question : 0, 1});
}

// At its peak the first layer's whole KV stands beside nothing, the last one's beside all the others' budgets.
RunPlan one_shot_in_bytes(const RunRequest & request) {
    RunPlan plan{0, true, request.chunk, request.evict_every, request.grid};
    plan.n_reread = n_reread(request, kRereadPiece);
    plan.budget = entries_in(request, request.budget.value) - n_behind(request);
    if (request.rereads) {
        if (request.budget.value < whole_bytes(request) + bytes_ungoverned(request)) { plan.budget = 0; }
    } else {
        plan.budget = std::min(plan.budget, entries_in(request, request.budget.value - whole_bytes(request)));
    }
    return plan;
}

double least_bytes_of_one_shot(const RunRequest & request) {
    const int64_t least = least_entries(request);
    const double reading = whole_bytes(request) + (request.rereads ? 0.0 : bytes_of(request, least));
    return std::max(reading, bytes_of(request, least + n_behind(request)));
}

// The headroom takes at most a third of what there is, and no more than what is protected leaves. A question that does not fit
// beside its chunk then guides nothing.
RunPlan chunks_in_bytes(const RunRequest & request) {
    const int64_t capacity = entries_in(request, request.budget.value);
    const int64_t room = capacity - least_entries(request);
    const int smallest = smallest_chunk(request);
    RunPlan plan{0, false, request.chunk, request.evict_every};
    const int n_times = request.rereads ? 2 : 1;  // a chunk stands there so often
    const int beside = request.rereads ? request.n_reread_prompt : 0;
    plan.chunk = static_cast<int>(std::max<int64_t>(std::min<int64_t>(capacity / (3 * n_times), request.chunk), smallest));
    plan.n_guide = request.n_question <= plan.chunk ? request.n_question : 0;
    if (int64_t{plan.chunk} * n_times + beside + plan.n_guide > room) {
        if (room - plan.n_guide < std::max(plan.n_guide, smallest)) { plan.n_guide = 0; }
        plan.chunk = static_cast<int>(std::clamp<int64_t>((room - plan.n_guide - beside) / n_times, smallest, plan.chunk));
    }
    plan.n_reread = n_reread(request, plan.piece_to_reread());
    if (request.evict_every > 0) { plan.evict_every = std::min(request.evict_every, plan.chunk); }
    plan.grid = std::min(request.grid, static_cast<int>(std::bit_floor(static_cast<unsigned>(plan.chunk))));
    plan.budget = capacity - plan.period_of_prompt() - plan.n_reread;
    return plan;
}

double least_bytes_of_chunks(const RunRequest & request) {
    const int smallest = smallest_chunk(request);
    return bytes_of(request, least_entries(request) + smallest + n_reread(request, smallest));
}

// Whether only who asks for one shot gets it: the prompt is longer than what the model was trained on.
bool is_too_long(const RunRequest & request) {
    return request.n_before_turn > 0 && request.n_prompt > request.n_before_turn;
}

// Whether a one-shot prefill of `budget` entries a lane fits in the memory that is left.
bool fits_in_memory(const RunRequest & request, int64_t budget) {
    const auto n_all = static_cast<double>(request.n_prompt + (request.taken_back ? request.n_question : 0));
    const double states = n_all * static_cast<double>(request.state_bytes);
    const double reserved = n_all * request.n_lanes * static_cast<double>(request.entry_bytes);
    if (request.free_addresses > 0 && reserved + states > kUsableMemory * static_cast<double>(request.free_addresses)) {
        return false;
    }
    if (request.free_bytes == 0) { return true; }
    const double lanes = bytes_of(request, std::min(budget, request.n_prompt));
    return whole_bytes(request) + bytes_ungoverned(request) + (request.rereads ? 0.0 : lanes) + states <=
           kUsableMemory * static_cast<double>(request.free_bytes);
}

Result<RunPlan> plan_bytes(const RunRequest & request) {
    const int64_t least = least_entries(request);
    const RunPlan whole = one_shot_in_bytes(request);
    const std::string to_read = "to read " + with_commas(request.n_prompt) + " tokens in one shot";
    if (request.prefill == PrefillSchedule::kOneShot || request.whole_prompt) {
        if (whole.budget >= least) { return whole; }
        return too_few_bytes(request, to_read, least_bytes_of_one_shot(request),
                             request.whole_prompt ? item::kCausalGates : item::kPrefill + " chunked");
    }
    const RunPlan chunks = chunks_in_bytes(request);
    // In one shot every layer is judged by the whole prompt's queries; worth it where the room for a whole layer costs little.
    const bool asks = request.prefill == PrefillSchedule::kAuto && request.n_question > 0 && !is_too_long(request);
    if (asks && static_cast<double>(whole.budget) >= kWorthOneShot * static_cast<double>(chunks.budget) &&
        whole.budget >= least && fits_in_memory(request, whole.budget)) {
        return whole;
    }
    if (chunks.budget >= least) { return chunks; }
    if (asks && least_bytes_of_one_shot(request) < least_bytes_of_chunks(request) && fits_in_memory(request, least)) {
        return too_few_bytes(request, to_read, least_bytes_of_one_shot(request), "");
    }
    return too_few_bytes(request,
                         "for " + (request.n_protected > 0 ? with_commas(least) + " protected tokens" : "one token") +
                             " per head and a chunk of " + std::to_string(smallest_chunk(request)),
                         least_bytes_of_chunks(request), "");
}

// A shorter chunk leaves less in windows on its way.
Result<RunPlan> plan_bytes_or_shorter(RunRequest request) {
    Result<RunPlan> plan = plan_bytes(request);
    while (!plan.ok() && request.ungoverned_bytes && request.chunk > kSmallestChunk) {
        request.chunk = std::max(request.chunk / 2, kSmallestChunk);
        plan = plan_bytes(request);
    }
    return plan;
}

// Of bytes that bound all, what comes back has a quarter at most; and nothing comes back where the rest is too little.
Result<RunPlan> plan_bytes_and_back(const RunRequest & request) {
    constexpr double kMostShare = 0.25;
    if (request.n_back == 0) { return plan_bytes_or_shorter(request); }
    const int n_lanes = kTimesBack * request.n_kv_heads;
    const double back = std::min(kMostShare * request.budget.value, bytes_of_lanes(request, n_lanes, request.n_back));
    RunRequest rest = request;
    rest.budget.value -= back;
    const double per_lane = back / n_lanes - 2.0 * static_cast<double>(request.page_bytes);
    Result<RunPlan> plan = plan_bytes_or_shorter(rest);
    if (plan.ok() && per_lane >= static_cast<double>(request.entry_bytes)) {
        plan->most_back = static_cast<int64_t>(per_lane / static_cast<double>(request.entry_bytes));
        return plan;
    }
    plan = plan_bytes_or_shorter(request);
    if (plan.ok()) { plan->most_back = 0; }
    return plan;
}

// ---- the whole decision ----

// The grid is known to have a meaning.
Result<RunPlan> plan_on_grid(const RunRequest & request) {
    if (request.chunk < 1) {
        return {ErrorCode::kInvalidArgument, item::kChunk + " " + std::to_string(request.chunk) + ": must be at least 1"};
    }
    if (request.evict_every < 0) {
        return {ErrorCode::kInvalidArgument,
                item::kEvictEvery + " " + std::to_string(request.evict_every) + ": must be 0 (never in decode) or more"};
    }
    if (request.grid < 0) {
        return {ErrorCode::kInvalidArgument, item::kGrid + " " + std::to_string(request.grid) + ": must be 0 (none) or more"};
    }
    if (request.whole_prompt && request.prefill == PrefillSchedule::kChunked) {
        return {ErrorCode::kInvalidArgument,
                item::kPrefill +
                    " chunked: these gates decide on an entry when they have seen the whole prompt, so it cannot be " +
                    "read in chunks: leave " + item::kPrefill + " out, or use " + item::kCausalGates};
    }
    if (request.is_auto && !request.evicts) {
        const int64_t capacity = entries_in(request, request.budget.value);
        if (request.n_prompt <= capacity) {
            const bool whole = request.prefill == PrefillSchedule::kOneShot || request.whole_prompt;
            return RunPlan{.one_shot = whole, .chunk = request.chunk, .capacity = capacity};
        }
        return {ErrorCode::kBudget,
                item::kBudget + " auto: the memory that is left holds " + with_commas(std::max<int64_t>(capacity, 0)) +
                    " tokens, the prompt has " + with_commas(request.n_prompt) +
                    ", and this policy keeps them all: choose one that evicts, e.g. " + item::kPolicy + " snapkv"};
    }
    const bool limited = request.budget.kind != BudgetKind::kNone;
    if (limited && !request.evicts) {
        const char * all =
            request.gated ? "policy gated keeps every entry that the gates keep, so " : "policy full keeps every entry, so ";
        return {ErrorCode::kInvalidArgument, all + item::kBudget + " " + request.budget.to_string() +
                                                 " cannot hold: choose another " + item::kPolicy +
                                                 (request.gated ? ", e.g. gated+snapkv" : "") + ", or leave the budget out"};
    }
    if (!limited && request.evicts) {
        return {ErrorCode::kInvalidArgument,
                "this policy evicts, but no budget was given: add " + item::kBudget + " (tokens per head, 20%, or 512M)"};
    }
    const bool one_shot = request.prefill == PrefillSchedule::kOneShot || request.whole_prompt;
    if (!limited) {
        RunPlan plan{0, one_shot, request.chunk, 0};
        plan.n_reread = n_reread(request, kRereadPiece);
        return plan;
    }
    if (request.budget.kind == BudgetKind::kBytes) { return plan_bytes_and_back(request); }

    RunPlan plan{static_cast<int64_t>(request.budget.value), false, request.chunk, request.evict_every, request.grid};
    if (request.budget.kind == BudgetKind::kPercent) {
        plan.budget = std::max<int64_t>(1, std::llround(static_cast<double>(request.n_prompt) * request.budget.value / 100.0));
    }
    // On a grid a prompt that fits whole is read like one that does not: what is kept may not depend on where it ends.
    const bool fits = request.grid == 0 && request.n_prompt <= plan.budget + request.chunk;
    const bool chosen = request.prefill == PrefillSchedule::kAuto && !is_too_long(request) &&
                        (fits || (request.n_question > 0 && fits_in_memory(request, plan.budget)));
    plan.one_shot = one_shot || chosen;
    plan.n_guide = !plan.one_shot && request.n_question <= plan.chunk ? request.n_question : 0;
    plan.n_reread = n_reread(request, plan.piece_to_reread());
    if (request.budget.kind == BudgetKind::kPercent && plan.grid > 0 && !plan.one_shot && plan.n_guide == 0) {
        plan.share = request.budget.value / 100.0;
        plan.least = least_entries(request);
        plan.budget = plan.budget_at(request.n_prompt);
    }
    return plan;
}

}  // namespace

int grid_for(int grid, const Budget & budget) {
    if (budget.kind != BudgetKind::kEntries || budget.value >= grid) { return grid; }
    const auto entries = static_cast<unsigned>(std::max(budget.value, static_cast<double>(kSmallestChunk)));
    return std::min(grid, static_cast<int>(std::bit_floor(entries)));
}

int64_t chunk_end_before(const RunPlan & plan, int64_t n) {
    if (plan.grid == 0) { return n / plan.chunk * plan.chunk; }
    const int64_t behind = n % plan.grid;
    return n - behind + behind / plan.chunk * plan.chunk;
}

std::string name_of_schedule(const RunPlan & plan, bool seen) {
    std::string name = plan.one_shot ? "one-shot" : "in chunks";
    if (seen) { name += ", question seen"; }
    if (plan.grid == 0) { return name; }
    const bool is_first = plan.one_shot || plan.n_guide > 0;  // a first prompt's own evictions
    return name + (is_first ? ", then" : ",") + " evicted at every " + std::to_string(plan.grid) + "th token";
}

Result<RunPlan> plan_run(const RunRequest & request) {
    RunRequest used = request;
    if (used.evict_every == 0) { used.grid = 0; }
    return plan_on_grid(used);
}

}  // namespace pith
