# An ordered walk over one SSTable (see sstable_source.pxd).
#
# There are two slots, each with a block and a cursor in it. The source stands in the active one; a
# move to another block prepares the other slot and then makes that the active one, so that a move
# that fails or would block leaves everything as it was.
#
# Reading ahead: one pread fetches a window of many blocks. It begins with the second block in a row
# that is not in the cache (at once when the caller asked for it), in either direction, and grows.
# Blocks that are not kept in the cache are used where they lie in the window, or are decompressed
# into the slot's own buffer. The blocks of an encrypted table are opened all at once when they are
# read; one that is damaged ends the window before itself, so that it fails only who asks for it.
#
# Blocks are numbered through the table. When the table's index is in parts, the walk decodes the
# part it is in (`own`); no window goes beyond it.
#
# Invariants: (1) the active slot's block stays valid until the next successful move; (2) the window
# is only overwritten in a call that may block, hence either moves or ends in an error.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from dynalsm._core.bits cimport likely, unlikely
from dynalsm._core.block cimport (
    BlockCursor,
    block_cursor_first,
    block_cursor_free,
    block_cursor_init,
    block_cursor_last,
    block_cursor_next,
    block_cursor_open,
    block_cursor_prev,
    block_cursor_seek,
    block_cursor_seek_back,
)
from dynalsm._core.cache cimport Block, block_unref, cache_has_room
from dynalsm._core.coding cimport Slice
from dynalsm._core.compress cimport CODEC_NONE
from dynalsm._core.debug cimport scribble
from dynalsm._core.source cimport SourceOps
from dynalsm._core.sstable_file cimport (
    IN_PARTS,
    table_block,
    table_cached_block,
    table_check_block,
    table_damaged,
    table_file_unref,
    table_keep_block,
    table_open_blocks,
    table_opened_block,
    table_read,
    table_unpack,
)
from dynalsm._core.sstable_index cimport IndexSlot, TableIndex, index_find, index_free
from dynalsm._core.sstable_load cimport parts_open, table_file_load
from dynalsm._core.sstable_parts cimport PART_BLOCKS
from dynalsm._core.status cimport CORRUPTION, END, NO_MEMORY, OK, WOULD_BLOCK, fail
from dynalsm._core.sync cimport atomic_add, atomic_load


cdef enum:
    WINDOW_BYTES_MAX = 256 << 10
    WINDOW_BYTES_FIRST = 32 << 10
    NO_BLOCK = 0xFFFFFFFFu


cdef struct Slot:
    BlockCursor cursor
    Block* pin                   # NULL: the block lies in the window or in `unpacked`
    uint8_t* unpacked            # owned
    size_t unpacked_capacity


cdef struct Walk:
    Table* table                 # holds a reference
    bint fill_cache
    bint readahead               # the caller expects to read everything
    Slot slots[2]
    int active
    const TableIndex* index      # the table's, or &own; NULL: no part was read yet
    TableIndex own               # owned: a part of a table in parts
    uint32_t first               # number of the first block of `index`
    uint32_t block               # of the active slot
    uint32_t last_read           # block read from the file last
    uint8_t* window              # owned
    size_t window_capacity
    uint64_t window_offset       # in the file
    size_t window_size           # bytes that are there
    size_t window_shift          # where in the buffer they begin
    size_t window_wanted         # how much to read the next time


cdef SourceOps table_ops


# ------------------------------------------------------------------------------- getting at blocks

cdef int no_memory(Walk* walk, Failure* failure) noexcept nogil:
    return fail(failure, NO_MEMORY, "no memory to read an SSTable", walk.table.path, -1, 0)


cdef inline void release_slot(Slot* slot) noexcept nogil:
    if slot.pin != NULL:
        block_unref(slot.pin)
        slot.pin = NULL
    scribble(slot.unpacked, slot.unpacked_capacity)


