// info.cpp - `pith info`: what is in a model, and what its KV cache costs; what is in a gate file, or an adapter.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "app/models/info_budget.h"
#include "app/models/info_parts.h"
#include "app/shell/commands.h"
#include "attention/lane_places.h"
#include "cache/bucket_lanes.h"
#include "cache/kv_type.h"
#include "cache/ragged_cache.h"
#include "common/base/errors.h"
#include "common/base/flag_names.h"
#include "common/base/ledger_report.h"
#include "common/flags/engine_flags.h"
#include "common/options/options.h"
#include "core/check.h"
#include "core/text.h"
#include "engine/parts/cache_layout.h"
#include "engine/parts/model_parts.h"
#include "evidence/evidence_notes.h"
#include "gate/gate_file.h"
#include "model/head_importance_file.h"
#include "model/lora_file.h"
#include "model/model_file.h"
#include "pith/text.h"
#include "plan/lane_bytes.h"

namespace pith::app {
namespace {

struct InfoFlags {
    ModelFlags model;
    std::string file;  // of any kind
    CacheFlags cache;
    std::string budget;  // empty: none
    int ctx_size = 0;
    bool json = false;
};

Result<CacheLayout> layout_of(const ModelFile & file, const CacheFlags & flags) {
    PITH_ASSIGN_OR_RETURN(const KvType type_k, parse_kv_type(flags.type_k));
    PITH_ASSIGN_OR_RETURN(const KvType type_v, parse_kv_type(flags.type_v));
    CacheLayout layout = cache_layout(file, type_k, type_v);
    PITH_RETURN_IF_ERROR(RaggedCache::check_types(layout));
    return layout;
}

// Where `auto` and the policies that divide the budget by head get their importances from: "from" is beside, pith or none.
Json describe_heads(const Model & model) {
    const std::string path = default_heads_path(model.info().path);
    std::error_code error;
    std::string unfit;
    if (std::filesystem::exists(path, error)) {
        const Status fits = load_head_importance(path, file_of(model)).status();
        if (fits.ok()) { return {{"from", "beside"}, {"note", "importances in " + path}}; }
        unfit = message_of(fits) + "; ";
    }
    const ShippedMatch & shipped = heads_of(model).shipped();
    if (shipped.kind == ShippedMatch::Kind::kSame) {
        return {{"from", "pith"},
                {"name", shipped.name},
                {"note", unfit + "importances come with Pith for " + shipped.name + ": " + shipped.made}};
    }
    const std::string why = shipped.why_not();
    return {{"from", "none"},
            {"note", unfit + "no importances" + (why.empty() ? "" : "; " + why) + " (`pith calibrate heads`)"}};
}

Json describe(const InfoFlags & flags, const Model & model, const Tokenizer * tokenizer, const CacheLayout & layout) {
    const ModelInfo & info = model.info();
    const int n_ctx = flags.ctx_size > 0 ? flags.ctx_size : info.n_ctx_train;
    const size_t per_token = static_cast<size_t>(layout.shape.n_lanes()) * layout.entry_bytes();
    const size_t in_windows = window_bytes(layout, 0);
    const Hparams & hparams = file_of(model).hparams();
    const auto n_windows =
        std::ranges::count_if(hparams.layers, [](const LayerHparams & one) { return one.has_keys() && one.window > 0; });
    int window = 0;
    for (int l = 0; l < layout.n_layers(); ++l) { window = std::max(window, layout.window(l)); }
    Json object;
    object["path"] = info.path;
    object["architecture"] = info.architecture;
    object["name"] = info.name;
    object["file_type"] = info.file_type;
    object["weight_type"] = info.weight_type;
    object["weight_types"] = Json::array();
    for (const WeightShare & share : info.weight_types) {
        object["weight_types"].push_back(
            {{"type", share.type}, {"n_weights", share.n_weights}, {"n_tensors", share.n_tensors}, {"bytes", share.bytes}});
    }
    object["n_params"] = info.n_params;
    object["weight_bytes"] = info.weight_bytes;
    object["weight_bytes_per_token"] = info.weight_bytes_per_token;
    object["n_layers"] = info.n_layers;
    object["n_governed_layers"] = layout.shape.n_layers;
    object["n_recurrent_layers"] = hparams.n_recurrent_layers();
    object["n_feed_forward_layers"] = std::ranges::count_if(hparams.layers, &LayerHparams::feed_forward_only);
    object["n_window_layers"] = n_windows;
    object["n_sharing_layers"] =
        std::ranges::count_if(hparams.layers, [](const LayerHparams & one) { return one.kv_source >= 0; });
    object["window"] = window;
    object["n_embd"] = info.n_embd;
    object["n_heads"] = info.n_heads;
    object["n_kv_heads"] = info.n_kv_heads;
    object["head_dim"] = info.head_dim;
    object["n_experts"] = info.n_experts;
    object["n_vocab"] = info.n_vocab;
    object["n_ctx_train"] = info.n_ctx_train;
    object["has_tokenizer"] = tokenizer != nullptr;
    object["has_chat_template"] = tokenizer != nullptr && tokenizer->has_chat_template();
    object["evidence_notes"] = evidence_notes(hparams);
    object["head_importances"] = describe_heads(model);
    object["importance"] = info.has_importance ? Json(gate_of(model)->path()) : Json();
    object["cache_type_k"] = flags.cache.type_k;
    object["cache_type_v"] = flags.cache.type_v;
    object["kv_bytes_per_token"] = per_token;
    object["n_ctx"] = n_ctx;
    object["kv_window_bytes"] = in_windows;
    object["kv_state_bytes"] = layout.state_bytes;
    object["kv_bytes"] = per_token * static_cast<size_t>(n_ctx) + in_windows + layout.state_bytes;
    return object;
}

// What of the model would lie on devices, and what of a context of so many tokens that keeps all.
Result<std::vector<DeviceUse>> uses_of_devices(const std::string & path, const DeviceOptions & options, CacheLayout layout,
                                               int64_t n_ctx) {
    if (!options.any()) { return std::vector<DeviceUse>(); }
    PITH_ASSIGN_OR_RETURN(const auto file, ModelFile::check(path, options));
    std::vector<DeviceUse> uses = file->placement()->uses();
    if (!options.kv_offload) { return uses; }
    PITH_ASSIGN_OR_RETURN(const auto devices, lane_devices(*file->placement()));
    PITH_RETURN_IF_ERROR(place_lanes(*file->placement(), devices, layout, uses));
    for (DeviceUse & use : uses) {
        for (int l = use.first_layer; l < use.first_layer + use.n_layers; ++l) {
            const LaneRows rows = layout.rows(l);
            const auto n_entries = static_cast<size_t>(rows.n_lanes * BucketLanes::room_for(n_ctx));
            use.kv_bytes += layout.device(l) != nullptr ? n_entries * rows.bytes() : 0;
        }
    }
    return uses;
}

void info_line(const std::string & label, const std::string & text) {
    std::printf("%-14s%s\n", label.c_str(), without_controls(text).c_str());
}

// "q8_0 71.2 %, q4_K 20.1 %, f32 0.1 % of the bytes"
std::string mixture_text(const Json & info) {
    std::vector<std::string> parts;
    for (const Json & share : info["weight_types"]) {
        char percent[32];
        std::snprintf(percent, sizeof percent, " %.1f %%",
                      100.0 * share["bytes"].get<double>() / std::max(1.0, info["weight_bytes"].get<double>()));
        parts.push_back(share["type"].get<std::string>() + percent);
    }
    return join(parts, ", ") + " of the bytes";
}

void print_lines(const Json & info) {
    const auto number = [&info](const char * key) { return std::to_string(info[key].get<int64_t>()); };
    info_line("model", info["path"].get<std::string>());
    if (!info["name"].get<std::string>().empty()) { info_line("name", info["name"].get<std::string>()); }
    info_line("architecture", info["architecture"].get<std::string>());
    info_line("weights", number("n_params") + " parameters, " + bytes_text(info["weight_bytes"].get<size_t>()));
    info_line("a token reads",
              bytes_text(info["weight_bytes_per_token"].get<size_t>()) + " of weights, and all of the KV cache that is kept");
    info_line("type", info["file_type"].get<std::string>() + ": " + mixture_text(info));
    info_line("layers", number("n_layers") + " of width " + number("n_embd"));
    if (info["window"].get<int>() > 0) {
        info_line("windows", number("n_window_layers") + " layers see the newest " + number("window") +
                                 " tokens, and keep these; policies govern the other " + number("n_governed_layers"));
    }
    if (info["n_sharing_layers"].get<int>() > 0) {
        info_line("shared",
                  number("n_sharing_layers") + " layers more keep nothing, and see what one of the layers before them keeps");
    }
    if (info["n_recurrent_layers"].get<int>() > 0) {
        info_line("recurrent", number("n_recurrent_layers") + " layers keep a state in place of KV entries" +
                                   (info["n_feed_forward_layers"].get<int>() > 0
                                        ? ", " + number("n_feed_forward_layers") + " are a feed-forward alone"
                                        : "") +
                                   "; policies govern the other " + number("n_governed_layers"));
    }
    info_line("heads", number("n_heads") + " over " + number("n_kv_heads") + " KV heads of size " + number("head_dim"));
    if (info["n_experts"].get<int>() > 0) { info_line("experts", number("n_experts")); }
    info_line("trained on", number("n_ctx_train") + " tokens of context");
    const char * chat = info["has_chat_template"].get<bool>() ? "with a chat template" : "no chat template";
    info_line("vocabulary",
              number("n_vocab") + " tokens, " + (info["has_tokenizer"].get<bool>() ? chat : "no usable tokeniser"));
    info_line(
        "KV cache",
        bytes_text(info["kv_bytes_per_token"].get<size_t>()) + " a token (K " + info["cache_type_k"].get<std::string>() +
            ", V " + info["cache_type_v"].get<std::string>() + "), " +
            (info["window"].get<int>() > 0 ? bytes_text(info["kv_window_bytes"].get<size_t>()) + " for the windows, in all "
                                           : "") +
            (info["n_recurrent_layers"].get<int>() > 0
                 ? bytes_text(info["kv_state_bytes"].get<size_t>()) + " for the states, in all "
                 : "") +
            bytes_text(info["kv_bytes"].get<size_t>()) + " at " + number("n_ctx") + " tokens without a budget");
    if (!info["within"].is_null()) {
        info_line("within " + info["within"]["budget"].get<std::string>(), budget_line(info["within"]));
    }
    info_line("calibration", info["head_importances"]["note"].get<std::string>());
    info_line("importance", info["importance"].is_null() ? "not learnt (`pith calibrate importance`)"
                                                         : "learnt: " + info["importance"].get<std::string>());
    for (const Json & note : info["evidence_notes"]) { info_line("policies", note.get<std::string>()); }
}

// Gates or an adapter; with -m, whether they fit that model.
int info_part(InfoFlags flags, FileKind kind) {
    const bool is_gate = kind == FileKind::kGate;
    auto info = is_gate ? describe_gate(flags.file) : describe_adapter(flags.file);
    if (!info.ok()) { return fail(info.status()); }
    if (flags.model.named()) {
        if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
        const auto model = flags.model.load();
        if (!model.ok()) { return fail(model.status()); }
        const Status fits = is_gate ? Gate::load(flags.file, file_of(*model)).status()
                                    : LoraAdapter::load(flags.file, file_of(*model)).status();
        if (!fits.ok()) { return fail(fits); }
        (*info)["fits"] = flags.model.path;
    }
    if (flags.json) {
        print_json(*info);
        return kExitOk;
    }
    is_gate ? print_gate(*info) : print_adapter(*info);
    if (!flags.model.path.empty()) { info_line("fits", flags.model.path); }
    return kExitOk;
}

int info_command(InfoFlags flags) {
    for (const std::string & type : {flags.cache.type_k, flags.cache.type_v}) {
        if (const auto parsed = parse_kv_type(type); !parsed.ok()) { return fail_usage(parsed.status()); }
    }
    if (const Status status = check_at_least("--ctx-size", flags.ctx_size, 0); !status.ok()) { return fail_usage(status); }
    std::optional<Budget> budget;
    if (!flags.budget.empty()) {
        const auto parsed = Budget::parse(flags.budget);
        if (!parsed.ok()) { return fail_usage(parsed.status()); }
        budget = *parsed;
    }
    const auto devices = flags.model.devices.options();
    if (!devices.ok()) { return fail_usage(devices.status()); }
    flags.model.devices.watch();
    flags.model.devices = {};      // what would lie on them is told, and no weight is sent
    flags.model.no_repack = true;  // nothing is computed here
    if (!flags.file.empty()) {
        const auto file = find_model_file(flags.file);
        if (!file.ok()) { return fail_or_usage(file.status()); }
        flags.file = *file;
        const auto kind = kind_of_file(flags.file);
        if (!kind.ok()) { return fail(kind.status()); }
        if (*kind != FileKind::kModel) { return info_part(flags, *kind); }
        if (flags.model.named()) { return fail_usage("-m and FILE are both models: give one of them"); }
        flags.model.path = flags.file;
    }
    if (!flags.model.named()) { return fail_usage("name a model, gates or an adapter: `pith info FILE`"); }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto layout = layout_of(file_of(*model), flags.cache);
    if (!layout.ok()) { return fail(layout.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { warn(message_of(tokenizer.status())); }
    Json info = describe(flags, *model, tokenizer.ok() ? &*tokenizer : nullptr, *layout);
    info["within"] = nullptr;
    if (budget) {
        auto within = describe_budget(*layout, *budget, info["n_ctx"].get<int64_t>());
        if (!within.ok()) { return fail_or_usage(within.status()); }
        info["within"] = std::move(*within);
    }
    const auto uses = uses_of_devices(flags.model.path, *devices, *layout, info["n_ctx"].get<int64_t>());
    if (!uses.ok()) { return fail(uses.status()); }
    for (const DeviceUse & use : *uses) { info["devices"].push_back(device_json(use)); }
    if (flags.json) {
        print_json(info);
        return kExitOk;
    }
    print_lines(info);
    for (const DeviceUse & use : *uses) { info_line("device", device_text(use)); }
    return kExitOk;
}

}  // namespace

void add_info_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<InfoFlags>();
    CLI::App * command =
        root.add_subcommand("info", "Show what is in a model, and what its KV cache costs; what is in gates or an adapter");
    command->add_option("FILE", flags->file,
                        "Model (as -m has it), gates or LoRA adapter; with -m, whether gates or an adapter fit that model");
    flags->model.add_to(*command, false);
    flags->cache.add_to(*command);
    add(*command, option("--ctx-size"), flags->ctx_size, "Tokens to count the cache for (default: the training length)");
    add(*command, option("--budget"), flags->budget,
        "Count the cache within this budget, too: tokens per head, a share (20%) or bytes (512M)");
    add(*command, option("--json"), flags->json);
    command->callback([flags, &exit_code] { exit_code = info_command(*flags); });
}

}  // namespace pith::app
