// questions_test.cpp - `pith run` with several questions on one text, on the built-in model: one compression in sight of them
// all.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"
#include "tasks/wording.h"

namespace pith::testing::questions_test {
namespace {

using Json = nlohmann::json;

const std::string kModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";
constexpr int kFacts = 3;

// Facts in a quarter, the middle and three quarters of a text that says nothing else.
struct Facts {
    std::string text;
    std::vector<std::string> questions;
    std::vector<std::string> answers;
};
Facts make_facts(uint64_t seed) {
    constexpr const char * kNoise = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";
    corpus::Random random(seed);
    const auto keys = corpus::draw_needle_keys(random, kFacts);
    const auto values = corpus::draw_needle_values(random, kFacts);
    Facts facts;
    facts.text = corpus::needle_preamble(false);
    for (int line = 0; line < 24; ++line) {
        facts.text += kNoise;
        facts.text += '\n';
        if (line % 6 == 5 && line / 6 < kFacts) {
            const auto fact = static_cast<size_t>(line / 6);
            facts.text += corpus::needle_sentence(keys[fact], values[fact]) + '\n';
        }
    }
    facts.text.pop_back();
    for (size_t i = 0; i < kFacts; ++i) {
        facts.questions.push_back(corpus::needle_question(keys[i], false) + corpus::needle_prefix(keys[i], false));
        facts.answers.push_back(values[i]);
    }
    return facts;
}

class Questions : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kModel)) { GTEST_SKIP() << "no reference model"; }
        write_text(file_, facts_.text);
    }
    std::vector<std::string> arguments(const std::vector<std::string> & more) const {
        std::vector<std::string> all = {"run", "-m", kModel, "-f", file_, "--raw", "-n", "12", "-t", "1", "--temp", "0"};
        for (const std::string & question : facts_.questions) { all.insert(all.end(), {"-p", question}); }
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    Json run_json(std::vector<std::string> more) const {
        more.insert(more.end(), {"--json", "--kept"});
        const Outcome outcome = run_pith(arguments(more));
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return Json::parse(outcome.out, nullptr, false);
    }
    int n_right(const Json & json) const {
        int n = 0;
        for (size_t i = 0; i < kFacts; ++i) {
            n += json["answers"][i]["text"].get<std::string>().find(facts_.answers[i]) != std::string::npos ? 1 : 0;
        }
        return n;
    }

    const Facts facts_ = make_facts(7);
    TempFolder folder_;
    const std::string file_ = folder_.file("facts.txt");
};

TEST_F(Questions, AreAllInSightWhenTheirTextIsCompressed) {
    const Json full = run_json({});
    ASSERT_EQ(n_right(full), kFacts) << full["text"];
    for (const char * policy : {"snapkv", "adakv", "criticalkv"}) {
        SCOPED_TRACE(policy);
        const Json seen = run_json({"--policy", policy, "--budget", "15%"});
        const Json later = run_json({"--policy", policy, "--budget", "15%", "--question-later"});
        EXPECT_EQ(seen["questions_in_sight"], true);
        EXPECT_FALSE(later.contains("questions_in_sight"));
        EXPECT_NE(seen["kept"], later["kept"]);
        EXPECT_GT(seen["evicted_entries"], 0);
        EXPECT_EQ(n_right(seen), kFacts) << seen["text"];
        EXPECT_LT(n_right(later), kFacts) << later["text"];
        EXPECT_EQ(seen["n_prompt"], later["n_prompt"]) << "the text is read once";
    }
}

TEST_F(Questions, AreInSightOfEveryChunk) {
    const Json seen = run_json({"--budget", "20%", "--prefill", "chunked", "--chunk", "256"});
    const Json later = run_json({"--budget", "20%", "--prefill", "chunked", "--chunk", "256", "--question-later"});
    EXPECT_EQ(seen["schedule"], "in chunks, question seen");
    EXPECT_EQ(later["schedule"], "in chunks");
    EXPECT_NE(seen["kept"], later["kept"]);
    EXPECT_EQ(n_right(seen), kFacts) << seen["text"];
}

TEST_F(Questions, ThatAChunkCannotHoldAreOutOfSightAndItSaysSo) {
    std::vector<std::string> more = {"--budget", "20%", "--prefill", "chunked", "--chunk", "64", "--json"};
    const Outcome outcome = run_pith(arguments(more));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("compressed without its questions"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("--chunk 64"), std::string::npos) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out)["questions_in_sight"], false);
}

TEST_F(Questions, HaveTheirAnswersAloneOnStandardOutput) {
    const Json json = run_json({"--budget", "20%"});
    const Outcome outcome = run_pith(arguments({"--budget", "20%"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    std::string expected;
    for (const Json & answer : json["answers"]) { expected += answer["text"].get<std::string>() + "\n"; }
    EXPECT_EQ(outcome.out, expected);
    EXPECT_NE(outcome.err.find("What is the special magic number"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace pith::testing::questions_test
