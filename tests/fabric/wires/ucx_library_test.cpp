// The lookup of UCX where it is not installed, and the checks of its interface. Nothing here loads
// UCX.
#include "fabric/wires/ucx/ucx_library.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>

#include "fabric/messages/protocol.hpp"
#include "fabric/wires/bulk_carrier.hpp"
#include "fabric/wires/ucx/ucx_carrier.hpp"
#include "support/test.hpp"

#if __has_include(<ucp/api/ucp.h>)
#include <ucp/api/ucp.h>
#endif

using namespace tranship;
using namespace tranship::fabric;

TEST(ucx_that_is_not_there_is_refused_with_what_to_do) {
  const auto opened = UcxCarrier::open({UcxCarrier::Reach::shared, "/nowhere/libucp.so.0"});
  REQUIRE(!opened.ok());
  EXPECT(opened.error().code == ErrorCode::unsupported);
  const std::string message = opened.error().text();
  EXPECT(message.find("/nowhere/libucp.so.0 is not there") != std::string::npos);
  EXPECT(message.find("pip install 'libucx-cu12>=1.22,<1.23'") != std::string::npos);
}

TEST(libraries_that_are_not_ucx_are_refused) {
  const auto opened = UcxCarrier::open({UcxCarrier::Reach::shared, "libm.so.6"});
  REQUIRE(!opened.ok());
  EXPECT(opened.error().code == ErrorCode::unsupported);
  EXPECT(opened.error().text().find("lacks ucp_get_version_string") != std::string::npos);
}

TEST(cards_for_rdma_are_up_when_a_port_is_active) {
  char name[] = "/tmp/tranship_cards_XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  EXPECT(!rdma_card_is_up(folder / "nothing"));
  EXPECT(!rdma_card_is_up(folder));
  const auto port = folder / "mlx5_0" / "ports" / "1";
  std::filesystem::create_directories(port);
  EXPECT(!rdma_card_is_up(folder));
  std::ofstream(port / "state") << "1: DOWN\n";
  EXPECT(!rdma_card_is_up(folder));
  std::ofstream(port / "state") << "4: ACTIVE\n";
  EXPECT(rdma_card_is_up(folder));
  std::filesystem::remove_all(folder);
}

TEST(what_a_peer_says_about_carriers_is_bounded) {
  Welcome welcome;
  welcome.carrier = "kind";
  welcome.carrier_address.resize(carrier_address_bytes_max);
  Welcome welcomed;
  EXPECT(decode(encode(welcome), welcomed));
  EXPECT_EQ(welcomed.carrier_address.size(), carrier_address_bytes_max);
  welcome.carrier_address.resize(carrier_address_bytes_max + 1);
  EXPECT(!decode(encode(welcome), welcomed));
  welcome.carrier_address.clear();
  welcome.carrier.assign(carrier_kind_bytes_max + 1, 'x');
  EXPECT(!decode(encode(welcome), welcomed));
  LookupReply reply;
  LookupReply replied;
  reply.carrier_key.resize(carrier_key_bytes_max);
  EXPECT(decode(encode(reply), replied));
  reply.carrier_key.resize(carrier_key_bytes_max + 1);
  EXPECT(!decode(encode(reply), replied));
  Ready ready;
  ready.carrier = 2;
  Ready read;
  EXPECT(!decode(encode(ready), read));
}

#if __has_include(<ucp/api/ucp.h>)
#define SAME_PLACE(ours, field, theirs, their_field)                             \
  static_assert(offsetof(ucp::ours, field) == offsetof(::theirs, their_field) && \
                sizeof(std::declval<ucp::ours>().field) ==                       \
                    sizeof(std::declval<::theirs>().their_field))

