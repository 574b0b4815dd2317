// endpoints_test.cpp - every endpoint, every error, keys, limits.
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <regex>
#include <sstream>
#include <tuple>

#include "serve/prompt_length.h"
#include "serve/serving.h"

namespace pith::testing::endpoints_test {
namespace {

class Endpoints : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
    }
};

TEST_F(Endpoints, Answer) {
    const Serving serving;
    const int port = serving.port();
    for (const char * path : {"/health", "/v1/health"}) { EXPECT_EQ(get(port, path).json(), (Json{{"status", "ok"}})); }
    for (const char * path : {"/v1/models", "/models"}) {
        const Json models = get(port, path).json();
        EXPECT_EQ(models["object"], "list");
        EXPECT_EQ(models["data"][0]["id"], "built-in");
        EXPECT_EQ(models["data"][0]["meta"]["n_ctx"], 2048);
        const Json & model = models["data"][0];  // and as Anthropic's clients read it
        EXPECT_EQ(model["type"], "model");
        EXPECT_EQ(model["display_name"], "built-in");
        EXPECT_TRUE(std::regex_match(model["created_at"].get<std::string>(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")));
        EXPECT_EQ(model["max_input_tokens"], 2048);
        EXPECT_EQ(model["max_tokens"], 2048);
        EXPECT_EQ(models["has_more"], false);
        EXPECT_EQ(models["first_id"], "built-in");
        EXPECT_EQ(models["last_id"], "built-in");
        EXPECT_EQ(models["data"][0]["meta"]["ftype"], "all F32") << "as its file says";
    }
    const Json props = get(port, "/props").json();
    EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 2048);
    EXPECT_EQ(props["total_slots"], get(port, "/slots").json().size());
    EXPECT_EQ(get(port, "/slots").json()[0]["is_processing"], false);
    const Json tokens = post(port, "/tokenize", {{"content", "the and"}}).json();
    EXPECT_EQ(tokens["tokens"], Json(*served_tokenizer().encode("the and", false, true)));
    EXPECT_EQ(post(port, "/detokenize", tokens).json()["content"], "the and");
    EXPECT_EQ(post(port, "/tokenize", {{"content", "the"}, {"with_pieces", true}}).json()["tokens"][0]["piece"], "t");
    EXPECT_EQ(post(port, "/apply-template", {{"messages", said_by("x")}}).json()["prompt"],
              "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
}

std::string many_times(const std::string & text, int n) {
    std::string all;
    for (int i = 0; i < n; ++i) { all += text; }
    return all;
}

std::string object_of_names(int n) {
    std::string text = "{";
    for (int i = 0; i < n; ++i) { text += (i > 0 ? ",\"a" : "\"a") + std::to_string(i) + "\":1"; }
    return text + "}";
}

// 0: the system does not say.
int64_t resident_mib() {
    std::ifstream file("/proc/self/statm");
    int64_t all = 0;
    int64_t resident = 0;
    file >> all >> resident;
    return resident * sysconf(_SC_PAGESIZE) >> 20;
}

// As a text of JSON.
std::string nested_grammar(int n) {
    return "root ::= " + many_times("(", n) + R"(\"a\")" + many_times(")", n);
}

std::string chain_of_rules(int n) {
    std::string text = R"(root ::= a0\n)";
    for (int i = 0; i < n; ++i) { text += "a" + std::to_string(i) + " ::= a" + std::to_string(i + 1) + R"(\n)"; }
    return text + "a" + std::to_string(n) + R"( ::= \"a\")";
}

TEST_F(Endpoints, SayWhatIsWrongWithARequest) {
    const Serving serving;
    const int port = serving.port();
    struct Row {
        std::string path, body;
        int code;
        std::string type, word;
    };
    const std::string chat = "/v1/chat/completions";
    const std::string text = "/v1/completions";
    const std::string m = R"({"messages":[{"role":"user","content":"x"}],"max_tokens":2,)";
    const std::string p = R"({"prompt":"x","max_tokens":2,)";
    const std::string wrong = "invalid_request_error";
    const std::string never = "not_supported_error";
    const std::vector<Row> rows = {
        {chat, "{bad", 400, wrong, "not JSON"},
        {chat, "", 400, wrong, "not JSON"},
        {chat, "[]", 400, wrong, "no JSON object"},
        {chat, "{\"messages\":\"\xFF\"}", 400, wrong, "not UTF-8"},
        {chat, "{}", 400, wrong, "'messages' is missing"},
        {chat, R"({"messages":"x"})", 400, wrong, "'messages'"},
        {chat, R"({"messages":[]})", 400, wrong, "empty"},
        {chat, R"({"messages":[5]})", 400, wrong, "messages[0]"},
        {chat, R"({"messages":[{"role":"user"}]})", 400, wrong, "no content"},
        {chat, R"({"messages":[{"content":"x"}]})", 400, wrong, "no role"},
        {chat, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", 400, never, "text only"},
        {chat, R"({"messages":[{"role":"assistant","tool_calls":5}]})", 400, wrong, "tool_calls"},
        {chat, R"({"messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]})", 400, wrong, "function.name"},
        {chat,
         R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"assistant","content":"z"}]})",
         400, wrong, "last two messages"},
        {chat,
         R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]})",
         400, wrong, "'tool' messages"},
        {chat, R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y","reasoning_content":"z"}]})",
         400, wrong, "thoughts"},
        {chat, m + R"("continue_final_message":true})", 400, wrong, "'continue_final_message'"},
        {chat, m + R"("continue_final_message":5})", 400, wrong, "'continue_final_message'"},
        {chat, m + R"("temperature":"x"})", 400, wrong, "'temperature'"},
        {chat, m + R"("temperature":-1})", 400, wrong, "temperature"},
        {chat, m + R"("top_p":5})", 400, wrong, "top_p"},
        {chat, m + R"("n":0})", 400, wrong, "'n'"},
        {chat, m + R"("n":1000})", 400, wrong, "'n'"},
        {chat, m + R"("max_tokens":-5})", 400, wrong, "'max_tokens'"},
        {chat, m + R"("max_tokens":1e300})", 400, wrong, "'max_tokens'"},
        {chat, m + R"("stop":5})", 400, wrong, "'stop'"},
        {chat, m + R"("seed":"x"})", 400, wrong, "'seed'"},
        {chat, m + R"("top_logprobs":2})", 400, wrong, "logprobs"},
        {chat, m + R"("logit_bias":{"99999":1}})", 400, wrong, "99999"},
        {chat, m + R"("logit_bias":5})", 400, wrong, "'logit_bias'"},
        {chat, m + R"("logit_bias":{"5":1e39}})", 400, wrong, "logit bias"},
        {chat, m + R"("logit_bias":[)" + many_times("[5,1],", 4999) + "[5,1]]}", 400, wrong, "5000 tokens"},
        {chat, m + R"("kv_pin":[)" + many_times("[0,1],", 1024) + "[0,1]]}", 400, wrong, "1025 spans"},
        {chat, m + R"("stop":[)" + many_times("\"x\",", 64) + "\"x\"]}", 400, wrong, "65 texts"},
        {chat, object_of_names(5000), 400, wrong, "4096 names"},
        {text, "{\"prompt\":\"\xC3\x28\"}", 400, wrong, "not UTF-8: byte 11"},
        {"/tokenize", "{\"content\":\"\xED\xA0\x80\"}", 400, wrong, "not UTF-8"},
        {"/apply-template", "\xFE{}", 400, wrong, "not UTF-8: byte 0"},
        {chat, m + R"("response_format":{"type":"x"}})", 400, wrong, "'response_format'"},
        {chat, m + R"("response_format":{"type":"json_schema"}})", 400, wrong, "schema"},
        {chat, m + R"("response_format":{"type":"json_object"},"grammar":"root ::= \"a\""})", 400, wrong, "one of them"},
        {chat, m + R"("grammar":"x x"})", 400, wrong, "grammar"},
        {chat, m + R"("grammar":")" + nested_grammar(17'000) + "\"}", 400, wrong, "nested deeper"},
        {text, p + R"("grammar":")" + nested_grammar(17'000) + "\"}", 400, wrong, "nested deeper"},
        {chat, m + R"("grammar":")" + chain_of_rules(120'000) + "\"}", 400, wrong, "bytes: 524288 at most"},
        {text, p + R"("grammar":")" + chain_of_rules(120'000) + "\"}", 400, wrong, "bytes: 524288 at most"},
        {text, p + R"("grammar":"root ::= root \"a\" | \"b\""})", 400, wrong, "begins with itself"},
        {text, p + R"("grammar":"root ::= \"a\"{1000000}"})", 400, wrong, "10000 at most"},
        {text, p + R"("grammar":"root ::= \"a\"{3,2}"})", 400, wrong, "no range"},
        {text, p + R"("json_schema":{"type":["object","object"]}})", 400, wrong, "twice"},
        {text, p + R"("json_schema":{"enum":[)" + many_times("\"much of a value\",", 60'000) + "0]}}", 400, wrong, "at most"},
        {text, p + R"("stop":")" + std::string(4097, 'x') + "\"}", 400, wrong, "4097 bytes"},
        {text, p + R"("dry_sequence_breakers":[)" + many_times("\"x\",", 64) + "\"x\"]}", 400, wrong, "65 texts"},
        {text, p + R"("dry_sequence_breakers":")" + std::string(4097, 'x') + "\"}", 400, wrong, "4097 bytes"},
        {text, p + R"("ignored":[)" + many_times("[[]],", 150'000) + "0]}", 400, wrong, "more than 262144 values"},
        {text, p + R"("ignored":[)" + many_times("1,", 2'100'000) + "0]}", 400, wrong, "more than 2097152 numbers"},
        {chat, m + R"("tools":5})", 400, wrong, "'tools'"},
        {chat, m + R"("tools":[{"type":"web_search"}]})", 400, never, "web_search"},
        {chat, m + R"("tools":[{"type":"function","function":{"name":"no name"}}]})", 400, wrong, "'no name'"},
        {chat, m + R"("tool_choice":"required"})", 400, wrong, "no 'tools'"},
        {chat, m + R"("tool_choice":{"type":"function","function":{"name":"f"}}})", 400, wrong, "'f'"},
        {chat, m + R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"sometimes"})", 400, wrong,
         "required"},
        {chat,
         m + R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required","grammar":"root ::= \"a\""})",
         400, wrong, "one of them"},
        {chat, m + R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools"}})", 400,
         wrong, "allowed_tools"},
        {chat,
         m + R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","function":{"name":"g"}}]}}})",
         400, wrong, "'g'"},
        {chat, m + R"("chat_template_kwargs":5})", 400, wrong, "'chat_template_kwargs'"},
        {chat, m + R"("reasoning_format":"x"})", 400, wrong, "'reasoning_format'"},
        {chat, m + R"("timeout":0})", 400, wrong, "'timeout'"},
        {chat, m + R"("timeout":-1})", 400, wrong, "'timeout'"},
        {chat, m + R"("temprature":1})", 400, wrong, "did you mean 'temperature'"},
        {chat, m + R"("samplers":["top_k"]})", 400, never, "'samplers'"},
        {chat, m + R"("kv_policy":"nonsense"})", 400, wrong, "'kv_policy'"},
        {chat, m + R"("kv_policy":"snapkv"})", 400, wrong, "'kv_budget'"},
        {chat, m + R"("kv_policy":"full","kv_budget":64})", 400, wrong, "'kv_budget'"},
        {chat, m + R"("kv_budget":"lots"})", 400, wrong, "'kv_budget'"},
        {chat, m + R"("kv_pin":[[5,2]]})", 400, wrong, "'kv_pin'"},
        {chat, m + R"("kv_pin":[[0,2000]]})", 400, wrong, "'kv_pin'"},
        {text, "{}", 400, wrong, "'prompt' is missing"},
        {text, R"({"prompt":[]})", 400, wrong, "'prompt'"},
        {text, R"({"prompt":[1,99999]})", 400, wrong, "'prompt'"},
        {text, R"({"prompt":{"a":1}})", 400, wrong, "'prompt'"},
        {text, p + R"("echo":true})", 400, never, "'echo'"},
        {text, p + R"("suffix":"y"})", 400, never, "'suffix'"},
        {text, p + R"("best_of":3})", 400, never, "'best_of'"},
        {text, R"({"prompt":["a","b","c"],"n":9})", 400, wrong, "27"},
        {"/tokenize", R"({"content":5})", 400, wrong, "'content'"},
        {"/detokenize", R"({"tokens":"x"})", 400, wrong, "'tokens'"},
        {"/detokenize", R"({"tokens":[99999]})", 400, wrong, "'tokens'"},
        {"/apply-template", "{}", 400, wrong, "'messages'"},
        {"/v1/embeddings", R"({"input":"x"})", 400, never, "embeddings"},
        {"/nothing", "{}", 404, "not_found_error", "path"},
        {"/v1/models", "{}", 404, "not_found_error", "method"},
    };
    for (const Row & row : rows) {
        const HttpAnswer answer = ask(port, "POST", row.path, row.body);
        EXPECT_EQ(answer.status, row.code) << row.path << " " << row.body << "\n" << answer.body;
        const Json json = answer.json();
        ASSERT_TRUE(json.is_object() && json.contains("error")) << row.body << "\n" << answer.body;
        EXPECT_EQ(json["error"]["code"], row.code);
        EXPECT_EQ(json["error"]["type"], row.type) << row.body;
        EXPECT_NE(json["error"]["message"].get<std::string>().find(row.word), std::string::npos)
            << row.word << " in " << json["error"]["message"] << " of " << row.body;
    }
    for (const char * method : {"GET", "DELETE", "PUT"}) { EXPECT_EQ(ask(port, method, chat).status, 404) << method; }
    for (const char * path : {"/api/chat", "/api/tags", "/api/show"}) {  // Ollama's clients read its form
        const HttpAnswer answer = post(port, path, {{"model", "x"}});
        EXPECT_EQ(answer.status, 404);
        EXPECT_TRUE(answer.json()["error"].is_string()) << answer.body;
    }
    EXPECT_EQ(get(port, "/health").status, 200);
}

