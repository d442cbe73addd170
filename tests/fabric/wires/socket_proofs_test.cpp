// Both sides of a new socket, without a wire: what they prove, and how a failure is told.
#include "fabric/wires/socket_proofs.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "os/descriptor.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;

namespace {

using Step = SocketProofs::Step;

Key key_of(int number) {
  Key key{};
  key[0] = static_cast<std::byte>(number);
  return key;
}

SessionToken token_of(int number) {
  SessionToken token{};
  token[0] = static_cast<std::byte>(number);
  return token;
}

/// A client and a listener on one socket pair.
struct Pair {
  explicit Pair(const ClientProof& claim = {}, int client_key = 1, bool checksums = false)
      : client({ends[0].get(), false, checksums}, key_of(client_key), "there:1", claim),
        listener({ends[1].get(), false, false}, [] { return key_of(1); }) {}

  static std::array<FileDescriptor, 2> joined() {
    std::array<int, 2> numbers{-1, -1};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, numbers.data()) == 0);
    return {FileDescriptor(numbers[0]), FileDescriptor(numbers[1])};
  }

  /// Goes on until the listener has the client's claim.
  void exchange() {
    EXPECT(client.go_on() == Step::waits);
    EXPECT(listener.go_on() == Step::waits);
    EXPECT(client.go_on() == Step::waits);
    EXPECT(listener.go_on() == Step::claimed);
  }

  std::array<FileDescriptor, 2> ends = joined();
  SocketProofs client;
  SocketProofs listener;
};

ServerReady ready_for(int token, std::uint32_t status = 0) {
  ServerReady ready;
  ready.status = status;
  ready.session = token_of(token);
  ready.received = 9;
  return ready;
}

}  // namespace

TEST(two_sides_with_one_key_agree_and_the_listener_has_the_claim) {
  Pair pair({{}, token_of(3), token_of(4), 5}, 1, true);
  pair.exchange();
  EXPECT(pair.listener.claim().session == token_of(3));
  EXPECT(pair.listener.claim().joins == token_of(4));
  EXPECT_EQ(pair.listener.claim().received, std::uint64_t{5});
  pair.listener.answer(ready_for(3));
  EXPECT(pair.client.go_on() == Step::done);
  EXPECT_EQ(pair.client.ready().received, std::uint64_t{9});
  // One side has asked for checksums, which applies to both.
  EXPECT(pair.client.checksums() && pair.listener.checksums());
}

TEST(a_client_with_another_key_is_told_so_and_may_try_again) {
  Pair pair({}, 2);
  EXPECT(pair.client.go_on() == Step::waits);
  EXPECT(pair.listener.go_on() == Step::waits);
  EXPECT(pair.client.go_on() == Step::failed);
  EXPECT(pair.client.failure().why.code == ErrorCode::permission);
  EXPECT(pair.client.failure().again);
}

TEST(a_new_client_whose_proof_ends_the_connection_has_another_key) {
  for (const bool is_new : {true, false}) {
    Pair pair({{}, is_new ? SessionToken{} : token_of(3), {}, 0});
    pair.exchange();
    pair.ends[1].reset();
    EXPECT(pair.client.go_on() == Step::failed);
    EXPECT((pair.client.failure().why.code == ErrorCode::permission) == is_new);
    EXPECT(pair.client.failure().again != is_new);
  }
}

TEST(a_listener_may_refuse_a_session_and_take_up_no_other_one) {
  for (const auto& ready : {ready_for(3, 1), ready_for(4)}) {
    Pair pair({{}, token_of(3), {}, 0});
    pair.exchange();
    pair.listener.answer(ready);
    EXPECT(pair.client.go_on() == Step::failed);
    EXPECT(!pair.client.failure().again);
  }
}

TEST(a_listener_ends_what_is_not_a_client) {
  Pair pair;
  const std::array<char, sizeof(ClientHello)> text{'G', 'E', 'T'};
  REQUIRE(write(pair.ends[0].get(), text.data(), text.size()) == ssize_t{sizeof text});
  EXPECT(pair.listener.go_on() == Step::failed);
  EXPECT(pair.listener.failure().why.code == ErrorCode::invalid_argument);
}
