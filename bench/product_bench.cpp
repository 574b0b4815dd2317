// product_bench.cpp - the CPU's products with weights beside ggml's, in turns on the same ggml threads; medians.
//
//   product_bench [--type f32] [--in 128] [--out 256] [--rows 8] [--threads 1] [--repeats 9] [--footprint 6] [--target AVX2]
//   product_bench table [--type f32] [--threads 1] [--repeats 9]
//   product_bench experts [--type mxfp4] [--threads 1] [--repeats 9]
//   --experts 32 --used 4: each row is multiplied by the weights of so many experts, chosen at random
//
// table: 1 to 512 rows. f32: matrices of the built-in model and of one of 1 B parameters. Quantised: of one of 1.5 B (Qwen2.5),
// copied into huge pages, as models are loaded; ggml's are repacked where it has a layout of its own for them. experts: those
// of gpt-oss-20b and Qwen3-30B-A3B; GB/s of the experts that were chosen. So many matrices as fill `footprint` MiB are
// multiplied one after the other, as in a pass through a model of that size: 6 MiB, as the built-in one, stay in a cache. f32:
// GFLOP/s, and the share of multiply-adds that wait for no memory. Quantised: 10^9 multiply-adds a second, the share of what a
// loop of byte products in registers reaches on the same instruction set (not the matrix unit), and GB/s of weights.
// The two results are compared; far apart is an error.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "attention/cpu/cpu_attention.h"
#include "bench_setup.h"
#include "device/backend.h"
#include "device/graph_runner.h"
#include "device/huge_pages.h"
#include "machine_limits.h"
#include "model/mul_mat.h"
#include "model/weight_store.h"

namespace pith {
namespace {

constexpr int64_t kMultiplyRounds = 1000000;
constexpr double kLeastTime_s = 2e-3;  // of one measurement

struct ProductOptions {
    int n_in = 128;
    int n_out = 256;
    int n_rows = 8;
    int n_threads = 1;
    int repeats = 9;
    int footprint_mb = 6;
    int n_experts = 1;
    int n_used = 0;  // 0: no experts
    bool table = false;
    bool experts = false;
    ggml_type type = GGML_TYPE_F32;

