// reference.cpp - the whole eviction once more, slow and obvious.
#include "policy/reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

namespace pith::test {
namespace {

using Row = std::vector<float>;

[[noreturn]] void missing(const std::string & kind, const std::string & name) {
    throw std::runtime_error("no reference for the " + kind + " '" + name + "': add its formula to tests/policy/reference.cpp");
}

Row reduce(const std::string & group, const std::vector<Row> & heads) {
    Row out = heads[0];
    for (size_t g = 1; g < heads.size(); ++g) {
        for (size_t j = 0; j < out.size(); ++j) out[j] = group == "max" ? std::max(out[j], heads[g][j]) : out[j] + heads[g][j];
    }
    if (group == "mean") {
        for (float & x : out) x /= static_cast<float>(heads.size());
    }
    return out;
}

Row pool(const Row & in, const std::string & kind, bool zero_edges) {
    if (kind == "none") return in;
    const int n = static_cast<int>(in.size());
    const int kernel = kind.back() - '0';
    Row out;
    for (int j = 0; j < n; ++j) {
        float most = in[static_cast<size_t>(j)];
        float sum = 0;
        int under = 0;
        for (int i = j - kernel / 2; i <= j + kernel / 2; ++i) {
            if (i < 0 || i >= n) continue;
            most = std::max(most, in[static_cast<size_t>(i)]);
            sum += in[static_cast<size_t>(i)];
            ++under;
        }
        out.push_back(kind == "max7" ? most : sum / static_cast<float>(zero_edges ? kernel : under));
    }
    return out;
}

// One score per entry of the layer, and how many of the newest entries the scorer protects.
Lanes scores_of(const PartVariant & scorer, const LayerEvidence & e) {
    const auto row = [](const Ragged<float> & rows, int r) { return Row(rows.row(r).begin(), rows.row(r).end()); };
    const auto heads = [&](const Ragged<float> & rows, int h) {
        std::vector<Row> group;
        for (int g = 0; g < e.n_group; ++g) group.push_back(row(rows, h * e.n_group + g));
        return group;
    };
    Lanes scores;
    for (int h = 0; h < e.n_kv_heads; ++h) {
        const auto positions = e.positions.row(h);
        Row out(positions.size());
        if (scorer.name == "full" || scorer.name == "streaming" || scorer.name == "window") {
            for (size_t j = 0; j < out.size(); ++j) out[j] = static_cast<float>(positions[j]);
        } else if (scorer.name == "random") {
            const auto mix = [](uint64_t x) {
                x += 0x9E3779B97F4A7C15U;
                x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
                x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
                return x ^ (x >> 31U);
            };
            const auto seed = static_cast<uint64_t>(scorer.number("seed"));
            for (size_t j = 0; j < out.size(); ++j) {
                uint64_t hash = mix(seed);
                for (const int x : {e.layer, h, static_cast<int>(positions[j])}) hash = mix(hash + static_cast<uint64_t>(x));
                out[j] = static_cast<float>(hash >> 40U);
            }
        } else if (scorer.name == "knorm") {
            out = row(e.key_norm, h);
            for (float & x : out) x = -x;
        } else if (scorer.name == "h2o") {
            auto group = heads(e.running_sum, h);
            if (scorer.is("normalise", "visible")) {
                for (size_t j = 0; j < out.size(); ++j) {
                    auto n_visible = static_cast<double>(e.n_seen - positions[j]);
                    if (!scorer.is("observe", "all")) n_visible = std::min(n_visible, scorer.number("observe"));
                    for (Row & one : group) one[j] /= static_cast<float>(n_visible);
                }
            }
            out = reduce(scorer.options.at("group"), group);
        } else if (scorer.name == "tova" && scorer.is("heads", "lane")) {
            out = reduce(scorer.options.at("group"), heads(e.last_query, h));
        } else if (scorer.name == "tova") {
            for (size_t j = 0; j < out.size(); ++j) {
                float sum = 0;
                int n = 0;
                for (int r = 0; r < e.n_kv_heads * e.n_group; ++r) {
                    const auto other = e.positions.row(r / e.n_group);
                    for (size_t i = 0; i < other.size(); ++i) {
                        if (other[i] == positions[j]) sum += e.last_query.row(r)[i], ++n;
                    }
                }
                out[j] = sum / static_cast<float>(n);
            }
        } else if (scorer.name == "snapkv") {
            auto group = heads(e.window_mean, h);
            for (Row & one : group) {
                const size_t n_past = one.size() - std::min(one.size(), static_cast<size_t>(scorer.number("window")));
                Row past(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(n_past));
                past = pool(past, scorer.options.at("pool"), scorer.is("pool_edges", "zero"));
                std::copy(past.begin(), past.end(), one.begin());
            }
            out = reduce(scorer.options.at("group"), group);
        } else {
            missing("scorer", scorer.name);
        }
        scores.push_back(out);
    }
    return scores;
}

int n_recent_of(const PartVariant & scorer, int64_t budget) {
    if (scorer.name == "snapkv") return static_cast<int>(scorer.number("window"));
    const auto recent = scorer.options.find("recent");
    if (recent == scorer.options.end()) return 0;
    return recent->second == "half" ? static_cast<int>(budget / 2) : std::stoi(recent->second);
}

struct Candidate {
    float score;
    int32_t position;
    int head;
};

// How many of the n best candidates each head holds; ties: the newer entry, then the lower head.
std::vector<double> count_best(std::vector<Candidate> candidates, int64_t n, int n_heads) {
    std::sort(candidates.begin(), candidates.end(), [](const Candidate & a, const Candidate & b) {
        if (a.score != b.score) return a.score > b.score;
        return a.position != b.position ? a.position > b.position : a.head < b.head;
    });
    std::vector<double> counts(static_cast<size_t>(n_heads), 0.0);
    for (int64_t i = 0; i < std::min<int64_t>(n, std::ssize(candidates)); ++i) {
        counts[static_cast<size_t>(candidates[static_cast<size_t>(i)].head)] += 1;
    }
    return counts;
}

std::vector<double> ada_weights(const PartVariant & allocator, const CacheShape & shape, int64_t net_total,
                                const std::vector<std::vector<Candidate>> & lanes) {
    const double alpha = allocator.number("alpha");
    const double mean = static_cast<double>(net_total) / shape.n_lanes();
    const bool hard = allocator.is("floor", "hard");
    std::vector<double> weights;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        int64_t n_top = net_total / shape.n_layers;
        std::vector<Candidate> open;
        std::vector<double> guaranteed(static_cast<size_t>(shape.n_kv_heads), 0.0);
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            auto lane = lanes[static_cast<size_t>(shape.lane(layer, h))];
            std::sort(lane.begin(), lane.end(), [](const Candidate & a, const Candidate & b) {
                return a.score != b.score ? a.score > b.score : a.position > b.position;
            });
            const int n_floor = hard ? static_cast<int>(alpha * mean + 1e-9) : 0;
            for (int i = 0; i < static_cast<int>(lane.size()); ++i) {
                if (i < n_floor) {
                    guaranteed[static_cast<size_t>(h)] += 1;
                    --n_top;
                } else {
                    open.push_back(lane[static_cast<size_t>(i)]);
                }
            }
        }
        const auto counts = count_best(open, n_top, shape.n_kv_heads);
        for (size_t h = 0; h < counts.size(); ++h) {
            weights.push_back(hard ? guaranteed[h] + counts[h] : (1 - alpha) * counts[h] + alpha * mean);
        }
    }
    return weights;
}

