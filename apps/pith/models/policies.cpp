// policies.cpp - `pith policies`: what may be kept, by which paper, with which options.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/base/ledger_report.h"
#include "common/options/options.h"
#include "pith/policies.h"

namespace pith::app {
namespace {

Json to_json(const std::vector<PolicyInfo> & policies) {
    Json list = Json::array();
    for (const PolicyInfo & policy : policies) {
        Json options = Json::array();
        for (const OptionInfo & option : policy.options) {
            options.push_back({{"name", option.name}, {"default", option.default_value}, {"help", option.help}});
        }
        list.push_back({{"name", policy.name},
                        {"kind", policy.kind},
                        {"paper", policy.paper},
                        {"options", options},
                        {"help", policy.help},
                        {"formula", policy.formula},
                        {"needs", policy.needs},
                        {"meaning", policy.meaning}});
    }
    return list;
}

void print_table(const std::vector<PolicyInfo> & policies) {
    std::puts(
        "A policy is a scorer, then + refiner, + allocator, + selector as wanted, with gated+ in front where gates decide\n"
        "what is cached at all; options after ':'.");
    std::puts("Example: --policy snapkv:window=16+ada   Alias: a name for a whole policy.");
    std::string kind;
    for (const PolicyInfo & policy : policies) {
        if (policy.kind != kind) {
            kind = policy.kind;
            std::printf("\n%s\n", kind.c_str());
        }
        const std::string help = policy.meaning.empty() ? policy.help : policy.meaning + ": " + policy.help;
        std::printf("  %-12s %s\n", policy.name.c_str(), help.c_str());
        if (!policy.paper.empty()) { std::printf("  %-12s   %s\n", "", policy.paper.c_str()); }
        for (const OptionInfo & option : policy.options) {
            std::printf("  %-12s   %s=%s  %s\n", "", option.name.c_str(), option.default_value.c_str(), option.help.c_str());
        }
    }
}

}  // namespace

void add_policies_command(CLI::App & root, int & exit_code) {
    auto json = std::make_shared<bool>(false);
    CLI::App * command = root.add_subcommand("policies", "List every policy, its paper and its options");
    add(*command, option("--json"), *json, "One JSON array on standard output");
    command->callback([json, &exit_code] {
        const std::vector<PolicyInfo> policies = list_policies();
        if (*json) {
            print_json(to_json(policies));
        } else {
            print_table(policies);
        }
        exit_code = kExitOk;
    });
}

}  // namespace pith::app
