// utc_time_test.cpp - dates beside the C library's.
#include "core/utc_time.h"

#include <gtest/gtest.h>

#include <array>
#include <ctime>

namespace pith::testing::utc_time_test {
namespace {

std::string by_the_library(std::time_t time, const char * format) {
    std::tm parts{};
    gmtime_r(&time, &parts);
    std::array<char, 64> text{};
    return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

TEST(UtcTime, IsWrittenAsProtocolsWantIt) {
    EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
    EXPECT_EQ(iso_date(784111777), "1994-11-06T08:49:37Z");
    EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    EXPECT_EQ(iso_date(951782400), "2000-02-29T00:00:00Z");
}

TEST(UtcTime, IsTheLibrarysOfEveryDayAndSecond) {
    constexpr int64_t kDayAndABit = 86400 + 3671;  // another second of the day each time
    for (int64_t time = 0; time < int64_t{130} * 366 * 86400; time += kDayAndABit) {
        ASSERT_EQ(http_date(time), by_the_library(time, "%a, %d %b %Y %H:%M:%S GMT"));
        ASSERT_EQ(iso_date(time), by_the_library(time, "%Y-%m-%dT%H:%M:%SZ"));
    }
}

}  // namespace
}  // namespace pith::testing::utc_time_test
