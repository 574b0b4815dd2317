// device_flags.h - which layers lie on which devices: llama.cpp's names.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pith/devices.h"

namespace pith::app {

struct DeviceFlags {
    std::string rpc;
    std::string names;
    std::string n_layers;  // a number, "all" or "auto"; empty: not given
    std::string split;
    bool kv_offload = false;
    bool no_kv_offload = false;  // today's default, by its name

    // They, and --list-devices, which ends the command where its flags are read.
    void add_to(CLI::App & command);
    // Errors: kInvalidArgument: a usage error.
    Result<DeviceOptions> options() const;
    bool any() const;  // asked for, and no usage error
    // From now on a server that goes ends the program with one line that names the servers.
    void watch() const;

private:
    int print_list() const;  // how the command ends
};

// Of a command that trains, which is done on the CPU: refuses each of the flags by name.
void refuse_devices(CLI::App & command);

}  // namespace pith::app
