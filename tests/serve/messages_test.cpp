// messages_test.cpp - Anthropic's messages over HTTP, whole and as events, on the built-in model.
#include "serve/serving.h"

namespace pith::testing::messages_test {
namespace {

const std::string kPath = "/v1/messages";

class Messages : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
        if (!served_) { served_ = std::make_unique<Serving>(); }
    }
    static void TearDownTestSuite() { served_.reset(); }
    static HttpAnswer send(const Json & body, const std::string & path = kPath) { return post(served_->port(), path, body); }
    static std::unique_ptr<Serving> served_;
};
std::unique_ptr<Serving> Messages::served_;

const Json kWeather = Json::array(
    {{{"name", "weather"},
      {"description", "How the weather will be"},
      {"input_schema", {{"type", "object"}, {"properties", {{"city", {{"enum", {"Elm", "Oak"}}}}}}, {"required", {"city"}}}}}});

// A message put together from its events, as Anthropic's clients do; every event is where it belongs.
Json put_together(const HttpAnswer & stream) {
    Json message;
    std::string partial;
    bool open = false;
    bool ended = false;
    for (const Json & event : stream.events()) {
        const std::string type = event["type"];
        EXPECT_NE(stream.body.find("event: " + type + "\ndata: "), std::string::npos);
        EXPECT_FALSE(ended) << event;
        EXPECT_EQ(type == "message_start", message.is_null()) << event;
        if (type == "message_start") {
            message = event["message"];
            continue;
        }
        Json & blocks = message["content"];
        if (type == "content_block_start") {
            EXPECT_FALSE(open);
            EXPECT_EQ(event["index"], blocks.size());
            blocks.push_back(event["content_block"]);
            partial.clear();
            open = true;
        } else if (type == "content_block_delta") {
            EXPECT_TRUE(open);
            const Json & delta = event["delta"];
            if (delta["type"] == "text_delta") {
                blocks.back()["text"] = blocks.back()["text"].get<std::string>() + delta["text"].get<std::string>();
            } else {
                EXPECT_EQ(delta["type"], "input_json_delta");
                partial += delta["partial_json"].get<std::string>();
            }
        } else if (type == "content_block_stop") {
            EXPECT_TRUE(open);
            open = false;
            if (blocks.back()["type"] == "tool_use") { blocks.back()["input"] = Json::parse(partial, nullptr, false); }
        } else if (type == "message_delta") {
            message.update(event["delta"]);
            message["usage"] = event["usage"];
        } else if (type == "message_stop") {
            ended = true;
        }
    }
    EXPECT_TRUE(ended && !open);
    return message;
}

