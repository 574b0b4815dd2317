// failing_download_test.cpp - the k-th call that writes a file fails while a model is fetched: what has its name is whole, the
// error is one line, and the same command goes on. The network is a string.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/models/download.h"
#include "common/models/http.h"
#include "common/models/hub_cache.h"
#include "common/models/sha256.h"
#include "file/failing_files.h"
#include "model/gguf_edit.h"

namespace pith::app {
namespace {

const std::string & model_bytes() {
    static const std::string bytes = [] {
        std::string text;
        for (int i = 0; i < 20000; ++i) { text += std::to_string(i) + " "; }
        return text;
    }();
    return bytes;
}

}  // namespace

// Instead of the one that asks a server.
Result<HttpAnswer> http_get(const HttpRequest & request, const HttpSink & sink) {
    HttpAnswer answer{.status = request.begin > 0 ? 206 : 200, .broken = "", .begin = request.begin, .next_page = ""};
    constexpr size_t kPiece = 30000;
    for (size_t at = request.begin; at < model_bytes().size(); at += kPiece) {
        PITH_RETURN_IF_ERROR(sink(answer, std::string_view(model_bytes()).substr(at, kPiece)));
    }
    return answer;
}
std::string_view origin_of(std::string_view url) {
    return url;
}

}  // namespace pith::app

namespace pith::app::failing_download_test {
namespace {

namespace fs = std::filesystem;

constexpr const char * kRepo = "user/repo";
constexpr const char * kRevision = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";

std::string text_of(const fs::path & path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// What `-hf` does with a file of a repository.
Status fetch(const HubCache & cache, const std::string & sum) {
    const HubFile file{.path = "model.gguf", .size = model_bytes().size(), .sha256 = sum, .blob = sum};
    const std::string blob = cache.blob(kRepo, file.blob).string();
    if (fs::exists(cache.snapshot(kRepo, kRevision) / file.path)) {
        static_cast<void>(cache.set_main(kRepo, kRevision));
        return {};
    }
    fs::create_directories(fs::path(blob).parent_path());
    if (!fs::exists(blob)) {
        PITH_RETURN_IF_ERROR(download({.url = "https://hub/file",
                                       .token = "",
                                       .to = blob,
                                       .size = file.size,
                                       .sha256 = file.sha256,
                                       .label = "fetching"}));
    }
    PITH_RETURN_IF_ERROR(cache.add_to_snapshot(kRepo, kRevision, file));
    return cache.set_main(kRepo, kRevision);
}

TEST(FailingDownload, WhatHasItsNameIsWholeAndTheSameCommandGoesOn) {
    Sha256 whole;
    whole.add(model_bytes());
    const std::string sum = whole.hex();
    int n_failed = 0;
    for (const bool stays_full : {false, true}) {
        for (int k = 1;; ++k) {
            SCOPED_TRACE(k);
            const testing::TempFolder folder;
            const HubCache cache(folder.file("hub"));
            testing::fail_files_at(k, stays_full);
            const Status status = fetch(cache, sum);
            const bool failed = testing::stop_failing_files();
            const fs::path model = cache.snapshot(kRepo, kRevision) / "model.gguf";
            if (!status.ok()) {
                ++n_failed;
                EXPECT_TRUE(failed);
                EXPECT_EQ(status.code(), ErrorCode::kIo);
                EXPECT_NE(status.message().find("No space left"), std::string::npos) << status.message();
                EXPECT_EQ(status.message().find('\n'), std::string::npos);
            } else {
                EXPECT_TRUE(fs::exists(model));  // where links cannot be made, the file itself is put there
            }
            for (const fs::path & named : {cache.blob(kRepo, sum), model}) {
                if (fs::exists(named)) { EXPECT_TRUE(text_of(named) == model_bytes()) << named; }
            }
            const auto names = cache.files(kRepo);
            EXPECT_LE(names.size(), 1U) << "a half file is offered as a model";

            const Status again = fetch(cache, sum);
            ASSERT_TRUE(again.ok()) << again.message();
            EXPECT_TRUE(text_of(model) == model_bytes());
            EXPECT_EQ(text_of(folder.file("hub/models--user--repo/refs/main")), kRevision);
            size_t n_files = 0;
            for (const auto & entry : fs::recursive_directory_iterator(folder.file("hub"))) {
                n_files += entry.is_regular_file() && !entry.is_symlink() ? 1 : 0;
            }
            EXPECT_EQ(n_files, 2U) << "something half stays";  // the model and refs/main
            if (!failed) { break; }
        }
    }
    EXPECT_GT(n_failed, 12);
}

}  // namespace
}  // namespace pith::app::failing_download_test
