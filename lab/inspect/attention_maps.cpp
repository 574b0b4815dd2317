// attention_maps.cpp - observes queries while they are the newest, or what gates have left to them. Stage: inspect.
#include "inspect/attention_maps.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/text.h"
#include "engine/parts/model_parts.h"
#include "engine/policy_probe.h"
#include "evidence/query_sample.h"
#include "pith/session.h"

namespace pith {
namespace {

constexpr size_t kMostRowBytes = size_t{256} << 20U;  // of sampled queries, and of their rows in one layer
constexpr int kMostWindow = 65536;                    // that policies observe: also the most tokens of a cell

// Queries are observed where policies govern the layer.
Status check_governed(const Hparams & hparams, std::span<const MapHead> heads) {
    const auto other = std::ranges::find_if(heads, [&](const MapHead & one) { return !hparams.governs(one.layer); });
    if (other == heads.end()) { return {}; }
    return {ErrorCode::kUnsupported, "attention maps: the model (" + hparams.arch_name + ") has " + hparams.ungoverned() +
                                         ", layer " + std::to_string(other->layer) + " among them; the others are " +
                                         list_of_numbers(hparams.governed_layers())};
}

Status check(const ModelInfo & info, std::span<const int32_t> tokens, const AttentionMapOptions & options) {
    if (tokens.empty()) { return {ErrorCode::kInvalidArgument, "there is no text to look at"}; }
    if (options.heads.empty() || options.most_cells < 1) {
        return {ErrorCode::kInvalidArgument, "attention maps: name a head and a size of 1 or more"};
    }
    for (const MapHead & one : options.heads) {
        if (one.layer >= 0 && one.layer < info.n_layers && one.head >= 0 && one.head < info.n_heads) { continue; }
        return {ErrorCode::kInvalidArgument, "there is no head " + std::to_string(one.layer) + ":" + std::to_string(one.head) +
                                                 ": the model has layers 0 to " + std::to_string(info.n_layers - 1) +
                                                 " of heads 0 to " + std::to_string(info.n_heads - 1)};
    }
    return {};
}

class Mapper {
public:
    Mapper(const Model & model, std::span<const int32_t> tokens, const AttentionMapOptions & options)
        : model_(model), tokens_(tokens), options_(options), n_(static_cast<int>(tokens.size())) {
        cell_ = (n_ + options.most_cells - 1) / options.most_cells;
        n_cells_ = (n_ + cell_ - 1) / cell_;
        for (const MapHead & head : options.heads) {
            if (std::ranges::find(layers_, head.layer) == layers_.end()) { layers_.push_back(head.layer); }
        }
    }

    Status add_full(std::vector<AttentionMap> & maps) {
        if (cell_ > kMostWindow) { return {ErrorCode::kInvalidArgument, "the text is too long for a map of this size"}; }
        begin(false);
        SessionOptions session_options = base_options();
        session_options.chunk = cell_;
        session_options.observe = {"snapkv:window=" + std::to_string(cell_)};
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(session_options));
        PolicyProbe look(session, options_.cancel);
        for (int row = 0; row < n_cells_; ++row) {
            const int first = row * cell_;
            const int n = std::min(cell_, n_ - first);
            PITH_RETURN_IF_ERROR(session.prefill(tokens_.subspan(static_cast<size_t>(first), static_cast<size_t>(n)), hooks()));
            EvidenceNeeds needs;
            needs.window = n;
            needs.window_mean = true;
            for (const int layer : layers_) {
                PITH_ASSIGN_OR_RETURN(const LayerEvidence evidence, look.evidence(layer, needs));
                for (AttentionMap & map : maps_of(layer)) {
                    const int lane = map.head.head / evidence.n_group;
                    add_row(evidence.window_mean.row(map.head.head), evidence.positions.row(lane), row, 1, map);
                    map.n_rows[static_cast<size_t>(row)] = n;
                }
            }
            if (options_.progress) { options_.progress(row + 1, n_cells_); }
        }
        return finish(maps);
    }

    Status add_gated(std::vector<AttentionMap> & maps) {
        begin(true);
        EvidenceNeeds needs;
        needs.profile.n_queries = n_sampled();
        needs.profile.sample = QuerySample::kAny;
        needs.profile.distance = HeadDistance::kEuclidean;  // the rows themselves
        SessionOptions session_options = base_options();
        session_options.policy = "gated";
        session_options.observe = {"snapkv+novelty:distance=l2:sample=random:k=" + std::to_string(needs.profile.n_queries)};
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(session_options));
        PITH_RETURN_IF_ERROR(session.prefill(tokens_, hooks()));
        const std::vector<int32_t> queries = sampled_positions(needs.profile);
        PolicyProbe look(session, options_.cancel);
        for (const int layer : layers_) {
            PITH_ASSIGN_OR_RETURN(const LayerEvidence evidence, look.evidence(layer, needs));
            if (evidence.n_sampled != static_cast<int>(queries.size())) {
                return {ErrorCode::kInternal, "attention maps: " + std::to_string(evidence.n_sampled) +
                                                  " queries sampled where " + std::to_string(queries.size()) +
                                                  " were expected"};
            }
            for (AttentionMap & map : maps_of(layer)) { add_sampled(evidence, queries, map); }
        }
        return finish(maps);
    }

private:
    SessionOptions base_options() const {
        SessionOptions session_options;
        session_options.policy = "full";
        session_options.type_k = KvType::kF32;
        session_options.type_v = KvType::kF32;
        session_options.n_threads = options_.n_threads;
        return session_options;
    }
    RunHooks hooks() const {
        RunHooks hooks;
        hooks.cancel = options_.cancel;
        return hooks;
    }

