// hub_cache.cpp - reads and extends the cache. Folders that cannot be read are as good as empty.
#include "common/models/hub_cache.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "file/new_file.h"

namespace pith::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";

Status io_error(const fs::path & path, const std::error_code & error) {
    return {ErrorCode::kIo, "cannot write '" + path.string() + "': " + error.message()};
}

std::vector<fs::path> folders_in(const fs::path & parent) {
    std::vector<fs::path> folders;
    std::error_code error;
    for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
        if (it->is_directory(error)) { folders.push_back(it->path()); }
        error.clear();
    }
    std::ranges::sort(folders);
    return folders;
}

}  // namespace

fs::path HubCache::folder(const std::string & repo) const {
    std::string name(kPrefix);
    for (const char c : repo) { name += c == '/' ? std::string("--") : std::string(1, c); }
    return root_ / name;
}

fs::path HubCache::snapshot(const std::string & repo, const std::string & revision) const {
    return folder(repo) / "snapshots" / revision;
}

fs::path HubCache::blob(const std::string & repo, const std::string & name) const {
    return folder(repo) / "blobs" / name;
}

std::vector<std::string> HubCache::repos() const {
    std::vector<std::string> repos;
    for (const fs::path & path : folders_in(root_)) {
        std::string name = path.filename().string();
        if (!name.starts_with(kPrefix)) { continue; }
        name.erase(0, kPrefix.size());
        const size_t cut = name.find("--");
        if (cut != std::string::npos) { name.replace(cut, 2, "/"); }
        repos.push_back(std::move(name));
    }
    return repos;
}

std::string HubCache::main_revision(const std::string & repo) const {
    std::ifstream file(folder(repo) / "refs" / "main");
    std::string revision;
    file >> revision;
    return is_hex(revision, 40) ? revision : std::string();
}

std::vector<HubCache::Entry> HubCache::files(const std::string & repo) const {
    std::vector<fs::path> snapshots = folders_in(folder(repo) / "snapshots");
    const std::string main = main_revision(repo);
    std::stable_partition(snapshots.begin(), snapshots.end(), [&](const fs::path & path) { return path.filename() == main; });
    std::vector<Entry> entries;
    std::set<std::string> seen;
    for (const fs::path & top : snapshots) {
        std::error_code error;
        std::vector<Entry> here;
        constexpr auto kOptions = fs::directory_options::skip_permission_denied;
        for (fs::recursive_directory_iterator it(top, kOptions, error), end; !error && it != end; it.increment(error)) {
            std::error_code broken;  // a link whose blob is gone
            if (!fs::is_regular_file(it->path(), broken)) { continue; }
            here.push_back({it->path().lexically_relative(top).generic_string(), it->path()});
        }
        std::ranges::sort(here, {}, &Entry::path);
        for (Entry & entry : here) {
            if (seen.insert(entry.path).second) { entries.push_back(std::move(entry)); }
        }
    }
    return entries;
}

Status HubCache::add_to_snapshot(const std::string & repo, const std::string & revision, const HubFile & file) const {
    const fs::path link = snapshot(repo, revision) / file.path;
    const fs::path target = blob(repo, file.blob);
    std::error_code error;
    if (fs::exists(link, error)) { return {}; }
    fs::create_directories(link.parent_path(), error);
    if (error) { return io_error(link.parent_path(), error); }
    fs::remove(link, error);  // a link to a blob that was deleted
    fs::create_symlink(target.lexically_relative(link.parent_path()), link, error);
    std::error_code unseen;
    if (error && fs::exists(link, unseen)) { return {}; }  // another process was faster
    if (error) { fs::rename(target, link, error); }        // a file system without links
    return error ? io_error(link, error) : Status();
}

Status HubCache::set_main(const std::string & repo, const std::string & revision) const {
    if (main_revision(repo) == revision) { return {}; }
    const fs::path path = folder(repo) / "refs" / "main";
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    PITH_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path.string()));
    PITH_RETURN_IF_ERROR(file.write(revision.data(), revision.size()));
    return file.publish();
}

}  // namespace pith::app
