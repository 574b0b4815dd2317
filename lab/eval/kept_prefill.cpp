// kept_prefill.cpp - a file's name is a hash of all that what is in it depends on.
#include "eval/kept_prefill.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/byte_stream.h"
#include "core/hash64.h"
#include "engine/parts/model_parts.h"
#include "pith/log.h"

namespace pith {
namespace {

std::string name_of_prefill(const Model & model, const SessionOptions & options, std::span<const int32_t> prompt,
                            int n_question) {
    ByteWriter key;
    for (const auto & [item, value] : file_of(model).identity()) {
        key.text(item);
        key.text(value);
    }
    key.text(gate_of(model) ? gate_of(model)->hash() : "");
    key.text(options.policy.name());
    key.text(options.budget.to_string());
    for (const PolicyChoice & policy : options.observe) { key.text(policy.name()); }
    key.text(to_string(options.type_k));
    key.text(to_string(options.type_v));
    key.flag(options.rotate_kv);
    key.number(static_cast<uint8_t>(options.prefill));
    for (const int n : {options.chunk, options.evict_every, options.grid, n_question}) { key.number(n); }
    for (const PositionSpan & span : options.pinned) {
        key.number(span.begin);
        key.number(span.end);
    }
    key.flag(options.heads != nullptr);
    if (options.heads) {
        key.array(options.heads->copy);
        key.array(options.heads->reason);
    }
    for (const auto * tokens : {&options.reread.first, &options.reread.next, &options.reread.behind}) { key.array(*tokens); }
    key.array(prompt);
    return hash_text(hash64(key.bytes())) + ".pith";
}

}  // namespace

Status prefill_or_open(const Model & model, Session & session, const SessionOptions & options, std::span<const int32_t> prompt,
                       const RunHooks & hooks, const std::string & folder) {
    const auto read = [&] {
        Status status = session.prefill(prompt, hooks);
        // What a budget cannot hold is not read further: nothing of it is left to read.
        if (status.code() == ErrorCode::kBudget && hooks.progress) { hooks.progress(std::ssize(prompt), std::ssize(prompt)); }
        return status;
    };
    if (folder.empty()) { return read(); }
    const std::string path = folder + "/" + name_of_prefill(model, options, prompt, hooks.n_question);
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
        const Status opened = session.load(path);
        if (opened.ok() && std::ranges::equal(session.tokens(), prompt)) {
            if (hooks.progress) { hooks.progress(std::ssize(prompt), std::ssize(prompt)); }
            return {};
        }
        if (opened.ok()) { return {ErrorCode::kBadFile, "'" + path + "' holds another prompt: remove it"}; }
        log_line(LogLevel::kWarning, "a prompt is read anew: " + opened.message());
    }
    PITH_RETURN_IF_ERROR(read());
    if (const Status saved = session.save(path); !saved.ok()) {
        log_line(LogLevel::kWarning, "a prompt that was read is not kept: " + saved.message());
    }
    return {};
}

}  // namespace pith
