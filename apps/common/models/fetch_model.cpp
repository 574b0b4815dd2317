// fetch_model.cpp - the steps from a reference to a file.
#include "common/models/fetch_model.h"

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "common/base/errors.h"
#include "common/base/flag_names.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/models/download.h"
#include "common/models/hub_cache.h"
#include "core/text.h"

namespace pith::app {
namespace {

namespace fs = std::filesystem;

// Ctrl-C asks while it lives; then it is as it was.
class InterruptGuard {
public:
    InterruptGuard() = default;
    ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
    InterruptGuard(const InterruptGuard &) = delete;
    InterruptGuard & operator=(const InterruptGuard &) = delete;
    const std::atomic<bool> & flag() const { return flag_; }

private:
    static struct sigaction current() {
        struct sigaction action = {};
        sigaction(SIGINT, nullptr, &action);
        return action;
    }

    struct sigaction before_ = current();  // first
    const std::atomic<bool> & flag_ = catch_interrupt();
};

// The first part on this machine, of whichever revision.
Result<std::string> find_here(const HfReference & reference, const FetchOptions & options) {
    Status status(ErrorCode::kNotFound, "'" + reference.repo + "' is not on this machine");
    for (const std::string & folder : options.caches) {
        std::vector<HubFile> files;
        const auto entries = HubCache(folder).files(reference.repo);
        for (const HubCache::Entry & entry : entries) { files.push_back({.path = entry.path, .sha256 = "", .blob = ""}); }
        const auto chosen = choose_model(files, reference, options.file);
        if (!chosen.ok()) {
            if (!entries.empty()) { status = chosen.status(); }
            continue;
        }
        for (const HubCache::Entry & entry : entries) {
            if (entry.path == chosen->front().path) { return entry.on_disk.string(); }
        }
    }
    return status;
}

class ModelFetch {
public:
    ModelFetch(const HfReference & reference, const FetchOptions & options, const HubRepo & repo,
               const std::atomic<bool> & cancel)
        : reference_(reference), options_(options), repo_(repo), cancel_(cancel), cache_(options.caches.front()) {}

    Result<std::string> run() {
        PITH_ASSIGN_OR_RETURN(files_, choose_model(repo_.files, reference_, options_.file));
        for (const std::string & folder : options_.caches) {
            const fs::path top = HubCache(folder).snapshot(reference_.repo, repo_.revision);
            if (!all_in(top)) { continue; }
            // Where an earlier run could not write it down; a cache that cannot be written serves as well.
            if (folder == options_.caches.front()) { static_cast<void>(cache_.set_main(reference_.repo, repo_.revision)); }
            return (top / files_.front().path).string();
        }
        PITH_RETURN_IF_ERROR(check_room());
        for (size_t i = 0; i < files_.size(); ++i) { PITH_RETURN_IF_ERROR(fetch(i)); }
        PITH_RETURN_IF_ERROR(cache_.set_main(reference_.repo, repo_.revision));
        return (cache_.snapshot(reference_.repo, repo_.revision) / files_.front().path).string();
    }

private:
    bool all_in(const fs::path & snapshot) const {
        std::error_code error;
        for (const HubFile & file : files_) {
            if (!fs::exists(snapshot / file.path, error)) { return false; }
        }
        return true;
    }

    std::string blob(const HubFile & file) const { return cache_.blob(reference_.repo, file.blob).string(); }

    bool is_there(const HubFile & file) const {
        std::error_code error;
        const uintmax_t size = fs::file_size(blob(file), error);
        return !error && size == file.size;
    }

    Status check_room() const {
        std::error_code error;
        fs::create_directories(cache_.blob(reference_.repo, ""), error);
        const std::string & root = cache_.root().string();
        if (error) {
            return {ErrorCode::kIo, "cannot write '" + root + "': " + error.message() + "; HF_HUB_CACHE names another folder"};
        }
        uint64_t wanted = 0;
        for (const HubFile & file : files_) {
            if (!is_there(file)) { wanted += file.size - std::min(file.size, bytes_of_earlier(blob(file))); }
        }
        const fs::space_info space = fs::space(root, error);
        if (error || space.available >= wanted) { return {}; }
        return {ErrorCode::kIo, "'" + reference_.text() + "' needs " + bytes_text(wanted) + " in '" + root + "', where " +
                                    bytes_text(space.available) +
                                    " are free: make room, or name another folder with HF_HUB_CACHE"};
    }

    Status fetch(size_t i) {
        const HubFile & file = files_[i];
        if (!is_there(file)) {
            const std::string of =
                files_.size() > 1 ? " (" + std::to_string(i + 1) + " of " + std::to_string(files_.size()) + ")" : "";
            const uint64_t earlier = bytes_of_earlier(blob(file));
            std::fprintf(stderr, "fetching %s%s, %s%s, from %s into %s\n", without_controls(file.path).c_str(), of.c_str(),
                         bytes_text(file.size).c_str(), earlier > 0 ? (" (" + bytes_text(earlier) + " are here)").c_str() : "",
                         options_.hub.endpoint.c_str(), cache_.root().c_str());
            const Status status = download({.url = file_url(options_.hub, reference_.repo, repo_.revision, file.path),
                                            .token = options_.hub.token,
                                            .to = blob(file),
                                            .size = file.size,
                                            .sha256 = file.sha256,
                                            .label = "fetching" + of,
                                            .cancel = &cancel_});
            if (status.code() == ErrorCode::kCancelled) {
                std::fprintf(stderr, "%s of %s are kept: the same command goes on there\n",
                             bytes_text(bytes_of_earlier(blob(file))).c_str(), bytes_text(file.size).c_str());
            }
            PITH_RETURN_IF_ERROR(status);
        }
        return cache_.add_to_snapshot(reference_.repo, repo_.revision, file);
    }

    const HfReference & reference_;
    const FetchOptions & options_;
    const HubRepo & repo_;
    const std::atomic<bool> & cancel_;
    HubCache cache_;
    std::vector<HubFile> files_;
};

}  // namespace

Result<std::string> fetch_model(const HfReference & reference, const FetchOptions & options) {
    if (options.caches.empty()) { return {ErrorCode::kNotFound, "there is no folder to fetch into: set HOME or HF_HUB_CACHE"}; }
    auto here = find_here(reference, options);
    if (options.offline) {
        if (here.ok()) { return here; }
        return {here.status().code(), here.status().wording() + ": without --offline it is fetched"};
    }
    const InterruptGuard interrupt;
    Hub hub = options.hub;
    hub.cancel = &interrupt.flag();
    const auto repo = ask_hub(hub, reference.repo);
    if (repo.ok()) { return ModelFetch(reference, options, *repo, interrupt.flag()).run(); }
    if (!here.ok() || repo.status().code() == ErrorCode::kCancelled) { return repo.status(); }
    warn(message_of(repo.status()) + "; taking what is there: '" + *here + "'");
    return here;
}

}  // namespace pith::app
