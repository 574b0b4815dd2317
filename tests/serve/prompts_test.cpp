// prompts_test.cpp - what of a prompt is read, pinned and gone on with, over HTTP, on the built-in model.
#include <atomic>

#include "model/gguf_edit.h"
#include "serve/served_completions.h"

namespace pith::testing::prompts_test {
namespace {

TEST_F(Completions, ReadAPromptOnceForSeveralAnswers) {
    for (const bool evicts : {false, true}) {
        Serving serving;
        Json body = {{"prompt", long_text()}, {"max_tokens", 6}, {"temperature", 0}};
        if (evicts) { body.update({{"kv_policy", "snapkv"}, {"kv_budget", 128}}); }
        const Json alone = serving.text(body).json();
        const int64_t n_prompt = n_tokens_of(long_text());
        EXPECT_EQ(serving.generator().state().engine.n_prompt, n_prompt);
        body["n"] = 8;
        const Json json = serving.text(body).json();
        ASSERT_EQ(json["choices"].size(), 8U) << json;
        for (const Json & choice : json["choices"]) { EXPECT_EQ(choice["text"], alone["choices"][0]["text"]); }
        EXPECT_EQ(json["usage"]["prompt_tokens"], n_prompt);
        EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
        EXPECT_EQ(json["usage"]["completion_tokens"], 8 * alone["usage"]["completion_tokens"].get<int64_t>());
        EXPECT_EQ(json["usage"]["kv_evicted_entries"], 8 * alone["usage"]["kv_evicted_entries"].get<int64_t>());
        EXPECT_GE(json["usage"]["kv_bytes"].get<int64_t>(), alone["usage"]["kv_bytes"].get<int64_t>());
        if (!evicts) {  // an eviction copies what is shared
            EXPECT_LT(json["usage"]["kv_bytes"].get<int64_t>(), 8 * alone["usage"]["kv_bytes"].get<int64_t>());
        }
        const serve::GeneratorState state = serving.generator().state();
        EXPECT_EQ(state.engine.n_prompt, 2 * n_prompt);
        EXPECT_EQ(state.metrics.n_prompt, 2 * n_prompt);
        if (evicts) { EXPECT_EQ(state.metrics.evicted.at("snapkv"), 2 * alone["usage"]["kv_evicted_entries"].get<int64_t>()); }
        EXPECT_EQ(state.engine.kv_allocated_bytes, 0U);
        // Streamed, and each of two prompts once.
        body["prompt"] = {long_text(), kPrompt};
        body["n"] = 2;
        body["stream"] = true;
        const HttpAnswer stream = serving.text(body);
        for (const int index : {0, 1}) { EXPECT_EQ(streamed_text(stream, false, index), alone["choices"][0]["text"]); }
        EXPECT_EQ(serving.generator().state().metrics.n_prompt, 3 * n_prompt + n_tokens_of(kPrompt));
        body["stream"] = false;
        EXPECT_EQ(serving.text(body).json()["usage"]["prompt_tokens"], n_prompt + n_tokens_of(kPrompt));
    }
}

// Where one answer fits under the ceiling, several do, if need be each with the prompt read for itself.
TEST_F(Completions, GiveSeveralAnswersUnderAnyCeilingThatFitsOne) {
    const Json body = {{"prompt", long_text()}, {"max_tokens", 300},        {"temperature", 0},
                       {"ignore_eos", true},    {"kv_policy", "streaming"}, {"kv_budget", 256}};
    const int64_t n_prompt = n_tokens_of(long_text());
    int n_shared = 0;
    int n_apart = 0;
    for (size_t kib = 256; kib <= size_t{16} << 10U && n_shared == 0; kib += kib / 4) {
        ServingOptions options;
        options.generator.engine.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(kib << 10U));
        Serving serving(options);
        const HttpAnswer one = serving.text(body);
        if (one.status != 200) { continue; }
        Json several = body;
        several["n"] = 3;
        const HttpAnswer all = serving.text(several);
        ASSERT_EQ(all.status, 200) << kib << " KiB: " << all.body;
        for (const Json & choice : all.json()["choices"]) { EXPECT_EQ(choice["text"], one.json()["choices"][0]["text"]); }
        EXPECT_EQ(all.json()["usage"]["prompt_tokens"], n_prompt);
        const serve::GeneratorState state = serving.generator().state();
        EXPECT_LE(state.engine.kv_peak_bytes, kib << 10U);
        ++(state.engine.n_prompt == 2 * n_prompt ? n_shared : n_apart);
    }
    EXPECT_GT(n_shared, 0);
    EXPECT_GT(n_apart, 0);
}

// The pinned spans that a stream tells, and for its lanes how much of the first bin is held, 0 to 9.
Json pinned_by(const Serving & serving, const Json & more) {
    const std::string system =
        "You are a friend of the sky. You know the sun, the grass and the sea, and say what colour they are.";
    Json body = {
        {"messages", Json::array({{{"role", "system"}, {"content", system}}, {{"role", "user"}, {"content", long_text()}}})},
        {"max_tokens", 2},
        {"temperature", 0},
        {"kv_policy", "streaming"},
        {"return_kv_map", true},
        {"stream", true}};
    body.update(more);
    const HttpAnswer stream = serving.chat(body);
    EXPECT_EQ(stream.status, 200) << stream.body;
    Json map = {{"pinned", nullptr}};
    for (const Json & event : stream.events()) {
        if (event.is_object() && event.contains("kv_map")) { map = event["kv_map"]; }
    }
    return map;
}

TEST_F(Completions, KeepTheSystemPromptWhereItTakesHalfOfTheBudgetAtMost) {
    const Json map = pinned_by(*serving_, {{"kv_budget", 256}});
    ASSERT_EQ(map["pinned"].size(), 1U) << map;
    EXPECT_EQ(map["pinned"][0][0], 0);
    const int64_t n_system = map["pinned"][0][1];
    EXPECT_GT(n_system, 20);
    EXPECT_LE(n_system, 128);
    for (const Json & layer : map["layers"]) {
        for (const Json & lane : layer) {
            const std::string digits = lane;
            const auto n_whole = static_cast<size_t>(n_system / map["bin_tokens"].get<int64_t>());
            EXPECT_EQ(digits.substr(0, n_whole), std::string(n_whole, '9'));
        }
    }
    const Json none = Json::array();
    // Nobody wants it, or there is no room: the request runs as it would without.
    EXPECT_EQ(pinned_by(*serving_, {{"kv_budget", 256}, {"kv_pin", none}})["pinned"], none);
    EXPECT_EQ(pinned_by(*serving_, {{"kv_budget", 2 * n_system - 1}})["pinned"], none);
    EXPECT_EQ(pinned_by(*serving_, {{"kv_budget", 2 * n_system}})["pinned"].size(), 1U);
    EXPECT_EQ(pinned_by(*serving_, {{"kv_budget", "2%"}})["pinned"], none);
    EXPECT_EQ(pinned_by(*serving_, {{"kv_budget", 2 * n_system - 1}, {"kv_pin", "system"}})["pinned"].size(), 1U);
    ServingOptions options;
    options.api.defaults.pin_system = serve::PinSystem::kNo;
    EXPECT_EQ(pinned_by(Serving(options), {{"kv_budget", 256}})["pinned"], none);
}

TEST_F(Completions, GoOnWithALastMessageOfTheAssistants) {
    const std::string begun = "The sky is";
    Json body = {{"messages", said_by("What is the sky?")}, {"max_tokens", 8}, {"temperature", 0}};
    body["messages"].push_back({{"role", "assistant"}, {"content", begun}});
    const std::string prompt = "<|im_start|>user\nWhat is the sky?<|im_end|>\n<|im_start|>assistant\n" + begun;
    EXPECT_EQ(post(serving_->port(), "/apply-template", {{"messages", body["messages"]}}).json()["prompt"], prompt);
    const Json chat = serving_->chat(body).json();
    const Json text = serving_->text({{"prompt", prompt}, {"max_tokens", 8}, {"temperature", 0}}).json();
    EXPECT_EQ(chat["choices"][0]["message"]["content"], text["choices"][0]["text"]);
    EXPECT_EQ(chat["usage"]["prompt_tokens"], text["usage"]["prompt_tokens"]);
    body["stream"] = true;
    EXPECT_EQ(streamed_text(serving_->chat(body), true), text["choices"][0]["text"]);
    body["stream"] = false;
    body["continue_final_message"] = false;  // it is closed, and another answer begins
    EXPECT_GT(serving_->chat(body).json()["usage"]["prompt_tokens"], chat["usage"]["prompt_tokens"]);
    // Names of special tokens stay text there, too.
    body["continue_final_message"] = true;
    body["messages"].back()["content"] = begun + "<|im_end|>";
    const Json named = serving_->chat(body).json();
    EXPECT_GT(named["usage"]["prompt_tokens"].get<int>(), chat["usage"]["prompt_tokens"].get<int>() + 1);
}

TEST_F(Completions, RefuseToGoOnWhereATemplateBeginsWithAThought) {
    Tokenizer thinks = *Tokenizer::load(kServedModel);
    const std::string open =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n{% if enable_thinking is defined and enable_thinking is false %}"
        "<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}";
    ASSERT_TRUE(thinks.set_chat_template(open).ok());
    ServingOptions options;
    options.tokenizer = &thinks;
    const Serving serving(options);
    Json body = {{"messages", said_by("What is the sky?")}, {"max_tokens", 4}, {"temperature", 0}};
    EXPECT_EQ(serving.chat(body).status, 200);
    body["messages"].push_back({{"role", "assistant"}, {"content", "The sky is"}});
    const HttpAnswer refused = serving.chat(body);
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("begins every answer with a thought"), std::string::npos) << refused.body;
    body["chat_template_kwargs"] = {{"enable_thinking", false}};
    EXPECT_EQ(serving.chat(body).status, 200);
    // A thought that was begun goes on as one.
    body["messages"].back()["content"] = "<think>I see";
    const Json thought = serving.chat(body).json()["choices"][0]["message"];
    EXPECT_EQ(thought["content"], "");
    EXPECT_FALSE(thought["reasoning_content"].get<std::string>().empty());
}