TEST_F(Messages, SayWhatChatCompletionsSay) {
    Json body = {{"model", "any"},
                 {"max_tokens", 12},
                 {"temperature", 0},
                 {"system", "Be brief."},
                 {"messages", said_by("What is the sky?")}};
    Json chat = {{"max_tokens", 12}, {"temperature", 0}};
    chat["messages"] = {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "What is the sky?"}}};
    const Json wanted = served_->chat(chat).json();
    const HttpAnswer answer = send(body);
    ASSERT_EQ(answer.status, 200) << answer.body;
    Json whole = answer.json();
    EXPECT_EQ(whole["type"], "message");
    EXPECT_EQ(whole["role"], "assistant");
    EXPECT_EQ(whole["content"][0]["type"], "text");
    EXPECT_EQ(whole["content"][0]["text"], wanted["choices"][0]["message"]["content"]);
    EXPECT_EQ(whole["stop_reason"], wanted["choices"][0]["finish_reason"] == "length" ? "max_tokens" : "end_turn");
    EXPECT_EQ(whole["usage"]["input_tokens"].get<int>() + whole["usage"]["cache_read_input_tokens"].get<int>(),
              wanted["usage"]["prompt_tokens"].get<int>());
    EXPECT_EQ(whole["usage"]["output_tokens"], wanted["usage"]["completion_tokens"]);
    // Blocks say the same as a text.
    body["system"] = {{{"type", "text"}, {"text", "Be brief."}, {"cache_control", {{"type", "ephemeral"}}}}};
    body["messages"] = {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "What is the sky?"}}}}}};
    EXPECT_EQ(send(body).json()["content"], whole["content"]);
    body.erase("max_tokens");
    EXPECT_EQ(send(body, kPath + "/count_tokens").json()["input_tokens"], wanted["usage"]["prompt_tokens"]);

    body["max_tokens"] = 12;
    body["stream"] = true;
    const HttpAnswer stream = send(body);
    EXPECT_NE(stream.headers.find("text/event-stream"), std::string::npos);
    const Json streamed = put_together(stream);
    EXPECT_EQ(streamed["content"], whole["content"]);
    EXPECT_EQ(streamed["stop_reason"], whole["stop_reason"]);
    EXPECT_EQ(streamed["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
}

// Anthropic's prefill: the answer is what comes behind it.
TEST_F(Messages, GoOnWithALastMessageOfTheAssistants) {
    Json messages = said_by("What is the sky?");
    messages.push_back({{"role", "assistant"}, {"content", "The sky is"}});
    Json body = {{"max_tokens", 8}, {"temperature", 0}, {"messages", messages}};
    const Json wanted = served_->chat({{"max_tokens", 8}, {"temperature", 0}, {"messages", messages}}).json();
    const Json whole = send(body).json();
    ASSERT_TRUE(whole.contains("content")) << whole;
    EXPECT_EQ(whole["content"][0]["text"], wanted["choices"][0]["message"]["content"]);
    EXPECT_EQ(whole["usage"]["input_tokens"], wanted["usage"]["prompt_tokens"]);
    body["messages"].back()["content"] = {{{"type", "text"}, {"text", "The sky is"}}};
    EXPECT_EQ(send(body).json()["content"], whole["content"]);
    EXPECT_EQ(send({{"messages", messages}}, kPath + "/count_tokens").json()["input_tokens"], whole["usage"]["input_tokens"]);
    const std::string prompt = "<|im_start|>user\nWhat is the sky?<|im_end|>\n<|im_start|>assistant\nThe sky is";
    const Json text = served_->text({{"prompt", prompt}, {"max_tokens", 8}, {"temperature", 0}}).json();
    EXPECT_EQ(whole["content"][0]["text"], text["choices"][0]["text"]);
    body["messages"].back()["content"] = {{{"type", "thinking"}, {"thinking", "x"}}, {{"type", "text"}, {"text", "y"}}};
    EXPECT_EQ(send(body).status, 400);
}

TEST_F(Messages, TellTheStopSequence) {
    Json body = {{"max_tokens", 12}, {"temperature", 0}, {"messages", said_by("What is the sky?")}};
    const std::string said = send(body).json()["content"][0]["text"];
    ASSERT_GT(said.size(), 4U);
    const std::string stop = said.substr(2, 2);
    body["stop_sequences"] = {"never said", stop};
    for (const bool stream : {false, true}) {
        body["stream"] = stream;
        const HttpAnswer answer = send(body);
        const Json json = stream ? put_together(answer) : answer.json();
        EXPECT_EQ(json["stop_reason"], "stop_sequence");
        EXPECT_EQ(json["stop_sequence"], stop);
        EXPECT_EQ(json["content"][0]["text"], said.substr(0, said.find(stop)));
    }
}

TEST_F(Messages, UseATool) {
    Json body = {{"max_tokens", 200},
                 {"temperature", 0},
                 {"messages", said_by("What will the weather be?")},
                 {"tools", kWeather},
                 {"tool_choice", {{"type", "tool"}, {"name", "weather"}}}};
    Json whole = send(body).json();
    ASSERT_TRUE(whole.contains("content")) << whole;
    EXPECT_EQ(whole["stop_reason"], "tool_use");
    const Json call = whole["content"].back();
    EXPECT_EQ(call["type"], "tool_use");
    EXPECT_EQ(call["name"], "weather");
    EXPECT_TRUE(call["input"]["city"] == "Elm" || call["input"]["city"] == "Oak") << call;
    body["stream"] = true;
    Json streamed = put_together(send(body));
    EXPECT_EQ(streamed["content"].back()["input"], call["input"]);
    EXPECT_EQ(streamed["stop_reason"], "tool_use");
    // The result goes back.
    body["stream"] = false;
    body["tool_choice"] = {{"type", "auto"}};
    body["max_tokens"] = 4;
    body["messages"].push_back({{"role", "assistant"}, {"content", whole["content"]}});
    body["messages"].push_back(
        {{"role", "user"}, {"content", {{{"type", "tool_result"}, {"tool_use_id", call["id"]}, {"content", "dry"}}}}});
    EXPECT_EQ(send(body).status, 200);
}

// A grammar makes the model write what real ones do.
TEST_F(Messages, UseAToolInWhateverFormTheModelWrites) {
    const std::string call = R"({"name": "weather", "arguments": {"city": "Elm"}})";
    Json body = {
        {"max_tokens", 200}, {"temperature", 0}, {"messages", said_by("What will the weather be?")}, {"tools", kWeather}};
    for (const std::string & text : {"I look.\n```json\n" + call + "\n```", "I look.\n\n{" + call + "}"}) {
        body["grammar"] = "root ::= " + Json(text).dump();
        for (const bool stream : {false, true}) {
            body["stream"] = stream;
            const HttpAnswer answer = send(body);
            const Json message = stream ? put_together(answer) : answer.json();
            ASSERT_EQ(message["content"].size(), 2U) << message;
            EXPECT_EQ(message["content"][0]["text"], "I look.");
            EXPECT_EQ(message["content"][1]["name"], "weather");
            EXPECT_EQ(message["content"][1]["input"], Json({{"city", "Elm"}}));
            EXPECT_EQ(message["stop_reason"], "tool_use");
        }
    }
    const std::string other = "```json\n{\"name\": \"John Doe\", \"age\": 30}\n```";
    body["grammar"] = "root ::= " + Json(other).dump();
    for (const bool stream : {false, true}) {
        body["stream"] = stream;
        const HttpAnswer answer = send(body);
        const Json message = stream ? put_together(answer) : answer.json();
        ASSERT_EQ(message["content"].size(), 1U) << message;
        EXPECT_EQ(message["content"][0]["text"], other);
        EXPECT_EQ(message["stop_reason"], "end_turn");
    }
}

TEST_F(Messages, KeepToAFormat) {
    const Json schema = {
        {"type", "object"}, {"properties", {{"a", {{"enum", {1, 2}}}}}}, {"required", {"a"}}, {"additionalProperties", false}};
    const Json format = {{"type", "json_schema"}, {"schema", schema}};
    Json body = {{"max_tokens", 100}, {"temperature", 0}, {"messages", said_by("x")}};
    for (const Json & asked :
         {Json{{"output_config", {{"format", format}, {"effort", "low"}}}}, Json{{"output_format", format}}}) {
        Json one = body;
        one.update(asked);
        const Json answer = send(one).json();
        ASSERT_TRUE(answer.contains("content")) << answer;
        const Json value = Json::parse(answer["content"][0]["text"].get<std::string>(), nullptr, false);
        EXPECT_TRUE(value == Json({{"a", 1}}) || value == Json({{"a", 2}})) << answer;
        EXPECT_EQ(answer["stop_reason"], "end_turn");
    }
}

// The SDK looks for these words, and then sends all of the conversation. Whatever else would be lost is refused, too.
TEST_F(Messages, OfAThreadAreAskedForAgain) {
    Json body = {{"max_tokens", 2}, {"messages", said_by("x")}};
    for (const Json & thread : {Json{{"type", "create"}}, Json{{"type", "continue"}, {"previous_message_id", "msg_1"}}}) {
        body["thread"] = thread;
        for (const std::string & path : {kPath, kPath + "/count_tokens"}) {
            const HttpAnswer answer = send(body, path);
            EXPECT_EQ(answer.status, 400);
            const Json error = answer.json()["error"];
            EXPECT_EQ(error["type"], "invalid_request_error");
            EXPECT_EQ(error["details"], (Json{{"error_code", "thread_unsupported_request"}, {"unsupported", {"thread"}}}));
        }
    }
    body["thread"] = nullptr;
    body["context_management"] = {{"edits", {{{"type", "clear_thinking_20251015"}, {"keep", "all"}}}}};
    body["mcp_servers"] = Json::array();
    body["container"] = nullptr;
    EXPECT_EQ(send(body).status, 200) << "none of these asks for anything";
}

// A line that changes with every request says nothing to the model, and would keep all behind it from being found again.
TEST_F(Messages, AreFoundAgainBehindAClientsOwnHeader) {
    const auto body = [](const std::string & header) {
        const std::string rules =
            "Answer in one word. Look at the whole question before you answer, and do not explain yourself.";
        Json system = Json::array();
        if (!header.empty()) { system.push_back({{"type", "text"}, {"text", header}}); }
        system.push_back({{"type", "text"}, {"text", rules}});
        const Json message = {{"role", "user"}, {"content", "Where is Elm?"}};
        return Json{{"system", system}, {"max_tokens", 4}, {"temperature", 0}, {"messages", Json::array({message})}};
    };
    const auto n_read = [&](const std::string & header) {
        return send(body(header), kPath + "/count_tokens").json()["input_tokens"].get<int>();
    };
    const std::string header = "x-anthropic-billing-header: cc_version=2.1.36.1; cc_entrypoint=cli; cch=1f0a2;";
    EXPECT_EQ(n_read(header), n_read(""));
    EXPECT_EQ(n_read(header + "\nx-anthropic-billing-header: again"), n_read(""));
    EXPECT_GT(n_read("x-other-header: cch=1f0a2;"), n_read("")) << "only those that are known";
    EXPECT_EQ(send(body(header)).json()["content"], send(body("")).json()["content"]);
}

TEST_F(Messages, MayHaveASystemMessageInTheMiddle) {
    Json body = {{"max_tokens", 1}};
    body["messages"] = {{{"role", "user"}, {"content", "a"}},
                        {{"role", "system"}, {"content", {{{"type", "text"}, {"text", "Be brief."}}}}},
                        {{"role", "user"}, {"content", "b"}}};
    const Json chat = {{"max_tokens", 1},
                       {"messages",
                        {{{"role", "user"}, {"content", "a"}},
                         {{"role", "system"}, {"content", "Be brief."}},
                         {{"role", "user"}, {"content", "b"}}}}};
    const Json answer = send(body).json();
    ASSERT_TRUE(answer.contains("usage")) << answer;
    EXPECT_EQ(answer["usage"]["input_tokens"].get<int>() + answer["usage"]["cache_read_input_tokens"].get<int>(),
              served_->chat(chat).json()["usage"]["prompt_tokens"].get<int>());
}

// In the words that Anthropic's clients look for before they shorten a conversation.
TEST_F(Messages, TellWhenTheContextIsFull) {
    std::string text;
    for (int i = 0; i < 400; ++i) { text += long_text(); }
    const HttpAnswer full = send({{"max_tokens", 2}, {"messages", said_by(text)}});
    EXPECT_EQ(full.status, 400);
    const Json error = full.json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["message"],
              "prompt is too long: " + error["n_prompt_tokens"].dump() + " tokens > " + error["n_ctx"].dump() + " maximum");
    EXPECT_GT(error["n_prompt_tokens"], error["n_ctx"]);
}

