// evidence_maker.cpp - random evidence for tests.
#include "policy/evidence_maker.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pith::test {

int random_int(Rng & rng, int low, int high) {
    return low +
           static_cast<int>(rng() % static_cast<unsigned>(high - low + 1));  // not std::…_distribution: the same everywhere
}

Status HostValues::distances_to_mean(const Ragged<float> & weights, Ragged<float> & out) const {
    const auto d = static_cast<size_t>(head_dim_);
    const int n_group = weights.n_rows() / static_cast<int>(lanes_.size());
    out = weights;
    for (int r = 0; r < weights.n_rows(); ++r) {
        const std::vector<float> & values = lanes_[static_cast<size_t>(r / n_group)];
        const auto weight = weights.row(r);
        // In f64, over the weights' own sum: where one weight is nearly 1, its rounding would be all of the distance.
        std::vector<double> mean(d, 0.0);
        double total = 0;
        for (size_t j = 0; j < weight.size(); ++j) {
            total += weight[j];
            for (size_t c = 0; c < d; ++c) mean[c] += double{weight[j]} * values[j * d + c];
        }
        for (double & x : mean) x /= total;
        for (size_t j = 0; j < weight.size(); ++j) {
            double sum = 0;
            for (size_t c = 0; c < d; ++c) sum += std::pow(values[j * d + c] - mean[c], 2);
            out.row(r)[j] = static_cast<float>(std::sqrt(sum));
        }
    }
    return {};
}

Status HostValues::output_errors(const Ragged<float> & weights, const Ragged<float> & odds, Ragged<float> & out) const {
    const auto d = static_cast<size_t>(head_dim_);
    const int n_group = weights.n_rows() / static_cast<int>(lanes_.size());
    Ragged<float> errors;
    for (size_t h = 0; h < lanes_.size(); ++h) {
        const std::vector<float> & values = lanes_[h];
        const size_t n = values.size() / d;
        std::vector<double> moved(n * kOutputs, 0.0);
        for (int g = 0; g < n_group; ++g) {
            const int head = static_cast<int>(h) * n_group + g;
            std::vector<double> mean(d, 0.0);
            double total = 0;
            for (size_t j = 0; j < n; ++j) {
                total += weights.row(head)[j];
                for (size_t c = 0; c < d; ++c) mean[c] += double{weights.row(head)[j]} * values[j * d + c];
            }
            for (double & x : mean) x /= total;
            for (size_t j = 0; j < n; ++j) {
                for (size_t c = 0; c < d; ++c) {
                    const double step = odds.row(head)[j] * (values[j * d + c] - mean[c]);
                    for (int r = 0; r < kOutputs; ++r) {
                        moved[j * kOutputs + static_cast<size_t>(r)] += step * output_weight(head, c, r);
                    }
                }
            }
        }
        std::vector<float> row;
        for (size_t j = 0; j < n; ++j) {
            double sum = 0;
            for (size_t r = 0; r < kOutputs; ++r) sum += std::pow(moved[j * kOutputs + r], 2);
            row.push_back(static_cast<float>(std::sqrt(sum)));
        }
        errors.push_row(row);
    }
    out = std::move(errors);
    return {};
}

Status HostValues::lane_values(int kv_head, std::vector<float> & out) const {
    out = lanes_[static_cast<size_t>(kv_head)];
    return {};
}

