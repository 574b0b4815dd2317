// damaged_cache_test.cpp - a cache file with a flipped bit is refused, wherever it is; one whose hashes were made to fit is
// refused or opens as a session that works.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "cache/cache_file.h"
#include "engine/gated_model.h"
#include "engine/pass/live_session.h"
#include "engine/rest/saved_session.h"
#include "engine/tiny_model.h"
#include "model/arch/architecture.h"
#include "model/architecture_files.h"
#include "model/gguf_edit.h"

namespace pith::damaged_cache_test {
namespace {

using testing::random_tokens;
using testing::scratch_file;

// 300, or what the environment says.
int n_mutations() {
    const char * n = std::getenv("PITH_MUTATIONS");
    return n == nullptr ? 300 : std::atoi(n);
}

// A small file with something in every section.
struct Case {
    explicit Case(const std::string & policy) : Case(gated(), policy) {}
    Case(Model of, const std::string & policy, bool keeps_evicted = false) : model(std::move(of)), is_mapped(keeps_evicted) {
        SessionOptions options;
        options.policy = policy;
        options.budget = 24;
        options.chunk = 16;
        options.evict_every = 8;
        options.prefill = PrefillSchedule::kChunked;
        options.n_threads = 1;
        options.observe = {"score", "expected", "laprox"};
        options.pinned = {{0, 3}};
        if (keeps_evicted) {
            options.cold = KvType::kQ8_0;
            options.look_back = true;
        }
        auto session = model.session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        const Status read = session->prefill(random_tokens(61, model.info().n_vocab));
        EXPECT_TRUE(read.ok()) << read.message();
        EXPECT_TRUE(session->append(5).ok());
        const std::string path = scratch_file("damaged.pith");
        EXPECT_TRUE(session->save(path, {{"name", "text"}}).ok());
        const std::vector<char> file = testing::read_file(path);
        bytes.assign(file.begin(), file.end());
    }
    static Model gated() {
        RandomModelSpec spec = testing::tiny_spec();
        spec.n_layers = 2;
        GateConfig gate = testing::even_gate();
        gate.causal = true;
        gate.n_recent = 4;
        return testing::gated_model(spec, gate).value();
    }
    static std::vector<Model> recurrent() {
        std::vector<Model> models;
        for (const testing::ArchitectureFile & one : testing::architecture_files()) {
            const Architecture * arch = find_architecture(one.arch);
            if (arch == nullptr || arch->form.recurrent == Recurrent::kNone) { continue; }
            const std::string path = scratch_file(one.name + ".gguf");
            EXPECT_TRUE(testing::write_architecture_file(one, path));
            models.push_back(Model::load(path).value());
        }
        return models;
    }
    // As Model::open_session() does it; rows on disk are read where they lie, so such bytes must be a file's.
    Result<std::unique_ptr<LiveSession>> open(std::span<const uint8_t> file) const {
        if (is_mapped) {
            const std::string path = scratch_file("a.pith");
            testing::write_file(path, std::vector<char>(file.begin(), file.end()));
            PITH_ASSIGN_OR_RETURN(const CacheFile mapped, CacheFile::open(path));
            return open_saved(model, mapped.view(), {.n_threads = 1});
        }
        PITH_ASSIGN_OR_RETURN(const CacheFileView view, CacheFileView::parse(file, "a.pith"));
        return open_saved(model, view, {.n_threads = 1});
    }

