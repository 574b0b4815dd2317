// roofline_bench.cpp - the CPU attention kernel beside ggml's flash attention and beside what the machine can do, all in the
// same run on the same ggml threads, interleaved; medians.
//
//   roofline_bench [decode|prefill] [--type f16] [--dim 64] [--length 8192] [--queries 512] [--threads 2] [--repeats 7]
//                                    [--footprint 768] [--target AVX2]
//   roofline_bench table [--threads 2] [--repeats 7] [--json]     head sizes 64 and 128; f16, q8_0, q4_0; decode over 2 k,
//                                                                  8 k and 32 k entries, prefill over 2 k, 8 k and 16 k
//   roofline_bench read [--footprint 1024] [--threads 2] [--repeats 7] [--json]     GB/s of plainly reading so many MiB: what
//                                                                  bounds generation, which reads all weights for each token
//
// Decode: one query per head, 8 lanes of 4 query heads, over as many layers as fill `footprint` MiB, so that none stays in a
// cache; GB/s of K and V, and their share of what plainly reading the same bytes reaches. Prefill: `queries` queries, the
// newest of `length` entries; GFLOP/s of the entries that each query sees (4 · head_dim each), and their share of multiply-adds
// that wait for no memory: in f32, or in pairs of 16-bit numbers where the kernel multiplies in these. ggml gets K and V
// expanded to f32 where they are quantised: its tiles take f16 and f32 only; without them it is slower. The two results are
// compared; far apart is an error. (ggml adds up in f16: it judges no rounding.)
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "attention/cpu/cpu_lane_attention.h"
#include "attention/cpu/cpu_workspace.h"
#include "attention/lane_attention.h"
#include "bench_setup.h"
#include "device/backend.h"
#include "device/huge_pages.h"
#include "machine_limits.h"

namespace pith {
namespace {

constexpr int64_t kMultiplyRounds = 4000000;

struct Options : BenchOptions {
    bool prefill = false;
    bool table = false;
    bool read = false;
    bool json = false;
    size_t footprint_mb = 768;  // K and V read in decode, all layers
};

// GB/s (decode) or GFLOP/s (prefill).
struct Measured {
    double kernel = 0;
    double ggml = 0;
    double limit = 0;        // reading, multiply-adds
    const char * unit = "";  // of the limit
    double difference = 0;   // largest, of the largest output
};

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

// The same attention three times: the kernel's graph, ggml's, and the machine's limit.
class Bench {
public:
    Bench(const Options & options, RaggedCache & cache, ggml_backend_t backend)
        : o_(options),
          cache_(cache),
          backend_(backend),
          n_layers_(cache.layout().shape.n_layers),
          n_(options.prefill ? options.n_queries : 1),
          flash_(n_nodes()),
          kernel_(n_nodes()),
          limit_(16) {}

    Measured run() {
        build_flash();
        fill_inputs();
        build_kernel();
        build_limit();
        std::vector<double> kernel_s;
        std::vector<double> flash_s;
        std::vector<double> limit_s;
        for (int i = 0; i <= o_.repeats; ++i) {  // the first warms up
            const double a = seconds([&] { run_kernel(); });
            const double b = seconds([&] { ggml_backend_graph_compute(backend_, flash_.graph); });
            const double c = seconds([&] { ggml_backend_graph_compute(backend_, limit_.graph); });
            if (i == 0) { continue; }
            kernel_s.push_back(a);
            flash_s.push_back(b);
            limit_s.push_back(c);
        }
        const double visible = static_cast<double>(n_) * (o_.length - n_) + 0.5 * n_ * (n_ + 1.0);
        const double work = o_.prefill ? 4.0 * o_.head_dim * kLanes * kGroup * visible : static_cast<double>(job_.n_bytes());
        const double limit = o_.prefill ? job_.n_flops(o_.n_threads) : static_cast<double>(job_.n_bytes());
        return {1e-9 * work / median(kernel_s), 1e-9 * work / median(flash_s), 1e-9 * limit / median(limit_s),
                !o_.prefill                            ? "read"
                : job_.numbers == LimitNumbers::kWords ? "word"
                                                       : "fma ",
                difference()};
    }

private:
    size_t n_nodes() const { return static_cast<size_t>(n_layers_) * 4 + 16; }

