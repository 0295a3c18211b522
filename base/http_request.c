/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_request.c - the head of an HTTP request, parsed; the hosts it may name
 *
 * The parser guesses nothing: a head that is not plainly right is refused, so
 * that no proxy between the peer and this server can have read it in another
 * way.
 */
#include "base/http_request.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/text.h"

#define NAME_ROOM         256 /* of a host, its final 0 included */
#define LENGTH_DIGITS_MAX 18  /* of Content-Length: fits 64 bits */

/*
 * Decodes [at, end) in place, as forms are: %xx and '+' for a blank. Returns
 * the length, or -1: a '%' without two digits. There is room for a 0 at @end.
 */
static ptrdiff_t decode(char *at, const char *end)
{
	char *from = at, *to = at;

	while (from < end) {
		int high, low;

		if (*from != '%') {
			*to++ = (char)(*from == '+' ? ' ' : *from);
			from++;
			continue;
		}
		high = end - from > 2 ? tei_hex_digit(from[1]) : -1;
		low = end - from > 2 ? tei_hex_digit(from[2]) : -1;
		if (high < 0 || low < 0)
			return -1;
		*to++ = (char)(high << 4 | low);
		from += 3;
	}
	*to = '\0';
	return to - at;
}

/* "name=value" or "name" in [at, end); false: malformed. */
static bool parse_param(struct tei_http_param *out, char *at, char *end)
{
	char *equals = memchr(at, '=', (size_t)(end - at));
	ptrdiff_t len;

	*out = (struct tei_http_param){.name = at, .value = ""};
	len = decode(at, equals ? equals : end);
	if (len < 0)
		return false;
	out->name_len = (size_t)len;
	if (!equals)
		return true;
	out->value = equals + 1;
	len = decode(equals + 1, end);
	out->len = (size_t)len;
	return len >= 0;
}

static int refused(struct tei_http_head *out, int status, const char *why)
{
	out->why = why;
	return status;
}

static bool is_duplicate(const struct tei_http_request *request,
			 const struct tei_http_param *param)
{
	for (const struct tei_http_param *p = request->params; p < param; p++)
		if (p->name_len == param->name_len &&
		    !memcmp(p->name, param->name, p->name_len))
			return true;
	return false;
}

/* "a=b&c=d"; takes a copy, because decoding is done in place. */
static int parse_query(struct tei_http_head *out, const char *query, size_t len)
{
	size_t *n = &out->request.n_params;
	char *at, *end, *stop;

	if (!len)
		return 0;
	out->query = tei_malloc(len + 1);
	if (!out->query)
		return 500;
	memcpy(out->query, query, len);
	end = out->query + len;
	*end = '\0';
	for (at = out->query; at < end; at = stop + 1) {
		stop = memchr(at, '&', (size_t)(end - at));
		if (!stop)
			stop = end;
		if (stop == at)
			continue;
		if (*n == TEI_HTTP_PARAMS_MAX)
			return refused(out, 400, "too many parameters");
		*stop = '\0';
		if (!parse_param(&out->params[*n], at, stop))
			return refused(out, 400,
				       "a parameter has % without two digits");
		if (is_duplicate(&out->request, &out->params[(*n)++]))
			return refused(out, 400, "a parameter is there twice");
	}
	return 0;
}

/* "/path?query" */
static int parse_target(struct tei_http_head *out, const char *at,
			const char *end)
{
	const char *mark = memchr(at, '?', (size_t)(end - at));
	const char *stop = mark ? mark : end;
	size_t n = (size_t)(stop - at);

	for (const char *p = at; p < end; p++)
		if (*p < '!' || *p > '~')
			return refused(out, 400,
				       "the path has a byte that "
				       "should be written as %xx");
	if (n >= sizeof(out->path))
		return 414;
	memcpy(out->path, at, n);
	out->path[n] = '\0';
	return mark ? parse_query(out, mark + 1, (size_t)(end - mark - 1)) : 0;
}