cdef int grow(uint8_t** buffer, size_t* capacity, size_t wanted) noexcept nogil:
    """Make room, without keeping what is there."""
    if wanted <= capacity[0]:
        return OK
    free(buffer[0])
    buffer[0] = <uint8_t*>malloc(wanted)
    capacity[0] = wanted if buffer[0] != NULL else 0
    return OK if buffer[0] != NULL else NO_MEMORY


cdef inline IndexSlot* slot_of(const Walk* walk, uint32_t i) noexcept nogil:
    """Where block i lies. REQUIRES: reach(i)."""
    return walk.index.slots + (i - walk.first)


cdef inline bint is_in_window(const Walk* walk, uint32_t i) noexcept nogil:
    cdef const IndexSlot* slot = slot_of(walk, i)
    return (
        slot[0].offset >= walk.window_offset
        and slot[1].offset <= walk.window_offset + walk.window_size
    )


cdef inline int reach(Walk* walk, uint32_t i, bint may_block, Failure* failure) noexcept nogil:
    """Have the part of the index that has block i."""
    if likely(walk.index != NULL and i - walk.first < walk.index.count):
        return OK
    return change_part(walk, i // PART_BLOCKS, may_block, failure)


cdef int change_part(
    Walk* walk, uint32_t part, bint may_block, Failure* failure
) noexcept nogil:
    cdef TableIndex index
    cdef int status = parts_open(walk.table, part, may_block, &index, failure)
    if status != OK:
        index_free(&index)
        return status
    index_free(&walk.own)
    walk.own = index
    walk.index = &walk.own
    walk.first = part * PART_BLOCKS
    return OK


cdef int fill_window(Walk* walk, uint32_t i, bint backward, Failure* failure) noexcept nogil:
    """Read block i and as many behind (or before) it as the window takes."""
    cdef IndexSlot* slots = walk.index.slots
    cdef uint32_t at = i - walk.first
    cdef uint32_t first = at
    cdef uint32_t last = at + 1
    cdef uint64_t start
    cdef uint64_t end
    cdef int status
    if backward:
        while first > 0 and slots[last].offset - slots[first - 1].offset <= walk.window_wanted:
            first -= 1
    else:
        while (
            last < walk.index.count
            and slots[last + 1].offset - slots[first].offset <= walk.window_wanted
        ):
            last += 1
    start = slots[first].offset
    end = slots[last].offset
    walk.window_size = 0
    if grow(&walk.window, &walk.window_capacity, <size_t>(end - start)):
        return no_memory(walk, failure)
    status = table_read(walk.table, walk.window, <size_t>(end - start), start, failure)
    if status != OK:
        return status
    if walk.table.cipher != NULL:
        return open_window(walk, at, first, last, failure)
    walk.window_offset = start
    walk.window_size = <size_t>(end - start)
    walk.window_wanted = min(2 * walk.window_wanted, <size_t>WINDOW_BYTES_MAX)
    return OK


cdef int open_window(
    Walk* walk, uint32_t i, uint32_t first, uint32_t last, Failure* failure
) noexcept nogil:
    """Open the blocks [first, last) that were read; the window is what lies around block i.

    All are numbered within walk.index."""
    cdef IndexSlot* slots = walk.index.slots
    cdef uint64_t start = slots[first].offset
    cdef uint8_t* window = walk.window
    cdef uint32_t opened
    cdef Failure ignored
    cdef int status = table_open_blocks(
        walk.table, slots + first, last - first, window, &opened, &ignored
    )
    while status == CORRUPTION and first + opened < i:
        # Going backward: what lies before block i can wait.
        first += opened + 1
        status = table_open_blocks(
            walk.table, slots + first, last - first, window + (slots[first].offset - start),
            &opened, &ignored,
        )
    if status == OK:
        opened = last - first
    elif status != CORRUPTION or first + opened <= i:
        failure[0] = ignored
        return status
    walk.window_offset = slots[first].offset
    walk.window_shift = <size_t>(slots[first].offset - start)
    walk.window_size = <size_t>(slots[first + opened].offset - slots[first].offset)
    walk.window_wanted = min(2 * walk.window_wanted, <size_t>WINDOW_BYTES_MAX)
    return OK


cdef int use_window(
    Walk* walk, Slot* slot, uint32_t i, bint backward, Failure* failure
) noexcept nogil:
    """Take block i from the window, reading it first if need be."""
    cdef IndexSlot* place = slot_of(walk, i)
    cdef uint64_t offset = place.offset
    cdef size_t raw = place.raw_size
    cdef uint8_t* stored
    cdef uint8_t* data
    cdef size_t size
    cdef int codec
    cdef int status
    if not is_in_window(walk, i):
        status = fill_window(walk, i, backward, failure)
        if status != OK:
            return status
    stored = walk.window + walk.window_shift + (offset - walk.window_offset)
    if walk.table.cipher != NULL:
        status = table_opened_block(walk.table, place, stored, &codec, &size, failure)
    else:
        status = table_check_block(walk.table, place, stored, &codec, &size, failure)
    if status != OK:
        return status
    # A walk takes what room there is, but drives out nothing: whoever walks over more than the
    # cache holds finds a part of it there the next time, as do those who read single keys.
    if not walk.fill_cache or not cache_has_room(walk.table.cache):
        if codec == CODEC_NONE:
            return open_cursor(walk, slot, i, stored, raw, failure)
        if grow(&slot.unpacked, &slot.unpacked_capacity, raw + 1):
            return no_memory(walk, failure)
        status = table_unpack(walk.table, place, stored, size, slot.unpacked, failure)
        if status != OK:
            return status
        return open_cursor(walk, slot, i, slot.unpacked, raw, failure)
    data = <uint8_t*>malloc(raw + 1)
    if data == NULL:
        return no_memory(walk, failure)
    if codec == CODEC_NONE:
        memcpy(data, stored, raw)
    else:
        status = table_unpack(walk.table, place, stored, size, data, failure)
        if status != OK:
            free(data)
            return status
    slot.pin = table_keep_block(walk.table, place, data, True, failure)
    if slot.pin == NULL:
        return NO_MEMORY
    return open_cursor(walk, slot, i, slot.pin.data, slot.pin.size, failure)


cdef int open_cursor(
    Walk* walk, Slot* slot, uint32_t i, const uint8_t* data, size_t size, Failure* failure
) noexcept nogil:
    if block_cursor_open(&slot.cursor, data, size) == OK:
        return OK
    return block_damaged(walk, i, failure)


cdef int block_damaged(Walk* walk, uint32_t i, Failure* failure) noexcept nogil:
    return table_damaged(
        walk.table, "a block is damaged", slot_of(walk, i).offset, failure
    )


cdef int enter(
    Walk* walk, Slot* slot, uint32_t i, bint may_block, Failure* failure
) noexcept nogil:
    """Open the slot's cursor on block i. Returns: OK, WOULD_BLOCK or an error."""
    cdef bint backward
    cdef bint in_a_row
    cdef int status
    status = reach(walk, i, may_block, failure)
    if unlikely(status != OK):
        return status
    release_slot(slot)
    slot.pin = table_cached_block(walk.table, slot_of(walk, i))
    if likely(slot.pin != NULL):
        return open_cursor(walk, slot, i, slot.pin.data, slot.pin.size, failure)
    if not may_block:
        return WOULD_BLOCK
    backward = i + 1 == walk.last_read
    in_a_row = backward or i == walk.last_read + 1
    walk.last_read = i
    if in_a_row or walk.readahead or is_in_window(walk, i):
        return use_window(walk, slot, i, backward, failure)
    walk.window_wanted = WINDOW_BYTES_FIRST
    status = table_block(walk.table, slot_of(walk, i), True, walk.fill_cache, &slot.pin, failure)
    if status != OK:
        return status
    return open_cursor(walk, slot, i, slot.pin.data, slot.pin.size, failure)


# ------------------------------------------------------------------------------------------- moves

cdef inline void publish(Source* source, const BlockCursor* cursor) noexcept nogil:
    source.key = cursor.key
    source.tag = cursor.tag
    source.value = cursor.value
    source.status = OK


cdef void arrive(Source* source, Walk* walk, uint32_t i) noexcept nogil:
    """The other slot's cursor stands where the source was to go: make it the active one."""
    release_slot(&walk.slots[walk.active])
    walk.active ^= 1
    walk.block = i
    publish(source, &walk.slots[walk.active].cursor)


cdef inline int ready(Walk* walk, bint may_block, Failure* failure) noexcept nogil:
    """Is the index there?"""
    cdef int status
    if likely(walk.index != NULL):
        return OK
    if not atomic_load(&walk.table.loaded):
        if not may_block:
            return WOULD_BLOCK
        status = table_file_load(walk.table, failure)
        if status != OK:
            return status
    if atomic_load(&walk.table.loaded) != IN_PARTS:
        walk.index = &walk.table.index
    return OK


cdef int find_block(
    Walk* walk, Slice key, uint64_t tag, uint32_t* i, bint may_block, Failure* failure
) noexcept nogil:
    """Find the first block that may hold entries at or after (key, tag); block_count: none."""
    cdef uint32_t part
    cdef int status
    if likely(walk.index == &walk.table.index):
        i[0] = index_find(walk.index, key, tag)
        return OK
    part = index_find(&walk.table.index, key, tag)
    i[0] = walk.table.block_count
    if part == walk.table.index.count:
        return OK
    status = reach(walk, part * PART_BLOCKS, may_block, failure)
    if status == OK:
        i[0] = walk.first + index_find(walk.index, key, tag)
    return status


cdef void finish_move(
    Source* source, Walk* walk, uint32_t i, int status, Failure* failure
) noexcept nogil:
    """`status`: what the cursor of the other slot answered in block i."""
    if likely(status == OK):
        arrive(source, walk, i)
        return
    if status == CORRUPTION:
        block_damaged(walk, i, failure)
    elif status == NO_MEMORY:
        no_memory(walk, failure)
    source.status = status


cdef void step_into(
    Source* source, Walk* walk, uint32_t i, bint forward, bint may_block, Failure* failure
) noexcept nogil:
    """Go to the first (forward) or last entry of block i."""
    cdef Slot* slot = &walk.slots[walk.active ^ 1]
    cdef int status = enter(walk, slot, i, may_block, failure)
    if status != OK:
        source.status = status
        return
    status = block_cursor_first(&slot.cursor) if forward else block_cursor_last(&slot.cursor)
    if status == END:
        status = CORRUPTION        # there are no empty blocks
    finish_move(source, walk, i, status, failure)


cdef void walk_first(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef Walk* walk = <Walk*>source.state
    source.status = ready(walk, may_block, failure)
    if source.status != OK:
        return
    if walk.table.block_count == 0:
        source.status = END
        return
    step_into(source, walk, 0, True, may_block, failure)


cdef void walk_last(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef Walk* walk = <Walk*>source.state
    source.status = ready(walk, may_block, failure)
    if source.status != OK:
        return
    if walk.table.block_count == 0:
        source.status = END
        return
    step_into(source, walk, walk.table.block_count - 1, False, may_block, failure)


cdef void walk_next(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef Walk* walk = <Walk*>source.state
    cdef BlockCursor* cursor = &walk.slots[walk.active].cursor
    cdef int status = block_cursor_next(cursor)
    if likely(status == OK):
        publish(source, cursor)
    elif status == END:
        if walk.block + 1 == walk.table.block_count:
            source.status = END
        else:
            step_into(source, walk, walk.block + 1, True, may_block, failure)
    else:
        finish_move(source, walk, walk.block, status, failure)


cdef void walk_prev(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef Walk* walk = <Walk*>source.state
    cdef BlockCursor* cursor = &walk.slots[walk.active].cursor
    cdef int status = block_cursor_prev(cursor)
    if likely(status == OK):
        publish(source, cursor)
    elif status == END:
        if walk.block == 0:
            source.status = END
        else:
            step_into(source, walk, walk.block - 1, False, may_block, failure)
    else:
        finish_move(source, walk, walk.block, status, failure)


cdef void walk_seek(
    Source* source, Slice key, uint64_t tag, bint may_block, Failure* failure
) noexcept nogil:
    cdef Walk* walk = <Walk*>source.state
    cdef Slot* slot = &walk.slots[walk.active ^ 1]
    cdef uint32_t i = 0
    cdef int status = ready(walk, may_block, failure)
    if likely(status == OK):
        status = find_block(walk, key, tag, &i, may_block, failure)
    if unlikely(status != OK):
        source.status = status
        return
    if i == walk.table.block_count:
        source.status = END
        return
    status = enter(walk, slot, i, may_block, failure)
    if status != OK:
        source.status = status
        return
    status = block_cursor_seek(&slot.cursor, key, tag)
    if status != END:
        finish_move(source, walk, i, status, failure)
    elif i + 1 == walk.table.block_count:
        source.status = END
    else:
        # The separator behind the block is at or after the key, but no entry of it is.
        step_into(source, walk, i + 1, True, may_block, failure)


cdef void walk_seek_back(
    Source* source, Slice key, uint64_t tag, bint may_block, Failure* failure
) noexcept nogil:
    cdef Walk* walk = <Walk*>source.state
    cdef Slot* slot = &walk.slots[walk.active ^ 1]
    cdef uint32_t i = 0
    cdef int status = ready(walk, may_block, failure)
    if likely(status == OK):
        status = find_block(walk, key, tag, &i, may_block, failure)
    if unlikely(status != OK):
        source.status = status
        return
    if walk.table.block_count == 0:
        source.status = END
        return
    if i == walk.table.block_count:
        step_into(source, walk, i - 1, False, may_block, failure)
        return
    status = enter(walk, slot, i, may_block, failure)
    if status != OK:
        source.status = status
        return
    status = block_cursor_seek_back(&slot.cursor, key, tag)
    if status != END:
        finish_move(source, walk, i, status, failure)
    elif i == 0:
        source.status = END
    else:
        step_into(source, walk, i - 1, False, may_block, failure)


# ------------------------------------------------------------------------------------ open, close

cdef void walk_close(Source* source) noexcept nogil:
    cdef Walk* walk = <Walk*>source.state
    cdef int i
    if walk == NULL:
        return
    for i in range(2):
        release_slot(&walk.slots[i])
        block_cursor_free(&walk.slots[i].cursor)
        free(walk.slots[i].unpacked)
    free(walk.window)
    index_free(&walk.own)
    table_file_unref(walk.table)
    free(walk)
    source.state = NULL
    source.status = END


cdef int source_open(
    Table* table, bint fill_cache, bint readahead, Source* out, Failure* failure
) noexcept nogil:
    cdef Walk* walk = <Walk*>calloc(1, sizeof(Walk))
    if walk == NULL:
        return fail(failure, NO_MEMORY, "no memory to read an SSTable", table.path, -1, 0)
    atomic_add(&table.references, 1)
    walk.table = table
    walk.fill_cache = fill_cache
    walk.last_read = NO_BLOCK - 1
    walk.readahead = readahead
    walk.window_wanted = WINDOW_BYTES_MAX if readahead else WINDOW_BYTES_FIRST
    block_cursor_init(&walk.slots[0].cursor)
    block_cursor_init(&walk.slots[1].cursor)
    out.status = END
    out.state = walk
    out.ops = &table_ops
    return OK


table_ops.first = walk_first
table_ops.last = walk_last
table_ops.seek = walk_seek
table_ops.seek_back = walk_seek_back
table_ops.next = walk_next
table_ops.prev = walk_prev
table_ops.close = walk_close
