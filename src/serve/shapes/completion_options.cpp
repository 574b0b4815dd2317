// completion_options.cpp - samplers, limits, formats, the cache. Stage: serve.
#include "serve/shapes/completion_options.h"

#include <algorithm>
#include <limits>

#include "core/parse_integer.h"
#include "core/parse_tolerance.h"
#include "core/text.h"
#include "pith/session.h"

namespace pith::serve {
namespace {

constexpr int64_t kMostInt = std::numeric_limits<int32_t>::max();
constexpr size_t kMostTexts = 64;
constexpr size_t kMostTextBytes = 4096;
constexpr size_t kMostPins = 1024;

struct NumberField {
    std::string_view name;
    float SamplerOptions::*value;
};
constexpr NumberField kNumbers[] = {
    {"temperature", &SamplerOptions::temperature},
    {"dynatemp_range", &SamplerOptions::dynatemp_range},
    {"dynatemp_exponent", &SamplerOptions::dynatemp_exponent},
    {"top_p", &SamplerOptions::top_p},
    {"min_p", &SamplerOptions::min_p},
    {"typical_p", &SamplerOptions::typical_p},
    {"typical", &SamplerOptions::typical_p},
    {"typ_p", &SamplerOptions::typical_p},
    {"top_n_sigma", &SamplerOptions::top_n_sigma},
    {"xtc_probability", &SamplerOptions::xtc_probability},
    {"xtc_threshold", &SamplerOptions::xtc_threshold},
    {"repetition_penalty", &SamplerOptions::repeat_penalty},  // as vLLM names it
    {"repeat_penalty", &SamplerOptions::repeat_penalty},
    {"presence_penalty", &SamplerOptions::presence_penalty},
    {"frequency_penalty", &SamplerOptions::frequency_penalty},
    {"dry_multiplier", &SamplerOptions::dry_multiplier},
    {"dry_base", &SamplerOptions::dry_base},
    {"mirostat_tau", &SamplerOptions::mirostat_tau},
    {"mirostat_eta", &SamplerOptions::mirostat_eta},
};

struct WholeNumberField {
    std::string_view name;
    int SamplerOptions::*value;
    int64_t low;
    int64_t high;
};
constexpr WholeNumberField kWholeNumbers[] = {
    {"top_k", &SamplerOptions::top_k, -1, kMostInt},
    {"repeat_last_n", &SamplerOptions::repeat_last_n, -1, kMostInt},
    {"dry_allowed_length", &SamplerOptions::dry_allowed_length, 0, kMostInt},
    {"dry_penalty_last_n", &SamplerOptions::dry_last_n, -1, kMostInt},
    {"mirostat", &SamplerOptions::mirostat, 0, 2},
};

// -1 is a random one, and no other is. Those of more than 32 bits are mixed into these.
uint32_t sampler_seed(int64_t seed) {
    const uint32_t random = SamplerOptions().seed;
    if (seed == -1) { return random; }
    const auto bits = static_cast<uint64_t>(seed);
    const uint32_t mixed = static_cast<uint32_t>(bits) ^ (static_cast<uint32_t>(bits >> 32U) * 0x9E3779B1U);
    return mixed != random ? mixed : random - 1;
}

Status read_sampler(Fields & fields, SamplerOptions & s) {
    for (const auto & [name, value] : kNumbers) { PITH_RETURN_IF_ERROR(fields.read(name, s.*value)); }
    for (const auto & [name, value, low, high] : kWholeNumbers) {
        PITH_RETURN_IF_ERROR(fields.read(name, s.*value, low, high));
    }
    PITH_RETURN_IF_ERROR(fields.read("dry_sequence_breakers", s.dry_breakers));
    PITH_RETURN_IF_ERROR(check_texts("dry_sequence_breakers", s.dry_breakers));
    int64_t seed = -1;
    PITH_RETURN_IF_ERROR(fields.read("seed", seed, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
    if (fields.has("seed")) { s.seed = sampler_seed(seed); }
    const Json * samplers = fields.find("samplers");
    if (samplers != nullptr) {
        return {
            ErrorCode::kUnsupported,
            field("samplers") + " is not supported: they have one order, llama.cpp's default; switch one off by its own field"};
    }
    return {};
}

// A token's number, or a text: all its tokens. is_text: digits are a text, too.
Status add_bias(const std::string & key, const Json & value, bool is_text, const Tokenizer & tokenizer, SamplerOptions & s) {
    float bias = 0;
    if (value.is_number()) {
        bias = value.get<float>();
    } else if (value == false) {
        bias = -std::numeric_limits<float>::infinity();  // never
    } else {
        return wrong_field("logit_bias", value, "numbers (false: never)");
    }
    int32_t token = 0;
    if (!is_text && parse_integer(key, token)) {
        if (token < 0 || token >= tokenizer.n_vocab()) {
            return wrong(field("logit_bias") + " has token " + key + ": the vocabulary has 0 to " +
                         std::to_string(tokenizer.n_vocab() - 1));
        }
        s.logit_bias.emplace_back(token, bias);
        return {};
    }
    PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer.encode(key, false, false));
    for (const int32_t one : tokens) { s.logit_bias.emplace_back(one, bias); }
    return {};
}

// {"5": -100} as OpenAI has it, [[5, -100], ["text", false]] as llama-server has it, too.
Status read_bias(Fields & fields, const Tokenizer & tokenizer, SamplerOptions & s) {
    const Json * bias = fields.find("logit_bias");
    if (bias == nullptr) { return {}; }
    if (bias->is_object()) {
        for (const auto & [key, value] : bias->items()) { PITH_RETURN_IF_ERROR(add_bias(key, value, false, tokenizer, s)); }
        return {};
    }
    const std::string wanted = "an object of tokens and numbers";
    if (!bias->is_array()) { return wrong_field("logit_bias", *bias, wanted); }
    for (const Json & pair : *bias) {
        if (!pair.is_array() || pair.size() != 2 || !(pair[0].is_string() || pair[0].is_number_integer())) {
            return wrong_field("logit_bias", pair, wanted);
        }
        const std::string key = pair[0].is_string() ? pair[0].get<std::string>() : std::to_string(pair[0].get<int64_t>());
        PITH_RETURN_IF_ERROR(add_bias(key, pair[1], pair[0].is_string(), tokenizer, s));
    }
    return {};
}

// Each is added to every choice of a token. (A text may be many tokens.)
Status check_biases(const SamplerOptions & s, const Tokenizer & tokenizer) {
    if (std::ssize(s.logit_bias) <= tokenizer.n_vocab()) { return {}; }
    return wrong(field("logit_bias") + " has " + std::to_string(s.logit_bias.size()) + " tokens: the vocabulary has " +
                 std::to_string(tokenizer.n_vocab()));
}

// One form at most: a grammar, a schema, or a response_format.
Status read_format(Fields & fields, CompletionOptions & options) {
    int n_given = 0;
    std::string grammar;
    PITH_RETURN_IF_ERROR(fields.read("grammar", grammar));
    if (!grammar.empty()) {
        options.sampler.grammar = grammar;
        options.has_format = false;
        ++n_given;
    }
    const auto take_schema = [&](const Json & schema, const std::string & name) -> Status {
        ++n_given;
        return follow_schema(schema, name, options);
    };
    if (const Json * schema = fields.find("json_schema")) { PITH_RETURN_IF_ERROR(take_schema(*schema, "json_schema")); }
    const Json * format = fields.find("response_format");
    if (format != nullptr) {
        if (!format->is_object()) { return wrong_field("response_format", *format, "an object with a type"); }
        const std::string type = format->value("type", Json()).is_string() ? (*format)["type"].get<std::string>() : "";
        if (type == "json_object") {
            const auto schema = format->find("schema");
            PITH_RETURN_IF_ERROR(take_schema(schema == format->end() ? Json{{"type", "object"}} : *schema, "response_format"));
        } else if (type == "json_schema") {
            const auto inner = format->find("json_schema");
            const bool has = inner != format->end() && inner->is_object() && inner->contains("schema");
            if (!has) { return wrong(field("response_format") + " has no json_schema.schema"); }
            PITH_RETURN_IF_ERROR(take_schema((*inner)["schema"], "response_format"));
        } else if (type != "text") {
            return wrong_field("response_format", *format, "a type of text, json_object or json_schema");
        }
    }
    if (n_given > 1) {
        return wrong(field("grammar") + ", 'json_schema' and 'response_format': give one of them, an answer has one form");
    }
    return {};
}

Status read_pins(Fields & fields, CompletionOptions & options) {
    const Json * pins = fields.find("kv_pin");
    if (pins == nullptr) { pins = fields.find("pin"); }
    if (pins == nullptr) { return {}; }
    const std::string wanted = "\"system\", or a list of \"system\" and of [begin, end) in tokens; an empty one pins nothing";
    options.pin_system = PinSystem::kNo;
    const Json list = pins->is_array() ? *pins : Json::array({*pins});
    if (list.size() > kMostPins) {
        return wrong(field("kv_pin") + " has " + std::to_string(list.size()) + " spans: give " + std::to_string(kMostPins) +
                     " at most");
    }
    for (const Json & pin : list) {
        if (pin == "system") {
            options.pin_system = PinSystem::kYes;
            continue;
        }
        const bool pair = pin.is_array() && pin.size() == 2 && pin[0].is_number_integer() && pin[1].is_number_integer();
        if (!pair) { return wrong_field("kv_pin", *pins, wanted); }
        const auto begin = pin[0].get<int64_t>();
        const auto end = pin[1].get<int64_t>();
        if (begin < 0 || end <= begin || end > kMostInt) { return wrong_field("kv_pin", pin, wanted); }
        options.kv_pin.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end)});
    }
    return {};
}