std::vector<double> weights_of(const PartVariant & allocator, const CacheShape & shape, int64_t net_total,
                               const std::vector<std::vector<Candidate>> & lanes) {
    const double mean = static_cast<double>(net_total) / shape.n_lanes();
    if (allocator.name == "uniform") return std::vector<double>(static_cast<size_t>(shape.n_lanes()), 1.0);
    if (allocator.name == "ada") return ada_weights(allocator, shape, net_total, lanes);
    if (allocator.name != "pyramid") missing("allocator", allocator.name);
    const double smallest = mean / allocator.number("beta");
    const double largest = 2 * mean - smallest;
    std::vector<double> weights;
    for (int lane = 0; lane < shape.n_lanes(); ++lane) {
        const int layer = lane / shape.n_kv_heads;
        weights.push_back(shape.n_layers == 1 ? mean : largest + (smallest - largest) * layer / (shape.n_layers - 1));
    }
    return weights;
}

// clamp(λ·weight, 0, length) that sums to the total: λ by bisection; lanes of weight 0 take what the others leave, evenly.
std::vector<long double> real_shares(const std::vector<double> & weights, const std::vector<int> & lengths, int64_t total) {
    std::vector<long double> shares(weights.size(), 0.0L);
    int64_t room = 0;
    for (size_t i = 0; i < weights.size(); ++i) room += weights[i] > 0 ? lengths[i] : 0;
    if (room <= total) {
        std::vector<double> rest(weights.size(), 0.0);
        bool any = false;
        for (size_t i = 0; i < weights.size(); ++i) {
            if (weights[i] > 0) shares[i] = lengths[i];
            if (weights[i] == 0 && lengths[i] > 0) rest[i] = 1, any = true;
        }
        if (any && room < total) {
            const auto others = real_shares(rest, lengths, total - room);
            for (size_t i = 0; i < weights.size(); ++i) shares[i] += rest[i] > 0 ? others[i] : 0;
        }
        return shares;
    }
    long double low = 0;
    long double high = 1e12L;
    for (int step = 0; step < 300; ++step) {
        const long double lambda = (low + high) / 2;
        long double sum = 0;
        for (size_t i = 0; i < weights.size(); ++i) sum += std::min<long double>(lambda * weights[i], lengths[i]);
        (sum < total ? low : high) = lambda;
    }
    for (size_t i = 0; i < weights.size(); ++i) shares[i] = std::min<long double>(high * weights[i], lengths[i]);
    return shares;
}