    // ggml's flash attention, layer after layer.
    void build_flash() {
        ggml_context * ctx = flash_.ctx;
        const float scale = 1.0F / std::sqrt(static_cast<float>(o_.head_dim));
        queries_ = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, o_.head_dim, kLanes * kGroup, n_);
        mask_ = o_.prefill ? ggml_new_tensor_2d(ctx, GGML_TYPE_F16, o_.length, n_) : nullptr;
        const auto lanes = [&](ggml_tensor * flat) {
            ggml_tensor * view = ggml_view_3d(ctx, flat, flat->ne[0], o_.length, kLanes, flat->nb[1],
                                              flat->nb[1] * static_cast<size_t>(cache_.capacity()), 0);
            const bool expands = o_.prefill && o_.type != GGML_TYPE_F16 && o_.type != GGML_TYPE_F32;
            return expands ? ggml_cast(ctx, view, GGML_TYPE_F32) : view;
        };
        for (int l = 0; l < n_layers_; ++l) {
            expected_ = ggml_flash_attn_ext(ctx, ggml_permute(ctx, queries_, 0, 2, 1, 3), lanes(cache_.k(l)),
                                            lanes(cache_.v(l)), mask_, scale, 0.0F, 0.0F);
            ggml_build_forward_expand(flash_.graph, expected_);
        }
        flash_.buffer = ggml_backend_alloc_ctx_tensors(ctx, backend_);
    }

    void fill_inputs() {
        std::mt19937 random(2);
        const std::vector<float> queries = normal_floats(static_cast<size_t>(ggml_nelements(queries_)), random);
        ggml_backend_tensor_set(queries_, queries.data(), 0, ggml_nbytes(queries_));
        if (mask_ == nullptr) { return; }
        std::vector<ggml_fp16_t> rows(static_cast<size_t>(o_.length) * static_cast<size_t>(n_), ggml_fp32_to_fp16(0.0F));
        for (int t = 0; t < n_; ++t) {
            const auto begin = rows.begin() + static_cast<ptrdiff_t>(t) * o_.length;
            std::fill(begin + o_.length - n_ + t + 1, begin + o_.length, ggml_fp32_to_fp16(-INFINITY));
        }
        ggml_backend_tensor_set(mask_, rows.data(), 0, ggml_nbytes(mask_));
    }

    void build_kernel() {
        for (int l = 0; l < n_layers_; ++l) {
            nodes_.push_back(&workspace_.next());
            ggml_tensor * sources[] = {queries_, cache_.k(l), cache_.v(l)};
            outs_.push_back(ggml_custom_4d(
                kernel_.ctx, GGML_TYPE_F32, static_cast<int64_t>(o_.head_dim) * kLanes * kGroup, n_, 1, 1, sources, 3,
                [](ggml_tensor *, int ith, int n_threads, void * data) {
                    auto & node = *static_cast<CpuAttentionNode *>(data);
                    attend_part(node.plan, *node.scratch, ith, n_threads);
                },
                GGML_N_TASKS_MAX, nodes_.back()));
            ggml_build_forward_expand(kernel_.graph, outs_.back());
        }
        kernel_.buffer = ggml_backend_alloc_ctx_tensors(kernel_.ctx, backend_);
    }

    void run_kernel() {
        for (int l = 0; l < n_layers_; ++l) {
            CpuAttentionNode & node = *nodes_[static_cast<size_t>(l)];
            fill_attention_task(cache_, 0, l, queries_, outs_[static_cast<size_t>(l)], nullptr, node.plan.task);
            node.plan.make();
            node.scratch->reserve(node.plan);
        }
        ggml_backend_graph_compute(backend_, kernel_.graph);
    }

