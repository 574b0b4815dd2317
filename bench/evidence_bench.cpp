// evidence_bench.cpp - what evidence costs beside attention, on the same ggml threads in the same run, interleaved; medians.
//
//   evidence_bench [--type f16] [--dim 64] [--length 8192] [--queries 512] [--threads 2] [--repeats 7] [--target AVX2]
//
// 8 lanes of 4 query heads. First the attention of the newest `queries` of `length` entries, alone and with the column sums of
// all queries (h2o's evidence). Then what is asked of a window or a sample of queries, by the kernel and as graphs of ggml's
// operations, and norms of values: in milliseconds, and as a share of the attention of all `length` queries, taken from the one
// measured by the number of (query, entry) pairs.
// Each result of the kernel is compared with the graphs'; far apart is an error. (Graphs multiply in the K type's precision.)
// Last the first norm behind W_O for 2,048 elements of output (a model of 1 B parameters): in f32, and by signed bytes on every
// unit of the machine, in turns.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "attention/cpu/cpu_lane_attention.h"
#include "bench_setup.h"
#include "device/backend.h"
#include "evidence/entry_norms.h"
#include "evidence/observe.h"
#include "evidence/output_norms.h"

namespace pith {
namespace {

constexpr int kWindow = 32;
constexpr int kSample = 200;
constexpr int kEmbd = 2048;

// One layer whose lanes hold random keys and values, and the queries of its newest entries.
class Bench {
public:
    Bench(const BenchOptions & o, ggml_backend_t backend, std::unique_ptr<RaggedCache> cache)
        : o_(o),
          cache_(std::move(cache)),
          runner_(backend),
          queries_(normal_floats(static_cast<size_t>(o.n_queries * kLanes * kGroup * o.head_dim), random_)) {
        ok_ = cache_->reserve(0, 0, o.length).ok();
        if (ok_) { fill_lanes(*cache_, o, random_); }
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
        first_norms();
        return ok_;
    }

private:
    double attend(bool with_sums) {
        GraphBuild * build = *runner_.begin(64);
        ggml_tensor * q = build->input(GGML_TYPE_F32, int64_t{kLanes} * kGroup * o_.head_dim, o_.n_queries,
                                       static_cast<const float *>(queries_.data()));
        q = ggml_reshape_3d(build->ctx(), q, o_.head_dim, kLanes * kGroup, o_.n_queries);
        ColumnSums sums;
        if (with_sums) {
            sums = [this](int, int head) {
                const auto length = static_cast<size_t>(o_.length);
                float * to = sums_.data() + static_cast<size_t>(head) * length;
                return ColumnSum{to, length, to};
            };
        }
        build->keep(build_cpu_attention(*build, single_part(*cache_, 0, o_.n_queries, std::move(sums)), 0, q,
                                        {cache_->k(0), cache_->v(0)}));
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
        const double difference = largest_difference(got.flat(), expected.flat());
        ok_ = ok_ && difference <= 0.2;
        std::printf("%-32s %9.2f ms   %6.2f %%   as graphs %9.2f ms   difference %.1e\n", what, median(kernel_s) * 1e3,
                    100 * median(kernel_s) / prefill_s_, median(graph_s) * 1e3, difference);
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
        const std::vector<float> factor =
            normal_floats(static_cast<size_t>(kLanes * kGroup * o_.head_dim * o_.head_dim), random_);
        compare("norms behind the output",
                [&](Ragged<float> & out) { return output_l2_norms(runner_, *cache_, 0, 0, factor, out); });
    }

    void first_norms() {
        const std::vector<float> projection =
            normal_floats(static_cast<size_t>(kLanes * kGroup * o_.head_dim) * kEmbd, random_);
        std::vector<double> f32_s;
        std::vector<double> make_s;
        const std::vector<ByteUnit> units = byte_units();
        std::vector<std::vector<double>> unit_s(units.size());
        std::vector<double> differences(units.size());
        runner_.set_custom_operations(true);
        for (int i = 0; i <= o_.repeats; ++i) {
            Ragged<float> expected;
            const double f32 =
                seconds([&] { ok_ = output_l1_norms(runner_, *cache_, 0, 0, projection, expected).ok() && ok_; });
            Result<ByteProjection> bytes = Status(ErrorCode::kInternal, "not made");
            const double make =
                seconds([&] { bytes = ByteProjection::make(runner_, projection, kLanes * kGroup, o_.head_dim); });
            ok_ = ok_ && bytes.ok();
            if (!ok_) { return; }
            for (size_t u = 0; u < units.size(); ++u) {
                Ragged<float> got;
                const double s =
                    seconds([&] { ok_ = output_l1_norms(runner_, *cache_, 0, 0, *bytes, units[u], got).ok() && ok_; });
                differences[u] = largest_difference(got.flat(), expected.flat());
                if (i > 0) { unit_s[u].push_back(s); }
            }
            if (i == 0) { continue; }
            f32_s.push_back(f32);
            make_s.push_back(make);
        }
        std::printf("%-32s %9.2f ms\n", "first norm behind W_O, f32", median(f32_s) * 1e3);
        std::printf("%-32s %9.2f ms\n", "W_O in bytes", median(make_s) * 1e3);
        for (size_t u = 0; u < units.size(); ++u) {
            ok_ = ok_ && differences[u] <= 5e-3;
            std::printf("  by %-29s %9.2f ms   %6.1f times f32   difference %.1e\n", to_string(units[u]),
                        median(unit_s[u]) * 1e3, median(f32_s) / median(unit_s[u]), differences[u]);
        }
    }

    BenchOptions o_;
    std::mt19937 random_{1};
    std::unique_ptr<RaggedCache> cache_;
    GraphRunner runner_;
    std::vector<float> queries_;  // [n_queries][H][d]
    std::vector<float> sums_;     // [H][length]
    double prefill_s_ = 0;        // attention of all queries
    bool ok_ = true;
};

int run(const BenchOptions & o) {
    if (!load_backends().ok()) { return 1; }
    auto made = make_cpu_backend(o.n_threads);
    auto cache = RaggedCache::make(bench_layout(o, 1), o.length);
    for (const Status & status : {made.status(), cache.status()}) {
        if (status.ok()) { continue; }
        std::fprintf(stderr, "evidence_bench: %s\n", status.message().c_str());
        return 1;
    }
    const OwnedBackend backend(*made);
    std::printf("%s, head size %d, %d entries, %d queries, %s\n", ggml_type_name(o.type), o.head_dim, o.length, o.n_queries,
                cpu_attention_target());
    return Bench(o, backend.get(), std::move(*cache)).run() ? 0 : 1;
}

}  // namespace
}  // namespace pith

int main(int argc, char ** argv) {
    pith::BenchOptions o;
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i];
        const std::string value = i + 1 < argc ? argv[i + 1] : "";
        std::string wrong;
        if (name != "--target") {
            wrong = pith::read_option(name, value, o);
        } else if (!pith::use_cpu_attention_target(value.c_str())) {
            wrong = "no target '" + value + "' here";
        }
        if (wrong.empty()) { continue; }
        std::fprintf(stderr, "evidence_bench: %s\n", wrong.c_str());
        return 2;
    }
    if (o.length < o.n_queries) {
        std::fprintf(stderr, "evidence_bench: --length must be as many as --queries, or more\n");
        return 2;
    }
    return pith::run(o);
}
