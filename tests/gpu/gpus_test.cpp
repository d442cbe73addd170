// Emulated GPUs: what the channels and the engine expect of every Gpus.
#include "gpu/gpus.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/pitches.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

constexpr std::int64_t allocation_bytes = 8192;

std::byte pattern(std::int64_t position) { return static_cast<std::byte>(position * 7 + 3); }

void fill(std::byte* memory, std::int64_t bytes) {
  for (std::int64_t k = 0; k < bytes; ++k) memory[k] = pattern(k);
}

bool filled(const std::byte* memory, std::int64_t bytes, std::int64_t first = 0) {
  for (std::int64_t k = 0; k < bytes; ++k) {
    if (memory[k] != pattern(first + k)) return false;
  }
  return true;
}

std::byte* device_memory(Gpus& gpus, int device, std::int64_t bytes = allocation_bytes) {
  auto made = gpus.allocate(device, bytes);
  REQUIRE(made.ok());
  return *made;
}

GpuStream stream_on(Gpus& gpus, int device) {
  auto made = gpus.make_stream(device, false);
  REQUIRE(made.ok());
  return *made;
}

bool mentions(const Error& error, const char* text) {
  return error.text().find(text) != std::string::npos;
}

/// Plans the transpose of rows * width elements of 4 bytes: the target's fastest loop is the
/// source's slowest.
std::vector<gpu::KernelPlan> transposing(std::int64_t rows, std::int64_t width,
                                         const std::byte* source, const std::byte* target) {
  LoopNest nest;
  nest.element_bytes = 4;
  nest.rank = 2;
  nest.loops[0] = {rows, width * 4, 4};
  nest.loops[1] = {width, 4, rows * 4};
  std::vector<gpu::KernelPlan> plans;
  gpu::plan_kernels(nest, source, target, plans);
  return plans;
}

}  // namespace

TEST(emulated_gpus_describe_themselves) {
  const auto gpus = Gpus::emulate(2);
  EXPECT(gpus->emulated());
  REQUIRE(gpus->list().size() == 2);
  EXPECT(gpus->list()[0].bus != gpus->list()[1].bus);
  EXPECT(gpus->list()[0].memory_bytes > 0);
  EXPECT(mentions({ErrorCode::io, gpus->list()[1].name}, "emulated"));
  EXPECT(gpus->peers(0, 1));
  EXPECT(!gpus->peers(0, 2));
}

TEST(addresses_have_kinds) {
  const auto gpus = Gpus::emulate(2);
  std::byte* on_second = device_memory(*gpus, 1);
  auto pinned = gpus->allocate_pinned(100);
  REQUIRE(pinned.ok());
  std::byte local[16] = {};
  EXPECT(gpus->where(local).kind == MemoryKind::host);
  EXPECT(gpus->where(on_second).kind == MemoryKind::device);
  EXPECT(gpus->where(on_second + allocation_bytes - 1).kind == MemoryKind::device);
  EXPECT_EQ(gpus->where(on_second + 5).device, 1);
  EXPECT(gpus->where(on_second + allocation_bytes).kind == MemoryKind::host);
  EXPECT(gpus->where(*pinned + 99).kind == MemoryKind::pinned);
  EXPECT(gpus->where(*pinned + 100).kind == MemoryKind::host);
  gpus->release(1, on_second);
  gpus->release_pinned(*pinned);
  EXPECT(gpus->where(on_second).kind == MemoryKind::host);
  EXPECT(gpus->where(*pinned).kind == MemoryKind::host);
}

TEST(pageable_memory_can_be_pinned) {
  const auto gpus = Gpus::emulate(1);
  std::vector<std::byte> memory(4 * 4096);
  const auto misfit = reinterpret_cast<std::uintptr_t>(memory.data()) % 4096;
  std::byte* pages = memory.data() + (4096 - misfit);
  REQUIRE(gpus->pin(pages, 8192).ok());
  EXPECT(gpus->where(pages + 8191).kind == MemoryKind::pinned);
  EXPECT(gpus->where(pages + 8192).kind == MemoryKind::host);
  const Status again = gpus->pin(pages + 4096, 8192);
  REQUIRE(!again.ok());
  EXPECT(again.error().code == ErrorCode::invalid_argument &&
         mentions(again.error(), "pin it once"));
  const Status parts = gpus->pin(pages + 8192, 100);
  REQUIRE(!parts.ok());
  EXPECT(mentions(parts.error(), "whole pages"));
  gpus->unpin(pages);
  EXPECT(gpus->where(pages).kind == MemoryKind::host);
  EXPECT(gpus->pin(pages + 4096, 8192).ok());
  gpus->unpin(pages + 4096);
}

