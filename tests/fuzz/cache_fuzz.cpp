// cache_fuzz.cpp - libFuzzer's entry: any bytes as what the sections of a cache file hold (scripts/fuzz cache).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/rest/read_cache.h"

// Where the environment names a folder, the seeds go there.
extern "C" int LLVMFuzzerInitialize(int * /*argc*/, char *** /*argv*/) {
    const char * folder = std::getenv("PITH_FUZZ_SEEDS");
    if (folder == nullptr) { return 0; }
    int n = 0;
    for (const auto & seed : pith::testing::cache_seeds()) {
        std::ofstream file(std::string(folder) + "/seed-" + std::to_string(n++), std::ios::binary);
        file.write(reinterpret_cast<const char *>(seed.data()), static_cast<std::streamsize>(seed.size()));
    }
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    const std::string fault = pith::testing::read_cache({data, size});
    if (!fault.empty()) {
        std::fprintf(stderr, "%s\n", fault.c_str());
        std::abort();
    }
    return 0;
}