    int64_t matrix_bytes() const { return static_cast<int64_t>(ggml_row_size(type, n_in)) * n_out; }
    int64_t n_matrices() const { return std::max<int64_t>(1, (int64_t{footprint_mb} << 20U) / (matrix_bytes() * n_experts)); }
    double n_flops() const { return 2.0 * static_cast<double>(n_matrices()) * n_in * n_out * n_rows * std::max(1, n_used); }
};

struct FreeTensors {
    void operator()(ggml_context * ctx) const { ggml_free(ctx); }
    void operator()(ggml_backend_buffer * buffer) const { ggml_backend_buffer_free(buffer); }
};

// Random matrices in the host's memory.
struct Matrices {
    Matrices(const ProductOptions & o, ggml_backend_buffer_type_t type, std::mt19937 random)
        : ctx(ggml_init({static_cast<size_t>(o.n_matrices() + 1) * ggml_tensor_overhead(), nullptr, true})) {
        for (int64_t i = 0; i < o.n_matrices(); ++i) {
            all.push_back(ggml_new_tensor_3d(ctx.get(), o.type, o.n_in, o.n_out, o.n_experts));
        }
        buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(ctx.get(), type));
        use_huge_pages(ggml_backend_buffer_get_base(buffer.get()), ggml_backend_buffer_get_size(buffer.get()));
        const std::vector<float> values = normal_floats(static_cast<size_t>(o.n_in) * static_cast<size_t>(o.n_out), random);
        const auto matrix_bytes = static_cast<size_t>(o.matrix_bytes());
        std::vector<uint8_t> stored(matrix_bytes * static_cast<size_t>(o.n_experts));
        ggml_quantize_chunk(o.type, values.data(), stored.data(), 0, o.n_out, o.n_in, nullptr);
        for (size_t e = 1; e < static_cast<size_t>(o.n_experts); ++e) {
            std::copy_n(stored.data(), matrix_bytes, stored.data() + e * matrix_bytes);
        }
        for (ggml_tensor * one : all) { ggml_backend_tensor_set(one, stored.data(), 0, stored.size()); }
    }
    std::unique_ptr<ggml_context, FreeTensors> ctx;
    std::unique_ptr<ggml_backend_buffer, FreeTensors> buffer;
    std::vector<ggml_tensor *> all;
};

// For each matrix [n_used, n_rows] different experts; empty: there are none.
class Choices {
public:
    Choices(const ProductOptions & o, std::mt19937 random) {
        if (o.n_used == 0) {
            n_read_ = o.n_matrices();
            return;
        }
        std::vector<int32_t> experts(static_cast<size_t>(o.n_experts));
        std::iota(experts.begin(), experts.end(), 0);
        for (int64_t i = 0; i < o.n_matrices(); ++i) {
            std::vector<int32_t> & one = of_.emplace_back();
            for (int row = 0; row < o.n_rows; ++row) {
                std::shuffle(experts.begin(), experts.end(), random);
                one.insert(one.end(), experts.begin(), experts.begin() + o.n_used);
            }
            n_read_ += static_cast<int64_t>(std::set<int32_t>(one.begin(), one.end()).size());
        }
    }
    const int32_t * of(size_t matrix) const { return of_.empty() ? nullptr : of_[matrix].data(); }
    int64_t n_read() const { return n_read_; }  // matrices, an expert's each

private:
    std::vector<std::vector<int32_t>> of_;
    int64_t n_read_ = 0;
};

// One graph of all products, run by one of the two.
class Products {
public:
    Products(const ProductOptions & o, ggml_backend_t backend, const Matrices & matrices, const std::vector<float> & rows,
             const Choices & choices, bool own)
        : runner_(backend), out_(static_cast<size_t>(o.n_out) * static_cast<size_t>(o.n_rows * std::max(1, o.n_used))) {
        runner_.set_custom_operations(own);
        GraphBuild * build = *runner_.begin(3 * static_cast<size_t>(o.n_matrices()) + 16);
        ggml_tensor * x = build->input(GGML_TYPE_F32, o.n_in, o.n_rows, rows.data());
        const MulMatFn mul_mat = mul_mat_of(*build);
        for (size_t i = 0; i < matrices.all.size(); ++i) {
            ggml_tensor * y = nullptr;
            if (const int32_t * chosen = choices.of(i); chosen != nullptr) {
                ggml_tensor * ids = build->input(GGML_TYPE_I32, o.n_used, o.n_rows, chosen);
                y = mul_mat.of_experts(build->ctx(), matrices.all[i], ggml_reshape_3d(build->ctx(), x, o.n_in, 1, o.n_rows),
                                       ids);
            } else {
                y = mul_mat(build->ctx(), matrices.all[i], x);
            }
            ggml_build_forward_expand(build->graph(), y);
            if (i + 1 == matrices.all.size()) { build->output(y, out_.data()); }
        }
    }
    bool run(int n_times) {
        bool ok = true;
        for (int i = 0; i < n_times; ++i) { ok = runner_.run().ok() && ok; }
        return ok;
    }
    const std::vector<float> & out() const { return out_; }

private:
    GraphRunner runner_;
    std::vector<float> out_;
};

bool measure(const ProductOptions & o, ggml_backend_t backend, double limit) {
    std::mt19937 random(1);
    ggml_backend_buffer_type_t plain = ggml_backend_dev_buffer_type(cpu_device());
    ggml_backend_buffer_type_t repacked =
        o.type == GGML_TYPE_F32 ? nullptr : repacked_buffer_type(o.type, o.n_in, o.n_out, o.n_experts, o.n_used);
    const Matrices matrices(o, plain, random);
    const Matrices of_ggml(o, repacked == nullptr ? plain : repacked, random);
    const std::vector<float> rows = normal_floats(static_cast<size_t>(o.n_in) * static_cast<size_t>(o.n_rows), random);
    const Choices choices(o, random);
    Products own(o, backend, matrices, rows, choices, true);
    Products ggml(o, backend, of_ggml, rows, choices, false);
    bool ok = own.run(1) && ggml.run(1);
    const double difference = largest_difference(own.out(), ggml.out());
    const double once_s = seconds([&] { ok = ggml.run(1) && ok; });
    const int n_times = 1 + static_cast<int>(kLeastTime_s / std::max(once_s, 1e-6));
    std::vector<double> own_s;
    std::vector<double> ggml_s;
    std::vector<double> ratios;
    for (int i = 0; i < o.repeats; ++i) {
        own_s.push_back(seconds([&] { ok = own.run(n_times) && ok; }) / n_times);
        ggml_s.push_back(seconds([&] { ok = ggml.run(n_times) && ok; }) / n_times);
        ratios.push_back(ggml_s.back() / own_s.back());
    }
    std::printf("%5d -> %5d, ", o.n_in, o.n_out);
    if (o.n_used > 0) { std::printf("%d of %d experts, ", o.n_used, o.n_experts); }
    std::printf("%3d rows | ", o.n_rows);
    const double own_rate = 1e-9 * o.n_flops() / median(own_s);
    const double ggml_rate = 1e-9 * o.n_flops() / median(ggml_s);
    if (o.type == GGML_TYPE_F32) {
        std::printf("pith %7.1f GFLOP/s  ggml %7.1f  ratio %5.2f | share %3.0f %% | %.1e\n", own_rate, ggml_rate,
                    median(ratios), 100 * own_rate / limit, difference);
    } else {
        const double bytes = static_cast<double>(o.matrix_bytes() * choices.n_read());
        std::printf("%s: pith %7.1f GMAC/s  ggml%s %7.1f  ratio %5.2f | %3.0f %% of %.0f | %5.1f GB/s of weights | %.1e\n",
                    ggml_type_name(o.type), own_rate / 2, repacked == nullptr ? "" : ", repacked", ggml_rate / 2,
                    median(ratios), 100 * own_rate / limit, limit / 2, 1e-9 * bytes / median(own_s), difference);
    }
    std::fflush(stdout);
    // Both round rows to 8 bits, ggml by its layout in blocks of its own.
    if (ok && difference <= (o.type == GGML_TYPE_F32 ? 1e-4 : 0.03)) { return true; }
    std::fprintf(stderr, "product_bench: the products differ by %.2g of the largest output\n", difference);
    return false;
}

// GFLOP/s of multiply-adds in registers: of f32, or of bytes.
double multiply_limit(GraphRunner & runner, const ProductOptions & o) {
    LimitJob job;
    job.numbers = o.type == GGML_TYPE_F32 ? LimitNumbers::kFloats : LimitNumbers::kBytes;
    job.n_rounds = kMultiplyRounds;
    GraphBuild * build = *runner.begin(8);
    ggml_tensor * nothing = nullptr;
    build->keep(ggml_custom_4d(build->ctx(), GGML_TYPE_F32, 1, 1, 1, 1, &nothing, 0, multiply_part, GGML_N_TASKS_MAX, &job));
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
        times.push_back(seconds([&] { (void)runner.run(); }));
    }
    return 1e-9 * job.n_flops(o.n_threads) / median(times);
}