Status read_cache(Fields & fields, CompletionOptions & options) {
    std::string policy;
    PITH_RETURN_IF_ERROR(fields.read("kv_policy", policy));
    if (fields.has("kv_policy")) {
        options.kv_policy = policy;
        if (const Status status = options.kv_policy->check(); !status.ok()) {
            return wrong(field("kv_policy") + ": " + status.message());
        }
    }
    if (const Json * budget = fields.find("kv_budget")) {
        const bool number = budget->is_number_integer();
        if (!number && !budget->is_string()) {
            return wrong_field("kv_budget", *budget, "1024 (tokens a head), \"20%\" or \"64M\"");
        }
        auto parsed = Budget::parse(number ? std::to_string(budget->get<int64_t>()) : budget->get<std::string>());
        if (!parsed.ok()) { return wrong(field("kv_budget") + ": " + parsed.status().message()); }
        if (parsed->kind == BudgetKind::kAuto) {
            return wrong_field("kv_budget", *budget, "a number, or leave it out: the server decides");
        }
        options.kv_budget = *parsed;
    }
    if (const Json * tolerance = fields.find("kv_tolerance")) {
        if (!tolerance->is_number() && !tolerance->is_string()) {
            return wrong_field("kv_tolerance", *tolerance, "\"1%\" or 0.01");
        }
        const std::string text =
            tolerance->is_string() ? tolerance->get<std::string>() : format_number(tolerance->get<double>());
        PITH_ASSIGN_OR_RETURN(options.kv_tolerance, parse_tolerance(text));
    }
    PITH_RETURN_IF_ERROR(read_pins(fields, options));
    return fields.read("cache_prompt", options.cache_prompt);
}

