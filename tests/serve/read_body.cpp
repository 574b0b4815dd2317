// read_body.cpp - what must hold of any bytes.
#include "serve/read_body.h"

#include <cstdint>

#include "serve/answer_parser.h"
#include "serve/shapes/completion_request.h"
#include "serve/shapes/messages_request.h"
#include "serve/shapes/responses_request.h"
#include "text/tool_grammar.h"

namespace pith::testing {
namespace {

std::string fault_of_status(const Status & status) {
    if (status.ok()) { return {}; }
    if (status.message().empty()) { return "an error without a message"; }
    if (status.message().find('\n') != std::string::npos) { return "an error of several lines"; }
    const bool is_clients = status.code() == ErrorCode::kInvalidArgument || status.code() == ErrorCode::kUnsupported;
    return is_clients ? "" : "an error that blames the server: " + status.message();
}

// A grammar that Pith wrote is read, but for one that is too large: a schema may repeat too much.
std::string fault_of_grammar(const Tokenizer & tokenizer, const std::string & grammar) {
    SamplerOptions options;
    options.grammar = grammar;
    const Status status = Sampler::make(options, &tokenizer).status();
    const bool too_large =
        status.message().find("at most") != std::string::npos || status.message().find("repeat less") != std::string::npos;
    return status.ok() || too_large ? "" : "a grammar that cannot be read: " + status.message();
}

// A client's own may be anything. Some tokens are said under it, of which each is likeliest by a number that comes of the text.
std::string fault_of_clients_grammar(const Tokenizer & tokenizer, std::string_view grammar) {
    constexpr int kTokens = 6;
    if (grammar.empty()) { return {}; }
    SamplerOptions options;
    options.grammar = grammar;
    options.temperature = 0;
    auto sampler = Sampler::make(options, &tokenizer);
    if (!sampler.ok()) { return fault_of_status(sampler.status()); }
    auto random = static_cast<uint32_t>(grammar.size());
    std::vector<float> logits(static_cast<size_t>(tokenizer.n_vocab()));
    for (int i = 0; i < kTokens; ++i) {
        for (float & logit : logits) {
            random = random * 1664525U + 1013904223U;
            logit = static_cast<float>(random >> 8U);
        }
        const auto token = sampler->sample(logits);
        if (!token.ok()) { return fault_of_status(token.status()); }
        if (tokenizer.is_end_of_generation(*token)) { break; }
    }
    return {};
}

std::string fault_of_chat(const Tokenizer & tokenizer, const Result<serve::ChatRequest> & asked) {
    if (!asked.ok()) { return fault_of_status(asked.status()); }
    std::string fault = fault_of_clients_grammar(tokenizer, asked->options.sampler.grammar);
    if (!fault.empty()) { return fault; }
    const auto text = with_tools_as_text(asked->messages, asked->tools.json);
    if (!text.ok()) { return fault_of_status(text.status()); }
    if (!asked->tools.must_call) { return {}; }
    for (const ToolForm form : {ToolForm::kTagged, ToolForm::kPairs, ToolForm::kParameters}) {
        const auto grammar = tool_grammar(form, asked->tools.functions, asked->tools.only_one, {});
        fault = grammar.ok() ? fault_of_grammar(tokenizer, *grammar) : fault_of_status(grammar.status());
        if (!fault.empty()) { return fault; }
    }
    return {};
}

// The pieces of an answer, put together; one line for each call.
std::string told(const serve::AnswerForm & form, std::string_view text, size_t n_bytes) {
    serve::AnswerParser parser(form);
    std::string said;
    std::string thought;
    std::string calls;
    const auto add = [&](const serve::AnswerPiece & piece) {
        said += piece.text;
        thought += piece.reasoning;
        for (const ToolCallPiece & call : piece.calls) {
            if (!call.name.empty()) { calls += "\n" + call.name + " "; }
            calls += call.arguments;
        }
    };
    for (size_t at = 0; at < text.size(); at += n_bytes) { add(parser.add(text.substr(at, n_bytes))); }
    add(parser.finish());
    return thought + "\n" + said + calls;
}

}  // namespace

const std::vector<std::string> & body_examples() {
    static const std::vector<std::string> examples = {
        R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant",)"
        R"("tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","content":"dry"}],)"
        R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}],)"
        R"("tool_choice":"required","max_tokens":5,"temperature":0.5,"stop":["a","b"],"logit_bias":{"5":-100},"kv_pin":["system",[0,3]]})",
        R"({"system":[{"type":"text","text":"y"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"z"},)"
        R"({"type":"text","text":"x"}]}],"max_tokens":5,"tools":[{"name":"f","input_schema":{"$ref":"#"}}],"tool_choice":{"type":"any"}})",
        R"({"instructions":"Be brief.","input":[{"role":"developer","content":"y"},{"type":"reasoning","summary":[],"content":[{"type":)"
        R"("reasoning_text","text":"hm"}]},{"type":"function_call","call_id":"a","name":"f","arguments":"{\"a\": 1}"},)"
        R"({"type":"custom_tool_call_output","call_id":"a","output":[{"type":"input_text","text":"z"}]}],"tools":[{"type":"custom","name":"g",)"
        R"("format":{"type":"grammar","syntax":"lark","definition":"s: x"}},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}],)"
        R"("tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"g"}]},"text":{"format":{"type":"json_object"}}})",
        R"({"prompt":["a",[5,6]],"n":2,"response_format":{"type":"json_schema","json_schema":{"schema":{"anyOf":[{"type":"string"}]}}}})",
        R"({"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"},"maxItems":3},"b":{"enum":[1,"x",null]}},"required":["a"]})",
        R"(So.<tool_call>{"name": "f", "arguments": {"a": "}\"{"}}</tool_call>[TOOL_CALLS][{"name": "weather", "arguments": {}}])"
        R"(```tool_code\n{"name": "f"}\n```)",
        R"({"name": "f", "parameters": {"a": [1, {"b": 2}]}}; <|python_tag|>{"name": "weather"})",
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Elm</arg_value>\n</tool_call>\n<tool_call>\n<function=f>\n"
        "<parameter=a>\n{\"b\": 1}\n</parameter>\n</function>\n</tool_call>",
        "So:\n```json\n{{\"name\": \"f\", \"arguments\": {\"a\": 1}}}\n```\n<tools>[{\"type\": \"function\", \"function\": "
        "{\"name\": "
        "\"weather\", \"parameters\": "
        "\"{}\"}}]</tools>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        R"({"prompt":"a","grammar":"root ::= s{2,3}\ns ::= \"a\" s \"b\" | [^x-z]? | ( . \"c\" )* # d","dry_sequence_breakers":["e"]})",
        "root ::= (item \",\"? )* \"x\"{2,} # all\nitem ::= [a-z\\x41]+ | \"\\u00e9\" | (.{0,3} item)? \"(\"\n",
        "root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= \"(\" expr \")\" | [0-9]+ | <[70]> | !<[71]> | \"a\"? \"a\"? "
        "\"a\"?",
        "root ::= a b\na ::= \"x\" a \"y\" | \"x\" a \"z\" | \"\"\nb ::= ((([^\"\\\\]*)?)+){0,9}",
        R"(<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|><|start|>assistant<|channel|>commentary<|message|>x)",
    };
    return examples;
}