    // Prefill is held up by arithmetic, decode by memory.
    void build_limit() {
        job_.n_rounds = kMultiplyRounds;
        const bool words = o_.prefill && cpu_attention_multiplies_words(*format_of(o_.type), *format_of(o_.type), o_.head_dim);
        job_.numbers = words ? LimitNumbers::kWords : LimitNumbers::kFloats;
        for (int l = 0; l < n_layers_; ++l) {
            for (ggml_tensor * flat : {cache_.k(l), cache_.v(l)}) {
                for (int h = 0; h < kLanes; ++h) {
                    const size_t begin = flat->nb[1] * static_cast<size_t>(cache_.cell(0, l, h, 0));
                    job_.spans.emplace_back(static_cast<const uint8_t *>(flat->data) + begin,
                                            flat->nb[1] * static_cast<size_t>(o_.length));
                }
            }
        }
        ggml_tensor * sources[] = {queries_};
        ggml_build_forward_expand(limit_.graph,
                                  ggml_custom_4d(limit_.ctx, GGML_TYPE_F32, 1, 1, 1, 1, sources, 1,
                                                 o_.prefill ? multiply_part : read_part, GGML_N_TASKS_MAX, &job_));
        limit_.buffer = ggml_backend_alloc_ctx_tensors(limit_.ctx, backend_);
    }

    double difference() const {
        std::vector<float> x(static_cast<size_t>(ggml_nelements(expected_)));
        std::vector<float> y(x.size());
        ggml_backend_tensor_get(outs_.back(), x.data(), 0, x.size() * sizeof(float));
        ggml_backend_tensor_get(expected_, y.data(), 0, y.size() * sizeof(float));
        return largest_difference(x, y);
    }

    const Options & o_;
    RaggedCache & cache_;
    ggml_backend_t backend_;
    int n_layers_;
    int n_;  // queries
    Graph flash_;
    Graph kernel_;
    Graph limit_;
    ggml_tensor * queries_ = nullptr;
    ggml_tensor * mask_ = nullptr;
    ggml_tensor * expected_ = nullptr;  // of the last layer
    CpuWorkspace workspace_;
    std::vector<CpuAttentionNode *> nodes_;
    std::vector<ggml_tensor *> outs_;
    LimitJob job_;
};

std::optional<Measured> measure(const Options & o, ggml_backend_t backend) {
    CacheLayout layout = bench_layout(o, 1);
    const size_t layer_bytes = layout.entry_bytes() * static_cast<size_t>(kLanes) * static_cast<size_t>(o.length);
    if (!o.prefill) { layout.shape.n_layers = std::max(1, static_cast<int>((o.footprint_mb << 20U) / layer_bytes)); }
    auto cache = RaggedCache::make(layout, o.length);
    if (!cache.ok()) {
        std::fprintf(stderr, "roofline_bench: %s\n", cache.status().message().c_str());
        return std::nullopt;
    }
    std::mt19937 random(1);
    fill_lanes(**cache, o, random);
    const Measured measured = Bench(o, **cache, backend).run();
    if (measured.difference <= 0.2) { return measured; }
    std::fprintf(stderr, "roofline_bench: kernel and ggml differ by %.2g of the largest output\n", measured.difference);
    return std::nullopt;
}

// GB/s of plainly reading `footprint` MiB, in huge pages where the system has them: so weights lie.
double read_rate(const Options & o, ggml_backend_t backend) {
    constexpr size_t kHugePage = size_t{1} << 21U;
    const size_t size = o.footprint_mb << 20U;
    const std::unique_ptr<uint8_t, decltype(&std::free)> bytes(
        static_cast<uint8_t *>(std::aligned_alloc(kHugePage, (size + kHugePage - 1) / kHugePage * kHugePage)), &std::free);
    if (bytes == nullptr) { return 0; }
    use_huge_pages(bytes.get(), size);
    std::memset(bytes.get(), 1, size);
    LimitJob job;
    job.spans.emplace_back(bytes.get(), size);
    Graph graph(16);
    ggml_tensor * source = ggml_new_tensor_1d(graph.ctx, GGML_TYPE_F32, 1);
    ggml_build_forward_expand(
        graph.graph, ggml_custom_4d(graph.ctx, GGML_TYPE_F32, 1, 1, 1, 1, &source, 1, read_part, GGML_N_TASKS_MAX, &job));
    graph.buffer = ggml_backend_alloc_ctx_tensors(graph.ctx, backend);
    std::vector<double> times;
    for (int i = 0; i <= o.repeats; ++i) {  // the first warms up
        times.push_back(seconds([&] { ggml_backend_graph_compute(backend, graph.graph); }));
    }
    times.erase(times.begin());
    return 1e-9 * static_cast<double>(size) / median(times);
}

void print_row(const Options & o, const Measured & m) {
    std::printf("%-7s %-5s d=%-3d %6d entries | kernel %7.1f %s  ggml %7.1f  ratio %5.2f | %s %7.1f  share %4.0f %% | %.1e\n",
                o.prefill ? "prefill" : "decode", ggml_type_name(o.type), o.head_dim, o.length, m.kernel,
                o.prefill ? "GFLOP/s" : "GB/s   ", m.ggml, m.kernel / m.ggml, m.unit, m.limit, 100 * m.kernel / m.limit,
                m.difference);
    std::fflush(stdout);
}

void print_json_row(const Options & o, const Measured & m, bool first) {
    std::printf(
        "%s  {\"phase\": \"%s\", \"type\": \"%s\", \"head_dim\": %d, \"n_entries\": %d, \"unit\": \"%s\", \"kernel\": %.3f, "
        "\"ggml\": %.3f, \"limit\": %.3f, \"ratio\": %.4f, \"share\": %.4f, \"difference\": %.3g}",
        first ? "" : ",\n", o.prefill ? "prefill" : "decode", ggml_type_name(o.type), o.head_dim, o.length,
        o.prefill ? "GFLOP/s" : "GB/s", m.kernel, m.ggml, m.limit, m.kernel / m.ggml, m.kernel / m.limit, m.difference);
    std::fflush(stdout);
}

std::vector<Options> shapes_of(const Options & o) {
    if (!o.table) { return {o}; }
    std::vector<Options> all;
    for (const bool prefill : {false, true}) {
        for (const int head_dim : {64, 128}) {
            for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
                for (const int length : {2048, 8192, prefill ? 16384 : 32768}) {
                    Options one = o;
                    one.prefill = prefill;
                    one.head_dim = head_dim;
                    one.type = type;
                    one.length = length;
                    all.push_back(one);
                }
            }
        }
    }
    return all;
}

