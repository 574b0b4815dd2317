// gathered_reads_test.cpp - what crosses together comes as it would have come alone, in fewer pieces.
#include "device/gathered_reads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "device/graph_runner.h"
#include "device/one_server.h"
#include "device/sent_graphs.h"

namespace pith::gathered_reads_test {
namespace {

constexpr int64_t kWidth = 24;
constexpr int64_t kHead = 4;

void copy_there(ggml_tensor * out, const ggml_tensor * x, int ith, int, void *) {
    if (ith == 0) { std::memcpy(out->data, x->data, ggml_nbytes(x)); }
}

// A layer's matrices on a device: of its queries, keys and values.
class Projections {
public:
    explicit Projections(ggml_backend_dev_t device) : ctx_(ggml_init({8 * ggml_tensor_overhead(), nullptr, true})) {
        for (const int64_t heads : {4, 2, 2}) { all.push_back(ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, kWidth, heads * kHead)); }
        std::mt19937 random(3);
        std::normal_distribution<float> draw;
        EXPECT_TRUE(on_devices([&]() -> Status {
                        buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(ctx_, ggml_backend_dev_buffer_type(device));
                        ggml_backend_buffer_set_usage(buffer_, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
                        for (ggml_tensor * one : all) {
                            std::vector<float> values(static_cast<size_t>(ggml_nelements(one)));
                            for (float & value : values) { value = draw(random); }
                            ggml_backend_tensor_set(one, values.data(), 0, values.size() * sizeof(float));
                        }
                        return {};
                    }).ok());
    }
    ~Projections() {
        static_cast<void>(on_devices([&]() -> Status {
            forget_sent_graphs();
            ggml_backend_buffer_free(buffer_);
            return {};
        }));
        ggml_free(ctx_);
    }
    Projections(const Projections &) = delete;
    Projections & operator=(const Projections &) = delete;

    std::vector<ggml_tensor *> all;

private:
    ggml_context * ctx_;
    ggml_backend_buffer_t buffer_ = nullptr;
};

struct Crossed {
    std::vector<std::vector<float>> values;
    int n_pieces = 0;
};

// Products of x with all three, each read by an operation of the CPU.
Crossed cross(GraphRunner & runner, const Projections & weights, const std::vector<float> & x, bool together) {
    const auto n = static_cast<int64_t>(x.size()) / kWidth;
    Crossed out;
    auto begun = runner.begin(64);
    EXPECT_TRUE(begun.ok());
    GraphBuild & build = **begun;
    ggml_tensor * in = build.input(GGML_TYPE_F32, kWidth, n, x.data());
    std::vector<ggml_tensor *> made;
    for (ggml_tensor * weight : weights.all) {
        made.push_back(ggml_reshape_3d(build.ctx(), ggml_mul_mat(build.ctx(), weight, in), kHead, weight->ne[1] / kHead, n));
    }
    ggml_tensor * none = nullptr;
    if (together) {
        read_together(build, {&made[0], &none, &made[1], &made[2]});
        EXPECT_EQ(made[0]->view_src == made[1]->view_src, n <= 32);
    }
    EXPECT_EQ(none, nullptr);
    out.values.resize(made.size());
    for (size_t i = 0; i < made.size(); ++i) {
        out.values[i].resize(static_cast<size_t>(ggml_nelements(made[i])));
        build.output(ggml_map_custom1(build.ctx(), made[i], copy_there, 1, nullptr), out.values[i].data());
    }
    const Status ran = runner.run();
    EXPECT_TRUE(ran.ok()) << ran.message();
    out.n_pieces = runner.n_pieces();
    return out;
}

class Crossing : public testing::OneServer {
protected:
    void set_up() override {
        weights_.emplace(devices_.front().handle);
        runner_.emplace(cpu_.get(), backends_);
    }
    std::vector<float> drawn(int64_t n) {
        std::normal_distribution<float> draw;
        std::vector<float> values(static_cast<size_t>(n));
        for (float & value : values) { value = draw(random_); }
        return values;
    }

    std::mt19937 random_{5};
    std::optional<Projections> weights_;
    std::optional<GraphRunner> runner_;
};

TEST_F(Crossing, TogetherIsTheSameInFewerPieces) {
    for (const int n : {1, 3, 40}) {
        const std::vector<float> x = drawn(n * kWidth);
        const Crossed alone = cross(*runner_, *weights_, x, false);
        const Crossed together = cross(*runner_, *weights_, x, true);
        EXPECT_EQ(together.values, alone.values);
        EXPECT_LE(together.n_pieces, 3);
        EXPECT_GE(alone.n_pieces, 6);
    }
}

}  // namespace
}  // namespace pith::gathered_reads_test
