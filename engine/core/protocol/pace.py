"""Sizes of steps and pages, so that no command and no reply delays other clients for long.

A command with more work than a size here runs in steps (`engine.core.environment.context.Context.in_steps`). A longer
reply is made and sent in pages (`engine.core.protocol.replies.Pages`). The functions read the sizes when they run, so
tests lower them.
"""

from __future__ import annotations

# -- steps ------------------------------------------------------------------------------------------------------------

#: Number of IDs that XACK, XDEL, XNACK and XCLAIM process per step.
MANY_IDS = 2000
#: Number of IDs parsed per step.
PARSED = 5000
#: Number of deleted keys, and of entries whose references in groups are looked up, per step.
IDS = 500
#: Number of words above which a command on strings or hashes runs in steps.
MANY_ARGUMENTS = 5000
#: Number of words, or of names of keys or fields, per step; even, so that pairs stay together.
NAMES = 2000
#: Number of keys or fields above which they are deleted, matched, copied or dumped in steps.
MANY_NAMES = 2000
#: Size in bytes above which DUMP's reply is sent in chunks.
PAYLOAD = 200_000
#: Number of pieces of a value that DUMP writes, and RESTORE reads, per step.
PIECES = 2
#: Number of elements of a hash, or of records of pending entries, per piece.
ELEMENTS = 64
#: Number of bytes added to a checksum per step; also the minimum size of the chunks of DUMP's reply.
CHECKED = 256 * 1024
#: Number of elements of discarded tables freed per step; smaller tables are freed at once.
FREED = 10_000
#: Approximate duration of a step of an image of all databases, in microseconds.
IMAGE_US = 2000.0
#: Number of keys that a step of an image examines at most.
IMAGE_NAMES = 500
#: Number of groups per step or page.
GROUPS = 100
#: Number of blocks of pending entries searched, or in which a deleted consumer's entries are removed, per step.
BLOCKS = 20
#: Number of new entries delivered per step.
DELIVERED = 5000
#: Units of work per step of a claim or of a read of pending entries. One entry by itself is one unit.
WORK = 1000.0
#: Units of work per entry if entries are claimed, or delivered again, together.
OF_A_RANGE = 0.3
#: Units of work per entry if entries are skipped together because none has been idle for long enough.
OF_RECENT_ONES = 0.03
#: Units of work per block of the pending entries list.
OF_A_BLOCK = 2.0

# -- pages ------------------------------------------------------------------------------------------------------------

#: Number of entries above which a reply with entries is paged.
MANY_ENTRIES = 20_000
#: Number of segments, or of runs of entries, above which such a reply is paged.
MANY_SEGMENTS = 8
#: Size of a page of entries in bytes.
PAGE_BYTES = 512 * 1024
#: Number of buffers per page of entries.
PAGE_BUFFERS = 1000
#: Number of entries per page if each entry is a buffer of its own.
PAGE_ENTRIES = 4000
#: Number of stretches of pending entries per page.
PAGE_STRETCHES = 4
#: Number of rows, such as consumers or pending entries, above which they are listed in pages.
MANY_ROWS = 500
#: Number of rows per page.
PAGE_ROWS = 500
#: Number of simple elements, such as IDs, above which a reply is paged.
MANY_WORDS = 10_000
#: Number of simple elements per page.
PAGE_WORDS = 4000
#: Number of words per page of a reply with the words of a hash, and number above which it is paged.
PAGE_FIELDS = 10_000
#: Number of consumers sorted at once.
SORTED = 4000
