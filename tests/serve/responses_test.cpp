// responses_test.cpp - OpenAI's responses over HTTP, whole and as events, on the built-in model.
#include "pith/log.h"
#include "serve/serving.h"
#include "serve/shapes/responses_input.h"
#include "serve/shapes/responses_output.h"
#include "serve/shapes/responses_request.h"
#include "serve/shapes/tools.h"

namespace pith::testing::responses_test {
namespace {

const std::string kPath = "/v1/responses";

class Responses : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
        if (!served_) { served_ = std::make_unique<Serving>(); }
    }
    static void TearDownTestSuite() { served_.reset(); }
    static HttpAnswer send(const Json & body, const std::string & path = kPath) { return post(served_->port(), path, body); }
    static inline std::unique_ptr<Serving> served_;
};

Json function(const std::string & name) {
    return {
        {"type", "function"},
        {"name", name},
        {"description", "How the weather will be"},
        {"parameters", {{"type", "object"}, {"properties", {{"city", {{"enum", {"Elm", "Oak"}}}}}}, {"required", {"city"}}}},
        {"strict", false}};
}

// A response put together from its events by the rules of OpenAI's clients; every event is where it belongs.
Json put_together(const HttpAnswer & stream) {
    Json last;
    Json open;  // the item that is being told
    Json items = Json::array();
    std::string text;
    std::string id;
    int64_t n = 0;
    for (const Json & event : stream.events()) {
        const std::string type = event["type"];
        EXPECT_NE(stream.body.find("event: " + type + "\ndata: "), std::string::npos);
        EXPECT_EQ(event["sequence_number"], n) << event;
        EXPECT_TRUE(last.is_null()) << "behind the end: " << event;
        if (n == 0) { EXPECT_EQ(type, "response.created"); }
        ++n;
        if (event.contains("response")) {
            if (id.empty()) { id = event["response"]["id"]; }
            EXPECT_EQ(event["response"]["id"], id);
        }
        if (event.contains("output_index")) { EXPECT_EQ(event["output_index"], items.size()) << event; }
        if (event.contains("item_id")) { EXPECT_EQ(event["item_id"], open["id"]) << event; }
        if (type == "response.created" || type == "response.in_progress") {
            EXPECT_EQ(event["response"]["status"], "in_progress");
            EXPECT_EQ(event["response"]["output"], Json::array());
        } else if (type == "response.output_item.added") {
            EXPECT_TRUE(open.is_null());
            open = event["item"];
            EXPECT_EQ(open["status"], "in_progress");
            text.clear();
        } else if (type.ends_with(".delta")) {
            text += event["delta"].get<std::string>();
        } else if (type == "response.output_text.done" || type == "response.reasoning_text.done") {
            EXPECT_EQ(event["text"], text);
        } else if (type == "response.function_call_arguments.done") {
            EXPECT_EQ(event["arguments"], text);
        } else if (type == "response.custom_tool_call_input.done") {
            EXPECT_EQ(event["input"], text);
        } else if (type == "response.output_item.done") {
            EXPECT_EQ(event["item"]["id"], open["id"]);
            EXPECT_EQ(event["item"].value("call_id", ""), open.value("call_id", ""));
            items.push_back(event["item"]);
            open = nullptr;
        } else if (type == "response.completed" || type == "response.incomplete" || type == "response.failed") {
            EXPECT_EQ("response." + event["response"]["status"].get<std::string>(), type);
            last = event["response"];
        }
    }
    EXPECT_FALSE(last.is_null()) << stream.body;
    EXPECT_TRUE(open.is_null());
    EXPECT_EQ(last["output"], items);
    return last;
}

// Without what is drawn anew for each.
Json without_ids(Json items) {
    for (Json & item : items) {
        item.erase("id");
        item.erase("call_id");
    }
    return items;
}

