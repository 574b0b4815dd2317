// completions_test.cpp - what completions say, over HTTP, on the built-in model.
#include <algorithm>
#include <fstream>
#include <set>

#include "serve/served_completions.h"

namespace pith::testing::completions_test {
namespace {

TEST_F(Completions, SayWhatASessionSays) {
    const HttpAnswer answer = serving_->text({{"prompt", kPrompt}, {"max_tokens", 12}, {"temperature", 0}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json json = answer.json();
    EXPECT_EQ(json["choices"][0]["text"], said_alone(kPrompt, 12));
    EXPECT_EQ(json["object"], "text_completion");
    EXPECT_EQ(json["model"], "built-in");
    const int64_t n_prompt = static_cast<int64_t>(served_tokenizer().encode(kPrompt, true, true)->size());
    EXPECT_EQ(json["usage"]["prompt_tokens"], n_prompt);
    EXPECT_EQ(json["usage"]["total_tokens"], n_prompt + json["usage"]["completion_tokens"].get<int64_t>());
    EXPECT_GT(json["usage"]["kv_bytes"].get<int64_t>(), 0);
    EXPECT_EQ(json["usage"]["kv_evicted_entries"], 0);
    EXPECT_EQ(json["timings"]["kv_policy"], "full");
    EXPECT_GT(json["timings"]["prompt_ms"].get<double>(), 0);
}

TEST_F(Completions, AreTheSameStreamedAndWhole) {
    const Json chat = {{"messages", said_by("What is the sky?")}, {"max_tokens", 10}, {"temperature", 0.7}, {"seed", 7}};
    const Json text = {{"prompt", kPrompt}, {"max_tokens", 10}, {"temperature", 0.7}, {"seed", 7}};
    for (const bool is_chat : {true, false}) {
        Json body = is_chat ? chat : text;
        const auto send = [&] { return is_chat ? serving_->chat(body) : serving_->text(body); };
        const Json whole = send().json();
        const std::string said = is_chat ? whole["choices"][0]["message"]["content"] : whole["choices"][0]["text"];
        EXPECT_FALSE(said.empty());
        body["stream"] = true;
        const HttpAnswer stream = send();
        EXPECT_EQ(stream.status, 200);
        EXPECT_NE(stream.headers.find("text/event-stream"), std::string::npos);
        EXPECT_EQ(streamed_text(stream, is_chat), said);
        const Json last = stream.events()[stream.events().size() - 2];
        EXPECT_EQ(last["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
        EXPECT_EQ(last["timings"]["predicted_n"], whole["timings"]["predicted_n"]);
    }
}

// A grammar that wants one text again and again, and draws that follow from the seed.
TEST_F(Completions, AreTheSameWithDraftsAndTellOfThem) {
    std::string line;
    for (int i = 0; i < 8; ++i) { line += "The sky is blue and the grass is green. "; }
    for (const Json & more : {Json{{"temperature", 0}}, Json{{"temperature", 1}, {"seed", 5}},
                              Json{{"temperature", 1}, {"seed", 5}, {"grammar", "root ::= (\"the sky is blue. \")+"}},
                              Json{{"temperature", 1},
                                   {"seed", 5},
                                   {"stop", {"grass", "blue. the sky"}},
                                   {"grammar", "root ::= (\"the sky is blue. \")+"}}}) {
        Json body = {{"prompt", line}, {"max_tokens", 40}, {"n", 2}};
        body.update(more);
        const Json without = serving_->text(body).json();
        body["speculative.n_max"] = 8;
        const Json with = serving_->text(body).json();
        for (size_t i = 0; i < 2; ++i) { EXPECT_EQ(with["choices"][i]["text"], without["choices"][i]["text"]) << more; }
        EXPECT_EQ(with["usage"]["completion_tokens"], without["usage"]["completion_tokens"]);
        EXPECT_FALSE(without["timings"].contains("draft_n"));
        if (!more.contains("grammar") || more.contains("stop")) { continue; }
        EXPECT_GT(with["timings"]["draft_n_accepted"], 0);
        EXPECT_GE(with["timings"]["draft_n"], with["timings"]["draft_n_accepted"]);
    }
    EXPECT_EQ(serving_->text({{"prompt", line}, {"speculative.n_max", 65}}).status, 400);
}

TEST_F(Completions, TellTheUsageOfAStreamOnRequest) {
    const HttpAnswer stream = serving_->chat({{"messages", said_by("What is the sky?")},
                                              {"max_tokens", 4},
                                              {"stream", true},
                                              {"stream_options", {{"include_usage", true}}}});
    streamed_text(stream, true);
    const Json last = stream.events()[stream.events().size() - 2];
    EXPECT_TRUE(last["choices"].empty());
    EXPECT_TRUE(last["usage"]["completion_tokens"].is_number_integer());
    EXPECT_TRUE(last["usage"]["prompt_tokens_details"]["cached_tokens"].is_number_integer());
}

TEST_F(Completions, TellProgressAndTimingsOnRequest) {
    std::string text;
    for (int i = 0; i < 100; ++i) { text += "The sky is blue. The grass is green. "; }
    const HttpAnswer stream = serving_->chat({{"messages", said_by(text)},
                                              {"max_tokens", 4},
                                              {"ignore_eos", true},
                                              {"stream", true},
                                              {"return_progress", true},
                                              {"timings_per_token", true}});
    int64_t n_read = 0;
    int64_t n_said = 0;
    for (const Json & event : stream.events()) {
        if (!event.is_object()) { continue; }
        if (event.contains("prompt_progress")) {
            const Json & progress = event["prompt_progress"];
            EXPECT_GT(progress["processed"].get<int64_t>(), n_read);
            n_read = progress["processed"];
            EXPECT_LE(n_read, progress["total"].get<int64_t>());
            EXPECT_EQ(n_said, 0);
        }
        if (event.contains("timings")) {
            EXPECT_GE(event["timings"]["predicted_n"].get<int64_t>(), n_said);
            n_said = event["timings"]["predicted_n"];
        }
    }
    EXPECT_GT(n_read, 1000);
    EXPECT_EQ(n_said, 4);
    // What an earlier request has read is told apart.
    ServingOptions options;
    options.api.caches = true;
    options.generator.engine.cache_memory_bytes = uint64_t{64} << 20U;
    const Serving caching(options);
    for (const bool again : {false, true}) {
        const auto events = caching
                                .chat({{"messages", said_by(text)},
                                       {"max_tokens", 2},
                                       {"stream", true},
                                       {"return_progress", true},
                                       {"stream_options", {{"include_usage", true}}}})
                                .events();
        ASSERT_GT(events.size(), 2U);
        const Json & n_cached = events[events.size() - 2]["usage"]["prompt_tokens_details"]["cached_tokens"];
        EXPECT_EQ(n_cached.get<int64_t>() > 0, again);
        int n_told = 0;
        for (const Json & event : events) {
            if (!event.is_object() || !event.contains("prompt_progress")) { continue; }
            EXPECT_EQ(event["prompt_progress"]["cache"], n_cached);
            EXPECT_GE(event["prompt_progress"]["processed"].get<int64_t>(), n_cached.get<int64_t>());
            ++n_told;
        }
        EXPECT_GT(n_told, 0);
    }
}

TEST_F(Completions, TellLogProbabilities) {
    Json body = {
        {"messages", said_by("the and")}, {"max_tokens", 5}, {"temperature", 0}, {"logprobs", true}, {"top_logprobs", 3}};
    const Json whole = serving_->chat(body).json();
    const Json & content = whole["choices"][0]["logprobs"]["content"];
    EXPECT_EQ(content.size(), 5U);
    std::string joined;
    for (const Json & one : content) {
        EXPECT_EQ(one["top_logprobs"].size(), 3U);
        EXPECT_EQ(one["top_logprobs"][0]["id"], one["id"]);  // greedy
        EXPECT_LE(one["logprob"].get<double>(), 0);
        for (const Json & byte : one["bytes"]) { joined += static_cast<char>(byte.get<int>()); }
    }
    EXPECT_EQ(joined, whole["choices"][0]["message"]["content"].get<std::string>());
    body["stream"] = true;
    Json streamed = Json::array();
    for (const Json & event : serving_->chat(body).events()) {
        if (!event.is_object() || event["choices"].empty() || !event["choices"][0].contains("logprobs")) { continue; }
        for (const Json & one : event["choices"][0]["logprobs"]["content"]) { streamed.push_back(one); }
    }
    EXPECT_EQ(streamed, content);
}

TEST_F(Completions, TellLogProbabilitiesOfATextInLists) {
    Json body = {{"prompt", kPrompt}, {"max_tokens", 6}, {"temperature", 0}, {"logprobs", 2}};
    const Json whole = serving_->text(body).json()["choices"][0];
    const Json & lists = whole["logprobs"];
    std::string text;
    for (size_t i = 0; i < 6; ++i) {
        const Json & one = lists["content"][i];
        const std::string token = lists["tokens"][i];
        EXPECT_EQ(lists["token_logprobs"][i], one["logprob"]);
        EXPECT_EQ(lists["top_logprobs"][i].size(), 2U);
        EXPECT_EQ(lists["top_logprobs"][i][token], one["logprob"]);  // greedy
        EXPECT_EQ(lists["text_offset"][i], std::ssize(text));        // of ASCII
        text += token;
    }
    EXPECT_EQ(text, whole["text"]);
    body["stream"] = true;
    Json offsets = Json::array();
    for (const Json & event : serving_->text(body).events()) {
        if (!event.is_object() || event["choices"][0]["logprobs"].is_null()) { continue; }
        for (const Json & one : event["choices"][0]["logprobs"]["text_offset"]) { offsets.push_back(one); }
    }
    EXPECT_EQ(offsets, lists["text_offset"]);
    body["logprobs"] = 0;
    EXPECT_EQ(serving_->text(body).events().front()["choices"][0]["logprobs"]["top_logprobs"], Json::array({Json::object()}));
}

TEST_F(Completions, EndAtAStopText) {
    const std::string whole = said_alone(kPrompt, 12);
    ASSERT_GT(whole.size(), 8U);
    const std::string stop = whole.substr(5, 3);
    const std::string wanted = whole.substr(0, whole.find(stop));
    for (const bool stream : {false, true}) {
        const HttpAnswer answer =
            serving_->text({{"prompt", kPrompt}, {"max_tokens", 12}, {"temperature", 0}, {"stop", stop}, {"stream", stream}});
        const Json last = stream ? answer.events()[answer.events().size() - 2] : answer.json();
        EXPECT_EQ(stream ? streamed_text(answer, false) : last["choices"][0]["text"].get<std::string>(), wanted);
        EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
    }
}

TEST_F(Completions, GiveSeveralAnswersToSeveralPrompts) {
    const Json body = {{"prompt", {"The sky is", "One, two,"}}, {"n", 2}, {"max_tokens", 6}, {"temperature", 1.5}, {"seed", 3}};
    const Json json = serving_->text(body).json();
    ASSERT_EQ(json["choices"].size(), 4U);
    std::set<std::string> texts;
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(json["choices"][static_cast<size_t>(i)]["index"], i);
        texts.insert(json["choices"][static_cast<size_t>(i)]["text"].get<std::string>());
    }
    EXPECT_GE(texts.size(), 3U);
    EXPECT_EQ(serving_->text(body).json()["choices"], json["choices"]);  // the seed says it all
    Json greedy = {{"prompt", {"The sky is", "One, two,"}}, {"n", 2}, {"max_tokens", 6}, {"temperature", 0}, {"stream", true}};
    const HttpAnswer stream = serving_->text(greedy);
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(streamed_text(stream, false, i), said_alone(i < 2 ? "The sky is" : "One, two,", 6));
    }
}

TEST_F(Completions, TakeTokensForAPrompt) {
    const auto tokens = served_tokenizer().encode(kPrompt, true, true);
    const Json json = serving_->text({{"prompt", *tokens}, {"max_tokens", 8}, {"temperature", 0}}).json();
    EXPECT_EQ(json["choices"][0]["text"], said_alone(kPrompt, 8));
}

TEST_F(Completions, KeepToASchemaAndABias) {
    const Json schema = {{"type", "object"},
                         {"properties", {{"colour", {{"enum", {"red", "blue"}}}}}},
                         {"required", {"colour"}},
                         {"additionalProperties", false}};
    const Json formats = {{{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}},
                          {{"type", "json_object"}, {"schema", schema}}};
    for (const Json & format : formats) {
        const Json json = serving_
                              ->chat({{"messages", said_by("red or blue?")},
                                      {"max_tokens", 60},
                                      {"temperature", 0},
                                      {"response_format", format}})
                              .json();
        const Json said = Json::parse(json["choices"][0]["message"]["content"].get<std::string>(), nullptr, false);
        EXPECT_TRUE(said.is_object() && (said["colour"] == "red" || said["colour"] == "blue")) << json;
    }
    const Json biased =
        serving_->text({{"prompt", kPrompt}, {"max_tokens", 3}, {"temperature", 0}, {"logit_bias", {{"262", 100}}}}).json();
    EXPECT_EQ(biased["choices"][0]["text"],
              served_tokenizer().piece(262) + served_tokenizer().piece(262) + served_tokenizer().piece(262));
}

// -1 is random, and no other: each of these says the same text again, for each of two answers.
TEST_F(Completions, TakeEverySeedOf64Bits) {
    for (const char * seed :
         {"0", "4294967294", "4294967295", "4294967296", "9223372036854775807", "-2", "-9223372036854775808"}) {
        Json body = {{"prompt", "the"},   {"n", 2}, {"max_tokens", 12}, {"temperature", 1}, {"seed", Json::parse(seed)},
                     {"ignore_eos", true}};
        const Json first = serving_->text(body).json();
        ASSERT_TRUE(first.contains("choices")) << seed << first;
        const Json again = serving_->text(body).json();
        for (const size_t i : {0U, 1U}) { EXPECT_EQ(first["choices"][i]["text"], again["choices"][i]["text"]) << seed; }
    }
    EXPECT_EQ(serving_->text({{"prompt", "the"}, {"seed", Json::parse("9223372036854775808")}}).status, 400);
}

TEST_F(Completions, BiasDigitsThatAreATextAsAText) {
    const auto tokens = *served_tokenizer().encode("5", false, false);
    Json body = {{"prompt", "the"}, {"max_tokens", 1}, {"temperature", 0}};
    body["logit_bias"] = Json::array({Json::array({"5", 100})});
    const std::string said = serving_->text(body).json()["choices"][0]["text"];
    body["logit_bias"] = Json::array();
    for (const int32_t token : tokens) { body["logit_bias"].push_back({token, 100}); }
    EXPECT_EQ(said, serving_->text(body).json()["choices"][0]["text"]);
    body["logit_bias"] = Json::array({Json::array({5, 100})});
    EXPECT_NE(said, serving_->text(body).json()["choices"][0]["text"]) << "a number is a token";
}

TEST_F(Completions, DoNotEndBeforeSoManyTokens) {
    const int32_t end = served_tokenizer().eos();
    Json body = {
        {"prompt", "the"}, {"max_tokens", 20}, {"temperature", 0}, {"logit_bias", Json::array({Json::array({end, 100})})}};
    EXPECT_EQ(serving_->text(body).json()["usage"]["completion_tokens"], 1);
    body["min_tokens"] = 7;
    EXPECT_EQ(serving_->text(body).json()["usage"]["completion_tokens"], 8) << "the one that ends it counts";
    body["typical"] = "x";
    EXPECT_EQ(serving_->text(body).json()["error"]["param"], "typical");
}

// As it was asked for: in a chunk of its own, or, as in llama-server, in the last one.
TEST_F(Completions, TellTheUsageOfATextsStreamOnce) {
    Json body = {{"prompt", {kPrompt, "the sky"}}, {"n", 2}, {"max_tokens", 5}, {"temperature", 0}, {"ignore_eos", true}};
    const Json whole = serving_->text(body).json()["usage"];
    EXPECT_EQ(whole["completion_tokens"], 20);
    EXPECT_EQ(whole["prompt_tokens"], n_tokens_of(kPrompt) + n_tokens_of("the sky"));
    body["stream"] = true;
    for (const bool asked : {false, true}) {
        body["stream_options"] = {{"include_usage", asked}};
        Json usage;
        for (const Json & event : serving_->text(body).events()) {
            if (!event.is_object() || !event.contains("usage")) { continue; }
            EXPECT_TRUE(usage.is_null()) << "a second time: " << event;
            usage = event["usage"];
            EXPECT_EQ(event["choices"].empty(), asked);
        }
        for (const char * name : {"prompt_tokens", "completion_tokens", "total_tokens"}) {
            EXPECT_EQ(usage[name], whole[name]) << name;
        }
    }
}

const Json kTools = {
    {{"type", "function"},
     {"function",
      {{"name", "weather"},
       {"description", "How the weather will be"},
       {"parameters", {{"type", "object"}, {"properties", {{"city", {{"enum", {"Elm", "Oak"}}}}}}, {"required", {"city"}}}}}}},
    {{"type", "function"}, {"function", {{"name", "time"}}}}};

TEST_F(Completions, CallAFunctionThatTheyMust) {
    Json body = {{"messages", said_by("What will the weather be?")},
                 {"max_tokens", 200},
                 {"temperature", 0},
                 {"tools", kTools},
                 {"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}}};
    const Json whole = serving_->chat(body).json();
    ASSERT_TRUE(whole.contains("choices")) << whole;
    const Json & choice = whole["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls") << whole;
    EXPECT_TRUE(choice["message"]["content"].is_null());
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U);
    const Json & call = choice["message"]["tool_calls"][0];
    EXPECT_EQ(call["type"], "function");
    EXPECT_EQ(call["id"].get<std::string>().size(), 9U);
    EXPECT_EQ(call["function"]["name"], "weather");
    const Json arguments = Json::parse(call["function"]["arguments"].get<std::string>(), nullptr, false);
    EXPECT_TRUE(arguments["city"] == "Elm" || arguments["city"] == "Oak") << call;

    body["stream"] = true;
    std::string name;
    std::string said;
    const HttpAnswer stream = serving_->chat(body);
    for (const Json & event : stream.events()) {
        if (!event.is_object() || event["choices"].empty()) { continue; }
        const Json & delta = event["choices"][0]["delta"];
        EXPECT_TRUE(!delta.contains("content") || delta["content"].is_null()) << event;
        for (const Json & piece : delta.value("tool_calls", Json::array())) {
            EXPECT_EQ(piece["index"], 0);
            EXPECT_EQ(piece.contains("id"), name.empty());
            if (piece["function"].contains("name")) { name = piece["function"]["name"]; }
            said += piece["function"]["arguments"].get<std::string>();
        }
    }
    EXPECT_EQ(name, "weather");
    EXPECT_EQ(said, call["function"]["arguments"].get<std::string>());
    EXPECT_EQ(stream.events()[stream.events().size() - 2]["choices"][0]["finish_reason"], "tool_calls");

    body["stream"] = false;
    body["tool_choice"] = "required";
    const Json any = serving_->chat(body).json();
    for (const Json & one : any["choices"][0]["message"].value("tool_calls", Json::array())) {
        EXPECT_TRUE(one["function"]["name"] == "weather" || one["function"]["name"] == "time") << one;
    }
    // Shown both, allowed one.
    const Json both = serving_->chat({{"messages", body["messages"]}, {"tools", kTools}, {"max_tokens", 1}}).json();
    body["tool_choice"] = {
        {"type", "allowed_tools"},
        {"allowed_tools", {{"mode", "required"}, {"tools", {{{"type", "function"}, {"function", {{"name", "time"}}}}}}}}};
    const Json allowed = serving_->chat(body).json();
    ASSERT_TRUE(allowed.contains("choices")) << allowed;
    for (const Json & one : allowed["choices"][0]["message"]["tool_calls"]) { EXPECT_EQ(one["function"]["name"], "time"); }
    EXPECT_EQ(allowed["usage"]["prompt_tokens"], both["usage"]["prompt_tokens"]);
    // The result goes back.
    body["messages"].push_back(choice["message"]);
    body["messages"].push_back({{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "dry"}});
    body["tool_choice"] = "auto";
    body["max_tokens"] = 8;
    EXPECT_EQ(serving_->chat(body).status, 200);
    const Json prompt = post(serving_->port(), "/apply-template", {{"messages", body["messages"]}, {"tools", kTools}}).json();
    EXPECT_NE(prompt["prompt"].get<std::string>().find("```tool_output\ndry"), std::string::npos) << prompt;
}

// A format is of what is said: functions may be called instead.
TEST_F(Completions, CallFunctionsBesideAFormat) {
    const Json schema = {
        {"type", "object"}, {"properties", {{"a", {{"enum", {1}}}}}}, {"required", {"a"}}, {"additionalProperties", false}};
    Json body = {{"messages", said_by("What will the weather be?")},
                 {"max_tokens", 300},
                 {"temperature", 0},
                 {"tools", kTools},
                 {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", schema}}}}}};
    const auto answer = [&body](const std::string & liked) {  // by the first letter of what it writes
        body["logit_bias"] = Json::array({Json::array({liked, 50})});
        return serving_->chat(body).json()["choices"][0];
    };
    const Json said = answer("{");
    EXPECT_EQ(Json::parse(said["message"]["content"].get<std::string>(), nullptr, false), Json({{"a", 1}})) << said;
    const Json called = answer("`");
    ASSERT_EQ(called["finish_reason"], "tool_calls") << called;
    const std::string name = called["message"]["tool_calls"][0]["function"]["name"];
    EXPECT_TRUE(name == "weather" || name == "time");
    body["tool_choice"] = "required";
    EXPECT_EQ(answer("{")["finish_reason"], "tool_calls");
}

// A grammar makes the model write what real ones do: the reference model was never shown a function.
Json body_that_writes(const std::string & text) {
    return {{"messages", said_by("What will the weather be?")},
            {"max_tokens", 300},
            {"temperature", 0},
            {"tools", kTools},
            {"tool_choice", "auto"},
            {"grammar", "root ::= " + Json(text).dump()}};
}

struct Streamed {
    std::string content;
    std::vector<std::pair<std::string, Json>> calls;
    std::string finish_reason;
};

Streamed put_together(const HttpAnswer & stream) {
    Streamed all;
    std::vector<std::string> arguments;
    for (const Json & event : stream.events()) {
        if (!event.is_object() || event["choices"].empty()) { continue; }
        const Json & choice = event["choices"][0];
        if (!choice["finish_reason"].is_null()) { all.finish_reason = choice["finish_reason"]; }
        const Json content = choice["delta"].value("content", Json());
        if (content.is_string()) { all.content += content.get<std::string>(); }
        std::set<size_t> told;  // one entry a call and chunk: clients take a second one for another call
        for (const Json & piece : choice["delta"].value("tool_calls", Json::array())) {
            const size_t index = piece["index"];
            EXPECT_TRUE(told.insert(index).second) << event;
            if (index == arguments.size()) {
                EXPECT_TRUE(piece.contains("id"));
                all.calls.emplace_back(piece["function"]["name"], Json());
                arguments.emplace_back();
            }
            arguments[index] += piece["function"]["arguments"].get<std::string>();
        }
    }
    for (size_t i = 0; i < arguments.size(); ++i) { all.calls[i].second = Json::parse(arguments[i], nullptr, false); }
    return all;
}

TEST_F(Completions, CallFunctionsInWhateverFormTheModelWrites) {
    struct Row {
        std::string text;
        std::string content;
        std::vector<std::string> names;
    };
    const std::string call = R"({"name": "weather", "arguments": {"city": "Elm"}})";
    for (const Row & row : std::vector<Row>{
             {"```json\n" + call + "\n```", "", {"weather"}},
             {"{" + call + "}", "", {"weather"}},
             {"I look.\n\n<tool_call>\n" + call + "\n</tool_call>", "I look.", {"weather"}},
             {"```json\n[" + call + ", {\"name\": \"time\", \"arguments\": {}}]\n```\nSo.", "\nSo.", {"weather", "time"}},
             {"```json\n{\"name\": \"John Doe\", \"age\": 30}\n```\n",
              "```json\n{\"name\": \"John Doe\", \"age\": 30}\n```\n",
              {}},
             {R"({"name": "rain", "arguments": {"city": "Elm"}})", R"({"name": "rain", "arguments": {"city": "Elm"}})", {}},
         }) {
        Json body = body_that_writes(row.text);
        const Json whole = serving_->chat(body).json();
        ASSERT_TRUE(whole.contains("choices")) << whole;
        const Json & message = whole["choices"][0]["message"];
        EXPECT_EQ(message["content"].is_null() ? "" : message["content"].get<std::string>(), row.content) << row.text;
        EXPECT_EQ(whole["choices"][0]["finish_reason"], row.names.empty() ? "stop" : "tool_calls") << row.text;
        const Json calls = message.value("tool_calls", Json::array());
        body["stream"] = true;
        const Streamed streamed = put_together(serving_->chat(body));
        EXPECT_EQ(streamed.content, row.content) << row.text;
        EXPECT_EQ(streamed.finish_reason, whole["choices"][0]["finish_reason"].get<std::string>());
        ASSERT_EQ(calls.size(), row.names.size()) << row.text;
        ASSERT_EQ(streamed.calls.size(), row.names.size()) << row.text;
        for (size_t i = 0; i < row.names.size(); ++i) {
            EXPECT_EQ(calls[i]["function"]["name"], row.names[i]);
            EXPECT_EQ(streamed.calls[i].first, row.names[i]);
            const Json arguments = Json::parse(calls[i]["function"]["arguments"].get<std::string>(), nullptr, false);
            EXPECT_EQ(arguments, row.names[i] == "time" ? Json::object() : Json({{"city", "Elm"}}));
            EXPECT_EQ(streamed.calls[i].second, arguments);
        }
    }
    // Where no function may be called, a call is a text.
    Json body = body_that_writes("```json\n" + call + "\n```");
    body["tool_choice"] = "none";
    EXPECT_EQ(serving_->chat(body).json()["choices"][0]["message"]["content"], "```json\n" + call + "\n```");
    body["tool_choice"] = "auto";
    body["parallel_tool_calls"] = false;
    body["grammar"] = "root ::= " + Json(call + "\n" + call).dump();
    EXPECT_EQ(serving_->chat(body).json()["choices"][0]["message"]["tool_calls"].size(), 1U);
}

TEST_F(Completions, TakeNamesOfSpecialTokensForText) {
    const auto n_prompt = [](const std::string & text) {
        return serving_->chat({{"messages", said_by(text)}, {"max_tokens", 1}}).json()["usage"]["prompt_tokens"].get<int>();
    };
    // One token more, had the name become one.
    const int n_name = static_cast<int>(served_tokenizer().encode("<|im_end|>", false, false)->size());
    EXPECT_GT(n_name, 1);
    EXPECT_GE(n_prompt("the sky<|im_end|>"), n_prompt("the sky") + n_name);
}

TEST_F(Completions, ReadAPromptAndSayNothing) {
    const Json json = serving_->text({{"prompt", kPrompt}, {"max_tokens", 0}}).json();
    EXPECT_EQ(json["choices"][0]["text"], "");
    EXPECT_EQ(json["usage"]["completion_tokens"], 0);
    EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
    EXPECT_GT(json["timings"]["prompt_ms"], 0);
    EXPECT_EQ(json["timings"]["predicted_ms"], 0);
}

TEST(CompletionsWithCold, TellWhatThePromptsEndLookedForAmongWhatWasEvicted) {
    ServingOptions options;
    options.api.session.policy = "keydiff";
    options.api.session.budget = Budget(64);
    options.api.session.cold = KvType::kQ4_0;
    const Serving serving(options);
    const Json request = {{"prompt", long_text()}, {"max_tokens", 8}, {"temperature", 0}};
    const Json json = serving.text(request).json();
    ASSERT_TRUE(json.contains("usage")) << json;
    EXPECT_GT(json["timings"]["kv_missed"], 0);
    EXPECT_GT(json["timings"]["kv_returned_entries"], 0);
    EXPECT_EQ(json["usage"]["kv_returned_entries"], json["timings"]["kv_returned_entries"]);
    EXPECT_EQ(json["timings"]["kv_most_entries"], 128);

    options.api.repairs = false;
    const Json told = Serving(options).text(request).json();
    EXPECT_EQ(told["timings"]["kv_missed"], json["timings"]["kv_missed"]);
    EXPECT_EQ(told["timings"]["kv_returned_entries"], 0);
}

TEST_F(Completions, KeepTheBudgetThatARequestGives) {
    const Json json =
        serving_
            ->text(
                {{"prompt", long_text()}, {"max_tokens", 8}, {"temperature", 0}, {"kv_policy", "snapkv"}, {"kv_budget", 128}})
            .json();
    ASSERT_TRUE(json.contains("usage")) << json;
    EXPECT_EQ(json["timings"]["kv_policy"], "snapkv");
    EXPECT_EQ(json["timings"]["kv_budget_entries"], 128);
    EXPECT_EQ(json["timings"]["kv_most_entries"], 256);  // in steps as large as itself
    EXPECT_GT(json["usage"]["kv_evicted_entries"].get<int64_t>(), 0);
    EXPECT_LT(json["usage"]["kv_bytes"].get<int64_t>(), json["usage"]["kv_full_bytes"].get<int64_t>());
    // The same as a session on the same grid.
    const auto tokens = served_tokenizer().encode(long_text(), true, true);
    auto session = served_model().session({.policy = "snapkv", .budget = 128, .n_threads = 1, .grid = 128});
    ASSERT_TRUE(session->prefill(*tokens).ok());
    std::string alone;
    for (int i = 0; i < 8; ++i) { alone += served_tokenizer().piece(*session->decode()); }
    EXPECT_EQ(json["choices"][0]["text"], alone);
}

// As much as the text needs: the budget is a ceiling, and the reply tells what stayed.
TEST_F(Completions, KeepWhatATextNeedsUnderATolerance) {
    const auto asked = [&](const Json & more) {
        Json body = {{"prompt", long_text()}, {"max_tokens", 2}, {"temperature", 0}, {"kv_policy", "reread"}};
        body.update(more);
        return serving_->text(body).json();
    };
    const auto kept = [](const Json & json) { return json["usage"]["kv_kept_entries"].get<int64_t>(); };
    const Json careful = asked({{"kv_tolerance", "0.5%"}});
    ASSERT_TRUE(careful.contains("usage")) << careful;
    EXPECT_EQ(careful["timings"]["kv_policy"], "reread+threshold:tau=0.005");
    const Json careless = asked({{"kv_tolerance", 0.2}});
    ASSERT_TRUE(careless.contains("usage")) << careless;
    EXPECT_GT(careless["usage"]["kv_evicted_entries"].get<int64_t>(), 0);
    EXPECT_LT(kept(careless), kept(careful));
    EXPECT_LE(kept(asked({{"kv_tolerance", 0}, {"kv_budget", 64}})), kept(careful));
    for (const auto & [wrong, says] :
         {std::pair{Json(1.5), "1%"}, std::pair{Json("some"), "some"}, std::pair{Json::array(), "1%"}}) {
        const Json error = asked({{"kv_tolerance", wrong}})["error"];
        EXPECT_EQ(error["param"], "kv_tolerance") << error;
        EXPECT_NE(error["message"].get<std::string>().find(says), std::string::npos) << error;
    }
    const Json unfit = asked({{"kv_tolerance", "1%"}, {"kv_policy", "snapkv"}})["error"];
    EXPECT_NE(unfit["message"].get<std::string>().find("gate or reread"), std::string::npos) << unfit;
}

TEST_F(Completions, TellWhatTheCacheHoldsOnRequest) {
    Json body = {{"prompt", long_text()}, {"max_tokens", 8},    {"temperature", 0},      {"kv_policy", "snapkv"},
                 {"kv_budget", 128},      {"kv_pin", {{0, 4}}}, {"return_kv_map", true}, {"stream", true}};
    Json map;
    const HttpAnswer stream = serving_->text(body);
    for (const Json & event : stream.events()) {
        if (event.is_object() && event.contains("kv_map")) {
            EXPECT_TRUE(event["choices"].empty());
            map = event["kv_map"];
        }
    }
    ASSERT_TRUE(map.is_object()) << stream.body;
    EXPECT_EQ(map["layers"].size(), static_cast<size_t>(served_model().info().n_layers));
    EXPECT_EQ(map["pinned"], Json::array({Json::array({0, 4})}));
    const int64_t n_bins =
        (map["n_tokens"].get<int64_t>() + map["bin_tokens"].get<int64_t>() - 1) / map["bin_tokens"].get<int64_t>();
    size_t n_empty = 0;
    for (const Json & layer : map["layers"]) {
        EXPECT_EQ(layer.size(), static_cast<size_t>(served_model().info().n_kv_heads));
        for (const Json & lane : layer) {
            const std::string digits = lane;
            EXPECT_EQ(static_cast<int64_t>(digits.size()), n_bins);
            EXPECT_NE(digits.front(), '0');  // pinned
            EXPECT_NE(digits.back(), '0');   // the newest
            n_empty += static_cast<size_t>(std::ranges::count(digits, '0'));
        }
    }
    EXPECT_GT(n_empty, 0U);
}

TEST_F(Completions, EndAtTheirDeadline) {
    const Json body = {{"prompt", kPrompt}, {"max_tokens", 1900}, {"temperature", 0}, {"ignore_eos", true}, {"timeout", 0.2}};
    const Json json = serving_->text(body).json();
    ASSERT_TRUE(json.contains("usage")) << json;
    EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
    EXPECT_LT(json["usage"]["completion_tokens"].get<int>(), 1900);
    EXPECT_GT(json["usage"]["completion_tokens"].get<int>(), 0);
    // Whoever only waited is told so.
    ServingOptions options;
    options.generator.engine.max_sequences = 1;
    options.api.defaults.timeout_s = 60;
    Serving narrow(options);
    Connection runs(narrow.port());
    Json endless = body;
    endless["timeout"] = 30;
    endless["stream"] = true;
    ASSERT_TRUE(runs.send(request_text("POST", "/v1/completions", endless.dump())));
    ASSERT_NE(runs.read_until("data: ").find("data: "), std::string::npos);
    const HttpAnswer late = narrow.text(body);
    EXPECT_EQ(late.status, 504) << late.body;
    EXPECT_EQ(late.json()["error"]["type"], "timeout_error");
    EXPECT_NE(late.body.find("0.2 s"), std::string::npos) << late.body;
    const serve::Metrics metrics = narrow.generator().state().metrics;
    EXPECT_EQ(metrics.n_late, 1);
    EXPECT_EQ(metrics.n_cancelled, 0);
}

TEST_F(Completions, OfSixteenClientsAreEachAsAlone) {
    std::vector<std::string> prompts;
    for (int i = 0; i < 16; ++i) { prompts.push_back(std::string(kPrompt) + " " + std::to_string(i * 37)); }
    std::vector<std::string> said(prompts.size());
    std::vector<std::thread> clients;
    for (size_t i = 0; i < prompts.size(); ++i) {
        clients.emplace_back([&, i] {
            const bool stream = i % 2 == 1;
            const HttpAnswer answer =
                serving_->text({{"prompt", prompts[i]}, {"max_tokens", 24}, {"temperature", 0}, {"stream", stream}});
            said[i] = stream ? streamed_text(answer, false) : answer.json()["choices"][0]["text"].get<std::string>();
        });
    }
    for (std::thread & client : clients) { client.join(); }
    for (size_t i = 0; i < prompts.size(); ++i) { EXPECT_EQ(said[i], said_alone(prompts[i], 24)) << i; }
}

TEST_F(Completions, EndWithTheirClient) {
    ServingOptions options;
    options.api.n_context = 1 << 20;  // an answer that is not over before anybody looks whether its client is there
    const Serving serving(options);
    for (const bool stream : {true, false}) {
        const int64_t n_cancelled = serving.generator().state().metrics.n_cancelled;
        {
            Connection connection(serving.port());
            const Json body = {{"prompt", kPrompt}, {"max_tokens", 1 << 19},    {"temperature", 0}, {"ignore_eos", true},
                               {"kv_budget", 64},   {"kv_policy", "streaming"}, {"stream", stream}};
            ASSERT_TRUE(connection.send(request_text("POST", "/v1/completions", body.dump())));
            if (stream) { EXPECT_NE(connection.read_until("data: ").find("data: "), std::string::npos); }
            ASSERT_TRUE(comes_true([&] { return serving.generator().n_open() == 1; }));
        }
        EXPECT_TRUE(comes_true([&] { return serving.generator().n_open() == 0; }, 20));
        EXPECT_TRUE(comes_true([&] { return serving.generator().state().engine.kv_allocated_bytes == 0; }, 5));
        EXPECT_EQ(serving.generator().state().metrics.n_cancelled, n_cancelled + 1) << "it was answered to nobody";
    }
}

// What was read for one request is found by the next, after a restart, too, by who brings the same key.
TEST(CachedPrompts, AreFoundByTheSameKeyAndAfterARestart) {
    if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("pith-serve-" + std::to_string(getpid()));
    ServingOptions options;
    options.api.keys = {"first", "second", "third"};
    options.api.owners = {"a", "b"};  // the third key's states are nobody's in particular
    options.api.caches = true;
    options.api.session.chunk = 64;
    options.generator.engine.cache_dir = folder;
    std::string document;
    for (int i = 0; i < 60; ++i) { document += "The house of number " + std::to_string(i) + " is green. "; }
    struct Said {
        int64_t n_cached = 0;
        std::string text;
    };
    const auto ask_about = [&](const Serving & serving, const std::string & question, const std::string & key) {
        const Json body = {
            {"messages", Json::array({{{"role", "system"}, {"content", document}}, {{"role", "user"}, {"content", question}}})},
            {"max_tokens", 12},
            {"temperature", 0}};
        const HttpAnswer answer =
            ask(serving.port(), "POST", "/v1/chat/completions", body.dump(), "X-Api-Key: " + key + "\r\n");
        EXPECT_EQ(answer.status, 200) << answer.body;
        const Json json = answer.json();
        const int64_t n_cached = json["usage"]["prompt_tokens_details"]["cached_tokens"];
        EXPECT_EQ(json["timings"]["cache_n"], n_cached);
        return Said{n_cached, json["choices"][0]["message"]["content"].get<std::string>()};
    };
    const std::string long_question = "Which house is red? " + document.substr(0, 900);
    Said alone;
    {
        ServingOptions without = options;
        without.generator.engine.cache_dir.clear();
        alone = ask_about(Serving(without), "Which house is green?", "first");
        EXPECT_EQ(alone.n_cached, 0);
    }
    {
        const Serving serving(options);
        EXPECT_EQ(ask_about(serving, long_question, "first").n_cached, 0);
        const Said again = ask_about(serving, "Which house is green?", "first");
        EXPECT_GT(again.n_cached, 200);
        EXPECT_EQ(again.text, alone.text);
        EXPECT_EQ(ask_about(serving, "Which house is green?", "second").n_cached, 0);
        EXPECT_EQ(ask_about(serving, "Which house is green?", "third").n_cached, 0);
        const std::string metrics = ask(serving.port(), "GET", "/metrics", "", "X-Api-Key: first\r\n").body;
        EXPECT_NE(metrics.find("\npith_prefix_hits_total " + std::to_string(again.n_cached) + "\n"), std::string::npos);
    }
    const Serving serving(options);
    const Said found = ask_about(serving, "Which house is green?", "first");
    EXPECT_GT(found.n_cached, 200);
    EXPECT_EQ(found.text, alone.text);
    std::filesystem::remove_all(folder);
}

class CachedConversations : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
        options_.api.caches = true;
        options_.api.session.chunk = 64;
        options_.generator.engine.cache_dir = folder_;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    static std::string words(const std::string & what, int n) {
        std::string text;
        for (int i = 0; i < n; ++i) { text += "The " + what + " of number " + std::to_string(i) + " is green. "; }
        return text;
    }
    // A conversation that ends in this message.
    static Json ending_in(const std::string & last) {
        return Json::array({{{"role", "user"}, {"content", words("house", 20)}},
                            {{"role", "assistant"}, {"content", words("tree", 20)}},
                            {{"role", "user"}, {"content", last}}});
    }
    static Json ask(const Serving & serving, const Json & messages, const Json & more = Json::object()) {
        Json body = {{"messages", messages}, {"max_tokens", 8}, {"temperature", 0}};
        body.update(more);
        const HttpAnswer answer = serving.chat(body);
        EXPECT_EQ(answer.status, 200) << answer.body;
        return answer.json();
    }
    static int64_t n_cached(const Json & json) { return json["usage"]["prompt_tokens_details"]["cached_tokens"]; }
    static std::string said(const Json & json) { return json["choices"][0]["message"]["content"]; }

    const std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() / ("pith-conversations-" + std::to_string(getpid()));
    ServingOptions options_;
};

// Another last message, or the conversation gone on with: all before it was read before.
TEST_F(CachedConversations, AreFoundAtTheEndsOfTheirMessages) {
    const Serving serving(options_);
    const int64_t n_before = ask(serving, ending_in("x"))["usage"]["prompt_tokens"].get<int64_t>() - 64;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    const Json first = ask(serving, ending_in(words("door", 20)));
    EXPECT_EQ(n_cached(first), 0);
    const Json edited = ask(serving, ending_in(words("window", 20)));
    EXPECT_GE(n_cached(edited), n_before - 64);
    Json longer = ending_in(words("door", 20));
    longer.push_back({{"role", "assistant"}, {"content", said(first)}});
    longer.push_back({{"role", "user"}, {"content", "And now?"}});
    EXPECT_GT(n_cached(ask(serving, longer)), n_cached(edited));
}

// A question of several chunks behind a document in the same message: another question finds the document.
TEST_F(CachedConversations, AreFoundWhereADocumentEnds) {
    const Serving serving(options_);
    // Whatever it holds: a name of a special token is cut in the prompt.
    const std::string document = words("house", 40) + "<|im_end|>\n\n" + words("tree", 10) + "\n\n";
    const auto about = [&](const std::string & question) {
        return ask(serving, Json::array({{{"role", "user"}, {"content", document + question}}}));
    };
    const Json first = about(words("door", 20));
    const Json second = about(words("window", 20));
    EXPECT_EQ(n_cached(first), 0);
    const int64_t n_document = std::ssize(*served_tokenizer().encode(document, false, false));
    EXPECT_GT(n_cached(second), n_document - 2 * 64);
}

// The last end of a chunk lies in the question, and another asks of the same text.
TEST_F(CachedConversations, AreFoundInFrontOfAShortQuestion) {
    const Serving serving(options_);
    const auto tokens_of = [](const std::string & text, size_t n) {
        std::vector<int32_t> tokens = *served_tokenizer().encode(text, false, false);
        tokens.resize(n);
        return tokens;
    };
    const auto ask_behind = [&](const std::string & question) {
        std::vector<int32_t> prompt = tokens_of(words("house", 40), 200);
        for (const int32_t token : tokens_of(question, 60)) { prompt.push_back(token); }
        return serving.text({{"prompt", prompt}, {"max_tokens", 2}, {"temperature", 0}}).json();
    };
    EXPECT_EQ(n_cached(ask_behind(words("door", 20))), 0);
    EXPECT_EQ(n_cached(ask_behind(words("window", 20).substr(4))), 128);
}

TEST_F(CachedConversations, AreNotKeptWhereARequestSaysSo) {
    options_.generator.engine.cache_memory_bytes = uint64_t{64} << 20U;
    Serving serving(options_);
    const Json secret = ending_in(words("door", 20));
    const Json first = ask(serving, secret, {{"cache_prompt", false}});
    EXPECT_EQ(n_cached(first), 0);
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
    EXPECT_EQ(serving.generator().state().engine.kv_idle_bytes, 0U);
    EXPECT_EQ(n_cached(ask(serving, secret)), 0);
    const Json found = ask(serving, secret);
    EXPECT_GT(n_cached(found), 64);
    const Json apart = ask(serving, secret, {{"cache_prompt", false}});
    EXPECT_EQ(n_cached(apart), 0);
    EXPECT_EQ(said(apart), said(found));
}

// A folder that is gone, or was made somebody else's, costs time and no answer.
TEST_F(CachedConversations, AreReadAnewWhereTheFolderFails) {
    const Serving serving(options_);
    const Json before = ask(serving, ending_in("And the door?"));
    std::filesystem::remove_all(folder_);
    const Json without = ask(serving, ending_in("And the door?"));
    EXPECT_EQ(n_cached(without), 0);
    EXPECT_EQ(said(without), said(before));
    std::ofstream(folder_.string()) << "no folder";
    EXPECT_EQ(said(ask(serving, ending_in("And the door?"))), said(before));
    std::filesystem::remove(folder_);
    std::filesystem::create_directory(folder_);
    EXPECT_EQ(said(ask(serving, ending_in("And the door?"))), said(before));
    EXPECT_GT(n_cached(ask(serving, ending_in("And the door?"))), 64);
}

}  // namespace
}  // namespace pith::testing::completions_test
