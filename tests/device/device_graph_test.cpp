// device_graph_test.cpp - a graph of one device: what comes out is what the CPU computes, whatever was run before it, and it is
// asked for once each way, however much goes in and out.
#include "device/device_graph.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "device/device_rows.h"
#include "device/ggml_calls.h"
#include "device/graph_runner.h"
#include "device/one_server.h"
#include "device/sent_graphs.h"

namespace pith::device_graph_test {
namespace {

using testing::ggml_calls;
using testing::GgmlCalls;

constexpr int64_t kWidth = 20;

// A matrix here or on a device.
class Matrix {
public:
    explicit Matrix(ggml_backend_dev_t device) : ctx_(ggml_init({ggml_tensor_overhead(), nullptr, true})) {
        tensor = ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, kWidth, kWidth);
        std::mt19937 random(3);
        std::normal_distribution<float> draw;
        std::vector<float> values(kWidth * kWidth);
        for (float & value : values) { value = draw(random); }
        EXPECT_TRUE(on_devices([&]() -> Status {
                        buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(ctx_, ggml_backend_dev_buffer_type(device));
                        ggml_backend_buffer_set_usage(buffer_, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
                        ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
                        return {};
                    }).ok());
    }
    ~Matrix() {
        give_back([&] { ggml_backend_buffer_free(buffer_); });
        ggml_free(ctx_);
    }
    Matrix(const Matrix &) = delete;
    Matrix & operator=(const Matrix &) = delete;

    ggml_tensor * tensor = nullptr;

private:
    ggml_context * ctx_;
    ggml_backend_buffer_t buffer_ = nullptr;
};

// Two inputs and one that nobody reads; outputs: a product, a view of rows of it from the second on, an input itself, and rows
// that go to places of their own.
struct Ends {
    explicit Ends(int64_t n_columns) : n(n_columns), x(static_cast<size_t>(n * kWidth)), y(x.size()) {
        for (std::vector<float> & rows : made) { rows.resize(x.size()); }
        made[1].resize(x.size() - kWidth);
    }
    void fill(float from) {
        for (size_t i = 0; i < x.size(); ++i) { x[i] = from + static_cast<float>(i % 7); }
        for (size_t i = 0; i < y.size(); ++i) { y[i] = from - static_cast<float>(i % 5); }
    }
    Status build(GraphRunner & runner, const Matrix & matrix, const GraphGrowth & growth = {}) {
        PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64));
        build->expect_growth(growth.n_between, growth.n_inputs);
        ggml_context * ctx = build->ctx();
        build->input<float>(GGML_TYPE_F32, kWidth, 1, [](std::span<float>) { FAIL() << "nobody reads it"; });
        ggml_tensor * a = build->input(GGML_TYPE_F32, kWidth, n, static_cast<const float *>(x.data()));
        ggml_tensor * b = build->input<float>(GGML_TYPE_F32, kWidth, n, [this](auto to) { std::ranges::copy(y, to.begin()); });
        build->before_run([this] { ++n_runs; });
        ggml_tensor * product = ggml_mul_mat(ctx, matrix.tensor, ggml_add(ctx, a, b));
        build->output(product, made[0].data());
        build->output(ggml_view_2d(ctx, product, kWidth, n - 1, product->nb[1], product->nb[1]), made[1].data());
        build->output(a, made[2].data());
        // Far behind what was read: its memory must not have gone to others.
        ggml_tensor * further = ggml_silu(ctx, ggml_mul_mat(ctx, matrix.tensor, ggml_scale(ctx, product, 0.5F)));
        build->output_rows(further, kWidth,
                           [this](size_t row) { return made[3].data() + (n - 1 - static_cast<int64_t>(row)) * kWidth; });
        return {};
    }

    int64_t n;
    int n_runs = 0;
    std::vector<float> x, y;
    std::vector<float> made[4];
};

void expect_alike(const Ends & got, const Ends & expected) {
    for (size_t i = 0; i < std::size(got.made); ++i) {
        for (size_t j = 0; j < got.made[i].size(); ++j) {
            ASSERT_NEAR(got.made[i][j], expected.made[i][j], 1e-4 * (1 + std::abs(expected.made[i][j]))) << i << ": " << j;
        }
    }
}

class WholeGraph : public testing::OneServer {
protected:
    void set_up() override {
        here_.emplace(cpu_device());
        there_.emplace(devices_.front().handle);
        on_cpu_.emplace(cpu_.get());
        on_device_.emplace(cpu_.get(), backends_);
    }

