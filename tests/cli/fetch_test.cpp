// fetch_test.cpp - `-hf` against a server on this machine: fetched, resumed, checked, refused, stopped.
#include <sys/file.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/hub_server.h"
#include "cli/run_process.h"
#include "common/models/sha256.h"

namespace pith::testing::fetch_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char * kRevision = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";
constexpr int kFailed = 1;
constexpr int kUsage = 2;

std::string sha256(const std::string & bytes) {
    app::Sha256 sum;
    sum.add(bytes);
    return sum.hex();
}

class Fetch : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(hub_.ok());
        for (const char * name : {"HF_HOME", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "LLAMA_CACHE", "OLLAMA_MODELS",
                                  "HF_TOKEN", "PITH_LIBCURL"}) {
            unsetenv(name);
        }
        setenv("HOME", folder_.file("home").c_str(), 1);
        setenv("HF_HUB_CACHE", folder_.file("hub").c_str(), 1);
        setenv("HF_ENDPOINT", hub_.url().c_str(), 1);
        for (const char * name : {"no_proxy", "NO_PROXY"}) { setenv(name, "127.0.0.1,localhost", 1); }
        static const std::string reason = run_pith({"info", "-hf", "user/none"}).err;
        if (reason.find("libcurl") != std::string::npos) { GTEST_SKIP() << reason; }
        small_ = read_text_file(write_model(folder_, {}, "small.gguf"));
        hub_.forget_requests();
    }

    struct File {
        std::string path;
        std::string bytes;
    };

    // Puts a repository there; the server's answers for its files may be changed afterwards.
    void publish(const std::vector<File> & files, const std::string & repo = "user/repo") {
        json tree = json::array();
        tree.push_back({{"type", "directory"}, {"oid", kRevision}, {"size", 0}, {"path", "folder"}});
        tree.push_back({{"type", "file"}, {"oid", kRevision}, {"size", 10}, {"path", "README.md"}});
        for (const File & file : files) {
            tree.push_back({{"type", "file"},
                            {"oid", kRevision},
                            {"size", file.bytes.size()},
                            {"path", file.path},
                            {"lfs", {{"oid", sha256(file.bytes)}, {"size", file.bytes.size()}, {"pointerSize", 135}}}});
            hub_.put(file_path(file.path, repo), {.body = file.bytes, .headers = ""});
        }
        publish_tree(tree, repo);
    }

    void publish_tree(const json & tree, const std::string & repo = "user/repo") {
        hub_.put("/api/models/" + repo, {.body = json({{"id", repo}, {"sha", kRevision}}).dump(), .headers = ""});
        hub_.put("/api/models/" + repo + "/tree/" + kRevision, {.body = tree.dump(), .headers = ""});
    }

    static std::string file_path(const std::string & path, const std::string & repo = "user/repo") {
        return "/" + repo + "/resolve/" + kRevision + "/" + path;
    }

    std::string in_repo(const std::string & path) const { return folder_.file("hub/models--user--repo/" + path); }
    std::string snapshot(const std::string & path) const { return in_repo(std::string("snapshots/") + kRevision + "/" + path); }
    std::string blob(const std::string & bytes) const { return in_repo("blobs/" + sha256(bytes)); }

    static Outcome info(const std::vector<std::string> & more) {
        std::vector<std::string> arguments = {"info", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_pith(arguments);
    }

    // Runs it on the reference; the file that it opened.
    static std::string fetched(const std::vector<std::string> & more) {
        const Outcome outcome = info(more);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        const json object = json::parse(outcome.out, nullptr, false);
        return object.is_object() ? object["path"].get<std::string>() : "";
    }

    size_t n_file_requests() {
        size_t n = 0;
        for (const auto & request : hub_.requests()) { n += request.path.find("/resolve/") != std::string::npos ? 1 : 0; }
        return n;
    }

    TempFolder folder_;
    HubServer hub_;
    std::string small_;  // a model's bytes
};

