// cpu_columns.cpp - columns of few rows, and the sums of strands.
#include "attention/cpu/cpu_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/cpu/cpu_kernels.h"

namespace pith {
namespace {

bool sum_is_elsewhere(const ColumnTask & columns, size_t head) {
    return !columns.sum_before.empty() && columns.sum_before[head].values != columns.sum[head];
}

// Entries [begin, end) as they were, to be added to where the sum goes.
void move_sum(const ColumnTask & columns, size_t head, size_t begin, size_t end) {
    const SumBefore & before = columns.sum_before[head];
    float * to = columns.sum[head];
    for (size_t j = begin; j < std::min(end, before.n); ++j) { to[j] = before.values[j]; }
    for (size_t j = std::max(begin, before.n); j < end; ++j) { to[j] = 0.0F; }
}

// Few rows of one lane, row t · n_group + g, kept by spans.
class RowColumns {
public:
    RowColumns(const AttentionTask & task, std::span<const AttentionUnit> spans, float * partial)
        : task_(task), columns_(task.columns), spans_(spans), partial_(partial), lane_(spans.front().lane) {}

    void add() {
        for (int r = 0; r < task_.n_rows(); ++r) { seen_[r] = normalise(r); }
        for (int t = 0; t < task_.n_queries; ++t) {
            for (int g = 0; g < task_.n_group; ++g) {
                const int r = t * task_.n_group + g;
                const auto head = static_cast<size_t>(lane_ * task_.n_group + g);
                if (t == 0 && sum_is_elsewhere(columns_, head)) { start_sum(r, head); }
                if (seen_[r]) { add_row(r, head, t); }
            }
        }
        if (!columns_.group_squares.empty()) { add_group_squares(columns_.group_squares[static_cast<size_t>(lane_)]); }
    }

private:
    // visit(first entry, number of entries, weights of the row, maximum they are relative to)
    template <class Visit>
    void for_each_block(int r, Visit visit) const {
        for (const AttentionUnit & span : spans_) {
            float * weights = partial_ + span.partial + weights_offset(task_, span);
            const float * maxima = partial_ + span.partial + maxima_offset(task_, span);
            for (int b = 0; b < n_blocks(span); ++b) {
                const int begin = span.begin + b * kEntryBlock;
                const auto row = static_cast<size_t>(b * span.n_rows + r);
                visit(static_cast<size_t>(begin), static_cast<size_t>(std::min(kEntryBlock, span.end - begin)),
                      weights + row * kEntryBlock, maxima[row]);
            }
        }
    }

    // Weights to probabilities. false: the row sees nothing.
    bool normalise(int r) {
        float largest = -std::numeric_limits<float>::infinity();
        const auto part = [&](const AttentionUnit & span) {
            return partial_ + span.partial + static_cast<size_t>(r) * partial_row_floats(task_);
        };
        for (const AttentionUnit & span : spans_) { largest = std::max(largest, part(span)[0]); }
        float sum = 0;
        for (const AttentionUnit & span : spans_) {
            if (part(span)[1] != 0) { sum += std::exp2(part(span)[0] - largest) * part(span)[1]; }
        }
        if (sum == 0) { return false; }
        add_sink(task_.lanes[static_cast<size_t>(lane_)], static_cast<size_t>(r % task_.n_group), largest, sum);
        for_each_block(r, [&](size_t, size_t n, float * weights, float maximum) {
            const float factor = std::isinf(maximum) ? 0.0F : std::exp2(maximum - largest) / sum;
            for (size_t j = 0; j < n; ++j) { weights[j] *= factor; }
        });
        return true;
    }