std::vector<int> whole_shares(const std::vector<long double> & shares, const std::vector<int> & lengths, int64_t total) {
    std::vector<int> whole;
    std::vector<std::pair<int64_t, size_t>> remainders;  // (-remainder, lane)
    for (size_t i = 0; i < shares.size(); ++i) {
        const int64_t fine = std::llround(shares[i] * (1 << 20));  // what is nearer than a millionth is a tie
        whole.push_back(static_cast<int>(fine >> 20));
        total -= whole.back();
        remainders.emplace_back(-(fine & ((1 << 20) - 1)), i);
    }
    std::sort(remainders.begin(), remainders.end());
    for (int round = 0; total > 0 && round < 3; ++round) {
        for (const auto & [remainder, i] : remainders) {
            if (total > 0 && whole[i] < lengths[i]) ++whole[i], --total;
        }
    }
    return whole;
}

}  // namespace

std::string PolicyVariant::text() const {
    std::string text = scorer.text();
    for (const PartVariant * part : {&refiner, &allocator, &selector}) {
        if (!part->name.empty()) text.append("+").append(part->text());
    }
    return text;
}

Reference reference_eviction(const PolicyVariant & policy, const EvictionTarget & target,
                             const std::vector<LayerEvidence> & layers) {
    if (!policy.refiner.name.empty()) missing("refiner", policy.refiner.name);
    if (policy.selector.name != "topk") missing("selector", policy.selector.name);
    const CacheShape & shape = target.shape;
    const int n_recent = n_recent_of(policy.scorer, target.budget);
    const int n_sinks = policy.scorer.name == "streaming" ? static_cast<int>(policy.scorer.number("sinks")) : 0;

    Reference reference;
    std::vector<std::vector<float>> scores;
    std::vector<std::vector<Candidate>> candidates;
    int64_t n_entries = 0;
    int64_t n_protected = 0;
    std::vector<int> net_lengths;
    for (const LayerEvidence & layer : layers) {
        const Lanes of_layer = scores_of(policy.scorer, layer);
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            const auto positions = layer.positions.row(h);
            const auto n = static_cast<int>(positions.size());
            std::vector<bool> is_protected;
            std::vector<Candidate> lane;
            for (int j = 0; j < n; ++j) {
                const int32_t position = positions[static_cast<size_t>(j)];
                bool keep = position < n_sinks || j >= n - n_recent;
                for (const PositionSpan & span : target.pinned) keep = keep || (span.begin <= position && position < span.end);
                is_protected.push_back(keep);
                if (!keep) lane.push_back({of_layer[static_cast<size_t>(h)][static_cast<size_t>(j)], position, h});
            }
            n_entries += n;
            n_protected += n - std::ssize(lane);
            net_lengths.push_back(static_cast<int>(lane.size()));
            reference.is_protected.push_back(is_protected);
            candidates.push_back(lane);
            scores.push_back(of_layer[static_cast<size_t>(h)]);
        }
    }
    reference.total = policy.scorer.name == "full" ? n_entries : std::min(target.budget * shape.n_lanes(), n_entries);
    reference.too_small = reference.total < n_protected;
    if (reference.too_small) return reference;

    const int64_t net_total = reference.total - n_protected;
    const auto weights = weights_of(policy.allocator, shape, net_total, candidates);
    const auto shares = whole_shares(real_shares(weights, net_lengths, net_total), net_lengths, net_total);
    for (size_t lane = 0; lane < scores.size(); ++lane) {
        std::vector<int32_t> order;
        std::vector<int32_t> kept;
        for (int32_t j = 0; j < static_cast<int32_t>(scores[lane].size()); ++j) {
            (reference.is_protected[lane][static_cast<size_t>(j)] ? kept : order).push_back(j);
        }
        std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            const float x = scores[lane][static_cast<size_t>(a)];
            const float y = scores[lane][static_cast<size_t>(b)];
            return x != y ? x > y : a > b;
        });
        kept.insert(kept.end(), order.begin(), order.begin() + shares[lane]);
        std::sort(kept.begin(), kept.end());
        reference.kept.push_back(kept);
    }
    return reference;
}

}  // namespace pith::test