TEST_F(Endpoints, TellALineForEachRequest) {
    static std::mutex mutex;
    static std::vector<std::string> lines;
    lines.clear();
    ServingOptions options;
    options.api.keys = {"k"};
    options.api.tell_request = [](std::string_view line) {
        const std::lock_guard lock(mutex);
        lines.emplace_back(line);
    };
    const std::string key = "X-Api-Key: k\r\n";
    {
        const Serving serving(options);
        const int port = serving.port();
        const Json body = {{"messages", said_by("x")}, {"max_tokens", 2}, {"ignore_eos", true}};
        Json stream = body;
        stream["stream"] = true;
        post(port, "/v1/chat/completions", body, key);
        post(port, "/v1/messages", stream, key);
        post(port, "/v1/nothing", body, key);
        post(port, "/v1/models", body);
        get(port, "/health");
        get(port, "/metrics", key);
    }
    const std::lock_guard lock(mutex);
    ASSERT_EQ(lines.size(), 4U);
    const std::string costs = R"(: \d+ tokens \(\d+ cached\), 2 generated, \d+\.\d{3} s)";
    EXPECT_TRUE(std::regex_match(lines[0], std::regex("POST /v1/chat/completions 200" + costs))) << lines[0];
    EXPECT_TRUE(std::regex_match(lines[1], std::regex("POST /v1/messages 200" + costs))) << lines[1];
    EXPECT_TRUE(std::regex_match(lines[2], std::regex(R"(POST /v1/nothing 404: \d+\.\d{3} s)"))) << lines[2];
    EXPECT_TRUE(std::regex_match(lines[3], std::regex(R"(POST /v1/models 401: \d+\.\d{3} s)"))) << lines[3];
}

