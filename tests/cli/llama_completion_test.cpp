// llama_completion_test.cpp - `pith run` says greedily what llama.cpp's own program says on the reference model.
// Skipped where the program is not installed; reference_model_test.cpp compares logits with the library, ties and all.
#include "../../apps/pith/find_llama_bench.h"
#include "cli/run_process.h"
#include "eval/child_process.h"

namespace pith::testing {
namespace {

const std::string kModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";

TEST(LlamaCompletion, SaysTheSame128TokensGreedily) {
    const LlamaBench llama = app::find_llama_program("llama-completion");
    if (llama.command.empty()) { GTEST_SKIP() << "llama-completion is not installed"; }
    for (const std::string prompt :
         {"The town of Elm had many people. Anna kept the", "In the village lived a baker. One morning", "The old clock"}) {
        std::vector<std::string> theirs = llama.command;
        // A few tokens more: the program keeps back what may be the beginning of a stop word.
        for (const char * word : {"-m", kModel.c_str(), "-p", prompt.c_str(), "-n", "140", "--temp", "0", "-t", "1", "-no-cnv",
                                  "--no-display-prompt", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--ignore-eos"}) {
            theirs.emplace_back(word);
        }
        const auto expected = run_program(theirs, llama.working_folder);
        ASSERT_TRUE(expected.ok()) << expected.status().message();
        ASSERT_EQ(expected->exit_code, 0);
        const Outcome got = run_pith({"run", "-m", kModel, "-p", prompt, "--raw", "-n", "128", "--temp", "0", "-t", "1", "-ctk",
                                      "f32", "-ctv", "f32", "--ignore-eos"});
        ASSERT_EQ(got.exit_code, 0) << got.err;
        std::string text = got.out;
        while (text.ends_with('\n')) { text.pop_back(); }
        EXPECT_GT(text.size(), 128U);
        EXPECT_TRUE(expected->text.starts_with(text)) << "theirs: " << expected->text << "\nours: " << text;
    }
}

}  // namespace
}  // namespace pith::testing