    // The first row's part of a sum that goes elsewhere: what it was is read on the way.
    void start_sum(int r, size_t head) const {
        const auto length = static_cast<size_t>(task_.lanes[static_cast<size_t>(lane_)].length);
        if (!seen_[r]) { return move_sum(columns_, head, 0, length); }
        const SumBefore & before = columns_.sum_before[head];
        for_each_block(r, [&](size_t begin, size_t n, const float * p, float) {
            float * to = columns_.sum[head] + begin;
            const size_t n_old = std::min(n, std::max(begin, before.n) - begin);
            const float * old = before.values + (n_old > 0 ? begin : 0);
            for (size_t j = 0; j < n_old; ++j) { to[j] = old[j] + p[j]; }
            std::copy(p + n_old, p + n, to + n_old);
        });
        move_sum(columns_, head, static_cast<size_t>(spans_.back().end), length);
    }

    void add_row(int r, size_t head, int t) const {
        if (!columns_.largest.empty()) {
            float * to = columns_.largest[head];
            for_each_block(r, [&](size_t begin, size_t n, const float * p, float) {
                for (size_t j = 0; j < n; ++j) { to[begin + j] = std::max(to[begin + j], p[j]); }
            });
        }
        const auto add = [&](float * to, auto value) {
            for_each_block(r, [&](size_t begin, size_t n, const float * p, float) {
                for (size_t j = 0; j < n; ++j) { to[begin + j] += value(p[j]); }
            });
        };
        const auto copy = [&](float * to) {
            for_each_block(r, [&](size_t begin, size_t n, const float * p, float) { std::copy_n(p, n, to + begin); });
        };
        if (!columns_.sum.empty() && !(t == 0 && sum_is_elsewhere(columns_, head))) {
            add(columns_.sum[head], [](float p) { return p; });
        }
        if (!columns_.squares.empty()) {
            add(columns_.squares[head], [](float p) { return p * p; });
        }
        if (!columns_.last.empty() && t == task_.n_queries - 1) { copy(columns_.last[head]); }
        if (!columns_.rows.empty()) {
            copy(columns_.rows[head * static_cast<size_t>(task_.n_queries) + static_cast<size_t>(t)]);
        }
        if (!columns_.entropy.empty()) {
            const auto past = static_cast<size_t>(columns_.past[static_cast<size_t>(lane_)]);
            for_each_block(r, [&](size_t begin, size_t n, const float * p, float) {
                for (size_t j = 0; j < n && begin + j < past; ++j) {
                    if (p[j] != 0) { *columns_.entropy[head] -= double{p[j]} * std::log(double{p[j]}); }
                }
            });
        }
        if (columns_.profile.empty()) { return; }
        float * profile = columns_.profile[head];
        switch (columns_.distance) {
            case HeadDistance::kCosine: {
                const auto scale = static_cast<float>(1.0 / std::sqrt(total(r, [](float p) { return double{p} * double{p}; })));
                add(profile, [scale](float p) { return p * scale; });
                break;
            }
            case HeadDistance::kPearson:
                add_centred(r, profile);
                break;
            case HeadDistance::kBhattacharyya:
                add(profile, [](float p) { return std::sqrt(p); });
                break;
            case HeadDistance::kJensenShannon:
            case HeadDistance::kEuclidean:
                add(profile, [](float p) { return p; });
                break;
        }
    }

    template <class Value>
    double total(int r, Value value) const {
        double sum = 0;
        for_each_block(r, [&](size_t, size_t n, const float * p, float) {
            for (size_t j = 0; j < n; ++j) { sum += value(p[j]); }
        });
        return sum;
    }

    // Every row sums to 1, or with a sink to what that leaves: its mean over the lane is that by the length; entries it does
    // not see are 0.
    void add_centred(int r, float * profile) const {
        const LaneView & lane = task_.lanes[static_cast<size_t>(lane_)];
        const int length = lane.length;
        const double mean = (lane.sinks == nullptr ? 1.0 : total(r, [](float p) { return double{p}; })) / length;
        const double squares = (length - spans_.back().end) * mean * mean +
                               total(r, [mean](float p) { return (double{p} - mean) * (double{p} - mean); });
        if (is_even(squares, length)) { return; }
        const auto scale = static_cast<float>(1.0 / std::sqrt(squares));
        for_each_block(r, [&](size_t begin, size_t n, const float * p, float) {
            for (size_t j = 0; j < n; ++j) { profile[begin + j] += p[j] * scale; }
        });
        const auto less = static_cast<float>(mean / std::sqrt(squares));
        for (int j = 0; j < length; ++j) { profile[j] -= less; }
    }