TEST_F(Fetch, PutsAModelWhereHuggingFacesOwnToolsLook) {
    publish({{"model-Q4_0.gguf", "x"}, {"model-Q4_K_M.gguf", small_}, {"model-Q8_0.gguf", "y"}, {"mmproj-Q4_K_M.gguf", "z"}});
    EXPECT_EQ(fetched({"-hf", "user/repo"}), snapshot("model-Q4_K_M.gguf"));
    EXPECT_EQ(read_text_file(snapshot("model-Q4_K_M.gguf")), small_);
    EXPECT_EQ(fs::read_symlink(snapshot("model-Q4_K_M.gguf")).string(), "../../blobs/" + sha256(small_));
    EXPECT_EQ(read_text_file(in_repo("refs/main")), kRevision);
    EXPECT_FALSE(fs::exists(blob(small_) + ".incomplete"));
    EXPECT_EQ(n_file_requests(), 1U);
}

TEST_F(Fetch, OfWhatIsThereAsksOnlyWhatTheReferenceMeans) {
    publish({{"model-Q8_0.gguf", small_}});
    const Outcome first = info({"-hf", "user/repo"});
    EXPECT_NE(first.err.find("fetching model-Q8_0.gguf"), std::string::npos) << first.err;
    hub_.forget_requests();
    const Outcome second = info({"--hf-repo", "user/repo"});
    EXPECT_EQ(second.exit_code, 0) << second.err;
    EXPECT_EQ(second.err, "");
    EXPECT_EQ(n_file_requests(), 0U);
    hub_.forget_requests();
    EXPECT_EQ(fetched({"-hf", "user/repo:q8_0", "--offline"}), snapshot("model-Q8_0.gguf"));
    EXPECT_EQ(fetched({"-m", "user/repo:Q8_0"}), snapshot("model-Q8_0.gguf"));
    EXPECT_EQ(hub_.requests().size(), 0U);
    expect_error(info({"-hf", "user/repo:Q4_0", "--offline"}), kFailed, {"user/repo", "Q4_0", "it has Q8_0", "--offline"});
    expect_error(info({"-hf", "user/other", "--offline"}), kFailed, {"user/other", "not on this machine"});
}

TEST_F(Fetch, TakesTheQuantisationOrTheFileThatIsNamed) {
    const std::string other = read_text_file(write_model(folder_, {.seed = 2}, "other.gguf"));
    publish({{"folder/a b-Q4_K_M.gguf", small_}, {"model-Q6_K.gguf", other}});
    hub_.put(file_path("folder/a%20b-Q4_K_M.gguf"), {.body = small_, .headers = ""});
    EXPECT_EQ(fetched({"-hf", "user/repo:q6_k"}), snapshot("model-Q6_K.gguf"));
    EXPECT_EQ(fetched({"-hf", "user/repo", "-hff", "folder/a b-Q4_K_M.gguf"}), snapshot("folder/a b-Q4_K_M.gguf"));
    expect_error(info({"-hf", "user/repo:Q5_K_M"}), kFailed, {"user/repo", "'Q5_K_M'", "it has Q4_K_M, Q6_K"});
    expect_error(info({"-hf", "user/repo", "-hff", "no.gguf"}), kFailed, {"user/repo", "no.gguf", "--hf-file"});
}

TEST_F(Fetch, GetsAllPartsOfASplitModel) {
    const RandomModelSpec spec{.n_splits = 2};
    const std::string whole = write_model(folder_, spec, "big-Q8_0.gguf");
    std::vector<File> files;
    for (const std::string & path : random_model_files(spec, whole)) {
        files.insert(files.begin(), {"Q8_0/" + fs::path(path).filename().string(), read_text_file(path)});
    }
    ASSERT_EQ(files.size(), 2U);
    publish(files);
    EXPECT_EQ(fetched({"-hf", "user/repo"}), snapshot("Q8_0/big-Q8_0-00001-of-00002.gguf"));
    EXPECT_EQ(n_file_requests(), 2U);
    publish({files[1]});  // the first alone
    fs::remove_all(folder_.file("hub"));
    expect_error(info({"-hf", "user/repo"}), kFailed, {"user/repo", "not part 2 of 2"});
}

