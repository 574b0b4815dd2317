// bench_lists.cpp - lists of values, checked, and shown in the table.
#include "common/bench/bench_lists.h"

#include <algorithm>

#include "common/options/options.h"
#include "core/text.h"

namespace pith::app {
namespace {

constexpr size_t kColumn = 8;  // characters, the space behind it included

std::string padded(const std::string & text) {
    return std::string(text.size() + 1 < kColumn ? kColumn - 1 - text.size() : 0, ' ') + text + " ";
}

}  // namespace

void BenchListFlags::add_to(CLI::App & command) {
    const auto list = [&](const char * names, auto & values, const std::string & help) {
        command.add_option(names, values, help)->delimiter(',')->transform(thousands());
    };
    const std::string several = "; several between ','";
    const auto instead = [&](const OptionRow & row, auto & values) {
        command.remove_option(command.get_option(std::string(long_name(row))));
        add(command, row, values, std::string(row.help) + several)->delimiter(',');
    };
    instead(option("--threads"), threads);
    instead(option("--cache-type-k"), types_k);
    instead(option("--cache-type-v"), types_v);
    instead(option("--chunk"), chunks);
    instead(option("--budget"), budgets);
    list("-p,--n-prompt", prompts, "Tokens of the timed prompt" + several + " (default: 512)");
    list("-n,--n-predict", generates, "Tokens of the timed decode" + several + " (default: 32)");
}

Status BenchListFlags::check(const std::string & mode) const {
    if (mode.empty()) { return {}; }
    const auto one_at_most = [&](const char * name, const auto & values) -> Status {
        if (values.size() <= 1) { return {}; }
        return {ErrorCode::kInvalidArgument, std::string(name) + " has " + std::to_string(values.size()) + " values, " + mode +
                                                 " measures with one: give one, or leave out " + mode};
    };
    if (mode != "--gates") { PITH_RETURN_IF_ERROR(one_at_most("-p", prompts)); }
    if (mode != "--in-turns") { PITH_RETURN_IF_ERROR(one_at_most("--budget", budgets)); }
    PITH_RETURN_IF_ERROR(one_at_most("-n", generates));
    PITH_RETURN_IF_ERROR(one_at_most("-t", threads));
    PITH_RETURN_IF_ERROR(one_at_most("--chunk", chunks));
    PITH_RETURN_IF_ERROR(one_at_most("-ctk", types_k));
    return one_at_most("-ctv", types_v);
}

void BenchListFlags::give_first(int & n_prompt, int & n_generate, SessionFlags & session) const {
    const auto give = [](const auto & values, auto & to) {
        if (!values.empty()) { to = values.front(); }
    };
    give(prompts, n_prompt);
    give(generates, n_generate);
    give(threads, session.n_threads);
    give(chunks, session.chunk);
    give(types_k, session.cache.type_k);
    give(types_v, session.cache.type_v);
    give(budgets, session.budget);
}

Result<BenchLists> BenchListFlags::read() const {
    BenchLists lists;
    lists.prompts = prompts;
    lists.generates = generates;
    lists.threads = threads;
    lists.chunks = chunks;
    for (const std::string & name : types_k) { PITH_ASSIGN_OR_RETURN(lists.types_k.emplace_back(), parse_kv_type(name)); }
    for (const std::string & name : types_v) { PITH_ASSIGN_OR_RETURN(lists.types_v.emplace_back(), parse_kv_type(name)); }
    for (const std::string & text : budgets) { PITH_ASSIGN_OR_RETURN(lists.budgets.emplace_back(), Budget::parse(text)); }
    return lists;
}

std::string numbers_text(const std::vector<int> & list, int one) {
    if (list.empty()) { return std::to_string(one); }
    std::vector<std::string> texts;
    std::ranges::transform(list, std::back_inserter(texts), [](int n) { return std::to_string(n); });
    return join(texts, ", ");
}

VariedColumns::VariedColumns(const BenchLists & lists) {
    const auto add = [&](const auto & list, const char * name, std::function<std::string(const BenchRow &)> text) {
        if (list.size() > 1) { columns_.push_back({name, std::move(text)}); }
    };
    add(lists.threads, "threads", [](const BenchRow & row) { return std::to_string(row.n_threads); });
    add(lists.types_k, "K", [](const BenchRow & row) { return std::string(to_string(row.type_k)); });
    add(lists.types_v, "V", [](const BenchRow & row) { return std::string(to_string(row.type_v)); });
    add(lists.prompts, "prompt", [](const BenchRow & row) { return std::to_string(row.n_prompt); });
    add(lists.generates, "decode", [](const BenchRow & row) { return std::to_string(row.n_generate); });
    add(lists.chunks, "chunk", [](const BenchRow & row) { return std::to_string(row.chunk); });
}

std::string VariedColumns::header() const {
    std::string text;
    for (const Column & column : columns_) { text += padded(column.name); }
    return text;
}

std::string VariedColumns::cells(const BenchRow & row) const {
    std::string text;
    for (const Column & column : columns_) { text += padded(column.text(row)); }
    return text;
}

}  // namespace pith::app