Status read_limits(Fields & fields, CompletionOptions & options) {
    // The newest name counts; all mean the same.
    PITH_RETURN_IF_ERROR(fields.read("n_predict", options.max_tokens, -1, kMostInt));
    PITH_RETURN_IF_ERROR(fields.read("max_tokens", options.max_tokens, -1, kMostInt));
    PITH_RETURN_IF_ERROR(fields.read("max_completion_tokens", options.max_tokens, -1, kMostInt));
    PITH_RETURN_IF_ERROR(fields.read("min_tokens", options.min_tokens, 0, kMostInt));
    PITH_RETURN_IF_ERROR(fields.read("n", options.n, 1, kMostChoices));
    PITH_RETURN_IF_ERROR(fields.read("ignore_eos", options.ignore_eos));
    PITH_RETURN_IF_ERROR(fields.read("stop", options.stop));
    std::erase_if(options.stop, [](const std::string & text) { return text.empty(); });
    // llama-server's name, and the server's own option.
    PITH_RETURN_IF_ERROR(fields.read("speculative.n_max", options.draft_ngram, 0, kMostDraft));
    PITH_RETURN_IF_ERROR(fields.read("draft_ngram", options.draft_ngram, 0, kMostDraft));
    return check_texts("stop", options.stop);
}

// vLLM's field, with its meaning: the lower number comes first.
Status read_priority(Fields & fields, CompletionOptions & options) {
    PITH_RETURN_IF_ERROR(fields.read("priority", options.priority, -kMostInt, kMostInt));
    if (options.priority != 0 && !options.may_prioritize) {
        return wrong(field("priority") + " is " + std::to_string(options.priority) +
                     ", and this server serves all in the order in which they come: leave it out, or start the server so "
                     "that it heeds priorities");
    }
    return {};
}

