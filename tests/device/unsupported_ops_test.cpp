// unsupported_ops_test.cpp - a device that refuses an operation: another place computes it, the answer is the same, and the log
// says which operation it was. This program's ggml_backend_supports_op() stands in front of ggml's, which its scheduler asks.
#include "device/unsupported_ops.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "device/on_devices.h"
#include "engine/tiny_model.h"
#include "engine/tiny_session.h"
#include "pith/log.h"

namespace pith::unsupported_ops_test {
namespace {

using testing::load;
using testing::nothing_to_test;
using testing::random_tokens;
using testing::scratch_file;
using testing::tiny_spec;
using testing::Where;

std::atomic<ggml_op> refused{GGML_OP_NONE};  // by every device that is none of the CPU's
std::atomic<int> n_refused{0};

// Warnings, as long as it lives.
class Warnings {
public:
    Warnings() {
        set_log_sink([this](LogLevel level, std::string_view line) {
            if (level != LogLevel::kWarning) { return; }
            const std::lock_guard lock(mutex_);
            lines_.emplace_back(line);
        });
    }
    ~Warnings() { set_log_sink({}); }
    Warnings(const Warnings &) = delete;
    Warnings & operator=(const Warnings &) = delete;

    int n_of(const std::string & what) const {
        return static_cast<int>(std::ranges::count_if(lines_, [&](const auto & l) { return l.find(what) != l.npos; }));
    }
    std::string all() const {
        std::string text;
        for (const std::string & line : lines_) { text += line + "\n"; }
        return text;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> lines_;
};

std::vector<int32_t> answer_of(const Model & model) {
    SessionOptions options;
    options.policy = "snapkv:window=8";
    options.budget = 40;
    options.type_k = options.type_v = KvType::kF32;
    options.n_threads = 1;
    options.chunk = 24;
    options.evict_every = 4;
    std::vector<int32_t> answer;
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    const Status read = session->prefill(random_tokens(64, model.info().n_vocab));
    EXPECT_TRUE(read.ok()) << read.message();
    for (int i = 0; read.ok() && i < 8; ++i) { answer.push_back(session->decode().value()); }
    return answer;
}

TEST(UnsupportedOps, WhatADeviceRefusesIsComputedElsewhereAndToldOnceByName) {
    if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
    const std::string path = scratch_file("unsupported_ops.gguf");
    ASSERT_TRUE(write_random_model(tiny_spec(), path).ok());
    const auto cpu = Model::load(path);
    ASSERT_TRUE(cpu.ok()) << cpu.status().message();
    const std::vector<int32_t> expected = answer_of(*cpu);
    struct Case {
        ggml_op op;
        const char * name;
        bool kv_offload;
    };
    for (const Case & c : {Case{GGML_OP_NONE, "", false}, Case{GGML_OP_NONE, "", true}, Case{GGML_OP_ROPE, "ROPE", false},
                           Case{GGML_OP_MUL_MAT, "MUL_MAT", false}, Case{GGML_OP_FLASH_ATTN_EXT, "FLASH_ATTN_EXT", true}}) {
        SCOPED_TRACE(c.name);
        const auto devices = load(path, Where{"all", 1, -1, {}, c.kv_offload});
        ASSERT_TRUE(devices.ok()) << devices.status().message();
        const Warnings warnings;
        n_refused = 0;
        refused = c.op;
        const std::vector<int32_t> got = answer_of(*devices);
        refused = GGML_OP_NONE;
        EXPECT_EQ(got, expected);
        if (c.op == GGML_OP_NONE) {
            EXPECT_EQ(warnings.n_of("does not run"), 0) << warnings.all();
            continue;
        }
        if (n_refused == 0) { GTEST_SKIP() << "this ggml asks itself, and nobody comes in between"; }
        EXPECT_EQ(warnings.n_of("does not run"), 1) << warnings.all();
        EXPECT_EQ(warnings.n_of(std::string("does not run ") + c.name + " "), 1) << warnings.all();
        EXPECT_GE(warnings.n_of("RPC"), 1) << "it names the device: " << warnings.all();
    }
}

// Layers of a prompt are scored beside graphs, and observed beside scores: where a device refuses a part of these, this
// machine's threads compute it once they have scored, and what is kept is the same.
TEST(UnsupportedOps, WhatIsDoneBesideScoresWaitsForThemWhereADeviceRefusesAPart) {
    if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
    const std::string path = scratch_file("unsupported_ops_beside.gguf");
    RandomModelSpec spec = tiny_spec();
    spec.n_layers = 4;
    ASSERT_TRUE(write_random_model(spec, path).ok());
    const auto cpu = Model::load(path);
    const auto devices = load(path, Where{"all", 1, -1, {}, true});
    ASSERT_TRUE(cpu.ok() && devices.ok());
    const auto kept = [](const Model & model, const std::string & policy) {
        SessionOptions options;
        options.policy = policy;
        options.budget = 40;
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 2;
        options.chunk = 64;
        options.evict_every = 4;
        options.prefill = PrefillSchedule::kOneShot;
        auto session = model.session(options);
        EXPECT_TRUE(session.ok() && session->prefill(random_tokens(150, model.info().n_vocab)).ok());
        for (int i = 0; i < 9; ++i) { EXPECT_TRUE(session->decode().ok()); }
        EXPECT_GE(session->ledger().n_evictions, 3);
        return testing::lanes_of(*session);
    };
    for (const char * policy : {"snapkv:window=8+ada", "h2o"}) {
        SCOPED_TRACE(policy);
        const auto expected = kept(*cpu, policy);
        for (const ggml_op op : {GGML_OP_NONE, GGML_OP_SOFT_MAX, GGML_OP_FLASH_ATTN_EXT, GGML_OP_MUL_MAT}) {
            SCOPED_TRACE(ggml_op_name(op));
            n_refused = 0;
            refused = op;
            const auto got = kept(*devices, policy);
            refused = GGML_OP_NONE;
            EXPECT_EQ(got, expected);
            if (op != GGML_OP_NONE) { EXPECT_GT(n_refused, 0); }
        }
    }
}

}  // namespace
}  // namespace pith::unsupported_ops_test

extern "C" bool ggml_backend_supports_op(ggml_backend_t backend, const ggml_tensor * op) {
    const bool is_cpu = ggml_backend_dev_type(ggml_backend_get_device(backend)) == GGML_BACKEND_DEVICE_TYPE_CPU;
    if (!is_cpu && op->op != GGML_OP_NONE && op->op == pith::unsupported_ops_test::refused) {
        ++pith::unsupported_ops_test::n_refused;
        return false;
    }
    static auto * const next =
        reinterpret_cast<bool (*)(ggml_backend_t, const ggml_tensor *)>(dlsym(RTLD_NEXT, "ggml_backend_supports_op"));
    return next(backend, op);
}
