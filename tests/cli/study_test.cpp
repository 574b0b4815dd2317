// study_test.cpp - `pith study` as a user runs it: every command it lists is there, and it goes around what cannot be run.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/run_process.h"

namespace pith::testing::study_test {
namespace {

using Json = nlohmann::json;

class Study : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        folder_ = new TempFolder;
        RandomModelSpec spec;
        spec.n_ctx_train = 4096;
        model_ = write_model(*folder_, spec);
    }
    static void TearDownTestSuite() {
        delete folder_;
        folder_ = nullptr;
    }

    static Outcome study(std::vector<std::string> words) {
        words.insert(words.begin(), "study");
        words.insert(words.end(), {"-m", model_});
        return run_pith(words);
    }
    static std::string path(const std::string & name) { return folder_->file(name); }

    static inline TempFolder * folder_ = nullptr;
    static inline std::string model_;
};

std::vector<std::string> words_of(const std::string & text) {
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;) { words.push_back(word); }
    return words;
}

// The help names the option, and not just a longer one that begins like it.
bool has_option(const std::string & help, const std::string & option) {
    for (size_t at = help.find(option); at != std::string::npos; at = help.find(option, at + 1)) {
        const char next = at + option.size() < help.size() ? help[at + option.size()] : ' ';
        const char before = at > 0 ? help[at - 1] : ' ';
        if ((before == ' ' || before == ',') && (next == ' ' || next == ',' || next == '\n')) { return true; }
    }
    return false;
}

TEST_F(Study, ListsOnlyCommandsThatAreThere) {
    const Outcome listed = run_pith({"study", "--list", "--json"});
    ASSERT_EQ(listed.exit_code, 0) << listed.err;
    std::map<std::string, std::string> help;  // by command
    std::set<std::string> parts;              // of scripts/train_gates
    for (const Json & paper : Json::parse(listed.out)) {
        for (const Json & item : paper["items"]) {
            for (const std::string command : item["commands"]) {
                const std::vector<std::string> words = words_of(command);
                ASSERT_GE(words.size(), 2U) << command;
                if (words[0] == "scripts/train_gates") {
                    parts.insert(words.begin() + 1, words.end());
                    continue;
                }
                ASSERT_EQ(words[0], "pith") << command;
                const bool two_words = words[1] == "train" || words[1] == "calibrate";
                std::vector<std::string> ask(words.begin() + 1, words.begin() + (two_words ? 3 : 2));
                std::string & known = help[words[1] + (two_words ? " " + words[2] : "")];
                if (known.empty()) {
                    ask.emplace_back("--help");
                    const Outcome shown = run_pith(ask);
                    ASSERT_EQ(shown.exit_code, 0) << command << ": " << shown.err;
                    known = shown.out;
                }
                for (const std::string & word : words) {
                    if (word.starts_with("-")) { EXPECT_TRUE(has_option(known, word)) << command << ": no " << word; }
                }
            }
        }
    }
    EXPECT_GE(help.size(), 5U);
    const std::string script = read_text_file(PITH_SOURCE_DIR "/scripts/train_gates");
    EXPECT_GE(parts.size(), 5U);
    for (const std::string & part : parts) { EXPECT_NE(script.find(part), std::string::npos) << part; }
}

TEST_F(Study, ListsEveryTableWithItsCommandOrAReason) {
    const Outcome one = run_pith({"study", "laprox", "--list"});
    ASSERT_EQ(one.exit_code, 0) << one.err;
    for (const char * words : {"Table 15", "Figure 6", "pith study laprox --part window", "none: about the data",
                               "laprox:window=64", "pith inspect --policy laprox"}) {
        EXPECT_NE(one.out.find(words), std::string::npos) << words;
    }
}

