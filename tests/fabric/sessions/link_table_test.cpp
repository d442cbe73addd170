// The links that a process has made, and the errors of those that it has not.
#include "fabric/sessions/link_table.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;

namespace {

std::shared_ptr<Link> new_link() {
  SlotGeometry geometry;
  geometry.slots = 1;
  geometry.slot_bytes = 4096;
  Requester::Options options;
  options.segment =
      SlotSegment(*SharedMemory::allocate({SlotSegment::bytes(geometry), false, false}), geometry);
  auto link = std::make_shared<Link>();
  link->requester = std::make_shared<Requester>(std::move(options));
  return link;
}

}  // namespace

TEST(a_peer_that_was_never_there_is_told_from_one_that_has_left) {
  LinkTable links;
  EXPECT(links.find(PeerId{0}).error().code == ErrorCode::invalid_argument);
  EXPECT(links.find(PeerId{1}).error().code == ErrorCode::invalid_argument);
  const auto link = new_link();
  links.add(link);
  EXPECT(*links.find(link->peer) == link);
  links.remove(link->peer);
  EXPECT(links.find(link->peer).error().code == ErrorCode::closed);
  EXPECT(links.find(PeerId{link->peer.value + 1}).error().code == ErrorCode::invalid_argument);
}

TEST(a_lost_link_stays_until_another_one_is_made) {
  LinkTable links;
  const auto lost = new_link();
  const auto other = new_link();
  links.add(lost);
  links.add(other);
  EXPECT(lost->peer != other->peer);
  lost->requester->fail({ErrorCode::peer_lost, "it died"});
  EXPECT(*links.find(lost->peer) == lost);
  links.add(new_link());
  EXPECT(links.find(lost->peer).error().code == ErrorCode::closed);
  EXPECT(*links.find(other->peer) == other);
}
