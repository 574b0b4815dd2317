// fingerprint.cpp - hashes, and the machine's name. Stage: eval.
#include "eval/fingerprint.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

namespace pith {
namespace {

constexpr uint64_t kOffset = 14695981039346656037ULL;
constexpr uint64_t kPrime = 1099511628211ULL;
constexpr int64_t kBlock = 64 << 10;
constexpr int kBlocks = 64;

uint64_t fnv1a(std::string_view bytes, uint64_t hash) {
    for (const char byte : bytes) { hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime; }
    return hash;
}

std::string hexadecimal(uint64_t value) {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
    return text.data();
}

}  // namespace

std::string fingerprint(std::string_view bytes) {
    return hexadecimal(fnv1a(bytes, kOffset));
}

Result<std::string> file_fingerprint(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) { return {ErrorCode::kNotFound, "'" + path + "' cannot be opened"}; }
    uint64_t hash = kOffset;
    std::vector<char> block(static_cast<size_t>(kBlock));
    while (in.read(block.data(), kBlock) || in.gcount() > 0) {
        hash = fnv1a({block.data(), static_cast<size_t>(in.gcount())}, hash);
    }
    if (in.bad()) { return {ErrorCode::kIo, "'" + path + "' cannot be read"}; }
    return hexadecimal(hash);
}

Result<std::string> model_fingerprint(const ModelInfo & model) {
    std::ifstream in(model.path, std::ios::binary | std::ios::ate);
    if (!in) { return {ErrorCode::kNotFound, "'" + model.path + "' cannot be opened"}; }
    const auto size = static_cast<int64_t>(in.tellg());
    uint64_t hash = fnv1a(std::to_string(size), kOffset);
    std::vector<char> block(static_cast<size_t>(kBlock));
    for (int i = 0; i < kBlocks; ++i) {
        const int64_t last = std::max<int64_t>(0, size - kBlock);
        in.seekg(last / (kBlocks - 1) * i + last % (kBlocks - 1) * i / (kBlocks - 1));
        in.read(block.data(), std::min(kBlock, size));
        if (in.gcount() == 0) { return {ErrorCode::kIo, "'" + model.path + "' cannot be read"}; }
        hash = fnv1a({block.data(), static_cast<size_t>(in.gcount())}, hash);
        in.clear();
    }
    return model.architecture + ", " + std::to_string(model.n_params) + " parameters, " + model.weight_type + ", " +
           hexadecimal(hash);
}

std::string machine_name() {
    std::ifstream in("/proc/cpuinfo");
    std::string name = "unknown processor";
    for (std::string line; std::getline(in, line);) {
        const size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) {
            name = line.substr(colon + 2);
            break;
        }
    }
    std::array<char, 32> memory{};
    const double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    std::snprintf(memory.data(), memory.size(), "%.1f GiB", bytes / (1U << 30U));
    return name + ", " + std::to_string(std::max(1U, std::thread::hardware_concurrency())) + " cores, " + memory.data();
}

}  // namespace pith
