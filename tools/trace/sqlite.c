/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system for SQLite that has one file: the input's.  It cannot be written, has no
 * journal and needs no lock.  What SQLite sorts it may put into temporary files, which are
 * the default file system's.
 *
 * SQLite's memory is the readers' (memory.h).  Its own settings keep a file from running
 * what it brings along: no views or virtual tables are read, no extensions loaded.
 */
#include "tools/trace/sqlite.h"

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/trace/memory.h"

/* Each of SQLite's allocations has its size in front. */
#define HEADER 16

static void *
memory_resize(void *memory, int size)
{
	char *block = trace_resize(memory != NULL ? (char *)memory - HEADER : NULL, (size_t)size + HEADER);

	if (block == NULL)
		return NULL;
	memcpy(block, &size, sizeof size);
	return block + HEADER;
}

static void *
memory_allocate(int size)
{
	return memory_resize(NULL, size);
}

static void
memory_release(void *memory)
{
	if (memory != NULL)
		trace_release((char *)memory - HEADER);
}

static int
memory_size(void *memory)
{
	int size = 0;

	if (memory != NULL)
		memcpy(&size, (char *)memory - HEADER, sizeof size);
	return size;
}

static int
memory_round_up(int size)
{
	return (size + 7) & ~7;
}

static int
memory_start(void *context)
{
	(void)context;
	return SQLITE_OK;
}

static void
memory_end(void *context)
{
	(void)context;
}

/* ---- the file ----------------------------------------------------------------- */

struct file {
	sqlite3_file base;
	const struct trace_input *input;
};

static const struct trace_input *
input_of(sqlite3_file *file)
{
	return ((struct file *)(void *)file)->input;
}

static int
file_close(sqlite3_file *file)
{
	(void)file;
	return SQLITE_OK;
}

/* What is behind the file's end reads as zeros, which SQLite wants to be told. */
static int
file_read(sqlite3_file *file, void *data, int size, sqlite3_int64 offset)
{
	const struct trace_input *in = input_of(file);
	size_t done = 0;

	while (done < (size_t)size) {
		ssize_t got = pread(in->fd, (char *)data + done, (size_t)size - done,
				    (off_t)in->start + offset + (off_t)done);
		if (got < 0 && errno != EINTR)
			return SQLITE_IOERR_READ;
		if (got == 0)
			break;
		done += got > 0 ? (size_t)got : 0;
	}
	memset((char *)data + done, 0, (size_t)size - done);
	return done == (size_t)size ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int
file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
	(void)file;
	(void)data;
	(void)size;
	(void)offset;
	return SQLITE_READONLY;
}

static int
file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	(void)file;
	(void)size;
	return SQLITE_READONLY;
}

static int
file_sync(sqlite3_file *file, int flags)
{
	(void)file;
	(void)flags;
	return SQLITE_OK;
}

static int
file_size(sqlite3_file *file, sqlite3_int64 *size)
{
	*size = (sqlite3_int64)input_of(file)->size;
	return SQLITE_OK;
}

static int
file_lock(sqlite3_file *file, int lock)
{
	(void)file;
	(void)lock;
	return SQLITE_OK;
}

static int
file_reserved(sqlite3_file *file, int *reserved)
{
	(void)file;
	*reserved = 0;
	return SQLITE_OK;
}

static int
file_control(sqlite3_file *file, int operation, void *argument)
{
	(void)file;
	(void)operation;
	(void)argument;
	return SQLITE_NOTFOUND;
}

static int
file_sector(sqlite3_file *file)
{
	(void)file;
	return 4096;
}

static int
file_characteristics(sqlite3_file *file)
{
	(void)file;
	return SQLITE_IOCAP_IMMUTABLE;
}

static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_lock,
	.xCheckReservedLock = file_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_characteristics,
};

/* ---- the file system ------------------------------------------------------------ */

static sqlite3_vfs *
default_of(sqlite3_vfs *vfs)
{
	return vfs->pAppData;
}

static int
vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *flags_out)
{
	struct file *own = (struct file *)(void *)file;
	void *input;

	if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
		if (name != NULL)
			return SQLITE_CANTOPEN;
		return default_of(vfs)->xOpen(default_of(vfs), name, file, flags, flags_out);
	}
	/* The name is the input's address. */
	if (name == NULL || sscanf(name, "%p", &input) != 1)
		return SQLITE_CANTOPEN;
	*own = (struct file){ .base.pMethods = &methods, .input = input };
	if (flags_out != NULL)
		*flags_out = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
	return SQLITE_OK;
}

static int
vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs;
	(void)name;
	(void)sync;
	return SQLITE_READONLY;
}

