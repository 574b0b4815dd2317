// follow_test.cpp - `pith run --follow`: a text that goes on coming, saved on the way, and processes that are killed meanwhile.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "cache/cache_file.h"
#include "cli/run_process.h"
#include "pith/cache_file.h"

namespace pith::testing::follow_test {
namespace {

using Json = nlohmann::json;

// 5,000, or what the environment says.
int n_words() {
    const char * n = std::getenv("PITH_FOLLOW_WORDS");
    return n == nullptr ? 5000 : std::atoi(n);
}
// How often a process is killed, of each kind.
int n_kills() {
    const char * n = std::getenv("PITH_KILLS");
    return n == nullptr ? 10 : std::atoi(n);
}

// Lines of all lengths, with empty ones between some.
std::string lines(int n, unsigned seed) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < n;) {
        const int m = 1 + static_cast<int>(random() % 40);
        for (int word = 0; word < m; ++word) {
            static constexpr const char * kWords[] = {"the", "and", "Once", "a", "river,", "hill."};
            text += (word > 0 ? " " : "") + std::string(kWords[random() % std::size(kWords)]);
        }
        text += random() % 8 == 0 ? "\n\n" : "\n";
        i += m;
    }
    return text;
}

// All but the counters and times of two ways to the same state.
void expect_same_contents(const std::string & a, const std::string & b) {
    const auto first = CacheFile::open(a);
    const auto second = CacheFile::open(b);
    ASSERT_TRUE(first.ok()) << first.status().message();
    ASSERT_TRUE(second.ok()) << second.status().message();
    for (const CacheSection & section : first->view().sections()) {
        if (section.name == "state") { continue; }
        EXPECT_TRUE(std::ranges::equal(*first->view().section(section.name), *second->view().section(section.name)))
            << section.name;
    }
}