SAME_PLACE(ContextParameters, field_mask, ucp_params_t, field_mask);
SAME_PLACE(ContextParameters, features, ucp_params_t, features);
SAME_PLACE(ContextParameters, mt_workers_shared, ucp_params_t, mt_workers_shared);
SAME_PLACE(WorkerParameters, field_mask, ucp_worker_params_t, field_mask);
SAME_PLACE(WorkerParameters, thread_mode, ucp_worker_params_t, thread_mode);
SAME_PLACE(EndpointParameters, field_mask, ucp_ep_params_t, field_mask);
SAME_PLACE(EndpointParameters, address, ucp_ep_params_t, address);
SAME_PLACE(EndpointParameters, error_mode, ucp_ep_params_t, err_mode);
SAME_PLACE(EndpointParameters, error_handler, ucp_ep_params_t, err_handler.cb);
SAME_PLACE(EndpointParameters, error_argument, ucp_ep_params_t, err_handler.arg);
SAME_PLACE(MemoryParameters, field_mask, ucp_mem_map_params_t, field_mask);
SAME_PLACE(MemoryParameters, address, ucp_mem_map_params_t, address);
SAME_PLACE(MemoryParameters, length, ucp_mem_map_params_t, length);
SAME_PLACE(MemoryParameters, memory_type, ucp_mem_map_params_t, memory_type);
SAME_PLACE(OperationParameters, field_mask, ucp_request_param_t, op_attr_mask);
SAME_PLACE(OperationParameters, flags, ucp_request_param_t, flags);
SAME_PLACE(OperationParameters, memory_type, ucp_request_param_t, memory_type);
static_assert(sizeof(ucp::ContextParameters) >= sizeof(ucp_params_t));
static_assert(sizeof(ucp::WorkerParameters) >= sizeof(ucp_worker_params_t));
static_assert(sizeof(ucp::EndpointParameters) >= sizeof(ucp_ep_params_t));
static_assert(sizeof(ucp::MemoryParameters) >= sizeof(ucp_mem_map_params_t));
static_assert(sizeof(ucp::OperationParameters) >= sizeof(ucp_request_param_t));
static_assert(sizeof(ucp::Status) == sizeof(ucs_status_t));

TEST(our_declarations_are_those_of_ucx) {
  EXPECT_EQ(ucp::ContextParameters::has_features, std::uint64_t{UCP_PARAM_FIELD_FEATURES});
  EXPECT_EQ(ucp::ContextParameters::has_shared_workers,
            std::uint64_t{UCP_PARAM_FIELD_MT_WORKERS_SHARED});
  EXPECT_EQ(ucp::WorkerParameters::has_thread_mode,
            std::uint64_t{UCP_WORKER_PARAM_FIELD_THREAD_MODE});
  EXPECT_EQ(ucp::EndpointParameters::has_remote_address,
            std::uint64_t{UCP_EP_PARAM_FIELD_REMOTE_ADDRESS});
  EXPECT_EQ(ucp::EndpointParameters::has_error_mode,
            std::uint64_t{UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE});
  EXPECT_EQ(ucp::EndpointParameters::has_error_handler,
            std::uint64_t{UCP_EP_PARAM_FIELD_ERR_HANDLER});
  EXPECT_EQ(ucp::MemoryParameters::has_address, std::uint64_t{UCP_MEM_MAP_PARAM_FIELD_ADDRESS});
  EXPECT_EQ(ucp::MemoryParameters::has_length, std::uint64_t{UCP_MEM_MAP_PARAM_FIELD_LENGTH});
  EXPECT_EQ(ucp::MemoryParameters::has_memory_type,
            std::uint64_t{UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE});
  EXPECT_EQ(ucp::OperationParameters::has_flags, std::uint32_t{UCP_OP_ATTR_FIELD_FLAGS});
  EXPECT_EQ(ucp::OperationParameters::has_memory_type,
            std::uint32_t{UCP_OP_ATTR_FIELD_MEMORY_TYPE});
  EXPECT_EQ(ucp::OperationParameters::close_by_force, std::uint32_t{UCP_EP_CLOSE_FLAG_FORCE});
  EXPECT_EQ(ucp::feature_rma, std::uint64_t{UCP_FEATURE_RMA});
  EXPECT_EQ(ucp::thread_mode_serialized, static_cast<int>(UCS_THREAD_MODE_SERIALIZED));
  EXPECT_EQ(ucp::error_mode_peer, static_cast<int>(UCP_ERR_HANDLING_MODE_PEER));
  EXPECT_EQ(ucp::host_memory, static_cast<int>(UCS_MEMORY_TYPE_HOST));
  EXPECT_EQ(static_cast<int>(ucp::in_progress), static_cast<int>(UCS_INPROGRESS));
  EXPECT_EQ(static_cast<int>(ucp::last_error), static_cast<int>(UCS_ERR_LAST));
}
#else
TEST(our_declarations_are_those_of_ucx) {
  throw test::CaseSkipped("no header of UCX: pip install libucx-cu12");
}
#endif