TEST_F(Responses, SayWhatChatCompletionsSay) {
    Json chat = {{"max_tokens", 12}, {"temperature", 0}};
    chat["messages"] = {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "What is the sky?"}}};
    const Json wanted = served_->chat(chat).json();
    Json body = {{"model", "any"},
                 {"instructions", "Be brief."},
                 {"input", "What is the sky?"},
                 {"max_output_tokens", 12},
                 {"temperature", 0},
                 {"store", false},
                 {"metadata", {{"a", "b"}}}};
    const HttpAnswer answer = send(body);
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json whole = answer.json();
    EXPECT_EQ(whole["object"], "response");
    EXPECT_TRUE(whole["id"].get<std::string>().starts_with("resp_"));
    ASSERT_EQ(whole["output"].size(), 1U) << whole;
    const Json & message = whole["output"][0];
    EXPECT_EQ(message["type"], "message");
    EXPECT_EQ(message["role"], "assistant");
    EXPECT_EQ(message["content"][0]["type"], "output_text");
    EXPECT_EQ(message["content"][0]["text"], wanted["choices"][0]["message"]["content"]);
    EXPECT_EQ(message["content"][0]["annotations"], Json::array());
    const bool cut = wanted["choices"][0]["finish_reason"] == "length";
    EXPECT_EQ(whole["status"], cut ? "incomplete" : "completed");
    EXPECT_EQ(whole["usage"]["input_tokens"], wanted["usage"]["prompt_tokens"]);
    EXPECT_EQ(whole["usage"]["output_tokens"], wanted["usage"]["completion_tokens"]);
    EXPECT_EQ(whole["usage"]["total_tokens"], wanted["usage"]["total_tokens"]);
    EXPECT_TRUE(whole["usage"]["input_tokens_details"]["cached_tokens"].is_number_integer());
    EXPECT_EQ(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
    EXPECT_EQ(whole["instructions"], "Be brief.");
    EXPECT_EQ(whole["metadata"], (Json{{"a", "b"}}));
    EXPECT_EQ(whole["tools"], Json::array());
    EXPECT_EQ(whole["error"], nullptr);
    EXPECT_EQ(send(body, "/responses").json()["output"][0]["content"], message["content"]);
    // Items say the same as a text.
    body["input"] = {{{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "What is the sky?"}}}}}};
    EXPECT_EQ(without_ids(send(body).json()["output"]), without_ids(whole["output"]));
    const Json counted = send(body, kPath + "/input_tokens").json();
    EXPECT_EQ(counted, (Json{{"object", "response.input_tokens"}, {"input_tokens", wanted["usage"]["prompt_tokens"]}}));

    body["stream"] = true;
    const HttpAnswer stream = send(body);
    EXPECT_NE(stream.headers.find("text/event-stream"), std::string::npos);
    const Json streamed = put_together(stream);
    EXPECT_EQ(without_ids(streamed["output"]), without_ids(whole["output"]));
    EXPECT_EQ(streamed["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
}

TEST_F(Responses, ThatAreCutOffAreIncomplete) {
    Json body = {{"input", "What is the sky?"}, {"max_output_tokens", 3}, {"ignore_eos", true}, {"temperature", 0}};
    for (const bool stream : {false, true}) {
        body["stream"] = stream;
        const HttpAnswer answer = send(body);
        const Json json = stream ? put_together(answer) : answer.json();
        EXPECT_EQ(json["status"], "incomplete");
        EXPECT_EQ(json["incomplete_details"], (Json{{"reason", "max_output_tokens"}}));
        EXPECT_EQ(json["completed_at"], nullptr);
        EXPECT_EQ(json["max_output_tokens"], 3);
        EXPECT_EQ(json["output"].back()["status"], "incomplete");
        EXPECT_EQ(json["usage"]["output_tokens"], 3);
    }
}

TEST_F(Responses, CallFunctionsAndToolsOfOneText) {
    const Json custom = {{"type", "custom"},
                         {"name", "patch"},
                         {"description", "Changes a file"},
                         {"format", {{"type", "grammar"}, {"syntax", "lark"}, {"definition", "start: /x+/"}}}};
    const Json group = {{"type", "namespace"}, {"name", "forecast"}, {"tools", Json::array({function("weather")})}};
    Json body = {{"input", "What will the weather be?"},
                 {"temperature", 0},
                 {"max_output_tokens", 300},
                 {"tools", Json::array({function("weather"), custom, group, {{"type", "web_search"}}})},
                 {"logit_bias", {{"\"", 2}}}};  // lest the built-in model's text has no end
    struct Row {
        Json choice;
        std::string type, name, space;
    };
    for (const Row & row : std::vector<Row>{
             {{{"type", "function"}, {"name", "weather"}}, "function_call", "weather", ""},
             {{{"type", "function"}, {"name", "weather"}, {"namespace", "forecast"}}, "function_call", "weather", "forecast"},
             {{{"type", "custom"}, {"name", "patch"}}, "custom_tool_call", "patch", ""},
             {{{"type", "allowed_tools"}, {"mode", "required"}, {"tools", {{{"type", "custom"}, {"name", "patch"}}}}},
              "custom_tool_call",
              "patch",
              ""},
         }) {
        body["tool_choice"] = row.choice;
        Json outputs = Json::array();
        for (const bool stream : {false, true}) {
            body["stream"] = stream;
            const HttpAnswer answer = send(body);
            ASSERT_EQ(answer.status, 200) << answer.body;
            const Json json = stream ? put_together(answer) : answer.json();
            ASSERT_FALSE(json["output"].empty()) << json;
            const Json & call = json["output"][0];
            EXPECT_EQ(call["type"], row.type) << call;
            EXPECT_EQ(call["name"], row.name);
            EXPECT_EQ(call.value("namespace", ""), row.space);
            EXPECT_FALSE(call["call_id"].get<std::string>().empty());
            if (row.type == "function_call") {
                const std::string city = Json::parse(call["arguments"].get<std::string>())["city"];
                EXPECT_TRUE(city == "Elm" || city == "Oak");
            } else if (json["status"] == "completed") {
                EXPECT_EQ(call["input"].get<std::string>().find("\"input\""), std::string::npos) << call;
            }
            EXPECT_EQ(json["tools"], body["tools"]);
            EXPECT_EQ(json["tool_choice"], row.choice);
            outputs.push_back(without_ids(json["output"]));
        }
        EXPECT_EQ(outputs[0], outputs[1]);
    }
    // What was called and what it gave go back.
    body.erase("tool_choice");
    body["stream"] = false;
    body["max_output_tokens"] = 4;
    body["input"] = {
        {{"role", "user"}, {"content", "What will the weather be?"}},
        {{"type", "reasoning"},
         {"id", "rs_1"},
         {"summary", Json::array()},
         {"content", nullptr},
         {"encrypted_content", nullptr}},
        {{"type", "function_call"}, {"call_id", "a"}, {"name", "weather"}, {"namespace", "forecast"}, {"arguments", ""}},
        {{"type", "function_call_output"}, {"call_id", "a"}, {"output", {{{"type", "input_text"}, {"text", "dry"}}}}},
        {{"type", "custom_tool_call"}, {"call_id", "b"}, {"name", "patch"}, {"input", "x"}},
        {{"type", "custom_tool_call_output"}, {"call_id", "b"}, {"output", "done"}}};
    EXPECT_EQ(send(body).status, 200) << send(body).body;
}

// The model's arguments are no JSON object of one text: they are the text.
TEST(TextTools, GiveBackTheBareText) {
    using serve::text_in_arguments;
    EXPECT_EQ(text_in_arguments(serve::arguments_of_text("a\n\"b\"")), "a\n\"b\"");
    EXPECT_EQ(text_in_arguments("*** Begin Patch"), "*** Begin Patch");
    EXPECT_EQ(text_in_arguments("{\"patch\": 5}"), "{\"patch\": 5}");
    EXPECT_EQ(text_in_arguments(std::string(100'000, '[')), std::string(100'000, '['));
}

TEST(InputItems, OfTheAssistantThatFollowOneAnotherAreOneMessage) {
    const Json items = Json::parse(R"([
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "short"}], "content": [{"type": "reasoning_text", "text": "long"}]},
        {"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"n\": 9007199254740993}"},
        {"type": "custom_tool_call", "call_id": "2", "name": "g", "input": "x y"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "function_call_output", "call_id": "1", "output": "one"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "two"}]},
        {"type": "reasoning", "summary": null, "encrypted_content": "secret"},
        {"role": "user", "content": "c"}])");
    serve::ChatRequest request;
    const Status status = serve::read_input(items, "Always.", request);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(request.messages.size(), 7U);
    EXPECT_EQ(request.places.size(), 7U);
    EXPECT_EQ(request.places[1], "input[0]");
    const auto & m = request.messages;
    EXPECT_EQ(m[0].role + ": " + m[0].content, "system: Always.");
    EXPECT_EQ(m[1].role + ": " + m[1].content, "system: Be brief.");
    EXPECT_EQ(m[2].role + ": " + m[2].content, "user: a\nb");
    EXPECT_EQ(m[3].role + ": " + m[3].content, "assistant: I look.");
    EXPECT_EQ(m[3].reasoning, "long");
    const Json calls = Json::parse(m[3].tool_calls);
    ASSERT_EQ(calls.size(), 2U);
    EXPECT_EQ(calls[0]["function"]["arguments"], "{\"n\": 9007199254740993}");
    EXPECT_EQ(calls[1]["function"], (Json{{"name", "g"}, {"arguments", "{\"input\":\"x y\"}"}}));
    EXPECT_EQ(m[4].tool_call_id + ": " + m[4].content, "1: one");
    EXPECT_EQ(m[5].tool_call_id + ": " + m[5].content, "2: two");
    EXPECT_EQ(m[6].role + ": " + m[6].content, "user: c");
}

