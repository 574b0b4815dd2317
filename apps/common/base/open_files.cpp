// open_files.cpp - the soft limit becomes the hard one.
#include "common/base/open_files.h"

#include <sys/resource.h>

namespace pith::app {

void allow_more_open_files() {
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) { return; }
    files.rlim_cur = files.rlim_max;
    static_cast<void>(setrlimit(RLIMIT_NOFILE, &files));
}

}  // namespace pith::app
