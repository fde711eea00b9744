# The newest writes of one partition (see memtable.pxd for the contracts and the structure).

from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove

from dynalsm._core.coding cimport Slice, key_prefix, slice_compare, slice_of
from dynalsm._core.debug cimport IS_DEBUG_BUILD, require, scribble
from dynalsm._core.pages cimport pages_give, pages_take
from dynalsm._core.source cimport Source, SourceOps
from dynalsm._core.status cimport END, NO_MEMORY, OK, Failure
from dynalsm._core.sync cimport (
    atomic_add,
    atomic_sub,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)


cdef enum:
    FIRST_CHUNK_BYTES = 4096          # a memtable with a handful of entries stays small
    LAST_CHUNK_BYTES = 1 << 20
    PAGES_BYTES = 64 << 10            # chunks from this size on come straight from the system
    FIRST_SLOTS = 64

cdef uint64_t POINTER_MASK = (<uint64_t>1 << 48) - 1   # user-space addresses fit in 48 bits


cdef struct Chunk:
    Chunk* next
    size_t size                       # with this header


cdef inline Chunk* new_chunk(Memtable* table, size_t size) noexcept nogil:
    """A chunk with so many bytes behind its header, in the memtable's list. NULL: no memory."""
    cdef Chunk* chunk
    size += sizeof(Chunk)
    chunk = <Chunk*>(pages_take(size) if size >= PAGES_BYTES else malloc(size))
    if chunk != NULL:
        scribble(chunk, size)
        chunk.size = size
        chunk.next = <Chunk*>table.chunks
        table.chunks = chunk
        table.size_bytes += size
    return chunk


# ---------------------------------------------------------------------------------------- arena

cdef void* arena_take(Memtable* table, size_t size) noexcept nogil:
    """Bytes aligned to 8 that live as long as the memtable; NULL for want of memory."""
    cdef Chunk* chunk
    cdef size_t chunk_bytes
    cdef void* result
    size = (size + 7) & ~<size_t>7
    if size > table.chunk_left:
        while size > table.chunk_size // 4 and table.chunk_size < LAST_CHUNK_BYTES // 4:
            table.chunk_size *= 2
        chunk_bytes = table.chunk_size
        if size > chunk_bytes // 4:
            # A big entry gets a chunk of its own; the current one stays open.
            chunk = new_chunk(table, size)
            return <uint8_t*>chunk + sizeof(Chunk) if chunk != NULL else NULL
        chunk_bytes -= sizeof(Chunk)
        chunk = new_chunk(table, chunk_bytes)
        if chunk == NULL:
            return NULL
        table.chunk = <uint8_t*>chunk + sizeof(Chunk)
        table.chunk_left = chunk_bytes
        if table.chunk_size < LAST_CHUNK_BYTES:
            table.chunk_size *= 2
    result = table.chunk
    table.chunk += size
    table.chunk_left -= size
    return result


cdef Node* new_node(Memtable* table, bint is_leaf) noexcept nogil:
    cdef size_t size = sizeof(Node)
    if not is_leaf:
        size += (NODE_ENTRIES + 1) * sizeof(Node*)
    cdef Node* node = <Node*>arena_take(table, size)
    if node != NULL:
        node.next = NULL
        node.prev = NULL
        node.skip = 0
        node.count = 0
        node.is_leaf = is_leaf
    return node


cdef inline Node** children(Node* node) noexcept nogil:
    return <Node**>(<uint8_t*>node + sizeof(Node))


cdef inline Slice entry_key(const Entry* entry) noexcept nogil:
    return slice_of(&entry.data[0], entry.key_size)


# ------------------------------------------------------------------------------------- lifetime

cdef Memtable* memtable_create(uint64_t generation) noexcept nogil:
    cdef Memtable* table = <Memtable*>calloc(1, sizeof(Memtable))
    if table == NULL:
        return NULL
    table.references = 1
    table.generation = generation
    table.chunk_size = FIRST_CHUNK_BYTES
    table.min_seqno = <uint64_t>-1
    table.height = 1
    table.slots = <uint64_t*>calloc(FIRST_SLOTS, sizeof(uint64_t))
    table.slot_count = FIRST_SLOTS
    if table.slots != NULL:
        table.root = new_node(table, True)
    if table.slots == NULL or table.root == NULL or pthread_mutex_init(&table.mutex, NULL):
        free_everything(table)
        return NULL
    table.size_bytes += FIRST_SLOTS * sizeof(uint64_t) + sizeof(Memtable)
    table.first_leaf = table.root
    table.last_leaf = table.root
    return table


