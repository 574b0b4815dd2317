// handles.h - what all calls of the C interface share: the handles, errors of this thread, structs of other versions. Stage:
// façade.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "c/cancel_flag.h"
#include "c/in_use.h"
#include "pith/batch_engine.h"
#include "pith/engine.h"
#include "pith/pith.h"

struct pith_cancel {
    std::shared_ptr<pith::c::CancelFlag> flag;
};
struct pith_model {
    pith::Model model;
    // A model without a vocabulary runs all the same. Samplers have it, too.
    pith::Result<std::shared_ptr<pith::Tokenizer>> tokenizer;
};
struct pith_session {
    pith::Session session;
    std::shared_ptr<pith::c::CancelFlag> cancel =
        std::make_shared<pith::c::CancelFlag>();  // its own, or one that its user sets
    mutable pith::c::InUse use{};
};
struct pith_snapshot {
    std::shared_ptr<pith::Session::Snapshot> state;
};
struct pith_session_file {
    pith::SessionFile file;
};
struct pith_sampler {
    struct Parts {
        std::shared_ptr<const pith::Tokenizer> words;
        pith::Sampler sampler;
    };
    std::shared_ptr<Parts> parts;  // of requests, too, that draw from it
};
struct pith_engine {
    pith::Engine engine;
    pith::EngineOptions options;
    std::vector<int32_t> end_tokens;  // of the model
    int n_layers = 0;
    int n_kv_heads = 0;
    std::shared_ptr<pith::c::CancelFlag> cancel = std::make_shared<pith::c::CancelFlag>();  // as a session's
    pith::Ledger ledger;  // whose texts the caller was given last
    mutable pith::c::InUse use{};
};

namespace pith::c {

static_assert(static_cast<int>(ErrorCode::kInternal) == PITH_INTERNAL && static_cast<int>(ErrorCode::kBudget) == PITH_BUDGET,
              "the C codes are the C++ ones");

// Of the last call of this thread that failed.
inline thread_local std::string last_error;
inline thread_local std::string last_error_field;
// Of the last call of this thread that can fail.
inline thread_local pith_code last_code = PITH_OK;

// What an item is for callers of C: a field of an options struct, by the same name; or a call.
inline std::string_view name_in_c(std::string_view item) {
    if (item == "chat_template") { return "pith_set_chat_template"; }
    if (item == "raw") { return "pith_tokenize"; }  // a text as it is
    return item;
}

inline pith_code to_code(const Status & status) {
    if (!status.ok()) {
        last_error = status.message(name_in_c);
        last_error_field = name_in_c(status.item());
    }
    last_code = static_cast<pith_code>(status.code());
    return last_code;
}

// Nothing that a call throws leaves the library.
template <class Call>
pith_code guarded(Call && call) {
    try {
        return to_code(call());
    } catch (const std::bad_alloc &) {
        return to_code({ErrorCode::kOutOfMemory, "out of memory"});
    } catch (const std::exception & error) {
        return to_code({ErrorCode::kInternal, std::string("unexpected: ") + error.what()});
    } catch (...) { return to_code({ErrorCode::kInternal, "unexpected"}); }
}

inline Status missing(const char * what) {
    return {ErrorCode::kInvalidArgument, std::string(what) + " is NULL"};
}

inline const char * name_of(const pith_session * /*handle*/) {
    return "session";
}
inline const char * name_of(const pith_engine * /*handle*/) {
    return "engine";
}

// A call that nothing else may be in the handle beside.
template <class Handle, class Call>
pith_code alone(Handle * handle, Call && call) {
    return guarded([&]() -> Status {
        if (handle == nullptr) { return call(); }  // which says so
        const InUse::Call here(handle->use);
        return here.has_it() ? call() : refused_in_use(name_of(handle), handle->use);
    });
}

// One that a callback of the handle's call may make, too: it looks, or, of an engine, it is one that hooks may make.
template <class Handle, class Call>
pith_code from_hooks_too(Handle * handle, Call && call) {
    if (handle != nullptr && handle->use.by_this_thread()) { return guarded(call); }
    return alone(handle, call);
}

// A value that no code comes with: `none` where the call is refused, as last_code() says.
template <class Handle, class Value, class Call>
Value value_of(Handle * handle, Value none, const Call & call) {
    from_hooks_too(handle, [&]() -> Status {
        if (handle == nullptr) { return missing(name_of(handle)); }
        none = call();
        return {};
    });
    return none;
}

// Frees it, unless a call is in it.
template <class Handle>
pith_code free_handle(Handle * handle) {
    if (handle == nullptr) { return PITH_OK; }
    const pith_code code = alone(handle, [] { return Status(); });
    if (code == PITH_OK) { delete handle; }
    return code;
}

// Defaults into a caller's struct of `size` bytes: what its header does not know is not written, what ours does not know is
// zero.
template <class Options>
void init(Options * options, size_t size, const Options & defaults) {
    if (options == nullptr || size < sizeof(size_t)) { return; }
    std::memset(static_cast<void *>(options), 0, size);
    std::memcpy(static_cast<void *>(options), static_cast<const void *>(&defaults), std::min(size, sizeof(Options)));
    options->size = size;
}

inline Status check_size(size_t size, const char * how) {
    if (size >= sizeof(size_t) && size <= (size_t{1} << 16U)) { return {}; }
    return {ErrorCode::kInvalidArgument, "the struct's size is " + std::to_string(size) + ": " + how};
}

// The caller's struct over our defaults: as much of it as the caller's header knew.
template <class Options>
Result<Options> with_defaults(const Options * given, Options all) {
    if (given != nullptr) {
        PITH_RETURN_IF_ERROR(check_size(given->size, "call its _init, which sets it and the defaults"));
        std::memcpy(static_cast<void *>(&all), static_cast<const void *>(given), std::min(given->size, sizeof(Options)));
    }
    all.size = sizeof(Options);
    return all;
}

// The other way: as much of ours as the caller's struct has room for.
template <class Out>
Status give(const Out & all, Out * out) {
    const size_t size = out->size;
    PITH_RETURN_IF_ERROR(check_size(size, "set it to sizeof(the struct)"));
    std::memcpy(static_cast<void *>(out), static_cast<const void *>(&all), std::min(size, sizeof(Out)));
    out->size = size;
    return {};
}

inline std::string text_of(const char * text) {
    return text == nullptr ? std::string() : std::string(text);
}

// `from` into the caller's room of *n elements; *n is then how many there are.
template <class T, class From>
Status copy_out(const From & from, T * to, size_t * n) {
    const size_t room = *n;
    *n = from.size();
    if (from.size() > room) {
        return {ErrorCode::kInvalidArgument,
                "there is room for " + std::to_string(room) + ", and " + std::to_string(from.size()) + " are needed"};
    }
    if (to == nullptr && !from.empty()) { return missing("the room"); }
    std::copy(from.begin(), from.end(), to);
    return {};
}

}  // namespace pith::c
