// one_server.h - a test that has one RPC server on this machine, and a back end of the CPU beside it. Skipped where there is no
// server.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "device/backend.h"
#include "device/device_work.h"
#include "device/placement.h"
#include "device/rpc_process.h"

namespace pith::testing {

class OneServer : public ::testing::Test {
protected:
    void SetUp() override {
        if (!server_.answers()) { GTEST_SKIP() << "there is no ggml-rpc-server here (PITH_RPC_SERVER names one)"; }
        const auto found = find_devices({server_.endpoint()});
        if (!found.ok()) { GTEST_SKIP() << found.status().message(); }
        devices_ = *found;
        cpu_.reset(make_cpu_backend(1).value());
        ASSERT_TRUE(on_devices([&]() -> Status {
                        device_.reset(make_device_backend(devices_.front().handle).value());
                        return {};
                    }).ok());
        backends_ = {device_.get()};
        set_up();
    }
    virtual void set_up() = 0;  // what a test has besides, once the server answers

    RpcProcess server_;
    std::vector<Device> devices_;
    OwnedBackend cpu_, device_;
    std::vector<ggml_backend_t> backends_;
};

}  // namespace pith::testing
