// serve.cpp - `pith serve`: OpenAI's HTTP interface on the batch engine, inside one ceiling for all KV caches.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "app/serve/read_first.h"
#include "app/serve/serve_flags.h"
#include "app/shell/commands.h"
#include "cache/page_memory.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/open_files.h"
#include "core/stopwatch.h"
#include "pith/log.h"
#include "text/reread_prompt.h"

namespace pith::app {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);  // for signals, and whether all has been answered
constexpr double kLeastDrainS = 1;                     // for the last words of answers that were cut

constexpr size_t kBodies = 8;  // of the largest size, for which there is room at a time

std::atomic<bool> asked_to_end{false};

void ask_to_end(int) {
    asked_to_end = true;
}

// What runs is finished, within so many seconds (below 0: however long that takes), or cut. Replies are on their way then: a
// client may read its own slowly.
void finish(serve::HttpServer & server, serve::Generator & generator, double most_s, double write_timeout_s) {
    const Stopwatch watch;
    const auto is_over = [&] { return most_s >= 0 && watch.seconds() >= most_s; };
    std::fprintf(stderr, "pith: finishing what runs (%lld answers)\n", static_cast<long long>(generator.n_open()));
    while (generator.n_open() > 0 && !is_over()) { std::this_thread::sleep_for(kLook); }
    if (const int64_t n = generator.n_open(); n > 0) {
        std::fprintf(stderr, "pith: %lld answers were not finished within --shutdown-timeout %g: they are cut\n",
                     static_cast<long long>(n), most_s);
        generator.cut();
        while (generator.n_open() > 0) { std::this_thread::sleep_for(kLook); }
    }
    const double left_s = most_s < 0 ? write_timeout_s : std::max(kLeastDrainS, most_s - watch.seconds());
    server.drain(std::min(left_s, write_timeout_s));
}

// Serves until SIGTERM or Ctrl-C; then what runs is finished, and nothing new begins. Errors: kIo: the port was lost before.
Status serve_until_asked(serve::HttpServer & server, serve::Api & api, serve::Generator & generator, const ServeFlags & flags) {
    std::signal(SIGTERM, ask_to_end);
    const std::atomic<bool> & interrupted = catch_interrupt();
    std::printf("listening on %s\n", server.url().c_str());  // whoever reads it may ask it to end
    std::fflush(stdout);
    std::atomic<bool> ended{false};
    std::thread serving([&] {
        server.serve();
        ended = true;
    });
    while (!asked_to_end && !interrupted && !ended) { std::this_thread::sleep_for(kLook); }
    const bool lost = ended;
    api.close();
    finish(server, generator, flags.shutdown_timeout_s, flags.http.receive_timeout_s);
    server.stop();
    serving.join();
    return lost ? Status(ErrorCode::kIo, "the port at " + server.url() + " was lost: nobody can connect any more") : Status();
}

// What goes wrong while it serves, and no client is told: a folder of states that cannot be written, an engine that fails.
void log_to_stderr(LogLevel level, std::string_view line) {
    if (level >= LogLevel::kWarning) { warn(line); }
}

// Of many threads; one call writes one line.
void tell_request(std::string_view line) {
    std::fprintf(stderr, "pith: %.*s\n", static_cast<int>(line.size()), line.data());
}

bool is_this_machine(const std::string & host) {
    return host.starts_with("127.") || host == "localhost" || host == "::1";
}