    void begin(bool gated) {
        work_.clear();
        const auto cells = static_cast<size_t>(n_cells_);
        for (const int layer : layers_) {
            for (const MapHead & head : options_.heads) {
                if (head.layer != layer) { continue; }
                AttentionMap map{head, gated, n_, cell_, n_cells_, std::vector<int>(cells), std::vector<float>(cells * cells)};
                work_.push_back(std::move(map));
            }
        }
    }
    std::span<AttentionMap> maps_of(int layer) {
        const auto first = std::ranges::find(work_, layer, [](const AttentionMap & map) { return map.head.layer; });
        const auto end = std::find_if(first, work_.end(), [&](const AttentionMap & map) { return map.head.layer != layer; });
        return {first, end};
    }
    // In the order asked for.
    Status finish(std::vector<AttentionMap> & maps) {
        for (const MapHead & head : options_.heads) { maps.push_back(*std::ranges::find(work_, head, &AttentionMap::head)); }
        return {};
    }

    void add_row(std::span<const float> attention, std::span<const int32_t> positions, int row, float weight,
                 AttentionMap & map) const {
        float * const cells = map.values.data() + static_cast<size_t>(row) * static_cast<size_t>(n_cells_);
        for (size_t j = 0; j < attention.size(); ++j) { cells[positions[j] / cell_] += weight * attention[j]; }
    }

    void add_sampled(const LayerEvidence & evidence, std::span<const int32_t> queries, AttentionMap & map) const {
        for (const int32_t query : queries) { ++map.n_rows[static_cast<size_t>(query / cell_)]; }
        const auto lane = evidence.positions.row(map.head.head / evidence.n_group);
        for (size_t i = 0; i < queries.size(); ++i) {
            const int row = queries[i] / cell_;
            const auto index = static_cast<int>(static_cast<size_t>(map.head.head) * queries.size() + i);
            add_row(evidence.sampled_rows.row(index), lane, row,
                    1.0F / static_cast<float>(map.n_rows[static_cast<size_t>(row)]), map);
        }
    }

    int n_sampled() const {
        const ModelInfo & info = model_.info();
        const size_t of_rows = kMostRowBytes / (sizeof(float) * static_cast<size_t>(info.n_heads) * static_cast<size_t>(n_));
        const size_t of_queries = kMostRowBytes / (sizeof(float) * static_cast<size_t>(info.n_layers) *
                                                   static_cast<size_t>(info.n_heads) * static_cast<size_t>(info.head_dim));
        return static_cast<int>(std::clamp<size_t>(std::min(of_rows, of_queries), 1, static_cast<size_t>(std::min(n_, 65536))));
    }
    // As QuerySampler chooses them.
    std::vector<int32_t> sampled_positions(const ProfileNeeds & profile) const {
        std::vector<int32_t> positions(static_cast<size_t>(n_));
        std::iota(positions.begin(), positions.end(), 0);
        std::ranges::sort(positions, {}, [&](int32_t p) { return std::pair(sample_hash(profile.seed, p), p); });
        positions.resize(static_cast<size_t>(profile.n_queries));
        std::ranges::sort(positions);
        return positions;
    }

    const Model & model_;
    std::span<const int32_t> tokens_;
    const AttentionMapOptions & options_;
    int n_ = 0;
    int cell_ = 1;
    int n_cells_ = 0;
    std::vector<int> layers_;
    std::vector<AttentionMap> work_;  // layer by layer
};

}  // namespace

Result<std::vector<AttentionMap>> attention_maps(const Model & model, std::span<const int32_t> tokens,
                                                 const AttentionMapOptions & options) {
    PITH_RETURN_IF_ERROR(check(model.info(), tokens, options));
    PITH_RETURN_IF_ERROR(check_governed(file_of(model).hparams(), options.heads));
    Mapper mapper(model, tokens, options);
    std::vector<AttentionMap> maps;
    PITH_RETURN_IF_ERROR(mapper.add_full(maps));
    if (model.info().has_gates) { PITH_RETURN_IF_ERROR(mapper.add_gated(maps)); }
    return maps;
}

}  // namespace pith