TEST_F(Fetch, GoesOnWhereAConnectionBroke) {
    publish({{"model-Q8_0.gguf", small_}});
    const size_t half = small_.size() / 2;
    hub_.put(file_path("model-Q8_0.gguf"), {.body = small_, .headers = "", .breaks_after = half});
    EXPECT_EQ(read_text_file(fetched({"-hf", "user/repo"})), small_);
    ASSERT_EQ(n_file_requests(), 2U);
    EXPECT_EQ(hub_.requests().back().range, "bytes=" + std::to_string(half) + "-");
}

TEST_F(Fetch, GoesOnWithWhatAnEarlierRunLeft) {
    publish({{"model-Q8_0.gguf", small_}});
    fs::create_directories(in_repo("blobs"));
    write_text(blob(small_) + ".incomplete", small_.substr(0, 1000));
    EXPECT_EQ(read_text_file(fetched({"-hf", "user/repo"})), small_);
    EXPECT_EQ(n_file_requests(), 1U);
    EXPECT_EQ(hub_.requests().back().range, "bytes=1000-");
}

TEST_F(Fetch, BeginsAgainWhereTheServerKnowsNoParts) {
    publish({{"model-Q8_0.gguf", small_}});
    hub_.put(file_path("model-Q8_0.gguf"), {.body = small_, .headers = "", .knows_ranges = false});
    fs::create_directories(in_repo("blobs"));
    write_text(blob(small_) + ".incomplete", small_.substr(0, 1000));
    EXPECT_EQ(read_text_file(fetched({"-hf", "user/repo"})), small_);
}

TEST_F(Fetch, AWholeFileOfAnEarlierRunIsCheckedAndNotFetched) {
    publish({{"model-Q8_0.gguf", small_}});
    fs::create_directories(in_repo("blobs"));
    write_text(blob(small_) + ".incomplete", small_);
    EXPECT_EQ(read_text_file(fetched({"-hf", "user/repo"})), small_);
    EXPECT_EQ(n_file_requests(), 0U);
}

TEST_F(Fetch, AnotherContentThanTheHubAnnouncedIsNotKept) {
    publish({{"model-Q8_0.gguf", small_}});
    std::string changed = small_;
    changed[changed.size() / 2] ^= 1;
    hub_.put(file_path("model-Q8_0.gguf"), {.body = changed, .headers = ""});
    const Outcome outcome = info({"-hf", "user/repo"});
    EXPECT_EQ(outcome.exit_code, kFailed);
    EXPECT_NE(outcome.err.find("sha256 is " + sha256(changed) + ", the hub says " + sha256(small_)), std::string::npos)
        << outcome.err;
    EXPECT_TRUE(fs::is_empty(in_repo("blobs")));
    EXPECT_FALSE(fs::exists(snapshot("model-Q8_0.gguf")));
    hub_.put(file_path("model-Q8_0.gguf"), {.body = small_ + "more", .headers = ""});
    EXPECT_NE(info({"-hf", "user/repo"}).err.find("is longer than the"), std::string::npos);
    EXPECT_TRUE(fs::is_empty(in_repo("blobs")));
}

TEST_F(Fetch, AShorterFileThanTheHubAnnouncedEnds) {
    publish({{"model-Q8_0.gguf", small_}});
    hub_.put(file_path("model-Q8_0.gguf"), {.body = small_.substr(1), .headers = ""});
    const Outcome outcome = info({"-hf", "user/repo"});
    EXPECT_EQ(outcome.exit_code, kFailed);
    const std::string message = "is shorter than the " + std::to_string(small_.size()) + " bytes";
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
    EXPECT_TRUE(fs::is_empty(in_repo("blobs")));
}