TEST_F(Study, PrintsThePapersNumbersWithoutRunning) {
    const Outcome some = run_pith({"study", "caote", "--part", "longbench", "--list", "--paper"});
    ASSERT_EQ(some.exit_code, 0) << some.err;
    for (const char * words : {"Table 2", "Llama-3.1-8B-Instruct", "49.20", "33.31"}) {
        EXPECT_NE(some.out.find(words), std::string::npos) << words;
    }
    EXPECT_EQ(some.out.find("Table 5"), std::string::npos) << "another part's";
    EXPECT_EQ(some.out.find("30.05"), std::string::npos) << "a task's, not asked for";
    const Outcome details = run_pith({"study", "caote", "--part", "longbench", "--list", "--paper", "--details"});
    EXPECT_NE(details.out.find("30.05"), std::string::npos);
    const Outcome json = run_pith({"study", "attention-gate", "--list", "--paper", "--json"});
    ASSERT_EQ(json.exit_code, 0) << json.err;
    EXPECT_EQ(Json::parse(json.out)[0]["paper"][0]["rows"][0]["paper"]["Llama-2-7B"], 59.58);
    const Outcome figure = run_pith({"study", "laprox", "--part", "niah", "--list", "--paper"});
    EXPECT_NE(figure.out.find("no numbers"), std::string::npos);
}

TEST_F(Study, PutsThePapersNumbersBesideItsOwn) {
    const Outcome ran = study({"caote", "--part", "perplexity", "--context", "128", "--budget", "2048", "--samples", "1",
                               "--chunk", "64", "--paper", "--json", "-o", path("run")});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const Json out = Json::parse(ran.out);
    EXPECT_EQ(out["part"], "perplexity");
    EXPECT_EQ(out["table"]["rows"].size(), 13U) << "the full cache and twelve policies";
    ASSERT_EQ(out["pairs"].size(), 8U) << "each of two refiners over each of four policies";
    EXPECT_EQ(out["pairs"][0]["second"]["policy"], "h2o:recent=half+caote");
    EXPECT_EQ(out["pairs"][0]["p"], 1) << "one text can show nothing";
    bool found = false;
    for (const Json & table : out["paper"]) {
        for (const Json & row : table["rows"]) {
            if (table["measure"] != "difference" || row["policy"] != "tova+caote" || row["budget"] != "2048") { continue; }
            found = found || row["paper"].value("Llama-3.1-8B-Instruct", 1.0) == -0.088;
            EXPECT_TRUE(row["here"].is_number()) << row.dump();
        }
    }
    EXPECT_TRUE(found);
    for (const char * file : {"table.csv", "samples.csv", "pairs.csv"}) {
        EXPECT_TRUE(std::filesystem::exists(path("run/perplexity/") + file)) << file;
    }
}

