// Two handshakes that exchange messages without a wire, a thread or a clock.
#include "fabric/sessions/handshake.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;

namespace {

HandshakeTerms terms_of(std::int64_t pid) {
  HandshakeTerms terms;
  terms.greeting.version = "0.1.0";
  terms.identity.pid = pid;
  terms.identity.boot = "boot";
  terms.identity.host = "host";
  terms.geometry.slots = 2;
  terms.geometry.slot_bytes = 4096;
  terms.geometry.inside_bytes = 1024;
  return terms;
}

/// A requester and an exporter on different machines.
struct Pair {
  explicit Pair(std::optional<Error> refusal = {}, Identity expected = {})
      : requester(requester_terms, {"there", std::move(expected), false, 0},
                  [this](RequesterHandshake::Agreement made) { agreement = std::move(made); }),
        exporter(exporter_terms, exporter_options(std::move(refusal))) {}

  ExporterHandshake::Options exporter_options(std::optional<Error> refusal) {
    ExporterHandshake::Options options;
    options.refusal = std::move(refusal);
    options.admit = [this](const ExporterHandshake::Applicant& applicant) {
      admitted = applicant.label;
      return Result<ServiceThreads::Seat>(ServiceThreads::Seat{});
    };
    options.ready = [this](bool) { ready = true; };
    return options;
  }

  HandshakeTerms requester_terms = terms_of(1);
  HandshakeTerms exporter_terms = terms_of(2);
  RequesterHandshake requester;
  ExporterHandshake exporter;
  std::optional<RequesterHandshake::Agreement> agreement;
  std::string admitted;
  bool ready = false;
};

Result<std::optional<HandshakeMessage>> pass(Handshake& to, const HandshakeMessage& message) {
  return to.on_message(message.type, message.body, {});
}

}  // namespace

TEST(handshakes_end_with_a_link) {
  Pair pair;
  const auto welcome = pass(pair.exporter, pair.requester.hello());
  REQUIRE(welcome && *welcome);
  EXPECT_EQ(pair.admitted, std::string("process 1 on host"));
  const auto ready = pass(pair.requester, **welcome);
  REQUIRE(ready && *ready);
  EXPECT(!pair.ready && !pair.agreement);
  const auto accepted = pass(pair.exporter, **ready);
  REQUIRE(accepted && *accepted);
  EXPECT(pair.ready);
  const auto ended = pass(pair.requester, **accepted);
  REQUIRE(ended);
  EXPECT(!*ended);
  REQUIRE(pair.agreement.has_value());
  EXPECT_EQ(pair.agreement->label, std::string("process 2 on host (there)"));
  EXPECT_EQ(pair.agreement->way, std::string("TCP"));
  EXPECT_EQ(pair.agreement->segment.geometry().slots, 2);
}

TEST(handshakes_refuse_messages_out_of_turn) {
  Pair pair;
  const HandshakeMessage hello = pair.requester.hello();
  const auto welcome = pass(pair.exporter, hello);
  REQUIRE(welcome && *welcome);
  EXPECT(!pass(pair.exporter, hello));
  EXPECT(!pass(pair.requester, hello));
  EXPECT(!pass(pair.requester, {MessageType::accepted, encode(Accepted{})}));
  REQUIRE(pass(pair.requester, **welcome));
  EXPECT(!pass(pair.requester, **welcome));
}

TEST(handshakes_carry_a_refusal_with_its_hint) {
  Pair pair(Error{ErrorCode::out_of_memory, "it is full", "come later"});
  const auto welcome = pass(pair.exporter, pair.requester.hello());
  REQUIRE(welcome && *welcome);
  EXPECT(pair.admitted.empty());
  const auto refused = pass(pair.requester, **welcome);
  REQUIRE(!refused);
  EXPECT(refused.error().code == ErrorCode::out_of_memory);
  EXPECT_EQ(refused.error().message, std::string("process 2 on host (there): it is full"));
  EXPECT_EQ(refused.error().hint, std::string("come later"));
}

TEST(handshakes_refuse_a_late_error_too) {
  Pair pair;
  const auto welcome = pass(pair.exporter, pair.requester.hello());
  REQUIRE(welcome && *welcome && pass(pair.requester, **welcome));
  const Accepted late{Error{ErrorCode::io, "no thread", "raise the limit"}};
  const auto refused = pass(pair.requester, {MessageType::accepted, encode(late)});
  REQUIRE(!refused);
  EXPECT_EQ(refused.error().hint, std::string("raise the limit"));
  EXPECT(!pair.agreement);
}

TEST(handshakes_name_both_versions) {
  Pair pair;
  pair.exporter_terms.greeting.protocol = 77;
  const auto welcome = pass(pair.exporter, pair.requester.hello());
  REQUIRE(welcome && *welcome);
  const auto refused = pass(pair.requester, **welcome);
  REQUIRE(!refused);
  EXPECT(refused.error().code == ErrorCode::unsupported);
  EXPECT(refused.error().message.find("protocol 77") != std::string::npos);
  EXPECT_EQ(refused.error().hint, std::string("install the same version on both sides"));
}

TEST(handshakes_notice_another_process_at_the_address_of_a_contact_file) {
  Identity expected = terms_of(3).identity;
  Pair pair({}, expected);
  const auto welcome = pass(pair.exporter, pair.requester.hello());
  REQUIRE(welcome && *welcome);
  const auto refused = pass(pair.requester, **welcome);
  REQUIRE(!refused);
  EXPECT(refused.error().code == ErrorCode::peer_lost);
  EXPECT(refused.error().message.find("has exited") != std::string::npos);
}

TEST(errors_in_slots_keep_message_and_hint_apart) {
  const Error error{ErrorCode::not_found, "nothing is there", "look again"};
  const Error read = error_of_slot(wire_code_of(error.code), slot_text_of(error));
  EXPECT(read.code == error.code);
  EXPECT_EQ(read.message, error.message);
  EXPECT_EQ(read.hint, error.hint);
  EXPECT(slot_text_of({ErrorCode::io, std::string(5000, 'x')}).size() <= slot_error_bytes_max);
  EXPECT_EQ(error_of_slot(1, "no hint").hint, std::string());
}
