// gguf_fuzz.cpp - libFuzzer's entry: any bytes as a GGUF file (scripts/fuzz).
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fuzz/read_gguf_headers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) { std::abort(); }
    const std::string fault = pith::testing::read_gguf_headers("/proc/self/fd/" + std::to_string(fd));
    close(fd);
    if (!fault.empty()) {
        std::fprintf(stderr, "%s\n", fault.c_str());
        std::abort();
    }
    return 0;
}