class Followed : public ::testing::Test {
protected:
    void SetUp() override {
        model_ = write_model(folder_);
        text_ = folder_.file("text.txt");
        whole_ = folder_.file("whole.pith");
        file_ = folder_.file("followed.pith");
    }
    std::vector<std::string> begin(const std::string & save) const {
        return {"run",   "-m",      model_, "--follow", "--policy", "snapkv:window=8", "--budget", "64",
                "--raw", "--chunk", "128",  "-t",       "1",        "--save-cache",    save};
    }
    std::vector<std::string> go_on(const std::string & save) const {
        return {"run", "--cache", save, "--follow", "-t", "1", "--save-cache", save};
    }
    static std::vector<std::string> with(std::vector<std::string> all, const std::vector<std::string> & more) {
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    Streams streams() const { return {text_, folder_.file("out"), folder_.file("err")}; }
    // Begun, or gone on with what is saved.
    pid_t start(const std::vector<std::string> & more) const {
        const bool is_there = std::filesystem::exists(file_);
        return start_pith(with(is_there ? go_on(file_) : begin(file_), more), streams());
    }
    int64_t n_followed() const {
        const auto info = read_cache_info(file_);
        EXPECT_TRUE(info.ok()) << info.status().message();
        return info.ok() ? info->n_tokens : 0;
    }

    TempFolder folder_;
    std::string model_;
    std::string text_;
    std::string whole_;
    std::string file_;
};

TEST_F(Followed, TextIsReadInsideTheBudgetAndAskedWhereItEnds) {
    const std::string text = lines(3000, 1);
    const Outcome read = run_pith(with(begin(file_), {"-p", "Who?", "-n", "6", "--temp", "0", "--ignore-eos", "--json"}),
                                  {.standard_input = text});
    ASSERT_EQ(read.exit_code, 0) << read.err;
    const Json said = Json::parse(read.out);
    EXPECT_GT(said["n_prompt"], 3000);
    const auto info = read_cache_info(file_);
    ASSERT_TRUE(info.ok()) << info.status().message();
    EXPECT_LE(said["kept_entries"], (64 + 128) * info->n_lanes);
    const auto note = [&](const std::string & name) {
        const auto found = std::ranges::find(info->notes, name, &CacheNotes::value_type::first);
        return found == info->notes.end() ? "" : found->second;
    };
    EXPECT_EQ(note("stream-bytes"), std::to_string(text.size()));
    EXPECT_EQ(note("stream-tokens"), "0");
    // The file is the text alone: asked the same, it says the same.
    const Outcome asked = run_pith({"ask", file_, "-p", "Who?", "-n", "6", "--temp", "0", "--ignore-eos", "--json", "-t", "1"});
    ASSERT_EQ(asked.exit_code, 0) << asked.err;
    EXPECT_EQ(Json::parse(asked.out)["answers"][0]["tokens"], said["answers"][0]["tokens"]);
}

TEST_F(Followed, KilledOnTheWayEndsAsOneThatNeverWas) {
    write_text(text_, lines(n_words(), 2));
    ASSERT_EQ(wait_for_exit(start_pith(begin(whole_), streams())), 0) << read_text_file(streams().err);
    std::mt19937 random(3);
    const std::string save_every = std::to_string(std::max(300, n_words() / 50));
    const auto end = read_cache_info(whole_);
    ASSERT_TRUE(end.ok()) << end.status().message();
    const auto without_tokens = [](const CacheFileInfo & info) {
        return info.file_bytes - 4 * static_cast<size_t>(info.n_tokens);
    };
    // Killed so often, and followed to the end at least once; from the beginning again where it ended before.
    for (int n_left = n_kills(); !std::filesystem::exists(file_) || n_left > 0 || n_followed() < end->n_tokens;) {
        if (std::filesystem::exists(file_) && n_followed() == end->n_tokens) { std::filesystem::remove(file_); }
        const pid_t pid = start({"--save-every", save_every});
        if (n_left > 0) {  // some have saved several times by then, some not at all
            usleep(1000 * (1 + static_cast<useconds_t>(random() % static_cast<unsigned>(n_words() / 20))));
            kill(pid, SIGKILL);
        }
        const int code = wait_for_exit(pid);
        ASSERT_TRUE(code == 0 || code == -SIGKILL) << code << read_text_file(streams().err);
        n_left -= code == 0 ? 0 : 1;
        if (!std::filesystem::exists(file_)) { continue; }
        const auto info = read_cache_info(file_);  // whole, whenever it was
        ASSERT_TRUE(info.ok()) << info.status().message();
        // On the disk no more than the tokens' numbers has been added on the way.
        EXPECT_LT(without_tokens(*info), 2 * without_tokens(*end));
    }
    EXPECT_FALSE(std::filesystem::exists(file_ + ".tmp"));
    expect_same_contents(whole_, file_);
}

// SIGTERM and SIGINT end it well, in a file that may still grow.
TEST_F(Followed, EndedByASignalIsSavedAndGoesOn) {
    const std::string text = lines(4000, 4);
    const std::string growing = folder_.file("growing.txt");
    for (const double share : {0.5, 0.9}) {
        write_text(growing, text.substr(0, static_cast<size_t>(share * static_cast<double>(text.size()))));
        const int64_t before = std::filesystem::exists(file_) ? n_followed() : 0;
        const pid_t pid = start({"-f", growing, "--save-every", "128"});
        for (int i = 0; i < 1000; ++i) {  // until it has read some of it
            if (std::filesystem::exists(file_) && n_followed() > before) { break; }
            usleep(10000);
        }
        kill(pid, share < 0.6 ? SIGTERM : SIGINT);
        EXPECT_EQ(wait_for_exit(pid), 0) << read_text_file(streams().err);
        EXPECT_GT(n_followed(), before);
    }
    // The rest comes through standard input, which ends.
    write_text(text_, text);
    ASSERT_EQ(wait_for_exit(start_pith(go_on(file_), streams())), 0) << read_text_file(streams().err);
    ASSERT_EQ(wait_for_exit(start_pith(begin(whole_), streams())), 0);
    expect_same_contents(whole_, file_);
}

TEST_F(Followed, AnotherTextAndWhatWouldNeverEndAreRefusedInOneLine) {
    const std::string text = lines(1000, 5);
    ASSERT_EQ(run_pith(begin(file_), {.standard_input = text}).exit_code, 0);
    const std::vector<char> before = read_file(file_);
    expect_error(run_pith(go_on(file_), {.standard_input = text.substr(0, 100)}), 1,
                 {"standard input has 100 bytes", "were read before"});
    std::string other = text;
    other[other.size() - 20] ^= 1;
    expect_error(run_pith(go_on(file_), {.standard_input = other}), 1, {"is another text"});
    EXPECT_EQ(read_file(file_), before);
    expect_error(run_pith(begin(whole_), {.standard_input = "Once \xff and"}), 1, {"not UTF-8", "byte 5"});
    EXPECT_FALSE(std::filesystem::exists(whole_));
    expect_error(run_pith({"run", "-m", model_, "--follow"}), 2, {"--follow", "--budget"});
    expect_error(run_pith({"run", "-m", model_, "--follow", "--policy", "h2o", "--budget", "20%"}), 2,
                 {"--follow", "--budget"});
    expect_error(run_pith({"run", "-m", model_, "--follow", "--policy", "h2o", "--budget", "64", "--evict-every", "0"}), 2,
                 {"--evict-every"});
    expect_error(run_pith({"run", "-m", model_, "--save-every", "9", "-p", "a"}), 2, {"--save-every", "--follow"});
    expect_error(run_pith({"run", "-m", model_, "--follow", "--budget", "64", "-f", text_, "-p", "a"}), 2,
                 {"--follow", text_, "-p"});
    expect_error(run_pith({"run", "--cache", file_, "-f", text_, "-p", "a"}), 2, {"--cache", "--follow"});
    expect_error(run_pith(with(begin(whole_), {"-f", folder_.file("none.txt")})), 1, {"none.txt"});
}

// Compressing and saving a conversation, killed at any moment: what is there is whole, and the next one leaves nothing beside
// it.
TEST_F(Followed, CommandsThatAreKilledLeaveWholeFiles) {
    write_text(text_, lines(600, 6));
    const std::string chat = folder_.file("chat.txt");
    std::string said;
    for (int i = 0; i < 40; ++i) { said += "/save " + whole_ + "\n"; }
    write_text(chat, "Who?\n" + said);
    const std::vector<std::string> compress = {"compress",        "-m",       model_, "-f", text_, "-o", file_, "--policy",
                                               "snapkv:window=8", "--budget", "64",   "-t", "1"};
    const std::string jinja =
        "{% for m in messages %}[{{ m.role }}] {{ m.content }} . {% endfor %}{{ 'so:' if add_generation_prompt }}";
    const std::vector<std::string> talk = {
        "chat", "-m", model_, "--chat-template", jinja, "-t", "1", "--policy", "h2o", "--budget", "64", "-n", "4"};
    std::mt19937 random(7);
    for (int i = 0; i < n_kills(); ++i) {
        for (const bool compresses : {true, false}) {
            const Streams of{compresses ? folder_.file("none") : chat, folder_.file("out"), folder_.file("err")};
            const pid_t pid = start_pith(compresses ? compress : talk, of);
            usleep(1000 + static_cast<useconds_t>(random() % 150000));
            kill(pid, SIGKILL);
            wait_for_exit(pid);
            const std::string & made = compresses ? file_ : whole_;
            if (!std::filesystem::exists(made)) { continue; }
            const auto info = read_cache_info(made);
            ASSERT_TRUE(info.ok()) << info.status().message();
        }
    }
    const Streams of{folder_.file("none"), folder_.file("out"), folder_.file("err")};
    ASSERT_EQ(wait_for_exit(start_pith(compress, of)), 0) << read_text_file(of.err);
    ASSERT_EQ(wait_for_exit(start_pith(talk, {chat, of.out, of.err})), 0) << read_text_file(of.err);
    for (const std::string & made : {file_, whole_}) {
        EXPECT_TRUE(read_cache_info(made).ok()) << made;
        EXPECT_FALSE(std::filesystem::exists(made + ".tmp"));
    }
}

}  // namespace
}  // namespace pith::testing::follow_test
