// speed_report.h - a measurement of speed for people and for programs.
#pragma once

#include <span>
#include <string>

#include "common/base/ledger_report.h"
#include "speed/policy_speed.h"

namespace pith::app {

// A row for each length, chunk, budget and policy: medians, and how many times faster than the full cache that is.
std::string speed_text(std::span<const PolicySpeed> rows);
Json speed_json(std::span<const PolicySpeed> rows);  // every measurement

}  // namespace pith::app
