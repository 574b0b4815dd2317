// serve_flags.cpp - the flags of `pith serve`.
#include "app/serve/serve_flags.h"

#include <limits>

#include "common/base/byte_count.h"
#include "common/base/read_text.h"
#include "common/models/sha256.h"
#include "common/options/options.h"
#include "core/check.h"
#include "core/text.h"
#include "device/available_memory.h"
#include "engine/engine_options.h"
#include "serve/request_target.h"

namespace pith::app {

void ServeFlags::add_to(CLI::App & command) {
    model.add_to(command, /*is_required=*/false);
    const auto serving = [&](const char * names, auto & value, const char * help) {
        command.add_option(names, value, help)->capture_default_str()->group("Serving");
    };
    const auto known = [&](const OptionRow & row, auto & value, const std::string & help = "") {
        return add(command, row, value, help)->group("Serving");
    };
    known(option("--host"), http.host)->capture_default_str();
    known(option("--port"), http.port)->capture_default_str();
    command.add_option("-a,--alias", alias, "What /v1/models calls the model (default: the file's name)")->group("Serving");
    command
        .add_option("--api-key", api_keys, "Keys, one of which every request must bring; several between commas, or repeated")
        ->allow_extra_args(false)
        ->group("Serving");
    command.add_option("--api-key-file", api_key_file, "The same, from a file, one a line")->group("Serving");
    known(option("--kv-budget"), ceiling)->capture_default_str();
    known(option("--cache-dir"), cache_dir);
    known(option("--cache-size"), cache_size)->capture_default_str();
    known(option("--cache-ram"), cache_ram_mib)->capture_default_str();
    command.add_flag("--share-prefix", share_prefix, "States are found whatever the API key (default: by the same key alone)")
        ->group("Serving");
    command
        .add_option(
            "--read-first", read_first,
            "Files, each the body of a chat completion: their prompts are read before the server listens, so that clients "
            "whose requests begin like them (system prompt, tools) need not wait for it; may be repeated")
        ->allow_extra_args(false)
        ->group("Serving");
    known(option("--parallel"), parallel, "Answers at a time at most (-np); 0: as many as fit under the ceiling")
        ->capture_default_str();
    serving("--max-waiting", most_waiting, "Requests in line at most; one more is told to come again (429)");
    command
        .add_flag("--priorities", priorities,
                  "Requests may name a priority, the lower first: what runs with a higher one makes room, and goes on later")
        ->group("Serving");
    known(option("--cors-origin"), http.cors_origin)->capture_default_str();
    command
        .add_option("--allowed-hosts", http.allowed_hosts,
                    "Names by which clients may call the server, beside addresses in numbers and localhost: example.org, "
                    ".example.org (and all below it) or *; several between commas (default: any with --api-key, else --host)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->group("Serving");
    known(option("--timeout"), http.receive_timeout_s)->capture_default_str();
    serving("--request-timeout", request_timeout_s,
            "Seconds for an answer, its wait in line included: what has been said then is the answer; 0: none");
    serving("--shutdown-timeout", shutdown_timeout_s,
            "Seconds that SIGTERM leaves to what runs and waits; what has been said then is the answer; -1: no limit");
    serving("--max-connections", http.most_connections, "Connections at a time at most");
    serving("--max-body", most_body_mib, "Largest body of a request, in MiB");
    command.add_flag("--no-webui,--no-ui", no_page, "No page at /")->group("Serving");
    command.add_flag("--no-slots", no_slots, "Do not tell at /slots what runs")->group("Serving");
    command
        .add_flag("--no-pin-system", no_pin_system,
                  "System prompts are evicted like the rest (default: never, where they take half of a budget at most)")
        ->group("Serving");
    add(command, option("--n-predict"), n_predict, "Tokens of an answer that gives no limit; -1: until the model ends")
        ->capture_default_str();
    command.add_flag("--ignore-eos", ignore_eos, "Answers go on where the model would end, unless a request says otherwise");
    reverse_prompts.add_to(command);
    chat_template.add_template_to(command);
    add(command, option("--chat-template-kwargs"), chat_template.variables);
    const auto one_of = [&](const OptionRow & row, std::string & value, const std::string & more, const std::string & help) {
        auto words = choices_of(row);
        if (!more.empty()) { words.push_back(more); }
        add(command, row, value, help)->check(CLI::IsMember(words))->capture_default_str();
    };
    one_of(option("--reasoning"), chat_template.reasoning, "", "");
    one_of(
        option("--reasoning-format"), chat_template.reasoning_format, "deepseek",
        "What becomes of marked thoughts, where a request does not say: auto or deepseek (told apart), hide, none (part of the "
        "answer, as written)");
    session.add_to(command, "auto", "");
    command.get_option("--ctx-size")
        ->description("Tokens of a prompt and its answer at most; more are refused (default: what the model was trained on)");
    session.add_tolerance_to(command);
    session.cold.add_to(command);
    session.cold.repair_every = 0;  // all others wait for what one answer looks for
    session.cold.add_repair_every_to(command);
    add(command, option("--no-repair"), no_repair);
    sampler.add_to(command);
}

Status ServeFlags::check() const {
    PITH_RETURN_IF_ERROR(check_at_least("--n-predict", n_predict, -1));
    PITH_RETURN_IF_ERROR(check_at_least("--parallel", parallel, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--cache-ram", cache_ram_mib, -1));
    if (!read_first.empty() && cache_ram_mib == 0 && cache_dir.empty()) {
        return {ErrorCode::kInvalidArgument,
                "--read-first reads for --cache-dir or --cache-ram, and there is neither: give one"};
    }
    PITH_RETURN_IF_ERROR(check_at_least("--max-waiting", most_waiting, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--timeout", http.receive_timeout_s, 1));
    if (!(request_timeout_s >= 0)) {
        return {ErrorCode::kInvalidArgument,
                "--request-timeout is " + format_number(request_timeout_s) + ": give seconds, or 0 for no limit"};
    }
    if (!(shutdown_timeout_s >= 0) && shutdown_timeout_s != -1) {
        return {ErrorCode::kInvalidArgument,
                "--shutdown-timeout is " + format_number(shutdown_timeout_s) + ": give seconds, or -1 for no limit"};
    }
    for (const std::string & name : http.allowed_hosts) {
        const std::string bare = name.starts_with('.') ? name.substr(1) : name;
        if (name != "*" && serve::host_name_of(bare) != to_lower(bare)) {
            return {ErrorCode::kInvalidArgument,
                    "--allowed-hosts has '" + name + "': give names without port or path (example.org, .example.org, *)"};
        }
    }
    PITH_RETURN_IF_ERROR(check_at_least("--max-connections", http.most_connections, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--max-body", most_body_mib, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--port", http.port, 0));
    if (http.port > 65535) {
        return {ErrorCode::kInvalidArgument, "--port is " + std::to_string(http.port) + ": give 0 to 65535"};
    }
    if (session.budget == "auto") {
        return {ErrorCode::kInvalidArgument,
                "--budget auto is what memory allows one conversation: leave it out, --kv-budget bounds all of them together"};
    }
    return {};
}

Result<std::vector<std::string>> ServeFlags::read_keys() const {
    std::vector<std::string> keys;
    const auto add = [&](const std::string & text, char separator, const char * name) -> Status {
        for (const std::string_view part : split(text, separator)) {
            const std::string_view key = trim(part);
            if (key.empty()) { continue; }
            if (key.find_first_of(" \t") != std::string_view::npos) {
                return {ErrorCode::kInvalidArgument,
                        std::string(name) + " has a key with a blank in it: no header could bring it"};
            }
            keys.emplace_back(key);
        }
        return {};
    };
    for (const std::string & text : api_keys) { PITH_RETURN_IF_ERROR(add(text, ',', "--api-key")); }
    if (!api_key_file.empty()) {
        PITH_ASSIGN_OR_RETURN(const std::string text, read_text(api_key_file));
        PITH_RETURN_IF_ERROR(add(text, '\n', "--api-key-file"));
    }
    if (keys.empty() && (!api_keys.empty() || !api_key_file.empty())) {
        return {ErrorCode::kInvalidArgument, "there is no key in --api-key or --api-key-file: everybody would be let in"};
    }
    return keys;
}

std::vector<std::string> ServeFlags::owners(const std::vector<std::string> & keys) const {
    std::vector<std::string> names;
    for (const std::string & key : keys) {
        Sha256 hash;
        hash.add(key);
        if (!share_prefix) { names.push_back(hash.hex()); }
    }
    return names;
}

Result<serve::GeneratorOptions> ServeFlags::generator_options(const SessionOptions & with) const {
    serve::GeneratorOptions options;
    options.engine = engine_options(with);
    if (!cache_dir.empty()) {
        options.engine.cache_dir = cache_dir;
        PITH_ASSIGN_OR_RETURN(options.engine.cache_bytes, parse_byte_count("--cache-size", cache_size));
    }
    options.engine.cache_memory_bytes =
        cache_ram_mib < 0 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(cache_ram_mib) << 20U;
    options.engine.max_sequences = parallel;
    options.most_waiting = most_waiting;
    if (ceiling == "none") { return options; }
    const auto budget = Budget::parse(ceiling);
    if (!budget.ok() || (budget->kind != BudgetKind::kBytes && budget->kind != BudgetKind::kAuto)) {
        return {ErrorCode::kInvalidArgument, "--kv-budget is '" + ceiling + "': give bytes (512M, 4G), auto or none"};
    }
    if (budget->kind == BudgetKind::kAuto && available_memory() == 0) { return options; }  // the system does not say
    options.engine.ceiling = *budget;
    return options;
}

}  // namespace pith::app