static void parse_method(struct tei_http_head *out, const char *at, size_t len)
{
	static const char *const names[TEI_HTTP_METHODS] = {
		[TEI_HTTP_GET] = "GET",
		[TEI_HTTP_PUT] = "PUT",
		[TEI_HTTP_POST] = "POST",
		[TEI_HTTP_DELETE] = "DELETE",
	};

	out->head_only = len == 4 && !memcmp(at, "HEAD", 4);
	out->known = out->head_only;
	for (int i = 0; i < TEI_HTTP_METHODS; i++) {
		if (len != strlen(names[i]) || memcmp(at, names[i], len))
			continue;
		out->request.method = (enum tei_http_method)i;
		out->known = true;
	}
}

static int parse_length(struct tei_http_head *out, const char *at, size_t len)
{
	static const char why[] = "Content-Length should be one number";

	if (!len || out->request.has_length)
		return refused(out, 400, why);
	out->request.has_length = true;
	for (size_t i = 0; i < len; i++)
		if (at[i] < '0' || at[i] > '9')
			return refused(out, 400, why);
	if (len > LENGTH_DIGITS_MAX)
		return 413;
	for (size_t i = 0; i < len; i++)
		out->length = out->length * 10 + (uint64_t)(at[i] - '0');
	return 0;
}

static int parse_host(struct tei_http_head *out, const char *at, size_t len)
{
	if (out->host)
		return refused(out, 400, "Host is there twice");
	out->host = at;
	out->host_len = len;
	return 0;
}

/* Other schemes than "Bearer" say nothing to us. */
static int parse_authorization(struct tei_http_head *out, const char *at,
			       size_t len)
{
	static const char scheme[] = "bearer ";
	size_t skip = sizeof(scheme) - 1;

	if (len < skip || strncasecmp(at, scheme, skip) != 0)
		return 0;
	if (out->request.bearer)
		return refused(out, 400, "Authorization is there twice");
	while (skip < len && at[skip] == ' ')
		skip++;
	if (len - skip > TEI_HTTP_BEARER_MAX)
		return refused(out, 400, "the token is too long");
	memcpy(out->bearer, at + skip, len - skip);
	out->bearer[len - skip] = '\0';
	out->request.bearer = out->bearer;
	return 0;
}

static bool is_field(const char *at, size_t len, const char *name)
{
	return len == strlen(name) && !strncasecmp(at, name, len);
}

static int parse_field(struct tei_http_head *out, const char *name,
		       size_t name_len, const char *value, size_t len)
{
	if (is_field(name, name_len, "content-length"))
		return parse_length(out, value, len);
	/* A body of unknown length could not be refused before it is read. */
	if (is_field(name, name_len, "transfer-encoding"))
		return refused(out, 411, "a body needs a Content-Length");
	if (is_field(name, name_len, "expect")) {
		out->expects = is_field(value, len, "100-continue");
		return out->expects ? 0 : 417;
	}
	if (is_field(name, name_len, "origin"))
		out->foreign = true;
	if (is_field(name, name_len, "authorization"))
		return parse_authorization(out, value, len);
	return is_field(name, name_len, "host") ? parse_host(out, value, len)
						: 0;
}

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9');
}

/*
 * A field's name is a token, and its value has no control byte but a tab: a
 * bare line feed would be a line end to one who reads the head before us, and
 * hide the fields behind it from us.
 */
static bool is_name(const char *at, const char *end)
{
	static const char others[] = "!#$%&'*+-.^_`|~";
	const char *p = at;

	while (p < end && *p && (is_letter_or_digit(*p) || strchr(others, *p)))
		p++;
	return p == end && p > at;
}

static bool is_value(const char *at, const char *end)
{
	while (at < end &&
	       (((unsigned char)*at >= ' ' && *at != 0x7f) || *at == '\t'))
		at++;
	return at == end;
}

/* "name: value" lines, each with its line end. */
static int parse_fields(struct tei_http_head *out, const char *at,
			const char *end)
{
	while (at < end) {
		const char *eol = memmem(at, (size_t)(end - at), "\r\n", 2);
		const char *colon, *value, *stop;
		int status;

		assert(eol); /* the head ends with one */
		colon = memchr(at, ':', (size_t)(eol - at));
		if (!colon || !is_name(at, colon) || !is_value(colon, eol))
			return refused(out, 400, "a field is malformed");
		value = colon + 1;
		stop = eol;
		while (value < stop && (*value == ' ' || *value == '\t'))
			value++;
		while (stop > value && (stop[-1] == ' ' || stop[-1] == '\t'))
			stop--;
		status = parse_field(out, at, (size_t)(colon - at), value,
				     (size_t)(stop - value));
		if (status)
			return status;
		at = eol + 2;
	}
	return 0;
}

