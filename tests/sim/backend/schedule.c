/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - rails and their weather, from the settings; pure */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/sim/backend/sim.h"

struct unit {
	const char *name;
	double factor;
};

static const struct unit times[] = {
	{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const struct unit rates[] = {{"", 1},    {"k", 1e3},  {"m", 1e6},
				    {"g", 1e9}, {"t", 1e12}, {NULL, 0}};
static const struct unit none[] = {{"", 1}, {NULL, 0}};

static bool number(const char *text, const struct unit *units, double *out)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || !(value >= 0 && value < 1e15))
		return false;
	for (; units->name; units++) {
		if (strcmp(end, units->name))
			continue;
		*out = value * units->factor;
		return *out < 1e18;
	}
	return false;
}

static bool nanoseconds(const char *text, uint64_t *out)
{
	double value;

	if (!number(text, times, &value))
		return false;
	*out = (uint64_t)value;
	return true;
}

/* "4g", "4g:10us" or "4g:10us:1us" */
static bool rail(char *text, struct sim_spec *spec)
{
	const char *rate = strsep(&text, ":");
	const char *latency = strsep(&text, ":");
	double bps;

	*spec = (struct sim_spec){0};
	if (!number(rate, rates, &bps) || bps < 1)
		return false;
	spec->bps = (uint64_t)bps;
	if (latency && !nanoseconds(latency, &spec->latency))
		return false;
	return !text || nanoseconds(text, &spec->cost);
}

static int add(struct sim_spec *spec, const struct sim_event *event)
{
	size_t i = spec->n_events;

	if (i == SIM_EVENTS_MAX)
		return -EINVAL;
	for (; i && spec->events[i - 1].at > event->at; i--)
		spec->events[i] = spec->events[i - 1];
	spec->events[i] = *event;
	spec->n_events++;
	return 0;
}

static bool weather(char *text, struct sim_event *event)
{
	static const struct {
		const char *name;
		const struct unit *units; /* of the value; NULL: none */
		enum sim_what what;
	} words[] = {
		{"up", NULL, SIM_WELL},       {"down", NULL, SIM_DOWN},
		{"silent", NULL, SIM_SILENT}, {"slow", none, SIM_SLOW},
		{"error", none, SIM_ERROR},   {"refuse", none, SIM_REFUSE},
		{"flap", times, SIM_FLAP},
	};
	const char *word = strsep(&text, "=");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].name, word))
			continue;
		event->what = words[i].what;
		if (!words[i].units)
			return !text;
		return text && number(text, words[i].units, &event->value);
	}
	return false;
}

/* "5ms:0:slow=0.1" */
static bool entry(char *text, struct sim_spec *specs, int n)
{
	const char *when = strsep(&text, ":");
	const char *which = strsep(&text, ":");
	struct sim_event event = {0};
	double place;

	if (!text || !nanoseconds(when, &event.at) ||
	    !number(which, none, &place) || place >= n ||
	    !weather(text, &event))
		return false;
	if (event.what == SIM_FLAP && event.value < 1)
		return false;
	return !add(&specs[(int)place], &event);
}

static int parse_rails(char *text, struct sim_spec *specs)
{
	char *one;
	int n = 0;

	while ((one = strsep(&text, ","))) {
		if (n == SIM_RAILS_MAX || !rail(one, &specs[n]))
			return -EINVAL;
		n++;
	}
	return n;
}

static int parse_schedule(char *text, struct sim_spec *specs, int n)
{
	char *one;

	while ((one = strsep(&text, ","))) {
		if (!entry(one, specs, n))
			return -EINVAL;
	}
	return 0;
}

static int copied(const char *text, char *room, size_t len)
{
	return snprintf(room, len, "%s", text) < (int)len ? 0 : -EINVAL;
}

int tei_sim_parse(const struct sim_config *config, struct sim_spec *specs)
{
	char copy[4096];
	int n, rc;

	n = copied(config->rails ? config->rails : "", copy, sizeof(copy));
	if (!n)
		n = parse_rails(copy, specs);
	if (n < 0) {
		LOG_ERROR("sim.rails: \"%s\" is not rate:latency:cost,...",
			  config->rails);
		return n;
	}
	if (!config->schedule || !*config->schedule)
		return n;
	rc = copied(config->schedule, copy, sizeof(copy));
	if (!rc)
		rc = parse_schedule(copy, specs, n);
	if (rc)
		LOG_ERROR("sim.schedule: \"%s\" is not time:rail:what,...",
			  config->schedule);
	return rc ? rc : n;
}

/* ---- weather ---- */

void tei_sim_weather_init(struct sim_weather *w)
{
	*w = (struct sim_weather){.speed = 1};
}

static uint64_t next_event(const struct sim_weather *w,
			   const struct sim_spec *spec)
{
	return w->n_seen < spec->n_events ? spec->events[w->n_seen].at
					  : SIM_NEVER;
}

uint64_t tei_sim_weather_next(const struct sim_weather *w,
			      const struct sim_spec *spec)
{
	uint64_t at = next_event(w, spec);

	return w->flap && w->toggle_at < at ? w->toggle_at : at;
}

static void change(struct sim_weather *w, const struct sim_event *event)
{
	w->flap = 0;
	switch (event->what) {
	case SIM_WELL:
		*w = (struct sim_weather){.speed = 1, .n_seen = w->n_seen};
		break;
	case SIM_DOWN:
		w->down = true;
		break;
	case SIM_SILENT:
		w->silent = true;
		break;
	case SIM_SLOW:
		w->speed = event->value;
		break;
	case SIM_ERROR:
		w->error = event->value;
		break;
	case SIM_REFUSE:
		w->refuse = event->value;
		break;
	case SIM_FLAP:
		w->flap = (uint64_t)event->value;
		w->toggle_at = event->at;
		break;
	}
}

void tei_sim_weather_turn(struct sim_weather *w, const struct sim_spec *spec)
{
	if (w->flap && w->toggle_at < next_event(w, spec)) {
		w->down = !w->down;
		w->toggle_at += w->flap;
		return;
	}
	change(w, &spec->events[w->n_seen++]);
}
