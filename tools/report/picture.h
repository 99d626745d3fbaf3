/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture of a replay as a file: SVG and PNG show one kind, an HTML page all of them.
 */
#ifndef SOMA_TOOLS_REPORT_PICTURE_H
#define SOMA_TOOLS_REPORT_PICTURE_H

#include "tools/report/report.h"
#include "tools/report/scene.h"

enum picture_format { PICTURE_NONE, PICTURE_SVG, PICTURE_PNG, PICTURE_HTML };

enum picture_kind {
	PICTURE_TIMELINE, /* live and reserved bytes over time */
	PICTURE_MAP,      /* segments and blocks at a moment */
	PICTURE_MEMORY,   /* every block: addresses by time */
	PICTURE_SIZES,    /* a histogram */
};

/* "timeline", "map", "memory", "sizes" */
extern const char *const picture_kind_names[];

struct picture {
	const struct report *report;
	const struct scene *scene;
	enum picture_kind kind; /* of a page: what it shows first */
	enum scene_by by;       /* the same */
	enum scene_when when;   /* of a map, the same; taken */
};

/* By the file name's ending. */
enum picture_format picture_format_of(const char *path);

/* What has to be known of a replay for a picture of that format and kind; of the event too, if
 * it is not NULL.  scene is zero before. */
void picture_wish(struct scene *scene, enum picture_format format, enum picture_kind kind,
		  const uint64_t *event);

/* Writes the file anew, or leaves what is there.  NULL, or what went wrong. */
const char *picture_write(const char *path, const struct picture *picture);

/* "at the peak, event 12", "at event 5", ...; buffer: PICTURE_WHEN_MAX bytes. */
#define PICTURE_WHEN_MAX 80
char *picture_when(char *buffer, const struct picture *picture, enum scene_when when);

/* The failure that is marked over time: the replay's own, or else the first one that the trace tells of.
 * False: there is none. */
struct picture_failure {
	bool recorded;
	uint64_t x; /* from the axis' origin */
	uint64_t event, requested;
};
bool picture_failure(const struct picture *picture, struct picture_failure *failure);

/* What each layer holds, and all: at the peak, or at the moment that a map is of. */
uint64_t picture_held(const struct picture *picture, uint64_t bytes[SERIES_LAYERS]);
bool picture_is_of_peak(const struct picture *picture);

/* What the picture leaves out, or "". */
#define PICTURE_NOTE_MAX 200
char *picture_note(char *buffer, const struct picture *picture);

/* ---- page.c ---- */

/* The whole page.  false: it could not be written. */
bool picture_page(FILE *out, const struct picture *picture);

/* Its data: one JSON object, in which no '<', '>' or '&' is. */
bool picture_json(FILE *out, const struct picture *picture);

#endif
