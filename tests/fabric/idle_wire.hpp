// A wire that carries nothing, of which a test overrides what it looks at.
#pragma once

#include "fabric/wires/wire.hpp"

namespace tranship::test {

struct IdleWire : fabric::Wire {
  fabric::Contact contact() const override { return {}; }
  void accept_key(const Key&) override {}
  int event_descriptor() const override { return -1; }
  bool arm() override { return true; }
  bool progress() override { return false; }
  Result<fabric::ConnectionId> connect(const fabric::Contact&) override {
    return fabric::ConnectionId{1};
  }
  void send(fabric::ConnectionId, const fabric::WireMessage&) override {}
  void keep_bulk(fabric::ConnectionId) override {}
  fabric::WirePeer peer(fabric::ConnectionId) const override { return {}; }
  void close(fabric::ConnectionId) override {}
  void drain() override {}
};

}  // namespace tranship::test