int tei_http_head_parse(struct tei_http_head *out, const char *head, size_t len)
{
	const char *eol = memmem(head, len, "\r\n", 2);
	const char *target, *version;
	int status;

	*out = (struct tei_http_head){0};
	out->request.path = out->path;
	out->request.params = out->params;
	assert(eol);
	target = memchr(head, ' ', (size_t)(eol - head));
	if (!target || target == head || target[1] != '/')
		return 400;
	parse_method(out, head, (size_t)(target - head));
	target++;
	version = memchr(target, ' ', (size_t)(eol - target));
	if (!version || eol - version != 9)
		return 400;
	out->old = !memcmp(version, " HTTP/1.0", 9);
	if (!out->old && memcmp(version, " HTTP/1.1", 9))
		return 400;
	status = parse_target(out, target, version);
	return status ? status : parse_fields(out, eol + 2, head + len);
}

void tei_http_head_fini(struct tei_http_head *head)
{
	tei_free(head->query);
	head->query = NULL;
}

const char *tei_http_query(const struct tei_http_request *request,
			   const char *name, size_t *len)
{
	size_t name_len = strlen(name);

	for (size_t i = 0; i < request->n_params; i++) {
		const struct tei_http_param *p = &request->params[i];

		if (p->name_len != name_len || memcmp(p->name, name, name_len))
			continue;
		*len = p->len;
		return p->value;
	}
	return NULL;
}

/* ---- hosts ---- */

/*
 * A page of another site can point its own name at this host (DNS rebinding);
 * its requests are then of the same origin, and only Host tells them apart.
 * Addresses, localhost and the machine's name cannot be such a page's; other
 * names must be configured.
 */

static bool is_address(int family, const char *name)
{
	unsigned char address[sizeof(struct in6_addr)];

	return inet_pton(family, name, address) == 1;
}

/* Nothing, ":" or ":port" */
static bool is_port(const char *at, const char *end)
{
	if (at < end && *at++ != ':')
		return false;
	while (at < end && *at >= '0' && *at <= '9')
		at++;
	return at == end;
}

/*
 * Copies the name or address in "host", "host:port", "[v6]" or "[v6]:port".
 * False: it is none of these, such as "[v6]host".
 */
static bool host_name(const char *host, size_t len, char out[NAME_ROOM])
{
	const char *end = host + len, *stop, *rest;
	bool bracket = len && *host == '[';

	host += bracket;
	stop = memchr(host, bracket ? ']' : ':', (size_t)(end - host));
	if (bracket && !stop)
		return false;
	if (!stop)
		stop = end;
	rest = stop + bracket;
	if (!bracket && stop > host && stop[-1] == '.')
		stop--;
	len = (size_t)(stop - host);
	if (len >= NAME_ROOM || !is_port(rest, end))
		return false;
	memcpy(out, host, len);
	out[len] = '\0';
	return !bracket || is_address(AF_INET6, out);
}

static bool is_this_machine(const char *name)
{
	char own[NAME_ROOM];

	return !gethostname(own, sizeof(own)) && !strcasecmp(name, own);
}

/* Tells whether @name is one of @names, which commas and blanks separate. */
static bool is_listed(const char *name, const char *names)
{
	char listed[NAME_ROOM];
	size_t n;

	for (; (n = tei_word(&names)); names += n) {
		if (host_name(names, n, listed) && *listed &&
		    !strcasecmp(name, listed))
			return true;
	}
	return false;
}

bool tei_http_host_allowed(const struct tei_http_config *config,
			   const char *host, size_t len)
{
	const char *names = config->allow_host ? config->allow_host : "";
	char name[NAME_ROOM];

	if (!host || (config->insecure && !*names))
		return true;
	return host_name(host, len, name) &&
	       (!strcasecmp(name, "localhost") || is_address(AF_INET, name) ||
		is_address(AF_INET6, name) || is_listed(name, names) ||
		is_this_machine(name));
}