LayerEvidence make_evidence(Rng & rng, const CacheShape & shape, int layer, int n_seen,
                            const std::vector<std::vector<int32_t>> & positions) {
    LayerEvidence evidence;
    evidence.layer = layer;
    evidence.n_kv_heads = shape.n_kv_heads;
    evidence.n_group = shape.n_group;
    evidence.n_seen = n_seen;
    evidence.n_window = std::min(n_seen, 32);
    evidence.n_sampled = random_int(rng, 1, 3);
    const int n_levels = random_int(rng, 1, 40);
    const auto row = [&](size_t n) {
        std::vector<float> values(n);
        for (float & value : values) value = static_cast<float>(random_int(rng, 0, n_levels)) / 64.0F;
        return values;
    };
    std::vector<std::vector<float>> all_values;
    for (const auto & lane : positions) {
        const size_t n = lane.size();
        evidence.positions.push_row(lane);
        evidence.window_sq.push_row(row(n));
        evidence.key_norm.push_row(row(n));
        evidence.value_l1.push_row(row(n));
        evidence.value_l2.push_row(row(n));
        std::vector<float> retention;  // not drawn: the other evidence stays what it is
        for (const int32_t p : lane) retention.push_back(static_cast<float>((p * 13 + layer * 5) % 17) / 16.0F);
        evidence.retention.push_row(retention);
        std::vector<float> cosines = row(n);
        for (float & x : cosines) x -= 0.25F;
        evidence.key_cosine.push_row(cosines);
        std::vector<float> leverage;  // not drawn either
        for (const int32_t p : lane) leverage.push_back(static_cast<float>((p * 37 + layer * 11) % 29) / 32.0F);
        evidence.key_leverage.push_row(leverage);
        std::vector<float> values(n * static_cast<size_t>(shape.head_dim));
        for (float & x : values) x = static_cast<float>(random_int(rng, -500, 500)) / 256.0F;
        all_values.push_back(values);
        for (int g = 0; g < shape.n_group; ++g) {
            std::vector<float> reread;  // not drawn: the other evidence stays what it is
            for (const int32_t p : lane) reread.push_back(static_cast<float>((p * 29 + layer * 7 + g * 3) % 23) / 32.0F);
            evidence.reread_max.push_row(reread);
            std::vector<float> most;
            for (const int32_t p : lane) most.push_back(static_cast<float>((p * 23 + layer * 9 + g * 5) % 21) / 32.0F);
            evidence.window_max.push_row(most);
            std::vector<float> block;
            for (const int32_t p : lane) block.push_back(static_cast<float>((p * 31 + layer * 3 + g * 7) % 19) / 8.0F);
            evidence.block_attention.push_row(block);
            const std::vector<float> mean = row(n);
            evidence.window_mean.push_row(mean);
            std::vector<float> squares = row(n);  // no less than n · mean²
            for (size_t j = 0; j < n; ++j) squares[j] += static_cast<float>(evidence.n_window) * mean[j] * mean[j];
            evidence.window_head_sq.push_row(squares);
            evidence.window_entropy.push_back(random_int(rng, 0, 3) == 0 ? 0.0 : random_int(rng, 1, 1000) / 64.0);
            evidence.last_query.push_row(row(n));
            evidence.running_sum.push_row(row(n));
            evidence.output_l1.push_row(row(n));
            evidence.output_l2.push_row(row(n));
            std::vector<float> exponents = row(n);
            for (float & x : exponents) x = 8 * x - 3;
            evidence.expected.push_row(exponents);

            std::vector<float> profile(n, 0.0F);
            for (int s = 0; s < evidence.n_sampled; ++s) {
                std::vector<float> sampled = row(n);  // a distribution
                float sum = 0;
                for (float & x : sampled) sum += x += 1.0F / 64;
                float squared = 0;
                for (float & x : sampled) x /= sum, squared += x * x;
                for (size_t j = 0; j < n; ++j) {
                    profile[j] += sampled[j] / std::sqrt(squared) / static_cast<float>(evidence.n_sampled);
                }
                evidence.sampled_rows.push_row(sampled);
            }
            evidence.profile.push_row(profile);
        }
    }
    // Not drawn either: the pairs' angles are a function of where they are.
    const auto pairs_of = [&](const std::vector<float> & a, const std::vector<float> & b, int g, int other) {
        std::vector<float> products(a.size());
        for (size_t j = 0; j < a.size(); ++j) {
            const float cosine =
                g == other ? 1.0F : static_cast<float>((j * 5 + static_cast<size_t>(3 * g + other)) % 9) / 8.0F;
            products[j] = a[j] * b[j] * cosine;
        }
        return products;
    };
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        const auto norms = [&](int g) {
            const auto squares = evidence.window_head_sq.row(h * shape.n_group + g);
            std::vector<float> roots;
            for (const float x : squares) roots.push_back(std::sqrt(x));
            return roots;
        };
        const auto outputs = [&](int g) {
            const auto of_head = evidence.output_l2.row(h * shape.n_group + g);
            return std::vector<float>(of_head.begin(), of_head.end());
        };
        for (int g = 0; g < shape.n_group; ++g) {
            for (int other = g; other < shape.n_group; ++other) {
                evidence.window_pairs.push_row(pairs_of(norms(g), norms(other), g, other));
                evidence.output_pairs.push_row(pairs_of(outputs(g), outputs(other), other, g));
            }
        }
    }
    evidence.values = std::make_shared<HostValues>(std::move(all_values), shape.head_dim);
    return evidence;
}

std::shared_ptr<const HeadImportance> make_importance(Rng & rng, const CacheShape & shape) {
    auto importance = std::make_shared<HeadImportance>();
    for (int head = 0; head < shape.n_lanes() * shape.n_group; ++head) {
        importance->copy.push_back(random_int(rng, 0, 8) / 16.0);
        importance->reason.push_back(random_int(rng, 0, 8) / 32.0);
    }
    return importance;
}

std::vector<LayerEvidence> make_ragged(Rng & rng, const CacheShape & shape, int n_seen) {
    std::vector<LayerEvidence> layers;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        std::vector<std::vector<int32_t>> lanes;
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            const int keep_of_8 = random_int(rng, 0, 8);  // 0: an empty lane, 8: all positions
            std::vector<int32_t> lane;
            for (int32_t p = 0; p < n_seen; ++p) {
                if (random_int(rng, 1, 8) <= keep_of_8) lane.push_back(p);
            }
            lanes.push_back(lane);
        }
        layers.push_back(make_evidence(rng, shape, layer, n_seen, lanes));
    }
    return layers;
}

std::vector<LayerEvidence> make_equal(Rng & rng, const CacheShape & shape, int n_seen) {
    std::vector<int32_t> all(static_cast<size_t>(n_seen));
    std::iota(all.begin(), all.end(), 0);
    std::vector<LayerEvidence> layers;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        const std::vector<std::vector<int32_t>> lanes(static_cast<size_t>(shape.n_kv_heads), all);
        layers.push_back(make_evidence(rng, shape, layer, n_seen, lanes));
    }
    return layers;
}

}  // namespace pith::test
