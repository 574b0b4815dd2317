// reference_allocators.cpp - the allocators' formulas: a weight per lane.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

#include "policy/allocate/head_profiles.h"
#include "policy/formulas.h"

namespace pith::test {

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

namespace {

std::vector<double> ada_weights(const PartVariant & allocator, const ReferenceCase & c) {
    const CacheShape & shape = c.shape;
    const double alpha = allocator.number("alpha");
    const double mean = static_cast<double>(c.net_total) / shape.n_lanes();
    const bool hard = allocator.is("floor", "hard");
    std::vector<double> weights;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        int64_t n_top = c.net_total / shape.n_layers;
        std::vector<Candidate> open;
        std::vector<double> guaranteed(static_cast<size_t>(shape.n_kv_heads), 0.0);
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            auto lane = c.lanes[static_cast<size_t>(shape.lane(layer, h))];
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

// The importance of each lane; their sum is 1.
std::vector<double> lane_importance(const PartVariant & allocator, const ReferenceCase & c) {
    const HeadImportance & given = *c.target.importance;
    const auto lanes_of = [&](const std::vector<double> & heads) {
        std::vector<double> lanes;
        for (int lane = 0; lane < c.shape.n_lanes(); ++lane) {
            double sum = 0;
            for (int g = 0; g < c.shape.n_group; ++g) sum += heads[static_cast<size_t>(lane * c.shape.n_group + g)];
            lanes.push_back(sum / c.shape.n_group);
        }
        const double all = std::accumulate(lanes.begin(), lanes.end(), 0.0);
        for (double & lane : lanes) lane = all > 0 ? lane / all : 1.0 / c.shape.n_lanes();
        return lanes;
    };
    const auto copy = lanes_of(given.copy);
    auto lanes = lanes_of(given.reason);
    if (allocator.is("by", "copy")) return copy;
    if (allocator.is("by", "both")) {
        for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = 0.5 * lanes[i] + 0.5 * copy[i];
    }
    return lanes;
}

std::vector<double> head_weights(const PartVariant & allocator, const ReferenceCase & c) {
    const double mean = static_cast<double>(c.net_total) / c.shape.n_lanes();
    const double part = mean / allocator.number("beta");
    std::vector<double> weights;
    for (const double s : lane_importance(allocator, c)) weights.push_back(s * part * c.shape.n_lanes() + mean - part);
    return weights;
}

std::vector<double> retrieval_weights(const PartVariant & allocator, const ReferenceCase & c) {
    const auto n_lanes = static_cast<size_t>(c.shape.n_lanes());
    const int streaming = static_cast<int>(allocator.number("sinks") + allocator.number("recent"));
    std::vector<int> bases;
    for (size_t lane = 0; lane < n_lanes; ++lane) {
        const auto n_protected = static_cast<int>(std::count(c.is_protected[lane].begin(), c.is_protected[lane].end(), true));
        bases.push_back(std::min(c.net_lengths[lane], std::max(0, streaming - n_protected)));
    }
    if (std::accumulate(bases.begin(), bases.end(), int64_t{0}) >= c.net_total) return {bases.begin(), bases.end()};
    const auto importance = lane_importance(allocator, c);
    std::vector<size_t> order(n_lanes);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return importance[a] > importance[b]; });
    // What the lanes need when the first n_full of the order keep everything.
    const auto need = [&](size_t n_full) {
        int64_t sum = 0;
        for (size_t i = 0; i < n_lanes; ++i) sum += i < n_full ? c.net_lengths[order[i]] : bases[order[i]];
        return sum;
    };
    size_t n_full = 0;
    if (allocator.is("sparsity", "auto")) {
        while (n_full < n_lanes && need(n_full + 1) <= c.net_total) ++n_full;
    } else {
        n_full = static_cast<size_t>(std::llround((1 - allocator.number("sparsity")) * static_cast<double>(n_lanes)));
    }
    // Above the bases: full lanes first, evenly; then the others, evenly.
    std::vector<double> full(n_lanes, 0.0);
    for (size_t i = 0; i < n_full; ++i) full[order[i]] = 1;
    std::vector<int> rooms;
    int64_t left = c.net_total;
    int64_t room = 0;
    for (size_t i = 0; i < n_lanes; ++i) {
        rooms.push_back(c.net_lengths[i] - bases[i]);
        left -= bases[i];
        room += rooms.back();
    }
    std::vector<double> weights;
    const auto above = real_shares(full, rooms, std::min(left, room));
    for (size_t i = 0; i < n_lanes; ++i) weights.push_back(static_cast<double>(bases[i] + above[i]));
    return weights;
}

// The layers before n_arrived divide the budget by these weights.
std::vector<double> layer_shares(const std::vector<double> & weights, const ReferenceCase & c, int n_arrived) {
    std::vector<int> lengths;
    for (int layer = 0; layer < n_arrived; ++layer) {
        lengths.push_back(0);
        for (int h = 0; h < c.shape.n_kv_heads; ++h)
            lengths.back() += c.net_lengths[static_cast<size_t>(c.shape.lane(layer, h))];
    }
    const int64_t room = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    const std::vector<double> arrived(weights.begin(), weights.begin() + n_arrived);
    const auto shares = real_shares(arrived, lengths, std::min(room, c.net_total));
    return {shares.begin(), shares.end()};
}

std::vector<Candidate> candidates_of(const ReferenceCase & c, int layer) {
    std::vector<Candidate> all;
    for (int h = 0; h < c.shape.n_kv_heads; ++h) {
        const auto & lane = c.lanes[static_cast<size_t>(c.shape.lane(layer, h))];
        all.insert(all.end(), lane.begin(), lane.end());
    }
    return all;
}

// τ of CAKE's authors for caches of 128 and of 1,024 entries (cakekv, model2tau.json); the nearer size by ratio.
double tau_of(const PartVariant & allocator, const ReferenceCase & c, const std::string & key) {
    if (!allocator.is(key, "preset")) return allocator.number(key);
    if (allocator.is("preset", "none")) return 1;
    const std::map<std::string, std::map<std::string, std::array<double, 2>>> table = {
        {"llama2-7b", {{"tau1", {0.9, 1.9}}, {"tau2", {2.3, 1.8}}}},
        {"llama2-13b", {{"tau1", {1.8, 0.5}}, {"tau2", {2.0, 0.4}}}},
        {"llama3.1-8b", {{"tau1", {1.6, 1.6}}, {"tau2", {0.6, 0.4}}}},
        {"mistral0.3-7b", {{"tau1", {1.0, 0.8}}, {"tau2", {0.8, 0.5}}}},
        {"qwen2.5-7b", {{"tau1", {0.4, 1.5}}, {"tau2", {0.6, 0.6}}}},
    };
    const auto mean = static_cast<double>(c.target.budget);
    return table.at(allocator.options.at("preset")).at(key)[mean / 128 < 1024 / mean ? 0 : 1];
}

std::vector<double> preference_weights(const PartVariant & allocator, const ReferenceCase & c, int n_arrived) {
    std::vector<double> weights(static_cast<size_t>(c.shape.n_lanes()), 0.0);
    for (int layer = 0; layer < n_arrived; ++layer) {
        const LayerEvidence & e = c.layers[static_cast<size_t>(layer)];
        const double w = e.n_window;
        double entropy = 0;
        double variance = 0;
        for (int g = 0; g < e.n_kv_heads * e.n_group; ++g) {
            entropy += e.window_entropy[static_cast<size_t>(g)];
            for (size_t j = 0; j < e.window_mean.row(g).size() && e.n_window > 1; ++j) {
                if (e.positions.row(g / e.n_group)[j] >= e.n_seen - e.n_window) continue;  // the window's own columns
                const double mean = e.window_mean.row(g)[j];
                variance += std::max(0.0, e.window_head_sq.row(g)[j] - w * mean * mean) / (w - 1);
            }
        }
        const double p =
            std::pow(entropy, 1 / tau_of(allocator, c, "tau1")) * std::pow(variance, 1 / tau_of(allocator, c, "tau2"));
        for (int h = 0; h < e.n_kv_heads; ++h) weights[static_cast<size_t>(c.shape.lane(layer, h))] = p;
    }
    return weights;
}

double relative_entropy(const std::vector<Candidate> & candidates) {
    if (candidates.size() < 2) return 0;
    double least = 0;
    for (const Candidate & x : candidates) least = std::min<double>(least, x.score);
    double sum = 0;
    for (const Candidate & x : candidates) sum += x.score - least;
    double entropy = 0;
    for (const Candidate & x : candidates) {
        const double p = sum > 0 ? (x.score - least) / sum : 1.0 / static_cast<double>(candidates.size());
        if (p > 0) entropy -= p * std::log(p);
    }
    return std::max(0.0, entropy / std::log(candidates.size()));
}

std::vector<double> entropy_weights(const PartVariant & allocator, const ReferenceCase & c, int n_arrived) {
    std::vector<double> entropies;
    for (int layer = 0; layer < n_arrived; ++layer) entropies.push_back(relative_entropy(candidates_of(c, layer)));
    const auto shares = layer_shares(entropies, c, n_arrived);
    std::vector<double> weights(static_cast<size_t>(c.shape.n_lanes()), 0.0);
    for (int layer = 0; layer < n_arrived; ++layer) {
        const double share = shares[static_cast<size_t>(layer)];
        const int n_top = ceil_of(share);
        const auto counts = count_best(candidates_of(c, layer), n_top, c.shape.n_kv_heads);
        for (int h = 0; h < c.shape.n_kv_heads && n_top > 0; ++h) {
            const double floor = allocator.number("floor");
            weights[static_cast<size_t>(c.shape.lane(layer, h))] =
                (1 - floor) * counts[static_cast<size_t>(h)] * share / n_top + floor * share / c.shape.n_kv_heads;
        }
    }
    return weights;
}

std::vector<double> global_weights(const PartVariant & allocator, const ReferenceCase & c, int n_arrived) {
    const CacheShape & shape = c.shape;
    const auto n_lanes = static_cast<size_t>(shape.n_lanes());
    if (allocator.is("flatten", "none")) return std::vector<double>(n_lanes, 1.0);
    std::vector<double> weights(n_lanes, 0.0);
    if (allocator.is("flatten", "head")) {
        for (int layer = 0; layer < shape.n_layers; ++layer) {
            const auto counts = count_best(candidates_of(c, layer), c.net_total / shape.n_layers, shape.n_kv_heads);
            for (int h = 0; h < shape.n_kv_heads; ++h) {
                weights[static_cast<size_t>(shape.lane(layer, h))] = counts[static_cast<size_t>(h)];
            }
        }
        return weights;
    }
    struct Entry {
        double score;
        int32_t position;
        int layer, head;
    };
    std::vector<Entry> entries;
    for (int layer = 0; layer < n_arrived; ++layer) {
        double least = 0;
        double sum = 0;
        for (const bool adding : {false, true}) {
            for (int h = 0; h < shape.n_kv_heads; ++h) {
                const auto & row = c.scores[static_cast<size_t>(shape.lane(layer, h))];
                const LayerEvidence & e = c.layers[static_cast<size_t>(layer)];
                for (int j = 0; j < static_cast<int>(row.size()) - c.n_recent; ++j) {
                    if (e.positions.row(h)[static_cast<size_t>(j)] >= e.n_seen - e.n_window)
                        break;  // its queries were observed
                    const double score = row[static_cast<size_t>(j)];
                    if (adding) {
                        sum += score - least;
                    } else {
                        least = std::min(least, score);
                    }
                }
            }
        }
        for (const Candidate & x : candidates_of(c, layer)) {
            double s = x.score;
            if (allocator.is("normalise", "on")) s = sum > 0 ? (x.score - least) / sum : 0;
            entries.push_back({s, x.position, layer, x.head});
        }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry & a, const Entry & b) {
        if (a.score != b.score) return a.score > b.score;
        if (a.position != b.position) return a.position > b.position;
        return a.layer != b.layer ? a.layer < b.layer : a.head < b.head;
    });
    for (int64_t i = 0; i < std::min<int64_t>(c.net_total, std::ssize(entries)); ++i) {
        const Entry & entry = entries[static_cast<size_t>(i)];
        weights[static_cast<size_t>(shape.lane(entry.layer, entry.head))] += 1;
    }
    return weights;
}

