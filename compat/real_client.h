/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real_client.h - Mooncake's C++ client, as programs call it
 *
 * C++17, header only: every function is inline over store_c.h, so that no C++
 * symbol crosses the library boundary and any compiler may build the program.
 * Link with -lmooncake_store.
 *
 * Results are Mooncake's numbers, as store_c.h says; lists of results always
 * have the length of the list of keys. No function throws except
 * std::bad_alloc. Threads: any, also several on one client; while a client is
 * set up or torn down, calls of other threads are refused.
 */
#ifndef MOONCAKE_REAL_CLIENT_H
#define MOONCAKE_REAL_CLIENT_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "client_types.h"
#include "config.h"
#include "store_c.h"

namespace mooncake
{

/* Fetched value. Its memory lasts as long as the handle. */
class BufferHandle
{
	std::unique_ptr<char[]> bytes_;
	std::size_t size_;

      public:
	BufferHandle(std::unique_ptr<char[]> bytes, std::size_t size)
	    : bytes_(std::move(bytes)), size_(size)
	{
	}
	void *ptr() const
	{
		return bytes_.get();
	}
	std::size_t size() const
	{
		return size_;
	}
};

class TransferEngine; /* Mooncake's; never defined here */

class PyClient
{
	using Keys = std::vector<std::string>;

	static std::vector<mooncake_key> keys_of(const Keys &keys)
	{
		std::vector<mooncake_key> out;

		out.reserve(keys.size());
		for (const std::string &key : keys)
			out.push_back({key.data(), key.size()});
		return out;
	}

	/* C form of @config; valid as long as this object. */
	class Options
	{
		std::vector<const char *> preferred_, groups_;
		mooncake_put_options options_{};

		/* Tells a 0 by the action: in C it is the default. */
		void set_ttl(std::uint64_t ms)
		{
			int &action = options_.soft_pin_action;
			bool enable = options_.config.with_soft_pin ||
				      action == MOONCAKE_SOFT_PIN_ENABLE;

			if (!enable) {
				ms = UINT64_MAX; /* is refused, 0 too */
			} else if (!ms) {
				options_.config.with_soft_pin = 0;
				action = MOONCAKE_SOFT_PIN_DISABLE;
			}
			options_.soft_pin_ttl_ms = ms;
		}

	      public:
		explicit Options(const ReplicateConfig &c)
		{
			if (!c.preferred_segment.empty())
				preferred_.push_back(
					c.preferred_segment.c_str());
			for (const std::string &name : c.preferred_segments)
				preferred_.push_back(name.c_str());
			for (const std::string &name : c.group_ids)
				groups_.push_back(name.c_str());
			options_.size = sizeof(options_);
			options_.config.replica_num = c.replica_num;
			options_.config.with_soft_pin = c.with_soft_pin;
			options_.config.with_hard_pin = c.with_hard_pin;
			options_.config.preferred_segments = preferred_.data();
			options_.config.preferred_segments_count =
				preferred_.size();
			options_.soft_pin_action =
				static_cast<int>(c.soft_pin_action);
			options_.same_node = c.prefer_alloc_in_same_node;
			options_.data_type = static_cast<int>(c.data_type);
			options_.group_ids = groups_.data();
			options_.group_ids_count = groups_.size();
			if (c.soft_pin_ttl_ms)
				set_ttl(*c.soft_pin_ttl_ms);
		}
		const mooncake_put_options *get() const
		{
			return &options_;
		}
	};

	/* Pieces of several keys, one key after the other. */
	struct Pieces {
		std::vector<void *> buffers;
		std::vector<std::size_t> sizes, per_key;
		bool holds = true;

		Pieces(std::size_t n,
		       const std::vector<std::vector<void *>> &all_buffers,
		       const std::vector<std::vector<std::size_t>> &all_sizes)
		{
			holds = all_buffers.size() == n &&
				all_sizes.size() == n;
			for (std::size_t i = 0; holds && i < n; i++)
				add(all_buffers[i], all_sizes[i]);
		}
		mooncake_pieces get() const
		{
			return {buffers.data(), sizes.data(), per_key.data()};
		}

	      private:
		void add(const std::vector<void *> &b,
			 const std::vector<std::size_t> &s)
		{
			holds = b.size() == s.size();
			buffers.insert(buffers.end(), b.begin(), b.end());
			sizes.insert(sizes.end(), s.begin(), s.end());
			per_key.push_back(b.size());
		}
	};

