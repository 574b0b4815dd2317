// options.h - the table of the command line's options, and how a command takes one from it: add(command, option("--model"),
// path).
//
// A row is there for every option that several commands have, and for every other one whose value, item or name in llama.cpp
// somebody must know. What a command alone has and its type says all about is added where the command is.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "common/options/device_rows.h"
#include "common/options/measuring_rows.h"
#include "common/options/model_rows.h"
#include "common/options/option_row.h"
#include "common/options/prompt_rows.h"
#include "common/options/sampling_rows.h"
#include "common/options/serving_rows.h"
#include "common/options/session_rows.h"
#include "common/options/template_rows.h"

namespace pith::app {

template <size_t n>
constexpr auto under(std::string_view heading, std::array<OptionRow, n> rows) {
    for (OptionRow & row : rows) { row.group = heading; }
    return rows;
}

template <size_t... n>
constexpr auto joined(const std::array<OptionRow, n> &... groups) {
    std::array<OptionRow, (n + ...)> all;
    size_t next = 0;
    const auto append = [&](const auto & group) {
        for (const OptionRow & row : group) { all[next++] = row; }
    };
    (append(groups), ...);
    return all;
}

inline constexpr const char * kCacheHeading = "KV cache and budget";
inline constexpr const char * kTextHeading = "Prompt and answer";
inline constexpr const char * kFilesHeading = "Cache files";

inline constexpr auto kOptions =
    joined(under("Model", kModelRows), under("Devices", kDeviceRows), under(kCacheHeading, kSessionRows),
           under(kTextHeading, kPromptRows), under("Chat template", kTemplateRows), under("Sampling", kSamplingRows),
           kServingRows, kMeasuringRows);

// The row that has this name ("-m" or "--model"); nullptr: none has it.
constexpr const OptionRow * find_option(std::string_view name) {
    for (const OptionRow & row : kOptions) {
        if (has_word(row.names, ',', name)) { return &row; }
    }
    return nullptr;
}

// The same for a name that stands in the source: one that no row has does not compile.
consteval const OptionRow & option(std::string_view name) {
    const OptionRow * row = find_option(name);
    if (row == nullptr) { throw std::invalid_argument("no row has this name"); }
    return *row;
}

// Whether two of the rows share a name, be it llama.cpp's.
template <class Rows>
constexpr bool has_name_twice(const Rows & rows) {
    const auto count = [&](std::string_view name) {
        int n = 0;
        for (const OptionRow & row : rows) {
            const auto same = [&](std::string_view one) {
                n += one == name ? 1 : 0;
                return false;
            };
            any_word(row.names, ',', same);
            any_word(row.llama_names, ' ', same);
        }
        return n;
    };
    const auto twice = [&](std::string_view name) { return count(name) > 1; };
    for (const OptionRow & row : rows) {
        if (any_word(row.names, ',', twice) || any_word(row.llama_names, ' ', twice)) { return true; }
    }
    return false;
}
static_assert(!has_name_twice(kOptions));
static_assert(item::has_all(kOptions) && item::has_all(kOptions, item::kOfMeasuring));

// 4k and 4K are 4096, and 010 is ten, where a whole number is wanted.
CLI::Validator thousands();

// A whole number, or what holds some.
template <class T>
inline constexpr bool kCounts = std::is_integral_v<T>;
template <class T>
inline constexpr bool kCounts<std::optional<T>> = kCounts<T>;
template <class T>
inline constexpr bool kCounts<std::vector<T>> = kCounts<T>;

// Adds the row's option to the command, where its value goes to `value`; a flag's is a bool.
// help: in place of the row's, where the command means something of its own by it.
template <class T>
CLI::Option * add(CLI::App & command, const OptionRow & row, T & value, const std::string & help = "") {
    const std::string names(row.names);
    const std::string text = help.empty() ? std::string(row.help) : help;
    CLI::Option * added = nullptr;
    if constexpr (std::is_same_v<T, bool>) {
        added = command.add_flag(names, value, text);
    } else {
        added = command.add_option(names, value, text);
        if constexpr (kCounts<T>) { added->transform(thousands()); }
    }
    if (!row.group.empty()) { added->group(std::string(row.group)); }
    return added;
}

}  // namespace pith::app
