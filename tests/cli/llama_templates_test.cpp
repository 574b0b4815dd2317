// llama_templates_test.cpp - our templates, each with the constructs of a public one, as llama-server renders them from the
// same file: what it says of the same messages, and what it refuses. Skipped where llama-server is not installed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "app/bench/find_llama_bench.h"
#include "model/gguf_edit.h"
#include "model/random/random_model.h"
#include "pith/text.h"
#include "text/jinja.h"

namespace pith::testing {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char * kTemplates = PITH_SOURCE_DIR "/tests/text/templates";

// Both are right about Jinja in all else.
struct Difference {
    const char * chat_template;
    const char * scenario;
    const char * why;
};
constexpr Difference kKnown[] = {
    {"exaone4", "system", "llama-server leaves the system prompt out: {% continue %} ends its first pass with nothing written"},
};

std::vector<std::string> template_names() {
    std::vector<std::string> names;
    for (const auto & file : fs::directory_iterator(kTemplates)) {
        if (file.path().extension() == ".jinja") { names.push_back(file.path().stem().string()); }
    }
    std::ranges::sort(names);
    return names;
}

std::string read_whole(const fs::path & path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// --- what is asked, as OpenAI's API has it ---

struct Scenario {
    const char * name;
    const char * request;
};
constexpr const char * kTools =
    R"([{"type": "function", "function": {"name": "weather", "description": "How the weather will be", "parameters": {"type": "object",
    "properties": {"city": {"type": "string", "description": "Where"}, "days": {"type": "integer"}}, "required": ["city"]}}}])";
constexpr Scenario kScenarios[] = {
    {"plain", R"({"messages": [{"role": "user", "content": "Who are you?"}]})"},
    {"system", R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who are you?"}]})"},
    {"turns", R"({"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."},
                  {"role": "user", "content": "  Three \"quoted\" <b> é?  "}]})"},
    {"tools", R"({"messages": [{"role": "user", "content": "Will it rain?"}], "with_tools": true})"},
    {"results", R"({"messages": [{"role": "user", "content": "Will it rain?"},
                    {"role": "assistant", "content": "", "tool_calls": [{"id": "call12345", "type": "function",
                     "function": {"name": "weather", "arguments": "{\"city\": \"Elm\", \"days\": 3}"}}]},
                    {"role": "tool", "content": "dry", "tool_call_id": "call12345"}], "with_tools": true})"},
    {"thinking", R"({"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two.",
                     "reasoning_content": "Count."}, {"role": "user", "content": "Three?"}]})"},
    {"not_thinking", R"({"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two.",
                         "reasoning_content": "Count."}, {"role": "user", "content": "Three?"}], "enable_thinking": false})"},
    {"no_prompt", R"({"messages": [{"role": "user", "content": "One?"}], "add_generation_prompt": false})"},
};

Json request_of(const Scenario & scenario) {
    Json request = Json::parse(scenario.request);
    if (request.value("with_tools", false)) { request["tools"] = Json::parse(kTools); }
    // Where nothing is said llama-server sets it by a trial of its own; Hugging Face and Pith leave it undefined.
    request["chat_template_kwargs"] = {{"enable_thinking", request.value("enable_thinking", true)}};
    return request;
}

std::string without_begin_token(const std::string & text) {
    return text.starts_with("<s>") ? text.substr(3) : text;
}

// Nothing: refused.
std::optional<std::string> what_pith_says(const Tokenizer & tokenizer, const Json & request) {
    std::vector<ChatMessage> messages;
    for (const Json & message : request["messages"]) {
        ChatMessage one{message["role"], message["content"]};
        one.reasoning = message.value("reasoning_content", "");
        one.tool_call_id = message.value("tool_call_id", "");
        if (message.contains("tool_calls")) { one.tool_calls = message["tool_calls"].dump(); }
        messages.push_back(one);
    }
    ChatOptions options;
    options.add_assistant = request.value("add_generation_prompt", true);
    if (request.contains("tools")) { options.tools = request["tools"].dump(); }
    options.variables = request["chat_template_kwargs"].dump();
    const auto text = tokenizer.apply_chat_template(messages, options);
    if (!text.ok()) { return std::nullopt; }
    return without_begin_token(*text);
}

// --- llama-server ---

int free_port() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const bool bound = bind(fd, reinterpret_cast<sockaddr *>(&address), size) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size) == 0;
    close(fd);
    return bound ? ntohs(address.sin_port) : -1;
}

struct Reply {
    int status = 0;  // 0: none
    std::string body;
};