TEST_F(Study, PassesOverWhatTheModelOrTheDataCannotServe) {
    const Outcome ran = study({"laprox", "--part", "niah", "--context", "600,64000", "--budget", "64", "--samples", "1"});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_NE(ran.err.find("--context 64000 passed over: the model takes 4096 tokens"), std::string::npos) << ran.err;
    EXPECT_NE(ran.out.find("niah_multiquery"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("streaming 64 / laprox 64"), std::string::npos) << ran.out;
    const Outcome none = study({"laprox", "--part", "niah", "--context", "64000"});
    EXPECT_EQ(none.exit_code, 0) << none.err;
    EXPECT_NE(none.err.find("takes none of its lengths"), std::string::npos) << none.err;
    const Outcome data = study({"score", "--part", "infinitebench"});
    EXPECT_EQ(data.exit_code, 0);
    EXPECT_NE(data.err.find("passed over, it needs --data"), std::string::npos) << data.err;
    std::filesystem::create_directories(path("empty"));
    const Outcome empty = study({"score", "--part", "infinitebench", "--data", path("empty")});
    EXPECT_EQ(empty.exit_code, 0);
    EXPECT_NE(empty.err.find("has none of its files"), std::string::npos) << empty.err;
    const Outcome gates = study({"attention-gate", "--part", "fine-tuned"});
    EXPECT_EQ(gates.exit_code, 0);
    EXPECT_NE(gates.err.find("name gates with --gate"), std::string::npos) << gates.err;
}

TEST_F(Study, RunsTheTasksWhoseFilesAreThere) {
    std::filesystem::create_directories(path("data"));
    Json line = {{"_id", "q"},    {"context", words(300)}, {"input", "Who?"},  {"answers", {"the"}},
                 {"length", 200}, {"dataset", "qasper"},   {"language", "en"}, {"all_classes", nullptr}};
    write_text(path("data/qasper.jsonl"), line.dump() + "\n");
    const Outcome ran = study({"laprox", "--part", "value", "--data", path("data"), "--budget", "128", "--paper"});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_NE(ran.err.find("narrativeqa,"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("lacks their files"), std::string::npos) << ran.err;
    EXPECT_NE(ran.out.find("qasper"), std::string::npos);
    EXPECT_NE(ran.out.find("The paper's Table 4"), std::string::npos) << ran.out;
}

TEST_F(Study, EvictsAtEveryTokenWhereThePaperDoes) {
    const std::vector<std::string> small = {"--context", "600", "--budget", "64", "--samples", "1", "--chunk", "64"};
    std::vector<std::string> words = {"caote", "--part", "needle", "-o", path("needle")};
    words.insert(words.end(), small.begin(), small.end());
    const Outcome ran = study(words);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const Json about = Json::parse(read_text_file(path("needle/needle/run.json")));
    EXPECT_NE(about.dump().find("--evict-every"), std::string::npos) << about.dump();
    words[4] = path("never");
    words.insert(words.end(), {"--evict-every", "0"});
    ASSERT_EQ(study(words).exit_code, 0);
    EXPECT_EQ(read_text_file(path("never/needle/run.json")).find("--evict-every"), std::string::npos);
}

TEST_F(Study, RunsAPartOnceForEachSizeOfBlocks) {
    const Outcome ran = study(
        {"caote", "--part", "blocks-perplexity", "--context", "128", "--budget", "64", "--samples", "1", "-o", path("blocks")});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    for (const char * chunk : {"16", "64", "128", "512"}) {
        EXPECT_NE(ran.out.find("chunks of " + std::string(chunk) + "\n"), std::string::npos) << ran.out;
        const std::string table = read_text_file(path("blocks/blocks-perplexity-chunk" + std::string(chunk) + "/table.csv"));
        EXPECT_NE(table.find(",snapkv+joint,64,"), std::string::npos) << table;
    }
}

TEST_F(Study, MeasuresSpeedByLengthChunkAndPolicy) {
    const Outcome ran = study({"criticalkv", "--part", "efficiency-chunks", "--context", "256,512", "--budget", "64",
                               "--samples", "1", "--chunk", "128", "--json", "--paper"});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const Json out = Json::parse(ran.out);
    ASSERT_EQ(out["rows"].size(), 6U);
    for (const Json & row : out["rows"]) {
        EXPECT_GT(row["first_token_s"], 0.0) << row.dump();
        EXPECT_GT(row["decode_tps"], 0.0) << row.dump();
        EXPECT_EQ(row["chunk"], 128);
    }
    EXPECT_EQ(out["rows"][0]["policy"], "full");
    EXPECT_LT(out["rows"][4]["kv_bytes"], out["rows"][3]["kv_bytes"]) << "adakv at 512 tokens beside the full cache";
    EXPECT_EQ(out["paper"][0]["measure"], "first_s");
    const Outcome text = study({"score", "--part", "efficiency", "--context", "256", "--budget", "64", "--samples", "1"});
    ASSERT_EQ(text.exit_code, 0) << text.err;
    for (const char * words : {"first token", "ms/token", "pyramidkv"}) {
        EXPECT_NE(text.out.find(words), std::string::npos) << words;
    }
}

TEST_F(Study, RefusesWhatMakesNoSense) {
    expect_error(run_pith({"study", "laprox", "--paper", "--csv"}), 2, {"--paper", "--csv"});
    expect_error(run_pith({"study", "laprox", "--json", "--csv"}), 2, {"give one of them"});
    expect_error(run_pith({"study"}), 2, {"name a study", "attention-gate"});
    expect_error(run_pith({"study", "laprox", "--part", "windows"}), 2, {"no part 'windows'", "window"});
}

}  // namespace
}  // namespace pith::testing::study_test