TEST(memory_of_a_gpu_ends) {
  const auto gpus = Gpus::emulate(2);
  const std::int64_t all = gpus->list()[0].memory_bytes;
  auto most = gpus->allocate(0, all - 4096);
  REQUIRE(most.ok());
  const auto more = gpus->allocate(0, 8192);
  REQUIRE(!more.ok());
  EXPECT(more.error().code == ErrorCode::out_of_memory);
  EXPECT(mentions(more.error(), "free arrays") && mentions(more.error(), "4096"));
  device_memory(*gpus, 1, 8192);  // the other GPU has memory of its own
  gpus->release(0, *most);
  device_memory(*gpus, 0, 8192);
}

TEST(copies_join_all_memories) {
  const auto gpus = Gpus::emulate(2);
  std::byte* first = device_memory(*gpus, 0);
  std::byte* second = device_memory(*gpus, 1);
  const GpuStream stream = stream_on(*gpus, 0);
  std::vector<std::byte> sent(allocation_bytes);
  std::vector<std::byte> received(allocation_bytes);
  fill(sent.data(), allocation_bytes);
  EXPECT(gpus->copy(stream, sent.data(), first, allocation_bytes).ok());
  EXPECT(gpus->copy(stream, first, second, allocation_bytes).ok());
  const GpuStream none{1, nullptr};  // the GPU's default stream
  EXPECT(gpus->copy(none, second, received.data(), allocation_bytes).ok());
  EXPECT(filled(received.data(), allocation_bytes));
  const Status outside = gpus->copy(stream, sent.data(), first + 1, allocation_bytes);
  REQUIRE(!outside.ok());
  EXPECT(outside.error().code == ErrorCode::invalid_argument);
  EXPECT(mentions(outside.error(), "leaves the allocation at its target"));
  gpus->release(stream);
  const Status released = gpus->copy(stream, sent.data(), first, 1);
  REQUIRE(!released.ok());
  EXPECT(mentions(released.error(), "was released"));
}

TEST(pitched_copies_skip_what_lies_between) {
  const auto gpus = Gpus::emulate(1);
  std::byte* memory = device_memory(*gpus, 0);
  const GpuStream stream = stream_on(*gpus, 0);
  std::vector<std::byte> source(2 * 64 * 4);
  fill(source.data(), static_cast<std::int64_t>(source.size()));
  const PitchedCopy shape{.width_bytes = 10,
                          .rows = 3,
                          .planes = 2,
                          .source_pitch = 64,
                          .target_pitch = 20,
                          .source_plane = 256,
                          .target_plane = 100};
  std::memset(memory, 0xEE, allocation_bytes);
  REQUIRE(gpus->copy(stream, source.data(), memory, shape).ok());
  for (std::int64_t plane = 0; plane < 2; ++plane) {
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::byte* target = memory + plane * 100 + row * 20;
      EXPECT(filled(target, 10, plane * 256 + row * 64));
      EXPECT(target[10] == std::byte{0xEE});
    }
  }
  PitchedCopy overlapping = shape;
  overlapping.target_pitch = 9;
  const Status refused = gpus->copy(stream, source.data(), memory, overlapping);
  REQUIRE(!refused.ok());
  EXPECT(mentions(refused.error(), "use a kernel"));
}

TEST(pitches_that_copy_engines_carry) {
  const auto planes_only = plain_pitches({.width_bytes = 8,
                                          .rows = 1,
                                          .planes = 5,
                                          .source_pitch = 0,
                                          .target_pitch = 0,
                                          .source_plane = 100,
                                          .target_plane = 24});
  REQUIRE(planes_only.ok());
  EXPECT_EQ(planes_only->rows, 5);
  EXPECT_EQ(planes_only->planes, 1);
  EXPECT_EQ(planes_only->source_pitch, 100);
  EXPECT_EQ(planes_only->target_pitch, 24);
  EXPECT(plain_pitches({.width_bytes = 8}).ok());
  PitchedCopy far{.width_bytes = 8, .rows = 2, .source_pitch = 1LL << 31, .target_pitch = 8};
  EXPECT(!plain_pitches(far).ok());
  far.source_pitch -= 1;
  EXPECT(plain_pitches(far).ok());
  const PitchedCopy broken{.width_bytes = 8,
                           .rows = 2,
                           .planes = 2,
                           .source_pitch = 16,
                           .target_pitch = 8,
                           .source_plane = 40,
                           .target_plane = 16};
  EXPECT(!plain_pitches(broken).ok());
}