Reply ask(int port, const std::string & method, const std::string & path, const std::string & body) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    Reply reply;
    if (connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0) {
        const std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: " +
                                 "application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
        size_t n_sent = 0;
        while (n_sent < text.size()) {
            const ssize_t n = send(fd, text.data() + n_sent, text.size() - n_sent, MSG_NOSIGNAL);
            if (n <= 0) { break; }
            n_sent += static_cast<size_t>(n);
        }
        std::string all;
        char block[4096];
        for (ssize_t n = 0; (n = recv(fd, block, sizeof block, 0)) > 0;) { all.append(block, static_cast<size_t>(n)); }
        const size_t end = all.find("\r\n\r\n");
        if (all.starts_with("HTTP/1.1 ") && end != std::string::npos) {
            reply.status = std::stoi(all.substr(9, 3));
            reply.body = all.substr(end + 4);
        }
    }
    close(fd);
    return reply;
}

class Server {
public:
    Server(const LlamaBench & llama, const std::string & model) : port_(free_port()) {
        std::vector<std::string> words = llama.command;
        for (const std::string & word :
             {std::string("-m"), model, std::string("--jinja"), std::string("--port"), std::to_string(port_),
              std::string("--host"), std::string("127.0.0.1"), std::string("-c"), std::string("512"), std::string("-t"),
              std::string("1"), std::string("-np"), std::string("1")}) {
            words.push_back(word);
        }
        std::vector<char *> argv;
        for (std::string & word : words) { argv.push_back(word.data()); }
        argv.push_back(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
            if (!llama.working_folder.empty() && chdir(llama.working_folder.c_str()) != 0) { _exit(127); }
            const int nowhere = open("/dev/null", O_RDWR);
            for (const int fd : {0, 1, 2}) { dup2(nowhere, fd); }
            execv(argv[0], argv.data());
            _exit(127);
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!runs_ && std::chrono::steady_clock::now() < end) {
            int state = 0;
            if (waitpid(pid_, &state, WNOHANG) == pid_) {
                pid_ = -1;
                return;
            }
            runs_ = ask(port_, "GET", "/health", "").status == 200;
            if (!runs_) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
        }
    }
    ~Server() {
        if (pid_ <= 0) { return; }
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Server(const Server &) = delete;
    Server & operator=(const Server &) = delete;

    bool runs() const { return runs_; }
    // Nothing: refused.
    std::optional<std::string> render(const Json & request) const {
        const Reply reply = ask(port_, "POST", "/apply-template", request.dump());
        EXPECT_NE(reply.status, 0);
        if (reply.status != 200) { return std::nullopt; }
        return without_begin_token(Json::parse(reply.body)["prompt"].get<std::string>());
    }

private:
    int port_ = -1;
    pid_t pid_ = -1;
    bool runs_ = false;
};

class LlamaTemplates : public ::testing::TestWithParam<std::string> {};

TEST_P(LlamaTemplates, SayWhatLlamaServerSays) {
    if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    const LlamaBench llama = app::find_llama_program("llama-server");
    if (llama.command.empty()) { GTEST_SKIP() << "llama-server is not installed"; }
    const std::string source = read_whole(fs::path(kTemplates) / (GetParam() + ".jinja"));
    const TempFolder folder;
    const std::string plain = folder.file("plain.gguf");
    const std::string model = folder.file("model.gguf");
    ASSERT_TRUE(write_random_model({}, plain).ok());
    GgufEdit edit;
    edit.metadata = [&source](gguf_context * gguf) { gguf_set_val_str(gguf, "tokenizer.chat_template", source.c_str()); };
    ASSERT_TRUE(edit_gguf(plain, model, edit));
    const auto tokenizer = Tokenizer::load(model);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    const Server server(llama, model);
    ASSERT_TRUE(server.runs()) << "llama-server does not start with this template";

    for (const Scenario & scenario : kScenarios) {
        const Json request = request_of(scenario);
        const auto ours = what_pith_says(*tokenizer, request);
        const auto theirs = server.render(request);
        const auto * known = std::ranges::find_if(kKnown, [&](const Difference & one) {
            return GetParam() == one.chat_template && std::string(scenario.name) == one.scenario;
        });
        if (known == std::end(kKnown)) {
            EXPECT_EQ(ours.value_or("(refused)"), theirs.value_or("(refused)")) << scenario.name;
        } else {
            EXPECT_NE(ours.value_or("(refused)"), theirs.value_or("(refused)")) << "differs no longer: " << known->why;
            std::printf("[ differs  ] %s, %s: %s\n", known->chat_template, known->scenario, known->why);
        }
    }
    EXPECT_EQ(tokenizer->chat_template_problem(), "");  // it was the template itself that spoke
}

std::string test_name(const ::testing::TestParamInfo<std::string> & info) {
    std::string name = info.param;
    std::ranges::replace_if(
        name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    return name;
}
INSTANTIATE_TEST_SUITE_P(Ours, LlamaTemplates, ::testing::ValuesIn(template_names()), test_name);

TEST(LlamaTemplateList, HasThirtyAndMore) {
    EXPECT_GE(template_names().size(), 30U);
}

}  // namespace
}  // namespace pith::testing
