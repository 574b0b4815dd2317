// child_process.h - runs a function or a program in a process of its own and collects what it wrote. Stage: probe.
// A fresh process makes its peak of resident memory its own.
// REQUIRES: the calling process has started no threads (a fork keeps only the calling one).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pith/status.h"

namespace pith {

struct ChildOutput {
    std::string text;   // what was written
    int exit_code = 0;  // 128 + signal when a signal ended it
    size_t rss_peak_bytes = 0;
};

// body's text comes back; body runs in the child, and the child ends without running exit handlers.
Result<ChildOutput> run_in_child(const std::function<std::string()> & body);

// command[0] is searched in PATH; working_folder may be empty; the program's stderr is dropped.
Result<ChildOutput> run_program(const std::vector<std::string> & command, const std::string & working_folder);

}  // namespace pith
