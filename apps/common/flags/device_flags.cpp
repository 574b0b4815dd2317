// device_flags.cpp - texts to options, and the list of devices.
#include "common/flags/device_flags.h"

#include <unistd.h>

#include <cstdio>

#include "common/base/errors.h"
#include "common/base/ledger_report.h"
#include "common/options/options.h"
#include "core/parse_integer.h"
#include "core/text.h"
#include "pith/device_failure.h"

namespace pith::app {
namespace {

Status read_layers(const std::string & text, DeviceOptions & options) {
    if (text.empty() || text == "auto") { return {}; }
    if (text == "all") {
        options.n_layers = 1 << 30U;
        return {};
    }
    if (parse_integer(text, options.n_layers) && options.n_layers >= 0) { return {}; }
    return {ErrorCode::kInvalidArgument, "--n-gpu-layers is '" + text + "': give a number of 0 or more, all or auto"};
}

}  // namespace

void DeviceFlags::add_to(CLI::App & command) {
    add(command, option("--rpc"), rpc);
    add(command, option("--device"), names);
    add(command, option("--n-gpu-layers"), n_layers);
    add(command, option("--tensor-split"), split);
    CLI::Option * there = add(command, option("--kv-offload"), kv_offload);
    add(command, option("--no-kv-offload"), no_kv_offload)->excludes(there);
    // Whatever else is missing: it is thrown before anybody asks for a model. Behind --rpc, which has its value by then.
    command
        .add_flag_callback(
            "--list-devices", [this] { throw CLI::RuntimeError(print_list()); },
            "Print the devices there are, those of --rpc too, and end")
        ->group("Devices");
}

void refuse_devices(CLI::App & command) {
    const auto refuse = [](const std::string & name) {
        throw CLI::ValidationError(name, "training runs on the CPU; leave it out");
    };
    for (const OptionRow & row : kDeviceRows) {
        const std::string name(row.names);
        if (row.kind == ValueKind::kNone) { continue; }
        command.add_option_function<std::string>(name, [=](const std::string &) { refuse(name); })->group("");
    }
    command.add_flag_callback("--kv-offload", [=] { refuse("--kv-offload"); })->group("");
}

Result<DeviceOptions> DeviceFlags::options() const {
    PITH_ASSIGN_OR_RETURN(DeviceOptions options, parse_devices(rpc, names, split));
    PITH_RETURN_IF_ERROR(read_layers(n_layers, options));
    options.kv_offload = kv_offload;
    if (options.any() || !kv_offload) { return options; }
    return {ErrorCode::kInvalidArgument,
            "--kv-offload (-kvo) puts keys and values where layers are, and all layers are on the CPU: add -ngl, --device or "
            "--rpc, or leave it out"};
}

bool DeviceFlags::any() const {
    const auto asked = options();
    return asked.ok() && asked->any();
}

void DeviceFlags::watch() const {
    static std::string servers;
    if (rpc.empty()) { return; }
    servers = rpc;
    set_device_failure_handler([](const char * why) {
        fail({ErrorCode::kIo, "an RPC server of --rpc " + servers + " was lost, or cannot do what was asked of it: " + why});
        _exit(kExitFailed);
    });
}

int DeviceFlags::print_list() const {
    const auto options = this->options();
    if (!options.ok()) { return fail_usage(options.status()); }
    watch();
    const auto devices = list_devices(options->rpc_servers);
    if (!devices.ok()) { return fail(devices.status()); }
    if (devices->empty()) { std::puts("no devices beside the CPU"); }
    for (const DeviceInfo & one : *devices) {
        const std::string where = one.server.empty() || one.server == one.description ? "" : " at " + one.server;
        const std::string who = one.name + ": " + one.description + where;  // a server says both
        std::printf("%s (%s, %s free)\n", without_controls(who).c_str(), bytes_text(one.total_bytes).c_str(),
                    bytes_text(one.free_bytes).c_str());
    }
    return kExitOk;
}

}  // namespace pith::app
