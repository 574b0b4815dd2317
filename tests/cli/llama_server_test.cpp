// llama_server_test.cpp - the same requests to `pith serve` and to llama.cpp's own server on the same file: the same codes, and
// in every object and chunk the same keys of the same types. What differs on purpose is named below, with the reason. Skipped
// where llama-server is not installed.
#include <map>
#include <set>

#include "cli/serve_process.h"
#include "common/bench/find_llama_bench.h"

namespace pith::testing::llama_server_test {
namespace {

const std::string kModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";

// Path of a value → its types.
using Shape = std::map<std::string, std::set<std::string>>;

void add_shape(const Json & value, const std::string & path, Shape & shape) {
    shape[path].insert(value.is_number() ? "number" : value.type_name());
    if (value.is_object()) {
        for (const auto & [key, inner] : value.items()) { add_shape(inner, path + "." + key, shape); }
    } else if (value.is_array()) {
        for (const Json & inner : value) { add_shape(inner, path + "[]", shape); }
    }
}

// Which chunk of a stream it is. The end of one of several answers is no stream's end, but has the same keys.
std::string kind_of(const Json & event, bool is_first) {
    if (!event.is_object()) { return "end"; }  // "[DONE]"
    if (event.contains("error")) { return "error"; }
    if (event.value("choices", Json::array()).empty()) { return "usage"; }
    const Json & choice = event["choices"][0];
    if (choice.contains("finish_reason") && !choice["finish_reason"].is_null()) { return "last"; }
    return is_first ? "first" : "middle";
}

Shape shape_of(const HttpAnswer & answer) {
    Shape shape;
    if (answer.headers.find("text/event-stream") == std::string::npos) {
        add_shape(answer.json(), "", shape);
        return shape;
    }
    bool is_first = true;
    for (const Json & event : answer.events()) {
        if (event.is_null()) { continue; }  // theirs sends a null among several prompts' answers
        add_shape(event, kind_of(event, is_first), shape);
        is_first = false;
    }
    return shape;
}

// An answer may say nothing between its first chunk and its last, as its tokens have it: then there is nothing to compare.
bool says_nothing(const Shape & shape, const std::string & path) {
    const std::string kind = path.substr(0, path.find_first_of(".["));
    return (kind == "first" || kind == "middle") && !shape.contains(kind);
}

// What only one of them tells.
bool differs_on_purpose(const std::string & path) {
    static const std::vector<std::string> kOurs = {
        ".error.param",  // the field that is wrong, as OpenAI has it
        ".usage.kv_", ".timings.kv_",
        ".timings.queue_ms",  // what the cache holds, and how long a request waited
        ".kv_ceiling_bytes", ".params.kv_",
        // OpenAI's lists, of texts.
        ".logprobs.tokens", ".logprobs.token_logprobs", ".logprobs.top_logprobs", ".logprobs.text_offset",
        // What Anthropic's clients read of a model, and of a list.
        ".data[].type", ".data[].display_name", ".data[].created_at", ".data[].max_", ".has_more", ".first_id", ".last_id"};
    static const std::vector<std::string> kTheirs = {".meta.vocab_type",     // an enumeration of llama.cpp's
                                                     ".chat_template_caps",  // of its own template engine
                                                     ".cors_proxy_enabled", ".is_sleeping", ".media_marker", ".ui",
                                                     ".ui_settings",  // what Pith's server does not have
                                                     ".params.adaptive_", ".params.backend_sampling", ".params.chat_format",
                                                     ".params.generation_prompt", ".params.lora", ".params.min_keep",
                                                     ".params.n_discard", ".params.n_keep", ".params.post_sampling_probs",
                                                     ".params.reasoning_", ".params.samplers", ".params.speculative",
                                                     // Of a slot that is free: what its last answer was asked for and
                                                     // took, which is another client's business.
                                                     "[].id_task", "[].n_prompt_tokens", "[].next_token", "[].params"};
    for (const auto * list : {&kOurs, &kTheirs}) {
        for (const std::string & name : *list) {
            if (path.find(name) != std::string::npos) { return true; }
        }
    }
    return false;
}

struct Case {
    std::string method, path;
    Json body;
    std::string raw = {};     // instead of the body
    std::string except = {};  // a path of this request that differs
    int code_of_theirs = 0;   // where the codes differ
};

std::vector<Case> cases() {
    const Json chat = {{"messages", {{{"role", "user"}, {"content", "the sky"}}}}, {"max_tokens", 3}, {"temperature", 0}};
    const Json text = {{"prompt", "the sky"}, {"max_tokens", 3}, {"temperature", 0}};
    std::vector<Case> all;
    const auto add = [&](const Json & base, const Json & more, const std::string & except = "") {
        Json body = base;
        body.update(more);
        for (const bool stream : {false, true}) {
            body["stream"] = stream;
            all.push_back({"POST", body.contains("messages") ? "/v1/chat/completions" : "/v1/completions", body, "", except});
        }
    };
    for (const Json & more : std::vector<Json>{Json::object(),
                                               {{"seed", 7}, {"temperature", 1}},
                                               {{"n", 2}},
                                               {{"logit_bias", {{"5", 1}}}},
                                               {{"logit_bias", {{5, 1.5}, {"sky", false}}}},
                                               {{"presence_penalty", 1}, {"frequency_penalty", 0.5}},
                                               {{"top_k", 3}, {"top_p", 0.5}, {"min_p", 0.1}},
                                               {{"mirostat", 2}},
                                               {{"max_tokens", 1}},
                                               {{"max_completion_tokens", 2}},
                                               {{"ignore_eos", true}},
                                               {{"timings_per_token", true}},
                                               {{"user", "me"}, {"model", "any"}},
                                               {{"grammar", "root ::= \"yes\" | \"no\""}},
                                               {{"json_schema", {{"type", "integer"}}}},
                                               {{"stream_options", {{"include_usage", true}}}},
                                               {{"dry_multiplier", 0.5}},
                                               {{"xtc_probability", 0.5}, {"temperature", 1}}}) {
        add(chat, more);
        // Theirs adds no chunk for the usage of texts.
        add(text, more, more.contains("stream_options") ? "usage" : "");
    }
    for (const Json & base : {chat, text}) {
        // Theirs tells timings with the text in front of a stop text, too.
        add(base, {{"stop", "the"}}, "middle.timings");
        add(base, {{"stop", {"a", "b"}}}, "middle.timings");
    }
    add(chat, {{"logprobs", true}, {"top_logprobs", 2}});
    // Theirs tells the likeliest token where nobody asked for any.
    add(chat, {{"logprobs", true}}, ".top_logprobs[]");
    add(text, {{"logprobs", 2}});
    // Theirs streams nothing of an object that its tokens do not end.
    add(chat, {{"response_format", {{"type", "json_object"}}}}, ".delta.content");
    const Json tools =
        Json::array({{{"type", "function"},
                      {"function",
                       {{"name", "f"},
                        {"description", "says it"},
                        {"parameters", {{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}}}}}}});
    add(chat, {{"tools", tools}});
    add(chat, {{"tools", tools}, {"tool_choice", "none"}});
    add(chat, {{"messages",
                {{{"role", "user"}, {"content", "x"}},
                 {{"role", "assistant"},
                  {"content", nullptr},
                  {"tool_calls", {{{"id", "a"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}}}}},
                 {{"role", "tool"}, {"tool_call_id", "a"}, {"content", "y"}}}}});
    add(text, {{"prompt", {"a", "b"}}});
    add(text, {{"prompt", {5, 6, 7}}});
    add(text, {{"prompt", Json::array({Json::array({5, 6}), "b"})}});
    const auto plain = [&](const std::string & method, const std::string & path, const Json & body = Json()) {
        all.push_back({method, path, body});
    };
    for (const char * path : {"/health", "/v1/health", "/v1/models", "/models", "/props", "/slots", "/nothing"}) {
        plain("GET", path);
    }
    // Answers that have been begun.
    const Json begun = {{{"role", "user"}, {"content", "the sky"}}, {{"role", "assistant"}, {"content", "It is"}}};
    add(chat, {{"messages", begun}});
    plain("POST", "/apply-template", {{"messages", begun}});
    plain("POST", "/v1/chat/completions",
          {{"messages", {begun[0], begun[1], begun[1]}}, {"max_tokens", 3}, {"temperature", 0}});
    plain("POST", "/tokenize", {{"content", "the"}});
    plain("POST", "/tokenize", {{"content", "the"}, {"with_pieces", true}});
    plain("POST", "/tokenize", Json::object());
    plain("POST", "/detokenize", {{"tokens", {5, 6}}});
    plain("POST", "/detokenize", Json::object());
    plain("POST", "/detokenize", {{"tokens", "x"}});
    plain("POST", "/apply-template", {{"messages", chat["messages"]}});
    plain("POST", "/apply-template", Json::object());
    // Clients try anything from 500 on again.
    Case embeddings = {"POST", "/v1/embeddings", {{"input", "x"}}};
    embeddings.code_of_theirs = 501;
    all.push_back(embeddings);
    plain("POST", "/v1/completions", Json::object());
    plain("POST", "/v1/completions", {{"prompt", "x"}, {"temperature", "x"}});
    plain("POST", "/v1/completions", {{"prompt", "x"}, {"n", 0}});
    plain("POST", "/v1/completions", {{"prompt", "x"}, {"max_tokens", -5}});
    plain("POST", "/v1/chat/completions", Json::object());
    plain("POST", "/v1/chat/completions", {{"messages", "x"}});
    plain("POST", "/v1/chat/completions", {{"messages", {{{"role", "user"}}}}});
    plain("POST", "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", 5}}}}});
    std::string many;
    for (int i = 0; i < 3000; ++i) { many += "the and "; }
    plain("POST", "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", many}}}}});
    for (const Json & more :
         std::vector<Json>{{{"top_logprobs", 2}}, {{"grammar", "x x"}}, {{"response_format", {{"type", "x"}}}}}) {
        Json body = chat;
        body.update(more);
        plain("POST", "/v1/chat/completions", body);
    }
    all.push_back({"POST", "/v1/chat/completions", Json(), "{bad"});
    all.push_back({"POST", "/v1/chat/completions", Json(), ""});
    // A message without a role is the client's mistake: 400, where theirs has 500.
    Case no_role = {"POST", "/v1/chat/completions", {{"messages", {{{"content", "x"}}}}}};
    no_role.code_of_theirs = 500;
    all.push_back(no_role);
    return all;
}

