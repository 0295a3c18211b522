/* SPDX-License-Identifier: Apache-2.0 */
/*
 * consumer.cpp - a program written for Mooncake's C++ client
 *
 *   consumer work MASTER NAME   many threads put, ask, get and remove, each keys
 *                               of its own that begin with NAME; half of them stay
 *   consumer read MASTER NAME   reads what stayed
 *
 * It calls what a cache with native worker threads calls: all methods through the
 * base class, one client for all threads. Exit codes: 0 all was as it should be,
 * 1 something was not, which is printed.
 */
#include "real_client.h"

#include "config.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace
{

constexpr int n_threads = 8, n_batches = 4, n_keys = 16;
constexpr std::size_t value_size = 20000;

std::atomic<int> n_wrong{0};

void expect(bool is, const std::string &what)
{
	if (!is && n_wrong++ < 20)
		std::fprintf(stderr, "wrong: %s\n", what.c_str());
}

struct Batch {
	std::vector<std::string> keys;
	std::vector<std::vector<char>> values;
	std::vector<void *> buffers;
	std::vector<std::size_t> sizes;

	Batch(const std::string &name, int thread, int batch, bool filled)
	    : values(n_keys, std::vector<char>(value_size + 1))
	{
		for (int i = 0; i < n_keys; i++) {
			std::vector<char> &value =
				values[static_cast<std::size_t>(i)];

			keys.push_back(name + "@tp:" + std::to_string(thread) +
				       std::string(1, '\0') +
				       std::to_string(batch * n_keys + i));
			for (std::size_t j = 0; filled && j < value_size; j++)
				value[j] = byte(thread, batch, i, j);
			buffers.push_back(value.data());
			sizes.push_back(value_size);
		}
	}
	static char byte(int thread, int batch, int i, std::size_t j)
	{
		return static_cast<char>(
			static_cast<std::size_t>(thread * 7 + batch * 13 + i) +
			j * 31 + j / 257);
	}
	/* Keys at even places stay, the others go. */
	std::vector<std::string> leaving() const
	{
		std::vector<std::string> out;

		for (std::size_t i = 1; i < keys.size(); i += 2)
			out.push_back(keys[i]);
		return out;
	}
};

void all_are(const std::vector<int> &results, int value, std::size_t n,
	     const char *what)
{
	expect(results.size() == n, std::string(what) + ": length");
	for (int result : results)
		expect(result == value,
		       std::string(what) + ": " + std::to_string(result));
}

void read_back(mooncake::PyClient *client, const std::string &name, int thread,
	       int batch, bool halved)
{
	const Batch stored(name, thread, batch, true);
	Batch room(name, thread, batch, false);
	std::vector<std::size_t> larger(n_keys, value_size + 1);
	std::vector<std::int64_t> got =
		client->batch_get_into(room.keys, room.buffers, larger);

	expect(got.size() == n_keys, "get: length");
	for (std::size_t i = 0; i < got.size(); i++) {
		if (halved && i % 2) {
			expect(got[i] == -704, "get of what was removed: " +
						       std::to_string(got[i]));
			continue;
		}
		expect(got[i] == static_cast<std::int64_t>(value_size),
		       "get: " + std::to_string(got[i]));
		expect(!std::memcmp(room.buffers[i], stored.values[i].data(),
				    value_size),
		       "get: other bytes");
	}
}

void work_batch(mooncake::PyClient *client, const std::string &name, int thread,
		int batch)
{
	Batch b(name, thread, batch, true);
	const std::vector<std::string> leaving = b.leaving();

	all_are(client->batchIsExist(b.keys), 0, n_keys, "exist before");
	all_are(client->batch_put_from(b.keys, b.buffers, b.sizes), 0, n_keys,
		"put");
	all_are(client->batchIsExist(b.keys), 1, n_keys, "exist");
	read_back(client, name, thread, batch, false);
	all_are(client->batchRemove(leaving, true), 0, leaving.size(),
		"remove");
	all_are(client->batchIsExist(leaving), 0, leaving.size(),
		"exist after removal");
	all_are(client->batchRemove(leaving, true), -704, leaving.size(),
		"remove again");
	read_back(client, name, thread, batch, true);
}

void work_single(mooncake::PyClient *client, const std::string &name,
		 int thread)
{
	const std::string key = name + "@one:" + std::to_string(thread);
	char value[] = "a value", room[sizeof(value)] = "";

	expect(client->isExist(key) == 0, "isExist before");
	expect(client->get_into(key, room, sizeof(room)) == -704, "get before");
	expect(client->put_from(key, value, sizeof(value)) == 0, "put_from");
	expect(client->isExist(key) == 1, "isExist");
	expect(client->getSize(key) == sizeof(value), "getSize");
	expect(client->get_into(key, room, sizeof(room)) == sizeof(room),
	       "get_into");
	expect(!std::strcmp(value, room), "get_into: other bytes");
	expect(client->get_into(key, room, 1) < 0, "get into too little");

	std::shared_ptr<mooncake::BufferHandle> buffer =
		client->get_buffer(key);

	expect(buffer && buffer->size() == sizeof(value) &&
		       !std::memcmp(buffer->ptr(), value, sizeof(value)),
	       "get_buffer");
	expect(client->remove(key, true) == 0, "remove");
	expect(client->remove(key, true) != 0, "remove again");
	expect(!client->get_buffer(key), "get_buffer of what was removed");
}

void pieces(mooncake::PyClient *client, const std::string &name)
{
	const std::vector<std::string> keys = {name + "@pieces", name + "@2"};
	char head[] = "head", body[] = "and body", other[] = "other";
	char room[32] = "", other_room[8] = "";
	mooncake::ReplicateConfig config;

	config.group_ids = {"group", ""};
	config.prefer_alloc_in_same_node = true;
	all_are(client->batch_put_from_multi_buffers(
			keys, {{head, body}, {other}}, {{4, 8}, {5}}, config),
		0, 2, "put of pieces");

	const std::vector<std::int64_t> got =
		client->batch_get_into_multi_buffers(
			keys, {{room, room + 10}, {other_room}},
			{{10, 20}, {8}});

	expect(got == std::vector<std::int64_t>({12, 5}), "get of pieces");
	expect(!std::memcmp(room, "headand body", 12), "pieces: other bytes");
	all_are(client->batch_put_from_multi_buffers(keys, {{head}}, {{4}}),
		-600, 2, "too few lists");
	all_are(client->batchRemove(keys, true), 0, 2, "remove of pieces");
}

/* A time goes with ENABLE alone; 0 is one, and no pin. */
void pins(mooncake::PyClient *client, const std::string &name)
{
	using Action = mooncake::SoftPinAction;
	const struct {
		Action action;
		std::optional<std::uint64_t> ttl;
		int code;
	} cases[] = {
		{Action::PRESERVE, std::nullopt, 0},
		{Action::PRESERVE, 0, -600},
		{Action::PRESERVE, 1, -600},
		{Action::DISABLE, std::nullopt, 0},
		{Action::DISABLE, 0, -600},
		{Action::ENABLE, std::nullopt, 0},
		{Action::ENABLE, 0, 0},
		{Action::ENABLE, 86400000, 0},
		{Action::ENABLE, 86400001, -600},
	};
	char value[] = "pinned";

	for (const auto &one : cases) {
		mooncake::ReplicateConfig config;

		config.soft_pin_action = one.action;
		config.soft_pin_ttl_ms = one.ttl;
		expect(client->put_from(name + "@pin", value, sizeof(value),
					config) == one.code,
		       "put with a pin");
	}
	expect(client->remove(name + "@pin", true) == 0, "remove of a pin");
}

void work(mooncake::PyClient *client, const std::string &name)
{
	std::vector<std::thread> threads;

	for (int t = 0; t < n_threads; t++)
		threads.emplace_back([client, &name, t] {
			work_single(client, name, t);
			for (int b = 0; b < n_batches; b++)
				work_batch(client, name, t, b);
		});
	for (std::thread &thread : threads)
		thread.join();
	pieces(client, name);
	pins(client, name);
}

void read_all(mooncake::PyClient *client, const std::string &name)
{
	for (int t = 0; t < n_threads; t++)
		for (int b = 0; b < n_batches; b++)
			read_back(client, name, t, b, true);
}

/* Nothing is there for a client that is not set up, and nothing crashes. */
void not_set_up(mooncake::PyClient *client)
{
	char room[8];

	all_are(client->batchIsExist({"a", "b"}), -600, 2, "exist, not set up");
	all_are(client->batch_put_from({"a"}, {room}, {8}), -600, 1,
		"put, not set up");
	all_are(client->batchRemove({"a"}, true), -600, 1,
		"remove, not set up");
	expect(client->get_into("a", room, 8) == -600, "get, not set up");
	expect(client->health_check() == 1, "health, not set up");
	expect(client->get_hostname().empty(), "hostname, not set up");
}

void memory(mooncake::RealClient *client)
{
	std::vector<char> region(1 << 20);
	const std::size_t most = mooncake::globalConfig().max_mr_size;
	const std::size_t size =
		most && most < region.size() ? most : region.size();

	expect(client->register_buffer(region.data(), size) == 0, "register");
	expect(client->unregister_buffer(region.data()) == 0, "unregister");
	expect(client->unregister_buffer(region.data()) != 0,
	       "unregister again");
}

/* What begins in registered memory and ends behind it is refused by all. */
void past_the_end(mooncake::RealClient *client)
{
	const std::string key = "past the end " + std::to_string(getpid());
	char region[64] = "", good[8] = "good";
	char *last = region + 31; /* of what is registered */

	expect(client->register_buffer(region, 32) == 0, "register 32");
#if __cplusplus >= 202002L
	expect(client->put(key, {region, 33}) == -600, "put past the end");
#endif
	expect(client->put_from(key, last, 2) == -600, "put_from past the end");
	all_are(client->batch_put_from({key}, {last}, {2}), -600, 1,
		"batch_put_from past the end");
	all_are(client->batch_put_from_multi_buffers({key}, {{good, last}},
						     {{4, 2}}),
		-600, 1, "batch_put_from_multi_buffers past the end");
	all_are(client->batchIsExist({key}), 0, 1, "nothing of it");
	expect(client->put_from(key, good, 4) == 0, "put_from");
	expect(client->get_into(key, last, 4) == -600, "get_into past the end");
	expect(client->batch_get_into({key}, {last}, {4}) ==
		       std::vector<std::int64_t>{-600},
	       "batch_get_into past the end");
	expect(client->batch_get_into_multi_buffers({key}, {{good + 4, last}},
						    {{1, 3}}) ==
		       std::vector<std::int64_t>{-600},
	       "batch_get_into_multi_buffers past the end");
	expect(!last[0] && !last[1] && !good[4], "nothing was written");
	expect(client->get_into(key, region + 28, 4) == 4, "to the very end");
	expect(client->unregister_buffer(region) == 0, "unregister 32");
	expect(client->remove(key, true) == 0, "remove what was put");
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 4)
		return 1;

	const std::vector<std::pair<std::string, std::string>> given = {
		{"local_hostname", "127.0.0.1"},
		{"metadata_server", "P2PHANDSHAKE"},
		{"master_server_addr", argv[2]},
		{"global_segment_size", "0"},
		{"local_buffer_size", "0"},
		{"protocol", "tcp"},
		/* Of a crowded machine. */
		{"rpc_timeout", "100s"},
		{"connect_timeout", "100s"},
		{"replica_timeout", "100s"},
	};
	const mooncake::ConfigDict config(given.begin(), given.end());
	std::shared_ptr<mooncake::RealClient> client =
		mooncake::RealClient::create();
	mooncake::ConfigDict wrong = config;

	if (!client)
		return 1;
	not_set_up(client.get());
	wrong["local_buffer_size"] = "much";
	expect(!client->setup_internal(wrong).has_value(), "a wrong setup");

	const auto result = client->setup_internal(config);

	expect(result.has_value(), "setup");
	if (!result.has_value())
		return 1;
	memory(client.get());
	past_the_end(client.get());
	if (std::strcmp(argv[1], "work") == 0)
		work(client.get(), argv[3]);
	else
		read_all(client.get(), argv[3]);
	expect(client->tearDownAll() == 0, "tearDownAll");
	not_set_up(client.get());
	client.reset();
	return n_wrong ? 1 : 0;
}
