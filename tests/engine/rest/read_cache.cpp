// read_cache.cpp - see read_cache.h.
#include "engine/rest/read_cache.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "cache/cache_file.h"
#include "core/byte_stream.h"
#include "core/hash64.h"
#include "engine/pass/live_session.h"
#include "engine/rest/saved_session.h"
#include "engine/tiny_model.h"
#include "fuzz/read_gguf_headers.h"
#include "model/gguf_edit.h"

namespace pith::testing {
namespace {

using Layout = CacheFileLayout;

constexpr std::array kSections = {"model", "origin", "settings", "state", "tokens",   "logits",
                                  "lanes", "rows",   "states",   "gates", "evidence", "notes"};

// One whose layers all see everything, and one with windows: as small as they can be.
const std::vector<Model> & models() {
    static const std::vector<Model> all = [] {
        std::vector<Model> made;
        for (const char * arch : {"llama", "gemma3"}) {
            RandomModelSpec spec = tiny_spec(2, 1);
            spec.arch = arch;
            spec.n_layers = arch == std::string("gemma3") ? 6 : 2;
            spec.window = arch == std::string("gemma3") ? 8 : 0;
            spec.n_embd = 32;
            spec.head_dim = 8;
            spec.n_ff = 64;
            spec.n_vocab = 384;
            made.push_back(tiny_model(spec).value());
        }
        return made;
    }();
    return all;
}

uint64_t aligned(uint64_t n) {
    return (n + Layout::kAlign - 1) / Layout::kAlign * Layout::kAlign;
}

std::vector<uint8_t> header_of(std::span<const CacheSection> table, uint64_t file_size, uint64_t hash) {
    ByteWriter to;
    for (const char c : Layout::kMagic) { to.number(c); }
    to.number(kCacheFileVersion);
    to.number(static_cast<uint32_t>(table.size()));
    to.number(file_size);
    to.number(hash);
    for (const CacheSection & section : table) {
        std::array<char, CacheSection::kMostName + 1> name{};
        std::ranges::copy(section.name, name.begin());
        for (const char c : name) { to.number(c); }
        for (const uint64_t n : {section.offset, section.size, section.hash}) { to.number(n); }
    }
    std::vector<uint8_t> header(to.bytes().begin(), to.bytes().end());
    header.resize(Layout::kHeaderBytes);
    return header;
}

// One by one the sections that the bytes have; what is missing is empty.
std::vector<std::span<const uint8_t>> sections_of(std::span<const uint8_t> bytes) {
    std::vector<std::span<const uint8_t>> sections;
    if (!bytes.empty()) { bytes = bytes.subspan(1); }
    for (size_t i = 0; i < kSections.size(); ++i) {
        size_t n = 0;
        if (bytes.size() >= 2) {
            n = std::min<size_t>(bytes[0] + size_t{256} * bytes[1], bytes.size() - 2);
            bytes = bytes.subspan(2);
        }
        sections.push_back(bytes.first(n));
        bytes = bytes.subspan(n);
    }
    return sections;
}

std::vector<uint8_t> seed_of(size_t model, const std::string & policy, PrefillSchedule schedule) {
    SessionOptions options;
    options.policy = policy;
    options.budget = policy == "full" ? Budget() : Budget(8);
    options.prefill = schedule;
    options.chunk = 8;
    options.evict_every = 4;
    options.n_threads = 1;
    const std::string path = scratch_file("seed.pith");
    auto session = models()[model].session(options);
    Status status = session.status();
    if (status.ok()) { status = session->prefill(random_tokens(14, models()[model].info().n_vocab)); }
    if (status.ok()) { status = session->append(3); }
    if (status.ok()) { status = session->save(path, {{"name", "text"}}); }
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.message().c_str());
        std::abort();
    }
    const std::vector<char> file = read_file(path);
    const std::vector<uint8_t> whole(file.begin(), file.end());
    const CacheFileView view = CacheFileView::parse(whole, path).value();
    std::vector<uint8_t> seed = {static_cast<uint8_t>(model)};
    for (const char * name : kSections) {
        const auto bytes = view.section(name).value();
        seed.push_back(static_cast<uint8_t>(bytes.size() % 256));
        seed.push_back(static_cast<uint8_t>(bytes.size() / 256));
        seed.insert(seed.end(), bytes.begin(), bytes.end());
    }
    return seed;
}

}  // namespace

std::vector<uint8_t> cache_file_of(std::span<const uint8_t> bytes) {
    std::vector<CacheSection> table;
    std::vector<uint8_t> file(Layout::kHeaderBytes);
    size_t i = 0;
    for (const std::span<const uint8_t> section : sections_of(bytes)) {
        file.resize(aligned(file.size()));
        table.push_back({kSections[i++], file.size(), section.size(), hash64(section)});
        file.insert(file.end(), section.begin(), section.end());
    }
    const uint64_t hash = hash64(header_of(table, file.size(), 0));
    std::ranges::copy(header_of(table, file.size(), hash), file.begin());
    return file;
}

std::string read_cache(std::span<const uint8_t> bytes) {
    const std::vector<uint8_t> file = cache_file_of(bytes);
    const auto view = CacheFileView::parse(file, "a.pith");
    if (!view.ok()) { return "its table and hashes should fit: " + view.status().message(); }
    const Model & model = models()[bytes.empty() ? 0 : bytes[0] % models().size()];
    auto opened = open_saved(model, *view, {.n_threads = 1});
    if (!opened.ok()) { return fault(opened.status()); }
    Session session = hand_out(std::move(*opened));
    std::string faults = fault(session.prefill(random_tokens(5, model.info().n_vocab)));
    for (int t = 0; t < 5; ++t) { faults += fault(session.append(t)); }
    return faults;
}

std::vector<std::vector<uint8_t>> cache_seeds() {
    std::vector<std::vector<uint8_t>> seeds;
    for (size_t model = 0; model < models().size(); ++model) {
        for (const char * policy :
             {"full", "h2o:recent=2", "snapkv:window=3+novelty", "expected:recent=2", "keydiff:recent=2"}) {
            seeds.push_back(seed_of(model, policy, PrefillSchedule::kChunked));
        }
    }
    return seeds;
}

}  // namespace pith::testing