// Many a template writes one system message, in front, and drops the others without a word.
TEST_F(Completions, LoseNoMessageInATemplate) {
    Tokenizer first = *Tokenizer::load(kServedModel);
    const std::string turns =
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.role }}: {{ m.content }}\n{% endif %}{% endfor %}";
    ASSERT_TRUE(
        first.set_chat_template("{% if messages[0].role == 'system' %}{{ messages[0].content }}\n{% endif %}" + turns).ok());
    ServingOptions options;
    options.tokenizer = &first;
    Serving serving(options);
    const Json messages = {{{"role", "system"}, {"content", "Be brief."}},
                           {{"role", "user"}, {"content", "a"}},
                           {{"role", "developer"}, {"content", "Be long."}},
                           {{"role", "user"}, {"content", "b"}}};
    const auto prompt_of = [&serving](const Json & body) { return post(serving.port(), "/apply-template", body); };
    EXPECT_EQ(prompt_of({{"messages", messages}}).json()["prompt"], "Be brief.\n\nBe long.\nuser: a\nuser: b\n");
    const int64_t n_all = n_tokens_of("Be brief.\n\nBe long.\nuser: a\nuser: b\n");
    EXPECT_EQ(serving.chat({{"messages", messages}, {"max_tokens", 1}}).json()["usage"]["prompt_tokens"], n_all);
    const Json items = {{"instructions", "Be brief."}, {"input", {messages[1], messages[2], messages[3]}}};
    EXPECT_EQ(post(serving.port(), "/v1/responses/input_tokens", items).json()["input_tokens"], n_all);
    // One that refuses a second one gets all of them as one, too.
    const std::string strict =
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('system first') }}{% endif %}"
        "{{ m.content }}\n{% endfor %}";
    ASSERT_TRUE(first.set_chat_template(strict).ok());
    EXPECT_EQ(prompt_of({{"messages", messages}}).json()["prompt"], "Be brief.\n\nBe long.\na\nb\n");
    // One that wants user and assistant in turns gets neighbours as one.
    const std::string in_turns =
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('in turns') }}{% endif "
        "%}"
        "{{ m.role }}: {{ m.content }}\n{% endfor %}";
    ASSERT_TRUE(first.set_chat_template(in_turns).ok());
    const Json several = {{{"role", "user"}, {"content", "a"}},
                          {{"role", "user"}, {"content", "b"}},
                          {{"role", "assistant"}, {"content", "c"}},
                          {{"role", "user"}, {"content", "d"}}};
    EXPECT_EQ(prompt_of({{"messages", several}}).json()["prompt"], "user: a\n\nb\nassistant: c\nuser: d\n");
    const HttpAnswer refused = prompt_of({{"messages", {{{"role", "assistant"}, {"content", "c"}}, several[0]}}});
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("in turns"), std::string::npos) << refused.body;
    // Where there is no room at all, the message is named.
    ASSERT_TRUE(first.set_chat_template("pith_system " + turns).ok());
    for (const char * path : {"/apply-template", "/v1/chat/completions"}) {
        const HttpAnswer lost = post(serving.port(), path, {{"messages", messages}});
        EXPECT_EQ(lost.status, 400) << lost.body;
        EXPECT_EQ(lost.json()["error"]["param"], "messages[0]") << lost.body;
    }
    const HttpAnswer lost = post(serving.port(), "/v1/messages/count_tokens", {{"system", "s"}, {"messages", said_by("x")}});
    EXPECT_NE(lost.body.find("'system' would be lost"), std::string::npos) << lost.body;
}

