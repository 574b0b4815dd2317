// ledger_report.h - a ledger for people (a few lines) and for programs (JSON keys).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "pith/ledger.h"

namespace pith::app {

using Json = nlohmann::ordered_json;

// Sums counts and times of two sessions, and takes the larger of sizes and peaks.
Ledger combined(const Ledger & first, const Ledger & second);
// What was read, said and evicted, and how long it took, without what the ledger had counted before.
Ledger since(const Ledger & ledger, const Ledger & before);

void add_ledger(Json & object, const Ledger & ledger);
std::string ledger_lines(const Ledger & ledger);  // ends with a newline
std::string policy_text(const Ledger & ledger);   // "snapkv", "laprox (auto: the question is in sight)"
std::string bytes_text(size_t bytes);             // "36.0 MiB"
// "RPC0 (host:port): layers 0-5 and the output, 12.0 MiB of weights"
std::string device_text(const DeviceUse & use);
Json device_json(const DeviceUse & use);

// One JSON value on stdout; text that is not UTF-8 is replaced, never refused.
void print_json(const Json & value);

}  // namespace pith::app