    // Of n columns, in a graph of their own.
    void expect_as_on_cpu(int64_t n, float from) {
        Ends got(n), expected(n);
        ASSERT_TRUE(got.build(*on_device_, *there_).ok() && expected.build(*on_cpu_, *here_).ok());
        got.fill(from);
        expected.fill(from);
        const Status ran = on_device_->run();
        ASSERT_TRUE(ran.ok()) << ran.message();
        ASSERT_TRUE(on_cpu_->run().ok());
        expect_alike(got, expected);
    }

    std::optional<Matrix> here_, there_;
    std::optional<GraphRunner> on_cpu_, on_device_;
};

TEST_F(WholeGraph, GoesThereOnceAndComesBackOnce) {
    for (const int64_t n : {3, 40, 2, 40}) {
        Ends got(n), expected(n);
        ASSERT_TRUE(got.build(*on_device_, *there_).ok() && expected.build(*on_cpu_, *here_).ok());
        for (int run = 0; run < 3; ++run) {
            got.fill(static_cast<float>(run));
            expected.fill(static_cast<float>(run));
            const GgmlCalls before = ggml_calls();
            const Status ran = on_device_->run();
            ASSERT_TRUE(ran.ok()) << ran.message();
            const GgmlCalls calls = ggml_calls() - before;
            EXPECT_EQ(calls.uploads, 1);
            EXPECT_EQ(calls.downloads, 2) << "what is computed, and an input";
            EXPECT_EQ(calls.copies, 0);
            EXPECT_EQ(calls.splits, 1);
            if (run > 0 || n != 40) { EXPECT_EQ(calls.allocations, run == 0 && n == 3 ? 2 : 0); }
            ASSERT_TRUE(on_cpu_->run().ok());
            expect_alike(got, expected);
        }
        EXPECT_EQ(got.n_runs, 3);
        EXPECT_TRUE(on_device_->may_run_again());
        EXPECT_EQ(on_device_->n_pieces(), 1);
    }
}

// ggml's allocator frees a buffer before it asks for a larger one: where the device fails in between, nobody may use it again.
TEST_F(WholeGraph, IsRunAgainAfterTheDeviceFailedToGrow) {
    int64_t n = 2;
    Ends before(n);
    ASSERT_TRUE(before.build(*on_device_, *there_).ok() && on_device_->run().ok());
    for (const int n_before : {0, 1}) {  // what goes in and comes out, and the rest
        n *= 50;
        Ends lost(n);
        ASSERT_TRUE(lost.build(*on_device_, *there_).ok());
        testing::fail_allocation(n_before);
        const Status failed = on_device_->run();
        testing::fail_allocation(-1);
        EXPECT_EQ(failed.code(), ErrorCode::kIo) << failed.message();
        EXPECT_NE(failed.message().find("asked for memory"), std::string::npos) << failed.message();
        for (const int64_t columns : {n, n / 50, 2 * n}) { ASSERT_NO_FATAL_FAILURE(expect_as_on_cpu(columns, 1)); }
    }
}

TEST_F(WholeGraph, MemoryThatIsNotNeededGoesBack) {
    const auto run = [&](int64_t n) { ASSERT_NO_FATAL_FAILURE(expect_as_on_cpu(n, 2)); };
    constexpr int64_t kMany = 100000;
    run(kMany);
    const size_t large = on_device_->device_bytes(0);
    EXPECT_GE(large, kMany * kWidth * sizeof(float) * 5) << "two inputs, two outputs, and what is in between";
    for (int i = 0; i < 10; ++i) { run(3); }
    EXPECT_EQ(on_device_->device_bytes(0), large) << "a short graph among long ones moves nothing";
    for (int i = 0; i < 64; ++i) { run(3); }
    EXPECT_GT(on_device_->device_bytes(0), 0U);
    EXPECT_LT(on_device_->device_bytes(0), large / 100);

    on_device_->release_devices();
    EXPECT_EQ(on_device_->device_bytes(0), 0U);
    EXPECT_FALSE(on_device_->may_run_again());
    run(3);
}

// The first of a row of graphs that grow takes memory for the last.
TEST_F(WholeGraph, TakesMemoryForThoseThatFollow) {
    constexpr int64_t kFirst = 8;
    constexpr int64_t kLast = 4000;
    const auto bytes = [](int64_t n) { return static_cast<size_t>(n * kWidth) * sizeof(float); };
    for (const int64_t n : {kFirst, int64_t{500}, int64_t{2000}, kLast}) {
        Ends got(n), expected(n);
        const GraphGrowth growth{4 * bytes(kLast - n), 5 * bytes(kLast - n)};  // two inputs, three of its outputs
        ASSERT_TRUE(got.build(*on_device_, *there_, growth).ok() && expected.build(*on_cpu_, *here_).ok());
        got.fill(3);
        expected.fill(3);
        const GgmlCalls before = ggml_calls();
        const Status ran = on_device_->run();
        ASSERT_TRUE(ran.ok()) << ran.message();
        EXPECT_EQ((ggml_calls() - before).allocations, n == kFirst ? 2 : 0) << n;
        ASSERT_TRUE(on_cpu_->run().ok());
        expect_alike(got, expected);
    }
}

