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
    bool list = false;

    void add_to(CLI::App & command);
    // Errors: kInvalidArgument: a usage error.
    Result<DeviceOptions> options() const;
    // From now on a server that goes ends the program with one line that names the servers.
    void watch() const;
    // --list-devices: prints them, and returns how the command ends.
    int print_list() const;
};

}  // namespace pith::app