std::vector<ProductOptions> shapes_of(const ProductOptions & o) {
    if (!o.table && !o.experts) { return {o}; }
    std::vector<ProductOptions> all;
    const auto add = [&](int n_in, int n_out, int footprint_mb, int n_experts = 1, int n_used = 0) {
        for (const int n_rows : {1, 2, 4, 8, 16, 32, 64, 512}) {
            ProductOptions one = o;
            one.n_in = n_in;
            one.n_out = n_out;
            one.n_rows = n_rows;
            one.footprint_mb = footprint_mb;
            one.n_experts = n_experts;
            one.n_used = n_used;
            all.push_back(one);
        }
    };
    if (o.experts) {
        add(2880, 2880, 600, 32, 4);
        add(2048, 768, 600, 128, 8);
        return all;
    }
    if (o.type != GGML_TYPE_F32) {
        add(1536, 1536, 256);
        add(1536, 8960, 256);
        add(8960, 1536, 256);
        return all;
    }
    add(128, 128, 6);
    add(128, 256, 6);
    add(256, 128, 6);
    add(128, 2031, 6);
    add(2048, 2048, 256);
    add(2048, 5632, 256);
    return all;
}

int run(const ProductOptions & o) {
    if (!load_backends().ok()) { return 1; }
    auto made = make_cpu_backend(o.n_threads);
    if (!made.ok()) {
        std::fprintf(stderr, "product_bench: %s\n", made.status().message().c_str());
        return 1;
    }
    const OwnedBackend backend(*made);
    GraphRunner runner(backend.get());
    const double limit = multiply_limit(runner, o);
    bool ok = true;
    for (const ProductOptions & shape : shapes_of(o)) { ok = measure(shape, backend.get(), limit) && ok; }
    return ok ? 0 : 1;
}

int usage(const std::string & what) {
    std::fprintf(stderr, "product_bench: %s; its arguments are in the first lines of bench/product_bench.cpp\n", what.c_str());
    return 2;
}

int * number_of(ProductOptions & o, const std::string & name) {
    return name == "--in"          ? &o.n_in
           : name == "--out"       ? &o.n_out
           : name == "--rows"      ? &o.n_rows
           : name == "--threads"   ? &o.n_threads
           : name == "--repeats"   ? &o.repeats
           : name == "--footprint" ? &o.footprint_mb
           : name == "--experts"   ? &o.n_experts
           : name == "--used"      ? &o.n_used
                                   : nullptr;
}

bool set_type(ProductOptions & o, const std::string & name) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                                 GGML_TYPE_Q4_1, GGML_TYPE_IQ4_XS, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4}) {
        if (name != ggml_type_name(type)) { continue; }
        o.type = type;
        return true;
    }
    return false;
}

}  // namespace
}  // namespace pith

int main(int argc, char ** argv) {
    pith::ProductOptions o;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (name == "table" || name == "experts") {
            (name == "table" ? o.table : o.experts) = true;
            continue;
        }
        if (++i == argc) { return pith::usage("'" + name + "' wants a value, or is unknown"); }
        const std::string value = argv[i];
        if (name == "--type") {
            if (!pith::set_type(o, value)) { return pith::usage("no product with weights of type '" + value + "'"); }
        } else if (name == "--target") {
            if (!pith::use_cpu_attention_target(value.c_str())) { return pith::usage("no target '" + value + "' here"); }
        } else if (int * number = pith::number_of(o, name); number != nullptr && std::atoi(value.c_str()) > 0) {
            *number = std::atoi(value.c_str());
        } else {
            return pith::usage("unknown, or out of range: " + name + " " + value);
        }
    }
    if (o.n_used > o.n_experts) { return pith::usage("--used is more than --experts"); }
    return pith::run(o);
}
