// cache_test.cpp - contexts in files, from the command line: compress and ask, save and go on, look and verify.
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"
#include "text/tiny_vocabulary.h"

namespace pith::testing::cache_test {
namespace {

using Json = nlohmann::json;

class CacheFiles : public ::testing::Test {
protected:
    void SetUp() override {
        model_ = write_model(folder_);
        book_ = folder_.file("book.txt");
        file_ = folder_.file("book.pith");
        write_text(book_, words(400) + "\n");
    }
    Outcome compress(const std::vector<std::string> & more = {}) const {
        std::vector<std::string> all = {"compress",        "-m",       model_, "-f", book_, "-o", file_, "--policy",
                                        "snapkv:window=8", "--budget", "64",   "-t", "1"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    }
    static Json answers(std::vector<std::string> all, const std::vector<std::string> & more) {
        for (const char * flag : {"-n", "12", "-t", "1", "--temp", "0", "--ignore-eos", "--json"}) { all.emplace_back(flag); }
        all.insert(all.end(), more.begin(), more.end());
        const Outcome outcome = run_pith(all);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return Json::parse(outcome.out, nullptr, false);
    }

    // Under `auto`.
    Outcome compress_plainly(const std::vector<std::string> & more) const {
        std::vector<std::string> all = {"compress", "-m",       model_, "-f", book_, "-o",
                                        file_,      "--budget", "64",   "-t", "1",   "--json"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    }
    Json compressed(const std::vector<std::string> & more) const {
        const Outcome outcome = compress_plainly(more);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        Json json = Json::parse(outcome.out, nullptr, false);
        EXPECT_EQ(outcome.err.find("read twice") != std::string::npos, json.contains("reread_s")) << outcome.err;
        return json;
    }

    TempFolder folder_;
    std::string model_;
    std::string book_;
    std::string file_;
};

// `ulimit -f`, and LimitFSIZE of services: a signal that ends the process, unless it is ignored.
TEST_F(CacheFiles, ALimitOnTheSizeOfFilesIsAWriteThatFails) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 4096;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Outcome outcome = compress({"-q"});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("'" + file_ + "' cannot be written: File too large"), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(file_));
}

// Compressed before anybody knows the question, by a policy that takes the newest tokens for one: a line says so.
TEST_F(CacheFiles, APolicyThatDoesNotFitAQuestionAskedLaterIsTold) {
    const std::string told = "which will not be the question";
    const auto count = [&](const std::string & err) { return err.find(told) == std::string::npos ? 0 : 1; };
    const Outcome unseen = compress();
    EXPECT_EQ(count(unseen.err), 1) << unseen.err;
    EXPECT_NE(unseen.err.find("keydiff+ada:alpha=0"), std::string::npos) << unseen.err;
    EXPECT_EQ(count(compress({"-p", "Who is long?"}).err), 0);
    EXPECT_EQ(count(compress({"--policy", "keydiff"}).err), 0);
    const auto run = [&](const std::vector<std::string> & more) {
        std::vector<std::string> all = {"run", "-m", model_, "-f", book_, "-p", "Who?", "-n", "2", "-t", "1", "--budget", "64"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all).err;
    };
    EXPECT_EQ(count(run({"--policy", "tova", "--question-later"})), 1);
    EXPECT_EQ(count(run({"--policy", "tova"})), 0);
    EXPECT_EQ(count(run({"--policy", "streaming", "--question-later"})), 0);
    EXPECT_EQ(count(run({"--question-later"})), 0) << "auto chooses by that";
}

// Where nobody says what will be asked, or what to keep, nothing is lost: what is evicted stays in the file, the text is read
// as if nothing were, and so are questions.
TEST_F(CacheFiles, WithoutAQuestionWhatIsEvictedStaysInTheFile) {
    const Json plain = compressed({"--chunk", "64"});
    EXPECT_EQ(plain["policy"], "keydiff+ada:alpha=0");
    EXPECT_GT(plain["evicted_entries"], 0);
    EXPECT_EQ(plain["cold_entries"], plain["evicted_entries"]);
    EXPECT_GT(plain["look_back_s"], 0.0);
    const Json asked = answers({"ask", file_}, {"-p", "Who is long?"});
    EXPECT_GT(asked["look_back_s"], 0.0) << "the file remembers it";
    EXPECT_GT(asked["returned_entries"], 0);
    const Json info = Json::parse(run_pith({"cache", "info", file_, "--json"}).out);
    EXPECT_EQ(info["cold"], "f16");  // heads of this size are in no blocks of q4_0
    EXPECT_EQ(info["cold_entries"], plain["cold_entries"]);
    EXPECT_TRUE(info["look_back"]);
    const Outcome told = run_pith({"cache", "info", file_});
    EXPECT_NE(told.out.find("in the file as f16"), std::string::npos) << told.out;
    EXPECT_EQ(told.out.find("gone"), std::string::npos) << told.out;
    const Json bounded = compressed({"--chunk", "64", "--cold-size", "16K"});
    EXPECT_NE(run_pith({"cache", "info", file_}).out.find(" are gone"), std::string::npos);
    EXPECT_GT(bounded["cold_lost_entries"], 0);
    EXPECT_EQ(bounded["cold_entries"].get<int64_t>() + bounded["cold_lost_entries"].get<int64_t>(), plain["evicted_entries"]);
    for (const std::vector<std::string> & more : std::vector<std::vector<std::string>>{{"--cold", "none"},
                                                                                       {"--effort", "full"},
                                                                                       {"--effort", "quick"},
                                                                                       {"-p", "Who is long?"},
                                                                                       {"--policy", "keydiff"}}) {
        EXPECT_FALSE(compressed(more).contains("cold_entries")) << more[0] << " " << more[1];
        std::vector<std::string> looking = more;
        looking.emplace_back("--look-back");
        expect_error(compress_plainly(looking), 1, {"--look-back", "--cold"});
    }
    EXPECT_TRUE(Json::parse(run_pith({"cache", "info", file_, "--json"}).out)["cold"].is_null());
    EXPECT_NE(run_pith({"cache", "info", file_}).out.find("and gone"), std::string::npos);
    const Json chosen = compressed({"--policy", "keydiff", "--cold", "f16"});
    EXPECT_EQ(chosen["cold_entries"], chosen["evicted_entries"]);
    EXPECT_FALSE(chosen.contains("look_back_s") && chosen["look_back_s"].get<double>() > 0);
}

// Where it is lost, the text is read twice and that is told, before and in the ledger.
TEST_F(CacheFiles, WhereWhatIsEvictedIsLostTheTextIsReadTwiceUnlessToldNotTo) {
    EXPECT_FALSE(compressed({"--cold", "f16"}).contains("reread_s"));
    EXPECT_GT(compressed({"--cold", "f16", "--effort", "full"})["reread_s"], 0.0);
    EXPECT_GT(compressed({"--effort", "full"})["reread_s"], 0.0);
    const Json twice = compressed({"--cold", "none"});
    EXPECT_EQ(twice["policy"], "reread:group=mean+global:normalise=off");
    EXPECT_GT(twice["reread_s"], 0.0);
    EXPECT_EQ(Json::parse(run_pith({"cache", "info", file_, "--json"}).out)["policy"], twice["policy"]);
    EXPECT_EQ(answers({"ask", file_}, {"-p", "Who is long?"})["reread_s"].is_null(), true) << "asking reads nothing again";
    EXPECT_EQ(compressed({"--effort", "quick"})["policy"], "keydiff+ada:alpha=0");
    EXPECT_EQ(compressed({"-p", "Who is long?"})["policy"], "vmax:pool=avg45:pool_over=before+entropy");
    expect_error(compress_plainly({"--effort", "much"}), 2, {"--effort", "much"});
    expect_error(compress_plainly({"--effort", "full", "-p", "Who?"}), 2, {"--effort full", "-p"});
    expect_error(compress_plainly({"--effort", "full", "--policy", "snapkv"}), 2, {"--effort full", "--policy"});
}

// As much as the text needs: the budget is a ceiling, and what stayed is told. Nothing foretells it here, so the text is read
// twice, or that is refused.
TEST_F(CacheFiles, UnderAToleranceAFileKeepsWhatIsLookedUp) {
    const auto compressed = [&](const std::vector<std::string> & more) {
        std::vector<std::string> all = {"compress", "-m", model_, "-f", book_, "-o", file_, "-t", "1", "--json"};
        all.insert(all.end(), more.begin(), more.end());
        const Outcome outcome = run_pith(all);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        EXPECT_NE(outcome.err.find("read twice"), std::string::npos) << outcome.err;
        return Json::parse(outcome.out, nullptr, false);
    };
    const Json careful = compressed({"--tolerance", "0.5%"});
    EXPECT_EQ(careful["policy"], "reread:group=mean+threshold:tau=0.005");
    const Json careless = compressed({"--tolerance", "0.05"});
    EXPECT_GT(careful["kept_entries"], careless["kept_entries"]);
    EXPECT_GT(careless["evicted_entries"], 0);
    EXPECT_FALSE(answers({"ask", file_}, {"-p", "Who is long?"})["text"].is_null());
    const Json bounded = compressed({"--tolerance", "0", "--budget", "64"});
    EXPECT_EQ(bounded["kept_entries"].get<int64_t>() % 64, 0);
    EXPECT_EQ(bounded["policy"], "reread:group=mean+threshold:tau=0");
    expect_error(run_pith({"compress", "-m", model_, "-f", book_, "-o", file_, "--tolerance", "1%", "--effort", "quick"}), 1,
                 {"pith calibrate importance", "reread"});
}

// A session whose policy reads again goes on from its file, in a run and in a chat, and `run` takes such a policy by name.
TEST_F(CacheFiles, APolicyThatReadsAgainGoesOnFromItsFile) {
    const auto of_file = [&](const std::vector<std::string> & more) {
        const Json answer = answers({"run", "-m", model_, "--cache", file_, "-p", "Who?"}, more);
        return answer.dump();
    };
    EXPECT_EQ(compress({"--policy", "kvzip"}).exit_code, 0);
    EXPECT_NE(of_file({}).find("kvzip"), std::string::npos);
    const Json run = answers({"run", "-m", model_, "-f", book_, "-p", "Who?", "--policy", "kvzip", "--budget", "64"}, {});
    EXPECT_EQ(run["policy"], "kvzip");
    EXPECT_GT(run["reread_s"], 0.0);
}

// What a window policy's file holds more than one without evidence: its window's queries, and nothing besides.
TEST_F(CacheFiles, AFileIsLargerByTheQueriesOfThePolicysWindow) {
    const auto info = [&](const std::string & policy) {
        EXPECT_EQ(compress({"--policy", policy}).exit_code, 0);
        return Json::parse(run_pith({"cache", "info", file_, "--json"}).out);
    };
    const Json plain = info("streaming");
    EXPECT_EQ(run_pith({"cache", "info", file_}).out.find("newest queries"), std::string::npos);
    const Json window = info("snapkv:window=8");
    const std::string text = run_pith({"cache", "info", file_}).out;
    EXPECT_NE(text.find("the 8 newest queries of every layer"), std::string::npos) << text;
    const RandomModelSpec spec;
    const size_t of_query = static_cast<size_t>(spec.n_heads) * static_cast<size_t>(spec.head_dim) * sizeof(float);
    const size_t queries = static_cast<size_t>(spec.n_layers) * 8 *
                           (of_query + sizeof(uint64_t) + sizeof(int32_t));  // a list each, and its position
    for (const char * section : {"rows", "lanes", "logits", "tokens"}) {
        EXPECT_EQ(window["sections"][section], plain["sections"][section]) << section;
    }
    EXPECT_EQ(window["sections"]["evidence"].get<size_t>() - plain["sections"]["evidence"].get<size_t>(), queries);
}

TEST_F(CacheFiles, ATextThatWasCompressedIsAskedInAnotherProcess) {
    const Outcome made = compress();
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_NE(made.out.find("book.pith: "), std::string::npos) << made.out;
    const Json both = answers({"ask", file_}, {"-p", "Who is long?", "-p", "Where?"});
    EXPECT_EQ(both["budget_entries"], 64);
    EXPECT_EQ(both["answers"].size(), 2U);
    // Each question is asked of the file's state, whatever was asked before.
    const Json second = answers({"run", "--cache", file_}, {"-p", "Where?"});
    EXPECT_EQ(second["answers"][0]["tokens"], both["answers"][1]["tokens"]);
    EXPECT_LT(second["n_prompt"], 20);  // the question alone
    EXPECT_GT(second["kept_entries"], 0);
    // As if it had never been in a file: the same two questions behind the same compressed context.
    const Json at_once =
        answers({"run", "-m", model_, "-f", book_, "--policy", "snapkv:window=8", "--budget", "64", "--question-later"},
                {"-p", "Who is long?", "-p", "Where?"});
    EXPECT_EQ(at_once["answers"][0]["tokens"], both["answers"][0]["tokens"]);
    EXPECT_EQ(at_once["answers"][1]["tokens"], both["answers"][1]["tokens"]);
}

// Compressed without a question, and once more for each: the file stays as it was, and what another question left is not there.
TEST_F(CacheFiles, AQuestionCompressesACopyOnceMoreInItsSight) {
    ASSERT_EQ(compress().exit_code, 0);
    const std::vector<char> before = read_file(file_);
    const std::vector<std::string> ask = {"ask", file_, "--ask-budget", "24", "--ask-policy", "snapkv:window=8"};
    const Json both = answers(ask, {"-p", "Who is long?", "-p", "Where?"});
    EXPECT_EQ(both["budget_entries"], 24);
    EXPECT_EQ(both["policy"], "snapkv:window=8");
    const Json second = answers(ask, {"-p", "Where?"});
    EXPECT_EQ(second["answers"][0]["tokens"], both["answers"][1]["tokens"]);
    EXPECT_LT(second["kept_entries"], answers({"ask", file_}, {"-p", "Where?"})["kept_entries"]);
    EXPECT_EQ(answers({"ask", file_, "--ask-budget", "40"}, {"-p", "Where?"})["budget_entries"], 40);  // auto
    EXPECT_EQ(read_file(file_), before);
    expect_error(run_pith({"ask", file_, "-p", "Who?", "--ask-policy", "tova"}), 2, {"--ask-budget"});
    expect_error(run_pith({"ask", file_, "-p", "Who?", "--ask-budget", "many"}), 2, {"many"});
    expect_error(run_pith({"run", "-m", model_, "-p", "Who?", "--ask-budget", "9"}), 2, {"--ask-budget", "pith ask"});
    expect_error(run_pith({"ask", file_, "-p", "Who?", "--ask-budget", "24", "--ask-policy", "h2o"}), 1, {"h2o"});
}

// The template that a text was compressed in is around its questions, too.
TEST_F(CacheFiles, WhatWasEvictedComesBackForTheQuestionThatLooksForIt) {
    ASSERT_EQ(compress().exit_code, 0);
    const auto asked = [&](const std::vector<std::string> & more) {
        return answers({"ask", file_, "-p", "Who is long?", "-p", "Who is short?"}, more);
    };
    EXPECT_FALSE(asked({})["answers"][0].contains("kv_missed"));
    const Outcome cold = compress({"--cold", "f16", "--json"});
    ASSERT_EQ(cold.exit_code, 0) << cold.err;
    const Json made = Json::parse(cold.out);
    EXPECT_EQ(made["cold_entries"], made["evicted_entries"]);
    EXPECT_TRUE(Json::parse(run_pith({"cache", "info", file_, "--json"}).out)["sections"].contains("cold-rows"));
    EXPECT_EQ(run_pith({"cache", "verify", file_, "-m", model_}).exit_code, 0);
    const Json repaired = asked({});
    const Json told = asked({"--no-repair"});
    for (int i = 0; i < 2; ++i) {
        EXPECT_GT(repaired["answers"][i]["kv_missed"], 0.0);
        EXPECT_LT(repaired["answers"][i]["kv_missed"], 1.0);
        EXPECT_EQ(repaired["answers"][i]["kv_missed"], told["answers"][i]["kv_missed"]) << "each finds the file as it was";
        EXPECT_GT(repaired["answers"][i]["returned_entries"], 0);
        EXPECT_EQ(told["answers"][i]["returned_entries"], 0);
    }
    EXPECT_GT(repaired["returned_entries"], 0);
    EXPECT_EQ(told["returned_entries"], 0);
    EXPECT_EQ(repaired["kept_entries"], told["kept_entries"]);
    expect_error(compress({"--cold", "q9_0"}), 2, {"--cold", "q9_0"});
    // Without a file, several at a time.
    const Json together = answers({"run", "-m", model_, "-f", book_, "--budget", "64", "--cold", "f16", "--parallel", "2"},
                                  {"-p", "Who?", "-p", "Where?"});
    EXPECT_GT(together["returned_entries"], 0);
}

TEST_F(CacheFiles, AnotherChatTemplateGoesWithTheFile) {
    const std::string jinja =
        "{% for m in messages %}[{{ m.role }}] {{ m.content }} . {% endfor %}{{ 'so:' if add_generation_prompt }}";
    const Outcome made = compress({"--chat-template", jinja});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const Json info = Json::parse(run_pith({"cache", "info", file_, "--json"}).out);
    EXPECT_EQ(info["notes"]["chat-template"], jinja);
    const Json asked = answers({"ask", file_}, {"-p", "Where?"});
    const Json at_once = answers({"run", "-m", model_, "-f", book_, "--policy", "snapkv:window=8", "--budget", "64",
                                  "--question-later", "--chat-template", jinja},
                                 {"-p", "Where?"});
    EXPECT_EQ(asked["answers"][0]["tokens"], at_once["answers"][0]["tokens"]);
    const Json with_another = answers({"ask", file_}, {"-p", "Where?", "--chat-template", "chatml"});
    EXPECT_NE(with_another["n_prompt"], asked["n_prompt"]);
}

TEST_F(CacheFiles, KnownQuestionsAreInSight) {
    const Outcome later = compress({"--json"});
    const Outcome known = compress({"-p", "Who is long?", "--json"});
    ASSERT_EQ(known.exit_code, 0) << known.err;
    EXPECT_NE(Json::parse(known.out)["schedule"], Json::parse(later.out)["schedule"]);
    EXPECT_EQ(Json::parse(known.out)["kv_full_bytes"], Json::parse(later.out)["kv_full_bytes"]);
}

TEST_F(CacheFiles, APromptAndItsAnswerGoOn) {
    const std::string first = folder_.file("first.pith");
    const Json begun = answers({"run", "-m", model_, "--policy", "h2o:recent=4", "--budget", "48", "--raw"},
                               {"-p", "The river is long and the hill is far.", "--save-cache", first});
    const Json info = Json::parse(run_pith({"cache", "info", first, "--json"}).out);
    EXPECT_EQ(info["n_tokens"], begun["n_prompt"].get<int>() + begun["n_generated"].get<int>());
    EXPECT_EQ(info["policy"], "h2o:recent=4");
    const Json next = answers({"ask", first}, {"-p", " And then?", "--save-cache", first});
    EXPECT_GT(next["kv_full_bytes"], begun["kv_full_bytes"]);
    const Json grown = Json::parse(run_pith({"cache", "info", first, "--json"}).out);
    EXPECT_GT(grown["n_tokens"], info["n_tokens"]);
    EXPECT_EQ(grown["notes"]["turns"], "2");
    EXPECT_FALSE(std::filesystem::exists(first + ".tmp"));
}

TEST_F(CacheFiles, SayWhatTheyHoldAndWhetherTheyAreWhole) {
    ASSERT_EQ(compress().exit_code, 0);
    const Outcome info = run_pith({"cache", "info", file_});
    EXPECT_EQ(info.exit_code, 0);
    for (const char * text : {"snapkv:window=8", "budget 64", "sections", "64 kept per head on average"}) {
        EXPECT_NE(info.out.find(text), std::string::npos) << text << "\n" << info.out;
    }
    EXPECT_EQ(run_pith({"cache", "verify", file_}).exit_code, 0);
    EXPECT_EQ(run_pith({"cache", "verify", file_, "-m", model_}).exit_code, 0);
    std::vector<char> bytes = read_file(file_);
    bytes[bytes.size() / 2] ^= 4;
    const std::string damaged = folder_.file("damaged.pith");
    write_file(damaged, bytes);
    for (const std::vector<std::string> & command :
         {std::vector<std::string>{"cache", "verify", damaged}, {"cache", "info", damaged}, {"ask", damaged, "-p", "Who?"}}) {
        expect_error(run_pith(command), 1, {"damaged.pith", "is damaged"});
    }
    const Outcome list = run_pith({"cache", "list", folder_.file("")});
    EXPECT_EQ(list.exit_code, 0);
    EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 2);
    EXPECT_EQ(Json::parse(run_pith({"cache", "list", folder_.file(""), "--json"}).out).size(), 2U);
    expect_error(run_pith({"cache", "list", folder_.file("nowhere")}), 1, {"nowhere"});
}

TEST_F(CacheFiles, PruneRemovesTheLeastRecentlyUsedStatesAndNothingElse) {
    ASSERT_EQ(compress().exit_code, 0);
    const auto n_bytes = std::filesystem::file_size(file_);
    std::vector<std::string> states;
    for (const char digit : {'a', 'b', 'c'}) {
        states.push_back(folder_.file(std::string("000000000000000") + digit + "-400-0123456789abcdef.pith"));
        std::filesystem::copy_file(file_, states.back());
    }
    const auto now = std::filesystem::last_write_time(states[0]);
    std::filesystem::last_write_time(states[1], now - std::chrono::hours(1));
    const auto prune = [&](const std::string & size) {
        return run_pith({"cache", "prune", folder_.file(""), "--size", size, "--json"});
    };
    EXPECT_EQ(Json::parse(prune(std::to_string(2 * n_bytes)).out)["removed"], 1);
    EXPECT_FALSE(std::filesystem::exists(states[1]));
    EXPECT_EQ(Json::parse(prune("1G").out)["states"], 2);
    const Json all = Json::parse(prune("0").out);
    EXPECT_EQ(all["removed"], 2);
    EXPECT_EQ(all["bytes"], 0);
    EXPECT_TRUE(std::filesystem::exists(file_));
    expect_error(prune("20%"), 2, {"--size", "20%"});
    expect_error(run_pith({"cache", "prune", folder_.file("nowhere"), "--size", "1G"}), 1, {"nowhere"});
    EXPECT_FALSE(std::filesystem::exists(folder_.file("nowhere")));
}

TEST_F(CacheFiles, OfAnotherModelOrNoneAreRefusedInOneLine) {
    ASSERT_EQ(compress().exit_code, 0);
    const std::string moved = folder_.file("moved.gguf");
    std::filesystem::rename(model_, moved);
    expect_error(run_pith({"ask", file_, "-p", "Who?"}), 1, {"no longer", "-m"});
    const Outcome found = run_pith({"ask", file_, "-m", moved, "-p", "Who?", "-n", "2"});
    EXPECT_EQ(found.exit_code, 0) << found.err;
    std::vector<char> bytes = read_file(moved);
    bytes[bytes.size() - 5] ^= 1;
    write_file(model_, bytes);
    expect_error(run_pith({"ask", file_, "-p", "Who?"}), 1, {"another model: weights"});
    expect_error(run_pith({"ask", folder_.file("none.pith"), "-p", "Who?"}), 1,
                 {"cannot open cache file '" + folder_.file("none.pith") + "'"});
    expect_error(run_pith({"cache", "info", folder_.file("")}), 1, {"is a folder: give a cache file"});
    ASSERT_EQ(mkfifo(folder_.file("pipe.pith").c_str(), 0600), 0);
    expect_error(run_pith({"cache", "info", folder_.file("pipe.pith")}), 1, {"no regular file: give a cache file"});
    expect_error(run_pith({"ask", moved, "-p", "Who?"}), 1, {"is no cache file"});
    expect_error(run_pith({"run", "--cache", file_, "-p", "Who?", "--budget", "12"}), 2, {"--cache", "--budget"});
    expect_error(run_pith({"run", "-m", moved, "-p", "a", "-p", "b", "--save-cache", file_}), 2, {"--save-cache"});
    expect_error(run_pith({"run", "-m", moved, "-p", "a", "--save-cache", folder_.file("no/such/file")}), 1, {"no/such/file"});
    expect_error(compress({"-o", folder_.file("no/such/file"), "-m", moved}), 1, {"no/such/file"});
}

TEST_F(CacheFiles, AreNotWrittenOverFilesOfOtherKinds) {
    const std::vector<char> before = read_file(book_);
    expect_error(compress({"-o", book_}), 1, {"book.txt' is there, and is no cache file"});
    expect_error(run_pith({"run", "-m", model_, "-p", "a", "--save-cache", model_}), 1, {"is no cache file"});
    expect_error(compress({"-o", "/dev/null"}), 1, {"/dev/null' is there, and is no cache file"});
    EXPECT_EQ(read_file(book_), before);
    // Nor over one that lies where it would until it is whole; said before anything is read.
    write_text(file_ + ".tmp", "somebody's notes");
    const std::string no_model = folder_.file("no.gguf");
    for (const auto & refused :
         {compress({"-m", no_model}), run_pith({"run", "-m", no_model, "-p", "a", "--save-cache", file_})}) {
        expect_error(refused, 1, {"book.pith.tmp', where it would lie until it is whole, is another file"});
    }
    EXPECT_EQ(read_file(file_ + ".tmp").size(), 16U);
    std::filesystem::remove(file_ + ".tmp");
    write_text(file_, "");
    EXPECT_EQ(compress().exit_code, 0);  // an empty one, as mktemp makes it
    EXPECT_EQ(compress().exit_code, 0);
}

TEST_F(CacheFiles, AreWrittenWhereALinkPoints) {
    const std::string link = folder_.file("link.pith");
    std::filesystem::create_symlink("book.pith", link);
    ASSERT_EQ(compress({"-o", link}).exit_code, 0);
    ASSERT_TRUE(std::filesystem::is_symlink(link));
    const std::vector<char> first = read_file(file_);
    ASSERT_FALSE(first.empty());
    ASSERT_EQ(compress({"-o", link, "--budget", "32"}).exit_code, 0);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_LT(read_file(file_).size(), first.size());
    EXPECT_EQ(run_pith({"cache", "verify", link, "-m", model_}).exit_code, 0);
}

TEST_F(CacheFiles, AreNotMadeOfWhatCannotHaveBeenMeant) {
    const Json made = compressed({});
    const std::string less = std::to_string(made["n_prompt"].get<int64_t>() - 1);
    std::filesystem::remove(file_);
    expect_error(compress_plainly({"-c", less}), 1, {"--ctx-size is " + less});
    expect_error(compress_plainly({"-p", ""}), 1, {"-p is empty"});
    expect_error(compress_plainly({"--pin-system"}), 2, {"--pin-system", "--system-prompt"});
    // llama.cpp's flags are those of `pith run`: none is taken for -f.
    EXPECT_EQ(compress_plainly({"-fa", "on"}).exit_code, 0);
    expect_error(compress_plainly({"-b", "512"}), 2, {"-b", "--chunk"});
    expect_error(run_pith({"ask", file_, "-p", "Who?", "--budget", "5%"}), 2, {"--budget", "did you mean '--ask-budget'?"});
    expect_error(run_pith({"ask", file_, "-p", "Who?", "-y"}), 2, {"'-y'", "--help"});
}

// Questions of more than a chunk guide nothing where the text is read in chunks: that is said.
TEST_F(CacheFiles, SayWhereTheirQuestionsWereNotInSight) {
    std::string question;
    for (int i = 0; i < 40; ++i) { question += "Who is long? "; }
    const std::vector<std::string> more = {"--prefill", "chunked", "--chunk", "32", "-p", question};
    EXPECT_EQ(compressed(more)["questions_in_sight"], false);
    EXPECT_NE(compress_plainly(more).err.find("compressed without its questions"), std::string::npos);
    EXPECT_EQ(compressed({"--prefill", "chunked", "--chunk", "32", "-p", "Who?"})["questions_in_sight"], true);
    EXPECT_FALSE(compressed({}).contains("questions_in_sight"));
}

TEST_F(CacheFiles, CountTowardsTheContextSize) {
    ASSERT_EQ(compress().exit_code, 0);
    const int n = Json::parse(run_pith({"cache", "info", file_, "--json"}).out)["n_tokens"];
    expect_error(run_pith({"ask", file_, "-p", "Who?", "-c", std::to_string(n)}), 1, {"--ctx-size is " + std::to_string(n)});
    EXPECT_EQ(run_pith({"ask", file_, "-p", "Who?", "-c", std::to_string(n + 40), "-n", "4"}).exit_code, 0);
}

}  // namespace
}  // namespace pith::testing::cache_test
