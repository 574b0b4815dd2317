// cache.cpp - `pith cache`: what is in cache files, and whether they are whole.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/run/cached_model.h"
#include "app/shell/commands.h"
#include "cache/state_store.h"
#include "common/base/byte_count.h"
#include "common/base/errors.h"
#include "common/base/flag_names.h"
#include "common/base/ledger_report.h"
#include "common/options/options.h"
#include "core/text.h"
#include "pith/cache_file.h"
#include "pith/kv_type.h"
#include "policy/named_policy.h"

namespace pith::app {
namespace {

struct CacheCommandFlags {
    std::string file;  // or folder
    ModelFlags model;
    std::string size;
    bool json = false;
};

std::string budget_text(const CacheFileInfo & info) {
    return info.budget.kind == BudgetKind::kNone ? "none" : info.budget.to_string();
}

bool is_rotated(const SessionOptions & options) {
    return options.rotate_kv && (is_quantised(options.type_k) || is_quantised(options.type_v));
}

constexpr const char * kRows = "evicted entries of states in this folder";

Json to_json(const std::string & path, const CacheFileInfo & info) {
    Json identity = Json::object();
    for (const auto & [item, value] : info.model) { identity[item] = value; }
    Json sections = Json::object();
    for (const auto & [name, bytes] : info.sections) { sections[name] = bytes; }
    if (info.is_rows) { return {{"file", path}, {"file_bytes", info.file_bytes}, {"part", true}, {"sections", sections}}; }
    Json notes = Json::object();
    for (const auto & [name, text] : info.notes) { notes[name] = text; }
    Json object = {{"file", path},
                   {"file_bytes", info.file_bytes},
                   {"model", info.model_path},
                   {"model_name", info.model_name},
                   {"identity", identity}};
    if (!info.lora_file.empty()) {
        object["lora"] = info.lora_file;
        object["lora_scale"] = info.lora_scale;
    }
    if (!info.gate_file.empty()) { object["gate"] = info.gate_file; }
    object["n_tokens"] = info.n_tokens;
    object["n_before"] = info.n_before;
    object["part"] = info.is_part;
    object["policy"] = info.policy;
    object["budget"] = budget_text(info);
    object["budget_entries"] = info.budget_entries;
    object["schedule"] = info.schedule;
    object["type_k"] = to_string(info.options.type_k);
    object["type_v"] = to_string(info.options.type_v);
    object["rotated"] = is_rotated(info.options);
    object["n_layers"] = info.n_layers;
    object["n_lanes"] = info.n_lanes;
    object["kept_entries"] = info.n_entries;
    object["kv_bytes"] = info.kv_bytes;
    object["state_bytes"] = info.state_bytes;
    object["kv_full_bytes"] = info.kv_full_bytes;
    object["cold"] = info.options.cold ? Json(to_string(*info.options.cold)) : Json(nullptr);
    object["cold_entries"] = info.n_cold_entries;
    object["cold_bytes"] = info.cold_bytes;
    object["look_back"] = info.options.look_back;
    object["sections"] = sections;
    object["notes"] = notes;
    return object;
}

// What the evidence is for, where it takes a part of the file that a user sees; empty: it does not.
std::string evidence_text(const CacheFileInfo & info) {
    const auto evidence = std::ranges::find(info.sections, "evidence", &std::pair<std::string, uint64_t>::first);
    const auto policy = named_policy(PolicyChoice(info.policy));  // the file's text
    constexpr uint64_t kShare = 50;                               // of the file's bytes, one in so many
    if (evidence == info.sections.end() || evidence->second < info.file_bytes / kShare || !policy.ok()) { return ""; }
    const EvidenceNeeds needs = policy->needs();
    std::vector<std::string> parts;
    if (needs.any_window()) { parts.push_back("the " + std::to_string(needs.window) + " newest queries"); }
    if (needs.running_sum) { parts.emplace_back("sums of attention"); }
    if (needs.expected_future > 0) { parts.emplace_back("moments of all queries"); }
    if (needs.profile.any()) { parts.emplace_back("a sample of queries"); }
    if (needs.reread_max) { parts.emplace_back("what a second reading looked up"); }
    if (needs.block_attention) { parts.emplace_back("the queries of a block of 256 tokens"); }
    return bytes_text(evidence->second) + ": what the policy's next eviction looks at" +
           (parts.empty() ? "" : ", " + join(parts, ", ") + " of every layer");
}

// What became of the entries that are not kept; empty: all are.
std::string evicted_text(const CacheFileInfo & info) {
    const int64_t n_lanes = std::max<int64_t>(1, info.n_lanes);
    const int64_t n_gone = std::max<int64_t>(0, info.n_tokens - (info.n_entries + info.n_cold_entries) / n_lanes);
    if (info.is_part || (info.n_cold_entries == 0 && n_gone == 0)) { return ""; }
    if (info.n_cold_entries == 0) { return with_commas(n_gone) + " per head on average, and gone"; }
    return with_commas(info.n_cold_entries / n_lanes) + " per head on average, in the file as " +
           std::string(to_string(*info.options.cold)) + ", " + bytes_text(info.cold_bytes) +
           (info.options.look_back ? "; what is read looks back at them" : "") +
           (n_gone > 0 ? "; " + with_commas(n_gone) + " are gone" : "");
}

void print_info(const std::string & path, const CacheFileInfo & info) {
    const auto line = [](const char * name, const std::string & text) {
        std::printf("%-9s %s\n", name, without_controls(text).c_str());
    };
    const int64_t n_lanes = std::max<int64_t>(1, info.n_lanes);
    std::string sections;
    for (const auto & [name, bytes] : info.sections) {
        sections += (sections.empty() ? "" : ", ") + name + " " + bytes_text(bytes);
    }
    line("file", path + ", " + bytes_text(info.file_bytes));
    if (info.is_rows) {
        line("part", kRows);
        return line("sections", sections);
    }
    line("model", info.model_name + " ('" + info.model_path + "')");
    if (!info.lora_file.empty()) { line("adapter", info.lora_file); }
    if (!info.gate_file.empty()) { line("gates", info.gate_file); }
    line("tokens", with_commas(info.n_tokens) + ", " + with_commas(info.n_entries / n_lanes) + " kept per head on average");
    if (info.n_before > 0) {
        line("part", "of a state in a folder: the first " + with_commas(info.n_before) + " tokens are in other files");
    } else if (info.is_part) {
        line("part", "of a state in a folder: what its budget evicted is in other files");
    }
    line("policy", info.policy + ", budget " + budget_text(info) + ", read " + info.schedule);
    line("kv cache", bytes_text(info.kv_bytes + info.state_bytes) + " of " + bytes_text(info.kv_full_bytes) + ", K " +
                         std::string(to_string(info.options.type_k)) + ", V " + std::string(to_string(info.options.type_v)) +
                         (is_rotated(info.options) ? ", rotated" : "") +
                         (info.state_bytes > 0 ? ", " + bytes_text(info.state_bytes) + " of recurrent layers" : ""));
    if (const std::string evicted = evicted_text(info); !evicted.empty()) { line("evicted", evicted); }
    line("sections", sections);
    if (const std::string evidence = evidence_text(info); !evidence.empty()) { line("evidence", evidence); }
}

int info_command(const CacheCommandFlags & flags) {
    const auto info = read_cache_info(flags.file);
    if (!info.ok()) { return fail(info.status()); }
    if (flags.json) {
        print_json(to_json(flags.file, *info));
    } else {
        print_info(flags.file, *info);
    }
    return kExitOk;
}

// Without a model all that needs none; with one, whether it opens, unless it is a part of a state.
int verify_command(CacheCommandFlags flags) {
    const auto file = SessionFile::open(flags.file);
    if (!file.ok()) { return fail(file.status()); }
    const CacheFileInfo & info = file->info();
    if (flags.model.named() && !info.is_part) {
        const Status found = find_model_of(info, flags.file, flags.model);
        if (!found.ok()) { return fail_or_usage(found); }
        const auto model = flags.model.load();
        if (!model.ok()) { return fail(model.status()); }
        const auto session = file->session(*model);
        if (!session.ok()) { return fail(session.status()); }
    }
    if (flags.json) {
        print_json({{"file", flags.file}, {"whole", true}, {"opened", flags.model.named() && !info.is_part}});
    } else {
        const char * more = info.is_rows          ? ": evicted entries, which states in its folder go on from"
                            : info.is_part        ? ": a part of a state, which goes on from other files of its folder"
                            : flags.model.named() ? ", and opens with this model"
                                                  : "";
        std::printf("%s is whole%s\n", without_controls(flags.file).c_str(), more);
    }
    return kExitOk;
}

// One line a file; those that are none, or damaged, are said so.
int list_command(const CacheCommandFlags & flags) {
    std::error_code error;
    std::vector<std::string> paths;
    for (const auto & entry : std::filesystem::directory_iterator(flags.file, error)) {
        if (entry.path().extension() == ".pith") { paths.push_back(entry.path().string()); }
    }
    if (error) { return fail({ErrorCode::kNotFound, "'" + flags.file + "' is no folder that can be read"}); }
    std::ranges::sort(paths);
    Json all = Json::array();
    for (const std::string & path : paths) {
        const auto info = read_cache_info(path);
        if (flags.json) {
            all.push_back(info.ok() ? to_json(path, *info) : Json{{"file", path}, {"error", message_of(info.status())}});
        } else if (info.ok() && info->is_rows) {
            std::printf("%-10s %17s  %s\n", bytes_text(info->file_bytes).c_str(), "",
                        without_controls(std::string(kRows) + "  " + path).c_str());
        } else if (info.ok()) {
            const std::string what = info->model_name + "  " + info->policy + ", budget " + budget_text(*info) + "  " + path;
            std::printf("%-10s %10s tokens  %s\n", bytes_text(info->file_bytes).c_str(), with_commas(info->n_tokens).c_str(),
                        without_controls(what).c_str());
        } else {
            std::printf("%s\n", message_of(info.status()).c_str());
        }
    }
    if (flags.json) { print_json(all); }
    return kExitOk;
}

// Of an engine's folder of states the least recently used go, and what killed processes left; other files stay.
int prune_command(const CacheCommandFlags & flags) {
    const auto size = parse_byte_count("--size", flags.size);
    if (!size.ok()) { return fail_usage(size.status()); }
    std::error_code error;
    if (!std::filesystem::is_directory(flags.file, error)) {
        const std::string why = error ? ": " + error.message() : "";
        return fail({ErrorCode::kNotFound, "'" + flags.file + "' is no folder that can be read" + why});
    }
    const auto store = StateStore::open(flags.file, UINT64_MAX);
    if (!store.ok()) { return fail(store.status()); }
    const StateStore::Contents now = store->prune(*size);
    if (flags.json) {
        print_json({{"folder", flags.file},
                    {"removed", now.n_removed},
                    {"removed_bytes", now.removed_bytes},
                    {"states", now.n_states},
                    {"bytes", now.bytes}});
    } else {
        std::printf("removed %s files, %s; left %s, %s\n", with_commas(now.n_removed).c_str(),
                    bytes_text(now.removed_bytes).c_str(), with_commas(now.n_states).c_str(), bytes_text(now.bytes).c_str());
    }
    return kExitOk;
}

}  // namespace

void add_cache_command(CLI::App & root, int & exit_code) {
    CLI::App * command = root.add_subcommand("cache", "What is in cache files, and whether they are whole");
    command->require_subcommand(1);
    auto flags = std::make_shared<CacheCommandFlags>();
    const auto add_action = [&](const char * name, const char * what) {
        CLI::App * sub = command->add_subcommand(name, what);
        add(*sub, option("--json"), flags->json, "One JSON value on standard output");
        return sub;
    };
    CLI::App * info = add_action("info", "What a cache file holds, and which model it wants");
    info->add_option("FILE", flags->file, "A cache file")->required();
    info->callback([flags, &exit_code] { exit_code = info_command(*flags); });
    CLI::App * verify = add_action("verify", "Whether a cache file is whole; with -m, whether it opens with that model");
    verify->add_option("FILE", flags->file, "A cache file")->required();
    flags->model.add_to(*verify, /*is_required=*/false);
    verify->callback([flags, &exit_code] { exit_code = verify_command(*flags); });
    CLI::App * list = add_action("list", "The cache files (*.pith) of a folder");
    list->add_option("FOLDER", flags->file, "A folder")->required();
    list->callback([flags, &exit_code] { exit_code = list_command(*flags); });
    CLI::App * prune =
        add_action("prune", "Remove the least recently used of an engine's folder of states (pith serve --cache-dir)");
    prune->add_option("FOLDER", flags->file, "A folder")->required();
    prune->add_option("--size", flags->size, "Bytes that what stays may take (500M, 8G); 0: nothing stays")->required();
    prune->callback([flags, &exit_code] { exit_code = prune_command(*flags); });
}

}  // namespace pith::app
