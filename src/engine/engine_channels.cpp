#include "engine/engine_channels.hpp"

#include <algorithm>

#include "base/at.hpp"

namespace tranship {

const ChannelSpec& EngineChannels::spec_of(const Hop& hop) const {
  return profile_.channels[at(hop.channel)];
}

int EngineChannels::number_of(const ChannelSpec& channel, int carrier) const {
  const bool to_gpu = gpus_ != nullptr && gpus_->serves(channel);
  return to_gpu ? gpus_->number_of(channel, carrier) : numbers_.at(channel.kind);
}

bool EngineChannels::one_gpu_hop(const Plan& plan) const {
  return plan.hops.size() == 1 && traits_of(spec_of(plan.hops[0]).kind).gpu;
}

GpuChannel& EngineChannels::gpu_channel(const Plan& plan, const Array& source,
                                        const Array& target) const {
  return gpus_->channel(spec_of(plan.hops[0]), carrier_of(source, target));
}

const ChannelSpec* EngineChannels::any_gpu_channel() const {
  const ChannelSpec* found = nullptr;
  for (const ChannelSpec& spec : profile_.channels) {
    if (traits_of(spec.kind).gpu && gpus_ != nullptr && gpus_->number_of(spec) >= 0) found = &spec;
  }
  return found;
}

Request EngineChannels::request_of(const RecipeStep& step, const Array& source,
                                   const Array& target) {
  Request request;
  request.payload = step.payload();
  request.source = source.place;
  request.target = target.place;
  request.bytes = step.plan->bytes;
  request.priority = step.priority;
  return request;
}

std::vector<double> EngineChannels::waiting_s(int priority) const {
  const std::vector<double> by_number = driver_->waiting_s(priority);
  if (std::all_of(by_number.begin(), by_number.end(), [](double s) { return s <= 0; })) return {};
  std::vector<double> by_channel;
  for (const ChannelSpec& channel : profile_.channels) {
    int number = -1;
    if (gpus_ != nullptr && gpus_->serves(channel)) {
      number = gpus_->number_of(channel);
    } else if (const auto found = numbers_.find(channel.kind); found != numbers_.end()) {
      number = found->second;
    }
    by_channel.push_back(number < 0 ? 0 : by_number[at(number)]);
  }
  return by_channel;
}

}  // namespace tranship
