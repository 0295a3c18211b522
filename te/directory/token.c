/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.c - what shows a metadata server that an entry is ours
 *
 * An engine that is started again has a new incarnation, and shall have its
 * name at once. So the secret that tokens are made of is the user's on this
 * host: a file in the directory of shm's sockets, which nobody else may enter.
 * Where there is no such place the secret lives as long as the process, and a
 * successor waits until the entry expires.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/log.h"
#include "te/directory/crypto.h"
#include "te/directory/directory.h"

#define FILE_NAME "directory-secret"
#define PLACES    2

/* Opens a directory that is ours alone. -ENOENT, or why it cannot be used. */
static int open_place(unsigned int which)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char path[256];
	struct stat st;
	int fd, n;

	if (which == 0 && (!run || *run != '/'))
		return -ENOENT;
	n = which == 0 ? snprintf(path, sizeof(path), "%s/te", run)
		       : snprintf(path, sizeof(path), "/tmp/te-%u",
				  (unsigned int)geteuid());
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 077))
		return fd;
	(void)close(fd);
	return -EPERM;
}

static int read_secret(int dir, uint8_t out[TEI_DIR_SECRET_LEN])
{
	int fd = openat(dir, FILE_NAME,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint8_t bytes[TEI_DIR_SECRET_LEN + 1];
	struct stat st;
	int rc = -EPERM;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    !(st.st_mode & 077) &&
	    read(fd, bytes, sizeof(bytes)) == TEI_DIR_SECRET_LEN) {
		memcpy(out, bytes, TEI_DIR_SECRET_LEN);
		rc = 0;
	}
	(void)close(fd);
	return rc;
}

/* Another process may write one, too: whoever links first has made it. */
static int write_secret(int dir, const uint8_t secret[TEI_DIR_SECRET_LEN])
{
	char name[64];
	uint32_t word;
	int fd, rc = 0;

	if (RAND_bytes((uint8_t *)&word, sizeof(word)) != 1)
		return -EIO;
	(void)snprintf(name, sizeof(name), FILE_NAME "-%08x",
		       (unsigned int)word);
	fd = openat(dir, name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, secret, TEI_DIR_SECRET_LEN) != TEI_DIR_SECRET_LEN)
		rc = -EIO;
	else if (linkat(dir, name, dir, FILE_NAME, 0) && errno != EEXIST)
		rc = -errno;
	(void)close(fd);
	(void)unlinkat(dir, name, 0);
	return rc;
}

static int find_secret(unsigned int which, uint8_t out[TEI_DIR_SECRET_LEN])
{
	uint8_t fresh[TEI_DIR_SECRET_LEN];
	int dir = open_place(which), rc;

	if (dir < 0)
		return dir;
	rc = read_secret(dir, out);
	if (rc == -ENOENT && RAND_bytes(fresh, sizeof(fresh)) == 1) {
		rc = write_secret(dir, fresh);
		if (!rc)
			rc = read_secret(dir, out);
	}
	(void)close(dir);
	return rc;
}

int tei_dir_secret(uint8_t out[TEI_DIR_SECRET_LEN])
{
	int rc = -ENOENT;

	for (unsigned int i = 0; rc && i < PLACES; i++)
		rc = find_secret(i, out);
	if (!rc)
		return 0;
	LOG_DEBUG("directory: no place for a secret of this user: %s: engines "
		  "that are started again have their names when their entries "
		  "have expired",
		  strerror(-rc));
	return RAND_bytes(out, TEI_DIR_SECRET_LEN) == 1 ? 0 : -EIO;
}

static bool make_mac(const uint8_t key[TEI_DIR_SECRET_LEN], const char *text,
		     uint8_t out[TEI_DIR_SECRET_LEN])
{
	unsigned int len = TEI_DIR_SECRET_LEN;

	return HMAC(EVP_sha256(), key, TEI_DIR_SECRET_LEN,
		    (const uint8_t *)text, strlen(text), out, &len) != NULL;
}

/* Derives the token of directory and key: none learns what another is shown. */
int tei_dir_token(const struct tei_directory *dir, const char *key,
		  char out[TEI_DIR_TOKEN_LEN + 1])
{
	uint8_t of_dir[TEI_DIR_SECRET_LEN], of_key[TEI_DIR_SECRET_LEN];
	bool made;

	if (!tei_dir_crypto_enter())
		return -ECANCELED;
	made = make_mac(dir->secret, dir->text, of_dir) &&
	       make_mac(of_dir, key, of_key);
	tei_dir_crypto_leave();
	if (!made)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(of_key); i++)
		(void)snprintf(out + 2 * i, 3, "%02x", of_key[i]);
	return 0;
}