// How many of the model's best reach tau.
std::vector<double> threshold_weights(const PartVariant & allocator, const ReferenceCase & c, int n_arrived) {
    struct Entry {
        float score;
        int32_t position;
        int layer, head;
    };
    const auto tau = static_cast<float>(allocator.number("tau"));
    std::vector<Entry> entries;
    for (int layer = 0; layer < n_arrived; ++layer) {
        for (const Candidate & x : candidates_of(c, layer)) {
            if (x.score >= tau) entries.push_back({x.score, x.position, layer, x.head});
        }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry & a, const Entry & b) {
        if (a.score != b.score) return a.score > b.score;
        if (a.position != b.position) return a.position > b.position;
        return a.layer != b.layer ? a.layer < b.layer : a.head < b.head;
    });
    std::vector<double> weights(static_cast<size_t>(c.shape.n_lanes()), 0.0);
    for (int64_t i = 0; i < std::min<int64_t>(c.net_total, std::ssize(entries)); ++i) {
        const Entry & entry = entries[static_cast<size_t>(i)];
        weights[static_cast<size_t>(c.shape.lane(entry.layer, entry.head))] += 1;
    }
    return weights;
}

// cascade: each layer's lanes are weighed by its share at the time it arrived, else by its share among all.
std::vector<double> novelty_weights(const PartVariant & allocator, const ReferenceCase & c, int n_arrived, bool cascade) {
    cascade = cascade && !allocator.is("exact", "two-pass");
    std::vector<double> novelties;
    std::vector<double> average;  // E
    for (int layer = 0; layer < n_arrived; ++layer) {
        const LayerProfile & profile = c.profiles[static_cast<size_t>(layer)];
        const double gamma = allocator.number("gamma");
        double deviation = profile.within;
        if (layer == 0) {
            average.push_back(allocator.is("start", "zero") ? 0.0 : profile.within);
        } else {
            deviation = std::abs(profile.to_previous - average.back());
            average.push_back(gamma * average.back() + (1 - gamma) * profile.to_previous);
        }
        novelties.push_back(allocator.number("lambda1") * profile.within + allocator.number("lambda2") * deviation);
    }
    std::vector<double> weights(static_cast<size_t>(c.shape.n_lanes()), 0.0);
    for (int layer = 0; layer < n_arrived; ++layer) {
        const double share = layer_shares(novelties, c, cascade ? layer + 1 : n_arrived)[static_cast<size_t>(layer)];
        const auto counts = count_best(candidates_of(c, layer), ceil_of(share), c.shape.n_kv_heads);
        const auto & distances = c.profiles[static_cast<size_t>(layer)].head_distance;
        double sum = 0;
        for (size_t h = 0; h < counts.size(); ++h) sum += distances[h] * counts[h];
        for (int h = 0; h < c.shape.n_kv_heads; ++h) {
            const auto k = static_cast<size_t>(h);
            const double part = sum > 0 ? distances[k] * counts[k] / sum : 1.0 / c.shape.n_kv_heads;
            weights[static_cast<size_t>(c.shape.lane(layer, h))] = novelties[static_cast<size_t>(layer)] * part;
        }
    }
    return weights;
}

