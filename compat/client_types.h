/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_types.h - result codes and settings of real_client.h
 *
 * C++ only; a header without a library.
 */
#ifndef MOONCAKE_CLIENT_TYPES_H
#define MOONCAKE_CLIENT_TYPES_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace mooncake
{

/* All codes of Mooncake; te/store.h has those that calls here return. */
enum class ErrorCode : std::int32_t {
	OK = 0,
	INTERNAL_ERROR = -1,
	BUFFER_OVERFLOW = -10,
	SHARD_INDEX_OUT_OF_RANGE = -100,
	SEGMENT_NOT_FOUND = -101,
	SEGMENT_ALREADY_EXISTS = -102,
	CLIENT_NOT_FOUND = -103,
	NO_AVAILABLE_HANDLE = -200,
	INVALID_VERSION = -300,
	INVALID_KEY = -400,
	WRITE_FAIL = -500,
	INVALID_PARAMS = -600,
	ILLEGAL_CLIENT = -601,
	INVALID_WRITE = -700,
	INVALID_READ = -701,
	INVALID_REPLICA = -702,
	REPLICA_IS_NOT_READY = -703,
	OBJECT_NOT_FOUND = -704,
	OBJECT_ALREADY_EXISTS = -705,
	OBJECT_HAS_LEASE = -706,
	LEASE_EXPIRED = -707,
	OBJECT_HAS_REPLICATION_TASK = -708,
	OBJECT_NO_REPLICATION_TASK = -709,
	REPLICA_NOT_FOUND = -710,
	REPLICA_ALREADY_EXISTS = -711,
	REPLICA_IS_GONE = -712,
	REPLICA_NOT_IN_LOCAL_MEMORY = -713,
	OBJECT_REPLICA_BUSY = -714,
	TRANSFER_FAIL = -800,
	CHECKSUM_MISMATCH = -801,
	RPC_FAIL = -900,
	RPC_TIMEOUT = -901,
	ETCD_OPERATION_ERROR = -1000,
	ETCD_KEY_NOT_EXIST = -1001,
	ETCD_TRANSACTION_FAIL = -1002,
	ETCD_CTX_CANCELLED = -1003,
	OPLOG_ENTRY_NOT_FOUND = -1004,
	K8S_LEASE_OPERATION_ERROR = -1005,
	K8S_LEASE_NOT_FOUND = -1006,
	INCOMPLETE_OPLOG_CATCH_UP = -1007,
	UNAVAILABLE_IN_CURRENT_STATUS = -1010,
	UNAVAILABLE_IN_CURRENT_MODE = -1011,
	NOT_SUPPORTED = -1012,
	FILE_NOT_FOUND = -1100,
	FILE_OPEN_FAIL = -1101,
	FILE_READ_FAIL = -1102,
	FILE_WRITE_FAIL = -1103,
	FILE_INVALID_BUFFER = -1104,
	FILE_LOCK_FAIL = -1105,
	FILE_INVALID_HANDLE = -1106,
	BUCKET_NOT_FOUND = -1200,
	BUCKET_ALREADY_EXISTS = -1201,
	KEYS_EXCEED_BUCKET_LIMIT = -1202,
	KEYS_ULTRA_LIMIT = -1203,
	UNABLE_OFFLOAD = -1300,
	UNABLE_OFFLOADING = -1301,
	TASK_NOT_FOUND = -1400,
	TASK_PENDING_LIMIT_EXCEEDED = -1401,
	JOB_NOT_FOUND = -1402,
	SERIALIZE_UNSUPPORTED = -1500,
	SERIALIZE_FAIL = -1501,
	DESERIALIZE_FAIL = -1502,
	PERSISTENT_FAIL = -1503,
	DFS_NETWORK_TIMEOUT = -1600,
	DFS_SERVICE_UNAVAILABLE = -1601,
	DFS_QUOTA_EXCEEDED = -1602,
	DFS_PERMISSION_DENIED = -1603,
	DFS_STALE_HANDLE = -1604,
	DFS_PARTIAL_WRITE = -1605,
	TENANT_QUOTA_EXCEEDED = -1700,
	TENANT_NOT_REGISTERED = -1701,
	TENANT_NOT_EMPTY = -1702,
};

enum class SoftPinAction { PRESERVE = 0, ENABLE = 1, DISABLE = 2 };

enum class ObjectDataType {
	UNKNOWN = 0,
	KVCACHE = 1,
	TENSOR = 2,
	WEIGHT = 3,
	SAMPLE = 4,
	ACTIVATION = 5,
	GRADIENT = 6,
	OPTIMIZER_STATE = 7,
	METADATA = 8,
	GENERAL = 9,
};

/* Options of a put. Fields for parts that this project lacks are ignored. */
struct ReplicateConfig {
	std::size_t replica_num{1};
	bool with_soft_pin{false};
	SoftPinAction soft_pin_action{SoftPinAction::PRESERVE};
	/* None: the master's default; 0: no pin. Only with ENABLE. */
	std::optional<std::uint64_t> soft_pin_ttl_ms{};
	bool with_hard_pin{false};
	std::vector<std::string> preferred_segments{};
	std::string preferred_segment{}; /* older field; tried first */
	bool prefer_alloc_in_same_node{false};
	ObjectDataType data_type{ObjectDataType::UNKNOWN};
	std::vector<std::string> group_ids{}; /* one for each key, or none */
	std::size_t nof_replica_num{0}, dfs_replica_num{0}; /* ignored */
};

using ConfigDict = std::unordered_map<std::string, std::string>;

/* Result of a setup; stands for Mooncake's expected<void, ErrorCode>. */
class SetupResult
{
	int code_;

      public:
	explicit SetupResult(int code) : code_(code)
	{
	}
	bool has_value() const
	{
		return code_ == 0;
	}
	explicit operator bool() const
	{
		return has_value();
	}
	ErrorCode error() const
	{
		return static_cast<ErrorCode>(code_);
	}
};

} // namespace mooncake

#endif
#endif
