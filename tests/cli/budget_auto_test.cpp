// budget_auto_test.cpp - `--budget auto` where memory is short: from "all fits" down to "not even the model", one line and an
// exit code, never a signal.
#include <optional>
#include <regex>

#include "cli/run_process.h"
#include "every_case.h"
#include "text/tiny_vocabulary.h"

namespace pith::testing::budget_auto_test {
namespace {

// AddressSanitizer reserves more addresses than any limit here leaves.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCanLimitAddresses = false;
#else
constexpr bool kCanLimitAddresses = true;
#endif

constexpr size_t kMiB = size_t{1} << 20U;

class BudgetAuto : public ::testing::Test {
protected:
    void SetUp() override {
        if (!kCanLimitAddresses) { GTEST_SKIP() << "not with AddressSanitizer"; }
        // Little weight, much cache: 32 KiB a token.
        RandomModelSpec spec;
        spec.n_layers = 8;
        spec.n_heads = 8;
        spec.n_kv_heads = 8;
        spec.head_dim = 128;
        spec.n_ctx_train = 16384;  // no text here is longer
        plain_ = write_model(folder_, spec, "wide.gguf");
        write_text(folder_.file("book.txt"), words(1500));
    }
    Outcome under(size_t limit_bytes, std::vector<std::string> more = {}) const {
        std::vector<std::string> all = {"run", "-m", plain_,   "-f", folder_.file("book.txt"), "-n", "4",
                                        "-t",  "1",  "--temp", "0"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all, {limit_bytes, ""});
    }
    // Of "kept … (N of M tokens per head)"; nothing where the run failed.
    static std::optional<std::pair<long, long>> kept(const Outcome & outcome) {
        std::smatch found;
        if (!std::regex_search(outcome.err, found, std::regex("\\(([0-9,]+) of ([0-9,]+) tokens per head\\)"))) { return {}; }
        const auto number = [](std::string text) {
            std::erase(text, ',');
            return std::stol(text);
        };
        return std::pair(number(found[1].str()), number(found[2].str()));
    }

    TempFolder folder_;
    std::string plain_;
};

TEST_F(BudgetAuto, UnderALimitOnAddressesItEvictsOrSaysWhyItCannotRun) {
    const std::vector<std::vector<std::string>> ways = {
        {"--policy", "snapkv", "--budget", "auto"}, {},  // it is the default
    };
    for (const auto & way : ways) {
        SCOPED_TRACE(way.empty() ? "by default" : "by name");
        bool all_fits = false;
        bool evicted = false;
        bool refused = false;
        std::string said;  // for whoever reads the failure
        size_t i = 0;
        for (const size_t limit : {1024U, 160U, 128U, 112U, 96U, 88U, 80U, 72U, 64U, 56U, 48U, 40U, 32U}) {
            if (!in_turn(size_t{0}, i++, 2)) { continue; }
            SCOPED_TRACE(std::to_string(limit) + " MiB");
            const Outcome outcome = under(limit * kMiB, way);
            ASSERT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 1) << outcome.exit_code << " " << outcome.err;
            if (outcome.exit_code == 1) {
                expect_error(outcome, 1, {});
                refused = true;
                said += std::to_string(limit) + " MiB: " + outcome.err;
                continue;
            }
            EXPECT_FALSE(refused) << said << "a smaller limit cannot do what a larger one could not";
            const auto tokens = kept(outcome);
            if (!tokens) {  // nothing was evicted
                all_fits = true;
                EXPECT_FALSE(evicted);
                EXPECT_EQ(outcome.err.find("--budget auto"), std::string::npos) << outcome.err;
                continue;
            }
            if (tokens->first == tokens->second) {
                all_fits = true;
                continue;
            }
            evicted = true;
            EXPECT_NE(outcome.err.find("pith: warning: --budget auto: the memory that is left here holds "), std::string::npos)
                << outcome.err;
        }
        EXPECT_TRUE(all_fits && evicted && refused) << all_fits << evicted << refused << "\n" << said;
    }
}

// Without a budget there is nothing to give up: one line, with what would help.
TEST_F(BudgetAuto, WithoutABudgetTheLineSaysWhatWouldHelp) {
    for (const size_t limit : {96U, 80U, 64U}) {
        SCOPED_TRACE(std::to_string(limit) + " MiB");
        expect_error(under(limit * kMiB, {"--policy", "full"}), 1, {"memory"});
    }
    EXPECT_EQ(under(1024 * kMiB, {"--policy", "full"}).exit_code, 0) << "it is the limit that refuses";
}

TEST_F(BudgetAuto, AModelThatDoesNotFitIsSaidInOneLine) {
    RandomModelSpec spec;
    spec.n_embd = 1024;
    spec.n_ff = 8192;
    spec.n_layers = 8;
    spec.weight_type = "f16";
    const std::string large = write_model(folder_, spec, "large.gguf");
    for (const char * copy : {"--no-mmap", "--no-repack"}) {
        const Outcome outcome =
            run_pith({"run", "-m", large, "-p", "Hello", "-n", "1", "-t", "1", "--policy", "snapkv", "--budget", "auto", copy},
                     {200 * kMiB, ""});
        expect_error(outcome, 1, {"memory"});
    }
}

// The same for a conversation: a turn that does not fit is one line, and the talk ends well.
TEST_F(BudgetAuto, AChatUnderALimitIsNeverKilled) {
    const std::string chat = folder_.file("chat.gguf");
    GgufEdit edit;
    edit.metadata = [&](gguf_context * gguf) { gguf_set_val_str(gguf, "tokenizer.chat_template", kChatMl); };
    ASSERT_TRUE(edit_gguf(plain_, chat, edit));
    std::string lines;
    for (int turn = 0; turn < 6; ++turn) { lines += words(200) + "\n"; }
    for (const bool by_name : {true, false}) {
        size_t i = by_name ? 0 : 1;
        for (const size_t limit : {1024U, 128U, 96U, 64U}) {
            if (!in_turn(size_t{0}, i++, 2)) { continue; }
            SCOPED_TRACE(std::to_string(limit) + " MiB");
            std::vector<std::string> all = {"chat", "-m", chat, "-n", "4", "-t", "1", "--temp", "0", "--chunk", "64"};
            if (by_name) { all.insert(all.end(), {"--policy", "snapkv", "--budget", "auto"}); }
            const Outcome outcome = run_pith(all, {limit * kMiB, lines});
            EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 1) << outcome.exit_code << " " << outcome.err;
        }
    }
}

}  // namespace
}  // namespace pith::testing::budget_auto_test