    Model model;
    bool is_mapped = false;
    std::vector<uint8_t> bytes;
};

TEST(DamagedCache, AFlippedBitAnywhereIsRefused) {
    Case a("gated+snapkv:window=8");
    ASSERT_TRUE(a.open(a.bytes).ok());
    std::mt19937 random(1);
    const size_t n_bits = 8 * a.bytes.size();
    const auto refused = [&](size_t bit) {
        a.bytes[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
        const auto view = CacheFileView::parse(a.bytes, "a.pith");
        EXPECT_FALSE(view.ok()) << "bit " << bit;
        EXPECT_EQ(view.status().message().find('\n'), std::string::npos);
        a.bytes[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    };
    for (size_t bit = 0; bit < 8 * CacheFileLayout::kHeaderBytes; ++bit) { refused(bit); }
    for (int i = 0; i < std::max(1000, n_mutations()); ++i) { refused((random() * size_t{4294967296} + random()) % n_bits); }
    EXPECT_TRUE(a.open(a.bytes).ok());
}

TEST(DamagedCache, AFileThatIsCutOrGrowsIsRefused) {
    Case a("h2o:recent=6");
    for (size_t n = 0; n < a.bytes.size(); n += 1 + n / 50) {
        EXPECT_FALSE(CacheFileView::parse(std::span(a.bytes).first(n), "a.pith").ok()) << n;
    }
    a.bytes.push_back(0);
    EXPECT_FALSE(CacheFileView::parse(a.bytes, "a.pith").ok());
}

TEST(DamagedCache, AnotherVersionIsNamed) {
    Case a("h2o:recent=6");
    for (const uint32_t version : {kCacheFileVersion - 1, kCacheFileVersion + 1}) {
        a.bytes[8] = static_cast<uint8_t>(version);
        const auto view = CacheFileView::parse(a.bytes, "a.pith");
        EXPECT_EQ(view.status().code(), ErrorCode::kUnsupported);
        const std::string named = "has version " + std::to_string(version);
        EXPECT_NE(view.status().message().find(named), std::string::npos) << view.status().message();
    }
}

// Sections taken apart, changed, and put together again with hashes that fit.
class Sections {
public:
    explicit Sections(std::span<const uint8_t> file) {
        const CacheFileView view = CacheFileView::parse(file, "a.pith").value();
        for (const CacheSection & section : view.sections()) {
            const auto bytes = view.section(section.name).value();
            names_.push_back(section.name);
            contents_.emplace_back(bytes.begin(), bytes.end());
        }
    }

    std::string mutate(std::mt19937 & random) {
        const size_t i = random() % contents_.size();
        std::vector<uint8_t> & bytes = contents_[i];
        const size_t at = bytes.empty() ? 0 : random() % bytes.size();
        const unsigned kind = bytes.empty() ? 3 : random() % 6;
        switch (kind) {
            case 0:
                bytes[at] ^= static_cast<uint8_t>(1U << random() % 8);
                break;
            case 1:  // a number, perhaps a length, at its extremes
            case 2: {
                static constexpr uint64_t kExtremes[] = {
                    0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, ~uint64_t{0}, uint64_t{1} << 63U, uint64_t{1} << 40U};
                const uint64_t value = kExtremes[random() % std::size(kExtremes)];
                const size_t size = kind == 1 ? 4 : 8;
                const size_t where = at / 4 * 4;
                std::memcpy(bytes.data() + where, &value, std::min(size, bytes.size() - where));
                break;
            }
            case 3:
                bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + random() % 16,
                             static_cast<uint8_t>(random()));
                break;
            case 4:
                bytes.resize(at);
                break;
            default: {
                const size_t n = std::min<size_t>(bytes.size() - at, 1 + random() % 16);
                bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                            bytes.begin() + static_cast<std::ptrdiff_t>(at + n));
            }
        }
        return names_[i] + ", kind " + std::to_string(kind) + " at " + std::to_string(at);
    }

    std::vector<uint8_t> file() const {
        const std::string path = scratch_file("mutated.pith");
        auto writer = CacheFileWriter::create(path);
        EXPECT_TRUE(writer.ok());
        for (size_t i = 0; i < names_.size(); ++i) { EXPECT_TRUE(writer->add(names_[i], contents_[i]).ok()); }
        EXPECT_TRUE(writer->publish().ok());
        const std::vector<char> bytes = testing::read_file(path);
        return {bytes.begin(), bytes.end()};
    }

private:
    std::vector<std::string> names_;
    std::vector<std::vector<uint8_t>> contents_;
};

void expect_mutations_refused_or_working(const Case & a, int n) {
    ASSERT_TRUE(a.open(Sections(a.bytes).file()).ok());
    std::mt19937 random(7);
    int n_refused = 0;
    for (int i = 0; i < n; ++i) {
        Sections sections(a.bytes);
        const std::string what = sections.mutate(random);
        SCOPED_TRACE(what);
        auto opened = a.open(sections.file());
        if (!opened.ok()) {
            ++n_refused;
            EXPECT_EQ(opened.status().message().find('\n'), std::string::npos) << opened.status().message();
            EXPECT_NE(opened.status().message().find("a.pith"), std::string::npos) << opened.status().message();
            continue;
        }
        // It may answer otherwise, or with an error, but it works.
        Session session = hand_out(std::move(*opened));
        static_cast<void>(session.prefill(random_tokens(20, a.model.info().n_vocab)));
        for (int t = 0; t < 10; ++t) { static_cast<void>(session.append(t)); }
        EXPECT_LE(session.n_tokens(), 61 + 1 + 20 + 10);
    }
    EXPECT_GT(n_refused, n / 4);
}

TEST(DamagedCache, WhatIsChangedAndHashedAgainIsRefusedOrWorks) {
    for (const char * policy : {"gated+snapkv:window=8", "h2o:recent=6", "snapkv:window=8+novelty"}) {
        expect_mutations_refused_or_working(Case(policy), n_mutations());
    }
}

// A prompt that looks back reads all rows on disk.
TEST(DamagedCache, WithEvictedEntriesIsRefusedOrWorksToo) {
    expect_mutations_refused_or_working(Case(Case::gated(), "h2o:recent=6", /*keeps_evicted=*/true), n_mutations());
}

TEST(DamagedCache, OfModelsWithRecurrentLayersIsRefusedOrWorksToo) {
    const std::vector<Model> models = Case::recurrent();
    ASSERT_GE(models.size(), 5U);
    for (const Model & model : models) {
        expect_mutations_refused_or_working(Case(model, "snapkv:window=8+novelty"),
                                            n_mutations() / static_cast<int>(models.size()));
    }
}

}  // namespace
}  // namespace pith::damaged_cache_test
