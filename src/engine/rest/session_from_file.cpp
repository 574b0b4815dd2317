// session_from_file.cpp - a cache file that was read and checked once: what it says of itself, and the sessions that begin with
// it. Stage: engine.
#include <mutex>
#include <utility>

#include "cache/page_memory.h"
#include "core/check.h"
#include "core/guarded.h"
#include "core/items.h"
#include "engine/parts/model_parts.h"
#include "engine/pass/session_ledger.h"
#include "engine/rest/saved_session.h"
#include "pith/cache_file.h"

namespace pith {
namespace {

CacheFileInfo info_of(const CacheFile & file, const SavedSession & saved) {
    CacheFileInfo info;
    info.file_bytes = file.size_bytes();
    for (const CacheSection & section : file.view().sections()) { info.sections.emplace_back(section.name, section.size); }
    info.is_part = saved.is_part();
    info.is_rows = saved.is_rows;
    if (saved.is_rows) {
        info.cold_bytes = file.view().entry("cold-rows").size;
        return info;
    }
    info.model_name = saved.origin.model_name;
    info.model_path = saved.origin.model_path;
    info.lora_file = saved.origin.lora_file;
    info.lora_scale = saved.origin.lora_scale;
    info.gate_file = saved.origin.gate_file;
    info.model = saved.model;
    info.options = saved.options;
    info.policy = saved.policy;
    info.budget = saved.sequence.budget;
    info.budget_entries = saved.sequence.plan->budget_at(saved.n_tokens());
    info.schedule = saved.sequence.schedule;
    info.n_tokens = saved.n_tokens();
    info.n_before = saved.before.n;
    info.n_layers = std::ssize(saved.layers);
    info.n_lanes = saved.n_governed_lanes();
    info.n_entries = saved.n_governed_entries();
    info.kv_bytes = saved.entries.in_file.size();
    info.state_bytes = saved.states.size_bytes();
    info.kv_full_bytes = saved.window_bytes() + info.state_bytes;
    const CacheLayout layout = saved.layout();
    for (int l = 0; l < layout.n_layers(); ++l) {
        if (!layout.governs(l)) { continue; }
        const auto n_rows =
            static_cast<uint64_t>(info.n_tokens - info.n_before) * static_cast<uint64_t>(layout.lanes(l).n_kv_heads);
        info.kv_full_bytes += n_rows * layout.rows(l).bytes();
    }
    if (saved.cold) {
        info.n_cold_entries = saved.cold->n_entries();
        info.cold_bytes = saved.cold->n_bytes;
    }
    info.notes = saved.notes;
    return info;
}

}  // namespace

// The entries of a file in memory that sessions of one loaded model fork.
class SharedEntries {
public:
    // The session's become those that it shares with others. Null: there is no memory for that, and it is as before.
    static std::shared_ptr<const SharedEntries> share(LiveSession & session) {
        RaggedCache & own = *session.seq.cache;
        if (own.any_in_buckets()) { return nullptr; }  // forks lie in one pool there, which is one thread's
        // Half of them stay for engines, whose kept requests cannot do without.
        if (PageFile::n_open() >= PageFile::most_open(own.layout().n_layers()).n_files / 2) { return nullptr; }
        auto shared = std::make_shared<SharedEntries>(session.file);
        // As many cells as the session would have alone.
        auto cache = RaggedCache::share(session.seq.cache, own.capacity() - own.longest());
        if (!cache.ok()) { return nullptr; }
        shared->cache_ = std::move(*cache);
        return shared;
    }

    explicit SharedEntries(const std::shared_ptr<const ModelFile> & model) : model_(model) {}

    bool is_of(const Model & model) const { return model_.lock().get() == &file_of(model); }
    bool is_of_nobody() const { return model_.expired(); }
    const RaggedCache & cache() const { return *cache_; }

private:
    std::weak_ptr<const ModelFile> model_;      // that a file is open keeps no model in memory
    std::unique_ptr<const RaggedCache> cache_;  // frozen
};

struct SessionFile::Impl {
    Impl(CacheFile of_file, SavedSession of_session, CacheFileInfo of_both)
        : file(std::move(of_file)), saved(std::move(of_session)), info(std::move(of_both)) {}

    CacheFile file;  // mapped
    SavedSession saved;
    CacheFileInfo info;

    // Evidence and tokens are read for each session anew: copies of these may not be used on several threads.
    Result<std::unique_ptr<LiveSession>> open(const Model & model, int n_threads, const RaggedCache * base) const {
        return open_saved(model, saved, file.view(), {.n_threads = n_threads, .base = base});
    }
    Result<std::unique_ptr<LiveSession>> open_to_share(const Model & model, int n_threads) const;

private:
    mutable std::mutex mutex_;
    mutable std::shared_ptr<const SharedEntries> shared_;  // null: nobody has asked for them
};

Result<std::unique_ptr<LiveSession>> SessionFile::Impl::open_to_share(const Model & model, int n_threads) const {
    std::unique_lock lock(mutex_);
    if (!shared_ || shared_->is_of_nobody()) {
        PITH_ASSIGN_OR_RETURN(auto first, open(model, n_threads, nullptr));
        shared_ = SharedEntries::share(*first);
        update_ledger(*first);
        return first;
    }
    const std::shared_ptr<const SharedEntries> shared = shared_;
    lock.unlock();
    if (!shared->is_of(model)) { return open(model, n_threads, nullptr); }
    auto opened = open(model, n_threads, &shared->cache());
    const bool no_memory = opened.status().code() == ErrorCode::kOutOfMemory;
    return no_memory ? open(model, n_threads, nullptr) : std::move(opened);
}

SessionFile::SessionFile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<SessionFile> SessionFile::open(const std::string & path) {
    return guarded([&]() -> Result<SessionFile> {
        PITH_ASSIGN_OR_RETURN(CacheFile file, CacheFile::open(path));
        PITH_ASSIGN_OR_RETURN(SavedSession saved, read_saved(file.view()));
        CacheFileInfo info = info_of(file, saved);
        return SessionFile(std::make_shared<const Impl>(std::move(file), std::move(saved), std::move(info)));
    });
}

const CacheFileInfo & SessionFile::info() const {
    return impl_->info;
}

Result<Session> SessionFile::session(const Model & model, int n_threads, Entries entries) const {
    return guarded([&]() -> Result<Session> {
        PITH_RETURN_IF_ERROR(check_at_least(item::kThreads, n_threads, 0));
        auto opened =
            entries == Entries::kShared ? impl_->open_to_share(model, n_threads) : impl_->open(model, n_threads, nullptr);
        PITH_RETURN_IF_ERROR(opened.status());
        return hand_out(std::move(*opened));
    });
}

Result<Session> Model::open_session(const std::string & path, int n_threads) const {
    PITH_ASSIGN_OR_RETURN(const SessionFile file, SessionFile::open(path));
    return file.session(*this, n_threads, Entries::kOwn);
}

Result<CacheFileInfo> read_cache_info(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const SessionFile file, SessionFile::open(path));
    return file.info();
}

}  // namespace pith
