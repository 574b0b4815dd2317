// control_groups.h - the folders of the control groups that hold this process. Stage: device.
#pragma once

#include <functional>
#include <string>

namespace pith {

enum class GroupVersion { kOne, kTwo };

// Calls visit(folder, version) for the process's own group and for all above it, of every hierarchy that has the controller
// ("memory", "cpu"): each may hold a limit, and the least counts. Folders that are not there are named, too: a container sees
// its own group as the root, under a path of the host's. root: in front of /proc and /sys, for tests.   Cost: one small read.
// Nothing is visited where there is no /proc.
void for_each_group(const std::string & root, const std::string & controller,
                    const std::function<void(const std::string & folder, GroupVersion version)> & visit);

}  // namespace pith