Status read_stream(Fields & fields, CompletionOptions & options) {
    PITH_RETURN_IF_ERROR(fields.read("stream", options.stream));
    PITH_RETURN_IF_ERROR(fields.read("timings_per_token", options.timings_per_token));
    PITH_RETURN_IF_ERROR(fields.read("return_progress", options.return_progress));
    PITH_RETURN_IF_ERROR(fields.read("return_kv_map", options.return_kv_map));
    float timeout_s = 0;
    PITH_RETURN_IF_ERROR(fields.read("timeout", timeout_s));
    if (const Json * given = fields.find("timeout")) {
        if (!(timeout_s > 0)) { return wrong_field("timeout", *given, "seconds, above 0"); }
        // The server's limit holds for everybody.
        const double limit = options.timeout_s;
        const auto asked = given->get<double>();
        options.timeout_s = limit > 0 ? std::min(limit, asked) : asked;
    }
    const Json * stream_options = fields.find("stream_options");
    if (stream_options == nullptr) { return {}; }
    if (!stream_options->is_object()) { return wrong_field("stream_options", *stream_options, "an object"); }
    Fields inner(*stream_options);
    PITH_RETURN_IF_ERROR(inner.read("include_usage", options.include_usage));
    bool obfuscation = false;  // padding that OpenAI adds against eavesdroppers; without it nothing is lost
    PITH_RETURN_IF_ERROR(inner.read("include_obfuscation", obfuscation));
    return inner.check_spelling();
}

// Known to clients, and no part of what an answer says.
constexpr std::string_view kHarmless[] = {
    "model",      "user",    "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prediction", "id_slot", "n_keep"};

// Each would change the answer.
constexpr std::string_view kRefused[] = {
    "post_sampling_probs", "response_fields", "t_max_predict_ms", "min_keep", "n_indent", "lora",
    "grammar_lazy",        "return_tokens"};

Status check_refused(Fields & fields) {
    for (const std::string_view name : kRefused) {
        const Json * value = fields.find(name);
        const bool nothing = value == nullptr || *value == false || *value == 0 || (value->is_structured() && value->empty());
        if (!nothing) { return {ErrorCode::kUnsupported, field(name) + " is not supported: leave it out"}; }
    }
    return {};
}

}  // namespace

Status follow_schema(const Json & schema, const std::string & name, CompletionOptions & options) {
    if (!schema.is_object() && !schema.is_boolean()) { return wrong_field(name, schema, "a JSON schema"); }
    auto made = grammar_of_json_schema(dump(schema));
    if (!made.ok()) { return wrong(field(name) + ": " + made.status().message()); }
    options.sampler.grammar = std::move(*made);
    options.has_format = true;
    return {};
}

Status check_one_form(const ChatRequest & request) {
    const CompletionOptions & options = request.options;
    if (!request.tools.must_call || options.has_format || options.sampler.grammar.empty()) { return {}; }
    return wrong(field("tool_choice") + " asks for a call, and a grammar for something else: give one of them");
}

Status follow_format(Fields & fields, const Json & format, const std::string & name, CompletionOptions & options) {
    if (!format.is_object()) { return wrong_field(name, format, "an object with a type"); }
    Fields inner(format);
    std::string type;
    PITH_RETURN_IF_ERROR(inner.read("type", type));
    if (type == "text") { return {}; }
    if (type != "json_object" && type != "json_schema") {
        return wrong_field(name, format, "a type of text, json_object or json_schema");
    }
    for (const char * other : {"grammar", "json_schema", "response_format"}) {
        if (fields.has(other)) { return wrong(field(name) + " and '" + other + "': give one of them, an answer has one form"); }
    }
    const Json * schema = inner.find("schema");
    if (schema != nullptr) { return follow_schema(*schema, name, options); }
    if (type == "json_schema") { return wrong(field(name) + " has no schema"); }
    return follow_schema({{"type", "object"}}, name, options);
}

Status check_texts(std::string_view name, const std::vector<std::string> & texts) {
    if (texts.size() > kMostTexts) {
        return wrong(field(name) + " has " + std::to_string(texts.size()) + " texts: give " + std::to_string(kMostTexts) +
                     " at most");
    }
    for (const std::string & text : texts) {
        if (text.size() <= kMostTextBytes) { continue; }
        return wrong(field(name) + " has a text of " + std::to_string(text.size()) + " bytes: give " +
                     std::to_string(kMostTextBytes) + " at most");
    }
    return {};
}

Status read_options(Fields & fields, const Tokenizer & tokenizer, CompletionOptions & options) {
    PITH_RETURN_IF_ERROR(read_limits(fields, options));
    PITH_RETURN_IF_ERROR(read_priority(fields, options));
    PITH_RETURN_IF_ERROR(read_stream(fields, options));
    PITH_RETURN_IF_ERROR(read_sampler(fields, options.sampler));
    PITH_RETURN_IF_ERROR(read_bias(fields, tokenizer, options.sampler));
    PITH_RETURN_IF_ERROR(check_biases(options.sampler, tokenizer));
    PITH_RETURN_IF_ERROR(read_format(fields, options));
    PITH_RETURN_IF_ERROR(read_cache(fields, options));
    PITH_RETURN_IF_ERROR(check_refused(fields));
    for (const std::string_view name : kHarmless) { fields.find(name); }
    return fields.check_spelling();
}

}  // namespace pith::serve