std::string read_body_fault(const Tokenizer & tokenizer, std::string_view bytes) {
    for (const ToolForm tools : {ToolForm::kTagged, ToolForm::kPairs, ToolForm::kParameters, ToolForm::kList, ToolForm::kNamed,
                                 ToolForm::kBare, ToolForm::kHarmony, ToolForm::kFenced}) {
        serve::AnswerForm form;
        form.tools = tools;
        form.functions = {"f", "weather"};
        if (told(form, bytes, 1) != told(form, bytes, bytes.size() + 1)) {
            return "form " + std::to_string(static_cast<int>(tools)) + ": an answer's parts depend on how it was cut";
        }
    }
    std::string of_grammar = fault_of_clients_grammar(tokenizer, bytes);
    if (!of_grammar.empty()) { return of_grammar; }
    const auto read = serve::parse_body(bytes);
    if (!read.ok()) { return fault_of_status(read.status()); }
    const serve::Json & body = read->json();
    const serve::CompletionOptions defaults;
    const auto text = serve::parse_text_request(body, defaults, tokenizer);
    const auto responses = serve::parse_responses_request(body, defaults, tokenizer);
    std::vector<std::string> faults = {
        fault_of_chat(tokenizer, serve::parse_chat_request(body, defaults, tokenizer)),
        fault_of_chat(tokenizer, serve::parse_messages_request(body, defaults, tokenizer)),
        fault_of_chat(tokenizer, serve::parse_count_request(body, tokenizer)),
        fault_of_chat(tokenizer, serve::parse_conversation(body)),
        fault_of_chat(tokenizer, responses.ok() ? responses->chat : Result<serve::ChatRequest>(responses.status())),
        text.ok() ? fault_of_clients_grammar(tokenizer, text->options.sampler.grammar) : fault_of_status(text.status()),
    };
    const auto grammar = grammar_of_json_schema(bytes);
    faults.push_back(grammar.ok() ? fault_of_grammar(tokenizer, *grammar) : fault_of_status(grammar.status()));
    for (const std::string & fault : faults) {
        if (!fault.empty()) { return fault; }
    }
    return {};
}

}  // namespace pith::testing
