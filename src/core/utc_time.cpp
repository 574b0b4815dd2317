// utc_time.cpp - a day of the calendar and a second of the day.
#include "core/utc_time.h"

#include <array>
#include <chrono>
#include <cstdio>

namespace pith {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;

struct UtcTime {
    std::chrono::year_month_day date;
    unsigned weekday = 0;  // 0: Sunday
    int hour = 0;
    int minute = 0;
    int second = 0;
};

UtcTime utc_time(int64_t unix_seconds) {
    const sys_seconds time{seconds(unix_seconds)};
    const sys_days day = floor<days>(time);
    const auto of_day = static_cast<int>((time - day).count());
    return {std::chrono::year_month_day(day), std::chrono::weekday(day).c_encoding(), of_day / 3600, of_day / 60 % 60,
            of_day % 60};
}

}  // namespace

std::string http_date(int64_t unix_seconds) {
    static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const UtcTime time = utc_time(unix_seconds);
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%s, %02u %s %04d %02d:%02d:%02d GMT", kDays.at(time.weekday),
                  static_cast<unsigned>(time.date.day()), kMonths.at(static_cast<unsigned>(time.date.month()) - 1),
                  static_cast<int>(time.date.year()), time.hour, time.minute, time.second);
    return text.data();
}

std::string iso_date(int64_t unix_seconds) {
    const UtcTime time = utc_time(unix_seconds);
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(time.date.year()),
                  static_cast<unsigned>(time.date.month()), static_cast<unsigned>(time.date.day()), time.hour, time.minute,
                  time.second);
    return text.data();
}

}  // namespace pith