TEST_F(Responses, TellThoughtsAsAnItemOfTheirOwn) {
    Tokenizer thinks = *Tokenizer::load(kServedModel);
    ASSERT_TRUE(thinks
                    .set_chat_template("{% for m in messages %}{{ m.role }}: {% if m.reasoning_content %}<think>"
                                       "{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}\n{% endfor %}assistant: ")
                    .ok());
    ServingOptions options;
    options.tokenizer = &thinks;
    const Serving serving(options);
    Json body = {{"input", "x"}, {"temperature", 0}, {"grammar", "root ::= \"<think>hm hm</think>\\n\\nyes\""}};
    for (const bool stream : {false, true}) {
        body["stream"] = stream;
        const HttpAnswer answer = post(serving.port(), kPath, body);
        const Json json = stream ? put_together(answer) : answer.json();
        ASSERT_EQ(json["output"].size(), 2U) << json;
        EXPECT_EQ(json["output"][0]["type"], "reasoning");
        EXPECT_EQ(json["output"][0]["summary"], Json::array());
        EXPECT_EQ(json["output"][0]["content"], (Json::array({{{"type", "reasoning_text"}, {"text", "hm hm"}}})));
        EXPECT_EQ(json["output"][0]["encrypted_content"], nullptr);
        EXPECT_EQ(json["output"][1]["content"][0]["text"], "yes");
        const int64_t n_thought = json["usage"]["output_tokens_details"]["reasoning_tokens"];
        EXPECT_GT(n_thought, 0);
        EXPECT_LT(n_thought, json["usage"]["output_tokens"].get<int64_t>());
        // Sent back, they are the thought of the message behind them.
        body["input"] = json["output"];
        body["input"].insert(body["input"].begin(), Json{{"role", "user"}, {"content", "x"}});
        body["input"].push_back({{"role", "user"}, {"content", "y"}});
        const Json chat = {{"messages",
                            {{{"role", "user"}, {"content", "x"}},
                             {{"role", "assistant"}, {"content", "yes"}, {"reasoning_content", "hm hm"}},
                             {{"role", "user"}, {"content", "y"}}}},
                           {"max_tokens", 1}};
        EXPECT_EQ(post(serving.port(), kPath + "/input_tokens", body).json()["input_tokens"],
                  serving.chat(chat).json()["usage"]["prompt_tokens"]);
        body["input"] = "x";
    }
}