TEST_F(Messages, HaveErrorsOfTheirOwnShape) {
    struct Row {
        std::string body;
        int code;
        std::string word;
    };
    const std::string m = R"({"max_tokens":2,"messages":[{"role":"user","content":"x"}])";
    for (const Row & row : std::vector<Row>{
             {"{bad", 400, "not JSON"},
             {"{}", 400, "'messages'"},
             {R"({"messages":[{"role":"user","content":"x"}]})", 400, "'max_tokens'"},
             {R"({"max_tokens":2,"messages":[{"role":"robot","content":"x"}]})", 400, "'robot'"},
             {m + R"(,"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}})", 400, "'context_management'"},
             {m + R"(,"context_management":{"edits":[{"type":"clear_thinking_20251015"}]}})", 400, "'context_management'"},
             {m + R"(,"mcp_servers":[{"url":"x"}]})", 400, "'mcp_servers'"},
             {m + R"(,"container":"c"})", 400, "'container'"},
             {m + R"(,"output_format":{"type":"json_schema"}})", 400, "no schema"},
             {m + R"(,"output_config":{"format":{"type":"x"}}})", 400, "output_config.format"},
             {m + R"(,"output_config":{"effort":5}})", 400, "'effort'"},
             {m + R"(,"output_format":{"type":"text"},"output_config":{"format":{"type":"text"}}})", 400, "one of them"},
             {m + R"(,"output_format":{"type":"json_schema","schema":{}},"grammar":"root ::= \"a\""})", 400, "one form"},
             {m + R"(,"grammar":"root ::= \"a\"","tools":[{"name":"f"}],"tool_choice":{"type":"any"}})", 400, "one of them"},
             {R"({"max_tokens":2,"messages":[{"role":"user","content":[{"type":"image"}]}]})", 400, "image"},
             {R"({"max_tokens":2,"messages":[{"role":"user","content":[{"type":"tool_use"}]}]})", 400, "tool_use"},
             {R"({"max_tokens":2,"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":5}]}]})", 400,
              "input"},
             {m + R"(,"system":5})", 400, "'system'"},
             {m + R"(,"temperature":"x"})", 400, "'temperature'"},
             {m + R"(,"stop_sequences":5})", 400, "'stop_sequences'"},
             {m + R"(,"stop_sequences":)" + Json(std::vector<std::string>(65, "x")).dump() + "}", 400, "65 texts"},
             {m + R"(,"tools":[{"name":"f","type":"bash_20250124"}]})", 400, "bash"},
             {m + R"(,"tools":5})", 400, "'tools'"},
             {m + R"(,"tools":[5]})", 400, "'tools[0]'"},
             {m + R"(,"tools":)" + Json(std::vector<Json>(513, {{"name", "f"}})).dump() + "}", 400, "513 functions"},
             {m + R"(,"reasoning_effort":5})", 400, "'reasoning_effort'"},
             {m + R"(,"tool_choice":{"type":"any"}})", 400, "no 'tools'"},
             {m + R"(,"tool_choice":{"type":"tool","name":"f"}})", 400, "'f'"},
             {m + R"(,"kv_policy":"nonsense"})", 400, "'kv_policy'"},
             {m + R"(,"grammar":"root ::= )" + std::string(17'000, '(') + R"("})", 400, "nested deeper"},
             {m + R"(,"grammar":"root ::= root \"a\" | \"b\""})", 400, "begins with itself"},
             {m + R"(,"grammar":"root ::= a # )" + std::string(600'000, 'x') + R"("})", 400, "524288 at most"},
         }) {
        const HttpAnswer answer = ask(served_->port(), "POST", kPath, row.body);
        EXPECT_EQ(answer.status, row.code) << row.body << "\n" << answer.body;
        const Json json = answer.json();
        ASSERT_TRUE(json.is_object() && json.contains("error")) << answer.body;
        EXPECT_EQ(json["type"], "error");
        EXPECT_EQ(json["error"]["type"], "invalid_request_error");
        EXPECT_NE(json["error"]["message"].get<std::string>().find(row.word), std::string::npos) << json << row.body;
    }
    EXPECT_EQ(get(served_->port(), kPath).json()["error"]["type"], "not_found_error");
    ServingOptions options;
    options.api.keys = {"the-key"};
    const Serving locked(options);
    const Json body = {{"max_tokens", 1}, {"messages", said_by("x")}};
    const HttpAnswer refused = post(locked.port(), kPath, body);
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(refused.json()["type"], "error");
    EXPECT_EQ(refused.json()["error"]["type"], "authentication_error");
    EXPECT_EQ(post(locked.port(), kPath, body, "X-Api-Key: the-key\r\nanthropic-version: 2023-06-01\r\n").status, 200);
}

