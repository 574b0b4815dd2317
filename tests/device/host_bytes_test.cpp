// host_bytes_test.cpp - bytes in memory of a back end's kind, and in any other.
#include "device/host_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "device/backend.h"

namespace pith::host_bytes_test {
namespace {

TEST(HostBytes, LieInTheBackEndsMemoryWhereItNamesAny) {
    ASSERT_TRUE(load_backends().ok());
    for (ggml_backend_buffer_type_t type : {ggml_backend_buffer_type_t(nullptr), ggml_backend_dev_buffer_type(cpu_device())}) {
        HostBytes bytes(type);
        EXPECT_TRUE(bytes.empty());
        for (const size_t n : {100U, 5000U, 30U, 5000U, 0U, 70000U}) {
            const size_t before = bytes.capacity();
            bytes.resize(n);
            EXPECT_EQ(bytes.size(), n);
            EXPECT_GE(bytes.capacity(), std::max(n, before)) << "what is there stays";
            std::iota(bytes.data(), bytes.data() + n, uint8_t{7});
            for (size_t i = 0; i < n; ++i) { ASSERT_EQ(bytes.data()[i], static_cast<uint8_t>(i + 7)); }
        }
        int n_more = 0;
        for (size_t n = 70000; n < 140000; n += 100) {
            const size_t before = bytes.capacity();
            bytes.resize(n);
            n_more += bytes.capacity() > before ? 1 : 0;
        }
        EXPECT_LE(n_more, 2) << "what grows little by little is moved seldom";
        bytes.resize(70000);
        std::iota(bytes.data(), bytes.data() + bytes.size(), uint8_t{7});
        HostBytes moved(std::move(bytes));
        EXPECT_EQ(moved.size(), 70000U);
        EXPECT_EQ(moved.data()[69999], static_cast<uint8_t>(69999 + 7));
        moved.release();
        EXPECT_TRUE(moved.empty());
        EXPECT_EQ(moved.capacity(), 0U);
        moved.resize(3);
        EXPECT_EQ(moved.size(), 3U);
    }
}

}  // namespace
}  // namespace pith::host_bytes_test
