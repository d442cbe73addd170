// Exports of arrays to other processes, and access to the arrays that other processes export.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/hmac.hpp"
#include "fabric/links/exports.hpp"
#include "fabric/links/remote_array.hpp"
#include "fabric/sessions/options.hpp"

namespace tranship::fabric {

class FabricCore;
class ProgressThread;

/// A question that was sent, and not answered when it was sent.
class OpenQuestion {
 public:
  OpenQuestion(std::shared_ptr<Link> link, std::vector<std::byte> question,
               std::span<std::byte> reply);
  /// Abandons the reply, unless it has come.
  ~OpenQuestion();
  OpenQuestion(const OpenQuestion&) = delete;
  OpenQuestion& operator=(const OpenQuestion&) = delete;

 private:
  friend class Fabric;

  std::shared_ptr<Link> link_;
  std::vector<std::byte> question_;
  Requester::Call call_;
  bool sent_ = false;
};

/// Exports arrays of this process by name, and looks up arrays of peers.
/// Owns its connections, one progress thread, and a bounded number of threads that serve
/// requesters; the threads sleep while nothing happens. Threads: all. Cost: calls here exchange
/// messages (tens of microseconds); RemoteChannel moves the data.
class Fabric {
 public:
  /// Opens a fabric.
  /// @error invalid_argument or io if the address cannot be listened on or the contact file not
  ///        written; unsupported if it is to listen on a network and there is no libcrypto, or no
  ///        libssl for `tls`
  static Result<std::unique_ptr<Fabric>> open(FabricOptions options);
  ~Fabric();

  /// Returns what another process passes to connect(): the text of a Contact. It holds no key.
  std::string contact() const;

  /// Accepts connections over a network that prove to have `key`, from now on, in addition to
  /// others.
  void accept_key(const Key& key);

  /// Connects to a process, and returns its id.
  /// @error not_found if there is no such contact file; peer_lost if the process that wrote it has
  ///        exited or nothing listens there; timeout if what listens does not answer as tranship;
  ///        unsupported if it speaks another version of the protocol
  Result<PeerId> connect(const std::string& contact_file_or_address,
                         std::chrono::milliseconds timeout);

  /// Ends a connection. Requests to its arrays fail from then on.
  Status disconnect(PeerId peer);

  /// Exports an array: peers can look it up by its name.
  /// @error as ExportTable::add()
  Status export_array(ExportedArray array);

  /// Ends an export. After a successful return no peer can access the array's memory.
  /// @error not_found if there is no such export; timeout if a peer's copy takes longer than
  ///        peer_timeout: no new copy can begin, and a further call continues to wait
  Status withdraw(const std::string& name);

  Result<std::shared_ptr<RemoteArray>> lookup(PeerId peer, const std::string& name,
                                              std::chrono::milliseconds timeout);
  Result<std::vector<std::string>> names(PeerId peer, std::chrono::milliseconds timeout);

  /// Sends a question of at most slot_bytes to the peer's `answer`, and waits for the reply, which
  /// also has at most slot_bytes. Returns the length of the reply, in bytes. A call that fails by
  /// timeout or peer_lost may have been carried out. Cost: some microseconds on one machine.
  /// `interrupted` is called repeatedly on the caller's thread.
  /// @error the error of `answer`; timeout; peer_lost; closed after disconnect()
  /// @error invalid_argument if the question does not fit; cancelled if `interrupted` returned true
  Result<std::size_t> ask(PeerId peer, std::span<const std::byte> question,
                          std::span<std::byte> reply, std::chrono::milliseconds timeout,
                          const std::function<bool()>& interrupted = {});

  /// Sends a question whose reply end_ask() takes, on the same thread or another one. `reply` stays
  /// until the result is destroyed, which abandons a reply that was not taken.
  /// @error peer_lost; closed after disconnect(); invalid_argument if the question does not fit
  Result<std::unique_ptr<OpenQuestion>> begin_ask(PeerId peer, std::vector<std::byte> question,
                                                  std::span<std::byte> reply);
  /// Waits for the reply as ask() does, once. @error as ask()
  Result<std::size_t> end_ask(OpenQuestion& question, std::chrono::milliseconds timeout,
                              const std::function<bool()>& interrupted = {});

  /// Sends a question without waiting for a reply. Questions arrive in order, unless the peer is
  /// lost or the connection ends first.
  /// @error peer_lost; closed after disconnect(); invalid_argument if the question does not fit
  Status tell(PeerId peer, std::span<const std::byte> question);

  /// Sends a requester an unsolicited message, with which its `on_notice` is called. Messages to
  /// one requester arrive in order; a lost requester is sent none.
  Status notify(RequesterId requester, std::vector<std::byte> body);

  /// Returns the peer's process, host and contact, for messages; empty if there is no such peer.
  std::string describe(PeerId peer) const;
  bool connected(PeerId peer) const;
  /// Returns the process of a peer, as it has introduced itself.
  /// @error closed after disconnect(); invalid_argument if there was no such connection
  Result<Identity> identity(PeerId peer) const;
  /// @error why the peer is lost; as identity()
  Status check(PeerId peer) const;

  /// Ends all connections and threads in bounded time, and removes the contact file. Outstanding
  /// requests and further calls fail with `closed`.
  /// @error timeout if a peer still copies into or out of an exported array
  Status close();

  /// Returns the bell that rings whenever a peer's answer arrives or a peer is lost.
  Bell& bell() const;
  /// Rings the bell.
  void ring() const;

 private:
  explicit Fabric(FabricOptions options);
  Status start(const std::string& contact_file);

  std::shared_ptr<ProgressThread> thread_;
  std::shared_ptr<FabricCore> core_;
  std::mutex close_mutex_;    ///< Held while the fabric closes.
  bool closed_ = false;       ///< Guarded by close_mutex_.
  std::string contact_file_;  ///< The contact file that was written; empty: there is none.
};

}  // namespace tranship::fabric