cdef void free_everything(Memtable* table) noexcept nogil:
    cdef Chunk* chunk = <Chunk*>table.chunks
    cdef Chunk* following
    while chunk != NULL:
        following = chunk.next
        if chunk.size >= PAGES_BYTES:
            pages_give(chunk, chunk.size)
        else:
            free(chunk)
        chunk = following
    free(table.slots)
    range_list_free(&table.ranges)
    free(table)


cdef void memtable_ref(Memtable* table) noexcept nogil:
    require(table.references != 0)
    atomic_add(&table.references, 1)


cdef void memtable_unref(Memtable* table) noexcept nogil:
    if table != NULL and atomic_sub(&table.references, 1) == 0:
        pthread_mutex_destroy(&table.mutex)
        free_everything(table)


# --------------------------------------------------------------------------------- nodes: search

cdef inline int entry_order(const Entry* entry, Slice key, uint64_t tag) noexcept nogil:
    """Internal order of an entry relative to (key, tag): <0, 0 or >0."""
    cdef int order = slice_compare(entry_key(entry), key)
    if order:
        return order
    return (entry.tag < tag) - (entry.tag > tag)


cdef inline int node_rank(const Node* node, Slice key, uint64_t tag, bint inclusive) noexcept nogil:
    """How many entries of the node lie before (key, tag); inclusive: or are equal to it."""
    cdef int count = node.count
    cdef uint32_t skip = node.skip
    cdef int order, low, high, middle, half
    cdef uint64_t wanted
    if count == 0:
        return 0
    if skip:
        if key.size < skip:
            order = memcmp(key.data, &node.entry[0].data[0], key.size)
            return count if order > 0 else 0
        order = memcmp(key.data, &node.entry[0].data[0], skip)
        if order:
            return count if order > 0 else 0
    wanted = key_prefix(key, skip)
    # Lower bound over the dense prefixes, without unpredictable branches.
    cdef const uint64_t* base = &node.prefix[0]
    low = 0
    half = count
    while half > 1:
        middle = half >> 1
        low += middle if base[low + middle - 1] < wanted else 0
        half -= middle
    if base[low] < wanted:
        low += 1
    if low == count or base[low] != wanted:
        return low
    # Ties: full comparisons, by halving.
    high = low + 1
    while high < count and base[high] == wanted:
        high += 1
    while low < high:
        middle = (low + high) >> 1
        order = entry_order(node.entry[middle], key, tag)
        if order < 0 or (inclusive and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline Node* find_leaf(Memtable* table, Slice key, uint64_t tag) noexcept nogil:
    cdef Node* node = table.root
    cdef int _level
    for _level in range(table.height - 1):
        node = children(node)[node_rank(node, key, tag, True)]
    return node


# --------------------------------------------------------------------------------- nodes: insert

cdef inline uint32_t shared_prefix(const Entry* a, const Entry* b) noexcept nogil:
    cdef uint32_t limit = a.key_size if a.key_size < b.key_size else b.key_size
    cdef uint32_t position = 0
    while position < limit and a.data[position] == b.data[position]:
        position += 1
    return position


cdef void refresh_prefixes(Node* node) noexcept nogil:
    """Recompute skip from the outer keys (they are sorted) and every prefix."""
    cdef int index
    if node.count == 0:
        node.skip = 0
        return
    node.skip = shared_prefix(node.entry[0], node.entry[node.count - 1])
    for index in range(node.count):
        node.prefix[index] = key_prefix(entry_key(node.entry[index]), node.skip)


cdef void node_insert(Node* node, int place, Entry* entry, Node* child) noexcept nogil:
    """REQUIRES: room for one. `child` goes to the right of the separator (inner nodes)."""
    cdef int after = node.count - place
    cdef Node** kids
    require(node.count < NODE_ENTRIES)
    require(after >= 0)
    memmove(&node.entry[place + 1], &node.entry[place], after * sizeof(Entry*))
    memmove(&node.prefix[place + 1], &node.prefix[place], after * sizeof(uint64_t))
    node.entry[place] = entry
    if not node.is_leaf:
        kids = children(node)
        memmove(&kids[place + 2], &kids[place + 1], after * sizeof(Node*))
        kids[place + 1] = child
    node.count += 1
    # Between two keys the shared prefix holds for the new key too; at the edges it may shrink.
    if node.count == 1 or (
        (place == 0 or after == 0)
        and (entry.key_size < node.skip
             or memcmp(&entry.data[0], &node.entry[1 if place == 0 else 0].data[0], node.skip))
    ):
        refresh_prefixes(node)
    else:
        node.prefix[place] = key_prefix(entry_key(entry), node.skip)
    if IS_DEBUG_BUILD:
        require(in_order(node, place - 1))
        require(in_order(node, place))


cdef inline bint in_order(const Node* node, int place) noexcept nogil:
    """Whether the entry at that place lies before the next one, if there are both."""
    cdef const Entry* entry
    if place < 0 or place + 1 >= node.count:
        return True
    entry = node.entry[place + 1]
    return entry_order(node.entry[place], entry_key(entry), entry.tag) < 0


cdef Node* split_leaf(Memtable* table, Node* leaf, int keep) noexcept nogil:
    cdef Node* right = new_node(table, True)
    if right == NULL:
        return NULL
    right.count = leaf.count - keep
    memcpy(&right.entry[0], &leaf.entry[keep], right.count * sizeof(Entry*))
    leaf.count = keep
    right.next = leaf.next
    right.prev = leaf
    if leaf.next != NULL:
        leaf.next.prev = right
    else:
        table.last_leaf = right
    leaf.next = right
    refresh_prefixes(leaf)
    refresh_prefixes(right)
    return right


cdef Node* split_inner(Memtable* table, Node* node, Entry** separator) noexcept nogil:
    """The middle separator moves up; *separator receives it."""
    cdef int keep = node.count // 2
    cdef Node* right = new_node(table, False)
    if right == NULL:
        return NULL
    right.count = node.count - keep - 1
    separator[0] = node.entry[keep]
    memcpy(&right.entry[0], &node.entry[keep + 1], right.count * sizeof(Entry*))
    memcpy(children(right), &children(node)[keep + 1], (right.count + 1) * sizeof(Node*))
    node.count = keep
    refresh_prefixes(node)
    refresh_prefixes(right)
    return right


cdef int grow_root(Memtable* table, Entry* separator, Node* right) noexcept nogil:
    cdef Node* root = new_node(table, False)
    if root == NULL:
        return NO_MEMORY
    children(root)[0] = table.root
    node_insert(root, 0, separator, right)
    table.root = root
    table.height += 1
    return OK


cdef int tree_insert(Memtable* table, Entry* entry) noexcept nogil:
    cdef Node* path[MAX_HEIGHT]
    cdef int places[MAX_HEIGHT]
    cdef Node* node = table.root
    cdef Node* right
    cdef Entry* separator
    cdef Slice key = entry_key(entry)
    cdef int level, place, keep
    cdef Node* last = table.last_leaf
    # Ascending loads: straight to the last leaf while it has room.
    if last.count and last.count < NODE_ENTRIES and (
        entry_order(last.entry[last.count - 1], key, entry.tag) < 0
    ):
        node_insert(last, last.count, entry, NULL)
        return OK
    for level in range(table.height - 1):
        path[level] = node
        places[level] = node_rank(node, key, entry.tag, True)
        node = children(node)[places[level]]
    place = node_rank(node, key, entry.tag, False)
    if node.count < NODE_ENTRIES:
        node_insert(node, place, entry, NULL)
        return OK
    # Reserve before changing anything: a failed split must leave the tree whole.
    if node.next == NULL and place == node.count:
        keep = NODE_ENTRIES            # ascending: leave the full leaf behind
    else:
        keep = NODE_ENTRIES // 2
    right = split_leaf(table, node, keep)
    if right == NULL:
        return NO_MEMORY
    if place > keep or (place == keep and keep == NODE_ENTRIES):
        node_insert(right, place - keep, entry, NULL)
    else:
        node_insert(node, place, entry, NULL)
    separator = right.entry[0]
    level = table.height - 2
    while level >= 0:
        node = path[level]
        if node.count < NODE_ENTRIES:
            node_insert(node, places[level], separator, right)
            return OK
        right = insert_splitting(table, node, places[level], &separator, right)
        if right == NULL:
            return NO_MEMORY
        level -= 1
    return grow_root(table, separator, right)


cdef Node* insert_splitting(
    Memtable* table, Node* node, int place, Entry** separator, Node* child
) noexcept nogil:
    """Split a full inner node, then insert (separator, child); returns the new right sibling."""
    cdef Entry* raised = NULL
    cdef Node* right = split_inner(table, node, &raised)
    if right == NULL:
        return NULL
    if place <= node.count:
        node_insert(node, place, separator[0], child)
    else:
        node_insert(right, place - node.count - 1, separator[0], child)
    separator[0] = raised
    return right


# ------------------------------------------------------------------------------------ hash index

cdef inline uint64_t slot_value(const Entry* entry) noexcept nogil:
    return (<uint64_t>entry) | (entry.hash & ~POINTER_MASK)


cdef int grow_slots(Memtable* table) noexcept nogil:
    cdef uint64_t count = table.slot_count * 2
    cdef uint64_t* slots = <uint64_t*>calloc(count, sizeof(uint64_t))
    cdef uint64_t index, place, value
    if slots == NULL:
        return NO_MEMORY
    for index in range(table.slot_count):
        value = table.slots[index]
        if value:
            place = (<Entry*>(value & POINTER_MASK)).hash & (count - 1)
            while slots[place]:
                place = (place + 1) & (count - 1)
            slots[place] = value
    table.size_bytes += (count - table.slot_count) * sizeof(uint64_t)
    free(table.slots)
    table.slots = slots
    table.slot_count = count
    return OK


cdef inline uint64_t find_slot(const Memtable* table, Slice key, uint64_t key_hash) noexcept nogil:
    """The slot of the key, or the empty slot where it would go."""
    cdef uint64_t mask = table.slot_count - 1
    cdef uint64_t place = key_hash & mask
    cdef uint64_t value
    cdef const Entry* entry
    while True:
        value = table.slots[place]
        if value == 0:
            return place
        if (value ^ key_hash) & ~POINTER_MASK == 0:
            entry = <const Entry*>(value & POINTER_MASK)
            if entry.key_size == key.size and memcmp(&entry.data[0], key.data, key.size) == 0:
                return place
        place = (place + 1) & mask


# --------------------------------------------------------------------------------- insert and get

cdef int memtable_insert(
    Memtable* table, Slice key, uint64_t key_hash, uint64_t tag, Slice value
) noexcept nogil:
    cdef int status
    pthread_mutex_lock(&table.mutex)
    status = insert_locked(table, key, key_hash, tag, value)
    pthread_mutex_unlock(&table.mutex)
    return status


cdef int insert_locked(
    Memtable* table, Slice key, uint64_t key_hash, uint64_t tag, Slice value
) noexcept nogil:
    cdef uint64_t place
    cdef int status
    cdef Entry* entry
    if table.slots_used * 2 >= table.slot_count and grow_slots(table):
        return NO_MEMORY
    entry = <Entry*>arena_take(table, sizeof(Entry) + key.size + value.size)
    if entry == NULL:
        return NO_MEMORY
    entry.tag = tag
    entry.hash = key_hash
    entry.key_size = <uint32_t>key.size
    entry.value_size = <uint32_t>value.size
    memcpy(&entry.data[0], key.data, key.size)
    memcpy(&entry.data[0] + key.size, value.data, value.size)
    status = tree_insert(table, entry)
    if status:
        return status
    place = find_slot(table, key, key_hash)
    if table.slots[place]:
        entry.older = <Entry*>(table.slots[place] & POINTER_MASK)
    else:
        entry.older = NULL
        table.slots_used += 1
    table.slots[place] = slot_value(entry)
    table.version += 1
    table.entries += 1
    table.deletions += (tag & 0xFF) == 0
    table.data_bytes += key.size + value.size
    if tag >> 8 < table.min_seqno:
        table.min_seqno = tag >> 8
    if tag >> 8 > table.max_seqno:
        table.max_seqno = tag >> 8
    return OK


cdef int memtable_delete_range(
    Memtable* table, Slice lower, Slice upper, uint64_t seqno
) noexcept nogil:
    cdef int status
    pthread_mutex_lock(&table.mutex)
    status = range_list_add(&table.ranges, lower, upper, seqno)
    if status == OK:
        if seqno < table.min_seqno:
            table.min_seqno = seqno
        if seqno > table.max_seqno:
            table.max_seqno = seqno
        table.size_bytes += lower.size + upper.size + sizeof(RangeDelete)
    pthread_mutex_unlock(&table.mutex)
    return status


cdef const Entry* memtable_get(
    Memtable* table, Slice key, uint64_t key_hash, uint64_t seqno
) noexcept nogil:
    cdef const Entry* entry
    pthread_mutex_lock(&table.mutex)
    entry = <const Entry*>(table.slots[find_slot(table, key, key_hash)] & POINTER_MASK)
    pthread_mutex_unlock(&table.mutex)
    while entry != NULL and entry.tag >> 8 > seqno:
        entry = entry.older
    return entry


cdef double memtable_share_before(Memtable* table, Slice key) noexcept nogil:
    cdef double low = 0.0
    cdef double width = 1.0
    cdef Node* node
    cdef int rank, _level
    pthread_mutex_lock(&table.mutex)
    node = table.root
    for _level in range(table.height - 1):
        rank = node_rank(node, key, <uint64_t>-1, True)
        width /= node.count + 1
        low += rank * width
        node = children(node)[rank]
    if node.count:
        low += width * node_rank(node, key, <uint64_t>-1, False) / node.count
    pthread_mutex_unlock(&table.mutex)
    return low


# ---------------------------------------------------------------------------------------- source

cdef struct MemtableCursor:
    Memtable* table          # referenced
    Node* leaf
    int index
    uint64_t version


cdef inline void settle(Source* source, MemtableCursor* cursor) noexcept nogil:
    """Publish the entry at (leaf, index), or the end. REQUIRES: the mutex."""
    while cursor.leaf != NULL and cursor.index >= cursor.leaf.count:
        cursor.leaf = cursor.leaf.next
        cursor.index = 0
    publish(source, cursor)


cdef inline void settle_back(Source* source, MemtableCursor* cursor) noexcept nogil:
    while cursor.leaf != NULL and cursor.index < 0:
        cursor.leaf = cursor.leaf.prev
        cursor.index = cursor.leaf.count - 1 if cursor.leaf != NULL else 0
    publish(source, cursor)


cdef inline void publish(Source* source, MemtableCursor* cursor) noexcept nogil:
    cdef const Entry* entry
    cursor.version = cursor.table.version
    if cursor.leaf == NULL:
        source.status = END
        return
    entry = cursor.leaf.entry[cursor.index]
    source.status = OK
    source.tag = entry.tag
    source.key = entry_key(entry)
    source.value = slice_of(&entry.data[0] + entry.key_size, entry.value_size)


cdef void source_first(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef MemtableCursor* cursor = <MemtableCursor*>source.state
    pthread_mutex_lock(&cursor.table.mutex)
    cursor.leaf = cursor.table.first_leaf
    cursor.index = 0
    settle(source, cursor)
    pthread_mutex_unlock(&cursor.table.mutex)


cdef void source_last(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef MemtableCursor* cursor = <MemtableCursor*>source.state
    pthread_mutex_lock(&cursor.table.mutex)
    cursor.leaf = cursor.table.last_leaf
    cursor.index = cursor.leaf.count - 1
    settle_back(source, cursor)
    pthread_mutex_unlock(&cursor.table.mutex)


cdef void source_seek(
    Source* source, Slice key, uint64_t tag, bint may_block, Failure* failure
) noexcept nogil:
    cdef MemtableCursor* cursor = <MemtableCursor*>source.state
    pthread_mutex_lock(&cursor.table.mutex)
    cursor.leaf = find_leaf(cursor.table, key, tag)
    cursor.index = node_rank(cursor.leaf, key, tag, False)
    settle(source, cursor)
    pthread_mutex_unlock(&cursor.table.mutex)


cdef void source_seek_back(
    Source* source, Slice key, uint64_t tag, bint may_block, Failure* failure
) noexcept nogil:
    cdef MemtableCursor* cursor = <MemtableCursor*>source.state
    pthread_mutex_lock(&cursor.table.mutex)
    cursor.leaf = find_leaf(cursor.table, key, tag)
    cursor.index = node_rank(cursor.leaf, key, tag, True) - 1
    settle_back(source, cursor)
    pthread_mutex_unlock(&cursor.table.mutex)


cdef inline void find_again(Source* source, MemtableCursor* cursor) noexcept nogil:
    """Inserts may have moved the current entry to another place."""
    if cursor.version != cursor.table.version:
        cursor.leaf = find_leaf(cursor.table, source.key, source.tag)
        cursor.index = node_rank(cursor.leaf, source.key, source.tag, False)


cdef void source_next(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef MemtableCursor* cursor = <MemtableCursor*>source.state
    pthread_mutex_lock(&cursor.table.mutex)
    find_again(source, cursor)
    cursor.index += 1
    settle(source, cursor)
    pthread_mutex_unlock(&cursor.table.mutex)


cdef void source_prev(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef MemtableCursor* cursor = <MemtableCursor*>source.state
    pthread_mutex_lock(&cursor.table.mutex)
    find_again(source, cursor)
    cursor.index -= 1
    settle_back(source, cursor)
    pthread_mutex_unlock(&cursor.table.mutex)


cdef void source_close(Source* source) noexcept nogil:
    cdef MemtableCursor* cursor = <MemtableCursor*>source.state
    if cursor != NULL:
        memtable_unref(cursor.table)
        free(cursor)
        source.state = NULL


cdef SourceOps OPS
OPS.first = source_first
OPS.last = source_last
OPS.seek = source_seek
OPS.seek_back = source_seek_back
OPS.next = source_next
OPS.prev = source_prev
OPS.close = source_close


cdef int memtable_source(Memtable* table, Source* out) noexcept nogil:
    cdef MemtableCursor* cursor = <MemtableCursor*>calloc(1, sizeof(MemtableCursor))
    if cursor == NULL:
        return NO_MEMORY
    memtable_ref(table)
    cursor.table = table
    out.status = END
    out.state = cursor
    out.ops = &OPS
    return OK


# --------------------------------------------------------------------------------- range deletes

cdef void range_list_free(RangeList* ranges) noexcept nogil:
    cdef uint32_t index
    for index in range(ranges.count):
        free(ranges.items[index].lower)
        free(ranges.items[index].upper)
    free(ranges.items)
    ranges.items = NULL
    ranges.count = 0
    ranges.capacity = 0


cdef int range_list_add(
    RangeList* ranges, Slice lower, Slice upper, uint64_t seqno
) noexcept nogil:
    cdef uint32_t capacity
    cdef RangeDelete* items
    cdef RangeDelete* item
    if ranges.count == ranges.capacity:
        capacity = ranges.capacity * 2 if ranges.capacity else 4
        items = <RangeDelete*>realloc(ranges.items, capacity * sizeof(RangeDelete))
        if items == NULL:
            return NO_MEMORY
        ranges.items = items
        ranges.capacity = capacity
    item = &ranges.items[ranges.count]
    item.lower = <uint8_t*>malloc(lower.size + 1)
    item.upper = <uint8_t*>malloc(upper.size + 1) if upper.data != NULL else NULL
    if item.lower == NULL or (item.upper == NULL and upper.data != NULL):
        free(item.lower)
        free(item.upper)
        return NO_MEMORY
    memcpy(item.lower, lower.data, lower.size)
    if upper.data != NULL:
        memcpy(item.upper, upper.data, upper.size)
    item.lower_size = <uint32_t>lower.size
    item.upper_size = <uint32_t>upper.size
    item.seqno = seqno
    ranges.count += 1
    return OK


cdef uint64_t range_list_covering(
    const RangeList* ranges, Slice key, uint64_t seqno
) noexcept nogil:
    cdef uint64_t best = 0
    cdef uint32_t index
    cdef const RangeDelete* item
    for index in range(ranges.count):
        item = &ranges.items[index]
        if item.seqno > seqno or item.seqno <= best:
            continue
        if slice_compare(key, slice_of(item.lower, item.lower_size)) < 0:
            continue
        if item.upper != NULL and slice_compare(key, slice_of(item.upper, item.upper_size)) >= 0:
            continue
        best = item.seqno
    return best
