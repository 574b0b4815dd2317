// model_identity.cpp - metadata, tensor table and tensors, as hashes.
#include "model/model_identity.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>
#include <variant>

#include "core/hash64.h"
#include "core/on_threads.h"
#include "device/cpu_count.h"

namespace pith {
namespace {

constexpr size_t kBytesOfAThread = size_t{16} << 20;

class Hashed {
public:
    void add(std::span<const uint8_t> bytes) { hash_.add(bytes); }
    void add(uint64_t number) { add(std::span(reinterpret_cast<const uint8_t *>(&number), sizeof number)); }
    void add(int64_t number) { add(static_cast<uint64_t>(number)); }
    void add(double number) {
        uint64_t bits = 0;
        std::memcpy(&bits, &number, sizeof bits);
        add(bits);
    }
    void add(std::string_view text) {
        add(uint64_t{text.size()});
        add(std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
    }
    void add(const std::string & text) { add(std::string_view(text)); }
    void add(const GgufArray & array) {
        add(array.n);
        for (const double number : array.numbers) { add(number); }
    }
    std::string text() const { return hash_text(hash_.value()); }

private:
    Hash64 hash_;
};

struct Placed {
    const GgufTensor * tensor;
    const IdentitySource * source;
};

std::vector<Placed> by_name(std::span<const IdentitySource> files) {
    std::vector<Placed> all;
    for (const IdentitySource & file : files) {
        for (const GgufTensor & tensor : file.header->tensors) { all.push_back({&tensor, &file}); }
    }
    std::ranges::sort(all, {}, [](const Placed & one) -> const std::string & { return one.tensor->name; });
    return all;
}

// [begin, end) of the tensor's bytes, in pieces that stay in the processor's cache.
void add_bytes(Hash64 & hash, const Placed & one, size_t begin, size_t end) {
    constexpr size_t kPiece = size_t{64} << 10U;
    const size_t offset = one.tensor->offset;
    if (one.source->file == nullptr) { return hash.add(one.source->bytes.subspan(offset + begin, end - begin)); }
    std::array<uint8_t, kPiece> piece;
    for (size_t n = 0; begin < end; begin += n) {
        n = std::min(kPiece, end - begin);
        hash.add(one.source->file->read(offset + begin, std::span(piece).first(n)));
    }
}

uint64_t hash_of(const Placed & one, bool samples) {
    Hash64 hash;
    const size_t size = one.tensor->size;
    if (!samples || size <= kSampledBlocks * kSampledBlockBytes) {
        add_bytes(hash, one, 0, size);
        return hash.value();
    }
    const size_t last = size - kSampledBlockBytes;
    for (size_t i = 0; i < kSampledBlocks; ++i) {
        // Without the product of two large numbers, which may not fit.
        const size_t begin = last / (kSampledBlocks - 1) * i + last % (kSampledBlocks - 1) * i / (kSampledBlocks - 1);
        add_bytes(hash, one, begin, begin + kSampledBlockBytes);
    }
    return hash.value();
}

}  // namespace

std::optional<IdentityDifference> first_difference(const ModelIdentity & saved, const ModelIdentity & here) {
    const auto value_in = [](const ModelIdentity & all, const std::string & item) {
        const auto found = std::ranges::find(all, item, &ModelIdentity::value_type::first);
        return found == all.end() ? std::string("not known") : found->second;
    };
    for (const auto & [item, value] : saved) {
        if (std::string other = value_in(here, item); other != value) {
            return IdentityDifference{item, value, std::move(other)};
        }
    }
    for (const auto & [item, value] : here) {
        if (std::string other = value_in(saved, item); other != value) {
            return IdentityDifference{item, std::move(other), value};
        }
    }
    return std::nullopt;
}

std::string metadata_hash(const GgufHeader & header, std::span<const std::string> prefixes) {
    std::vector<const std::pair<const std::string, GgufValue> *> chosen;
    for (const auto & entry : header.metadata) {
        const auto begins = [&entry](const std::string & prefix) { return entry.first.starts_with(prefix); };
        if (std::ranges::any_of(prefixes, begins)) { chosen.push_back(&entry); }
    }
    std::ranges::sort(chosen, {}, [](const auto * entry) -> const std::string & { return entry->first; });
    Hashed hashed;
    for (const auto * entry : chosen) {
        hashed.add(entry->first);
        hashed.add(uint64_t{entry->second.index()});
        std::visit([&hashed](const auto & value) { hashed.add(value); }, entry->second);
    }
    return hashed.text();
}

std::string table_hash(std::span<const IdentitySource> files) {
    Hashed hashed;
    for (const Placed & one : by_name(files)) {
        hashed.add(one.tensor->name);
        hashed.add(static_cast<uint64_t>(one.tensor->type));
        for (const int64_t n : one.tensor->ne) { hashed.add(n); }
    }
    return hashed.text();
}

std::string contents_hash(std::span<const IdentitySource> files, size_t sampled_above) {
    const std::vector<Placed> tensors = by_name(files);
    size_t total = 0;
    for (const Placed & one : tensors) { total += one.tensor->size; }
    const bool samples = total > sampled_above;
    // The largest first: begun last, the embedding would keep one thread when all others have ended.
    std::vector<size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](size_t i) { return tensors[i].tensor->size; });
    std::vector<uint64_t> hashes(tensors.size());
    std::atomic<size_t> next = 0;
    const auto hash_some = [&](int /*part*/) -> Status {
        for (size_t i = next++; i < order.size(); i = next++) { hashes[order[i]] = hash_of(tensors[order[i]], samples); }
        return {};
    };
    // Adapters and gates are small: a thread of its own is for so many bytes at least. Nothing in it fails.
    const size_t n_wanted = 1 + total / kBytesOfAThread;
    const int n_threads =
        n_wanted == 1 ? 1 : static_cast<int>(std::min<size_t>(n_wanted, static_cast<size_t>(available_cpus())));
    static_cast<void>(on_threads(n_threads, hash_some));
    Hashed hashed;
    for (const uint64_t hash : hashes) { hashed.add(hash); }
    return hashed.text();
}

}  // namespace pith
