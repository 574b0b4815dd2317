// attention_bench.cpp - the CPU attention kernel beside ggml's flash attention and the machine's read bandwidth, all in the
// same run on the same ggml threads, interleaved; medians.
//
//   attention_bench [decode|prefill] [--type f16] [--dim 64] [--length 8192] [--threads 2] [--repeats 7] [--target AVX2]
//
// Decode: one query per head, 8 lanes of 4 query heads, over as many layers as it takes to leave the caches; GB/s of K and V.
// Prefill: 512 queries, the newest of `length` entries; GFLOP/s of the entries that each query sees (4 · head_dim each).
// Each result is compared with the portable path before it is timed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "attention/cpu_lane_attention.h"
#include "attention/lane_attention.h"
#include "model/backend.h"

namespace pith {
namespace {

constexpr int kLanes = 8;
constexpr int kGroup = 4;

struct Options {
    bool prefill = false;
    ggml_type type = GGML_TYPE_F16;
    int head_dim = 64;
    int length = 8192;
    int n_threads = 2;
    int repeats = 7;
    int n_queries = 512;
    size_t footprint_mb = 768;  // K and V read in decode, all layers
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

// A graph with memory, run as often as wanted.
struct Graph {
    ggml_context * ctx = nullptr;
    ggml_cgraph * graph = nullptr;
    ggml_backend_buffer_t buffer = nullptr;
    explicit Graph(size_t n_nodes) {
        ctx = ggml_init({4 * n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false), nullptr, true});
        graph = ggml_new_graph_custom(ctx, n_nodes, false);
    }
    ~Graph() {
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
    Graph(const Graph &) = delete;
    Graph & operator=(const Graph &) = delete;
};

typedef uint64_t Words __attribute__((vector_size(64)));

struct ReadJob {
    std::vector<std::pair<const uint8_t *, size_t>> spans;
    std::array<uint64_t, kMaxAttentionThreads> sums{};
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
uint64_t
sum_bytes(const uint8_t * from, size_t size) {
    Words sums[4] = {};
    for (size_t i = 0; i < size; i += 256) {
        for (size_t c = 0; c < 4; ++c) {
            Words words;
            std::memcpy(&words, from + i + 64 * c, sizeof(words));
            sums[c] += words;
        }
    }
    const Words sum = sums[0] + sums[1] + sums[2] + sums[3];
    return sum[0] + sum[3] + sum[7];
}

void read_part(ggml_tensor *, int ith, int nth, void * data) {
    auto & job = *static_cast<ReadJob *>(data);
    for (const auto & [bytes, size] : job.spans) {
        const size_t share = size / 256 / static_cast<size_t>(nth) * 256;
        job.sums[static_cast<size_t>(ith)] += sum_bytes(bytes + share * static_cast<size_t>(ith), share);
    }
}

// Multiply-adds that no memory holds up: 16 sums of a vector each.
constexpr int64_t kFmaRounds = 4000000;
typedef float Floats __attribute__((vector_size(64)));

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
float multiply_add(int64_t n_rounds) {
    Floats sums[16];
    for (int i = 0; i < 16; ++i) { sums[i] = Floats{} + static_cast<float>(i); }
    Floats factor;
    for (int i = 0; i < 16; ++i) { factor[i] = 0.5F + 0.01F * static_cast<float>(i); }
    const Floats term = factor + 1.0F;
    for (int64_t i = 0; i < n_rounds; ++i) {
        for (Floats & sum : sums) { sum = sum * factor + term; }
    }
    Floats total = {};
    for (const Floats & sum : sums) { total += sum; }
    float all = 0;
    for (int i = 0; i < 16; ++i) { all += total[i]; }
    return all;
}

void multiply_part(ggml_tensor *, int ith, int, void * data) {
    static_cast<ReadJob *>(data)->sums[static_cast<size_t>(ith)] += static_cast<uint64_t>(multiply_add(kFmaRounds));
}

int run(const Options & o) {
    CacheLayout layout;
    layout.shape = {1, kLanes, kGroup, o.head_dim};
    layout.head_dim_v = o.head_dim;
    layout.type_k = layout.type_v = o.type;
    const size_t layer_bytes = layout.entry_bytes() * static_cast<size_t>(kLanes) * static_cast<size_t>(o.length);
    layout.shape.n_layers = o.prefill ? 1 : std::max(1, static_cast<int>((o.footprint_mb << 20U) / layer_bytes));
    const int n_layers = layout.shape.n_layers;
    if (!load_backends().ok()) { return 1; }
    auto backend = make_cpu_backend(o.n_threads);
    auto made = RaggedCache::make(layout, o.length);
    if (!backend.ok() || !made.ok()) { return 1; }
    RaggedCache & cache = **made;
    std::vector<int32_t> positions(static_cast<size_t>(o.length));
    for (int i = 0; i < o.length; ++i) { positions[static_cast<size_t>(i)] = i; }

    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> row(static_cast<size_t>(o.head_dim));
    for (int l = 0; l < n_layers; ++l) {
        if (!cache.reserve(0, l, o.length).ok()) { return 1; }
        cache.append(0, l, positions);
        for (ggml_tensor * flat : {cache.k(l), cache.v(l)}) {
            const size_t lane_bytes = flat->nb[1] * static_cast<size_t>(o.length);
            for (int h = 0; h < kLanes; ++h) {
                uint8_t * lane = static_cast<uint8_t *>(flat->data) + flat->nb[1] * static_cast<size_t>(cache.cell(0, h, 0));
                const ggml_tensor * first = flat == cache.k(l) ? cache.k(0) : cache.v(0);
                if (l > 0 || h > 0) {
                    std::memcpy(lane, first->data, lane_bytes);
                    continue;
                }
                for (int i = 0; i < o.length; ++i) {
                    for (float & value : row) { value = normal(random); }
                    uint8_t * to = lane + flat->nb[1] * static_cast<size_t>(i);
                    if (o.type == GGML_TYPE_F32) {
                        std::memcpy(to, row.data(), flat->nb[1]);
                    } else {
                        ggml_quantize_chunk(o.type, row.data(), to, 0, 1, o.head_dim, nullptr);
                    }
                }
            }
        }
    }

    const int n = o.prefill ? o.n_queries : 1;
    const float scale = 1.0F / std::sqrt(static_cast<float>(o.head_dim));
    // ggml's flash attention over all layers.
    Graph flash(static_cast<size_t>(n_layers) * 4 + 16);
    ggml_tensor * q = ggml_new_tensor_3d(flash.ctx, GGML_TYPE_F32, o.head_dim, kLanes * kGroup, n);
    ggml_tensor * mask = o.prefill ? ggml_new_tensor_2d(flash.ctx, GGML_TYPE_F16, o.length, n) : nullptr;
    ggml_tensor * expected = nullptr;
    for (int l = 0; l < n_layers; ++l) {
        const auto lanes = [&](ggml_tensor * flat) {
            return ggml_view_3d(flash.ctx, flat, flat->ne[0], o.length, kLanes, flat->nb[1],
                                flat->nb[1] * static_cast<size_t>(cache.capacity()), 0);
        };
        ggml_tensor * k = lanes(cache.k(l));
        ggml_tensor * v = lanes(cache.v(l));
        if (o.prefill && o.type != GGML_TYPE_F16 && o.type != GGML_TYPE_F32) {
            k = ggml_cast(flash.ctx, k, GGML_TYPE_F32);
            v = ggml_cast(flash.ctx, v, GGML_TYPE_F32);
        }
        expected = ggml_flash_attn_ext(flash.ctx, ggml_permute(flash.ctx, q, 0, 2, 1, 3), k, v, mask, scale, 0.0F, 0.0F);
        ggml_build_forward_expand(flash.graph, expected);
    }
    flash.buffer = ggml_backend_alloc_ctx_tensors(flash.ctx, *backend);
    std::vector<float> queries(static_cast<size_t>(ggml_nelements(q)));
    for (float & value : queries) { value = normal(random); }
    ggml_backend_tensor_set(q, queries.data(), 0, ggml_nbytes(q));
    if (mask != nullptr) {
        std::vector<ggml_fp16_t> rows(static_cast<size_t>(o.length) * static_cast<size_t>(n), ggml_fp32_to_fp16(0.0F));
        for (int t = 0; t < n; ++t) {
            const auto begin = rows.begin() + static_cast<ptrdiff_t>(t) * o.length;
            std::fill(begin + o.length - n + t + 1, begin + o.length, ggml_fp32_to_fp16(-INFINITY));
        }
        ggml_backend_tensor_set(mask, rows.data(), 0, ggml_nbytes(mask));
    }

    // The kernel.
    Graph kernel(static_cast<size_t>(n_layers) * 4 + 16);
    CpuWorkspace workspace;
    std::vector<CpuAttentionNode *> nodes;
    ggml_tensor * got = nullptr;
    std::vector<ggml_tensor *> outs;
    for (int l = 0; l < n_layers; ++l) {
        nodes.push_back(&workspace.next());
        ggml_tensor * sources[] = {q, cache.k(l), cache.v(l)};
        got = ggml_custom_4d(
            kernel.ctx, GGML_TYPE_F32, static_cast<int64_t>(o.head_dim) * kLanes * kGroup, n, 1, 1, sources, 3,
            [](ggml_tensor *, int ith, int, void * data) {
                auto & node = *static_cast<CpuAttentionNode *>(data);
                attend_part(node.plan, *node.scratch, ith);
            },
            GGML_N_TASKS_MAX, nodes.back());
        outs.push_back(got);
        ggml_build_forward_expand(kernel.graph, got);
    }
    kernel.buffer = ggml_backend_alloc_ctx_tensors(kernel.ctx, *backend);
    const auto run_kernel = [&] {
        for (int l = 0; l < n_layers; ++l) {
            fill_attention_task(cache, 0, l, q, outs[static_cast<size_t>(l)], nodes[static_cast<size_t>(l)]->plan.task);
            nodes[static_cast<size_t>(l)]->plan.make();
            nodes[static_cast<size_t>(l)]->scratch->reserve(nodes[static_cast<size_t>(l)]->plan);
        }
        ggml_backend_graph_compute(*backend, kernel.graph);
    };

    // Reading the same bytes.
    Graph reading(16);
    ReadJob job;
    for (int l = 0; l < n_layers; ++l) {
        for (ggml_tensor * flat : {cache.k(l), cache.v(l)}) {
            job.spans.emplace_back(static_cast<const uint8_t *>(flat->data),
                                   flat->nb[1] * static_cast<size_t>(kLanes) * static_cast<size_t>(o.length));
        }
    }
    ggml_tensor * sources[] = {q};
    // Prefill is held up by arithmetic, decode by memory.
    ggml_build_forward_expand(reading.graph, ggml_custom_4d(reading.ctx, GGML_TYPE_F32, 1, 1, 1, 1, sources, 1,
                                                            o.prefill ? multiply_part : read_part, GGML_N_TASKS_MAX, &job));
    reading.buffer = ggml_backend_alloc_ctx_tensors(reading.ctx, *backend);

    std::vector<double> kernel_s;
    std::vector<double> flash_s;
    std::vector<double> read_s;
    for (int i = 0; i <= o.repeats; ++i) {  // the first warms up
        const double a = seconds(run_kernel);
        const double b = seconds([&] { ggml_backend_graph_compute(*backend, flash.graph); });
        const double c = seconds([&] { ggml_backend_graph_compute(*backend, reading.graph); });
        if (i == 0) { continue; }
        kernel_s.push_back(a);
        flash_s.push_back(b);
        read_s.push_back(c);
    }
    std::vector<float> x(queries.size());
    std::vector<float> y(queries.size());
    ggml_backend_tensor_get(got, x.data(), 0, x.size() * sizeof(float));
    ggml_backend_tensor_get(expected, y.data(), 0, y.size() * sizeof(float));
    double worst = 0;
    double largest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        worst = std::max(worst, static_cast<double>(std::abs(x[i] - y[i])));
        largest = std::max(largest, static_cast<double>(std::abs(y[i])));
    }
    const double t = median(kernel_s);
    const double f = median(flash_s);
    if (o.prefill) {
        const double visible = static_cast<double>(n) * (o.length - n) + 0.5 * n * (n + 1.0);
        const double work = 4.0 * o.head_dim * kLanes * kGroup * visible * 1e-9;
        const double peak = 2.0 * 16 * 16 * kFmaRounds * o.n_threads * 1e-9 / median(read_s);
        std::printf(
            "prefill %-5s d=%-3d length=%-6d kernel %7.1f GFLOP/s   ggml %7.1f   ratio %5.2f   fma %7.1f   share %4.0f %%   "
            "difference %.1e\n",
            ggml_type_name(o.type), o.head_dim, o.length, work / t, work / f, f / t, peak, 100 * work / t / peak,
            worst / largest);
    } else {
        const double bytes = static_cast<double>(layer_bytes) * n_layers * 1e-9;
        const double r = median(read_s);
        std::printf(
            "decode %-5s d=%-3d length=%-6d kernel %6.1f GB/s   ggml %6.1f   ratio %5.2f   read %6.1f   share %4.0f %%   "
            "difference %.1e\n",
            ggml_type_name(o.type), o.head_dim, o.length, bytes / t, bytes / f, f / t, bytes / r, 100 * r / t, worst / largest);
    }
    ggml_backend_free(*backend);
    return worst <= 0.2 * largest ? 0 : 1;
}

}  // namespace
}  // namespace pith

int main(int argc, char ** argv) {
    pith::Options o;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (name == "decode" || name == "prefill") {
            o.prefill = name == "prefill";
            continue;
        }
        if (++i == argc) { return 2; }
        const std::string value = argv[i];
        if (name == "--type") {
            for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
                if (value == ggml_type_name(type)) { o.type = type; }
            }
        } else if (name == "--dim") {
            o.head_dim = std::stoi(value);
        } else if (name == "--length") {
            o.length = std::stoi(value);
        } else if (name == "--threads") {
            o.n_threads = std::stoi(value);
        } else if (name == "--footprint") {
            o.footprint_mb = std::stoul(value);
        } else if (name == "--repeats") {
            o.repeats = std::stoi(value);
        } else if (name == "--target") {
            if (!pith::use_cpu_attention_target(value.c_str())) { return 2; }
        }
    }
    return pith::run(o);
}
