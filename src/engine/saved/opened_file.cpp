// opened_file.cpp - a cache file that was read and checked once: what it says of itself, and the sessions that begin with it.
// Stage: engine.
#include <utility>

#include "core/guarded.h"
#include "engine/saved/saved_session.h"
#include "engine/session_impl.h"
#include "pith/cache_file.h"

namespace pith {
namespace {

CacheFileInfo info_of(const CacheFile & file, const SavedSession & saved) {
    CacheFileInfo info;
    info.file_bytes = file.size_bytes();
    for (const CacheSection & section : file.view().sections()) { info.sections.emplace_back(section.name, section.size); }
    info.model_name = saved.origin.model_name;
    info.model_path = saved.origin.model_path;
    info.lora_file = saved.origin.lora_file;
    info.lora_scale = saved.origin.lora_scale;
    info.gate_file = saved.origin.gate_file;
    info.model = saved.model;
    info.options = saved.options;
    info.policy = saved.policy;
    info.budget = saved.budget;
    info.budget_entries = saved.plan.budget;
    info.schedule = saved.schedule;
    info.n_tokens = std::ssize(saved.tokens);
    info.n_layers = std::ssize(saved.layers);
    info.n_lanes = saved.n_governed_lanes();
    info.n_entries = saved.n_governed_entries();
    info.kv_bytes = saved.rows.size();
    info.state_bytes = saved.state_bytes();
    info.kv_full_bytes = saved.window_bytes() + info.state_bytes;
    const CacheLayout layout = saved.layout();
    for (int l = 0; l < layout.n_layers(); ++l) {
        if (!layout.governs(l)) { continue; }
        const auto n_rows = static_cast<uint64_t>(info.n_tokens) * static_cast<uint64_t>(layout.lanes(l).n_kv_heads);
        info.kv_full_bytes += n_rows * layout.rows(l).bytes();
    }
    info.notes = saved.notes;
    return info;
}

}  // namespace

struct SessionFile::Impl {
    CacheFile file;  // mapped
    SavedSession saved;
    CacheFileInfo info;
};

SessionFile::SessionFile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<SessionFile> SessionFile::open(const std::string & path) {
    return guarded([&]() -> Result<SessionFile> {
        PITH_ASSIGN_OR_RETURN(CacheFile file, CacheFile::open(path));
        PITH_ASSIGN_OR_RETURN(SavedSession saved, read_saved(file.view()));
        CacheFileInfo info = info_of(file, saved);
        return SessionFile(std::make_shared<const Impl>(Impl{std::move(file), std::move(saved), std::move(info)}));
    });
}

const CacheFileInfo & SessionFile::info() const {
    return impl_->info;
}

Result<Session> SessionFile::session(const Model & model, int n_threads) const {
    return guarded([&]() -> Result<Session> {
        if (n_threads < 0) { return Status(ErrorCode::kInvalidArgument, "the number of threads must not be negative"); }
        PITH_ASSIGN_OR_RETURN(auto opened, open_saved(model, impl_->saved, impl_->file.view(), {.n_threads = n_threads}));
        return Session::Impl::hand_out(std::move(opened));
    });
}

Result<Session> Model::open_session(const std::string & path, int n_threads) const {
    PITH_ASSIGN_OR_RETURN(const SessionFile file, SessionFile::open(path));
    return file.session(*this, n_threads);
}

Result<CacheFileInfo> read_cache_info(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const SessionFile file, SessionFile::open(path));
    return file.info();
}

}  // namespace pith
