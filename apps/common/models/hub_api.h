// hub_api.h - what the hub says of a repository: its newest revision, and the files of that.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/models/hub_files.h"
#include "pith/status.h"

namespace pith::app {

struct Hub {
    std::string endpoint = "https://huggingface.co";  // without a '/' at its end
    std::string token;                                // empty: none
    const std::atomic<bool> * cancel = nullptr;
};

struct HubRepo {
    std::string revision;  // a commit
    std::vector<HubFile> files;
};

// Errors: those of http_get(); kIo, kNotFound: the hub does not answer, or refuses; kBadFile: not as the hub answers.
Result<HubRepo> ask_hub(const Hub & hub, const std::string & repo);

std::string file_url(const Hub & hub, const std::string & repo, const std::string & revision, const std::string & path);

}  // namespace pith::app
