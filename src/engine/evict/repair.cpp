// repair.cpp - one question: its queries, their scores, and one exchange of entries in all lanes.
#include "engine/evict/repair.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/guarded.h"
#include "core/items.h"
#include "core/stopwatch.h"
#include "device/cpu_threads.h"
#include "engine/evict/cold_scores.h"
#include "engine/evict/second_reading.h"
#include "engine/pass/session_ledger.h"
#include "engine/pass/token_pass.h"
#include "engine/settle/session_plan.h"

namespace pith {
namespace {

constexpr int32_t kSinks = 4;    // of each lane, which stay
constexpr int32_t kRecent = 32;  // or, of a short one, a quarter

// What the question's queries pay, lane by lane of the governed layers.
struct Scores {
    std::vector<std::vector<float>> wants;  // [lane of the cache] of the entries kept and cold, ascending: swaps.h
    std::vector<PaidToBoth> paid;           // [lane] in all
    size_t n_queries = 0;

    double missed() const {
        PaidToBoth all;
        for (const PaidToBoth & lane : paid) {
            all.cold += lane.cold;
            all.kept += lane.kept;
        }
        return all.cold > 0 ? all.cold / (all.cold + all.kept) : 0;
    }
};

Status run_question(LiveSession & session, std::span<const int32_t> question) {
    const auto chunk = static_cast<size_t>(session.seq.plan->chunk);
    while (!question.empty()) {
        const auto piece = question.first(std::min(question.size(), chunk));
        PITH_RETURN_IF_ERROR(run_pass(session, {.session = &session, .tokens = piece, .may_look_back = true}));
        question = question.subspan(piece.size());
    }
    return {};
}

// Entries that stay whatever is asked.
void protect(const LiveSession & session, int32_t end_of_context, LaneOfBoth & both) {
    both.is_protected.assign(both.positions.size(), 0);
    const auto n_kept = static_cast<int32_t>(std::ranges::count(both.is_cold, 0));
    const int32_t recent = end_of_context - std::min(kRecent, n_kept / 4);
    for (size_t i = 0; i < both.positions.size(); ++i) {
        const int32_t p = both.positions[i];
        const bool pinned = std::ranges::any_of(session.options.pinned,
                                                [p](const PositionSpan & span) { return p >= span.begin && p < span.end; });
        both.is_protected[i] = both.is_cold[i] == 0 && (p < kSinks || p >= recent || pinned) ? 1 : 0;
    }
}

Scores no_scores(const LiveSession & session) {
    Scores scores;
    scores.wants.resize(static_cast<size_t>(session.seq.cache->n_lanes()));
    scores.paid.resize(scores.wants.size());
    return scores;
}

// Of different lanes side by side.
void add_lane(const LiveSession & session, int lane, int32_t end_of_context, LaneOfBoth & both, const PaidToBoth & paid,
              Scores & scores) {
    protect(session, end_of_context, both);
    scores.paid[static_cast<size_t>(lane)] = paid;
    scores.wants[static_cast<size_t>(lane)] = wants_of(both);
}

// By the newest n queries that are kept of each layer; fewer, where an eviction among them has let go of some. REQUIRES: what
// they added to lanes is there, or cold.
Result<Scores> score_all(const LiveSession & session, size_t n, int32_t end_of_context, const ColdScorer & scorer) {
    const Sequence & seq = session.seq;
    Scores scores = no_scores(session);
    scores.n_queries = n;
    const auto queries_of = [&](int layer) -> AskedQueries {
        const KeptQueries & kept = seq.evidence.layer(layer).queries;
        const auto positions = kept.positions().last(std::min(n, kept.size()));
        return {layer, kept.newest(positions.size()), {positions.begin(), positions.end()}, end_of_context};
    };
    const auto visit = [&](int layer, int h, LaneOfBoth && both, const PaidToBoth & paid) {
        add_lane(session, seq.cache->lane(0, layer, h), end_of_context, both, paid, scores);
    };
    PITH_RETURN_IF_ERROR(scorer.score(session.governed, queries_of, visit));
    return scores;
}

// By what was seen while all was in the lanes. REQUIRES: paid.is_whole(). nullopt: some of it is lost, for want of room on
// disk.
Result<std::optional<Scores>> score_seen(const LiveSession & session, const PaidBehind & paid, size_t n,
                                         const ColdScorer & scorer) {
    const RaggedCache & cache = *session.seq.cache;
    Scores scores = no_scores(session);
    scores.n_queries = n;
    std::vector<ColdStore::Entry> cold;
    for (const int layer : session.governed) {
        for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
            const int lane = cache.lane(0, layer, h);
            const auto of_lane = paid.of(lane);
            LaneOfBoth both;
            PITH_RETURN_IF_ERROR(scorer.merge(layer, h, both, cold));
            if (both.cut_at(paid.end_of_context()) != of_lane.size()) { return std::optional<Scores>(); }
            both.paid.assign(of_lane.begin(), of_lane.end());
            PaidToBoth sums;
            for (size_t i = 0; i < of_lane.size(); ++i) {
                (both.is_cold[i] != 0 ? sums.cold : sums.kept) += double{of_lane[i]};
            }
            add_lane(session, lane, paid.end_of_context(), both, sums, scores);
        }
    }
    return std::optional<Scores>(std::move(scores));
}

EvidenceNeeds needs_of(size_t n_queries) {  // their queries are kept
    return {.window = static_cast<int>(n_queries), .window_max = true};
}

size_t n_that_ask(int64_t n_tokens) {
    return static_cast<size_t>(std::min(n_tokens, kMostLookingTokens));
}

// Of a question that is not read yet: nothing of it stays.
Result<Scores> score_in_front(LiveSession & session, std::span<const int32_t> question, const ColdScorer & scorer) {
    const auto end_of_context = static_cast<int32_t>(session.seq.n_tokens);
    const size_t n = n_that_ask(std::ssize(question));
    const SecondReading reading(session, EvidenceState(session.layout.shape_of_model(), needs_of(n), session.output));
    PITH_RETURN_IF_ERROR(run_question(session, question));
    return score_all(session, n, end_of_context, scorer);
}

// What one lane exchanges of the context.
struct LaneExchange {
    std::vector<int32_t> keep;              // indices of what it holds and goes on holding
    std::vector<ColdStore::Entry> returns;  // ascending by position
    std::vector<int32_t> places;            // where these are then among what it holds
};

// length: of the lane, which holds what came behind the context, too.
LaneExchange exchange_of(const LaneOfBoth & both, std::span<const ColdStore::Entry> cold, const LaneSwaps & swaps, int length) {
    LaneExchange lane;
    int32_t i_kept = 0;
    int32_t i_then = 0;
    auto in = swaps.in.begin();
    auto out = swaps.out.begin();
    auto entry = cold.begin();
    for (int32_t i = 0; i < std::ssize(both.positions); ++i) {
        if (both.is_cold[static_cast<size_t>(i)] != 0) {
            if (in != swaps.in.end() && *in == i) {
                ++in;
                lane.returns.push_back(*entry);
                lane.places.push_back(i_then++);
            }
            ++entry;
            continue;
        }
        if (out != swaps.out.end() && *out == i) {
            ++out;
        } else {
            lane.keep.push_back(i_kept);
            ++i_then;
        }
        ++i_kept;
    }
    while (i_kept < length) { lane.keep.push_back(i_kept++); }
    return lane;
}

// What all lanes exchange: of layers in which any does, all.
struct Exchange {
    Sequence::Swap swap;
    std::vector<int> layers;
    std::vector<std::vector<ColdStore::Entry>> returns;  // [lane of these]
    std::vector<Ragged<int32_t>> places;                 // [plan] of [K]
    int64_t n_returned = 0;
};

int64_t n_before(std::span<const int32_t> positions, int32_t end) {
    return std::ranges::lower_bound(positions, end) - positions.begin();
}

Result<Exchange> plan_exchange(const LiveSession & session, Scores scores, int32_t end_of_context, const ColdScorer & scorer) {
    const RaggedCache & cache = *session.seq.cache;
    Exchange exchange;
    for (const int layer : session.governed) {
        LayerPlan plan{layer, {}};
        Ragged<int32_t> places;
        std::vector<std::vector<ColdStore::Entry>> returns;
        size_t n_of_layer = 0;
        bool changes = false;
        for (int h = 0; h < session.shape().n_kv_heads; ++h) {
            LaneOfBoth both;
            std::vector<ColdStore::Entry> cold;
            PITH_RETURN_IF_ERROR(scorer.merge(layer, h, both, cold));
            both.cut_at(end_of_context);
            const int at = cache.lane(0, layer, h);
            const auto wants = std::exchange(scores.wants[static_cast<size_t>(at)], {});
            const LaneSwaps swaps = choose_swaps(both, wants, n_before(cache.positions(at), end_of_context));
            changes = changes || !swaps.in.empty() || !swaps.out.empty();
            LaneExchange lane = exchange_of(both, cold, swaps, cache.length(at));
            plan.keep.push_row(lane.keep);
            places.push_row(lane.places);
            n_of_layer += lane.returns.size();
            returns.push_back(std::move(lane.returns));
        }
        if (!changes) { continue; }
        exchange.n_returned += static_cast<int64_t>(n_of_layer);
        exchange.layers.push_back(layer);
        for (auto & lane : returns) { exchange.returns.push_back(std::move(lane)); }
        exchange.swap.plans.push_back(std::move(plan));
        exchange.places.push_back(std::move(places));
    }
    return exchange;
}

// The rows that come back, as the cache has rows; and what leaves for them is cold then.
Status read_returns(const LiveSession & session, Exchange & exchange) {
    const Sequence & seq = session.seq;
    RestingLanes & back = exchange.swap.back;
    PITH_ASSIGN_OR_RETURN(back, seq.cold.read_lanes(*seq.cache, exchange.layers, exchange.returns, seq.aside(),
                                                    tasks_on(session.forward->observer())));
    std::vector<LayerKeep> keeps;
    for (const LayerPlan & plan : exchange.swap.plans) { keeps.push_back({plan.layer, &plan.keep}); }
    exchange.swap.cold = seq.cold;
    PITH_RETURN_IF_ERROR(exchange.swap.cold.add_dropped(*seq.cache, keeps));
    auto positions = back.positions.begin();
    for (const int layer : back.layers) {
        for (int h = 0; h < session.shape().n_kv_heads; ++h) {
            exchange.swap.cold.give_back(seq.cache->lane(0, layer, h), *positions++);
        }
    }
    return {};
}

// What attention left behind, of the lanes as they will be.
void carry_evidence(EvidenceState before, Exchange & exchange) {
    EvidenceState & evidence = exchange.swap.evidence;
    evidence = std::move(before);
    for (size_t i = 0; i < exchange.swap.plans.size(); ++i) {
        const LayerPlan & plan = exchange.swap.plans[i];
        evidence.prepare_compact(plan.layer, plan.keep);
        evidence.compact(plan.layer, plan.keep, /*evicts=*/false);
        evidence.put_between(plan.layer, exchange.places[i]);
    }
}

Status check(const LiveSession & session, std::span<const int32_t> question) {
    const Sequence & seq = session.seq;
    if (question.empty()) { return {ErrorCode::kInvalidArgument, "repair() was given no question"}; }
    if (!seq.cold.on()) {
        return {ErrorCode::kInvalidArgument,
                std::string("repair() wants what was evicted, and this session does not keep it: give ") + item::kCold +
                    " before the text is read"};
    }
    if (seq.n_tokens == 0) { return {ErrorCode::kInvalidArgument, "a session must be prefilled before it can be repaired"}; }
    return check_tokens(*session.file, question);
}

// What wants the entries most changes places with what wants them least, within each lane. evidence: of the lanes as they are;
// it is the sequence's then. Returns how many came back. All of it or, on an error, nothing.
Result<int64_t> exchange_by(LiveSession & session, Scores scores, int32_t end_of_context, const ColdScorer & scorer,
                            EvidenceState evidence) {
    Sequence & seq = session.seq;
    PITH_ASSIGN_OR_RETURN(Exchange exchange, plan_exchange(session, std::move(scores), end_of_context, scorer));
    if (exchange.n_returned == 0) {
        seq.evidence = std::move(evidence);
        return 0;
    }
    PITH_RETURN_IF_ERROR(read_returns(session, exchange));
    carry_evidence(std::move(evidence), exchange);
    const CancelScope not_now(*session.forward, nullptr);  // it would end on one thread what it has begun on many
    PITH_RETURN_IF_ERROR(seq.swap(std::move(exchange.swap), tasks_on(session.forward->observer())));
    return exchange.n_returned;
}

// What the question wants, for as long as it is answered; null: answers look for nothing of their own. evidence keeps their
// queries from then on.
std::shared_ptr<const LookedFor> looked_for(const LiveSession & session, const Scores & scores, int32_t end_of_context,
                                            EvidenceState & evidence) {
    const int every = session.options.repair_every;
    if (every <= 0) { return nullptr; }
    auto looked = std::make_shared<LookedFor>();
    looked->end_of_context = end_of_context;
    looked->needs_before = evidence.made_for();
    looked->n_answer_queries = every;
    looked->wants = scores.wants;
    for (std::vector<float> & lane : looked->wants) {
        for (float & want : lane) { want /= static_cast<float>(scores.n_queries); }
    }
    evidence.widen(needs_of(static_cast<size_t>(every)));
    return looked;
}

// No answer looks for anything any more.
void forget_question(Sequence & seq) {
    seq.evidence.narrow(seq.looked_for->needs_before);
    seq.looked_for.reset();
}

// score: what the question's queries pay. settle: evidence is as it is to stay, before entries change places.
template <class Score, class Settle>
Status repair_by(LiveSession & session, int32_t end_of_context, bool brings_back, const Score & score, const Settle & settle) {
    Ledger & ledger = session.ledger;
    Sequence & seq = session.seq;
    // Where kept keys have moved together, what is cold has no place among them.
    const bool can_look = seq.cold.n_entries() > 0 && seq.cache->shift() == 0;
    const Stopwatch watch;
    const uint64_t read_before = seq.cold.read_bytes();
    const int64_t bytes_before = ledger.cold_read_bytes;
    double missed = 0;
    int64_t n_back = 0;
    uint64_t n_read = 0;
    const Status status = guarded([&]() -> Status {
        const ColdScorer scorer(session);
        Scores scores;
        if (can_look) { PITH_ASSIGN_OR_RETURN(scores, score(scorer)); }
        settle();
        if (!can_look) { return {}; }
        n_read = seq.cold.read_bytes() - read_before;
        missed = scores.missed();
        if (!brings_back) { return {}; }
        EvidenceState evidence = seq.evidence;
        if (seq.looked_for) { evidence.narrow(seq.looked_for->needs_before); }  // of the question before this one
        auto looked = looked_for(session, scores, end_of_context, evidence);
        PITH_ASSIGN_OR_RETURN(n_back, exchange_by(session, std::move(scores), end_of_context, scorer, std::move(evidence)));
        n_read = seq.cold.read_bytes() - read_before;
        seq.looked_for = std::move(looked);
        seq.repair_at = seq.n_tokens + session.options.repair_every;
        return {};
    });
    ledger.repair_s += watch.seconds();
    PITH_RETURN_IF_ERROR(status);
    ledger.kv_missed = missed;
    ledger.cold_read_bytes = bytes_before + static_cast<int64_t>(n_read);  // what looking back has read is among it
    ledger.returned_entries += n_back;
    ledger.n_repairs += n_back > 0 ? 1 : 0;
    return {};
}

}  // namespace

