// make_tiny_model.cpp - writes a random model of a few hundred kilobytes: make_tiny_model FILE.gguf
#include <cstdio>

#include "model/random/random_model.h"

int main(int argc, char ** argv) {
    if (argc != 2) { return 2; }
    const pith::Status status = pith::write_random_model({}, argv[1]);
    if (!status.ok()) { std::fprintf(stderr, "%s\n", status.message().c_str()); }
    return status.ok() ? 0 : 1;
}
