// Arrays of other processes: what an engine exports, and what it finds at its peers.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "channels/remote/remote_channel.hpp"
#include "engine/engine.hpp"
#include "engine/gpu_side.hpp"
#include "engine/notice_queue.hpp"
#include "fabric/fabric.hpp"

namespace tranship {

/// Returns how many threads copy to and from other processes' memory; 0: none.
int peer_threads(const Config& config);

/// Receives what a peer sends without a request. Called on the fabric's thread: it must not block.
class PeerListener {
 public:
  virtual ~PeerListener() = default;
  virtual void on_notice(std::span<const std::byte> body) = 0;
  virtual void on_lost(const Error& error) = 0;
};

/// An engine's links. Owns the fabric and its channel. Any thread may call any member. After
/// stop(), and in a fork, calls fail with `closed`; the object may outlive its engine.
class Processes {
 public:
  static Result<std::shared_ptr<Processes>> open(Engine& engine);
  ~Processes();

  /// Accepts connections over a network from processes that have the key of a group.
  void accept_key(const Key& key) { fabric_->accept_key(key); }
  /// As accept_key(), unless this process has a key that others know: from the settings, or of its
  /// own contact file.
  void accept_key_if_free(const Key& key);

  /// Contact text for connect() in another process; empty if this process does not listen.
  const std::string& contact() const { return contact_; }

  /// Lets others read `array` and, if it is writable, write it, until withdraw(). notices: Whether
  /// they may send notices of their copies.
  /// @error invalid_argument if the name is taken, or the array is another process's
  Status export_array(const std::string& name, const Array& array, bool notices = false);
  Status withdraw(const std::string& name);

  Result<fabric::PeerId> connect(const std::string& contact, std::chrono::milliseconds timeout);
  Status disconnect(fabric::PeerId peer);
  /// Empty if there is no such peer any more.
  std::string describe_peer(fabric::PeerId peer) const;
  Result<std::vector<std::string>> names(fabric::PeerId peer, std::chrono::milliseconds timeout);

  /// As Fabric's functions of these names.
  Result<std::size_t> ask(fabric::PeerId peer, std::span<const std::byte> question,
                          std::span<std::byte> reply, std::chrono::milliseconds timeout,
                          const std::function<bool()>& interrupted = {});
  Result<std::unique_ptr<fabric::OpenQuestion>> begin_ask(fabric::PeerId peer,
                                                          std::vector<std::byte> question,
                                                          std::span<std::byte> reply);
  Result<std::size_t> end_ask(fabric::OpenQuestion& question, std::chrono::milliseconds timeout,
                              const std::function<bool()>& interrupted = {});
  Status tell(fabric::PeerId peer, std::span<const std::byte> question);
  Status notify(fabric::RequesterId requester, std::vector<std::byte> body);
  bool connected(fabric::PeerId peer) const;
  /// Sets what receives the peer's notices from now on; null: nothing.
  void listen(fabric::PeerId peer, std::shared_ptr<PeerListener> listener);

  /// Takes the notices that have arrived and were not taken, in the order of their arrival; with a
  /// peer, those of its process. Waits up to `timeout` for the first. Returns none if none came.
  /// @error why the peer was lost, once its notices are taken; closed; cancelled if `interrupted`,
  ///        which is called now and then, returned true
  Result<std::vector<fabric::CopyNotice>> take_notices(std::optional<fabric::PeerId> peer,
                                                       std::chrono::milliseconds timeout,
                                                       bool (*interrupted)() = nullptr);

  /// A peer's exported array, as one end of a copy.
  Result<Array> lookup(fabric::PeerId peer, const std::string& name,
                       std::chrono::milliseconds timeout);

  /// Ends links and requests, and waits until no thread is inside a call; bounded in time.
  /// @error timeout if a peer may still access an exported array
  Status stop();
  /// Releases the exported arrays, or keeps them for good if a peer may still access one. After
  /// stop(), when no request of a peer runs any more.
  void release(bool unused);

  fabric::RemoteChannel& channel() { return *channel_; }

 private:
  struct Exported {
    Array array;
    std::unique_ptr<GpuMemory> on_gpu;
  };

  explicit Processes(Engine& engine)
      : engine_(engine), notices_(static_cast<std::size_t>(engine.config().notices_max)) {}
  /// @error closed after stop(), or in a fork
  Result<Gate::Pass> enter() const;
  void take_messages(fabric::FabricOptions& options);
  std::shared_ptr<PeerListener> listener_of(fabric::PeerId peer);
  void open_on_gpu(const std::shared_ptr<fabric::RemoteArray>& remote, Array& array) const;

  Engine& engine_;  ///< used only while the gate holds a caller
  mutable Gate gate_;
  const std::uint64_t fork_generation_ = fork_generation();
  std::string contact_;
  NoticeQueue notices_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<fabric::RemoteChannel> channel_;
  std::mutex mutex_;
  std::map<fabric::PeerId, std::shared_ptr<PeerListener>> listeners_;
  std::map<std::string, Exported> exports_;  ///< kept alive until they are withdrawn
};

}  // namespace tranship