TEST_F(Responses, KeepToAFormat) {
    Json body = {{"input", "x"}, {"temperature", 0}, {"max_output_tokens", 100}};
    body["text"] = {{"format",
                     {{"type", "json_schema"},
                      {"name", "answer"},
                      {"strict", true},
                      {"schema",
                       {{"type", "object"},
                        {"properties", {{"a", {{"enum", {1, 2}}}}}},
                        {"required", {"a"}},
                        {"additionalProperties", false}}}}}};
    const Json json = send(body).json();
    ASSERT_EQ(json["status"], "completed") << json;
    const Json value = Json::parse(json["output"][0]["content"][0]["text"].get<std::string>(), nullptr, false);
    EXPECT_TRUE(value == Json({{"a", 1}}) || value == Json({{"a", 2}})) << json;
    EXPECT_EQ(json["text"], body["text"]);
    body["text"] = {{"format", {{"type", "json_object"}}}};
    body["max_output_tokens"] = 100;
    const std::string object = send(body).json()["output"][0]["content"][0]["text"];
    EXPECT_NE(object.find('{'), std::string::npos);
    EXPECT_TRUE(std::ranges::all_of(object.substr(0, object.find('{')), [](char c) { return c == ' ' || c == '\n'; }))
        << object;
    body["top_logprobs"] = 2;
    body["max_output_tokens"] = 5;
    const Json logprobs = send(body).json()["output"][0]["content"][0]["logprobs"];
    ASSERT_FALSE(logprobs.empty());
    EXPECT_EQ(logprobs[0]["top_logprobs"].size(), 2U);
}