    void add_group_squares(float * to) const {
        const float share = 1.0F / static_cast<float>(task_.n_group);
        for (int r = 0; r < task_.n_rows(); r += task_.n_group) {
            if (!seen_[r]) { continue; }
            for_each_block(r, [&](size_t begin, size_t n, const float * p, float) {
                for (size_t j = 0; j < n; ++j) {
                    float mean = 0;
                    for (int g = 0; g < task_.n_group; ++g) { mean += p[static_cast<size_t>(g * kEntryBlock) + j]; }
                    mean *= share;
                    to[begin + j] += mean * mean;
                }
            });
        }
    }

    const AttentionTask & task_;
    const ColumnTask & columns_;
    std::span<const AttentionUnit> spans_;
    float * partial_;
    int lane_;
    bool seen_[kMaxDotRows] = {};
};

}  // namespace

void ColumnTask::clear() {
    for (auto * pointers : {&sum, &squares, &largest, &group_squares, &profile, &last, &rows}) { pointers->clear(); }
    entropy.clear();
    past.clear();
    sum_before.clear();
}

void add_row_columns(const AttentionTask & task, std::span<const AttentionUnit> spans, float * partial) {
    RowColumns(task, spans, partial).add();
}

void add_strand_columns(const AttentionTask & task, std::span<const AttentionUnit> strands, const float * partial,
                        const double * numbers) {
    const ColumnTask & columns = task.columns;
    const AttentionUnit & first = strands.front();
    const int length = task.lanes[static_cast<size_t>(first.lane)].length;
    const auto head_of = [&](int i) { return static_cast<size_t>(first.lane * task.n_group + first.head + i); };
    size_t plane = 0;
    const auto join_plane = [&](float * to, auto join) {
        for (const AttentionUnit & strand : strands) {
            const float * from = partial + strand.partial + plane * plane_width(strand);
            for (int j = 0; j < strand.end; ++j) { to[j] = join(to[j], from[j]); }
        }
        ++plane;
    };
    const auto add = [](float a, float b) { return a + b; };
    const auto add_heads = [&](const std::vector<float *> & to) {
        for (int i = 0; i < first.n_heads && !to.empty(); ++i) { join_plane(to[head_of(i)], add); }
    };
    for (int i = 0; i < first.n_heads && !columns.sum.empty(); ++i) {
        if (sum_is_elsewhere(columns, head_of(i))) { move_sum(columns, head_of(i), 0, static_cast<size_t>(length)); }
    }
    add_heads(columns.sum);
    add_heads(columns.squares);
    for (int i = 0; i < first.n_heads && !columns.largest.empty(); ++i) {
        join_plane(columns.largest[head_of(i)], [](float a, float b) { return std::max(a, b); });
    }
    add_heads(columns.profile);
    if (!columns.group_squares.empty()) { join_plane(columns.group_squares[static_cast<size_t>(first.lane)], add); }
    for (int i = 0; i < first.n_heads; ++i) {
        double entropy = 0;
        double less = 0;  // what every entry of the lane loses: centred rows only
        for (const AttentionUnit & strand : strands) {
            entropy += numbers[strand.numbers + 2 * static_cast<size_t>(i)];
            less += numbers[strand.numbers + 2 * static_cast<size_t>(i) + 1];
        }
        if (!columns.entropy.empty()) { *columns.entropy[head_of(i)] += entropy; }
        if (columns.profile.empty() || less == 0) { continue; }
        float * profile = columns.profile[head_of(i)];
        for (int j = 0; j < length; ++j) { profile[j] -= static_cast<float>(less); }
    }
}

}  // namespace pith
