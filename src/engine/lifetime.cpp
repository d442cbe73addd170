#include "engine/lifetime.hpp"

#include "engine/waiting.hpp"

namespace tranship {

Status Lifetime::usable() const {
  if (closed()) {
    return Error{ErrorCode::closed, "the engine is closed", "open another with tranship.Engine()"};
  }
  if (forked()) return forked_error();
  return {};
}

Result<Gate::Pass> Lifetime::enter() {
  if (Status status = usable(); !status) return status.error();
  auto pass = gate_.enter();
  if (!pass) return usable().error();
  return pass;
}

bool Lifetime::end() {
  if (closed_.exchange(true)) return false;
  gate_.close();
  return true;
}

}  // namespace tranship