TEST(kernels_run_where_gpus_reach) {
  const auto gpus = Gpus::emulate(2);
  constexpr std::int64_t rows = 24;
  constexpr std::int64_t width = 40;
  auto* source = reinterpret_cast<std::uint32_t*>(device_memory(*gpus, 0));
  auto* target = reinterpret_cast<std::uint32_t*>(device_memory(*gpus, 1));
  for (std::uint32_t k = 0; k < rows * width; ++k) source[k] = k * 2654435761U;
  const GpuStream stream = stream_on(*gpus, 0);
  const auto* from = reinterpret_cast<const std::byte*>(source);
  auto* to = reinterpret_cast<std::byte*>(target);
  const auto plans = transposing(rows, width, from, to);
  REQUIRE(!plans.empty());
  for (const auto& plan : plans) REQUIRE(gpus->launch(stream, plan, {}, from, to).ok());
  int wrong = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      if (target[column * rows + row] != source[row * width + column]) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0);
  std::vector<std::byte> pageable(allocation_bytes);
  const Status refused = gpus->launch(stream, plans[0], {}, pageable.data(), to);
  REQUIRE(!refused.ok());
  EXPECT(mentions(refused.error(), "pageable source"));
}

TEST(kernels_carry_lists_of_pieces) {
  const auto gpus = Gpus::emulate(1);
  std::byte* source = device_memory(*gpus, 0);
  std::byte* target = device_memory(*gpus, 0);
  fill(source, allocation_bytes);
  std::memset(target, 0, allocation_bytes);
  auto memory = gpus->allocate_pinned(2 * static_cast<std::int64_t>(sizeof(Run)));
  REQUIRE(memory.ok());
  const Run pieces[] = {{100, 0, 33}, {4001, 500, 1000}};
  std::memcpy(*memory, pieces, sizeof pieces);
  const auto* table = reinterpret_cast<const Run*>(*memory);
  const GpuStream stream = stream_on(*gpus, 0);
  REQUIRE(gpus->launch(stream, table, 2, source, target).ok());
  EXPECT(filled(target, 33, 100));
  EXPECT(filled(target + 500, 1000, 4001));
  EXPECT(target[33] == std::byte{0} && target[499] == std::byte{0});
}

TEST(marks_are_reached_when_asked_twice) {
  const auto gpus = Gpus::emulate(2);
  const GpuStream stream = stream_on(*gpus, 1);
  auto event = gpus->make_event(1);
  REQUIRE(event.ok());
  EXPECT_EQ(gpus->reached(*event).value(), true);  // like a CUDA event that was never recorded
  for (int round = 0; round < 2; ++round) {
    REQUIRE(gpus->record(*event, stream).ok());
    EXPECT_EQ(gpus->reached(*event).value(), false);
    EXPECT_EQ(gpus->reached(*event).value(), true);
    EXPECT_EQ(gpus->reached(*event).value(), true);
  }
  EXPECT(gpus->wait(stream_on(*gpus, 0), *event).ok());
  EXPECT(!gpus->capturing(stream));
  gpus->release(*event);
}

TEST(work_in_a_captured_stream_runs_with_its_graph) {
  const auto gpus = Gpus::emulate(1);
  auto* streams = dynamic_cast<EmulatedStreams*>(gpus.get());
  const GpuStream stream = stream_on(*gpus, 0);
  const GpuStream held = streams->make_held_stream(0).value();
  const GpuEvent event = gpus->make_event(0).value();
  REQUIRE(gpus->record(event, held).ok());
  std::byte* memory = device_memory(*gpus, 0);
  std::memset(memory, 0, allocation_bytes);
  const auto fills = [&](std::byte value) {
    return streams->fill(stream, memory, 1, value).ok() && memory[0] == value;
  };
  EXPECT(!gpus->capturing(stream) && fills(std::byte{1}));
  streams->begin_capture(stream);
  EXPECT(gpus->capturing(stream) && !gpus->capturing(held));
  EXPECT(!fills(std::byte{2}));
  const Status waits = gpus->wait(stream, event);
  REQUIRE(!waits);
  EXPECT(mentions(waits.error(), "outside of its graph"));
  const auto graph = streams->end_capture(stream);
  EXPECT(!gpus->capturing(stream) && fills(std::byte{3}));
  for (int run = 0; run < 2; ++run) {
    graph();
    EXPECT(memory[0] == std::byte{2});
    EXPECT(fills(std::byte{4}));
  }
  streams->let_go(held);
  gpus->release(event);
  for (const GpuStream& one : {stream, held}) gpus->release(one);
  gpus->release(0, memory);
}