TEST_F(Responses, SayWhatIsWrongWithARequest) {
    struct Row {
        std::string body, word, param;
    };
    const std::string i = R"({"input":"x","max_output_tokens":2,)";
    for (const Row & row : std::vector<Row>{
             {"{bad", "not JSON", ""},
             {"{}", "'input' is missing", "input"},
             {R"({"input":5})", "'input'", "input"},
             {R"({"input":[]})", "empty", "input"},
             {R"({"input":[5]})", "input[0]", "input[0]"},
             {R"({"input":[{"role":"user"}]})", "no content", "input[0]"},
             {R"({"input":[{"role":"robot","content":"x"}]})", "'robot'", "input[0]"},
             {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})", "'input_image'",
              "input[0].content[0]"},
             {R"({"input":[{"type":"item_reference","id":"msg_1"}]})", "item_reference", "input[0]"},
             {R"({"input":[{"type":"compaction","encrypted_content":"x"}]})", "'compaction'", "input[0]"},
             {R"({"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"a","name":"f","arguments":5}]})",
              "input[1].arguments", "input[1].arguments"},
             {R"({"input":[{"type":"function_call_output","output":"x"}]})", "call_id", "input[0]"},
             {i + R"("previous_response_id":"resp_1"})", "does not support 'previous_response_id'", "previous_response_id"},
             {i + R"("conversation":"c"})", "'conversation'", "conversation"},
             {i + R"("context_management":[{"type":"compaction"}]})", "'context_management'", "context_management"},
             {i + R"("background":true})", "'background'", "background"},
             {i + R"("tools":[{"name":"f"}]})", "no type", "tools[0]"},
             {i + R"("tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]})", "a second time", "tools[1]"},
             {i + R"("tool_choice":"required"})", "no 'tools'", "tool_choice"},
             {i + R"("tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}})", "'tool_choice'", "tool_choice"},
             {i + R"("text":{"format":{"type":"x"}}})", "text.format", "text.format"},
             {i + R"("text":{"format":{"type":"json_schema"}}})", "no schema", "text.format"},
             {i + R"("temperature":"hot"})", "'temperature'", "temperature"},
             {i + R"("max_output_tokens":0})", "'max_output_tokens'", "max_output_tokens"},
         }) {
        const HttpAnswer answer = ask(served_->port(), "POST", kPath, row.body);
        EXPECT_EQ(answer.status, 400) << row.body << "\n" << answer.body;
        const Json error = answer.json()["error"];
        EXPECT_NE(error["message"].get<std::string>().find(row.word), std::string::npos) << error;
        EXPECT_EQ(error["param"], row.param.empty() ? Json() : Json(row.param)) << error;
        EXPECT_TRUE(error["code"].is_string() && error["type"].is_string()) << error;
    }
}

TEST_F(Responses, TellAnAgentThatItsContextIsFull) {
    std::string text;
    for (int i = 0; i < 2000; ++i) { text += "the sky is blue "; }
    Json body = {{"input", text}};
    const HttpAnswer whole = send(body);
    EXPECT_EQ(whole.status, 400);
    EXPECT_EQ(whole.json()["error"]["code"], "context_length_exceeded");
    EXPECT_EQ(whole.json()["error"]["n_ctx"], 2048);
    body["stream"] = true;
    const HttpAnswer stream = send(body);
    EXPECT_EQ(stream.status, 200);
    const Json failed = put_together(stream);
    EXPECT_EQ(failed["status"], "failed");
    EXPECT_EQ(failed["error"]["code"], "context_length_exceeded");
}

TEST_F(Responses, TellThatALongPromptIsBeingRead) {
    ServingOptions options;
    options.api.ping_s = 0;
    options.api.session.chunk = 64;
    const Serving serving(options);
    std::string text;
    for (int i = 0; i < 100; ++i) { text += "the sky is blue "; }
    const HttpAnswer stream = post(serving.port(), kPath, {{"input", text}, {"stream", true}, {"max_output_tokens", 2}});
    int n = 0;
    for (const Json & event : stream.events()) { n += event["type"] == "response.in_progress" ? 1 : 0; }
    EXPECT_GT(n, 2) << stream.body;
    EXPECT_EQ(put_together(stream)["usage"]["output_tokens"], 2);
}