int serve_command(ServeFlags flags, bool is_verbose) {
    if (const Status status = flags.check(); !status.ok()) { return fail_usage(status); }
    const auto options = flags.session.options(!flags.model.gate.empty());
    if (!options.ok()) { return fail_usage(options.status()); }
    const auto sampler = flags.sampler.options();
    if (!sampler.ok()) { return fail_usage(sampler.status()); }
    const auto generator_options = flags.generator_options(*options);
    if (!generator_options.ok()) { return fail_usage(generator_options.status()); }
    const auto stop = flags.reverse_prompts.read(/*escape=*/true);
    if (!stop.ok()) { return fail_usage(stop.status()); }
    const auto keys = flags.read_keys();
    if (!keys.ok()) { return fail_or_usage(keys.status()); }

    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    if (const Status given = flags.chat_template.give(*tokenizer); !given.ok()) { return fail(given); }
    if (!tokenizer->has_chat_template()) {
        warn(
            "the model has no chat template: /v1/completions works, chat is answered with an error; --chat-template chatml, or "
            "another name, gives it one");
    }

    serve::ApiOptions api_options;
    api_options.model_name = flags.alias.empty() ? std::filesystem::path(flags.model.path).filename().string() : flags.alias;
    api_options.version = "pith-" PITH_VERSION;
    api_options.n_context = options->max_context > 0 ? options->max_context : model->info().n_ctx_train;
    api_options.defaults.sampler = *sampler;
    api_options.defaults.draft_ngram = flags.sampler.draft_ngram;
    api_options.defaults.max_tokens = flags.n_predict;
    api_options.defaults.stop = *stop;
    api_options.defaults.ignore_eos = flags.ignore_eos;
    api_options.defaults.tells_reasoning = flags.chat_template.reasoning_format != "none";
    api_options.defaults.hides_reasoning = flags.chat_template.hides_reasoning();
    api_options.chat = flags.chat_template.options();
    api_options.defaults.timeout_s = flags.request_timeout_s;
    api_options.session = *options;
    // For requests whose policy reads again. Where the template has no place for them, the text alone does.
    if (auto words = reread_prompt(*tokenizer, tokenizer->has_chat_template()); words.ok()) {
        api_options.session.reread = std::move(*words);
    }
    api_options.keys = *keys;
    api_options.owners = flags.owners(*keys);
    api_options.caches = !flags.cache_dir.empty() || flags.cache_ram_mib != 0;
    api_options.repairs = !flags.no_repair;
    api_options.tells_slots = !flags.no_slots;
    api_options.has_page = !flags.no_page;
    api_options.tell_request = tell_request;
    api_options.defaults.may_prioritize = flags.priorities;
    if (flags.no_pin_system) { api_options.defaults.pin_system = serve::PinSystem::kNo; }

    if (!is_verbose) { set_log_sink(log_to_stderr); }  // not before: loading has much to say that concerns nobody
    allow_more_open_files();
    PageMemory::keep_from_forks();  // templates are rendered in processes of their own
    const auto generator = serve::Generator::start(*model, *tokenizer, *generator_options);
    if (!generator.ok()) { return fail(generator.status()); }
    serve::Api api(*model, *tokenizer, **generator, std::move(api_options));
    if (const Status read = read_first(api, flags.read_first, *keys); !read.ok()) { return fail(read); }
    serve::HttpOptions http = flags.http;
    http.write_timeout_s = http.receive_timeout_s;
    http.most_body_bytes = static_cast<size_t>(flags.most_body_mib) << 20U;
    http.most_bodies_bytes = kBodies * http.most_body_bytes;
    if (http.cors_origin == "none") { http.cors_origin.clear(); }
    if (!keys->empty() && http.allowed_hosts.empty()) { http.allowed_hosts = {"*"}; }  // no page has a key by rebinding a name
    const auto server = serve::HttpServer::bind(api, http);
    if (!server.ok()) { return fail(server.status()); }
    if (keys->empty() && !is_this_machine(flags.http.host)) {
        warn("whoever reaches " + (*server)->url() + " may ask: give --api-key, or let --host be 127.0.0.1");
    }
    const Status served = serve_until_asked(**server, api, **generator, flags);
    return served.ok() ? kExitOk : fail(served);
}

}  // namespace

void add_serve_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<ServeFlags>();
    CLI::App * command = root.add_subcommand("serve", "Serve OpenAI's HTTP interface, all KV caches inside one budget");
    flags->add_to(*command);
    command->callback([flags, &exit_code, &root] { exit_code = serve_command(*flags, root.count("--verbose") > 0); });
}

}  // namespace pith::app