      protected:
	static constexpr int bad = static_cast<int>(ErrorCode::INVALID_PARAMS);
	mooncake_store_t store_ = nullptr;

	PyClient() : store_(mooncake_store_create())
	{
		if (!store_)
			throw std::bad_alloc();
	}

      public:
	PyClient(const PyClient &) = delete;
	PyClient &operator=(const PyClient &) = delete;
	virtual ~PyClient()
	{
		mooncake_store_destroy(store_);
	}

	/* ---- writing ---- */

	int put_from(const std::string &key, void *buffer, std::size_t size,
		     const ReplicateConfig &config = {})
	{
		if (!size) /* logs a warning, stores nothing */
			return mooncake_store_put_from(store_, key.c_str(),
						       buffer, 0, nullptr);
		return batch_put_from({key}, {buffer}, {size}, config)[0];
	}
	std::vector<int> batch_put_from(const Keys &keys,
					const std::vector<void *> &buffers,
					const std::vector<std::size_t> &sizes,
					const ReplicateConfig &config = {})
	{
		const std::vector<mooncake_key> list = keys_of(keys);
		const mooncake_pieces values = {buffers.data(), sizes.data(),
						nullptr};
		std::vector<int> results(keys.size(), bad);

		if (buffers.size() == keys.size() &&
		    sizes.size() == keys.size())
			(void)mooncake_store_put_keys(
				store_, list.data(), &values, list.size(),
				Options(config).get(), results.data());
		return results;
	}
	std::vector<int> batch_put_from_multi_buffers(
		const Keys &keys,
		const std::vector<std::vector<void *>> &all_buffers,
		const std::vector<std::vector<std::size_t>> &all_sizes,
		const ReplicateConfig &config = {})
	{
		const std::vector<mooncake_key> list = keys_of(keys);
		const Pieces pieces(keys.size(), all_buffers, all_sizes);
		const mooncake_pieces values = pieces.get();
		std::vector<int> results(keys.size(), bad);

		if (pieces.holds)
			(void)mooncake_store_put_keys(
				store_, list.data(), &values, list.size(),
				Options(config).get(), results.data());
		return results;
	}
#if __cplusplus >= 202002L
	int put(const std::string &key, std::span<const char> value,
		const ReplicateConfig &config = {})
	{
		return batch_put_from({key}, {const_cast<char *>(value.data())},
				      {value.size()}, config)[0];
	}
#endif

	/* ---- reading ---- */

	std::int64_t get_into(const std::string &key, void *buffer,
			      std::size_t size)
	{
		return batch_get_into({key}, {buffer}, {size})[0];
	}
	std::vector<std::int64_t>
	batch_get_into(const Keys &keys, const std::vector<void *> &buffers,
		       const std::vector<std::size_t> &sizes)
	{
		const std::vector<mooncake_key> list = keys_of(keys);
		const mooncake_pieces values = {buffers.data(), sizes.data(),
						nullptr};
		std::vector<std::int64_t> results(keys.size(), bad);

		if (buffers.size() == keys.size() &&
		    sizes.size() == keys.size())
			(void)mooncake_store_get_keys(store_, list.data(),
						      &values, list.size(),
						      results.data());
		return results;
	}
	std::vector<std::int64_t> batch_get_into_multi_buffers(
		const Keys &keys,
		const std::vector<std::vector<void *>> &all_buffers,
		const std::vector<std::vector<std::size_t>> &all_sizes,
		bool prefer_alloc_in_same_node = false)
	{
		const std::vector<mooncake_key> list = keys_of(keys);
		const Pieces pieces(keys.size(), all_buffers, all_sizes);
		const mooncake_pieces values = pieces.get();
		std::vector<std::int64_t> results(keys.size(), bad);

		(void)prefer_alloc_in_same_node;
		if (pieces.holds)
			(void)mooncake_store_get_keys(store_, list.data(),
						      &values, list.size(),
						      results.data());
		return results;
	}
	/* Returns null for a miss. Retries if the value grew meanwhile. */
	std::shared_ptr<BufferHandle> get_buffer(const std::string &key)
	{
		for (int i = 0; i < 3; i++) {
			const std::int64_t size = getSize(key);

			if (size <= 0)
				return nullptr;
			std::unique_ptr<char[]> bytes(
				new char[static_cast<std::size_t>(size)]);
			const std::int64_t n =
				get_into(key, bytes.get(),
					 static_cast<std::size_t>(size));

			if (n >= 0)
				return std::make_shared<BufferHandle>(
					std::move(bytes),
					static_cast<std::size_t>(n));
			if (n != bad)
				return nullptr;
		}
		return nullptr;
	}
	int isExist(const std::string &key)
	{
		return batchIsExist({key})[0];
	}
	std::vector<int> batchIsExist(const Keys &keys)
	{
		const std::vector<mooncake_key> list = keys_of(keys);
		std::vector<int> results(keys.size(), bad);

		(void)mooncake_store_exist_keys(store_, list.data(),
						list.size(), results.data());
		return results;
	}
	std::int64_t getSize(const std::string &key)
	{
		const mooncake_key one = {key.data(), key.size()};
		std::int64_t result = bad;

		(void)mooncake_store_size_keys(store_, &one, 1, &result);
		return result;
	}

