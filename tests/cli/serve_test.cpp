// serve_test.cpp - `pith serve` as a process: what it prints, how it ends, and that it says what `pith run` says.
#include "cli/serve_process.h"

namespace pith::testing::serve_test {
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

TEST_F(Serve, GivesTheModelTheTemplateThatIsNamed) {
    ServeProcess server(serve_command({"-m", kModel, "--chat-template", "llama2"}));
    const Json body = {{"messages", {{{"role", "user"}, {"content", "Hello"}}}}};
    const Json reply = post(server.port(), "/apply-template", body).json();
    EXPECT_NE(reply["prompt"].get<std::string>().find("[INST] Hello"), std::string::npos) << reply;
    expect_error(run_pith({"serve", "-m", kModel, "--port", "0", "--chat-template", "lama2"}), 1, {"'llama2'"});
}

TEST_F(Serve, TakesWhatLlamaServerDoesOfTemplatesThoughtsAndThePage) {
    ServeProcess server(
        serve_command({"-m", kModel, "--chat-template", "{{ a }} {{ enable_thinking }}", "--chat-template-kwargs",
                       R"({"a": 5})", "--reasoning", "off", "--reasoning-format", "deepseek", "--no-webui"}));
    const Json body = {{"messages", {{{"role", "user"}, {"content", ""}}}}};
    EXPECT_EQ(post(server.port(), "/apply-template", body).json()["prompt"], "5 False");
    EXPECT_EQ(get(server.port(), "/").status, 404);
    expect_error(run_pith({"serve", "-m", kModel, "--port", "0", "--reasoning-format", "loud"}), 2, {"loud"});
}

// A client's system prompt and tools, read before anybody asks: another conversation that begins with them goes on from there,
// also in a server that was started behind one that was killed.
TEST_F(Serve, ReadsFirstWhatClientsBeginWith) {
    const TempFolder folder;
    std::string rules = "You write code.";
    for (int i = 0; i < 40; ++i) { rules += " Rule " + std::to_string(i) + ": read a file before you change it."; }
    const Json tools =
        Json::array({{{"type", "function"},
                      {"function",
                       {{"name", "read_file"},
                        {"description", "Reads a file."},
                        {"parameters", {{"type", "object"}, {"properties", {{"path", {{"type", "string"}}}}}}}}}}});
    const auto body_of = [&](const std::string & asked) {
        return Json{{"messages", {{{"role", "system"}, {"content", rules}}, {{"role", "user"}, {"content", asked}}}},
                    {"tools", tools},
                    {"max_tokens", 4},
                    {"temperature", 0}};
    };
    const std::string request = folder.file("agent.json");
    std::ofstream(request) << body_of("Hello").dump();
    const std::vector<std::string> words = {"-m", kModel,        "--chat-template",     "chatml", "--chunk",
                                            "32", "--cache-dir", folder.file("states"), "-c",     "4096"};
    const auto cached = [&](const ServeProcess & server) {
        const Json usage = post(server.port(), "/v1/chat/completions", body_of("What is in main.cpp?")).json()["usage"];
        return std::pair(usage["prompt_tokens_details"]["cached_tokens"].get<int>(), usage["prompt_tokens"].get<int>());
    };
    const auto with = [&](std::vector<std::string> more) {
        std::vector<std::string> all = words;
        all.insert(all.end(), more.begin(), more.end());
        return serve_command(all);
    };
    { const ServeProcess killed(with({"--read-first", request})); }
    const ServeProcess again(with({}));
    const auto [n_cached, n_prompt] = cached(again);
    EXPECT_GT(n_cached, 0);
    EXPECT_LT(n_prompt - n_cached, 32 + 64) << "a chunk, and what is asked";
    expect_error(run_pith({"serve", "-m", kModel, "--port", "0", "--read-first", folder.file("none.json")}), 1, {"none.json"});
    const std::string bad = folder.file("bad.json");
    std::ofstream(bad) << R"({"messages": 5})";
    expect_error(run_pith({"serve", "-m", kModel, "--port", "0", "--read-first", bad}), 1, {"bad.json", "messages"});
    expect_error(run_pith({"serve", "-m", kModel, "--read-first", bad, "--cache-ram", "0"}), 2, {"--cache-dir"});
}

TEST_F(Serve, TakesLlamaServersFlags) {
    const ServeProcess server(
        serve_command({"-m", kModel, "--ignore-eos", "-r", ",", "--cache-prompt", "--ui", "-c", "64", "--no-agent"}));
    const Json json = post(server.port(), "/v1/completions", {{"prompt", "One, two, three"}, {"temperature", 0}}).json();
    const std::string said = json["choices"][0]["text"];
    EXPECT_EQ(said.find(','), std::string::npos) << said;
    const Json all =
        post(server.port(), "/v1/completions", {{"prompt", "One"}, {"temperature", 0}, {"stop", Json::array()}}).json();
    EXPECT_EQ(all["choices"][0]["finish_reason"], "length") << "the request's own stop texts count, and no end does";
    expect_error(run_pith({"serve", "-m", kModel, "--slot-save-path", "x"}), 2, {"--slot-save-path", "--cache-dir"});
    expect_error(run_pith({"serve", "-m", kModel, "--models-dir", "x"}), 2, {"--models-dir", "one model"});
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

TEST_F(Serve, CutsWhatRunsWhenItsTimeIsOver) {
    ServeProcess server(serve_command({"-m", kModel, "-c", "100000", "--shutdown-timeout", "0"}));
    const Json body = {{"prompt", "The sky is"}, {"temperature", 0}, {"ignore_eos", true}, {"stream", true}};
    Connection connection(server.port());
    ASSERT_TRUE(connection.send(request_text("POST", "/v1/completions", body.dump())));
    connection.read_until("data: ");
    server.ask_to_end();
    const auto events = answer_of(connection.read_until("data: [DONE]")).events();
    ASSERT_GE(events.size(), 2U);
    EXPECT_EQ(events.back(), "[DONE]");
    EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(server.wait(), 0);
}

TEST_F(Serve, FindsWhatAKilledServerHasRead) {
    const TempFolder folder;
    std::string prompt;
    for (int i = 0; i < 30; ++i) { prompt += "The house of number " + std::to_string(i) + " is green. "; }
    const Json body = {{"prompt", prompt + "The sky is"}, {"max_tokens", 12}, {"temperature", 0}};
    const auto ask_with = [&](const std::vector<std::string> & more) {
        std::vector<std::string> words = {"-m", kModel, "--chunk", "64"};
        words.insert(words.end(), more.begin(), more.end());
        const ServeProcess server(serve_command(words));  // killed when it has answered
        return post(server.port(), "/v1/completions", body).json();
    };
    const auto n_cached = [](const Json & json) { return json["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(); };
    const Json without = ask_with({});
    const Json first = ask_with({"--cache-dir", folder.file("states"), "--cache-size", "100M"});
    const Json second = ask_with({"--cache-dir", folder.file("states"), "--cache-size", "100M"});
    EXPECT_EQ(n_cached(without), 0);
    EXPECT_EQ(n_cached(first), 0);
    EXPECT_GT(n_cached(second), 100);
    EXPECT_EQ(first["choices"][0]["text"], without["choices"][0]["text"]);
    EXPECT_EQ(second["choices"][0]["text"], without["choices"][0]["text"]);
}

// What is evicted lies in files of its own, which `pith cache` knows from states.
TEST_F(Serve, KeepsWhatItEvictsInFilesThatTheCacheCommandKnows) {
    const TempFolder folder;
    const std::string states = folder.file("states");
    std::string prompt;
    for (int i = 0; i < 30; ++i) { prompt += "The house of number " + std::to_string(i) + " is green. "; }
    const Json body = {{"prompt", prompt + "The sky is"}, {"max_tokens", 6}, {"temperature", 0}};
    const auto ask_it = [&] {
        const ServeProcess server(serve_command(
            {"-m", kModel, "--chunk", "64", "--budget", "64", "--cold", "f16", "--look-back", "--cache-dir", states}));
        return post(server.port(), "/v1/completions", body).json();
    };
    const Json first = ask_it();
    std::string rows;
    for (const Json & one : Json::parse(run_pith({"cache", "list", states, "--json"}).out)) {
        ASSERT_FALSE(one.contains("error")) << one;
        if (!one.contains("n_tokens")) { rows = one["file"]; }
    }
    ASSERT_FALSE(rows.empty()) << run_pith({"cache", "list", states}).out;
    for (const char * command : {"info", "list"}) {
        const Outcome told = run_pith({"cache", command, command == std::string("list") ? states : rows});
        EXPECT_EQ(told.exit_code, 0) << told.err;
        EXPECT_NE(told.out.find("evicted entries of states in this folder"), std::string::npos) << told.out;
    }
    const Outcome whole = run_pith({"cache", "verify", rows});
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_NE(whole.out.find("evicted entries"), std::string::npos) << whole.out;
    expect_error(run_pith({"ask", rows, "-m", kModel, "-p", "Who?"}), 1, {rows});
    const Json second = ask_it();
    EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"], 100);
    EXPECT_EQ(second["choices"][0]["text"], first["choices"][0]["text"]);
    ASSERT_EQ(run_pith({"cache", "prune", states, "--size", "0"}).exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(rows));
    EXPECT_EQ(ask_it()["choices"][0]["text"], first["choices"][0]["text"]);
}

// Without a folder, as clients of llama-server expect it.
TEST_F(Serve, FindsWhatItHasJustRead) {
    std::string prompt;
    for (int i = 0; i < 30; ++i) { prompt += "The house of number " + std::to_string(i) + " is green. "; }
    const Json body = {{"prompt", prompt}, {"max_tokens", 4}, {"temperature", 0}};
    for (const bool keeps : {true, false}) {
        ServeProcess server(serve_command({"-m", kModel, "--chunk", "64", "--cache-ram", keeps ? "16" : "0"}));
        const auto n_cached = [&] {
            return post(server.port(), "/v1/completions", body)
                .json()["usage"]["prompt_tokens_details"]["cached_tokens"]
                .get<int>();
        };
        EXPECT_EQ(n_cached(), 0);
        EXPECT_EQ(n_cached() > 100, keeps);
        const std::string metrics = ask(server.port(), "GET", "/metrics").body;
        EXPECT_EQ(metrics.find("\npith_kv_bytes{state=\"idle\"} 0\n") == std::string::npos, keeps);
    }
}

// States are of one model: another file at the same path finds none of them.
TEST_F(Serve, FindsNothingOfAModelThatHasChanged) {
    const TempFolder folder;
    const std::string model = folder.file("model.gguf");
    std::filesystem::copy_file(kModel, model);
    std::string prompt;
    for (int i = 0; i < 30; ++i) { prompt += "The house of number " + std::to_string(i) + " is green. "; }
    const Json body = {{"prompt", prompt}, {"max_tokens", 4}, {"temperature", 0}};
    const auto n_cached = [&] {
        const ServeProcess server(serve_command({"-m", model, "--chunk", "64", "--cache-dir", folder.file("states")}));
        const Json json = post(server.port(), "/v1/completions", body).json();
        return json["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
    };
    EXPECT_EQ(n_cached(), 0);
    EXPECT_GT(n_cached(), 100);
    {
        std::fstream file(model, std::ios::binary | std::ios::in | std::ios::out);
        file.seekg(-1, std::ios::end);
        const auto last = static_cast<char>(file.get() ^ 1);
        file.seekp(-1, std::ios::end);
        file.put(last);
    }
    EXPECT_EQ(n_cached(), 0);
    EXPECT_GT(n_cached(), 100) << "its own";
}

// A page that leads a name of its own to this machine is told apart by that name, and other pages by their Origin.
TEST_F(Serve, AnswersToTheNamesAndPagesThatItsFlagsSay) {
    const auto code = [](const ServeProcess & server, const std::string & host, const std::string & more = "") {
        Connection connection(server.port());
        connection.send("GET /v1/models HTTP/1.1\r\nConnection: close\r\nHost: " + host + "\r\n" + more + "\r\n");
        return answer_of(connection.read_until("\r\n\r\n")).status;
    };
    const std::string evil = "Origin: http://evil.example\r\n";
    {
        const ServeProcess server(serve_command({"-m", kModel}));
        EXPECT_EQ(code(server, "localhost", evil), 200);
        EXPECT_EQ(code(server, "evil.example"), 403);
    }
    {
        const ServeProcess server(
            serve_command({"-m", kModel, "--cors-origin", "none", "--allowed-hosts", "a.example,.b.example"}));
        EXPECT_EQ(code(server, "a.example"), 200);
        EXPECT_EQ(code(server, "x.b.example"), 200);
        EXPECT_EQ(code(server, "x.a.example"), 403);
        EXPECT_EQ(code(server, "localhost", evil), 403);
    }
    {
        const ServeProcess server(serve_command({"-m", kModel, "--cors-origin", "", "--api-key", "k"}));
        EXPECT_EQ(code(server, "any.example", "X-Api-Key: k\r\n"), 200) << "no page has the key";
        EXPECT_EQ(code(server, "any.example", "X-Api-Key: k\r\n" + evil), 403);
    }
    for (const char * wrong : {"a b", "http://a.example", "a.example:80", ".", "*.a.example"}) {
        expect_error(run_pith({"serve", "-m", kModel, "--port", "0", "--allowed-hosts", wrong}), 2, {"--allowed-hosts", wrong});
    }
}

TEST_F(Serve, RefusesFlagsThatMakeNoSense) {
    const TempFolder folder;
    std::ofstream(folder.file("file")) << "no folder";
    expect_error(run_pith({"serve", "-m", kModel, "--port", "0", "--cache-dir", folder.file("file/states")}), 1,
                 {"file/states", "cannot be used"});
    expect_error(run_pith({"serve", "-m", kModel, "--cache-dir", "states", "--cache-size", "20%"}), 2, {"--cache-size"});
    expect_error(run_pith({"serve", "-m", kModel, "--cache-ram", "-2"}), 2, {"--cache-ram"});
    expect_error(run_pith({"serve", "-m", kModel, "--port", "99999"}), 2, {"--port"});
    expect_error(run_pith({"serve", "-m", kModel, "--kv-budget", "20%"}), 2, {"--kv-budget"});
    expect_error(run_pith({"serve", "-m", kModel, "--shutdown-timeout", "-2"}), 2, {"--shutdown-timeout"});
    expect_error(run_pith({"serve", "-m", kModel, "--budget", "auto"}), 2, {"--budget"});
    expect_error(run_pith({"serve", "-m", kModel, "--api-key", " , "}), 2, {"--api-key"});
    expect_error(run_pith({"serve", "-m", kModel, "--policy", "snapkv"}), 2, {"budget"});
    expect_error(run_pith({"serve", "-m", kModel, "--host", "192.0.2.1", "--port", "0"}), 1, {"192.0.2.1"});
    ServeProcess server(serve_command({"-m", kModel}));
    expect_error(run_pith({"serve", "-m", kModel, "--port", std::to_string(server.port())}), 1, {"taken"});
}

}  // namespace
}  // namespace pith::testing::serve_test
