// templates_test.cpp - `pith run` and `pith chat` with other templates, tools, variables, and thoughts told from answers.
#include <nlohmann/json.hpp>

#include "cli/run_process.h"
#include "text/jinja.h"

namespace pith::testing::templates_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// ChatML of a model that thinks.
const std::string kThinks =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}";
// Says in an error what it was given.
const std::string kTells =
    "{{ messages[0].content }}{{ raise_exception('tools ' ~ (tools | length if tools else 0) ~ ', thinking ' ~ "
    "(enable_thinking if enable_thinking is defined else 'unset') ~ ', effort ' ~ effort) }}";

class Templates : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    }
    Words run(const Words & more) const {
        Words all = {"run", "-m", model_, "-p", "Hello", "-n", "64", "-t", "1", "--temp", "0"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    TempFolder folder_;
    std::string model_ = write_model(folder_);
};

TEST_F(Templates, AreGivenWhatTheOptionsSay) {
    write_text(folder_.file("tells.jinja"), kTells);
    write_text(folder_.file("tools.json"), R"([{"name": "sky"}, {"type": "function", "function": {"name": "sea"}}])");
    expect_error(run_pith(run({"--chat-template", kTells})), 1, {"refuses", "tools 0, thinking unset, effort"});
    expect_error(run_pith(run({"--chat-template-file", folder_.file("tells.jinja"), "--reasoning", "off",
                               "--chat-template-kwargs", R"({"effort": "high"})"})),
                 1, {"tools 0, thinking False, effort high"});
    expect_error(run_pith(run({"--chat-template", kTells, "-rea", "on", "--tools", folder_.file("tools.json"), "--jinja"})), 1,
                 {"tools 2, thinking True"});
}

TEST_F(Templates, ThoughtsAreToldFromAnswers) {
    const Words thinks = {"--chat-template", kThinks, "--grammar", R"(root ::= "<think>\n" "a b" "\n</think>\n\n" "c d")"};
    const auto with = [&](const Words & more) {
        Words all = thinks;
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(run(all));
    };
    const Outcome json = with({"--json"});
    ASSERT_EQ(json.exit_code, 0) << json.err;
    const Json answer = Json::parse(json.out)["answers"][0];
    EXPECT_EQ(answer["text"], "c d");
    EXPECT_EQ(answer["reasoning"], "a b\n");
    for (const Words & several : {Words{}, Words{"--no-stream"}, Words{"-p", "And?", "--parallel", "2"}}) {
        const Outcome shown = with(several);
        ASSERT_EQ(shown.exit_code, 0) << shown.err;
        EXPECT_EQ(shown.out.substr(0, 4), "c d\n");
        EXPECT_NE(shown.err.find("a b"), std::string::npos) << shown.err;
        Words quietly = several;
        quietly.insert(quietly.end(), {"--reasoning-format", "hide"});
        const Outcome hidden = with(quietly);
        EXPECT_EQ(hidden.out, shown.out);
        EXPECT_EQ(hidden.err.find("a b"), std::string::npos) << hidden.err;
    }
    const Outcome whole = with({"--json", "--reasoning-format", "none"});
    EXPECT_EQ(Json::parse(whole.out)["answers"][0]["text"], "<think>\na b\n</think>\n\nc d");
    EXPECT_FALSE(Json::parse(whole.out)["answers"][0].contains("reasoning"));
}

TEST_F(Templates, AConversationTellsThoughtsToo) {
    const Outcome outcome = run_pith({"chat", "-m", model_, "-n", "64", "-t", "1", "--temp", "0", "--chat-template", kThinks,
                                      "--grammar", R"(root ::= "<think>" "a b" "</think>" "c d")"},
                                     {0, "One\nTwo\n"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "c d\nc d\n");
    EXPECT_NE(outcome.err.find("a b"), std::string::npos);
}

TEST_F(Templates, WhatCannotWorkIsSaidInOneLine) {
    expect_error(run_pith(run({"--chat-template", "chatlm"})), 1, {"'chatml'"});
    expect_error(run_pith(run({"--chat-template-file", folder_.file("none.jinja")})), 1, {"none.jinja"});
    write_text(folder_.file("text"), "no Jinja");
    expect_error(run_pith(run({"--chat-template-file", folder_.file("text")})), 1, {"no Jinja"});
    expect_error(run_pith(run({"--chat-template", kThinks, "--chat-template-kwargs", "{"})), 1, {"variables", "line 1"});
    expect_error(run_pith(run({"--reasoning", "off"})), 1, {"no chat template"});
    write_text(folder_.file("tools.json"), R"([{"name": "sky"}])");
    expect_error(run_pith(run({"--chat-template", kThinks, "--tools", folder_.file("tools.json")})), 1,
                 {"--tools", "shows no tools"});
    expect_error(run_pith(run({"--chat-template", kThinks, "--raw"})), 2, {"--raw"});
    expect_error(run_pith(run({"--chat-template", "{% for i in range(10**12) %}x{% endfor %}"})), 1, {"million"});
    expect_error(run_pith(run({"--chat-template", "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}"})), 1, {"recursion"});
}

TEST_F(Templates, LibllamasListStandsInWithALine) {
    const Outcome outcome = run_pith(run({"--chat-template", "{% broken %}<|im_start|>", "-n", "4"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("libllama's text for templates like it"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace pith::testing::templates_test
