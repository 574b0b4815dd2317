// control_groups.cpp - /proc/self/cgroup, and where its groups lie in /sys/fs/cgroup.
#include "device/control_groups.h"

#include <fstream>

namespace pith {
namespace {

void visit_up_from(const std::string & mount, std::string path, const std::function<void(const std::string & folder)> & visit) {
    for (;;) {
        visit(mount + (path == "/" ? "" : path));
        const size_t slash = path.rfind('/');
        if (path.size() <= 1 || slash == std::string::npos) { return; }
        path = slash == 0 ? "/" : path.substr(0, slash);
    }
}

}  // namespace

void for_each_group(const std::string & root, const std::string & controller,
                    const std::function<void(const std::string & folder, GroupVersion version)> & visit) {
    const std::string mounts = root + "/sys/fs/cgroup";
    const auto one = [&](const std::string & folder) { visit(folder, GroupVersion::kOne); };
    const auto two = [&](const std::string & folder) { visit(folder, GroupVersion::kTwo); };
    std::ifstream groups(root + "/proc/self/cgroup");  // "0::/a/b" (version 2), "4:cpu,cpuacct:/a/b" (version 1)
    for (std::string line; std::getline(groups, line);) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) { continue; }
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) {
            visit_up_from(mounts, path, two);
            visit_up_from(mounts + "/unified", path, two);  // where both versions are mounted
        } else if ((',' + controllers + ',').find(',' + controller + ',') != std::string::npos) {
            visit_up_from(mounts + '/' + controller, path, one);
            if (controllers != controller) { visit_up_from(mounts + '/' + controllers, path, one); }
        }
    }
}

}  // namespace pith
