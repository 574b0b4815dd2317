// real_heads_test.cpp - real models find the head importances that come with Pith, whatever their quantisation. Skipped by name
// where scripts/fetch_models has not put the models.
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"
#include "model/gguf_edit.h"

namespace pith::testing::real_heads_test {
namespace {

using Json = nlohmann::json;

// Where the model lies; empty: it was not fetched here.
std::string fetched(const std::string & arguments) {
    const std::string command = "\"" PITH_SOURCE_DIR "/scripts/fetch_models\" --cached " + arguments + " 2>/dev/null";
    FILE * const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) { return ""; }
    std::string said;
    std::array<char, 4096> line{};
    while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) { said += line.data(); }
    const bool found = pclose(pipe) == 0;
    while (!said.empty() && said.back() == '\n') { said.pop_back(); }
    return found ? said : "";
}

Json heads_of(const std::string & model) {
    const Outcome outcome = run_pith({"info", model, "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out)["head_importances"];
}

class RealHeads : public ::testing::TestWithParam<std::array<const char *, 2>> {};

TEST_P(RealHeads, ComeWithPithForTheModelAsItIsFetchedAndForItsOtherQuantisation) {
    const auto & [model, name] = GetParam();
    int n_files = 0;
    for (const std::string & arguments : {std::string(model), "--as q8_0 " + std::string(model)}) {
        const std::string path = fetched(arguments);
        if (path.empty()) { continue; }
        ++n_files;
        const Json heads = heads_of(path);
        EXPECT_EQ(heads["from"], "pith") << path;
        EXPECT_EQ(heads["name"], name) << path;
    }
    if (n_files == 0) { GTEST_SKIP() << model << " was not fetched here (scripts/fetch_models)"; }
}

INSTANTIATE_TEST_SUITE_P(Models, RealHeads,
                         ::testing::Values(std::array{"smollm2-135m", "SmolLM2-135M-Instruct"},
                                           std::array{"gemma3-270m", "gemma-3-270m"},
                                           std::array{"qwen2.5-coder-1.5b", "Qwen2.5-Coder-1.5B-Instruct"}));

TEST(RealFineTune, WithOneBitOfANormChangedDoesWithoutAndSaysSo) {
    const std::string path = fetched("smollm2-135m");
    if (path.empty()) { GTEST_SKIP() << "smollm2-135m was not fetched here (scripts/fetch_models)"; }
    const TempFolder folder;
    const auto change = [](ggml_tensor * tensor) {
        if (std::string(tensor->name) == "blk.7.ffn_norm.weight") { static_cast<uint32_t *>(tensor->data)[0] ^= 1U; }
        return true;
    };
    const std::string tuned = folder.file("tuned.gguf");
    ASSERT_TRUE(edit_gguf(path, tuned, {{}, change}));
    const Json heads = heads_of(tuned);
    EXPECT_EQ(heads["from"], "none");
    EXPECT_NE(heads["note"].get<std::string>().find("for SmolLM2-135M-Instruct are not for this model"), std::string::npos)
        << heads;
    write_text(folder.file("book.txt"), words(200));
    for (const auto & [file, policy, reason] :
         {std::array<std::string, 3>{path, "expected:eps=0.02+head:by=both", "auto: head importances that come with Pith)"},
          {tuned, "keydiff+ada:alpha=0", "the head importances that come with Pith are for another training of the model)"}}) {
        const Outcome outcome = run_pith({"run", "-m", file, "-f", folder.file("book.txt"), "-p", "Who?", "--question-later",
                                          "-n", "2", "--budget", "64", "-t", "1", "--temp", "0"});
        ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
        EXPECT_NE(outcome.err.find("\npolicy   " + policy + " (auto: "), std::string::npos) << outcome.err;
        EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
    }
}

}  // namespace
}  // namespace pith::testing::real_heads_test