	/* ---- removing ---- */

	int remove(const std::string &key, bool force = false)
	{
		return batchRemove({key}, force)[0];
	}
	std::vector<int> batchRemove(const Keys &keys, bool force = false)
	{
		const std::vector<mooncake_key> list = keys_of(keys);
		std::vector<int> results(keys.size(), bad);

		(void)mooncake_store_remove_keys(store_, list.data(),
						 list.size(), force,
						 results.data());
		return results;
	}
	long removeByRegex(const std::string &pattern, bool force = false)
	{
		return static_cast<long>(mooncake_store_remove_by_regex(
			store_, pattern.c_str(), force));
	}
	long removeAll(bool force = false)
	{
		return static_cast<long>(
			mooncake_store_remove_all(store_, force));
	}

	/* ---- life ---- */

	int register_buffer(void *buffer, std::size_t size)
	{
		return mooncake_store_register_buffer(store_, buffer, size);
	}
	int unregister_buffer(void *buffer)
	{
		return mooncake_store_unregister_buffer(store_, buffer);
	}
	std::string get_hostname()
	{
		char name[512] = "";

		(void)mooncake_store_get_hostname(store_, name, sizeof(name));
		return name;
	}
	int health_check()
	{
		return mooncake_store_health_check(store_);
	}
	/* Leaves the pool; the client may be set up again. */
	int tearDownAll()
	{
		return mooncake_store_close(store_);
	}
};

class RealClient : public PyClient
{
      public:
	/* Returns null if there is no memory. */
	static std::shared_ptr<RealClient> create()
	{
		try {
			return std::make_shared<RealClient>();
		} catch (const std::bad_alloc &) {
			return nullptr;
		}
	}

	/* Joins a pool by the keys and values of te/store_setup.h. */
	SetupResult setup_internal(const ConfigDict &config)
	{
		std::vector<const char *> keys, values;

		for (const auto &pair : config) {
			keys.push_back(pair.first.c_str());
			values.push_back(pair.second.c_str());
		}
		return SetupResult(mooncake_store_setup_pairs(
			store_, keys.data(), values.data(), keys.size()));
	}

	/* Returns -600 if @engine is given: it cannot be used here. */
	int
	setup_real(const std::string &local_hostname,
		   const std::string &metadata_server,
		   std::size_t global_segment_size = 16u << 20,
		   std::size_t local_buffer_size = 16u << 20,
		   const std::string &protocol = "tcp",
		   const std::string &rdma_devices = "",
		   const std::string &master_server_addr = "127.0.0.1:50051",
		   const std::shared_ptr<TransferEngine> &engine = nullptr,
		   const std::string &ipc_socket_path = "",
		   bool enable_ssd_offload = false,
		   const std::string &ssd_offload_path = "",
		   const std::string &tenant_id = "default",
		   bool enable_client_http_server = false,
		   int client_http_port = 9300)
	{
		if (engine)
			return bad;
		return static_cast<int>(
			setup_internal(
				{{"local_hostname", local_hostname},
				 {"metadata_server", metadata_server},
				 {"global_segment_size",
				  std::to_string(global_segment_size)},
				 {"local_buffer_size",
				  std::to_string(local_buffer_size)},
				 {"protocol", protocol},
				 {"rdma_devices", rdma_devices},
				 {"master_server_addr", master_server_addr},
				 {"ipc_socket_path", ipc_socket_path},
				 {"enable_ssd_offload",
				  enable_ssd_offload ? "1" : "0"},
				 {"ssd_offload_path", ssd_offload_path},
				 {"tenant_id", tenant_id},
				 {"enable_client_http_server",
				  enable_client_http_server ? "1" : "0"},
				 {"client_http_port",
				  std::to_string(client_http_port)}})
				.error());
	}
};

} // namespace mooncake

#endif
#endif