TEST(RequestReports, ShowNothingOfAPathThatMovesACursor) {
    serve::RequestReport report;
    report.method = "POST";
    report.path = "/a\x1B[2Jb" + std::string(500, 'c');
    report.status = 404;
    const std::string line = report.line();
    EXPECT_TRUE(line.starts_with("POST /a?[2Jbccc")) << line;
    EXPECT_LT(line.size(), 150U);
}

TEST_F(Endpoints, HaveNoPageWhereNobodyWantsOne) {
    ServingOptions options;
    options.api.has_page = false;
    const Serving serving(options);
    for (const char * path : {"/", "/page.js", "/page.css"}) { EXPECT_EQ(get(serving.port(), path).status, 404) << path; }
}

// OpenAI's form says which field it was, whoever found it: the server, or the library that reads the prompt.
TEST_F(Endpoints, NameTheFieldThatIsWrong) {
    const Serving serving;
    struct Row {
        const char * more;  // of the body
        const char * param;
        const char * begin;  // of the message
    };
    const Row rows[] = {
        {R"({"temperature":"hot"})", "temperature", "'temperature' is"},
        {R"({"temprature":1})", "temprature", "there is no field 'temprature'"},
        {R"({"kv_policy":"nonsense"})", "kv_policy", "'kv_policy': "},
        {R"({"kv_budget":"lots"})", "kv_budget", "'kv_budget': "},
        {R"({"kv_policy":"streaming","kv_budget":2})", "kv_budget",
         "kv_budget 2 gives 2 tokens per head, but policy streaming protects"},
    };
    for (const Row & row : rows) {
        Json body = {{"prompt", many_times("word ", 200)}, {"max_tokens", 2}};
        body.update(Json::parse(row.more));
        const HttpAnswer answer = serving.text(body);
        EXPECT_EQ(answer.status, 400) << answer.body;
        const Json error = answer.json()["error"];
        EXPECT_EQ(error["param"], row.param) << error;
        EXPECT_TRUE(error["message"].get<std::string>().starts_with(row.begin)) << error;
        EXPECT_EQ(error["message"].get<std::string>().find("--"), std::string::npos) << error;
    }
}

