// evidence_dump_test.cpp - the arrays of a dump are what the layers computed with: from them their attention comes out again.
#include "inspect/evidence_dump.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/gated_model.h"
#include "engine/layer_probe.h"
#include "pith/session.h"

namespace pith::evidence_dump_test {
namespace {

using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

struct Array {
    std::vector<int64_t> shape;
    std::vector<float> values;
    const float * at(int64_t i, int64_t j) const { return values.data() + (i * shape[1] + j) * shape[2]; }
};

// As the format's page says: a length, a header, the data.
class Dump {
public:
    explicit Dump(const std::string & path) {
        std::ifstream in(path, std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
        uint64_t length = 0;
        std::memcpy(&length, bytes.data(), sizeof length);
        header = nlohmann::json::parse(bytes.substr(sizeof length, length));
        data_ = bytes.substr(sizeof length + length);
    }
    Array array(const std::string & name) const {
        Array out;
        out.shape = header.at(name).at("shape").get<std::vector<int64_t>>();
        const auto offsets = header.at(name).at("data_offsets").get<std::vector<size_t>>();
        out.values.resize((offsets[1] - offsets[0]) / sizeof(float));
        std::memcpy(out.values.data(), data_.data() + offsets[0], offsets[1] - offsets[0]);
        return out;
    }
    size_t size() const { return data_.size(); }
    nlohmann::json header;

private:
    std::string data_;
};

class EvidenceDumps : public ::testing::Test {
protected:
    std::string path_ = ::testing::TempDir() + "/pith-dump-" + std::to_string(getpid());
    ~EvidenceDumps() override { static_cast<void>(std::remove(path_.c_str())); }
};

TEST_F(EvidenceDumps, HoldWhatAttentionComesOutOf) {
    const auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    constexpr int kTokens = 75;
    constexpr int kQueries = 5;
    const auto tokens = random_tokens(kTokens, model->info().n_vocab, 3);
    EvidenceDumpOptions options;
    options.n_queries = kQueries;
    options.n_threads = 1;
    options.chunk = 16;  // the last queries lie in two runs
    const auto written = dump_evidence(*model, tokens, path_, options);
    ASSERT_TRUE(written.ok()) << written.status().message();
    EXPECT_EQ(written->n_layers, model->info().n_layers);
    const Dump dump(path_);
    EXPECT_EQ(static_cast<int64_t>(dump.size()), written->bytes);

    // What the newest token's attention gave, and what it read.
    SessionOptions session_options;
    session_options.type_k = session_options.type_v = KvType::kF32;
    session_options.n_threads = 1;
    auto session = model->session(session_options);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->prefill(std::span(tokens).first(kTokens - 1)).ok());
    LayerProbe probe(*session);
    std::vector<std::vector<float>> outputs;
    std::vector<std::vector<float>> inputs;
    probe.set_tap([&](int, std::span<const float> attention, std::span<const float>) {
        outputs.emplace_back(attention.begin(), attention.end());
    });
    probe.set_input_observer([&](int, std::span<const float> rows, int, int32_t) -> Status {
        inputs.emplace_back(rows.begin(), rows.end());
        return {};
    });
    ASSERT_TRUE(session->append(tokens.back()).ok());

    const double scale = std::stod(dump.header["__metadata__"]["attention_scale"].get<std::string>());
    for (int layer = 0; layer < model->info().n_layers; ++layer) {
        const std::string name = "layers." + std::to_string(layer) + ".";
        const Array keys = dump.array(name + "keys");
        const Array values = dump.array(name + "values");
        const Array queries = dump.array(name + "queries");
        const Array attention = dump.array(name + "attention");
        const Array read = dump.array(name + "inputs");
        ASSERT_EQ(keys.shape[1], kTokens);
        ASSERT_EQ(queries.shape[0], kQueries);
        const int64_t n_heads = queries.shape[1];
        const int64_t n_group = n_heads / keys.shape[0];
        for (int64_t g = 0; g < n_heads; ++g) {
            std::vector<double> mean(kTokens);
            std::vector<double> output(static_cast<size_t>(values.shape[2]));
            for (int i = 0; i < kQueries; ++i) {
                const int n_seen = kTokens - kQueries + i + 1;
                std::vector<double> weight(kTokens);
                double sum = 0;
                for (int j = 0; j < n_seen; ++j) {
                    double product = 0;
                    for (int64_t c = 0; c < keys.shape[2]; ++c) {
                        product += static_cast<double>(queries.at(i, g)[c]) * static_cast<double>(keys.at(g / n_group, j)[c]);
                    }
                    sum += weight[static_cast<size_t>(j)] = std::exp(scale * product);
                }
                for (size_t j = 0; j < kTokens; ++j) {
                    mean[j] += weight[j] / sum / kQueries;
                    if (i + 1 < kQueries) { continue; }
                    for (size_t c = 0; c < output.size(); ++c) {
                        output[c] += weight[j] / sum * static_cast<double>(values.at(g / n_group, static_cast<int64_t>(j))[c]);
                    }
                }
            }
            for (size_t j = 0; j < kTokens; ++j) {
                ASSERT_NEAR(attention.values[static_cast<size_t>(g) * kTokens + j], mean[j], 1e-5)
                    << layer << ":" << g << ", " << j;
            }
            for (size_t c = 0; c < output.size(); ++c) {
                ASSERT_NEAR(outputs[static_cast<size_t>(layer)][static_cast<size_t>(g) * output.size() + c], output[c], 1e-4);
            }
        }
        const auto & last = inputs[static_cast<size_t>(layer)];
        ASSERT_EQ(read.shape[0], kTokens);
        for (size_t c = 0; c < last.size(); ++c) { ASSERT_NEAR(read.values[(kTokens - 1) * last.size() + c], last[c], 1e-4); }
    }
}

TEST_F(EvidenceDumps, AreWholeOrNotThere) {
    const auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok());
    EvidenceDumpOptions options;
    options.n_threads = 1;
    EXPECT_EQ(dump_evidence(*model, {}, path_, options).status().code(), ErrorCode::kInvalidArgument);
    const auto tokens = random_tokens(20, model->info().n_vocab, 3);
    std::atomic<bool> cancel{true};
    options.cancel = &cancel;
    EXPECT_EQ(dump_evidence(*model, tokens, path_, options).status().code(), ErrorCode::kCancelled);
    EXPECT_FALSE(std::ifstream(path_).good());
    options.cancel = nullptr;
    const auto full = dump_evidence(*model, tokens, "/dev/full/dump", options);
    EXPECT_EQ(full.status().code(), ErrorCode::kIo);
    const auto written = dump_evidence(*model, tokens, path_, options);  // fewer tokens than queries
    ASSERT_TRUE(written.ok()) << written.status().message();
    EXPECT_EQ(written->n_queries, 20);
}

}  // namespace
}  // namespace pith::evidence_dump_test
