// evidence_bench.cpp - what evidence costs beside attention, on the same ggml threads in the same run, interleaved; medians.
//
//   evidence_bench [--type f16] [--dim 64] [--length 8192] [--queries 512] [--threads 2] [--repeats 7] [--target AVX2]
//
// 8 lanes of 4 query heads. First the attention of the newest `queries` of `length` entries, alone and with the column sums of
// all queries (h2o's evidence). Then what is asked of a window or a sample of queries, by the kernel and as graphs of ggml's
// operations, and norms of values: in milliseconds, and as a share of the attention of all `length` queries, taken from the one
// measured by the number of (query, entry) pairs.
// Each result of the kernel is compared with the graphs'; far apart is an error. (Graphs multiply in the K type's precision.)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "attention/cpu_lane_attention.h"
#include "attention/entry_norms.h"
#include "attention/observe.h"
#include "attention/output_norms.h"
#include "model/backend.h"

namespace pith {
namespace {

constexpr int kLanes = 8;
constexpr int kGroup = 4;
constexpr int kWindow = 32;
constexpr int kSample = 200;

struct Options {
    ggml_type type = GGML_TYPE_F16;
    int head_dim = 64;
    int length = 8192;
    int n_queries = 512;
    int n_threads = 2;
    int repeats = 7;
};

double seconds(const std::function<void()> & run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// One layer whose lanes hold random keys and values, and the queries of its newest entries.
class Bench {
public:
    Bench(const Options & o, ggml_backend_t backend, std::unique_ptr<RaggedCache> cache)
        : o_(o), cache_(std::move(cache)), runner_(backend), queries_(normal(o.n_queries * kLanes * kGroup)) {
        std::vector<int32_t> positions(static_cast<size_t>(o.length));
        for (int i = 0; i < o.length; ++i) { positions[static_cast<size_t>(i)] = i; }
        ok_ = cache_->reserve(0, 0, o.length).ok();
        if (!ok_) { return; }
        cache_->append(0, 0, positions);
        for (ggml_tensor * flat : {cache_->k(0), cache_->v(0)}) {
            for (int h = 0; h < kLanes; ++h) {
                const std::vector<float> rows = normal(o.length);
                auto * to = static_cast<uint8_t *>(flat->data) + flat->nb[1] * static_cast<size_t>(cache_->cell(0, h, 0));
                if (o.type == GGML_TYPE_F32) {
                    std::memcpy(to, rows.data(), rows.size() * sizeof(float));
                } else {
                    ggml_quantize_chunk(o.type, rows.data(), to, 0, o.length, o.head_dim, nullptr);
                }
            }
        }
    }

    bool run() {
        if (!ok_) { return false; }
        attention();
        ObserveWants mean;
        mean.column_sum = true;
        window("window: mean", kWindow, mean);
        ObserveWants squares;
        squares.group_sq = true;
        window("window: group squares", kWindow, squares);
        ObserveWants entropy;
        entropy.column_sum = entropy.head_sq = entropy.entropy = true;
        window("window: mean, squares, entropy", kWindow, entropy);
        ObserveWants last;
        last.last = true;
        window("last query", 1, last);
        ObserveWants profile;
        profile.profile = HeadDistance::kCosine;
        window("profile of 200", kSample, profile);
        values();
        return ok_;
    }

private:
    std::vector<float> normal(int n_rows) {
        std::normal_distribution<float> distribution;
        std::vector<float> values(static_cast<size_t>(n_rows) * static_cast<size_t>(o_.head_dim));
        for (float & value : values) { value = distribution(random_); }
        return values;
    }

    double attend(bool with_sums) {
        GraphBuild * build = *runner_.begin(64);
        ggml_tensor * q = build->input(GGML_TYPE_F32, int64_t{kLanes} * kGroup * o_.head_dim, o_.n_queries,
                                       static_cast<const float *>(queries_.data()));
        q = ggml_reshape_3d(build->ctx(), q, o_.head_dim, kLanes * kGroup, o_.n_queries);
        ColumnSums sums;
        if (with_sums) {
            sums = [this](int head) { return sums_.data() + static_cast<size_t>(head) * static_cast<size_t>(o_.length); };
        }
        build->keep(build_cpu_attention(*build, *cache_, 0, 0, q, cache_->k(0), cache_->v(0), std::move(sums)));
        return seconds([&] { ok_ = runner_.run().ok() && ok_; });
    }

    void attention() {
        sums_.assign(static_cast<size_t>(kLanes * kGroup) * static_cast<size_t>(o_.length), 0.0F);
        std::vector<double> alone;
        std::vector<double> summing;
        for (int i = 0; i <= o_.repeats; ++i) {  // the first warms up
            const double a = attend(false);
            const double b = attend(true);
            if (i == 0) { continue; }
            alone.push_back(a);
            summing.push_back(b);
        }
        // Every query's probabilities sum to 1.
        double total = 0;
        for (const float sum : sums_) { total += static_cast<double>(sum); }
        const double expected = double{kLanes} * kGroup * o_.n_queries * (o_.repeats + 1);
        ok_ = ok_ && std::abs(total / expected - 1) < 1e-3;
        const auto pairs = [](double n) { return n * (n + 1) / 2; };
        prefill_s_ = median(alone) * pairs(o_.length) / (pairs(o_.length) - pairs(o_.length - o_.n_queries));
        std::printf("%-32s %9.2f ms   with sums %9.2f ms   ratio %.3f\n", "attention", median(alone) * 1e3,
                    median(summing) * 1e3, median(summing) / median(alone));
    }

    // By the kernel and as a graph, in turns.
    void compare(const char * what, const std::function<Status(Ragged<float> &)> & compute) {
        const auto run = [&](bool kernels, Ragged<float> & out) {
            runner_.set_custom_operations(kernels);
            ok_ = compute(out).ok() && ok_;
        };
        Ragged<float> got;
        Ragged<float> expected;
        std::vector<double> kernel_s;
        std::vector<double> graph_s;
        for (int i = 0; i <= o_.repeats; ++i) {
            const double a = seconds([&] { run(true, got); });
            const double b = seconds([&] { run(false, expected); });
            if (i == 0) { continue; }
            kernel_s.push_back(a);
            graph_s.push_back(b);
        }
        double worst = 0;
        double largest = 1e-30;
        for (size_t j = 0; j < got.size() && got.size() == expected.size(); ++j) {
            worst = std::max(worst, static_cast<double>(std::abs(got.flat()[j] - expected.flat()[j])));
            largest = std::max(largest, static_cast<double>(std::abs(expected.flat()[j])));
        }
        ok_ = ok_ && worst <= 0.2 * largest;
        std::printf("%-32s %9.2f ms   %6.2f %%   as graphs %9.2f ms   difference %.1e\n", what, median(kernel_s) * 1e3,
                    100 * median(kernel_s) / prefill_s_, median(graph_s) * 1e3, worst / largest);
    }

    void window(const char * what, int n, const ObserveWants & wants) {
        n = std::min({n, o_.length, o_.n_queries});
        std::vector<int32_t> positions;
        for (int i = 0; i < n; ++i) {  // a sample lies anywhere, a window at the end
            positions.push_back(n == kSample ? static_cast<int32_t>(int64_t{o_.length} * (i + 1) / n - 1) : o_.length - n + i);
        }
        compare(what, [&](Ragged<float> & out) {
            Observed observed;
            const Status status = observe_queries(runner_, *cache_, 0, 0, queries_.data(), positions, wants, observed);
            out = std::move(wants.profile    ? observed.profile
                            : wants.group_sq ? observed.group_sq
                            : wants.last     ? observed.last
                                             : observed.column_sum);
            return status;
        });
    }

    void values() {
        compare("norms of values",
                [&](Ragged<float> & out) { return value_norms(runner_, *cache_, 0, 0, EntryNorm::kL2, out); });
        const std::vector<float> factor = normal(kLanes * kGroup * o_.head_dim);
        compare("norms behind the output",
                [&](Ragged<float> & out) { return output_l2_norms(runner_, *cache_, 0, 0, factor, out); });
    }

    Options o_;
    std::mt19937 random_{1};
    std::unique_ptr<RaggedCache> cache_;
    GraphRunner runner_;
    std::vector<float> queries_;  // [n_queries][H][d]
    std::vector<float> sums_;     // [H][length]
    double prefill_s_ = 0;        // attention of all queries
    bool ok_ = true;
};

int run(const Options & o) {
    CacheLayout layout;
    layout.shape = {1, kLanes, kGroup, o.head_dim};
    layout.head_dim_v = o.head_dim;
    layout.type_k = layout.type_v = o.type;
    if (!load_backends().ok()) { return 1; }
    auto backend = make_cpu_backend(o.n_threads);
    auto cache = RaggedCache::make(layout, o.length);
    if (!backend.ok() || !cache.ok()) { return 1; }
    std::printf("%s, head size %d, %d entries, %d queries, %s\n", ggml_type_name(o.type), o.head_dim, o.length, o.n_queries,
                cpu_attention_target());
    const bool ok = Bench(o, *backend, std::move(*cache)).run();
    ggml_backend_free(*backend);
    return ok ? 0 : 1;
}

}  // namespace
}  // namespace pith

int main(int argc, char ** argv) {
    pith::Options o;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        const std::string value = argv[i + 1];
        if (name == "--type") {
            for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
                if (value == ggml_type_name(type)) { o.type = type; }
            }
        } else if (name == "--dim") {
            o.head_dim = std::stoi(value);
        } else if (name == "--length") {
            o.length = std::stoi(value);
        } else if (name == "--queries") {
            o.n_queries = std::stoi(value);
        } else if (name == "--threads") {
            o.n_threads = std::stoi(value);
        } else if (name == "--repeats") {
            o.repeats = std::stoi(value);
        } else if (name != "--target" || !pith::use_cpu_attention_target(value.c_str())) {
            return 2;
        }
    }
    return pith::run(o);
}
