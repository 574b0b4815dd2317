// lost_device_test.cpp - servers that are not there, are none, or go: one clear line each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "device/placement.h"
#include "device/rpc_process.h"
#include "engine/tiny_model.h"
#include "pith/devices.h"

namespace pith::lost_device_test {
namespace {

using testing::Listener;
using testing::RpcProcess;
using testing::scratch_file;
using testing::tiny_spec;

constexpr std::chrono::milliseconds kShort{200};

Status ask(const RpcEndpoint & server, std::chrono::milliseconds limit = kShort) {
    return on_devices([&] { return ask_rpc_server(server, limit); });
}

void expect_message(const Status & status, ErrorCode code, const std::vector<std::string> & parts) {
    EXPECT_EQ(status.code(), code) << status.message();
    for (const std::string & part : parts) { EXPECT_NE(status.message().find(part), std::string::npos) << status.message(); }
}

TEST(RpcServer, WhereNobodyListensIsSaidAtOnce) {
    Listener listener;
    const RpcEndpoint nobody = listener.endpoint();
    listener.close();
    expect_message(ask(nobody), ErrorCode::kIo, {nobody.text(), "cannot be reached", "ggml-rpc-server"});
    const Status loading = [&] {
        const std::string path = scratch_file("nobody.gguf");
        EXPECT_TRUE(write_random_model(tiny_spec(), path).ok());
        ModelOptions options;
        options.devices.rpc_servers = {nobody.text()};
        return Model::load(path, options).status();
    }();
    if (loading.code() != ErrorCode::kUnsupported) {  // ggml has an RPC back end here
        expect_message(loading, ErrorCode::kIo, {nobody.text(), "cannot be reached"});
    }
}

TEST(RpcServer, WhoSaysNothingIsWaitedForSoLong) {
    Listener listener;  // nobody accepts
    expect_message(ask(listener.endpoint()), ErrorCode::kIo, {listener.endpoint().text(), "does not answer", "one at a time"});
}

// Whoever listens answers every greeting with these bytes, and hangs up.
Status answered_with(const std::string & bytes) {
    Listener listener;
    std::thread answering([&] {
        const int client = accept(listener.descriptor(), nullptr, nullptr);
        char greeting[64];
        static_cast<void>(!recv(client, greeting, sizeof greeting, 0));
        if (!bytes.empty()) { static_cast<void>(!send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL)); }
        close(client);
    });
    const Status status = ask(listener.endpoint(), std::chrono::seconds(5));
    answering.join();
    return status;
}

TEST(RpcServer, WhoAnswersSomethingElseIsNone) {
    expect_message(answered_with(""), ErrorCode::kIo, {"hung up", "ggml-rpc-server"});
    expect_message(answered_with("HTTP/1.1 400 Bad Request\r\n\r\n"), ErrorCode::kIo, {"answers something else"});
    expect_message(answered_with(std::string(200, '\0')), ErrorCode::kIo, {"answers something else"});
    std::string cut(9, '\0');
    cut[0] = 28;
    expect_message(answered_with(cut), ErrorCode::kIo, {"hung up"});
    std::string other(36, '\0');  // a size of 28, and version 200.1.2
    other[0] = 28;
    other[8] = static_cast<char>(200);
    other[9] = 1;
    other[10] = 2;
    expect_message(answered_with(other), ErrorCode::kUnsupported, {"200.1.2", "same ggml"});
}

class LostDevice : public ::testing::Test {
protected:
    void SetUp() override {
        server_ = std::make_unique<RpcProcess>();
        if (!server_->answers()) { GTEST_SKIP() << "there is no ggml-rpc-server here (PITH_RPC_SERVER names one)"; }
        const auto devices = list_devices({server_->endpoint()});
        if (!devices.ok()) { GTEST_SKIP() << devices.status().message(); }
        ASSERT_TRUE(write_random_model(tiny_spec(), path_).ok());
    }

    std::string path_ = scratch_file("lost.gguf");
    std::unique_ptr<RpcProcess> server_;
};

// ggml ends the process then; it does so with one line, and by no signal, whatever is going on: loading, reading, answering.
TEST_F(LostDevice, KilledAtAnyMomentEndsTheProgramWithOneLine) {
    const char * given = std::getenv("PITH_KILLS");
    const int n_kills = given == nullptr ? 4 : std::atoi(given);
    std::mt19937 random(11);
    const std::string said = scratch_file("lost.err");
    for (int i = 0; i < n_kills; ++i) {
        if (i > 0) { server_ = std::make_unique<RpcProcess>(); }
        ASSERT_TRUE(server_->answers());
        const auto moment = std::chrono::microseconds(random() % 300000);
        std::thread killing([&] {
            std::this_thread::sleep_for(moment);
            server_->end();
        });
        const std::string command = std::string(PITH_PROGRAM) + " run -m " + path_ +
                                    " -p hello --raw --ignore-eos -n 1000000 -c 0 -t 1 --policy " +
                                    "streaming --budget 64 --rpc " + server_->endpoint() + " >/dev/null 2>" + said;
        const int state = std::system(command.c_str());
        killing.join();
        std::ifstream in(said);
        const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
        ASSERT_TRUE(WIFEXITED(state)) << text;
        EXPECT_EQ(WEXITSTATUS(state), 1) << text;
        EXPECT_NE(text.find(server_->endpoint()), std::string::npos) << text;
        EXPECT_NE(text.find("pith: "), std::string::npos) << text;
        EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    }
}

TEST_F(LostDevice, NamesAndSharesThatAreNoneAreRefused) {
    const auto refused = [&](DeviceOptions devices) {
        devices.rpc_servers = {server_->endpoint()};
        return place_layers(devices, 3).status();
    };
    expect_message(refused({.names = {"RPC99"}}), ErrorCode::kNotFound, {"RPC99", "there are RPC"});
    expect_message(refused({.split = {1, 1}}), ErrorCode::kInvalidArgument, {"2 shares for 1"});
    expect_message(refused({.split = {0}}), ErrorCode::kInvalidArgument, {"above 0"});
    expect_message(refused({.n_layers = -2}), ErrorCode::kInvalidArgument, {"-2"});
}

}  // namespace
}  // namespace pith::lost_device_test