int run(const Options & o) {
    if (!load_backends().ok()) { return 1; }
    auto made = make_cpu_backend(o.n_threads);
    if (!made.ok()) {
        std::fprintf(stderr, "roofline_bench: %s\n", made.status().message().c_str());
        return 1;
    }
    const OwnedBackend backend(*made);
    if (o.read) {
        const double rate = read_rate(o, backend.get());
        std::printf(o.json ? "{\"read_gb_per_s\": %.2f}\n" : "read %.1f GB/s\n", rate);
        return rate > 0 ? 0 : 1;
    }
    if (o.json) {
        std::printf("{\"n_threads\": %d, \"repeats\": %d, \"target\": \"%s\", \"rows\": [\n", o.n_threads, o.repeats,
                    cpu_attention_targets().front());
    }
    bool first = true;
    bool ok = true;
    for (const Options & shape : shapes_of(o)) {
        const auto measured = measure(shape, backend.get());
        ok = ok && measured.has_value();
        if (!measured) { continue; }
        if (o.json) {
            print_json_row(shape, *measured, first);
        } else {
            print_row(shape, *measured);
        }
        first = false;
    }
    if (o.json) { std::puts("\n]}"); }
    return ok ? 0 : 1;
}

int usage(const std::string & what) {
    std::fprintf(stderr, "roofline_bench: %s; its arguments are in the first lines of bench/roofline_bench.cpp\n",
                 what.c_str());
    return 2;
}

}  // namespace
}  // namespace pith

int main(int argc, char ** argv) {
    pith::Options o;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (name == "decode" || name == "prefill" || name == "table" || name == "read") {
            o.read = name == "read";
            o.prefill = name == "prefill";
            o.table = name == "table";
            continue;
        }
        if (name == "--json") {
            o.json = true;
            continue;
        }
        if (++i == argc) { return pith::usage("'" + name + "' wants a value, or is unknown"); }
        const std::string value = argv[i];
        if (name == "--footprint" && std::atoi(value.c_str()) > 0) {
            o.footprint_mb = std::stoul(value);
        } else if (name == "--target") {
            if (!pith::use_cpu_attention_target(value.c_str())) { return pith::usage("no target '" + value + "' here"); }
        } else if (const std::string wrong = pith::read_option(name, value, o); !wrong.empty()) {
            return pith::usage(wrong);
        }
    }
    if (o.prefill && !o.table && o.length < o.n_queries) {
        return pith::usage("--length must be as many as --queries, or more, for prefill");
    }
    return pith::run(o);
}
