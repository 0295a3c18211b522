/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adapter.cpp - a cache's store adapter in C++, as LMCache's: one client, four
 * workers with a part of each batch
 *
 * A line of standard input is a call, a line of output its result: numbers, one a
 * block. Blocks are numbered, and their bytes follow from the number.
 *
 *   setup MASTER SEGMENT      0, or -1
 *   exist|save|load|remove FIRST END
 *   larger FIRST END          load, into buffers of twice the size
 *   close                     0
 *
 * What is loaded and is not as it was saved is -9999.
 */
#include "real_client.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace
{

constexpr std::size_t block_size = 128 * 1024, n_workers = 4;
constexpr std::int64_t wrong_bytes = -9999;

using Results = std::vector<std::int64_t>;

char byte_of(std::size_t block, std::size_t at)
{
	return static_cast<char>(block * 37 + at * 11 + at / 4096);
}

struct Part {
	std::vector<std::string> keys;
	std::vector<std::vector<char>> blocks;
	std::vector<void *> buffers;
	std::vector<std::size_t> sizes;

	Part(std::size_t first, std::size_t end, std::size_t size, bool filled)
	    : sizes(end - first, size)
	{
		for (std::size_t i = first; i < end; i++) {
			keys.push_back("model@1@0@" + std::to_string(i));
			blocks.emplace_back(size);
			for (std::size_t at = 0; filled && at < size; at++)
				blocks.back()[at] = byte_of(i, at);
		}
		for (std::vector<char> &block : blocks)
			buffers.push_back(block.data());
	}
};

bool is_block(const std::vector<char> &data, std::size_t block)
{
	for (std::size_t at = 0; at < data.size(); at++)
		if (data[at] != (at < block_size ? byte_of(block, at) : '\0'))
			return false;
	return true;
}

Results load(mooncake::PyClient *client, std::size_t first, std::size_t end,
	     std::size_t size)
{
	Part part(first, end, size, false);
	Results got =
		client->batch_get_into(part.keys, part.buffers, part.sizes);

	for (std::size_t i = 0; i < got.size(); i++)
		if (got[i] >= 0 &&
		    (got[i] != static_cast<std::int64_t>(block_size) ||
		     !is_block(part.blocks[i], first + i)))
			got[i] = wrong_bytes;
	return got;
}

Results call(mooncake::PyClient *client, const std::string &what,
	     std::size_t first, std::size_t end)
{
	std::vector<int> codes;

	if (what == "load" || what == "larger")
		return load(client, first, end,
			    what == "load" ? block_size : 2 * block_size);

	Part part(first, end, block_size, what == "save");

	if (what == "save")
		codes = client->batch_put_from(part.keys, part.buffers,
					       part.sizes);
	else if (what == "exist")
		codes = client->batchIsExist(part.keys);
	else
		codes = client->batchRemove(part.keys, true);
	return Results(codes.begin(), codes.end());
}

Results by_workers(mooncake::PyClient *client, const std::string &what,
		   std::size_t first, std::size_t end)
{
	std::vector<std::thread> workers;
	std::vector<Results> parts(n_workers);
	Results all;
	const std::size_t each = (end - first + n_workers - 1) / n_workers;

	for (std::size_t w = 0; w < n_workers; w++)
		workers.emplace_back([&, w] {
			const std::size_t from =
				std::min(end, first + w * each);

			parts[w] = call(client, what, from,
					std::min(end, from + each));
		});
	for (std::thread &worker : workers)
		worker.join();
	for (const Results &part : parts)
		all.insert(all.end(), part.begin(), part.end());
	return all;
}

int set_up(mooncake::RealClient *client, const std::string &master,
	   const std::string &segment)
{
	const mooncake::ConfigDict config = {
		{"local_hostname", "127.0.0.1"},
		{"metadata_server", "P2PHANDSHAKE"},
		{"master_server_addr", master},
		{"protocol", "tcp"},
		{"global_segment_size", segment},
		{"local_buffer_size", "0"},
	};

	return client->setup_internal(config).has_value() ? 0 : -1;
}

} // namespace

int main()
{
	std::shared_ptr<mooncake::RealClient> client =
		mooncake::RealClient::create();
	std::string line, what, master, segment;
	std::size_t first, end;

	while (client && std::getline(std::cin, line)) {
		std::istringstream in(line);
		Results results;

		in >> what;
		if (what == "setup" && in >> master >> segment)
			results = {set_up(client.get(), master, segment)};
		else if (what == "close")
			results = {client->tearDownAll()};
		else if (in >> first >> end)
			results = by_workers(client.get(), what, first, end);
		std::cout << ">";
		for (std::int64_t result : results)
			std::cout << ' ' << result;
		std::cout << std::endl;
	}
	return client ? 0 : 1;
}
