// body_fuzz.cpp - libFuzzer's entry: any bytes as a request's body, a schema, a model's answer (scripts/fuzz_bodies).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "serve/read_body.h"

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
