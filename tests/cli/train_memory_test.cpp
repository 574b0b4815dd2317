// train_memory_test.cpp - `pith train` under limits on its memory, from far too small to enough: it says one clear line, or it
// trains; it never dies.
#include "cli/run_process.h"
#include "every_case.h"

namespace pith::train_memory_test {
namespace {

TEST(TrainMemory, UnderWhateverLimitItSaysOneLineOrTrains) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "what watches memory takes more addresses than are limited here";
#endif
    const testing::TempFolder folder;
    const std::string recipe = folder.file("tiny.json");
    testing::write_text(recipe, R"({"name": "tiny", "vocabulary": 768, "validation_documents": 4,
        "model": {"layers": 1, "width": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "ff": 32, "context": 256},
        "stages": [{"tokens": 64, "sequences": 4, "steps": 2}]})");
    const auto train = [&](size_t mebibytes) {
        testing::RunLimits limits;
        limits.address_space_bytes = mebibytes << 20U;
        return testing::run_pith({"train", recipe, "-o", folder.file("tiny.gguf"), "-t", "2", "--restart"}, limits);
    };
    if (train(0).err.find("SentencePiece") != std::string::npos) { GTEST_SKIP() << "built without SentencePiece"; }
    int n_refused = 0;
    size_t i = 0;
    for (const size_t mebibytes : {40, 46, 52, 60, 68, 76, 90, 120, 160, 200, 240, 1000}) {
        if (!testing::in_turn(size_t{0}, i++, 2)) { continue; }
        SCOPED_TRACE(mebibytes);
        const testing::Outcome outcome = train(mebibytes);
        if (outcome.exit_code == 0) { continue; }
        ++n_refused;
        EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
        const size_t begin = outcome.err.find("pith: no memory ");
        ASSERT_NE(begin, std::string::npos) << outcome.err;
        EXPECT_EQ(outcome.err.find('\n', begin) + 1, outcome.err.size()) << outcome.err;
    }
    EXPECT_GT(n_refused, testing::every_case() ? 4 : 2);
    EXPECT_EQ(train(0).exit_code, 0);
}

}  // namespace
}  // namespace pith::train_memory_test
