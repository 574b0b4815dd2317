// killed_test.cpp - `pith compress` on SmolLM2, killed while it reads, while it writes over another file, and right behind its
// last byte: what is asked then is answered as if nothing had been killed.
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/run_process.h"
#include "pith/cache_file.h"
#include "real/real_model.h"
#include "real/story.h"

namespace pith::testing::killed_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class KilledCompress : public OnRealModel<kSmolLM2> {
protected:
    void SetUp() override {
        OnRealModel::SetUp();
        const std::string story = kStory;
        write_text(text_, story.substr(0, story.find("The logbook turned out")));  // five paragraphs
        write_text(other_, story.substr(story.find("The logbook turned out")));
    }
    std::vector<std::string> compress(const std::string & text, const std::string & to) const {
        return {"compress", "-m", path(), "-f", text, "-o", to, "--policy", "keydiff", "--budget", "128"};
    }
    static Json tokens_of(std::vector<std::string> command) {
        for (const char * word : {"-p", "What did Marta bring?", "-n", "16", "--temp", "0", "--ignore-eos", "--json"}) {
            command.emplace_back(word);
        }
        const Outcome outcome = run_pith(command);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        const Json said = Json::parse(outcome.out, nullptr, false);
        EXPECT_EQ(said["answers"].size(), 1U) << outcome.out;
        return said["answers"][0]["tokens"];
    }
    Json ask(const std::string & file) const { return tokens_of({"ask", file}); }
    Streams streams() const { return {folder_.file("none"), folder_.file("out"), folder_.file("err")}; }

    TempFolder folder_;
    std::string text_ = folder_.file("text.txt");
    std::string other_ = folder_.file("other.txt");
};

TEST_F(KilledCompress, LeavesAWholeFileOrNoneAndTheAnswersOfOneThatWasNot) {
    using Clock = std::chrono::steady_clock;
    // Without a kill. (`pith run` with the same text writes another token between text and question.)
    const std::string whole = folder_.file("whole.pith");
    const auto begin = Clock::now();
    ASSERT_EQ(run_pith(compress(text_, whole)).exit_code, 0);
    const auto took = Clock::now() - begin;
    const Json expected = ask(whole);
    ASSERT_EQ(expected.size(), 16U);

    // While it reads: at these shares of the time that it takes.
    const std::string file = folder_.file("killed.pith");
    for (const double share : {0.3, 0.6, 0.9}) {
        const pid_t pid = start_pith(compress(text_, file), streams());
        std::this_thread::sleep_for(share * took);
        kill(pid, SIGKILL);
        wait_for_exit(pid);
        if (fs::exists(file)) { EXPECT_TRUE(read_cache_info(file).ok()); }
    }
    // As soon as the file is there: it is whole, although its writer did not come to its end.
    fs::remove(file);
    const pid_t pid = start_pith(compress(text_, file), streams());
    for (const auto until = Clock::now() + std::chrono::minutes(2); !fs::exists(file) && Clock::now() < until;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    kill(pid, SIGKILL);
    wait_for_exit(pid);
    ASSERT_TRUE(fs::exists(file));
    EXPECT_EQ(ask(file), expected);
    for (const auto & entry : fs::directory_iterator(fs::path(file).parent_path())) {
        EXPECT_FALSE(entry.path().filename().string().starts_with(".pith-")) << "left behind: " << entry.path();
    }

    // Another text over the same file: what was there stays.
    const pid_t over = start_pith(compress(other_, file), streams());
    std::this_thread::sleep_for(0.5 * took);
    kill(over, SIGKILL);
    ASSERT_EQ(wait_for_exit(over), -SIGKILL) << "it was too fast to be killed";
    EXPECT_EQ(ask(file), expected);
    // And one that comes to its end replaces it.
    ASSERT_EQ(run_pith(compress(other_, file)).exit_code, 0);
    EXPECT_NE(ask(file), expected);
}

}  // namespace
}  // namespace pith::testing::killed_test
