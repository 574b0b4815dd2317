// hub_cache.h - a folder laid out as Hugging Face's own tools lay out theirs, so that a file fetched by one is there for all:
//   models--USER--REPO/blobs/NAME                 each content once, named by its checksum; NAME.incomplete while it comes
//   models--USER--REPO/snapshots/REVISION/PATH    a link to its blob
//   models--USER--REPO/refs/main                  the revision that "main" was when last asked for
// Source: Hugging Face, "Hub Local Cache". Threads: const-safe; other programs may write at the same time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/models/hub_files.h"
#include "pith/status.h"

namespace pith::app {

class HubCache {
public:
    explicit HubCache(std::filesystem::path root) : root_(std::move(root)) {}

    const std::filesystem::path & root() const { return root_; }
    std::vector<std::string> repos() const;  // sorted

    // What is there of a repository, whole: the files of the newest known "main", then what only other revisions have.
    struct Entry {
        std::string path;               // in the repository
        std::filesystem::path on_disk;  // in the snapshot, so that a split model's parts lie beside it
    };
    std::vector<Entry> files(const std::string & repo) const;

    std::filesystem::path snapshot(const std::string & repo, const std::string & revision) const;
    std::filesystem::path blob(const std::string & repo, const std::string & name) const;

    // Puts the blob into the revision's snapshot. Errors: kIo.
    Status add_to_snapshot(const std::string & repo, const std::string & revision, const HubFile & file) const;
    // Errors: kIo.
    Status set_main(const std::string & repo, const std::string & revision) const;

private:
    std::filesystem::path folder(const std::string & repo) const;
    std::string main_revision(const std::string & repo) const;

    std::filesystem::path root_;
};

}  // namespace pith::app
