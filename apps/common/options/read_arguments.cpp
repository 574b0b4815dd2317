// read_arguments.cpp - one walk over the arguments, with the command that each of them is for.
#include "common/options/read_arguments.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/options/options.h"

namespace pith::app {
namespace {

bool is_negative_number(const std::string & text) {
    return text.size() > 1 && text[0] == '-' && std::isdigit(static_cast<unsigned char>(text[1])) != 0;
}

bool is_flag(const std::string & text) {
    return text.size() > 1 && text[0] == '-' && text != "--" && !is_negative_number(text);
}

// Cut at the sign: "-ngl=99", "--flash-attn=on".
struct Flag {
    std::string name;
    std::string value;  // behind the sign
    bool has_value = false;
};
Flag parse_flag(const std::string & argument) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) { return {argument, "", false}; }
    return {argument.substr(0, equals), argument.substr(equals + 1), true};
}

const CLI::App * find_command(const CLI::App & parent, const std::string & name) {
    const auto found = parent.get_subcommands([&](const CLI::App * one) { return one->get_name() == name; });
    return found.empty() ? nullptr : found.front();
}

// Pith's name of an option that llama.cpp calls `name`; empty: it is none.
std::string_view name_of_llamas(std::string_view name, std::string_view command) {
    for (const OptionRow & row : kOptions) {
        if (!has_word(row.llama_names, ' ', name)) { continue; }
        if (row.llama_in.empty() || has_word(row.llama_in, ' ', command)) { return long_name(row); }
    }
    return {};
}

template <class Row>
const Row * find_row(std::span<const Row> rows, std::string_view name, std::string_view command) {
    const auto is_it = [&](std::string_view one) {
        return one.ends_with('*') ? name.starts_with(one.substr(0, one.size() - 1)) : one == name;
    };
    const auto found = std::ranges::find_if(rows, [&](const Row & row) {
        return (row.command.empty() || row.command == command) && any_word(row.names, ' ', is_it);
    });
    return found == rows.end() ? nullptr : &*found;
}

constexpr char kNoList = '\x1f';  // behind a word

class ArgumentReader {
public:
    ArgumentReader(const CLI::App & root, const std::vector<std::string> & arguments, const LlamaFlags & llama)
        : in_(arguments), llama_(llama), command_(&root) {
        // Flags in front of the command's name are for it, too.
        const auto word = std::ranges::find_if(in_, [](const std::string & one) { return !one.starts_with('-'); });
        if (word != in_.end()) { enter(*word); }
    }

    Result<std::vector<std::string>> run() {
        while (at_ < in_.size()) {
            const std::string & argument = in_[at_];
            if (is_flag(argument)) {
                PITH_RETURN_IF_ERROR(read_flag(parse_flag(argument)));
                continue;
            }
            enter(argument);
            const bool looks_like_list = argument.starts_with('[') && argument.ends_with(']');
            const bool is_word = looks_like_list && command_->get_option_no_throw(kPromptWords) != nullptr;
            out_.push_back(in_[at_++] + (is_word ? std::string(1, kNoList) : ""));
        }
        return std::move(out_);
    }

private:
    // Goes on in the command of this name, if there is one below the present one: `train`, then `gate`.
    void enter(const std::string & word) {
        if (const CLI::App * below = find_command(*command_, word)) { command_ = below; }
    }

    Status read_flag(const Flag & flag) {
        const std::string & command = command_->get_name();
        const bool knows_llama = has_word(llama_.commands, ' ', command);
        if (const auto * row = knows_llama ? find_row(llama_.taken, flag.name, command) : nullptr) {
            if (const size_t n = length_if_taken(*row, flag); n > 0) {
                at_ += n;
                return {};
            }
        }
        if (const std::string_view ours = name_of_llamas(flag.name, command); !ours.empty()) {
            keep(std::string(ours) + (flag.has_value ? "=" + flag.value : ""));
            return {};
        }
        const bool is_own = command_->get_option_no_throw(flag.name) != nullptr;
        if (const auto * row = knows_llama && !is_own ? find_row(llama_.refused, flag.name, command) : nullptr) {
            return {ErrorCode::kInvalidArgument, flag.name + " is llama.cpp's: " + std::string(row->instead)};
        }
        keep(in_[at_]);
        return {};
    }

    // How many arguments the flag and its value are, where they ask for what Pith does anyway; else 0.
    size_t length_if_taken(const TakenFlags & row, const Flag & flag) const {
        if (row.values.empty()) { return flag.has_value ? 0 : 1; }
        if (flag.has_value) { return has_word(row.values, ' ', flag.value) ? 1 : 0; }
        const bool has_next = at_ + 1 < in_.size();
        if (has_next && has_word(row.values, ' ', in_[at_ + 1])) { return 2; }
        // Some of llama.cpp's switches may stand alone.
        const bool is_switch = row.values.starts_with("on ") && (!has_next || in_[at_ + 1].starts_with('-'));
        return is_switch ? 1 : 0;
    }

    // A flag, with the value that follows it: in one argument where that begins like a flag itself and is a number.
    void keep(std::string flag) {
        const Flag parsed = parse_flag(flag);
        ++at_;
        const bool has_next = !parsed.has_value && at_ < in_.size();
        if (has_next && is_negative_number(in_[at_])) { flag += (flag[1] == '-' ? "=" : "") + in_[at_++]; }
        const bool is_joined = flag.size() > parsed.name.size();
        out_.push_back(std::move(flag));
        if (has_next && !is_joined && takes_value(parsed.name)) { out_.push_back(in_[at_++]); }
    }

    // Of the command or of one above it, whose options it takes, too.
    bool takes_value(const std::string & name) const {
        for (const CLI::App * command = command_; command != nullptr; command = command->get_parent()) {
            const CLI::Option * option = command->get_option_no_throw(name);
            if (option != nullptr) { return option->get_items_expected_min() > 0; }
        }
        return false;
    }

    const std::vector<std::string> & in_;
    const LlamaFlags & llama_;
    const CLI::App * command_;  // that was named last
    std::vector<std::string> out_;
    size_t at_ = 0;
};

}  // namespace

std::string as_typed(std::string word) {
    if (word.ends_with(kNoList)) { word.pop_back(); }
    return word;
}

Result<std::vector<std::string>> read_arguments(const CLI::App & root, const std::vector<std::string> & arguments,
                                                const LlamaFlags & llama) {
    return ArgumentReader(root, arguments, llama).run();
}

}  // namespace pith::app