TEST_F(Completions, TakeTheArgumentsOfEarlierCallsAsTheyWere) {
    Tokenizer shows = *Tokenizer::load(kServedModel);
    ASSERT_TRUE(shows
                    .set_chat_template("{# <tool_call> #}{% for m in messages %}{% for c in m.tool_calls or [] %}"
                                       "{{ c.function.arguments | tojson }}"
                                       "{% for k, v in c.function.arguments | items %} {{ v }}{% endfor %}"
                                       "{% endfor %}{% if m.content %}{{ m.content }}{% endif %}{% endfor %}")
                    .ok());
    ServingOptions options;
    options.tokenizer = &shows;
    const Serving serving(options);
    const auto prompt_of = [&](const Json & arguments) {
        const Json call = {{"id", "a"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
        const Json body = {{"messages",
                            {{{"role", "user"}, {"content", "x"}},
                             {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                             {{"role", "tool"}, {"tool_call_id", "a"}, {"content", "y"}}}}};
        return post(serving.port(), "/apply-template", body);
    };
    for (const Json & empty : {Json(""), Json(" "), Json(nullptr), Json("{}"), Json::object()}) {
        EXPECT_EQ(prompt_of(empty).json()["prompt"], "x{}y") << empty;
    }
    for (const char * number : {"9007199254740993", "-9223372036854775808", "9223372036854775807", "18446744073709551615"}) {
        const std::string arguments = std::string("{\"n\": ") + number + "}";
        EXPECT_EQ(prompt_of(arguments).json()["prompt"], "x" + arguments + " " + number + "y");
        EXPECT_EQ(prompt_of(Json::parse(arguments)).json()["prompt"], "x" + arguments + " " + number + "y");
    }
    for (const char * damaged : {"{\"n\": ", "{n: 1}", "[1]", "5", "\"x\"", "nope", "{} {}"}) {
        const std::string shown = "{\"input\": " + Json(damaged).dump() + "}";
        EXPECT_EQ(prompt_of(damaged).json()["prompt"], "x" + shown + " " + damaged + "y");
    }
    const HttpAnswer refused = prompt_of(5);
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_EQ(refused.json()["error"]["param"], "messages[1].tool_calls[0].function.arguments") << refused.body;
}

// A base model completes texts; who wants to talk with it is told what makes that possible.
TEST_F(Completions, SayWhatABaseModelNeedsForAChat) {
    const TempFolder folder;
    GgufEdit edit;
    edit.metadata = [](gguf_context * gguf) { gguf_remove_key(gguf, "tokenizer.chat_template"); };
    ASSERT_TRUE(edit_gguf(kServedModel, folder.file("base.gguf"), edit));
    const Tokenizer base = *Tokenizer::load(folder.file("base.gguf"));
    ASSERT_FALSE(base.has_chat_template());
    ServingOptions options;
    options.tokenizer = &base;
    const Serving serving(options);
    const Json body = {{"messages", said_by("What is the sky?")}, {"max_tokens", 4}, {"temperature", 0}};
    for (const char * path : {"/v1/chat/completions", "/apply-template", "/v1/messages", "/v1/messages/count_tokens"}) {
        const HttpAnswer refused = post(serving.port(), path, body);
        EXPECT_EQ(refused.status, 400) << path;
        EXPECT_NE(refused.body.find("no chat template"), std::string::npos) << refused.body;
    }
    const HttpAnswer text = serving.text({{"prompt", "The sky is"}, {"max_tokens", 4}, {"temperature", 0}});
    EXPECT_EQ(text.status, 200);
    EXPECT_FALSE(text.json()["choices"][0]["text"].get<std::string>().empty());
}

// gpt-oss names a channel for what is thought and one for what is said: a text that begins with one needs no other.
TEST_F(Completions, GoOnInTheChannelThatABegunAnswerNames) {
    Tokenizer channels = *Tokenizer::load(kServedModel);
    ASSERT_TRUE(
        channels
            .set_chat_template("{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
                               "{# <|channel|>analysis<|message|> #}<|start|>assistant")
            .ok());
    ServingOptions options;
    options.tokenizer = &channels;
    const Serving serving(options);
    Json body = {{"messages", said_by("Why?")}};
    const auto prompt_behind = [&](const std::string & begun) {
        body["messages"].push_back({{"role", "assistant"}, {"content", begun}});
        const Json prompt = post(serving.port(), "/apply-template", body).json()["prompt"];
        body["messages"].erase(body["messages"].size() - 1);
        return prompt;
    };
    const std::string front = "<|start|>user<|message|>Why?<|end|><|start|>assistant";
    EXPECT_EQ(prompt_behind("It may"), front + "<|channel|>final<|message|>It may");
    const std::string thought = "<|channel|>analysis<|message|>Let me";
    EXPECT_EQ(prompt_behind(thought), front + thought);
}

// Streams end with what they have said, whoever only waits is told so.
TEST_F(Completions, EndAtOnceWhereTheServerCutsThem) {
    ServingOptions options;
    options.generator.engine.max_sequences = 1;
    options.api.n_context = 100'000;
    Serving serving(options);
    const Json body = {{"prompt", kPrompt}, {"temperature", 0}, {"ignore_eos", true}, {"stream", true}};
    Connection runs(serving.port());
    ASSERT_TRUE(runs.send(request_text("POST", "/v1/completions", body.dump())));
    ASSERT_NE(runs.read_until("data: ").find("data: "), std::string::npos);
    HttpAnswer late;
    HttpAnswer several;
    std::thread waits([&] { late = serving.text({{"prompt", kPrompt}}); });
    std::thread wait_together([&] { several = serving.text({{"prompt", kPrompt}, {"n", 3}}); });
    EXPECT_TRUE(comes_true([&] { return serving.generator().n_open() == 5; }));
    serving.generator().cut();
    waits.join();
    wait_together.join();
    const auto events = answer_of(runs.read_until("data: [DONE]")).events();
    ASSERT_GE(events.size(), 2U);
    EXPECT_EQ(events.back(), "[DONE]");
    EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
    for (const HttpAnswer * one : {&late, &several}) {
        EXPECT_EQ(one->status, 503) << one->body;
        EXPECT_EQ(one->json()["error"]["type"], "unavailable_error");
        EXPECT_NE(one->body.find("the server ends"), std::string::npos) << one->body;
    }
    EXPECT_TRUE(comes_true([&] { return serving.generator().n_open() == 0; }));
    EXPECT_TRUE(comes_true([&] { return serving.generator().state().engine.kv_allocated_bytes == 0; }));
    EXPECT_EQ(serving.text({{"prompt", kPrompt}, {"max_tokens", 2}}).status, 503);
}

// Under a ceiling that fits the long answer alone: one of the same priority runs beside it as long as there is room.
TEST_F(Completions, ComeInTheOrderOfTheirPriorities) {
    const Json slow = {
        {"prompt", kPrompt}, {"max_tokens", 1500}, {"temperature", 0}, {"ignore_eos", true}, {"kv_policy", "full"}};
    Json urgent = slow;
    urgent["prompt"] = "The sky is blue. The grass is";
    urgent["max_tokens"] = 700;
    const Json slow_alone = serving_->text(slow).json();
    const Json urgent_alone = serving_->text(urgent).json();

    ServingOptions options;
    options.api.defaults.may_prioritize = true;
    std::unique_ptr<Serving> serving;
    for (size_t kib = 256; !serving && kib <= size_t{64} << 10U; kib += kib / 4) {
        options.generator.engine.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(kib << 10U));
        auto tried = std::make_unique<Serving>(options);
        const HttpAnswer answer = tried->text(slow);  // of a lower one it says what there is room for
        if (answer.status == 200 && answer.json()["usage"]["completion_tokens"] == 1500) { serving = std::move(tried); }
    }
    ASSERT_TRUE(serving) << "64 MiB are not enough for one answer";
    for (const int priority : {0, -1}) {
        std::atomic<bool> is_slow_done = false;
        std::jthread first([&] {
            EXPECT_EQ(serving->text(slow).json()["choices"], slow_alone["choices"]);
            is_slow_done = true;
        });
        while (!is_slow_done && serving->generator().state().n_running == 0) { std::this_thread::yield(); }
        urgent["priority"] = priority;
        EXPECT_EQ(serving->text(urgent).json()["choices"], urgent_alone["choices"]);
        if (priority < 0) { EXPECT_FALSE(is_slow_done); }
        first.join();
    }
    // A deadline holds while it is set aside, too: what it has said is the answer.
    Json late = slow;
    late["timeout"] = 0.2;
    urgent["max_tokens"] = 1400;
    std::atomic<bool> is_late_done = false;
    std::atomic<bool> is_urgent_done = false;
    std::jthread second([&] {
        while (!is_late_done && serving->generator().state().n_running == 0) { std::this_thread::yield(); }
        EXPECT_EQ(serving->text(urgent).status, 200);
        is_urgent_done = true;
    });
    const Json cut_short = serving->text(late).json();
    EXPECT_FALSE(is_urgent_done);
    is_late_done = true;
    EXPECT_EQ(cut_short["choices"][0]["finish_reason"], "length");
    EXPECT_LT(cut_short["usage"]["completion_tokens"].get<int>(), 1500);
    second.join();
    EXPECT_EQ(serving->generator().state().engine.kv_allocated_bytes, 0U);
    const Json refused = serving_->text(urgent).json();
    EXPECT_NE(refused["error"]["message"].get<std::string>().find("heeds priorities"), std::string::npos) << refused;
}

// What a grammar allows last is the end, and it comes.
TEST_F(Completions, EndWhereAGrammarDoesWhateverIsSaidOfTheEnd) {
    for (const double temperature : {0.0, 1.0}) {
        const HttpAnswer answer = serving_->text({{"prompt", kPrompt},
                                                  {"grammar", "root ::= \"ab\""},
                                                  {"ignore_eos", true},
                                                  {"max_tokens", 10},
                                                  {"temperature", temperature}});
        ASSERT_EQ(answer.status, 200) << answer.body;
        EXPECT_EQ(answer.json()["choices"][0]["text"], "ab");
        EXPECT_EQ(answer.json()["choices"][0]["finish_reason"], "stop");
    }
}

}  // namespace
}  // namespace pith::testing::prompts_test