TEST(ipc_handles_open_the_same_memory) {
  const auto owner = Gpus::emulate(2);
  const auto guest = Gpus::emulate(2);
  std::byte* memory = device_memory(*owner, 1);
  fill(memory, allocation_bytes);
  const auto ipc = owner->ipc_handle(memory + 1000);
  REQUIRE(ipc.ok());
  EXPECT_EQ(ipc->offset_bytes, 1000);
  EXPECT_EQ(ipc->bus, owner->list()[1].bus);
  auto opened = guest->open_ipc_handle(*ipc, 0);
  REQUIRE(opened.ok());
  EXPECT(*opened != memory + 1000);
  EXPECT(filled(*opened, 500, 1000));
  EXPECT(guest->where(*opened).kind == MemoryKind::device);
  EXPECT_EQ(guest->where(*opened).device, 1);
  (*opened)[0] = std::byte{42};
  EXPECT(memory[1000] == std::byte{42});

  auto again = guest->open_ipc_handle(owner->ipc_handle(memory).value(), 0);
  REQUIRE(again.ok());
  EXPECT(*again + 1000 == *opened);  // the handle was opened once
  guest->close_ipc_handle(*again);
  EXPECT(guest->where(*opened).kind == MemoryKind::device);

  // As CUDA has it, each GPU finds the memory at an address of its own, and at no other.
  auto beside = guest->open_ipc_handle(*ipc, 1);
  REQUIRE(beside.ok());
  EXPECT(*beside != *opened);
  EXPECT((*beside)[0] == std::byte{42});
  std::byte* own = device_memory(*guest, 0);
  LoopNest nest;
  nest.element_bytes = 64;
  std::vector<gpu::KernelPlan> plans;
  gpu::plan_kernels(nest, *opened, own, plans);
  REQUIRE(plans.size() == 1u);
  EXPECT(guest->launch(stream_on(*guest, 0), plans[0], {}, *opened, own).ok());
  EXPECT(own[0] == std::byte{42});
  const auto unreachable = guest->launch(stream_on(*guest, 1), plans[0], {}, *opened, own);
  REQUIRE(!unreachable.ok());
  EXPECT(mentions(unreachable.error(), "open for GPU 0"));
  guest->close_ipc_handle(*beside);

  guest->close_ipc_handle(*opened);
  EXPECT(guest->where(*opened).kind == MemoryKind::host);

  std::byte local[8] = {};
  const auto refused = owner->ipc_handle(local);
  REQUIRE(!refused.ok());
  EXPECT(mentions(refused.error(), "allocated on a GPU"));
}

TEST(ipc_handles_cross_processes) {
  const auto gpus = Gpus::emulate(1);
  std::byte* memory = device_memory(*gpus, 0);
  fill(memory, allocation_bytes);
  const auto ipc = gpus->ipc_handle(memory + 64);
  REQUIRE(ipc.ok());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto guest = Gpus::emulate(1);
    auto opened = guest->open_ipc_handle(*ipc, 0);
    if (!opened || !filled(*opened, 100, 64)) _exit(1);
    (*opened)[3] = std::byte{99};
    _exit(0);
  }
  int outcome = -1;
  REQUIRE(waitpid(child, &outcome, 0) == child);
  EXPECT_EQ(outcome, 0);
  EXPECT(memory[67] == std::byte{99});
}

/// The error of Gpus::open() says whether the build lacks CUDA or the machine a driver, and what to
/// do; where there are GPUs they are described.
TEST(opening_says_what_is_missing) {
  const auto gpus = Gpus::open();
  if (gpus.ok()) {
    REQUIRE(!(*gpus)->list().empty());
    EXPECT(!(*gpus)->emulated());
    EXPECT((*gpus)->list()[0].memory_bytes > 0 && (*gpus)->list()[0].multiprocessors > 0);
    return;
  }
  EXPECT(gpus.error().code == ErrorCode::unsupported);
#ifdef TRANSHIP_CUDA
  EXPECT(mentions(gpus.error(), "driver"));
#else
  EXPECT(mentions(gpus.error(), "this build has no CUDA") && mentions(gpus.error(), "install"));
#endif
}

}  // namespace tranship