// A piece may hold the end of a call and what is said behind it.
TEST_F(Responses, EndACallBeforeWhatIsSaidBehindIt) {
    serve::ResponsesOutput output(served_tokenizer(), false, {});
    std::vector<Json> events;
    output.add({.text = "", .calls = {{0, "weather", "{\"city\":"}}}, events);
    output.add({.text = "So be it.", .calls = {{0, "", "\"Elm\"}"}}}, events);
    output.finish(false, events);
    ASSERT_EQ(output.items().size(), 2U);
    EXPECT_EQ(output.items()[0]["arguments"], R"({"city":"Elm"})");
    EXPECT_EQ(output.items()[1]["content"][0]["text"], "So be it.");
}

TEST_F(Responses, TellThatATextToolsTextIsBeingWritten) {
    ServingOptions options;
    options.api.ping_s = 0;
    const Serving serving(options);
    const Json body = {{"input", "What will the weather be?"},
                       {"stream", true},
                       {"temperature", 0},
                       {"max_output_tokens", 120},  // the built-in model's text has no end
                       {"tools", {{{"type", "custom"}, {"name", "patch"}}}},
                       {"tool_choice", {{"type", "custom"}, {"name", "patch"}}}};
    const HttpAnswer stream = post(serving.port(), kPath, body);
    bool has_begun = false;
    int n = 0;
    for (const Json & event : stream.events()) {
        has_begun = has_begun || event["type"] == "response.output_item.added";
        n += has_begun && event["type"] == "response.in_progress" ? 1 : 0;
    }
    EXPECT_GT(n, 2) << stream.body;
    const Json cut = put_together(stream);
    EXPECT_EQ(cut["status"], "incomplete");
    ASSERT_EQ(cut["output"][0]["type"], "custom_tool_call") << cut;
    EXPECT_EQ(cut["output"][0]["input"].get<std::string>().find("\"input\""), std::string::npos) << cut;
}

TEST(ResponsesTexts, OfACutCallAreThoseSoFar) {
    struct Row {
        std::string arguments, text;
    };
    for (const Row & row : std::vector<Row>{{R"({"input": "a\nb)", "a\nb"},
                                            {R"({"input":"a\)", "a"},
                                            {R"({"input":"a\u00)", "a"},
                                            {R"({"input":"a\ud83d\ude)", "a"},
                                            {R"({"input":"a\\)", "a\\"},
                                            {"{\"input\":\"a\xC3", "a"},
                                            {R"({"input":"a\"b" )", "a\"b"},
                                            {R"({"input":"ab"})", "ab"},
                                            {R"({"inp)", ""},
                                            {"", ""}}) {
        EXPECT_EQ(serve::text_begun_in_arguments(row.arguments), row.text) << row.arguments;
    }
}

TEST_F(Responses, LeaveToolsOfOtherServersOutOfThoseAllowed) {
    Json body = {{"input", "x"},
                 {"max_output_tokens", 1},
                 {"tools", {{{"type", "custom"}, {"name", "patch"}}, {{"type", "web_search"}}}},
                 {"tool_choice",
                  {{"type", "allowed_tools"},
                   {"mode", "auto"},
                   {"tools", {{{"type", "web_search"}}, {{"type", "custom"}, {"name", "patch"}}}}}}};
    EXPECT_EQ(send(body).status, 200);
    body["tool_choice"]["tools"] = {{{"type", "custom"}}};
    EXPECT_EQ(send(body).status, 400);
}

TEST_F(Responses, NameToolsOfOtherServersInTheLogOnce) {
    static std::vector<std::string> lines;
    lines.clear();
    const Serving serving;
    set_log_sink([](LogLevel, std::string_view line) { lines.emplace_back(line); });
    const Json body = {
        {"input", "x"}, {"max_output_tokens", 1}, {"tools", {{{"type", "web_search"}}, {{"type", "image_generation"}}}}};
    for (int i = 0; i < 3; ++i) { EXPECT_EQ(post(serving.port(), kPath, body).status, 200); }
    set_log_sink({});
    const auto n =
        std::ranges::count_if(lines, [](const std::string & line) { return line.find("left out") != std::string::npos; });
    EXPECT_EQ(n, 2);
}

}  // namespace
}  // namespace pith::testing::responses_test
