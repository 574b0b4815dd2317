// saved_session.cpp - section by section.
#include "engine/rest/saved_session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "cache/kv_type.h"
#include "core/byte_stream.h"
#include "engine/rest/saved_gates.h"
#include "engine/rest/session_settings.h"

namespace pith {
namespace {

constexpr int kMostSize = 1 << 20;                    // of a head, a group, a number of layers or heads
constexpr int kMostOfPlan = (1 << 30) - 1;            // of a chunk, a grid, a budget: two of them together are an int, too
constexpr int64_t kMostInMemory = int64_t{1} << 40U;  // tokens
constexpr int64_t kRowsAtATime = 4096;                // entries

template <class Count>
void each_counter(Ledger & ledger, const Count & count) {
    for (int64_t * n :
         {&ledger.n_prompt, &ledger.n_generated, &ledger.n_evictions, &ledger.evicted_entries, &ledger.n_context_shifts,
          &ledger.peak_lane_entries, &ledger.gate_seen_entries, &ledger.gate_kept_entries}) {
        count(*n);
    }
    for (size_t * n :
         {&ledger.kv_peak_bytes, &ledger.evidence_peak_bytes, &ledger.activation_peak_bytes, &ledger.gate_peak_bytes}) {
        count(*n);
    }
    for (double * seconds : {&ledger.prefill_s, &ledger.decode_s, &ledger.evidence_s, &ledger.plan_s, &ledger.compact_s,
                             &ledger.gate_s, &ledger.reread_s}) {
        count(*seconds);
    }
}

template <class Number>
void each_number(RunPlan & plan, const Number & number) {
    number(plan.budget);
    number(plan.least);
    number(plan.capacity);
    for (int * n : {&plan.chunk, &plan.evict_every, &plan.grid, &plan.n_guide, &plan.n_reread}) { number(*n); }
}

void write_pairs(const std::vector<std::pair<std::string, std::string>> & pairs, ByteWriter & to) {
    to.number(uint64_t{pairs.size()});
    for (const auto & [name, value] : pairs) {
        to.text(name);
        to.text(value);
    }
}

std::vector<std::pair<std::string, std::string>> read_pairs(ByteReader & from) {
    std::vector<std::pair<std::string, std::string>> pairs(from.count(2 * sizeof(uint64_t)));
    for (auto & [name, value] : pairs) {
        name = from.text();
        value = from.text();
    }
    return pairs;
}

void write_origin(const SavedOrigin & origin, ByteWriter & to) {
    for (const std::string * text : {&origin.model_name, &origin.model_path, &origin.lora_file}) { to.text(*text); }
    to.number(origin.lora_scale);
    to.text(origin.gate_file);
}

void write_state(const SavedSession & session, ByteWriter & to) {
    const SequencePlan & sequence = session.sequence;
    for (const std::string & text : {session.policy, sequence.policy_asked.name(), sequence.policy_reason, sequence.schedule}) {
        to.text(text);
    }
    write_budget(sequence.budget, to);
    to.number(static_cast<uint8_t>(session.known_heads));
    to.number(sequence.question_end);
    to.number(sequence.since_eviction);
    RunPlan plan = *sequence.plan;
    each_number(plan, [&to](auto n) { to.number(n); });
    to.flag(plan.one_shot);
    to.number(plan.share);
    Ledger ledger = session.ledger;
    each_counter(ledger, [&to](auto n) { to.number(n); });
}

Status read_state(ByteReader & from, SavedSession & session) {
    SequencePlan & sequence = session.sequence;
    session.policy = from.text();
    sequence.policy_asked = from.text();
    sequence.policy_reason = from.text();
    sequence.schedule = from.text();
    PITH_ASSIGN_OR_RETURN(sequence.budget, read_budget(from));
    const auto known_heads = from.number<uint8_t>();
    session.known_heads = static_cast<KnownHeads>(known_heads);
    sequence.question_end = from.number<int64_t>();
    sequence.since_eviction = from.number<int>();
    bool sensible = known_heads <= static_cast<uint8_t>(KnownHeads::kOthers) && sequence.since_eviction >= 0 &&
                    sequence.since_eviction <= kMostSequenceTokens && sequence.question_end >= 0;
    RunPlan & plan = sequence.plan.emplace();
    each_number(plan, [&](auto & n) {
        n = from.number<std::remove_reference_t<decltype(n)>>();
        const int64_t wide = n;
        sensible = sensible && wide >= 0 && wide <= kMostInMemory;
    });
    for (const int64_t n : {plan.budget, int64_t{plan.chunk}, int64_t{plan.evict_every}, int64_t{plan.grid},
                            int64_t{plan.n_guide}, int64_t{plan.n_reread}}) {
        sensible = sensible && n <= kMostOfPlan;
    }
    plan.one_shot = from.flag();
    plan.share = from.number<double>();
    sensible = sensible && plan.share >= 0 && plan.share <= 1;
    each_counter(session.ledger, [&](auto & n) {
        n = from.number<std::remove_reference_t<decltype(n)>>();
        sensible = sensible && n >= 0;
    });
    if (sensible && plan.chunk > 0 && from.done()) { return {}; }
    return {ErrorCode::kBadFile, "its state makes no sense"};
}

// A layer's numbers, in the file's order.
template <class Number>
void each_number(LayerLanes & lanes, const Number & number) {
    for (int * n : {&lanes.n_kv_heads, &lanes.n_group, &lanes.head_dim, &lanes.head_dim_v, &lanes.window}) { number(*n); }
}

// Entries of a lane from the n-th on. REQUIRES: those before are of the first n tokens, and have not turned.
void write_lanes(const RaggedCache & cache, int64_t n_before, ByteWriter & to) {
    const CacheLayout & layout = cache.layout();
    to.number(static_cast<uint64_t>(layout.n_layers()));
    for (int l = 0; l < layout.n_layers(); ++l) {
        LayerLanes lanes = layout.lanes(l);
        each_number(lanes, [&to](int n) { to.number(n); });
    }
    to.number(static_cast<uint64_t>(cache.n_lanes()));
    to.number(cache.shift());
    for (int i = 0; i < cache.n_lanes(); ++i) {
        to.array(cache.positions(i).subspan(static_cast<size_t>(n_before)));
        to.array(cache.turned(i));
    }
}

Status read_lanes(ByteReader & from, SavedSession & session) {
    const Status bad(ErrorCode::kBadFile, "its lanes make no sense");
    session.layers.resize(from.count(5 * sizeof(int)));
    session.entries.layers.resize(session.layers.size());
    std::iota(session.entries.layers.begin(), session.entries.layers.end(), 0);
    bool sensible = !session.layers.empty() && session.layers.size() <= size_t{kMostSize};
    uint64_t wanted = 0;
    for (LayerLanes & lanes : session.layers) {
        each_number(lanes, [&](int & n) { n = from.number<int>(); });
        for (const int n : {lanes.n_group, lanes.head_dim, lanes.head_dim_v}) {
            sensible = sensible && n > 0 && n <= kMostSize;
        }
        sensible = sensible && lanes.n_kv_heads >= 0 && lanes.n_kv_heads <= kMostSize && lanes.window >= 0 &&
                   lanes.window <= kMostSequenceTokens;
        wanted += sensible ? static_cast<uint64_t>(lanes.n_kv_heads) : 0;
    }
    const size_t n_lanes = from.count(sizeof(uint64_t));
    if (!sensible || !from.ok() || n_lanes != wanted || !RaggedCache::check_types(session.layout()).ok()) { return bad; }
    const int64_t n_tokens = session.n_tokens();
    session.entries.shift = from.number<int32_t>();
    if (session.entries.shift < 0 || session.entries.shift > n_tokens) { return bad; }
    for (size_t i = 0; i < n_lanes; ++i) {
        const std::vector<int32_t> & lane = session.entries.positions.emplace_back(from.array<int32_t>());
        const bool ascends = std::ranges::adjacent_find(lane, std::greater_equal<>()) == lane.end();
        if (!ascends || (!lane.empty() && (lane.front() < session.before.n || lane.back() >= n_tokens))) { return bad; }
        const std::vector<int32_t> & turned = session.entries.turned.emplace_back(from.array<int32_t>());
        if (!stand_in_order(turned, lane, session.entries.shift)) { return bad; }
    }
    return from.done() ? Status() : bad;
}

// Calls it with each layer's lanes and the number of entries in them.
template <class Visit>
void each_layer(const SavedSession & session, const Visit & visit) {
    size_t lane = 0;
    for (const LayerLanes & lanes : session.layers) {
        int64_t n = 0;
        for (int h = 0; h < lanes.n_kv_heads; ++h) { n += std::ssize(session.entries.positions[lane++]); }
        visit(lanes, n);
    }
}

bool governs(const LayerLanes & lanes) {
    return lanes.n_kv_heads > 0 && lanes.window == 0;
}

uint64_t bytes_of_rows(const SavedSession & session, bool windows_alone) {
    uint64_t bytes = 0;
    const CacheLayout layout = session.layout();
    int layer = 0;
    each_layer(session, [&](const LayerLanes & lanes, int64_t n) {
        const size_t of_row = layout.rows(layer++).bytes();
        if (!windows_alone || lanes.window > 0) { bytes += static_cast<uint64_t>(n) * of_row; }
    });
    return bytes;
}

Status write_rows(CacheFileWriter & file, const RaggedCache & cache, int64_t n_before) {
    std::vector<uint8_t> k;
    std::vector<uint8_t> v;
    PITH_RETURN_IF_ERROR(file.begin("rows"));
    for (int layer = 0; layer < cache.layout().n_layers(); ++layer) {
        const LaneRows rows = cache.layout().rows(layer);
        k.resize(static_cast<size_t>(kRowsAtATime) * rows.bytes_k());
        v.resize(static_cast<size_t>(kRowsAtATime) * rows.bytes_v());
        for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
            const int length = cache.length(cache.lane(0, layer, h));
            for (const bool keys : {true, false}) {
                for (int64_t first = n_before; first < length; first += kRowsAtATime) {
                    const int64_t n = std::min(kRowsAtATime, length - first);
                    cache.read(0, layer, h, first, n, k.data(), v.data());
                    const auto bytes = static_cast<size_t>(n) * (keys ? rows.bytes_k() : rows.bytes_v());
                    PITH_RETURN_IF_ERROR(file.write(std::span(keys ? k : v).first(bytes)));
                }
            }
        }
    }
    return cache.health();
}

Status write_states(CacheFileWriter & file, int n_layers_of_model, const RecurrentStates & states) {
    std::vector<int> recurrent;
    for (int l = 0; l < n_layers_of_model; ++l) {
        if (states.has(l)) { recurrent.push_back(l); }
    }
    PITH_RETURN_IF_ERROR(file.begin("states"));
    ByteWriter n_layers;
    n_layers.number(uint64_t{recurrent.size()});
    PITH_RETURN_IF_ERROR(file.write(n_layers.bytes()));
    for (const int layer : recurrent) {  // one at a time: a large model's take tens of MiB
        ByteWriter one;
        one.number(layer);
        one.array(states.layer(layer));
        PITH_RETURN_IF_ERROR(file.write(one.bytes()));
    }
    return {};
}

// Of layers without lanes, in their order; which of these have one is the model's to say.
Status read_states(ByteReader & from, SavedSession & session) {
    const Status bad(ErrorCode::kBadFile, "its states of recurrent layers make no sense");
    const size_t n_recurrent = from.count(sizeof(int) + sizeof(uint64_t));
    int before = -1;
    for (size_t i = 0; i < n_recurrent; ++i) {
        const int layer = from.number<int>();
        std::vector<float> state = from.array<float>();
        const bool is_recurrent =
            layer > before && layer < std::ssize(session.layers) && session.layers[static_cast<size_t>(layer)].n_kv_heads == 0;
        if (!from.ok() || !is_recurrent) { return bad; }
        if (!std::ranges::all_of(state, [](float x) { return std::isfinite(x); })) { return bad; }
        session.states.add(layer, std::move(state));
        before = layer;
    }
    return from.done() ? Status() : bad;
}

template <class T>
Result<std::vector<T>> read_numbers(const CacheFileView & file, std::string_view section) {
    PITH_ASSIGN_OR_RETURN(const std::span<const uint8_t> bytes, file.section(section));
    if (bytes.empty() || bytes.size() % sizeof(T) != 0) { return file.damaged("its " + std::string(section) + " are cut"); }
    std::vector<T> numbers(bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
}

}  // namespace

CacheLayout SavedSession::layout() const {
    CacheLayout layout;
    layout.layers = layers;
    layout.type_k = to_ggml(options.type_k);
    layout.type_v = to_ggml(options.type_v);
    return layout;
}

bool SavedSession::holds_all() const {
    const bool stands = entries.shift == 0 &&
                        std::ranges::all_of(entries.turned, [](const std::vector<int32_t> & lane) { return lane.empty(); });
    return stands && std::ranges::all_of(entries.positions, [this](const std::vector<int32_t> & lane) {
               return std::ssize(lane) == std::ssize(tokens) && lane.front() == before.n && lane.back() == n_tokens() - 1;
           });
}

int64_t SavedSession::n_governed_lanes() const {
    int64_t n = 0;
    for (const LayerLanes & lanes : layers) { n += governs(lanes) ? lanes.n_kv_heads : 0; }
    return n;
}

int64_t SavedSession::n_governed_entries() const {
    int64_t n = 0;
    each_layer(*this, [&n](const LayerLanes & lanes, int64_t n_entries) { n += governs(lanes) ? n_entries : 0; });
    return n;
}

uint64_t SavedSession::window_bytes() const {
    return bytes_of_rows(*this, /*windows_alone=*/true);
}

Status write_saved(const std::string & path, const SavedSession & session, const Sequence & sequence, bool cold_rows) {
    PITH_ASSIGN_OR_RETURN(CacheFileWriter file, CacheFileWriter::create(path));
    const auto add = [&file](const char * section, const auto & fill) {
        ByteWriter writer;
        fill(writer);
        return file.add(section, writer.bytes());
    };
    const int64_t n_before = session.before.n;
    if (n_before > 0) {
        PITH_RETURN_IF_ERROR(add("before", [&](ByteWriter & to) {
            to.number(n_before);
            to.number(session.before.hash);
        }));
    }
    PITH_RETURN_IF_ERROR(add("model", [&](ByteWriter & to) { write_pairs(session.model, to); }));
    PITH_RETURN_IF_ERROR(add("origin", [&](ByteWriter & to) { write_origin(session.origin, to); }));
    PITH_RETURN_IF_ERROR(add("settings", [&](ByteWriter & to) { write_settings(session.options, to); }));
    PITH_RETURN_IF_ERROR(add("state", [&](ByteWriter & to) { write_state(session, to); }));
    PITH_RETURN_IF_ERROR(file.begin("tokens"));
    Status written;
    auto n_skipped = static_cast<size_t>(n_before);
    sequence.tokens.for_each_block([&](std::span<const int32_t> block) {
        const size_t skipped = std::min(n_skipped, block.size());
        n_skipped -= skipped;
        block = block.subspan(skipped);
        if (!written.ok()) { return; }
        written = file.write(raw_bytes(block));
    });
    PITH_RETURN_IF_ERROR(written);
    PITH_RETURN_IF_ERROR(file.add("logits", raw_bytes(std::span(sequence.logits))));
    PITH_RETURN_IF_ERROR(add("lanes", [&](ByteWriter & to) { write_lanes(*sequence.cache, n_before, to); }));
    PITH_RETURN_IF_ERROR(write_rows(file, *sequence.cache, n_before));
    PITH_RETURN_IF_ERROR(write_states(file, sequence.cache->layout().n_layers(), sequence.states));
    EvidenceState evidence = sequence.evidence;
    if (sequence.looked_for) { evidence.narrow(sequence.looked_for->needs_before); }  // what is opened has no question
    PITH_RETURN_IF_ERROR(add("evidence", [&](ByteWriter & to) { evidence.write(to); }));
    PITH_RETURN_IF_ERROR(add("gates", [&](ByteWriter & to) { write_gates(sequence.gate_state, to); }));
    PITH_RETURN_IF_ERROR(add("notes", [&](ByteWriter & to) { write_pairs(session.notes, to); }));
    if (sequence.cold.on()) {
        PITH_RETURN_IF_ERROR(
            write_cold(file, sequence.cold, session.options, sequence.plan->most_back, sequence.cache->layout(), cold_rows));
    }
    return file.publish();
}

Result<SavedSession> read_saved(const CacheFileView & file, std::span<const CacheFile> cold_parts) {
    SavedSession session;
    const auto damaged = [&file](const Status & why) { return file.damaged(why.message()); };
    if (file.has("cold-parts")) {
        PITH_RETURN_IF_ERROR(read_cold_parts(file).status());
        session.is_rows = true;
        return session;
    }
    if (file.has("before")) {
        PITH_ASSIGN_OR_RETURN(const auto before, file.section("before"));
        ByteReader from_before(before);
        session.before.n = from_before.number<int64_t>();
        session.before.hash = from_before.number<uint64_t>();
        const bool sensible = session.before.n > 0 && session.before.n < kMostSequenceTokens;
        if (!from_before.done() || !sensible) { return file.damaged("what it says of the tokens before it makes no sense"); }
    }

    PITH_ASSIGN_OR_RETURN(const auto model, file.section("model"));
    ByteReader from_model(model);
    session.model = read_pairs(from_model);
    if (!from_model.done() || session.model.empty()) { return file.damaged("what it says of the model makes no sense"); }

    PITH_ASSIGN_OR_RETURN(const auto origin, file.section("origin"));
    ByteReader from_origin(origin);
    session.origin.model_name = from_origin.text();
    session.origin.model_path = from_origin.text();
    session.origin.lora_file = from_origin.text();
    session.origin.lora_scale = from_origin.number<float>();
    session.origin.gate_file = from_origin.text();
    if (!from_origin.done()) { return file.damaged("what it says of where the model was makes no sense"); }

    PITH_ASSIGN_OR_RETURN(const auto settings, file.section("settings"));
    ByteReader from_settings(settings);
    auto options = read_settings(from_settings);
    if (!options.ok()) { return damaged(options.status()); }
    if (!from_settings.done()) { return file.damaged("its settings do not end where they should"); }
    session.options = std::move(*options);

    PITH_ASSIGN_OR_RETURN(const auto state, file.section("state"));
    ByteReader from_state(state);
    if (const Status status = read_state(from_state, session); !status.ok()) { return damaged(status); }

    PITH_ASSIGN_OR_RETURN(session.tokens, read_numbers<int32_t>(file, "tokens"));
    PITH_ASSIGN_OR_RETURN(session.logits, read_numbers<float>(file, "logits"));
    const int64_t n_tokens = session.n_tokens();
    session.sequence.n_tokens = n_tokens;
    if (n_tokens > kMostSequenceTokens || session.sequence.question_end > n_tokens) {
        return file.damaged("its tokens make no sense");
    }

    PITH_ASSIGN_OR_RETURN(const auto lanes, file.section("lanes"));
    ByteReader from_lanes(lanes);
    if (const Status status = read_lanes(from_lanes, session); !status.ok()) { return damaged(status); }
    if (session.before.n > 0 && !session.holds_all()) { return file.damaged("it lacks entries of its tokens"); }
    PITH_ASSIGN_OR_RETURN(session.entries.in_file, file.section("rows"));
    session.entries.file = file.mapped();
    if (session.entries.in_file.size() != bytes_of_rows(session, /*windows_alone=*/false)) {
        return file.damaged("its rows are not those of its lanes");
    }
    PITH_ASSIGN_OR_RETURN(const auto states, file.section("states"));
    ByteReader from_states(states);
    if (const Status status = read_states(from_states, session); !status.ok()) { return damaged(status); }

    PITH_ASSIGN_OR_RETURN(const auto notes, file.section("notes"));
    ByteReader from_notes(notes);
    session.notes = read_pairs(from_notes);
    if (!from_notes.done()) { return file.damaged("its notes do not end where they should"); }
    PITH_ASSIGN_OR_RETURN(session.cold,
                          read_cold(file, cold_parts, session.options, session.layout(), session.entries.positions, n_tokens));
    if (session.cold) {
        session.options.cold = session.cold->type;
        session.options.cold_bytes = session.cold->most_bytes;
        session.options.look_back = session.cold->most_back.has_value();
        if (session.sequence.plan) {
            session.sequence.plan->most_back = session.cold->most_back.value_or(session.sequence.plan->most_back);
        }
        if (is_quantised(session.cold->type)) { session.options.rotate_kv = session.cold->is_rotated; }
    }
    for (const char * needed : {"evidence", "gates"}) { PITH_RETURN_IF_ERROR(file.section(needed).status()); }
    return session;
}

}  // namespace pith
