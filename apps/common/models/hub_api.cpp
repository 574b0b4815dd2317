// hub_api.cpp - /api/models/USER/REPO and its tree, page by page.
#include "common/models/hub_api.h"

#include <nlohmann/json.hpp>

#include "common/models/download.h"
#include "common/models/http.h"

namespace pith::app {
namespace {

constexpr size_t kMaxBytes = 64 << 20;  // of an answer; the hub's have some hundred kilobytes
constexpr int kMaxPages = 100;

struct Page {
    std::string text;
    std::string next;
};

Result<Page> get_page(const Hub & hub, const std::string & url, const std::string & repo) {
    Page page;
    const HttpRequest request{.url = url, .token = hub.token, .cancel = hub.cancel};
    PITH_ASSIGN_OR_RETURN(const HttpAnswer answer, http_get(request, [&page](const HttpAnswer &, std::string_view bytes) {
                              page.text += bytes;
                              return page.text.size() < kMaxBytes ? Status()
                                                                  : Status(ErrorCode::kBadFile, "the hub's answer has no end");
                          }));
    if (!answer.broken.empty()) { return {ErrorCode::kIo, hub.endpoint + " does not answer (" + answer.broken + ")"}; }
    if (answer.status != 200) { return http_error(answer.status, "'" + repo + "'", hub.endpoint, !hub.token.empty()); }
    page.next = answer.next_page;
    return page;
}

}  // namespace

Result<HubRepo> ask_hub(const Hub & hub, const std::string & repo) {
    HubRepo out;
    const std::string api = hub.endpoint + "/api/models/" + repo;
    PITH_ASSIGN_OR_RETURN(const Page about, get_page(hub, api, repo));
    const auto object = nlohmann::json::parse(about.text, nullptr, /*allow_exceptions=*/false);
    if (object.is_object() && object.contains("sha") && object["sha"].is_string()) { out.revision = object["sha"]; }
    if (!is_hex(out.revision, 40)) {
        return {ErrorCode::kBadFile,
                hub.endpoint + " does not answer as Hugging Face does: it names no revision of '" + repo + "'"};
    }
    std::string url = api + "/tree/" + out.revision + "?recursive=true";
    for (int n = 0; n < kMaxPages && !url.empty(); ++n) {
        PITH_ASSIGN_OR_RETURN(const Page page, get_page(hub, url, repo));
        PITH_ASSIGN_OR_RETURN(const auto files, parse_hub_tree(page.text));
        out.files.insert(out.files.end(), files.begin(), files.end());
        url = origin_of(page.next) == origin_of(hub.endpoint) ? page.next : "";
    }
    return out;
}

std::string file_url(const Hub & hub, const std::string & repo, const std::string & revision, const std::string & path) {
    return hub.endpoint + "/" + repo + "/resolve/" + revision + "/" + percent_encoded(path);
}

}  // namespace pith::app