std::vector<double> pyramid_weights(const PartVariant & allocator, const ReferenceCase & c) {
    const CacheShape & shape = c.shape;
    const double mean = static_cast<double>(c.net_total) / shape.n_lanes();
    double smallest = mean / allocator.number("beta");
    double largest = 2 * mean - smallest;
    const int past = *std::max_element(c.net_lengths.begin(), c.net_lengths.end());
    if (largest > past) {
        largest = past;
        smallest = 2 * mean - largest;
    }
    std::vector<double> weights;
    for (int lane = 0; lane < shape.n_lanes(); ++lane) {
        const int layer = lane / shape.n_kv_heads;
        weights.push_back(shape.n_layers == 1 ? mean : largest + (smallest - largest) * layer / (shape.n_layers - 1));
    }
    return weights;
}

using Weights = std::vector<double>;

// The same whether layers are cut as they arrive or at once.
template <Weights (*weights)(const PartVariant &, const ReferenceCase &, int)>
Weights as_arrived(const PartVariant & allocator, const ReferenceCase & c, int n_arrived, bool /*cascade*/) {
    return weights(allocator, c, n_arrived);
}
// Not asked for layer by layer.
template <Weights (*weights)(const PartVariant &, const ReferenceCase &)>
Weights of_all(const PartVariant & allocator, const ReferenceCase & c, int /*n_arrived*/, bool /*cascade*/) {
    return weights(allocator, c);
}

