// serving.h - a server on a port of this machine, on the built-in model or another.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "pith/engine.h"
#include "serve/api.h"
#include "serve/generator.h"
#include "serve/http_client.h"
#include "serve/http_server.h"

namespace pith::testing {

inline const std::string kServedModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";

struct ServingOptions {
    serve::ApiOptions api;
    serve::GeneratorOptions generator;
    serve::HttpOptions http;
    const Tokenizer * tokenizer = nullptr;  // in place of served_tokenizer(): with another chat template
    const Model * model = nullptr;          // in place of served_model()

    ServingOptions() {
        api.model_name = "built-in";
        api.version = "pith-test";
        api.n_context = 2048;
        api.session.policy = "auto";
        generator.engine.n_threads = 1;
        http.port = 0;
    }
};

inline const Model & served_model() {
    static const Model model = *Model::load(kServedModel);
    return model;
}
inline const Tokenizer & served_tokenizer() {
    static const Tokenizer tokenizer = *Tokenizer::load(kServedModel);
    return tokenizer;
}

class Serving {
public:
    explicit Serving(const ServingOptions & options = {}) {
        const Tokenizer & tokenizer = options.tokenizer != nullptr ? *options.tokenizer : served_tokenizer();
        const Model & model = options.model != nullptr ? *options.model : served_model();
        auto generator = serve::Generator::start(model, tokenizer, options.generator);
        EXPECT_TRUE(generator.ok()) << generator.status().message();
        generator_ = std::move(*generator);
        api_ = std::make_unique<serve::Api>(model, tokenizer, *generator_, options.api);
        auto server = serve::HttpServer::bind(*api_, options.http);
        EXPECT_TRUE(server.ok()) << server.status().message();
        server_ = std::move(*server);
        thread_ = std::thread([this] { server_->serve(); });
    }
    ~Serving() {
        server_->stop();
        thread_.join();
    }
    Serving(const Serving &) = delete;
    Serving & operator=(const Serving &) = delete;

    int port() const { return server_->port(); }
    serve::Generator & generator() const { return *generator_; }
    serve::Api & api() { return *api_; }
    HttpAnswer chat(Json body) const { return post(port(), "/v1/chat/completions", body); }
    HttpAnswer text(Json body) const { return post(port(), "/v1/completions", body); }

private:
    std::unique_ptr<serve::Generator> generator_;
    std::unique_ptr<serve::Api> api_;
    std::unique_ptr<serve::HttpServer> server_;
    std::thread thread_;
};

inline bool comes_true(const std::function<bool()> & what, int seconds = 20) {
    for (int i = 0; i < seconds * 100; ++i) {
        if (what()) { return true; }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return what();
}

inline Json said_by(const std::string & content) {
    return Json::array({{{"role", "user"}, {"content", content}}});
}

}  // namespace pith::testing
