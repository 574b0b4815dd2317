// body_fuzz.cpp - libFuzzer's entry: any bytes as a request's body, a schema, a grammar, a model's answer (scripts/fuzz body).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "serve/read_body.h"

// Where the environment names a folder, the seeds go there.
extern "C" int LLVMFuzzerInitialize(int * /*argc*/, char *** /*argv*/) {
    const char * folder = std::getenv("PITH_FUZZ_SEEDS");
    if (folder == nullptr) { return 0; }
    int n = 0;
    for (const std::string & seed : pith::testing::body_examples()) {
        std::ofstream(std::string(folder) + "/seed-" + std::to_string(n++), std::ios::binary) << seed;
    }
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static const auto tokenizer = pith::Tokenizer::load(PITH_SOURCE_DIR "/models/pith-reference.gguf");
    if (!tokenizer.ok()) {
        std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
        std::exit(1);
    }
    const std::string fault = pith::testing::read_body_fault(*tokenizer, {reinterpret_cast<const char *>(data), size});
    if (!fault.empty()) {
        std::fprintf(stderr, "%s\n", fault.c_str());
        std::abort();
    }
    return 0;
}