Weights uniform_weights(const PartVariant & /*allocator*/, const ReferenceCase & c) {
    return Weights(static_cast<size_t>(c.shape.n_lanes()), 1.0);
}

const Known<AllocatorFormula> kAllocators[] = {
    Known<AllocatorFormula>({"uniform", of_all<uniform_weights>}),
    Known<AllocatorFormula>({"pyramid", of_all<pyramid_weights>}),
    Known<AllocatorFormula>({"ada", of_all<ada_weights>, /*compares_scores=*/true}),
    Known<AllocatorFormula>({"head", of_all<head_weights>}),
    Known<AllocatorFormula>({"retrieval", of_all<retrieval_weights>}),
    Known<AllocatorFormula>({"preference", as_arrived<preference_weights>}),
    Known<AllocatorFormula>({"entropy", as_arrived<entropy_weights>, /*compares_scores=*/true}),
    Known<AllocatorFormula>({"novelty", novelty_weights}),
    Known<AllocatorFormula>({"global", as_arrived<global_weights>, /*compares_scores=*/true}),
    Known<AllocatorFormula>({"threshold", as_arrived<threshold_weights>, /*compares_scores=*/true, /*keeps_less=*/true}),
};

}  // namespace

std::vector<LayerProfile> reference_profiles(const PolicyVariant & policy, const std::vector<LayerEvidence> & layers) {
    HeadDistance distance = HeadDistance::kCosine;
    if (policy.allocator.name == "novelty") {
        if (policy.allocator.is("distance", "pearson")) distance = HeadDistance::kPearson;
        if (policy.allocator.is("distance", "bc")) distance = HeadDistance::kBhattacharyya;
        if (policy.allocator.is("distance", "jsd")) distance = HeadDistance::kJensenShannon;
        if (policy.allocator.is("distance", "l2")) distance = HeadDistance::kEuclidean;
    } else if (policy.selector.name != "diverse") {
        return {};
    }
    HeadProfiles profiles(distance);
    std::vector<LayerProfile> all(layers.size());
    for (size_t l = 0; l < layers.size(); ++l) {
        if (!profiles.add(layers[l], all[l]).ok()) throw std::runtime_error("the evidence has no head profiles");
    }
    return all;
}

std::vector<double> reference_cascade_weights(const PartVariant & allocator, const ReferenceCase & c, int n_arrived) {
    return Known<AllocatorFormula>::of(allocator).weights(allocator, c, n_arrived, /*cascade=*/true);
}

bool reference_keeps_less(const PartVariant & allocator) {
    return Known<AllocatorFormula>::of(allocator).keeps_less;
}

std::vector<double> reference_weights(const PartVariant & allocator, const ReferenceCase & c) {
    return Known<AllocatorFormula>::of(allocator).weights(allocator, c, c.shape.n_layers, /*cascade=*/false);
}

}  // namespace pith::test
