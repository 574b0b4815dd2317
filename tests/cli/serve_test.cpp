// serve_test.cpp - `pith serve` as a process: what it prints, how it ends, and that it says what `pith run` says.
#include "cli/serve_process.h"

namespace pith::testing {
namespace {

const std::string kModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";

class Serve : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::ifstream(kModel)) { GTEST_SKIP() << "no reference model"; }
    }
};

TEST_F(Serve, SaysWhatRunSays) {
    ServeProcess server(serve_command({"-m", kModel}));
    EXPECT_TRUE(server.line().starts_with("listening on http://127.0.0.1:")) << server.line();
    for (const char * prompt : {"The sky is", "One, two, three,"}) {
        const Outcome alone = run_pith({"run", "-m", kModel, "--raw", "-t", "1", "-n", "12", "--temp", "0", "-p", prompt});
        const Json json =
            post(server.port(), "/v1/completions", {{"prompt", prompt}, {"max_tokens", 12}, {"temperature", 0}}).json();
        EXPECT_EQ(json["choices"][0]["text"].get<std::string>() + "\n", alone.out);
        EXPECT_EQ(json["model"], "pith-reference.gguf");
    }
    for (const char * prompt : {"What is the colour of the sky?"}) {
        const Outcome alone = run_pith({"run", "-m", kModel, "-t", "1", "-n", "12", "--temp", "0", "-p", prompt});
        const Json body = {{"messages", {{{"role", "user"}, {"content", prompt}}}}, {"max_tokens", 12}, {"temperature", 0}};
        const Json json = post(server.port(), "/v1/chat/completions", body).json();
        EXPECT_EQ(json["choices"][0]["message"]["content"].get<std::string>() + "\n", alone.out);
    }
    server.ask_to_end();
    EXPECT_EQ(server.wait(), 0);
}

TEST_F(Serve, FinishesWhatRunsBeforeItEnds) {
    ServeProcess server(serve_command({"-m", kModel}));
    const Json body = {
        {"prompt", "The sky is"}, {"max_tokens", 1500}, {"temperature", 0}, {"ignore_eos", true}, {"stream", true}};
    Connection connection(server.port());
    ASSERT_TRUE(connection.send(request_text("POST", "/v1/completions", body.dump())));
    connection.read_until("data: ");
    server.ask_to_end();
    const HttpAnswer answer = answer_of(connection.read_until("data: [DONE]"));
    EXPECT_EQ(answer.events().back(), "[DONE]");
    EXPECT_EQ(server.wait(), 0);
}

TEST_F(Serve, RefusesFlagsThatMakeNoSense) {
    expect_error(run_pith({"serve", "-m", kModel, "--port", "99999"}), 2, {"--port"});
    expect_error(run_pith({"serve", "-m", kModel, "--kv-budget", "20%"}), 2, {"--kv-budget"});
    expect_error(run_pith({"serve", "-m", kModel, "--budget", "auto"}), 2, {"--budget"});
    expect_error(run_pith({"serve", "-m", kModel, "--api-key", " , "}), 2, {"--api-key"});
    expect_error(run_pith({"serve", "-m", kModel, "--policy", "snapkv"}), 2, {"budget"});
    expect_error(run_pith({"serve", "-m", kModel, "--host", "192.0.2.1", "--port", "0"}), 1, {"192.0.2.1"});
    ServeProcess server(serve_command({"-m", kModel}));
    expect_error(run_pith({"serve", "-m", kModel, "--port", std::to_string(server.port())}), 1, {"taken"});
}

}  // namespace
}  // namespace pith::testing
