// bench_child.cpp - results as JSON, errors as a line that begins with '!'.
#include "engine/probe/bench_child.h"

#include <filesystem>

#include "device/cpu_count.h"
#include "engine/probe/child_process.h"

namespace pith {

using Json = nlohmann::json;

Result<Json> measure_in_child(const std::string & name, const std::function<Result<Json>()> & body) {
    const auto ran = run_in_child([&] {
        const auto measured = body();
        return measured.ok() ? measured->dump() : "!" + measured.status().message();
    });
    if (!ran.ok()) { return ran.status(); }
    const ChildOutput & child = *ran;
    if (child.exit_code != 0 || child.text.empty()) {
        return {ErrorCode::kInternal, "the measurement of " + name + " ended with code " + std::to_string(child.exit_code) +
                                          (child.exit_code == 137 ? " (out of memory?)" : "")};
    }
    if (child.text.starts_with('!')) { return {ErrorCode::kInvalidArgument, child.text.substr(1)}; }
    Json json = Json::parse(child.text, nullptr, false);
    if (json.is_discarded()) { return {ErrorCode::kInternal, "a measurement came back damaged"}; }
    return json;
}

std::vector<std::string> llama_command(const LlamaBench & program, const std::string & model_path,
                                       const SessionOptions & session) {
    std::vector<std::string> command = program.command;
    const int n_threads = session.n_threads > 0 ? session.n_threads : available_cpus();
    command.insert(command.end(),
                   {"-m", std::filesystem::absolute(model_path).string(), "-t", std::to_string(n_threads), "-ctk",
                    std::string(to_string(session.type_k)), "-ctv", std::string(to_string(session.type_v))});
    return command;
}

}  // namespace pith
