// utc_time.h - dates of UTC as protocols write them.
//
// Without gmtime and strftime: the C library's hold one lock of the whole process, and a process that is forked while another
// thread has it waits for ever when it asks for the time itself (text/contained_work.h forks while others serve).
#pragma once

#include <cstdint>
#include <string>

namespace pith {

// "Sun, 06 Nov 1994 08:49:37 GMT": RFC 9110, 5.6.7. unix_seconds: since 1970.
std::string http_date(int64_t unix_seconds);
// "1994-11-06T08:49:37Z": RFC 3339.
std::string iso_date(int64_t unix_seconds);

}  // namespace pith