// As many as agents with several servers of tools bring.
TEST_F(Messages, TakeTwoHundredTools) {
    Json tools = Json::array();
    for (int i = 0; i < 513; ++i) {
        tools.push_back({{"name", "f" + std::to_string(i)}, {"input_schema", {{"type", "object"}}}});
    }
    const auto status = [&](size_t n) {
        const Json body = {{"max_tokens", 1},
                           {"messages", {{{"role", "user"}, {"content", "x"}}}},
                           {"tools", Json(std::vector<Json>(tools.begin(), tools.begin() + static_cast<std::ptrdiff_t>(n)))}};
        return post(served_->port(), "/v1/messages/count_tokens", body).status;
    };
    EXPECT_EQ(status(200), 200);
    EXPECT_EQ(status(513), 400);
}

// What says nothing here, how far the prompt is, leaves the connection no quieter.
TEST_F(Messages, PingWhileALongPromptIsRead) {
    ServingOptions options;
    options.api.ping_s = 0;
    options.api.session.chunk = 64;
    const Serving serving(options);
    std::string text;
    for (int i = 0; i < 100; ++i) { text += "the sky is blue "; }
    const HttpAnswer stream = post(serving.port(), kPath,
                                   {{"max_tokens", 2},
                                    {"stream", true},
                                    {"return_progress", true},
                                    {"messages", {{{"role", "user"}, {"content", text}}}}});
    int n = 0;
    for (const Json & event : stream.events()) { n += event["type"] == "ping" ? 1 : 0; }
    EXPECT_GT(n, 2) << stream.body;
}

}  // namespace
}  // namespace pith::testing::messages_test
