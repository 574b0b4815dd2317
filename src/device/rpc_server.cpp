// rpc_server.cpp - a greeting by hand, then ggml's own connection.
#include "device/rpc_server.h"

#include <fcntl.h>
#include <ggml-backend.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>

#include "core/items.h"
#include "core/parse_integer.h"
#include "device/device_work.h"
#include "device/sent_graphs.h"

#if __has_include(<ggml-rpc.h>)
#include <ggml-rpc.h>
#endif

namespace pith {
namespace {

constexpr std::chrono::milliseconds kRpcPatience{5000};

// The greeting: command, size of what follows, what the client can do (nothing beside TCP). The answer: its size, the
// protocol's major, minor and patch version, more that nobody needs.
constexpr uint8_t kHello = 14;
constexpr uint64_t kHelloBytes = 24;
constexpr uint64_t kMostAnswerBytes = 4096;
constexpr size_t kAnchorBytes = 64;

class Socket {
public:
    explicit Socket(int descriptor) : descriptor_(descriptor) {}
    ~Socket() {
        if (descriptor_ >= 0) { close(descriptor_); }
    }
    Socket(const Socket &) = delete;
    Socket & operator=(const Socket &) = delete;
    int get() const { return descriptor_; }

private:
    int descriptor_;
};

Status no_server(const RpcEndpoint & server, const Wording & why) {
    return {ErrorCode::kIo, "RPC server '" + server.text() + "' " + why};
}

Status cannot_be_reached(const RpcEndpoint & server, const std::string & why) {
    return no_server(server, "cannot be reached (" + why + "): start `ggml-rpc-server -H " + server.host + " -p " +
                                 std::to_string(server.port) + "` there, or leave it out of " + item::kRpcServers);
}

// Whether the socket becomes ready in time; false, with errno set, where it does not.
bool is_ready(int descriptor, short events, std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd one{descriptor, events, 0};
        const int n = poll(&one, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
        if (n > 0) { return true; }
        if (n < 0 && errno == EINTR) { continue; }
        if (n == 0) { errno = ETIMEDOUT; }
        return false;
    }
}

// 0, or why there is no connection.
int connect_within(int descriptor, const sockaddr_in & address, std::chrono::milliseconds limit) {
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
    if (connect(descriptor, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0) { return 0; }
    if (errno != EINPROGRESS) { return errno; }
    if (!is_ready(descriptor, POLLOUT, limit)) { return errno; }
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

Status send_all(const RpcEndpoint & server, int descriptor, std::span<const uint8_t> bytes, std::chrono::milliseconds limit) {
    while (!bytes.empty()) {
        const ssize_t n = send(descriptor, bytes.data(), bytes.size(), 0);
        if (n > 0) {
            bytes = bytes.subspan(static_cast<size_t>(n));
        } else if ((errno != EAGAIN && errno != EINTR) || !is_ready(descriptor, POLLOUT, limit)) {
            return no_server(server, std::string("takes no greeting: ") + std::strerror(errno));
        }
    }
    return {};
}

Status receive_all(const RpcEndpoint & server, int descriptor, std::span<uint8_t> bytes, std::chrono::milliseconds limit) {
    while (!bytes.empty()) {
        const ssize_t n = recv(descriptor, bytes.data(), bytes.size(), 0);
        if (n > 0) {
            bytes = bytes.subspan(static_cast<size_t>(n));
        } else if (n == 0) {
            return no_server(server,
                             "hung up on the greeting: it is no ggml-rpc-server, or one of another ggml version than this");
        } else if (errno != EAGAIN && errno != EINTR) {
            return no_server(server, std::string("does not answer: ") + std::strerror(errno));
        } else if (!is_ready(descriptor, POLLIN, limit)) {
            return no_server(server, "does not answer within " + std::to_string(limit.count() / 1000) +
                                         " s: it may be busy with another client (it takes one at a time), or be no "
                                         "ggml-rpc-server");
        }
    }
    return {};
}

Status check_version(const RpcEndpoint & server, uint8_t major, uint8_t minor, uint8_t patch) {
#ifdef RPC_PROTO_MAJOR_VERSION
    if (major == RPC_PROTO_MAJOR_VERSION && minor <= RPC_PROTO_MINOR_VERSION) { return {}; }
    const auto version = [](int a, int b, int c) {
        return std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c);
    };
    return {ErrorCode::kUnsupported, "RPC server '" + server.text() + "' speaks version " + version(major, minor, patch) +
                                         " of the protocol, and this ggml " +
                                         version(RPC_PROTO_MAJOR_VERSION, RPC_PROTO_MINOR_VERSION, RPC_PROTO_PATCH_VERSION) +
                                         ": run the ggml-rpc-server of the same ggml on both machines"};
#else
    static_cast<void>(server), static_cast<void>(major), static_cast<void>(minor), static_cast<void>(patch);
    return {};
#endif
}

}  // namespace

RpcServer::~RpcServer() {
    give_back([&] { ggml_backend_buffer_free(anchor_); });
}

Result<RpcEndpoint> RpcEndpoint::parse(const std::string & text) {
    const size_t colon = text.find(':');
    int port = 0;
    const bool has_port =
        colon != std::string::npos && colon > 0 && parse_integer(std::string_view(text).substr(colon + 1), port);
    if (!has_port || port < 1 || port > 65535) {
        return {ErrorCode::kInvalidArgument, "RPC server '" + text + "': give host:port, as in 192.168.0.2:50052"};
    }
    return RpcEndpoint{text.substr(0, colon), port};
}

Status ask_rpc_server(const RpcEndpoint & server, std::chrono::milliseconds limit) {
    addrinfo wanted{};
    wanted.ai_family = AF_INET;  // ggml's client knows no other
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo * found = nullptr;
    if (const int code = getaddrinfo(server.host.c_str(), nullptr, &wanted, &found); code != 0) {
        return cannot_be_reached(server, gai_strerror(code));
    }
    sockaddr_in address{};
    std::memcpy(&address, found->ai_addr, sizeof address);
    freeaddrinfo(found);
    address.sin_port = htons(static_cast<uint16_t>(server.port));

    const Socket socket_(socket(AF_INET, SOCK_STREAM, 0));
    if (socket_.get() < 0) { return cannot_be_reached(server, std::strerror(errno)); }
    if (const int error = connect_within(socket_.get(), address, limit); error != 0) {
        return cannot_be_reached(server, std::strerror(error));
    }
    std::array<uint8_t, 1 + sizeof(uint64_t) + kHelloBytes> hello{kHello};
    std::memcpy(hello.data() + 1, &kHelloBytes, sizeof kHelloBytes);
    PITH_RETURN_IF_ERROR(send_all(server, socket_.get(), hello, limit));
    uint64_t n_bytes = 0;
    std::array<uint8_t, sizeof n_bytes> size{};
    PITH_RETURN_IF_ERROR(receive_all(server, socket_.get(), size, limit));
    std::memcpy(&n_bytes, size.data(), sizeof n_bytes);
    if (n_bytes < 3 || n_bytes > kMostAnswerBytes) {
        return no_server(server, "answers something else: it is no ggml-rpc-server");
    }
    std::array<uint8_t, 3> version{};
    PITH_RETURN_IF_ERROR(receive_all(server, socket_.get(), version, limit));
    return check_version(server, version[0], version[1], version[2]);
}

Result<std::shared_ptr<const RpcServer>> open_rpc_server(const std::string & text) {
    static std::map<std::string, std::weak_ptr<const RpcServer>> open;  // on_devices() lets one in at a time
    PITH_ASSIGN_OR_RETURN(const RpcEndpoint endpoint, RpcEndpoint::parse(text));
    // It answers one client at a time: while this process is connected, it would let a greeting wait.
    if (auto known = open[endpoint.text()].lock()) { return known; }

    using AddServer = ggml_backend_reg_t (*)(const char *);
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    const auto add = rpc == nullptr
                         ? nullptr
                         : reinterpret_cast<AddServer>(ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server"));
    if (add == nullptr) {
        return {ErrorCode::kUnsupported,
                "this ggml has no RPC back end: install it (Debian: libggml0-backend-rpc; source: -DGGML_RPC=ON)"};
    }
    PITH_RETURN_IF_ERROR(ask_rpc_server(endpoint, kRpcPatience));
    ggml_backend_reg_t added = add(endpoint.text().c_str());
    std::vector<ggml_backend_dev_t> devices;
    for (size_t i = 0; added != nullptr && i < ggml_backend_reg_dev_count(added); ++i) {
        devices.push_back(ggml_backend_reg_dev_get(added, i));
    }
    if (devices.empty()) { return no_server(endpoint, "has no devices"); }
    ggml_backend_buffer_type_t memory = ggml_backend_dev_buffer_type(devices.front());
    ggml_backend_buffer_t anchor = memory == nullptr ? nullptr : ggml_backend_buft_alloc_buffer(memory, kAnchorBytes);
    if (anchor == nullptr) { return no_server(endpoint, "gives no memory"); }
    auto server = std::make_shared<const RpcServer>(endpoint.text(), std::move(devices), anchor);
    open[endpoint.text()] = server;
    return server;
}

}  // namespace pith
