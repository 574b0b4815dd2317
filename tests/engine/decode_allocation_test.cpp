// decode_allocation_test.cpp - decoding allocates nothing from token to token. Counts every operator new of the process: Pith's
// and that of ggml's C++ files, not what ggml's C files take by malloc.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/layer_probe.h"
#include "engine/tiny_model.h"

namespace {

std::atomic<int64_t> n_allocations{0};
std::atomic<size_t> n_bytes{0};

void * count_and_try(size_t size, size_t alignment) noexcept {
    n_allocations.fetch_add(1, std::memory_order_relaxed);
    n_bytes.fetch_add(size, std::memory_order_relaxed);
    const size_t rounded = (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
    return std::aligned_alloc(alignment, rounded);
}
// Not inline: GCC would see free() of what it knows as new's.
[[gnu::noinline]] void release(void * memory) noexcept {
    std::free(memory);
}
void * count_and_allocate(size_t size, size_t alignment) {
    void * memory = count_and_try(size, alignment);
    if (memory == nullptr) { throw std::bad_alloc(); }
    return memory;
}

}  // namespace

void * operator new(size_t size) {
    return count_and_allocate(size, alignof(std::max_align_t));
}
void * operator new(size_t size, std::align_val_t alignment) {
    return count_and_allocate(size, static_cast<size_t>(alignment));
}
void * operator new(size_t size, const std::nothrow_t &) noexcept {
    return count_and_try(size, alignof(std::max_align_t));
}
void operator delete(void * memory) noexcept {
    release(memory);
}
void operator delete(void * memory, size_t) noexcept {
    release(memory);
}
void operator delete(void * memory, std::align_val_t) noexcept {
    release(memory);
}
void operator delete(void * memory, size_t, std::align_val_t) noexcept {
    release(memory);
}

namespace pith::decode_allocation_test {
namespace {

// Between two evictions, once lanes and evidence have had their largest size: a few rounds first.
TEST(DecodeAllocations, ThereAreNoneFromTokenToToken) {
    constexpr int kEvery = 32;
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = testing::random_tokens(1, model->info().n_vocab);
    ASSERT_GT(n_allocations.load(), 0) << "nothing is counted";
    for (const char * policy :
         {"full", "random", "streaming", "knorm", "tova", "snapkv", "adakv", "expected", "score", "laprox", "h2o", "lava"}) {
        SCOPED_TRACE(policy);
        SessionOptions options;
        options.policy = policy;
        if (options.policy != "full") { options.budget = 128; }
        options.n_threads = 2;
        options.evict_every = kEvery;
        auto session = model->session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        ASSERT_TRUE(session->prefill(testing::random_tokens(200, model->info().n_vocab)).ok());
        // A full cache grows: by then its lists of positions have room for 400 tokens, after 256 they would double.
        for (int i = 0; i < 3 * kEvery + 1; ++i) { ASSERT_TRUE(session->append(tokens.front()).ok()); }
        const int64_t before = n_allocations.load();
        for (int i = 0; i < kEvery - 2; ++i) {
            if (!session->append(tokens.front()).ok()) { FAIL() << "a token failed"; }
        }
        EXPECT_EQ(n_allocations.load() - before, 0);
    }
}

// A call of several tokens copies the evidence, to come back to: not the sampled queries, nor what goes with entries.
TEST(DecodeAllocations, ACopyOfTheEvidenceLeavesSamplesAndEntriesRowsWhereTheyAre) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    for (const char * policy : {"snapkv:window=1+novelty", "criticalkv:window=1", "h2o", "knorm"}) {
        SCOPED_TRACE(policy);
        SessionOptions options;
        options.policy = policy;
        options.budget = 1500;
        options.n_threads = 1;
        options.prefill = PrefillSchedule::kChunked;
        auto session = model->session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        ASSERT_TRUE(session->prefill(testing::random_tokens(2100, model->info().n_vocab)).ok());
        const EvidenceState & evidence = LayerProbe(*session).evidence();
        const size_t before = n_bytes.load();
        const EvidenceState copy = evidence;
        EXPECT_LT(n_bytes.load() - before, evidence.size_bytes() / 4);
        EXPECT_TRUE(copy.covers(evidence.needs()));
    }
}

}  // namespace
}  // namespace pith::decode_allocation_test
