// llama_templates_test.cpp - our templates, each with the constructs of a public one, as llama-server renders them from the
// same file: what it says of the same messages, and what it refuses. Skipped where llama-server is not installed.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/serve_process.h"
#include "common/bench/find_llama_bench.h"
#include "model/gguf_edit.h"
#include "model/random/random_model.h"
#include "pith/text.h"
#include "text/jinja.h"

namespace pith::testing::llama_templates_test {
namespace {

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

class Server {
public:
    Server(const LlamaBench & llama, const std::string & model)
        : port_(free_port()), process_(words(llama, model, port_), llama.working_folder, /*prints_line=*/false) {
        runs_ = process_.is_well_at(port_);
    }

    bool runs() const { return runs_; }
    // Nothing: refused.
    std::optional<std::string> render(const Json & request) const {
        const HttpAnswer answer = post(port_, "/apply-template", request);
        EXPECT_NE(answer.status, 0);
        if (answer.status != 200) { return std::nullopt; }
        return without_begin_token(answer.json()["prompt"].get<std::string>());
    }

private:
    static std::vector<std::string> words(const LlamaBench & llama, const std::string & model, int port) {
        std::vector<std::string> all = llama.command;
        for (const char * word :
             {"--jinja", "--no-warmup", "--host", "127.0.0.1", "-c", "512", "-t", "1", "-np", "1", "--port"}) {
            all.emplace_back(word);
        }
        all.insert(all.end(), {std::to_string(port), "-m", model});
        return all;
    }

    int port_;
    ServeProcess process_;
    bool runs_ = false;
};

class LlamaTemplates : public ::testing::TestWithParam<std::string> {};

TEST_P(LlamaTemplates, SayWhatLlamaServerSays) {
    if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    const LlamaBench llama = app::find_llama_program("llama-server");
    if (llama.command.empty()) { GTEST_SKIP() << "llama-server is not installed"; }
    const std::string source = read_text_file(fs::path(kTemplates) / (GetParam() + ".jinja"));
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
}  // namespace pith::testing::llama_templates_test
