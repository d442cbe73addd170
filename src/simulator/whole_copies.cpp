#include "simulator/whole_copies.hpp"

#include <utility>

namespace tranship {

WholeCopies::WholeCopies(Hardware& hardware, Options options)
    : hardware_(hardware), options_(std::move(options)), pool_({}), instances_(pool_) {}

/// Releases the instances of copies of a stopped run; no waiting copy gets them.
WholeCopies::~WholeCopies() {
  for (auto& [number, state] : copies_) {
    for (std::size_t k = 0; k < state->buffers.size(); ++k) {
      if (state->buffers[k].address == nullptr) continue;
      pool_.release(state->buffer_requests[k].memory, state->buffers[k]);
    }
  }
}

void WholeCopies::add(const Copy& copy) {
  auto made = std::make_unique<State>();
  State& state = *made;
  state.copy = copy;
  state.priority = copy.priority;
  state.age = arrivals_++;
  for (const int instance : copy.route->instances) {
    const int memory = hardware_.memory(copy.nodes, instance);
    for (; memories_ <= memory; ++memories_) {
      pool_.add_memory({hardware_.buffer_bytes_max(memories_), simulated_buffers()});
    }
    state.buffer_requests.push_back({memory, copy.route->bytes});
  }
  copies_.emplace(copy.number, std::move(made));
  instances_.enter(state, granted_);
  line_up_granted();
}

void WholeCopies::line_up_granted() {
  const auto granted = std::exchange(granted_, {});
  for (BufferWaiter* waiter : granted) line_up(*static_cast<State*>(waiter));
}

void WholeCopies::line_up(State& state) {
  const Copy& copy = state.copy;
  const int source = copy.route->plans[state.hop]->hops[0].source_memory;
  state.copier_node = hardware_.node_of(copy.nodes, source);
  nodes_[state.copier_node].waiting.insert(&state);
  dispatch(state.copier_node);
}

void WholeCopies::dispatch(int number) {
  Node& node = nodes_[number];
  while (!node.waiting.empty() && (options_.copiers == 0 || node.busy < options_.copiers)) {
    State& state = **node.waiting.begin();
    node.waiting.erase(node.waiting.begin());
    ++node.busy;
    options_.begin({state.copy.number, state.hop});
  }
}

void WholeCopies::hop_ended(const Hop& hop) {
  State& state = *copies_.at(hop.copy);
  const int node = state.copier_node;
  --nodes_[node].busy;
  ++state.hop;
  if (hop.number > 0) instances_.give_back(state, hop.number - 1, granted_);
  if (state.hop == state.copy.route->plans.size()) {
    copies_.erase(hop.copy);
    options_.ended(hop.copy);
  } else {
    line_up(state);
  }
  line_up_granted();
  dispatch(node);
}

}  // namespace tranship