static int
vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *answer)
{
	(void)vfs;
	(void)name;
	(void)flags;
	*answer = 0;
	return SQLITE_OK;
}

static int
vfs_full_name(sqlite3_vfs *vfs, const char *name, int size, char *full)
{
	(void)vfs;
	snprintf(full, (size_t)size, "%s", name);
	return SQLITE_OK;
}

static int
vfs_random(sqlite3_vfs *vfs, int size, char *data)
{
	return default_of(vfs)->xRandomness(default_of(vfs), size, data);
}

static int
vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
	(void)vfs;
	return microseconds;
}

static int
vfs_time(sqlite3_vfs *vfs, double *now)
{
	(void)vfs;
	*now = 0;
	return SQLITE_OK;
}

static int
vfs_error(sqlite3_vfs *vfs, int size, char *text)
{
	(void)vfs;
	if (size > 0)
		text[0] = '\0';
	return 0;
}

static sqlite3_vfs vfs = {
	.iVersion = 1,
	.mxPathname = 64,
	.zName = "soma-trace",
	.xOpen = vfs_open,
	.xDelete = vfs_delete,
	.xAccess = vfs_access,
	.xFullPathname = vfs_full_name,
	.xRandomness = vfs_random,
	.xSleep = vfs_sleep,
	.xCurrentTime = vfs_time,
	.xGetLastError = vfs_error,
};

/* SQLite runs while a database is open, so that its own memory goes with the last one. */
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
static size_t open_count; /* under `running` */

static int
start(void)
{
	static const sqlite3_mem_methods memory = {
		.xMalloc = memory_allocate,
		.xFree = memory_release,
		.xRealloc = memory_resize,
		.xSize = memory_size,
		.xRoundup = memory_round_up,
		.xInit = memory_start,
		.xShutdown = memory_end,
	};
	const int own = (int)sizeof(struct file);
	sqlite3_vfs *standard;
	int status;

	sqlite3_config(SQLITE_CONFIG_MALLOC, &memory);
	sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
	status = sqlite3_initialize();
	standard = status == SQLITE_OK ? sqlite3_vfs_find(NULL) : NULL;
	if (standard == NULL)
		return status != SQLITE_OK ? status : SQLITE_ERROR;
	vfs.pAppData = standard;
	vfs.szOsFile = standard->szOsFile > own ? standard->szOsFile : own;
	return sqlite3_vfs_register(&vfs, 0);
}

static void
stop(void)
{
	if (vfs.pAppData != NULL)
		sqlite3_vfs_unregister(&vfs);
	sqlite3_shutdown();
}

static int
acquire(void)
{
	int status = SQLITE_OK;

	pthread_mutex_lock(&running);
	if (open_count == 0)
		status = start();
	if (status == SQLITE_OK)
		open_count++;
	else
		stop();
	pthread_mutex_unlock(&running);
	return status;
}

static void
release(void)
{
	pthread_mutex_lock(&running);
	if (--open_count == 0)
		stop();
	pthread_mutex_unlock(&running);
}

/* ---- opening ------------------------------------------------------------------------ */

static void
protect(sqlite3 *database)
{
	sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_limit(database, SQLITE_LIMIT_LENGTH, 16 << 20);
	sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_limit(database, SQLITE_LIMIT_VDBE_OP, 100000);
	sqlite3_limit(database, SQLITE_LIMIT_EXPR_DEPTH, 100);
}

enum trace_result
trace_sqlite_fail(struct trace_reader *reader, int status, const char *what)
{
	if (status == SQLITE_NOMEM)
		return trace_no_memory(reader);
	return trace_fail(&reader->failure, reader->input.path, "%s: %s", what, sqlite3_errstr(status));
}

enum trace_result
trace_sqlite_open(struct trace_reader *reader, sqlite3 **database)
{
	static const char settings[] = "PRAGMA cell_size_check=ON; PRAGMA cache_size=-8192;";
	enum trace_result result = trace_input_spool(&reader->input);
	char name[32];
	int status;

	*database = NULL;
	if (result != TRACE_OK)
		return result;
	status = acquire();
	if (status != SQLITE_OK)
		return trace_sqlite_fail(reader, status, "cannot start SQLite");
	snprintf(name, sizeof name, "%p", (void *)&reader->input);
	status = sqlite3_open_v2(name, database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, vfs.zName);
	if (status == SQLITE_OK) {
		protect(*database);
		status = sqlite3_exec(*database, settings, NULL, NULL, NULL);
	}
	if (status == SQLITE_OK)
		return TRACE_OK;
	trace_sqlite_close(*database);
	*database = NULL;
	return trace_sqlite_fail(reader, status, "cannot open the database");
}

void
trace_sqlite_close(sqlite3 *database)
{
	sqlite3_close(database);
	release();
}
