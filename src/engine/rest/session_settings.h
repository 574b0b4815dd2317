// session_settings.h - a session's options in a cache file, and which of them is another. Stage: engine.
#pragma once

#include <optional>
#include <string>

#include "pith/session.h"
#include "pith/status.h"

namespace pith {

class ByteReader;
class ByteWriter;

// All but n_threads; head importances as their numbers.
void write_settings(const SessionOptions & options, ByteWriter & to);
// Errors: kBadFile: they are none; says which.
Result<SessionOptions> read_settings(ByteReader & from);

void write_budget(const Budget & budget, ByteWriter & to);
Result<Budget> read_budget(ByteReader & from);

// Whether rows of the type are rotated before they are rounded.
bool is_rotated(KvType type, const SessionOptions & options);

// The first that what is computed depends on and that is another, in words; heads by their numbers, whatever file they are of.
struct SettingDifference {
    std::string name, saved, here;
};
std::optional<SettingDifference> first_difference(const SessionOptions & saved, const SessionOptions & here);

}  // namespace pith
