/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Best fit over one ordered set, the way the caching allocators of learning
 * frameworks do it: a std::set of free blocks by (stream, size, address), a hash
 * table from pointer to block, neighbours linked in address order, immediate
 * coalescing.  One growing range of addresses, like the model's: when nothing fits,
 * a free block at the end is extended by what is missing.  It is exact best fit,
 * so its peak address is also what fragmentation is measured against.
 *
 * Not thread-safe; no locks are taken, which favours it.
 */
#include "bench/peer.h"

#include <iterator>
#include <new>
#include <set>
#include <unordered_map>

namespace
{

struct Block {
	unsigned stream;
	bool live;
	uint64_t size;
	uint64_t address;
	Block *previous;
	Block *next;
};

struct BySize {
	bool operator()(const Block *a, const Block *b) const
	{
		if (a->stream != b->stream)
			return a->stream < b->stream;
		if (a->size != b->size)
			return a->size < b->size;
		return a->address < b->address;
	}
};

class Tree
{
      public:
	uint64_t alloc(uint64_t size, unsigned stream)
	{
		Block *block = take(size, stream);

		if (block->size > size)
			split(block, size);
		block->live = true;
		live_.emplace(block->address, block);
		return block->address;
	}

	void free(uint64_t address)
	{
		auto found = live_.find(address);

		if (found == live_.end())
			peer_fail("free of an unknown block");
		Block *block = found->second;
		live_.erase(found);
		block->live = false;
		join(block, block->previous);
		join(block, block->next);
		free_.insert(block);
	}

      private:
	Block *take(uint64_t size, unsigned stream)
	{
		Block key{ stream, false, size, 0, nullptr, nullptr };
		auto found = free_.lower_bound(&key);

		if (found == free_.end() || (*found)->stream != stream)
			return grow(size, stream);
		Block *block = *found;
		free_.erase(found);
		return block;
	}

	Block *grow(uint64_t size, unsigned stream)
	{
		if (last_ != nullptr && !last_->live && last_->stream == stream) {
			free_.erase(last_);
			end_ += size - last_->size;
			last_->size = size;
			return last_;
		}
		Block *block = new Block{ stream, false, size, end_, last_, nullptr };
		if (last_ != nullptr)
			last_->next = block;
		last_ = block;
		end_ += size;
		return block;
	}

	void split(Block *block, uint64_t size)
	{
		Block *rest = new Block{ block->stream,         false, block->size - size,
					 block->address + size, block, block->next };

		if (rest->next != nullptr)
			rest->next->previous = rest;
		else
			last_ = rest;
		block->next = rest;
		block->size = size;
		free_.insert(rest);
	}

	void join(Block *block, Block *other)
	{
		if (other == nullptr || other->live || other->stream != block->stream)
			return;
		free_.erase(other);
		if (other == block->previous) {
			block->address = other->address;
			block->previous = other->previous;
			if (block->previous != nullptr)
				block->previous->next = block;
		} else {
			block->next = other->next;
			if (block->next != nullptr)
				block->next->previous = block;
			else
				last_ = block;
		}
		block->size += other->size;
		delete other;
	}

	std::set<Block *, BySize> free_;
	std::unordered_map<uint64_t, Block *> live_;
	Block *last_ = nullptr;
	uint64_t end_ = (uint64_t)1 << 44;
};

uint64_t
tree_alloc(void *context, uint64_t size, unsigned stream)
{
	return static_cast<Tree *>(context)->alloc(size, stream);
}

void
tree_free(void *context, uint64_t ptr, unsigned)
{
	static_cast<Tree *>(context)->free(ptr);
}

} // namespace

extern "C" void
peer_open(const struct peer_options *, struct bench_allocator *allocator)
{
	allocator->context = new Tree;
	allocator->alloc = tree_alloc;
	allocator->free = tree_free;
	allocator->resident = peer_resident;
}