Status repair_for(LiveSession & session, std::span<const int32_t> question, bool brings_back) {
    PITH_RETURN_IF_ERROR(check(session, question));
    return repair_by(
        session, static_cast<int32_t>(session.seq.n_tokens), brings_back,
        [&](const ColdScorer & scorer) { return score_in_front(session, question, scorer); }, [] {});
}

RepairBehind::RepairBehind(LiveSession & session, int64_t n_tokens)
    : session_(session),
      n_asked_(n_that_ask(n_tokens)),
      needs_before_(session.seq.evidence.made_for()),
      paid_(session, static_cast<int32_t>(session.seq.n_tokens),
            static_cast<int32_t>(session.seq.n_tokens + n_tokens - static_cast<int64_t>(n_asked_))) {
    session.ahead.drop();  // these rows have no queries
    session.seq.evidence.widen(needs_of(n_asked_));
    session.asking = &paid_;
}

Status RepairBehind::finish() {
    const int32_t end = paid_.end_of_context();
    std::optional<Scores> scores;
    const bool whole = paid_.is_whole(session_, static_cast<int64_t>(n_asked_));
    return repair_by(
        session_, end, /*brings_back=*/true,
        [&](const ColdScorer & scorer) -> Result<Scores> {
            if (whole) { PITH_ASSIGN_OR_RETURN(scores, score_seen(session_, paid_, n_asked_, scorer)); }
            if (!scores) { PITH_ASSIGN_OR_RETURN(scores, score_all(session_, n_asked_, end, scorer)); }
            return std::move(*scores);
        },
        [&] { session_.seq.evidence.narrow(std::move(needs_before_)); });
}

