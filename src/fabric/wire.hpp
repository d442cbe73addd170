// UCX behind a few words: connections, messages, and puts into registered memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric/protocol.hpp"
#include "tranship/error.hpp"

namespace tranship {

using ConnectionId = std::uint64_t;

/// One UCX context, worker and listener.
/// Owns everything of UCX; the destructor closes what is open, in bounded time.
/// Threads: one at a time; after open() it belongs to the progress thread. Handlers are called
/// from progress() and may call everything but progress().
class Wire {
 public:
  struct Handlers {
    std::function<void(ConnectionId)> arrived;  ///< somebody connected to the listener
    std::function<void(ConnectionId, const MessageHeader&, std::span<const std::byte>)> message;
    std::function<void(ConnectionId, const std::string& why)> lost;
  };
  struct Options {
    std::string listen;     ///< host:port; port 0: any; empty: no listener
    bool tcp_only = false;  ///< for tests of the network way
    Handlers handlers;
  };

  /// @error invalid_argument or io if the address cannot be listened on; unsupported if UCX fails
  static Result<std::unique_ptr<Wire>> open(Options options);
  ~Wire();

  /// host:port of the listener; empty without one.
  const std::string& address() const;

  /// Readable when progress() has something to do, once arm() returned true.
  int event_descriptor() const;
  bool arm();
  bool progress();

  /// Closes every connection and waits, in bounded time, until UCX has let go of all memory.
  void drain();

  Result<ConnectionId> connect(const std::string& address);
  void close(ConnectionId connection);

  void send(ConnectionId connection, const MessageHeader& header, std::span<const std::byte> body);

  /// Registered memory that peers may put into, until release().
  struct Registered {
    void* handle = nullptr;
    std::vector<std::byte> key;
  };
  Result<Registered> register_memory(std::byte* address, std::int64_t bytes);
  void release(Registered& memory);

  /// Makes a peer's key usable on `connection`; it goes with the connection.
  Status use_key(ConnectionId connection, std::span<const std::byte> key);

  struct Put {
    const std::byte* source = nullptr;
    std::int64_t bytes = 0;
    std::uint64_t remote_address = 0;
    void* source_handle = nullptr;  ///< Registered::handle of the source
  };
  /// Copies into the peer's memory and calls `arrived` when the bytes are visible there (or never,
  /// if the connection is lost). The source must stay as it is until then.
  void put(ConnectionId connection, const Put& put, std::function<void()> arrived);

  class State;

 private:
  explicit Wire(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tranship
