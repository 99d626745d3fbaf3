/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds a block, of the frames that a PyTorch snapshot gives for it.
 */
#include <string.h>

#include "tests/check_trace_support.h"

struct frame {
	const char *name, *file;
	uint64_t line;
};

static void
expect_holder(const char *holder, const struct frame *frame, size_t count)
{
	struct pickler p;
	struct bytes bytes;
	struct events events;

	make_begin_trace(&p);
	make_container(&p, '}');
	make_op(&p, '(');
	make_text_pair(&p, "action", "alloc");
	make_pair(&p, "addr", 1);
	make_pair(&p, "size", 1);
	make_pair(&p, "stream", 0);
	make_string(&p, "frames");
	make_container(&p, ']');
	make_op(&p, '(');
	for (size_t i = 0; i < count; i++)
		make_frame(&p, frame[i].name, frame[i].file, frame[i].line);
	make_op(&p, 'e');
	make_op(&p, 'u');
	bytes = make_end_trace(&p);
	events = events_of(&bytes);
	ck_assert_str_eq(events_holder(&events, 0), holder);
	events_free(&events);
	bytes_free(&bytes);
}

START_TEST(the_holder_is_the_innermost_frame_that_says_something)
{
	const struct frame unknown = { "??", "??", 0 };
	const struct frame unwind = { "torch::unwind::unwind()", "??", 0 };
	const struct frame alloc = { "at::TensorBase at::detail::empty<long>(c10::X)", "", 0 };
	const struct frame native = { "my::kernel(at::Tensor)", "/src/k.cpp", UINT64_MAX };
	const struct frame torch = { "forward", "/v/site-packages/torch/nn/linear.py", 10 };
	const struct frame user = { "train", "C:\\job\\torchy\\train.py", 20 };
	const struct frame inner = { "at::_ops::empty::call(at::X)", "??", 0 };
	const struct frame outermost = { "at::_ops::to::call(at::Tensor const&)", "??", 0 };
	const struct frame graph = {
		"torch::autograd::generated::MulBackward0::apply(std::vector<at::Tensor>)", "??", 0
	};
	const struct frame engine = { "torch::autograd::Engine::thread_main()", "??", 0 };
	const struct frame thread = { "pthread_condattr_setpshared", "??", 0 };
	const struct frame start = { "__clone", "??", 0 };
	const struct frame outer = { "main", "/job/main.py", 30 };

	expect_holder("train (train.py:20)", (struct frame[]){ unknown, unwind, native, torch, user, outer },
		      6);
	expect_holder("forward (linear.py:10)", (struct frame[]){ unknown, unwind, native, torch }, 4);
	expect_holder("my::kernel(at::Tensor) (k.cpp)", (struct frame[]){ unknown, unwind, alloc, native },
		      4);
	expect_holder("torch::autograd::generated::MulBackward0::apply",
		      (struct frame[]){ unwind, inner, outermost, graph, engine, thread, start }, 7);
	expect_holder("at::_ops::to::call",
		      (struct frame[]){ unwind, inner, outermost, engine, thread, start }, 6);
	expect_holder("my::kernel(at::Tensor) (k.cpp)",
		      (struct frame[]){ inner, graph, native, thread, start }, 5);
	expect_holder("torch::unwind::unwind()", (struct frame[]){ unwind, thread, start }, 3);
	expect_holder("torch::unwind::unwind()", (struct frame[]){ unknown, unwind, alloc }, 3);
	expect_holder("", (struct frame[]){ unknown }, 1);
	expect_holder("", NULL, 0);
}
END_TEST

START_TEST(a_holder_is_kept_short_and_printable)
{
	char name[256];

	memset(name, 'n', sizeof name);
	name[0] = '\x1b';
	name[200] = '\0';
	for (size_t i = 1; i < 200; i++)
		name[i] = i % 2 != 0 ? '\xc3' : '\xa9';
	char expected[400];
	snprintf(expected, sizeof expected, "?%.156s... (x.py:1)", name + 1);
	expect_holder(expected, &(struct frame){ name, "x.py", 1 }, 1);
}
END_TEST

START_TEST(shared_frame_lists_give_every_entry_its_holder)
{
	struct pickler p;
	struct bytes bytes;
	struct events events;
	uint32_t slot = 0;

	make_begin_trace(&p);
	for (int i = 0; i < 3; i++) {
		make_container(&p, '}');
		make_op(&p, '(');
		make_text_pair(&p, "action", "alloc");
		make_pair(&p, "addr", 1);
		make_pair(&p, "size", 1);
		make_pair(&p, "stream", 0);
		make_string(&p, "frames");
		if (i == 0) {
			slot = make_container(&p, ']');
			make_frame(&p, "f", "x.py", 1);
			make_op(&p, 'a');
		} else {
			make_get(&p, slot);
		}
		make_op(&p, 'u');
	}
	bytes = make_end_trace(&p);
	events = events_of(&bytes);
	ck_assert_uint_eq(events.count, 3);
	for (size_t i = 0; i < 3; i++)
		ck_assert_str_eq(events_holder(&events, i), "f (x.py:1)");
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

UNIT_MAIN("trace_holders", the_holder_is_the_innermost_frame_that_says_something,
	  a_holder_is_kept_short_and_printable, shared_frame_lists_give_every_entry_its_holder)