TEST_F(Fetch, WhatAnotherProcessFetchesIsLeftAlone) {
    publish({{"model-Q8_0.gguf", small_}});
    fs::create_directories(in_repo("blobs"));
    const std::string part = blob(small_) + ".incomplete";
    write_text(part, "the other's");
    const int other = open(part.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(flock(other, LOCK_EX), 0);
    const Outcome refused = info({"-hf", "user/repo"});
    EXPECT_EQ(refused.exit_code, kFailed);
    EXPECT_NE(refused.err.find("another process is fetching '" + part), std::string::npos) << refused.err;
    EXPECT_EQ(read_text_file(part), "the other's");
    EXPECT_EQ(n_file_requests(), 0U);
    close(other);
}

TEST_F(Fetch, SendsTheTokenToTheHubAndToNobodyElse) {
    publish({{"model-Q8_0.gguf", small_}});
    HubServer store;
    store.put("/store/1", {.body = small_, .headers = ""});
    hub_.put(file_path("model-Q8_0.gguf"), {.body = "", .status = 302, .headers = "Location: " + store.url() + "/store/1\r\n"});
    EXPECT_EQ(read_text_file(fetched({"-hf", "user/repo", "--hf-token", "hf_secret"})), small_);
    for (const auto & request : hub_.requests()) { EXPECT_EQ(request.token, "hf_secret") << request.path; }
    ASSERT_EQ(store.requests().size(), 1U);
    EXPECT_EQ(store.requests().front().token, "");
    fs::remove_all(folder_.file("hub"));
    hub_.forget_requests();
    setenv("HF_TOKEN", "hf_environment\n", 1);  // as `cat` of a file has it
    fetched({"-hf", "user/repo"});
    EXPECT_EQ(hub_.requests().front().token, "hf_environment");
}

TEST_F(Fetch, RedirectsWithoutEndEnd) {
    publish({{"model-Q8_0.gguf", small_}});
    const std::string path = file_path("model-Q8_0.gguf");
    hub_.put(path, {.body = "", .status = 302, .headers = "Location: " + path + "\r\n"});
    EXPECT_NE(info({"-hf", "user/repo"}).err.find("from one address to the next"), std::string::npos);
    hub_.put(path, {.body = "", .status = 302, .headers = "Location: file:///etc/passwd\r\n"});
    const Outcome outcome = info({"-hf", "user/repo"});
    EXPECT_EQ(outcome.exit_code, kFailed);
    EXPECT_NE(outcome.err.find("leads to 'file:///etc/passwd', no address of the web"), std::string::npos) << outcome.err;
}

TEST_F(Fetch, WhatTheHubRefusesIsOneLine) {
    expect_error(info({"-hf", "user/none"}), kFailed, {"'user/none'", "is not on " + hub_.url(), "404"});
    hub_.put("/api/models/user/gated", {.body = "{}", .status = 401, .headers = ""});
    expect_error(info({"-hf", "user/gated"}), kFailed, {"'user/gated'", "401", "--hf-token", "HF_TOKEN"});
    hub_.put("/api/models/user/gated", {.body = "{}", .status = 403, .headers = ""});
    expect_error(info({"-hf", "user/gated", "--hf-token", "t"}), kFailed, {"'user/gated'", "403", "does not open it"});
    hub_.put("/api/models/user/odd", {.body = "<html>", .headers = ""});
    expect_error(info({"-hf", "user/odd"}), kFailed, {"does not answer as Hugging Face does"});
    publish({{"README.txt", "x"}});
    expect_error(info({"-hf", "user/repo"}), kFailed, {"'user/repo'", "no GGUF model"});
}

TEST_F(Fetch, ReadsALongListPageByPage) {
    publish({{"model-Q8_0.gguf", small_}});
    const std::string tree = std::string("/api/models/user/repo/tree/") + kRevision;
    const json item = {{"type", "file"},
                       {"path", "model-Q8_0.gguf"},
                       {"size", small_.size()},
                       {"oid", kRevision},
                       {"lfs", {{"oid", sha256(small_)}, {"size", small_.size()}}}};
    hub_.put(tree, {.body = "[]", .headers = "Link: <" + hub_.url() + tree + "?cursor=2>; rel=\"next\"\r\n"});
    hub_.put(tree + "?cursor=2", {.body = json::array({item}).dump(), .headers = ""});
    EXPECT_EQ(fetched({"-hf", "user/repo"}), snapshot("model-Q8_0.gguf"));
}

TEST_F(Fetch, WithoutRoomSaysHowMuchIsWantedBeforeItBegins) {
    const json item = {{"type", "file"},
                       {"path", "model-Q8_0.gguf"},
                       {"size", uint64_t{1} << 60},
                       {"oid", kRevision},
                       {"lfs", {{"oid", sha256("x")}, {"size", uint64_t{1} << 60}}}};
    publish_tree(json::array({item}));
    expect_error(info({"-hf", "user/repo"}), kFailed, {"needs 1048576.0 TiB", "are free", "HF_HUB_CACHE"});
    EXPECT_EQ(n_file_requests(), 0U);
}

TEST_F(Fetch, WithoutAnAnswerTakesWhatIsThere) {
    publish({{"model-Q8_0.gguf", small_}});
    fetched({"-hf", "user/repo"});
    hub_.stop();
    const Outcome outcome = info({"-hf", "user/repo"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("does not answer"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("taking what is there: '" + snapshot("model-Q8_0.gguf")), std::string::npos) << outcome.err;
    expect_error(info({"-hf", "user/other"}), kFailed, {hub_.url(), "does not answer"});
}

TEST_F(Fetch, CtrlCKeepsWhatCame) {
    publish({{"model-Q8_0.gguf", small_}});
    hub_.put(file_path("model-Q8_0.gguf"), {.body = small_, .headers = "", .pause_ms = 20});
    const std::string part = blob(small_) + ".incomplete";
    const pid_t pid = fork();
    if (pid == 0) {
        const int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, STDOUT_FILENO);
        dup2(open(folder_.file("err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
        execl(PITH_PROGRAM, PITH_PROGRAM, "info", "-hf", "user/repo", nullptr);
        _exit(127);
    }
    std::error_code error;
    for (int i = 0; i < 3000 && (!fs::exists(part) || fs::file_size(part, error) == 0); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(pid, SIGINT);
    int state = 0;
    waitpid(pid, &state, 0);
    ASSERT_TRUE(WIFEXITED(state));
    EXPECT_EQ(WEXITSTATUS(state), 130);
    EXPECT_NE(read_text_file(folder_.file("err")).find("are kept: the same command goes on there"), std::string::npos);
    const auto kept = fs::file_size(part, error);
    ASSERT_GT(kept, 0U);
    ASSERT_LT(kept, small_.size());
    hub_.put(file_path("model-Q8_0.gguf"), {.body = small_, .headers = ""});
    EXPECT_EQ(read_text_file(fetched({"-hf", "user/repo"})), small_);
    EXPECT_EQ(hub_.requests().back().range, "bytes=" + std::to_string(kept) + "-");
}

TEST_F(Fetch, WithoutLibcurlIsRefusedAndTheRestWorks) {
    setenv("PITH_LIBCURL", folder_.file("none.so").c_str(), 1);
    expect_error(info({"-hf", "user/repo"}), kFailed, {"libcurl", "-m"});
    EXPECT_EQ(info({"-m", folder_.file("small.gguf")}).exit_code, 0);
}

TEST_F(Fetch, MistakesAreUsageErrors) {
    expect_error(info({"-hf", "repo"}), kUsage, {"'repo'", "USER/REPO"});
    expect_error(info({"-hf", "../x"}), kUsage, {"'../x'"});
    expect_error(info({"-hf", "user/repo", "-m", folder_.file("small.gguf")}), kUsage, {"--model", "--hf-repo"});
    expect_error(run_pith({"run", "-p", "x", "-hff", "a.gguf"}), kUsage, {"--hf-file", "--hf-repo"});
    expect_error(info({"-m", folder_.file("small.gguf"), "-hff", "a.gguf"}), kUsage, {"--hf-file", "--hf-repo"});
}

TEST_F(Fetch, RunTakesItByLlamaCppsShortFlags) {
    publish({{"model-Q8_0.gguf", small_}});
    const Outcome outcome =
        run_pith({"run", "-hfr", "user/repo", "-hff", "model-Q8_0.gguf", "-hft", "t", "-p", "Once", "-n", "2", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["model"], snapshot("model-Q8_0.gguf"));
}

}  // namespace
}  // namespace pith::testing::fetch_test
