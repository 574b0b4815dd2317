// custom_scorer.cpp - evidence as the arrays of pith/custom_scorer.h, where it lies, and what comes back. Stage: score.
// Pure C++: no ggml, no I/O.
#include "policy/score/custom_scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <string>
#include <vector>

namespace pith {
namespace {

constexpr int kDefaultRecent = 32;  // as other scorers without a window

// Of this thread: the scorer whose function runs.
thread_local const OwnScorer * running = nullptr;

class Running {
public:
    explicit Running(const OwnScorer * scorer) { running = scorer; }
    ~Running() { running = nullptr; }
    Running(const Running &) = delete;
    Running & operator=(const Running &) = delete;
};

// A row of so many numbers for each entry of every lane.
bool fits(const Ragged<float> & rows, const LayerEvidence & evidence, size_t n_each) {
    bool good = rows.n_rows() == evidence.n_kv_heads;
    for (int h = 0; good && h < rows.n_rows(); ++h) {
        good = rows.row(h).size() == static_cast<size_t>(evidence.length(h)) * n_each;
    }
    return good;
}

std::span<const float> given_if(bool wanted, std::span<const float> rows) {
    return wanted ? rows : std::span<const float>();
}

}  // namespace

EvidenceNeeds OwnScorer::needs() const {
    const ScorerNeeds & wanted = given_.needs;
    return {.window = wanted.window,
            .window_mean = wanted.window_mean,
            .window_max = wanted.window_max,
            .window_rows = wanted.window_attention,
            .window_queries = wanted.window_queries,
            .key_rows = wanted.keys,
            .value_rows = wanted.values,
            .last_query = wanted.last_query,
            .running_sum = wanted.running_sum,
            .key_norm = wanted.key_norm,
            .value_l1 = wanted.value_l1,
            .value_l2 = wanted.value_l2,
            .output_l2 = wanted.output_l2};
}

int OwnScorer::n_recent(int64_t /*budget*/) const {
    if (given_.n_recent >= 0) { return given_.n_recent; }
    return given_.needs.window > 0 ? given_.needs.window : kDefaultRecent;
}

Status OwnScorer::check(const LayerEvidence & evidence) const {
    const ScorerNeeds & wanted = given_.needs;
    const struct {
        bool wanted;
        const char * name;
        const Ragged<float> & rows;
        bool per_head;
    } kinds[] = {
        {wanted.window_mean, "window_mean", evidence.window_mean, true},
        {wanted.window_max, "window_max", evidence.window_max, true},
        {wanted.last_query, "last_query", evidence.last_query, true},
        {wanted.running_sum, "running_sum", evidence.running_sum, true},
        {wanted.key_norm, "key_norm", evidence.key_norm, false},
        {wanted.value_l1, "value_l1", evidence.value_l1, false},
        {wanted.value_l2, "value_l2", evidence.value_l2, false},
        {wanted.output_l2, "output_l2", evidence.output_l2, true},
    };
    for (const auto & kind : kinds) {
        if (kind.wanted) { PITH_RETURN_IF_ERROR(require_rows(given_.name, kind.name, kind.rows, evidence, kind.per_head)); }
    }
    const auto missing = [&](const char * what) {
        return Status(ErrorCode::kMissingEvidence, given_.name + " needs " + what + ", and the evidence of layer " +
                                                       std::to_string(evidence.layer) + " lacks them");
    };
    const auto width = [](int n) { return static_cast<size_t>(n); };
    if (wanted.keys && !fits(evidence.key_rows, evidence, width(evidence.head_dim))) { return missing("keys"); }
    if (wanted.values && !fits(evidence.value_rows, evidence, width(evidence.head_dim_v))) { return missing("values"); }
    const size_t n_heads = width(evidence.n_kv_heads) * width(evidence.n_group);
    const size_t n_queries = width(evidence.n_window) * n_heads * width(evidence.head_dim);
    if (wanted.window_queries && evidence.window_queries.size() != n_queries) { return missing("queries of the window"); }
    const size_t n_rows = evidence.positions.size() * width(evidence.n_group) * width(evidence.n_window);
    if (wanted.window_attention && evidence.window_rows.size() != n_rows) { return missing("attention of the window"); }
    return {};
}

Status OwnScorer::call(const ScorerLayer & layer, std::span<float> scores) const {
    if (running != nullptr) {
        return {ErrorCode::kInvalidArgument, "it was asked for while the function of scorer '" + running->given_.name +
                                                 "' ran: such a function must not feed or evict a session of such a scorer"};
    }
    const std::lock_guard alone(one_call_);
    const Running here(this);
    try {
        return given_.score(layer, scores);
    } catch (const std::bad_alloc &) {
        return {ErrorCode::kOutOfMemory, "its function is out of memory"};
    } catch (const std::exception & error) {
        return {ErrorCode::kInternal, std::string("its function threw: ") + error.what()};
    } catch (...) { return {ErrorCode::kInternal, "its function threw"}; }
}

Status OwnScorer::check_finite(const LayerEvidence & evidence, const Ragged<float> & scores) const {
    for (int h = 0; h < scores.n_rows(); ++h) {
        const auto row = scores.row(h);
        const auto broken = std::ranges::find_if(row, [](float score) { return !std::isfinite(score); });
        if (broken == row.end()) { continue; }
        const auto entry = static_cast<size_t>(broken - row.begin());
        return {ErrorCode::kNotFinite, "scorer '" + given_.name + "' gave layer " + std::to_string(evidence.layer) + ", head " +
                                           std::to_string(h) + ", entry " + std::to_string(entry) + " (position " +
                                           std::to_string(evidence.positions.row(h)[entry]) + ") the score " +
                                           std::to_string(*broken) +
                                           ": every entry needs a finite one (those it leaves alone are nan)"};
    }
    return {};
}

Status OwnScorer::score(const LayerEvidence & evidence, Ragged<float> & scores) const {
    PITH_RETURN_IF_ERROR(check(evidence));
    std::vector<int> lengths;
    std::vector<int64_t> begin{0};
    for (int h = 0; h < evidence.n_kv_heads; ++h) {
        lengths.push_back(evidence.length(h));
        begin.push_back(begin.back() + lengths.back());
    }
    const ScorerNeeds & wanted = given_.needs;
    const bool wide = wanted.keys || wanted.values || wanted.window_queries || wanted.window_attention;
    const ScorerLayer layer{
        .layer = evidence.layer,
        .n_kv_heads = evidence.n_kv_heads,
        .n_group = evidence.n_group,
        .head_dim = wide ? evidence.head_dim : 0,
        .head_dim_v = wide ? evidence.head_dim_v : 0,
        .n_window = evidence.n_window,
        .n_seen = evidence.n_seen,
        .begin = begin,
        .positions = evidence.positions.flat(),
        .window_mean = given_if(wanted.window_mean, evidence.window_mean.flat()),
        .window_max = given_if(wanted.window_max, evidence.window_max.flat()),
        .window_attention = given_if(wanted.window_attention, evidence.window_rows.flat()),
        .window_queries = given_if(wanted.window_queries, evidence.window_queries),
        .last_query = given_if(wanted.last_query, evidence.last_query.flat()),
        .running_sum = given_if(wanted.running_sum, evidence.running_sum.flat()),
        .keys = given_if(wanted.keys, evidence.key_rows.flat()),
        .values = given_if(wanted.values, evidence.value_rows.flat()),
        .key_norm = given_if(wanted.key_norm, evidence.key_norm.flat()),
        .value_l1 = given_if(wanted.value_l1, evidence.value_l1.flat()),
        .value_l2 = given_if(wanted.value_l2, evidence.value_l2.flat()),
        .output_l2 = given_if(wanted.output_l2, evidence.output_l2.flat()),
    };
    scores = Ragged<float>(lengths, std::numeric_limits<float>::quiet_NaN());
    const Status status = call(layer, scores.flat());
    if (!status.ok()) {
        return {status.code(),
                "scorer '" + given_.name + "', layer " + std::to_string(evidence.layer) + ": " + status.wording()};
    }
    return check_finite(evidence, scores);
}

}  // namespace pith