// Behind each "a" the text may stand at tens of thousands of places. Whoever asks for that gets an error, and others their
// answers.
TEST_F(Endpoints, EndARequestWhoseGrammarCanBeReadInTooManyWays) {
    const Serving serving;
    std::string many = "root ::=";
    for (int i = 0; i < 60'000; ++i) { many += " [a-z]?"; }
    const Json a = (*served_tokenizer().encode("a", false, false)).back();
    Json body = {{"prompt", "x"}, {"max_tokens", 200}, {"grammar", many}, {"logit_bias", Json::array({Json::array({a, 100})})}};
    const HttpAnswer whole = serving.text(body);
    EXPECT_EQ(whole.status, 400) << whole.body;
    EXPECT_NE(whole.body.find("too many ways"), std::string::npos) << whole.body;
    body["stream"] = true;
    const HttpAnswer streamed = serving.text(body);
    EXPECT_NE(streamed.body.find("too many ways"), std::string::npos) << streamed.body;
    EXPECT_EQ(serving.text({{"prompt", "x"}, {"max_tokens", 2}, {"grammar", "root ::= [a-z]+"}}).status, 200);
}

// A body is as large as what has come of it, and when it is whole what is made of it counts, too. Beside one that is half
// there, another finds room for a part.
TEST_F(Endpoints, HaveRoomForSoManyBytesOfBodiesAndNoMore) {
    ServingOptions options;
    options.http.most_bodies_bytes = 6'500'000;
    const Serving serving(options);
    const auto begin_of = [](size_t n) { return "{\"ignored\":\"" + std::string(n, 'x'); };
    const auto head_of = [](const std::string & begin) {
        return "POST /detokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
               std::to_string(begin.size() + 2) + "\r\n\r\n";
    };
    const std::string text = begin_of(1'000'000);
    const std::string large = begin_of(6'000'000);
    // Whichever is read first has the room: on a busy machine that may be the other, and both begin anew.
    std::optional<Connection> half;
    HttpAnswer refused;
    for (int wait_ms = 20; refused.status == 0 && wait_ms < 5000; wait_ms *= 2) {
        half.reset();
        std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));  // until what came of the ones before is gone
        half.emplace(serving.port());
        ASSERT_TRUE(half->send(head_of(text) + text));
        std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
        Connection other(serving.port());
        other.send(head_of(large) + large.substr(0, 5'550'000));  // no more: what nobody reads might cut the answer off
        refused = answer_of(other.read_until("}}", 500 + wait_ms));
    }
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.json()["error"]["type"], "rate_limit_error") << refused.body;
    EXPECT_NE(refused.headers.find("Retry-After: "), std::string::npos) << refused.headers;
    EXPECT_EQ(ask(serving.port(), "POST", "/tokenize", R"({"content":"x"})").status, 200) << "a small one has room";
    // What came of the refused one is gone when another finds room.
    EXPECT_TRUE(
        comes_true([&] { return ask(serving.port(), "POST", "/detokenize", begin_of(400'000) + "\"}").status == 200; }));
    ASSERT_TRUE(half->send("\"}"));
    EXPECT_EQ(answer_of(half->read_until("never", 10'000)).status, 200);
    EXPECT_TRUE(comes_true([&] { return ask(serving.port(), "POST", "/detokenize", text + "\"}").status == 200; }));
    const HttpAnswer never = ask(serving.port(), "POST", "/detokenize", begin_of(1'200'000) + "\"}");
    EXPECT_EQ(never.status, 413) << "what is made of it finds no room, whoever else is there";
    const HttpAnswer work = ask(serving.port(), "POST", "/tokenize", R"({"content":")" + std::string(200'000, 'x') + "\"}");
    EXPECT_EQ(work.status, 413) << work.body;
    EXPECT_NE(work.body.find("can be tokenised at once"), std::string::npos) << work.body;
    EXPECT_NE(never.body.find("what is made of the body"), std::string::npos) << never.body;
}

TEST_F(Endpoints, TakeNamesOfOtherServersForNoMisspelling) {
    const Serving serving;
    const Json others = {{"top_a", 0.2},  {"mode", "chat"}, {"models", {"a"}},        {"speed", "fast"},
                         {"num_keep", 4}, {"type", "chat"}, {"speculative.n_min", 0}, {"speculative.p_min", 0.75}};
    for (const auto & [name, value] : others.items()) {
        const Json body = {{"messages", said_by("x")}, {"prompt", "x"}, {"max_tokens", 1}, {name, value}};
        for (const char * path : {"/v1/chat/completions", "/v1/completions", "/v1/messages"}) {
            const HttpAnswer answer = post(serving.port(), path, body);
            EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
        }
    }
}

// Pieces, texts of tokens and log-probabilities are many times as long as what asks for them: what they take counts, too.
TEST_F(Endpoints, HaveRoomForSoManyBytesOfRepliesAndNoMore) {
    ServingOptions options;
    options.http.most_bodies_bytes = 1'000'000;
    const Serving serving(options);
    std::string text;
    for (int i = 0; i < 2000; ++i) { text += "the "; }
    Json body = {{"content", text}};
    const HttpAnswer tokens = post(serving.port(), "/tokenize", body);
    EXPECT_EQ(tokens.status, 200) << tokens.body;
    body["with_pieces"] = true;
    const HttpAnswer pieces = post(serving.port(), "/tokenize", body);
    EXPECT_EQ(pieces.status, 413) << pieces.body;
    EXPECT_NE(pieces.body.find("leave 'with_pieces' out"), std::string::npos) << pieces.body;

    const int32_t longest = served_tokenizer().encode("<|im_start|>", false, true)->front();
    const Json one = post(serving.port(), "/detokenize", {{"tokens", std::vector<int32_t>(1000, longest)}}).json();
    EXPECT_EQ(one["content"].get<std::string>().size(), 12'000U);
    const HttpAnswer many = post(serving.port(), "/detokenize", {{"tokens", std::vector<int32_t>(9000, longest)}});
    EXPECT_EQ(many.status, 413) << many.body.substr(0, 200);
    EXPECT_NE(many.body.find("send fewer at once"), std::string::npos) << many.body.substr(0, 200);

    Json chat = {{"messages", said_by("x")}, {"max_tokens", 20}, {"logprobs", true}, {"top_logprobs", 2}};
    chat["ignore_eos"] = true;
    EXPECT_EQ(serving.chat(chat).status, 200);
    chat["top_logprobs"] = 100;
    const HttpAnswer refused = serving.chat(chat);
    EXPECT_EQ(refused.status, 413) << refused.body.substr(0, 200);
    EXPECT_NE(refused.body.find("ask for fewer, or for a stream"), std::string::npos) << refused.body.substr(0, 200);
    chat["stream"] = true;
    const HttpAnswer streamed = serving.chat(chat);
    EXPECT_EQ(streamed.status, 200);
    EXPECT_NE(streamed.body.find("[DONE]"), std::string::npos);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Small pieces that an allocator keeps unless it is asked.
TEST_F(Endpoints, GiveMemoryBackBehindALargeBody) {
    const Serving serving;
    EXPECT_EQ(ask(serving.port(), "POST", "/tokenize", R"({"content":"x"})").status, 200);
    const int64_t before = resident_mib();
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
        clients.emplace_back([&serving] {
            const std::string values = many_times("[\"text of more than a few letters\"],", 120'000);
            EXPECT_EQ(ask(serving.port(), "POST", "/tokenize", R"({"content":"x","ignored":[)" + values + "0]}").status, 200);
        });
    }
    for (std::thread & client : clients) { client.join(); }
    EXPECT_TRUE(comes_true([&] { return resident_mib() <= before + 24; })) << before << " MiB became " << resident_mib();
}
#endif

TEST_F(Endpoints, IgnoreWhatChangesNoAnswer) {
    const Serving serving;
    const Json body = {{"messages", said_by("x")}, {"max_tokens", 1},           {"model", "any"},  {"user", "me"},
                       {"metadata", {{"a", "b"}}}, {"something_of_a_proxy", 1}, {"stop", nullptr}, {"tools", Json::array()},
                       {"tool_choice", "none"}};
    EXPECT_EQ(serving.chat(body).status, 200);
}

TEST_F(Endpoints, RefuseAPromptLongerThanTheContext) {
    ServingOptions options;
    options.api.n_context = 64;
    const Serving serving(options);
    std::string text;
    for (int i = 0; i < 100; ++i) { text += "the sky "; }
    const HttpAnswer answer = serving.text({{"prompt", text}});
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.json()["error"]["type"], "exceed_context_size_error");
    EXPECT_EQ(answer.json()["error"]["n_ctx"], 64);
    const std::string n = std::to_string(answer.json()["error"]["n_prompt_tokens"].get<int>());
    EXPECT_EQ(answer.json()["error"]["message"],
              "request (" + n + " tokens) exceeds the available context size (64 tokens), try increasing it");
    // An answer ends where the context does.
    const Json json = serving.text({{"prompt", "the sky"}, {"ignore_eos", true}}).json();
    EXPECT_EQ(json["usage"]["total_tokens"], 64);
    EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
}

// Megabytes are not tokenised to find out that they are too much: the beginning is, and says what the rest is likely to have.
TEST_F(Endpoints, RefuseAPromptFarOverTheContextByItsBeginning) {
    ServingOptions options;
    options.api.n_context = 64;
    const Serving serving(options);
    std::string text;
    while (text.size() < 70'000) { text += "the sky "; }
    while (text.size() < 4'000'000) { text += "x9q7!zk "; }  // many more tokens to a byte
    const std::array<std::string_view, 1> texts{text};
    const int64_t expected = serve::tokens_over_context(served_tokenizer(), texts, 64);
    const auto all = served_tokenizer().encode(text, true, true);
    ASSERT_TRUE(all.ok());
    ASSERT_GT(expected, 64);
    ASSERT_LT(expected, std::ssize(*all)) << "the end has been read, too";
    const Json messages = said_by(text);
    for (const auto & [path, body] :
         std::vector<std::pair<std::string, Json>>{{"/v1/completions", {{"prompt", text}}},
                                                   {"/v1/chat/completions", {{"messages", messages}}},
                                                   {"/v1/messages", {{"messages", messages}, {"max_tokens", 1}}},
                                                   {"/v1/responses", {{"input", text}}}}) {
        const HttpAnswer answer = post(serving.port(), path, body);
        EXPECT_EQ(answer.status, 400) << path;
        const std::string message = answer.json()["error"]["message"];
        const std::string n = std::to_string(expected) + " tokens";
        const std::string words = path == "/v1/messages" ? "prompt is too long: " + n + " > 64 maximum"
                                                         : "request (" + n + ") exceeds the available context size";
        EXPECT_NE(message.find(words), std::string::npos) << path << ": " << message;
    }
    const HttpAnswer counted = post(serving.port(), "/v1/messages/count_tokens", {{"messages", messages}});
    EXPECT_EQ(counted.json()["input_tokens"], expected);
}

TEST_F(Endpoints, TextsThatMayFitAreCountedAsAWhole) {
    std::string text;
    while (text.size() < 70'000) { text += "the sky "; }
    const std::array<std::string_view, 1> texts{text};
    EXPECT_EQ(serve::tokens_over_context(served_tokenizer(), texts, 558), 0) << "eight bytes a token, and a piece";
    EXPECT_GT(serve::tokens_over_context(served_tokenizer(), texts, 557), 557);
    const std::string bad(500'000, '\xFF');
    const std::array<std::string_view, 1> no_text{bad};
    EXPECT_EQ(serve::tokens_over_context(served_tokenizer(), no_text, 100), 0) << "whoever reads it says what is wrong";
}

// As a client keeps a stream that ended in a thought, and what a tool that said nothing returned.
TEST_F(Endpoints, TakeAMessageWhoseContentIsNull) {
    const Serving serving{ServingOptions()};
    const Json user = {{"role", "user"}, {"content", "x"}};
    const Json thought = {{"role", "assistant"}, {"content", nullptr}, {"reasoning_content", "y"}};
    const HttpAnswer answer =
        post(serving.port(), "/v1/chat/completions", {{"messages", {user, thought, user}}, {"max_tokens", 1}});
    EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST_F(Endpoints, WantAKeyWhereOneIsSet) {
    ServingOptions options;
    options.api.keys = {"first-key", "second-key"};
    const Serving serving(options);
    const int port = serving.port();
    EXPECT_EQ(get(port, "/health").status, 200);
    const HttpAnswer refused = get(port, "/v1/models");
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(refused.json()["error"]["type"], "authentication_error");
    EXPECT_EQ(get(port, "/v1/models", "Authorization: Bearer second-key\r\n").status, 200);
    EXPECT_EQ(get(port, "/v1/models", "Authorization: bearer first-key\r\n").status, 200);
    EXPECT_EQ(get(port, "/v1/models", "X-Api-Key: first-key\r\n").status, 200);
    // A client may be told of two places for a key, and have a word that is none in one of them.
    EXPECT_EQ(get(port, "/v1/models", "Authorization: Bearer none\r\nX-Api-Key: first-key\r\n").status, 200);
    EXPECT_EQ(get(port, "/v1/models", "Authorization: Bearer first-key\r\nX-Api-Key: none\r\n").status, 200);
    EXPECT_EQ(get(port, "/v1/models", "Authorization: Bearer none\r\nX-Api-Key: none\r\n").status, 401);
    for (const char * wrong : {"Authorization: Bearer first-ke\r\n", "Authorization: first-key\r\n", "X-Api-Key: \r\n",
                               "Authorization: Bearer \r\n"}) {
        EXPECT_EQ(get(port, "/v1/models", wrong).status, 401) << wrong;
    }
}

// Who brings no key is told so before his body has come, and none of it is kept.
TEST_F(Endpoints, ReadNoBodyWithoutAKey) {
    ServingOptions options;
    options.api.keys = {"the-key"};
    const Serving serving(options);
    Connection connection(serving.port());
    ASSERT_TRUE(connection.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{"));
    EXPECT_EQ(answer_of(connection.read_until("authentication_error", 5000)).status, 401);
    // Neither where a path is open to everybody: that is its GET, and a GET has no body.
    EXPECT_EQ(ask(serving.port(), "POST", "/health", "{}").status, 401);
    EXPECT_EQ(ask(serving.port(), "POST", "/", "{}").status, 401);
    for (const std::string how : {"Content-Length: 1000000", "Transfer-Encoding: chunked"}) {
        for (const std::string method : {"GET", "HEAD", "OPTIONS"}) {
            Connection stray(serving.port());
            ASSERT_TRUE(stray.send(method + " /health HTTP/1.1\r\nHost: localhost\r\n" + how + "\r\n\r\n1"));
            EXPECT_EQ(answer_of(stray.read_until("\r\n\r\n", 5000)).status, 400) << method << " " << how;
        }
    }
}

TEST_F(Endpoints, SayThatTheServerIsAboutToEnd) {
    Serving serving;
    EXPECT_EQ(get(serving.port(), "/health").status, 200);
    serving.api().close();
    const HttpAnswer health = get(serving.port(), "/health");
    EXPECT_EQ(health.status, 503);
    EXPECT_EQ(health.json()["error"]["type"], "unavailable_error");
    EXPECT_EQ(serving.text({{"prompt", "the sky"}, {"max_tokens", 2}}).status, 503);
}

// Asked to end before its thread has begun to listen.
TEST_F(Endpoints, EndBeforeTheyHaveBegun) {
    const ServingOptions options;
    const auto generator = serve::Generator::start(served_model(), served_tokenizer(), options.generator);
    ASSERT_TRUE(generator.ok());
    serve::Api api(served_model(), served_tokenizer(), **generator, options.api);
    const auto server = serve::HttpServer::bind(api, options.http);
    ASSERT_TRUE(server.ok());
    (*server)->stop();
    std::atomic<bool> over{false};
    std::thread serving([&] {
        (*server)->serve();
        over = true;
    });
    const bool ended = comes_true([&] { return over.load(); }, 5);
    EXPECT_TRUE(ended);
    if (!ended) { (*server)->stop(); }
    serving.join();
}

// curl calls every body a form, unless it is told otherwise.
TEST_F(Endpoints, TakeABodyWhateverItsTypeSays) {
    const Serving serving;
    std::string content;
    for (int i = 0; i < 5000; ++i) { content += "the sky & "; }
    const std::string body = Json{{"content", content}}.dump();
    const auto ask_as = [&](const std::string & type, const std::string & text) {
        Connection connection(serving.port());
        EXPECT_TRUE(connection.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: " + type +
                                    "\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text));
        return answer_of(connection.read_until("never", 10'000));
    };
    const HttpAnswer plain = ask_as("application/json", body);
    const HttpAnswer form = ask_as("application/x-www-form-urlencoded", body);
    EXPECT_EQ(plain.status, 200);
    EXPECT_EQ(form.status, 200) << form.body;
    EXPECT_EQ(form.body, plain.body);
    const HttpAnswer parts = ask_as("multipart/form-data; boundary=x", "--x\r\n\r\n--x--");
    EXPECT_EQ(parts.status, 400);
    EXPECT_NE(parts.body.find("send a JSON object"), std::string::npos) << parts.body;
}

// What comes behind a request that was not understood is no request: a proxy may have taken it for the body of one.
TEST_F(Endpoints, EndAConnectionWithAnError) {
    const Serving serving;
    const std::string next = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // Replies to a request, and to another that follows it.
    const auto n_replies = [&](const std::string & first) {
        Connection connection(serving.port());
        EXPECT_TRUE(connection.send(first));
        connection.read_until("}", 5000);
        connection.send(next);
        const std::string came = connection.read_until("}HTTP/1.1 200 OK", 2000);
        int n = 0;
        for (size_t i = came.find("HTTP/1.1 "); i != std::string::npos; i = came.find("HTTP/1.1 ", i + 1)) { ++n; }
        return n;
    };
    EXPECT_EQ(n_replies(next), 2);
    EXPECT_EQ(n_replies("GET /health HTTP/1.1\r\nthis is no header\r\n\r\n"), 1);
    EXPECT_EQ(n_replies("GET\r\n"), 1);
    EXPECT_EQ(n_replies("POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"), 2) << "it was read whole";
}

TEST_F(Endpoints, ServeAPageThatLoadsNothingFromElsewhere) {
    ServingOptions options;
    options.api.keys = {"the-key"};  // the page is open, and asks for it
    const Serving serving(options);
    const std::filesystem::path folder = PITH_SOURCE_DIR "/src/serve/page";
    const std::map<std::string, std::string> types = {{".html", "text/html"}, {".css", "text/css"}, {".js", "text/javascript"}};
    int n_files = 0;
    for (const auto & entry : std::filesystem::directory_iterator(folder)) {
        const auto type = types.find(entry.path().extension());
        if (type == types.end()) { continue; }
        ++n_files;
        const std::string file = entry.path().filename();
        const std::string path = file == "page.html" ? "/" : "/" + file;
        const HttpAnswer answer = get(serving.port(), path);
        EXPECT_EQ(answer.status, 200) << path;
        EXPECT_NE(answer.headers.find("Content-Type: " + type->second), std::string::npos) << answer.headers;
        EXPECT_NE(answer.headers.find("Content-Security-Policy: default-src 'none'; script-src 'self'"), std::string::npos);
        std::ifstream in(entry.path(), std::ios::binary);
        std::stringstream source;
        source << in.rdbuf();
        EXPECT_EQ(answer.body, source.str()) << path;
        for (const char * elsewhere : {"http://", "https://", "//cdn", "eval(", "innerHTML"}) {
            EXPECT_EQ(answer.body.find(elsewhere), std::string::npos) << path << ": " << elsewhere;
        }
    }
    EXPECT_GE(n_files, 3);
    EXPECT_EQ(get(serving.port(), "/page.py").status, 401);
}

TEST_F(Endpoints, LetPagesCall) {
    const Serving serving;
    const HttpAnswer asked = ask(serving.port(), "OPTIONS", "/v1/chat/completions", "", "Origin: http://page\r\n");
    EXPECT_EQ(asked.status, 204);
    EXPECT_NE(asked.headers.find("Access-Control-Allow-Methods: GET, POST"), std::string::npos);
    EXPECT_NE(get(serving.port(), "/health", "Origin: http://page\r\n").headers.find("Access-Control-Allow-Origin: *"),
              std::string::npos);
    ServingOptions options;
    options.http.cors_origin = "";
    const Serving closed(options);
    EXPECT_EQ(get(closed.port(), "/health", "Origin: http://page\r\n").headers.find("Access-Control"), std::string::npos);
}

TEST_F(Endpoints, LiveThroughBadClients) {
    ServingOptions options;
    options.http.receive_timeout_s = 1;
    options.http.most_body_bytes = size_t{1} << 20;
    const Serving serving(options);
    const int port = serving.port();
    // Too large by its own word, and by what it sends.
    const HttpAnswer large = ask(port, "POST", "/tokenize", "{\"content\":\"" + std::string(size_t{100} << 20, 'x') + "\"}");
    EXPECT_TRUE(large.status == 413 || large.status == 0) << large.status;
    EXPECT_EQ(ask(port, "POST", "/tokenize", std::string((1U << 20U) + 1, 'x')).status, 413);
    // A byte now and then: its connection ends, and meanwhile others are served.
    Connection slow(port);
    ASSERT_TRUE(slow.send("POST /tokenize HT"));
    Connection slow_body(port);
    ASSERT_TRUE(slow_body.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"));
    for (int i = 0; i < 30; ++i) {
        slow.send("T");
        slow_body.send("x");
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(get(port, "/health").status, 200);
    EXPECT_EQ(answer_of(slow.read_until("never", 3000)).status, 408);
    EXPECT_EQ(answer_of(slow_body.read_until("never", 3000)).status, 408);
    EXPECT_TRUE(slow.closed());
    EXPECT_TRUE(slow_body.closed());
    // No HTTP, half a request, headers without end.
    for (const std::string & text :
         {std::string("\0\1\2\3\r\n\r\n", 8), std::string("GET\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
          "GET /health HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n"}) {
        Connection connection(port);
        connection.send(text);
        const HttpAnswer answer = answer_of(connection.read_until("never", 3000));
        EXPECT_TRUE(answer.status == 0 || answer.status >= 400) << answer.status;
    }
    EXPECT_EQ(get(port, "/health").status, 200);
    EXPECT_EQ(serving.text({{"prompt", "the sky"}, {"max_tokens", 2}}).status, 200);
}

int64_t open_files() {
    std::error_code error;
    const std::filesystem::directory_iterator files("/proc/self/fd", error);
    return error ? 0 : std::distance(begin(files), end(files));
}

// Opened and dropped: at once, in the middle of a request, without waiting for its answer, in the middle of a stream; politely
// or not.
void drop_connections(int port, int n) {
    const Json body = {{"prompt", "the sky"}, {"max_tokens", 400}, {"ignore_eos", true}, {"stream", true}};
    const std::string stream = request_text("POST", "/v1/completions", body.dump());
    for (int i = 0; i < n; ++i) {
        Connection dropped(port);
        ASSERT_TRUE(dropped.open()) << i;
        if (i % 100 == 50) {
            dropped.send(stream);
            dropped.read_until("data: ", 5000);
        } else if (i % 3 == 1) {
            dropped.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
        } else if (i % 3 == 2) {
            dropped.send(request_text("GET", "/v1/models", ""));
        }
        if (i % 2 == 0) { dropped.reset_when_closed(); }
    }
}

// 500 of them; with the label slow 10,000.
TEST_F(Endpoints, KeepNothingOfConnectionsThatAreDropped) {
    const char * asked = std::getenv("PITH_CONNECTIONS");
    const int n = asked != nullptr ? std::atoi(asked) : 500;
    Serving serving;
    const Json request = {{"prompt", "the sky"}, {"max_tokens", 20}, {"temperature", 0}};
    const auto says = [&] { return serving.text(request).json()["choices"][0]["text"]; };
    const Json before = says();
    const int64_t n_files = open_files();
    const auto all_is_back = [&] {
        const serve::GeneratorState state = serving.generator().state();
        return serving.generator().n_open() == 0 && state.engine.kv_allocated_bytes == 0 && open_files() <= n_files;
    };
    ASSERT_NO_FATAL_FAILURE(drop_connections(serving.port(), n / 4));  // allocators have taken what they take
    EXPECT_TRUE(comes_true(all_is_back));
    const int64_t resident = resident_mib();
    ASSERT_NO_FATAL_FAILURE(drop_connections(serving.port(), n - n / 4));
    EXPECT_TRUE(comes_true(all_is_back)) << open_files() << " files are open, " << n_files << " were";
    EXPECT_EQ(get(serving.port(), "/health").status, 200);
    EXPECT_EQ(says(), before);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LE(resident_mib(), resident + 16);
#endif
}

// Streams that nobody reads keep their own threads, and no other connection's.
TEST_F(Endpoints, AnswerBesideManyStreams) {
    const Serving serving;
    const Json body = {{"prompt", "the sky"}, {"max_tokens", 1900}, {"ignore_eos", true}, {"stream", true}};
    std::vector<std::unique_ptr<Connection>> streams;
    for (int i = 0; i < 24; ++i) {
        streams.push_back(std::make_unique<Connection>(serving.port()));
        ASSERT_TRUE(streams.back()->send(request_text("POST", "/v1/completions", body.dump())));
    }
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(get(serving.port(), "/health").status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
}

TEST_F(Endpoints, SayWhenTheLineIsFull) {
    ServingOptions options;
    options.generator.engine.max_sequences = 1;
    options.generator.most_waiting = 1;
    Serving serving(options);
    const Json body = {{"prompt", "the sky"}, {"max_tokens", 1900}, {"ignore_eos", true}, {"stream", true}};
    for (int attempt = 0; attempt < 20; ++attempt) {
        // Those of the attempt before are still given up.
        ASSERT_TRUE(
            comes_true([&] { return serving.generator().state().n_running + serving.generator().state().n_waiting == 0; }));
        Connection runs(serving.port());
        ASSERT_TRUE(runs.send(request_text("POST", "/v1/completions", body.dump())));
        ASSERT_NE(runs.read_until("data: ").find("data: "), std::string::npos);
        Connection waits(serving.port());
        ASSERT_TRUE(waits.send(request_text("POST", "/v1/completions", body.dump())));
        if (!comes_true([&] { return serving.generator().state().n_waiting == 1; }, 2)) { continue; }
        const HttpAnswer refused = serving.text({{"prompt", "the sky"}, {"max_tokens", 2}});
        // Nothing is made for it before that is known: a grammar may be large.
        const HttpAnswer with_grammar = serving.text({{"prompt", "the sky"}, {"max_tokens", 2}, {"grammar", "no grammar"}});
        if (serving.generator().state().n_waiting != 1) { continue; }  // a busy machine: the first one has ended meanwhile
        EXPECT_EQ(refused.status, 429);
        EXPECT_EQ(refused.json()["error"]["type"], "rate_limit_error");
        EXPECT_NE(refused.headers.find("Retry-After: "), std::string::npos);
        EXPECT_EQ(with_grammar.status, 429);
        return;
    }
    FAIL() << "the line was never full for long enough";
}

// Help, type and samples of every metric, in this order, each once; histograms grow to their count.
std::map<std::string, double> check_exposition(const std::string & text) {
    const std::regex sample("([a-z_:][a-z0-9_:]*)(\\{[a-z]+=\"([^\"\\\\]|\\\\.)*\"\\})? (-?[0-9][0-9.e+-]*)");
    std::map<std::string, double> values;
    std::map<std::string, std::string> types;
    std::string help;
    double before = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string hash;
        std::string word;
        std::string name;
        std::string type;
        words >> hash >> word >> name >> type;
        if (word == "HELP") {
            EXPECT_FALSE(types.contains(name)) << name << " comes twice";
            help = name;
            before = 0;
            continue;
        }
        if (word == "TYPE") {
            EXPECT_EQ(name, help);
            EXPECT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << type;
            const bool total = name.ends_with("_total");
            if (name.starts_with("pith_")) { EXPECT_EQ(total, type == "counter") << name; }
            types[name] = type;
            continue;
        }
        std::smatch parts;
        if (!std::regex_match(line, parts, sample)) {
            ADD_FAILURE() << "no sample: " << line;
            continue;
        }
        const double value = std::stod(parts[4].str());
        EXPECT_TRUE(values.emplace(parts[1].str() + parts[2].str(), value).second) << line << " comes twice";
        EXPECT_TRUE(parts[1].str().starts_with(help)) << line << " behind the help of " << help;
        if (parts[1].str() == help + "_bucket") {
            EXPECT_GE(value, before) << line;
            before = value;
        }
        if (types[help] == "histogram" && parts[1].str() == help + "_count") {
            EXPECT_EQ(value, values[help + "_bucket{le=\"+Inf\"}"]) << line;
        }
    }
    return values;
}

TEST_F(Endpoints, TellMetrics) {
    const Serving serving;
    const HttpAnswer first = get(serving.port(), "/metrics");
    EXPECT_NE(first.headers.find("text/plain; version=0.0.4"), std::string::npos);
    auto before = check_exposition(first.body);
    EXPECT_EQ(before["llamacpp:tokens_predicted_total"], 0);
    std::string text;
    for (int i = 0; i < 80; ++i) { text += "The sky is blue. The grass is green. "; }
    const Json json =
        serving.text({{"prompt", text}, {"max_tokens", 5}, {"ignore_eos", true}, {"kv_policy", "snapkv"}, {"kv_budget", 128}})
            .json();
    const std::string body = get(serving.port(), "/metrics").body;
    auto after = check_exposition(body);
    EXPECT_EQ(after["llamacpp:tokens_predicted_total"], 5);
    EXPECT_EQ(after["llamacpp:prompt_tokens_total"], json["usage"]["prompt_tokens"].get<double>());
    EXPECT_EQ(after["pith_evicted_entries_total{policy=\"snapkv\"}"], json["usage"]["kv_evicted_entries"].get<double>());
    EXPECT_EQ(after["pith_time_to_first_token_seconds_count"], 1);
    EXPECT_EQ(after["pith_inter_token_latency_seconds_count"], 4);
    EXPECT_EQ(after["pith_e2e_request_latency_seconds_count"], 1);
    EXPECT_EQ(after["llamacpp:requests_processing"], 0);
    EXPECT_EQ(after["pith_kv_bytes{state=\"held\"}"], 0);
    EXPECT_GT(after["pith_kv_peak_bytes"], 0);
    for (const auto & [name, value] : before) { EXPECT_TRUE(after.contains(name)) << name; }
}

TEST_F(Endpoints, KeepAllCachesUnderTheCeiling) {
    ServingOptions options;
    const auto ceiling = size_t{1} << 20;
    options.generator.engine.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(ceiling));
    Serving serving(options);
    std::atomic<bool> done{false};
    std::atomic<size_t> most{0};
    std::thread watch([&] {
        while (!done) {
            most = std::max(most.load(), serving.generator().state().engine.kv_allocated_bytes);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    std::string text;
    for (int i = 0; i < 100; ++i) { text += "The sky is blue. The grass is green. "; }
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
        clients.emplace_back([&] {
            // More than the ceiling without eviction: a part of it is kept.
            const HttpAnswer answer = serving.text({{"prompt", text}, {"max_tokens", 8}, {"temperature", 0}});
            EXPECT_EQ(answer.status, 200) << answer.body;
            EXPECT_NE(answer.json()["timings"]["kv_budget_entries"], 0);
        });
    }
    for (std::thread & client : clients) { client.join(); }
    done = true;
    watch.join();
    EXPECT_GT(most.load(), 0U);
    EXPECT_LE(most.load(), ceiling);
    EXPECT_LE(serving.generator().state().engine.kv_peak_bytes, ceiling);
    // What a request insists on must fit.
    const HttpAnswer refused = serving.text({{"prompt", text}, {"kv_policy", "full"}});
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("ceiling"), std::string::npos);
}

// A prompt beside which a long answer fits keeps everything, however long the answer might be: clients name the most they can
// take, or nothing, and say little.
TEST_F(Endpoints, EvictNothingForTheSakeOfWhatAnAnswerMightSay) {
    ServingOptions options;
    options.api.n_context = 4096;
    options.generator.engine.ceiling = Budget(BudgetKind::kBytes, 6.0 * (1U << 20U));  // of 8 MiB for all of the context
    Serving serving(options);
    for (const Json & more : {Json::object(), Json{{"max_tokens", 4000}}, Json{{"kv_policy", "full"}}}) {
        Json body = {{"prompt", "The sky is blue."}, {"temperature", 0}, {"stop", {" "}}};
        body.update(more);
        const HttpAnswer answer = serving.text(body);
        EXPECT_EQ(answer.status, 200) << answer.body;
        EXPECT_EQ(answer.json()["timings"]["kv_budget_entries"], 0) << answer.body;
    }
    // Where it would be cut too short, something is evicted instead.
    std::string text;
    for (int i = 0; i < 200; ++i) { text += "The sky is blue. The grass is green. "; }
    const HttpAnswer longer = serving.text({{"prompt", text}, {"temperature", 0}, {"max_tokens", 2000}, {"stop", {" "}}});
    EXPECT_EQ(longer.status, 200) << longer.body;
    EXPECT_GT(longer.json()["timings"]["kv_budget_entries"], 0) << longer.body;
}

}  // namespace
}  // namespace pith::testing::endpoints_test