// The prompt that a template writes, and where an answer goes on that its client has begun.
void expect_same_prompts(int their_port, int our_port) {
    const Json user = {{"role", "user"}, {"content", "the sky"}};
    const Json begun = {{"role", "assistant"}, {"content", " It is"}};
    const Json system = {{"role", "system"}, {"content", "Be brief."}};
    for (const Json & messages : {Json::array({user}), Json::array({user, begun}), Json::array({system, user, begun}),
                                  Json::array({user, begun, user})}) {
        const Json body = {{"messages", messages}};
        EXPECT_EQ(post(our_port, "/apply-template", body).json()["prompt"],
                  post(their_port, "/apply-template", body).json()["prompt"])
            << body;
    }
}

TEST(LlamaServer, HasTheSameCodesKeysAndTypes) {
    const LlamaBench llama = app::find_llama_program("llama-server");
    if (llama.command.empty() || !std::ifstream(kModel)) { GTEST_SKIP() << "no llama-server, or no reference model"; }
    const int their_port = free_port();
    std::vector<std::string> words = llama.command;
    for (const char * word : {"-c", "2048", "-np", "2", "-t", "1", "--port"}) { words.emplace_back(word); }
    words.insert(words.end(), {std::to_string(their_port), "-m", kModel});
    ServeProcess theirs(words, llama.working_folder, /*prints_line=*/false);
    const ServeProcess ours(serve_command({"-m", kModel, "-c", "1024"}));
    ASSERT_TRUE(theirs.is_well_at(their_port));
    ASSERT_EQ(get(ours.port(), "/health").status, 200);
    expect_same_prompts(their_port, ours.port());
    size_t n = 0;
    for (const Case & one : cases()) {
        const std::string body = one.body.is_null() ? one.raw : one.body.dump();
        SCOPED_TRACE(one.method + " " + one.path + " " + body.substr(0, 300));
        const HttpAnswer their = ask(their_port, one.method, one.path, body);
        const HttpAnswer our = ask(ours.port(), one.method, one.path, body);
        EXPECT_EQ(one.code_of_theirs != 0 ? one.code_of_theirs : our.status, their.status) << their.body << "\n" << our.body;
        const Shape a = shape_of(their);
        const Shape b = shape_of(our);
        std::set<std::string> paths;
        for (const Shape * shape : {&a, &b}) {
            for (const auto & [path, types] : *shape) { paths.insert(path); }
        }
        for (const std::string & path : paths) {
            if (differs_on_purpose(path) || (!one.except.empty() && path.find(one.except) != std::string::npos)) { continue; }
            if (says_nothing(a, path) || says_nothing(b, path)) { continue; }
            const auto types_in = [&](const Shape & shape) {
                std::string text;
                const auto found = shape.find(path);
                if (found == shape.end()) { return std::string("missing"); }
                for (const std::string & type : found->second) { text += type + " "; }
                return text;
            };
            EXPECT_EQ(types_in(a), types_in(b)) << path << ": theirs, ours";
        }
        ++n;
    }
    EXPECT_GE(n, 100U);
}

}  // namespace
}  // namespace pith::testing::llama_server_test