TEST_F(WholeGraph, LeavesRowsThereForTheNext) {
    constexpr int64_t kRows = 5;
    auto rows = DeviceRows::make(device_.get(), kWidth, kRows);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    EXPECT_EQ((*rows)->size_bytes(), kRows * kWidth * sizeof(float));
    std::vector<float> x(2 * kWidth), made(x.size()), read(x.size());
    for (size_t i = 0; i < x.size(); ++i) { x[i] = static_cast<float>(i % 7) - 3; }
    for (const bool stays : {false, true}) {
        GraphBuild * build = *on_device_->begin(16);
        ggml_context * ctx = build->ctx();
        ggml_tensor * y = ggml_mul_mat(ctx, there_->tensor, build->input(GGML_TYPE_F32, kWidth, 2, std::as_const(x).data()));
        if (stays) {
            ggml_build_forward_expand(build->graph(), ggml_cpy(ctx, y, (*rows)->view(ctx, kRows - 2, 2)));
        } else {
            build->output(y, made.data());
        }
        const GgmlCalls before = ggml_calls();
        ASSERT_TRUE(on_device_->run().ok());
        EXPECT_EQ((ggml_calls() - before).downloads, stays ? 0 : 1);
    }
    GraphBuild * build = *on_device_->begin(16);
    build->output(ggml_scale(build->ctx(), (*rows)->view(build->ctx(), kRows - 2, 2), 2.0F), read.data());
    ASSERT_TRUE(on_device_->run().ok());
    for (size_t i = 0; i < read.size(); ++i) { EXPECT_EQ(read[i], 2 * made[i]); }

    testing::fail_allocation(0);
    const auto lost = DeviceRows::make(device_.get(), kWidth, kRows);
    testing::fail_allocation(-1);
    EXPECT_EQ(lost.status().code(), ErrorCode::kIo) << lost.status().message();
}

// Graphs that servers have stay good as long as no memory moves.
TEST_F(WholeGraph, ForgetsNoSentGraphsWhereNoMemoryMoves) {
    Ends first(8);
    ASSERT_TRUE(first.build(*on_device_, *there_).ok());
    uint64_t epoch = sent_graphs_epoch();
    ASSERT_TRUE(on_device_->run().ok());
    EXPECT_NE(sent_graphs_epoch(), epoch) << "memory was taken";
    epoch = sent_graphs_epoch();
    for (const int64_t n : {8, 3, 8}) {
        Ends again(n);
        ASSERT_TRUE(again.build(*on_device_, *there_).ok() && on_device_->run().ok() && on_device_->run().ok());
    }
    EXPECT_EQ(sent_graphs_epoch(), epoch);
    Ends more(100);
    ASSERT_TRUE(more.build(*on_device_, *there_).ok() && on_device_->run().ok());
    EXPECT_NE(sent_graphs_epoch(), epoch) << "more was taken";
}

// Where one operation is this program's own, no device has it all: then it is cut, and computes the same.
TEST_F(WholeGraph, IsCutWhereSomethingIsHere) {
    std::vector<float> x(kWidth, 2.0F);
    std::vector<std::vector<float>> made;
    for (const bool own : {false, true}) {
        auto begun = on_device_->begin(16);
        ASSERT_TRUE(begun.ok());
        ggml_context * ctx = (*begun)->ctx();
        ggml_tensor * y = ggml_mul_mat(ctx, there_->tensor, (*begun)->input(GGML_TYPE_F32, kWidth, 1, x.data()));
        const auto copy = [](ggml_tensor * out, const ggml_tensor * in, int ith, int, void *) {
            if (ith == 0) { std::memcpy(out->data, in->data, ggml_nbytes(in)); }
        };
        if (own) { y = ggml_map_custom1(ctx, y, copy, 1, nullptr); }
        made.emplace_back(static_cast<size_t>(kWidth));
        (*begun)->output(ggml_mul_mat(ctx, there_->tensor, y), made.back().data());
        const Status ran = on_device_->run();
        ASSERT_TRUE(ran.ok()) << ran.message();
        EXPECT_EQ(on_device_->n_pieces() > 1, own);
    }
    EXPECT_EQ(made[0], made[1]);
}

}  // namespace
}  // namespace pith::device_graph_test