void begin_prompt(LiveSession & session, int64_t n_tokens) {
    Sequence & seq = session.seq;
    if (!seq.looked_for) { return; }
    if (seq.looked_for->end_of_context == seq.n_tokens) {  // it is the question
        seq.repair_at = seq.n_tokens + n_tokens + session.options.repair_every;
        return;
    }
    forget_question(seq);
}

bool answer_looks(const LiveSession & session) {
    const Sequence & seq = session.seq;
    return seq.looked_for && session.options.repair_every > 0 && seq.n_tokens + 1 >= seq.repair_at &&
           seq.cold.n_entries() > 0 && seq.cache->shift() == 0;
}

Status repair_answer(LiveSession & session) {
    Sequence & seq = session.seq;
    if (seq.cache->shift() != 0) { return {}; }  // behind this very token keys have turned
    const LookedFor & question = *seq.looked_for;
    const auto n = static_cast<size_t>(question.n_answer_queries);
    const Stopwatch watch;
    const uint64_t read_before = seq.cold.read_bytes();
    session.ahead.drop();  // rows that saw what may leave
    const ColdScorer scorer(session);
    PITH_ASSIGN_OR_RETURN(Scores scores, score_all(session, n, question.end_of_context, scorer));
    bool whole = true;
    for (size_t lane = 0; lane < scores.wants.size(); ++lane) {
        std::vector<float> & wants = scores.wants[lane];
        const std::vector<float> & asked = question.wants[lane];
        whole = whole && wants.size() == asked.size();
        for (size_t i = 0; whole && i < wants.size(); ++i) { wants[i] = wants[i] / static_cast<float>(n) + asked[i]; }
    }
    int64_t n_back = 0;
    if (whole) {
        PITH_ASSIGN_OR_RETURN(n_back, exchange_by(session, std::move(scores), question.end_of_context, scorer, seq.evidence));
        seq.repair_at = seq.n_tokens + session.options.repair_every;
    } else {  // some of it is lost, for want of room on disk: the answer looks no more
        forget_question(seq);
    }
    Ledger & ledger = session.ledger;
    ledger.cold_read_bytes += static_cast<int64_t>(seq.cold.read_bytes() - read_before);
    ledger.n_answer_repairs += n_back > 0 ? 1 : 0;
    ledger.answer_repair_s += watch.seconds();
    return {};
}

}  // namespace pith
