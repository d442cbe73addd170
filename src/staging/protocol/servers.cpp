#include "staging/protocol/servers.hpp"

#include <utility>

namespace tranship::staging {
namespace {

/// A question that was answered as it was sent.
class Answered final : public Servers::Question {
 public:
  explicit Answered(Result<std::span<const std::byte>> reply) : reply_(std::move(reply)) {}
  Result<std::span<const std::byte>> reply() override { return std::move(reply_); }

 private:
  Result<std::span<const std::byte>> reply_;
};

}  // namespace

std::unique_ptr<Servers::Question> Servers::send(int server, const fabric::MessageWriter& request,
                                                 ReplyBuffer& reply) {
  return std::make_unique<Answered>(ask(server, request, reply));
}

}  // namespace tranship::staging
